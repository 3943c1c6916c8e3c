"""Tests mirror the source: every test file is named for a module, and every module has tests that are named here.

`tests/<package>/test_<module>.py` tests `src/carrel/<package>/<module>.py`. A module without such a file stands in
`TESTED_THROUGH`, under the file that tests it; a new module needs one or the other. A test file that is named for
behaviour stands in `NOT_FOR_ONE_MODULE`, with the reason.
"""

from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "carrel"
TESTS = ROOT / "tests"

NOT_FOR_ONE_MODULE = {
    "stores/test_killing.py": "writers and a server that are killed, through scopes and sage",
    "catalog/test_watcher_hanging.py": "providers that hang, beside the other tests of `watcher`",
    "core/test_memory_bounds.py": "the bounds of caches in several packages",
    "cli/test_store_settings.py": "`[store]` in every command that reads or shows the configuration",
    "doctor/test_real_faults.py": "faults that need a machine of their own, through the real command",
    "explorer/test_imports.py": "what is imported before the first page, through the real command",
    "explorer/test_part_of_a_scheme.py": "a caller with a part of a scheme, through every face of the search",
    "explorer/test_same_access.py": "what callers see, through every page",
    "explorer/test_attacks.py": "script injection, through every part of the explorer",
    "explorer/test_hostile_requests.py": "requests that try to get around the rules, to every kind of page",
    "files/test_sandbox_attacks.py": "known attacks, beside the other tests of `sandbox`",
    "files/test_sandbox_race.py": "a race against another process, beside the other tests of `sandbox`",
    "providers/alc/test_bounds.py": "hostile files, for every parser of alc",
    "providers/alc/test_messages.py": "answers of alc within the limit of a message, through a server",
    "providers/logs/test_served.py": "processes of a real server, which is started and killed",
    "providers/sage/test_if_match.py": "writers that race, through every tool of sage that writes",
    "providers/sage/test_starts_nothing.py": "no part of sage starts a program",
    "providers/scopes/test_if_match.py": "writers that race, through every tool of scopes that writes",
    "providers/scopes/test_hostile.py": "stores that a stranger made, through every part of scopes",
    "providers/workspace/test_attacks.py": "known attacks, through every part of the workspace",
    "providers/workspace/test_denied.py": "names that are never served, through every part of the workspace",
    "providers/workspace/test_http.py": "folders over plain HTTP",
    "providers/workspace/test_large.py": "large files and trees, through every part of the workspace",
    "providers/workspace/test_left_out.py": "what presets leave out, from `policy` to `health`",
    "search/test_access.py": "what callers find, through every part of search",
    "search/test_attacks.py": "queries, callers and folders that mean harm, through every part of search",
    "search/test_everything.py": "search over every provider at once",
    "search/test_independence.py": "what an answer must not depend on: finding, ranking and the words together",
    "search/test_mixed_desk.py": "thirty questions to a desk with everything",
    "search/test_parts_of_every_scheme.py": "parts of every provider's scheme, through search and completion",
    "search/test_races.py": "files that change while they are searched",
}
"""Test files of a package that are named for behaviour, each with the reason."""

