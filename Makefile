# Everything happens inside this checkout: Python packages in .venv, Node packages in .node.

PYTHON ?= python3
# Processes that share the tests: more than two for two cores, since many tests wait for somebody.
JOBS ?= 4
# Each process takes neighbours, who share what they are made of, until one has nothing left and takes from another.
SHARED := -n $(JOBS) --dist worksteal
# Compiled files are kept, whatever the environment says: the tests start Carrel hundreds of times.
export PYTHONDONTWRITEBYTECODE :=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

NODE_PACKAGES := node@24 @modelcontextprotocol/inspector@2.12.0 @modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/client@2.3.1 @modelcontextprotocol/server-everything@2026.8.31
NODE := .node
NODE_BIN := $(NODE)/node_modules/.bin
NODE_READY := $(NODE)/.ready-$(subst /,-,$(subst $() ,_,$(NODE_PACKAGES)))

# The hosts that are run against a scripted model, apart from the rest: only `make hosts` fetches them.
HOST_PACKAGES := @anthropic-ai/claude-code@2.1.326 @openai/codex@0.169.0 @google/gemini-cli@0.61.0 opencode-ai@1.18.33 @qwen-code/qwen-code@0.24.4 @github/copilot@1.0.102 @continuedev/cli@1.5.47 cline@3.0.65
HOSTS := .hosts
HOSTS_READY := $(HOSTS)/.ready-$(shell echo '$(HOST_PACKAGES)' | cksum | cut -d ' ' -f 1)

# The browser in which the explorer's tests read its pages, and what looks for faults in them. Python's playwright, a
# development package, brings playwright-core along; only `make browser` fetches these.
BROWSER_PACKAGES := @sparticuz/chromium@153.0.0 axe-core@4.14.0 vnu-jar@26.9.27
BROWSER := .browser
BROWSER_READY := $(BROWSER)/.ready-$(shell echo '$(BROWSER_PACKAGES)' | cksum | cut -d ' ' -f 1)

# A longer run: make fuzz LONG=1
PROFILE := $(if $(LONG),long,ci)
# Everything but what starts real servers or clients, or takes long by its nature.
FAST := tests $(addprefix --ignore=tests/,browser conformance e2e fuzz hostile hosts)
UNIT := $(FAST) --ignore=tests/property
FETCH_LOG := .fetch.log
# Stop at the first phase that fails, or with -k remember it.
OR_ELSE := || $(if $(findstring k,$(firstword -$(MAKEFLAGS))),failed=1,exit 1)
CONFORMANCE := $(if $(wildcard tests/conformance/test_*.py),tests/conformance)

.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(READY) ## See what a desk holds, through a real MCP client
	@$(BIN)/python examples/demo.py

.PHONY: team
team: $(READY) ## A team desk on this machine: Postgres, an S3 store, NATS, three replicas and a balancer
	@$(BIN)/python -m deploy.team

.PHONY: check
check: $(READY) ## The fast loop: format, lint, types, unit and property tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@# The type checker runs beside the tests, and takes the place of one of their processes: each collects all tests.
	$(BIN)/mypy & types=$$!; \
	$(BIN)/pytest -q -n 3 --dist worksteal --hypothesis-profile=dev -m "not slow" $(FAST); tests=$$?; \
	wait $$types && exit $$tests

.PHONY: slow
slow: $(READY) ## The tests that take long by their nature, and the laws with many more examples
	$(BIN)/pytest -q $(SHARED) --hypothesis-profile=dev -m slow $(UNIT)
	$(BIN)/pytest -q $(SHARED) --hypothesis-profile=ci tests/property

.PHONY: fuzz
fuzz: $(READY) ## Hostile messages and byte streams; LONG=1 for many more
	$(BIN)/pytest -q $(SHARED) --hypothesis-profile=$(PROFILE) tests/fuzz

.PHONY: hostile
hostile: $(READY) ## Every face over hostile repositories, watched from outside
	$(BIN)/pytest -q $(SHARED) tests/hostile

