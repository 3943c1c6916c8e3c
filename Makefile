# Everything happens inside this checkout: Python packages in .venv, Node packages in .node.

PYTHON ?= python3
# Number of test processes: more than the two cores, since many tests wait for something.
JOBS ?= 4
# Each process gets neighbouring tests, which share fixtures; one that has finished takes tests from another.
SHARED := -n $(JOBS) --dist worksteal
# Keep compiled files even if the environment says otherwise: the tests start Carrel hundreds of times.
export PYTHONDONTWRITEBYTECODE :=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Before a command: keeps its temporary files in memory.
IN_MEMORY = $(BIN)/python -m scripts.in_memory

# What tests need from npm: a folder below tests/npm for each, with the exact version of every package.
NODE := .node
NODE_BIN := $(NODE)/node_modules/.bin
NODE_READY := $(NODE)/.ready
# The hosts that are run against a scripted model; only `make hosts` fetches them.
HOSTS_READY := .hosts/.ready
# The browser for the tests of the explorer, and a checker of its pages. Python's playwright, a development package,
# includes playwright-core; only `make browser` fetches these.
BROWSER := .browser
BROWSER_READY := $(BROWSER)/.ready

# A longer run: make fuzz LONG=1
PROFILE := $(if $(LONG),long,ci)
# Tests that start real servers or clients, or take long; `check` and `slow` run all others.
ELSEWHERE := browser conformance e2e fuzz hostile hosts
UNIT := tests $(addprefix --ignore=tests/,$(ELSEWHERE) property)
FETCH_LOG := .fetch.log
# Stop at the first phase that fails; with -k go on, and fail at the end.
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
check: $(READY) ## The fast loop: format, lint, types and unit tests
	$(IN_MEMORY) $(BIN)/python -m scripts.check $(ELSEWHERE) property

.PHONY: slow
slow: $(READY) ## The tests that take long, and the laws with many more examples
	$(IN_MEMORY) $(BIN)/pytest -q $(SHARED) --hypothesis-profile=dev -m slow $(UNIT)
	$(IN_MEMORY) $(BIN)/pytest -q $(SHARED) --hypothesis-profile=ci tests/property

.PHONY: fuzz
fuzz: $(READY) ## Hostile messages and byte streams; LONG=1 for many more
	$(BIN)/pytest -q $(SHARED) --hypothesis-profile=$(PROFILE) tests/fuzz

.PHONY: hostile
hostile: $(READY) ## Carrel in hostile repositories, observed from outside
	$(BIN)/pytest -q $(SHARED) tests/hostile

.PHONY: e2e
e2e: $(READY) $(NODE_READY) ## Real clients against a real server
	PATH="$(CURDIR)/$(NODE_BIN):$$PATH" $(BIN)/pytest -q $(SHARED) --hypothesis-profile=ci -m "not alone" tests/e2e $(CONFORMANCE)
	$(BIN)/pytest -q --hypothesis-profile=ci -m alone tests/e2e

.PHONY: hosts
hosts: $(READY) $(NODE_READY) $(HOSTS_READY) ## Real hosts with a scripted model, such as Claude Code and Codex
	$(BIN)/pytest -q -n $(JOBS) --dist loadfile tests/hosts

.PHONY: hosts-record
hosts-record: $(READY) $(NODE_READY) $(HOSTS_READY) ## Record what the hosts do: tests/hosts/seen and docs/hosts.md
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
bench-providers: $(READY) ## Measure each provider beside a baseline; writes bench/results/
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
bench-smoke: $(READY) ## A short run of both; fails if a margin of several times is lost
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

# Fetches 2.3 GB at low priority while the tests run that need none of it. If that fails, the log is shown when the
# fetched things are needed; with -k the other phases run all the same.
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
picture: $(READY) ## Make the picture of the demo again: docs/demo.svg
	$(BIN)/python examples/demo.py --svg docs/demo.svg

.PHONY: clean
clean: ## Remove everything that was made here
	rm -rf $(VENV) $(NODE) .hosts $(BROWSER) $(FETCH_LOG) .bench build dist bench/results .hypothesis .mypy_cache .pytest_cache .ruff_cache
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

# Fetches the packages of tests/npm/NAME into .NAME in the versions of its lock: a release of today cannot break the
# tests. `npm ci` would refuse a lock without the optional packages of other systems. `allowScripts` in package.json
# lets a package put its binary in place under npm 12.
define fetch_from_npm
@command -v npm >/dev/null || { echo "These tests need npm, to fetch the packages of tests/npm/$(1) into .$(1)" >&2; exit 1; }
@echo "Setting up .$(1) …"
@rm -rf .$(1) && mkdir .$(1) && cp tests/npm/$(1)/package.json tests/npm/$(1)/package-lock.json .$(1)
@npm install --prefix .$(1) --no-audit --no-fund --loglevel=error || { echo "npm could not fetch the packages of tests/npm/$(1)" >&2; exit 1; }
endef

$(NODE_READY): tests/npm/node/package-lock.json
	$(call fetch_from_npm,node)
	@$(NODE_BIN)/node --version | grep -q '^v24\.' || { echo "npm did not provide Node 24 in $(NODE_BIN)" >&2; exit 1; }
	@touch $@

$(HOSTS_READY): tests/npm/hosts/package-lock.json
	$(call fetch_from_npm,hosts)
	@touch $@

# The browser is packed for machines without its libraries and without fonts: what a machine lacks is beside it.
$(BROWSER_READY): $(NODE_READY) tests/npm/browser/package-lock.json tests/browser/unpack.mjs
	$(call fetch_from_npm,browser)
	@mkdir $(BROWSER)/chromium
	@TMPDIR=$(CURDIR)/$(BROWSER)/chromium $(NODE_BIN)/node tests/browser/unpack.mjs $(CURDIR)/$(BROWSER)
	@touch $@