TESTED_THROUGH = {
    "providers/guide/test_provider.py": "providers/guide/reports",
    "cli/test_store.py": "providers/logs/copying providers/sage/copying providers/scopes/copying stores/copying",
    "stores/test_database.py": "stores/bounded_connection stores/migrations/m0001_changes "
    "stores/migrations/m0002_scopes stores/migrations/m0003_documents stores/migrations/m0006_logs stores/store_errors",
    "providers/test_audit.py": "providers/scopes/deleted_etags",
    "stores/test_bus.py": "core/bus_address",
    "stores/test_session.py": "stores/constraints",
    "stores/test_audit.py": "core/writer stores/housekeeping stores/migrations/m0007_audit",
    "server/test_ratelimit.py": "server/shared_ratelimit stores/allowance_table stores/migrations/m0008_allowances",
    "providers/logs/test_pushed_logs.py": "providers/logs/quota",
    "buckets/test_contents.py": "buckets/guarded",
    "buckets/test_s3.py": "buckets/bounded_http buckets/bucket",
    "providers/workspace/test_file_source.py": "providers/workspace/file_query",
    "providers/workspace/test_bucket_root.py": "providers/workspace/bucket_files providers/workspace/bucket_listing "
    "providers/workspace/bucket_rules",
    "cli/test_store_settings.py": "cli/withheld stores/settings",
    "app/test_app.py": "app/registration catalog/lazy",
    "app/test_config.py": "app/project app/schema app/trust core/hashing files/userdirs",
    "app/test_gateways.py": "core/gateway",
    "catalog/test_catalog.py": "catalog/access core/model core/provider",
    "catalog/test_watcher.py": "catalog/subscriptions",
    "cli/test_app.py": "__main__ cli/config cli/context cli/exit_codes cli/failures cli/options cli/output "
    "cli/overview cli/read cli/serve cli/serve_http cli/suggestions core/version",
    "cli/test_scopes.py": "cli/scopes_work providers/scopes/commands",
    "client/test_client.py": "client/child client/memory client/rpc client/subscription protocol/client_requests "
    "protocol/client_results",
    "client/test_http.py": "protocol/events",
    "cli/test_completion.py": "connect/shell",
    "connect/test_hosts.py": "connect/entries connect/places",
    "connect/test_splice.py": "connect/errors connect/json_splice connect/toml_splice connect/yaml_splice",
    "core/test_arguments.py": "core/record",
    "core/test_content.py": "core/line_ranges",
    "core/test_tokens.py": "core/token_weights",
    "doctor/test_examination.py": "doctor/checks",
    "doctor/test_hosts.py": "doctor/host_files",
    "doctor/test_setup.py": "doctor/answers",
    "explorer/test_exact.py": "explorer/model_view",
    "explorer/test_resources.py": "explorer/folders",
    "explorer/test_explorer.py": "explorer/leaves explorer/refusals transports/http/pages",
    "files/test_sandbox.py": "files/syscalls",
    "git/test_folder_history.py": "git/commit_walk git/line_diff git/revisions",
    "git/test_patches.py": "git/comparison",
    "git/test_repository.py": "git/discovery git/history git/index git/objects git/worktree",
    "providers/git/test_provider.py": "git/answer providers/git/answers",
    "providers/alc/test_layout.py": "files/marks providers/alc/local_packages",
    "providers/alc/test_lua_source.py": "providers/alc/lua_literals providers/alc/lua_spec providers/alc/lua_tables "
    "providers/alc/lua_values",
    "providers/alc/test_packages.py": "providers/alc/hub",
    "providers/alc/test_reads.py": "providers/alc/cards providers/alc/compact_json",
    "providers/alc/test_samples.py": "providers/alc/files",
    "providers/logs/test_lines.py": "providers/logs/named_secrets providers/logs/redaction providers/logs/ring "
    "providers/logs/unfinished",
    "providers/logs/test_process.py": "providers/logs/supervisor",
    "providers/logs/test_provider.py": "providers/logs/log providers/logs/rendering providers/logs/uris",
    "providers/logs/test_spool.py": "providers/logs/log_index providers/logs/spool_lines providers/logs/spooled_log",
    "providers/logs/test_tools.py": "providers/logs/flutter providers/logs/process_table providers/logs/settings",
    "providers/mounts/test_provider.py": "providers/mounts/connect providers/mounts/link providers/mounts/lists "
    "providers/mounts/read_cache providers/mounts/saved_lists providers/mounts/settings providers/mounts/uri_mapping",
    "providers/objects/test_provider.py": "core/refresh providers/objects/calls providers/objects/conversion "
    "providers/objects/instance providers/objects/listing providers/objects/loading providers/objects/protocol "
    "providers/objects/settings providers/objects/stdout_redirect",
    "providers/objects/test_shelf.py": "providers/objects/local_files providers/objects/results "
    "providers/objects/suppliers providers/objects/variables",
    "providers/sage/test_memory.py": "providers/sage/fields providers/sage/knowledge providers/sage/listing "
    "providers/sage/names providers/sage/system_files",
    "providers/sage/test_rendering.py": "providers/sage/code_links providers/sage/definitions providers/sage/records",
    "providers/sage/test_saving.py": "providers/sage/arguments providers/sage/file_writes providers/sage/folder_files "
    "providers/sage/record_files providers/sage/tools providers/sage/yaml_text",
    "providers/sage/test_search.py": "search/semantic",
    "providers/sage/test_session_start.py": "providers/sage/sanitize",
    "providers/scopes/test_changes.py": "providers/scopes/alias_words providers/scopes/queries "
    "providers/scopes/scope_errors providers/scopes/values",
    "providers/scopes/test_hostile.py": "providers/scopes/location",
    "providers/scopes/test_json_lines.py": "providers/scopes/importer providers/scopes/original_database",
    "providers/scopes/test_provider.py": "providers/scopes/reader providers/scopes/tree providers/scopes/uris",
    "providers/scopes/test_store.py": "providers/scopes/schema providers/scopes/sqlite",
    "providers/scopes/test_team_store.py": "providers/scopes/connection",
    "providers/scopes/test_tool_calls.py": "providers/scopes/tool_schemas",
    "providers/workspace/test_file_events.py": "providers/workspace/inotify",
    "providers/workspace/test_ignore_rules.py": "files/gitignore",
    "providers/workspace/test_front_documents.py": "outline/entry_points",
    "providers/workspace/test_large.py": "core/cancellation",
    "providers/workspace/test_left_out.py": "providers/workspace/explain",
    "providers/workspace/test_list_filters.py": "catalog/fly",
    "providers/workspace/test_tree.py": "files/file_types",
    "outline/test_budgets.py": "outline/part_notes",
    "outline/test_code.py": "outline/languages",
    "outline/test_outlines.py": "outline/data outline/log outline/markdown outline/rows outline/trees",
    "search/test_everything.py": "search/own_answers",
    "search/test_index.py": "search/hits search/sources",
    "search/test_location.py": "search/settings",
    "search/test_rendering.py": "search/answers",
    "search/test_store.py": "search/builder",
    "server/test_connection.py": "server/requests",
    "server/test_server.py": "core/bounded_calls core/errors core/faults core/limits protocol/results "
    "protocol/wire_errors server/dispatch server/notifications",
    "testing/test_contract.py": "testing/harness",
    "stores/test_feed.py": "stores/migrations/m0004_sessions stores/session_registry",
    "transports/http/test_stored_tokens.py": "stores/migrations/m0005_tokens stores/token_table",
    "transports/http/test_jwt.py": "transports/http/fetch",
    "transports/http/test_mcp.py": "protocol/headers transports/http/sse",
    "transports/http/test_plain.py": "search/lazy",
    "transports/http/test_sessions.py": "transports/http/threads",
    "transports/http/test_tokens.py": "files/atomic",
    "transports/http/test_visits.py": "transports/http/shared_visits",
    "transports/http/test_wire.py": "transports/http/asgi transports/http/unauthenticated",
    "transports/test_stdio.py": "transports/heap",
    "providers/skills/test_provider.py": "providers/skills/found_skills",
}
"""By test file: the modules without a test file of their own that it tests."""