.PHONY: e2e
e2e: $(READY) $(NODE_READY) ## Real clients against a real server
	PATH="$(CURDIR)/$(NODE_BIN):$$PATH" $(BIN)/pytest -q $(SHARED) --hypothesis-profile=ci -m "not alone" tests/e2e $(CONFORMANCE)
	$(BIN)/pytest -q --hypothesis-profile=ci -m alone tests/e2e

.PHONY: hosts
hosts: $(READY) $(NODE_READY) $(HOSTS_READY) ## Real hosts with a scripted model, such as Claude Code and Codex
	$(BIN)/pytest -q -n $(JOBS) --dist loadfile tests/hosts

.PHONY: hosts-record
hosts-record: $(READY) $(NODE_READY) $(HOSTS_READY) ## Write down what the hosts do: tests/hosts/seen and docs/hosts.md
	CARREL_RECORD_HOSTS=1 $(BIN)/pytest -q -n $(JOBS) --dist loadfile tests/hosts
	$(BIN)/python -m scripts.docs

.PHONY: browser
browser: $(READY) $(NODE_READY) $(BROWSER_READY) ## The explorer in a real browser
	$(BIN)/pytest -q -n 2 --dist loadfile tests/browser

.PHONY: conformance
conformance: $(READY) $(NODE_READY) ## The official conformance suite, both eras
	PATH="$(CURDIR)/$(NODE_BIN):$$PATH" $(BIN)/pytest -q $(SHARED) tests/conformance

.PHONY: bench
bench: $(READY) ## Measure Carrel beside its peers, about a quarter of an hour; writes docs/performance/
	@command -v npm >/dev/null || { echo "The peers need npm, to be fetched into .bench" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "The floor needs a C compiler, named cc" >&2; exit 1; }
	$(BIN)/python -m bench.install
	$(BIN)/python -m bench.run --check --out docs/performance

.PHONY: bench-providers
bench-providers: $(READY) ## Measure the providers beside what they are made of; writes bench/results/
	$(BIN)/python -m bench.workspace --json bench/results/workspace.json
	$(BIN)/python -m bench.scopes --json bench/results/scopes.json
	$(BIN)/python -m bench.alc --json bench/results/alc.json
	$(BIN)/python -m bench.sage --json bench/results/sage.json
	$(BIN)/python -m bench.mounts
	$(BIN)/python -m bench.logs --json bench/results/logs.json
	$(BIN)/python -m bench.search --json bench/results/search.json
	$(BIN)/python -m bench.explorer --check --json bench/results/explorer.json
	$(BIN)/python -m bench.history --check --json bench/results/history.json
	$(BIN)/python -m bench.tokens --json bench/results/tokens.json

.PHONY: bench-smoke
bench-smoke: $(READY) ## The same in short; fails where a several-fold margin is gone
	$(BIN)/python -m bench.run --smoke --check
	$(BIN)/python -m bench.workspace --smoke --check
	$(BIN)/python -m bench.scopes --smoke --check
	$(BIN)/python -m bench.alc --smoke --check
	$(BIN)/python -m bench.sage --smoke --check
	$(BIN)/python -m bench.mounts --smoke --check
	$(BIN)/python -m bench.logs --smoke --check
	$(BIN)/python -m bench.search --smoke --check
	$(BIN)/python -m bench.explorer --smoke --check
	$(BIN)/python -m bench.history --smoke --check
	$(BIN)/python -m bench.tokens --smoke --check

.PHONY: fetch
fetch: $(NODE_READY) $(BROWSER_READY) $(HOSTS_READY) ## Fetch what only some tests need: Node, a browser, the hosts