@cache
def modules() -> frozenset[str]:
    """Return the modules of the source, as `package/module`, without `__init__`."""
    found = {path.relative_to(SOURCE).with_suffix("").as_posix() for path in SOURCE.rglob("*.py")}
    return frozenset(name for name in found if Path(name).name != "__init__")


@cache
def files_of_tests() -> frozenset[str]:
    """Return the test files of packages, as `package/test_module.py`."""
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    found = (path.relative_to(TESTS) for path in TESTS.rglob("test_*.py"))
    return frozenset(path.as_posix() for path in found if path.parts[0] in packages)


def own_test(module: str) -> str:
    """Return the test file that is named for a module."""
    path = Path(module)
    return (path.parent / f"test_{path.name}.py").as_posix()


def listed_modules() -> list[str]:
    """Return the modules in `TESTED_THROUGH`."""
    return [module for named in TESTED_THROUGH.values() for module in named.split()]


def test_every_test_file_is_named_for_a_module_or_listed_with_a_reason() -> None:
    named = {own_test(module) for module in modules()}

    odd = sorted(files_of_tests() - named - set(NOT_FOR_ONE_MODULE))
    assert odd == [], "name the file for a module, or add it to NOT_FOR_ONE_MODULE"
    assert sorted(set(NOT_FOR_ONE_MODULE) - (files_of_tests() - named)) == []


def test_every_module_has_its_test_file_or_is_listed_under_one() -> None:
    without = {module for module in modules() if own_test(module) not in files_of_tests()}

    untested = sorted(without - set(listed_modules()))
    assert untested == [], "add test_<module>.py, or add the module to TESTED_THROUGH under the file that tests it"
    assert sorted(set(listed_modules()) - without) == []
    assert len(listed_modules()) == len(set(listed_modules()))
    assert sorted(set(TESTED_THROUGH) - files_of_tests()) == []