# 2.3 GB come while the tests run that need none of it, and give way to them. What cannot be fetched is said when it is
# needed; with -k the rest runs all the same.
.PHONY: test
test: export CARREL_NO_SKIPS = 1
test: ## Everything; a skipped test is a failure
	@nice -n 19 $(MAKE) --no-print-directory fetch > $(FETCH_LOG) 2>&1 & fetching=$$!; \
	trap 'kill $$fetching 2>/dev/null' EXIT; \
	$(MAKE) --no-print-directory check slow hostile fuzz $(OR_ELSE); \
	wait $$fetching || { cat $(FETCH_LOG) >&2; exit 1; }; \
	$(MAKE) --no-print-directory e2e browser hosts bench-smoke $(OR_ELSE); \
	exit $${failed:-0}

.PHONY: docs
docs: $(READY) ## Write the pages that are generated
	$(BIN)/python -m scripts.docs

.PHONY: picture
picture: $(READY) ## Take the picture of the demo again: docs/demo.svg
	$(BIN)/python examples/demo.py --svg docs/demo.svg

.PHONY: clean
clean: ## Remove everything that was made here
	rm -rf $(VENV) $(NODE) $(HOSTS) $(BROWSER) $(FETCH_LOG) .bench build dist bench/results .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Made again whenever pyproject.toml changes; the stamp is written last, so a broken install is repeated.
$(READY): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Carrel needs Python 3.11 or newer, and '$(PYTHON)' is not there: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Carrel needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1): make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "'$(PYTHON)' cannot make virtual environments: install its venv package (on Debian and Ubuntu: python3-venv)" >&2; exit 1; }
	@echo "Setting up $(VENV) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[dev]'
	@# Compile the tests once; otherwise each process of the first run does it for itself.
	@$(BIN)/pytest -q --collect-only tests >/dev/null || true
	@touch $@

# The stamp's name holds the versions. `allowScripts` lets the node package put its binary in place under npm 12.
$(NODE_READY):
	@command -v npm >/dev/null || { echo "The end-to-end tests need npm, to fetch $(NODE_PACKAGES) into $(NODE)" >&2; exit 1; }
	@echo "Setting up $(NODE) …"
	@rm -rf $(NODE) && mkdir $(NODE)
	@echo '{"private": true, "allowScripts": {"node": true}}' > $(NODE)/package.json
	@npm install --prefix $(NODE) --no-audit --no-fund --loglevel=error $(NODE_PACKAGES)
	@$(NODE_BIN)/node --version | grep -q '^v24\.' || { echo "npm did not provide Node 24 in $(NODE_BIN)" >&2; exit 1; }
	@touch $@

$(HOSTS_READY):
	@command -v npm >/dev/null || { echo "The tests with real hosts need npm, to fetch $(HOST_PACKAGES) into $(HOSTS)" >&2; exit 1; }
	@echo "Setting up $(HOSTS) …"
	@rm -rf $(HOSTS) && mkdir $(HOSTS)
	@echo '{"private": true, "allowScripts": {"@anthropic-ai/claude-code": true, "opencode-ai": true}}' > $(HOSTS)/package.json
	@npm install --prefix $(HOSTS) --no-audit --no-fund --loglevel=error $(HOST_PACKAGES) || { echo "npm could not fetch the hosts: $(HOST_PACKAGES)" >&2; exit 1; }
	@touch $@

# The browser is packed for machines without its libraries and without fonts: what a machine lacks is beside it.
$(BROWSER_READY): $(NODE_READY) tests/browser/unpack.mjs
	@command -v npm >/dev/null || { echo "The tests in a browser need npm, to fetch $(BROWSER_PACKAGES) into $(BROWSER)" >&2; exit 1; }
	@echo "Setting up $(BROWSER) …"
	@rm -rf $(BROWSER) && mkdir -p $(BROWSER)/chromium
	@echo '{"private": true}' > $(BROWSER)/package.json
	@npm install --prefix $(BROWSER) --no-audit --no-fund --loglevel=error $(BROWSER_PACKAGES) || { echo "npm could not fetch what the tests in a browser need: $(BROWSER_PACKAGES)" >&2; exit 1; }
	@TMPDIR=$(CURDIR)/$(BROWSER)/chromium $(NODE_BIN)/node tests/browser/unpack.mjs $(CURDIR)/$(BROWSER)
	@touch $@
