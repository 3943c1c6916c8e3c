"""What is listed, offered and told of changes; and that alc is served when it is called for."""

import json
import os
import queue
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from carrel.app.app import open_desk
from carrel.app.config import load
from carrel.catalog.catalog import Catalog
from carrel.catalog.watcher import LIST, Watcher
from carrel.core.errors import BadCursor, ConfigError, NotFound, RequestError
from carrel.core.model import Annotations, Completion, Rank, Resource
from carrel.core.provider import Project
from carrel.providers.alc import Alc
from carrel.providers.alc.reads import FoundResource
from carrel.providers.alc.uris import AlcTarget
from tests.providers.alc.homes import Home, read, refusal
from tests.support.memory_provider import Counted
from tests.support.waiting import PATIENCE_S, until

FIXED = ["alc://types/alc.d.lua", "alc://types/alc_shapes.d.lua"]


def uris(catalog: Catalog) -> list[str]:
    return [entry.uri for entry in catalog.entries()]


def test_the_two_stubs_come_first_then_everything_in_uri_order(full: Home) -> None:
    assert uris(full.catalog()) == [
        *FIXED,
        "alc://cards/sketch_m_1",
        "alc://eval/sketch_1745000000",
        "alc://hub/index",
        "alc://logs/s-1",
        "alc://packages/sketch/init.lua",
        "alc://packages/sketch/meta",
        "alc://scenarios/my_scenario",
    ]
    assert uris(full.catalog(list_items=False)) == FIXED


def test_an_entry_says_all_that_is_known(full: Home) -> None:
    catalog = full.catalog()
    entries = {entry.uri: entry for entry in catalog.entries()}
    stub = full.home / "types/alc.d.lua"
    modified = Annotations(last_modified_ms=stub.stat().st_mtime_ns // 1_000_000)
    etag = {"dev.carrel/etag": catalog.read("alc://types/alc.d.lua").etag}

    assert entries["alc://types/alc.d.lua"] == Resource(
        "alc://types/alc.d.lua",
        "alc.d.lua",
        "Lua type stubs for alc.* StdLib",
        "text/x-lua",
        title="Lua Type Stub (alc.d.lua)",
        annotations=modified,
        size=stub.stat().st_size,
        meta=etag,
        sort_key="!alc://types/alc.d.lua",
        rank=Rank.PACKAGES,
        guaranteed=True,
    )
    assert [(one.name, one.title, one.description, one.mime_type, one.size) for one in entries.values()][1:] == [
        (
            "alc_shapes.d.lua",
            "Lua Type Stub (alc_shapes.d.lua)",
            "Lua type stubs for alc_shapes DSL",
            "text/x-lua",
            (full.home / "types/alc_shapes.d.lua").stat().st_size,
        ),
        ("cards/sketch_m_1", "Card Snapshot: sketch_m_1", "Full Card JSON", "application/json", 137),
        ("eval/sketch_1745000000", "Eval Result: sketch_1745000000", "Eval result JSON", "application/json", 24),
        (
            "hub-index",
            "Hub Index",
            "Index of all packages on disk (hub_index/v0)",
            "application/json",
            len(read(catalog, "alc://hub/index").encode()),
        ),
        (
            "logs/s-1",
            "Session Log: s-1",
            "Session log JSON. Supports ?limit=M&max_chars=C",
            "application/json",
            (full.home / "logs/s-1.json").stat().st_size,
        ),
        (
            "packages/sketch/init.lua",
            "Package Lua Source: sketch",
            "Draws a sketch first",
            "text/x-lua",
            (full.home / "packages/sketch/init.lua").stat().st_size,
        ),
        (
            "packages/sketch/meta",
            "Package Metadata: sketch",
            "Draws a sketch first",
            "application/json",
            len(read(catalog, "alc://packages/sketch/meta")),
        ),
        ("scenarios/my_scenario", "Scenario Source: my_scenario", "Scenario source", "text/x-lua", 10),
    ]


def test_list_and_read_give_the_same_state(full: Home) -> None:
    catalog = full.catalog()
    for entry in catalog.entries():
        reading = catalog.read(entry.uri)
        assert entry.meta == {"dev.carrel/etag": reading.etag}
        assert entry.annotations == Annotations(last_modified_ms=reading.last_modified_ms)


def test_what_cannot_be_rendered_is_listed_without_size(full: Home) -> None:
    full.write("cards/sketch/bad.toml", "a = = 1")
    full.write("packages/mute/init.lua", "M.meta = { description = '" + "é" * 301 + "' }\nreturn M")
    os.mkfifo(full.home / "scenarios/fifo.lua")
    (full.project / "alc.toml").write_text("")
    (full.project / "alc.local.toml").write_text("[packages")
    listed = {entry.uri: entry for entry in full.catalog().entries()}

    assert listed["alc://cards/bad"].size is None
    assert listed["alc://hub/index"].size is None
    assert listed["alc://packages/mute/meta"].size is None
    assert listed["alc://packages/mute/meta"].description == "é" * 300 + "…"
    assert "alc://scenarios/fifo" not in listed


def test_what_leads_out_of_its_folder_is_neither_listed_nor_offered(full: Home) -> None:
    outside = full.folder / "outside"
    outside.mkdir()
    for name in ("stray.toml", "init.lua", "x_1.json"):
        (outside / name).write_text("a = 1")
    alc, catalog = full.provider(), full.catalog()
    before, surveyed = uris(catalog), alc.list_fingerprint()

    full.write("packages/esc/readme.md", "")
    for link, target in {
        "scenarios/esc.lua": "/etc/passwd",
        "packages/esc/init.lua": f"{outside}/init.lua",
        "cards/aaa": str(outside),
        "cards/sketch/esc.toml": f"{outside}/stray.toml",
        "evals/x_1.json": f"{outside}/x_1.json",
        "logs/esc.json": "../../outside/x_1.json",
    }.items():
        (full.home / link).symlink_to(target)
    full.write("cards/zzz/stray.toml", "a = 1")

    assert uris(catalog) == before
    assert alc.list_fingerprint() == surveyed
    for template, variable in (
        ("alc://packages/{name}/init.lua", "name"),
        ("alc://scenarios/{name}", "name"),
        ("alc://cards/{card_id}", "card_id"),
        ("alc://logs/{session_id}", "session_id"),
    ):
        assert not {"esc", "stray"} & set(catalog.complete(template, variable, "", {}).values)


def test_a_link_that_stays_in_its_folder_is_listed(full: Home) -> None:
    (full.home / "scenarios/alias.lua").symlink_to("my_scenario.lua")
    (full.home / "cards/other").symlink_to("sketch")
    (full.home / "cards/sketch/again.toml").symlink_to(full.home / "cards/sketch/sketch_m_1.toml")

    assert {"alc://scenarios/alias", "alc://cards/again"} <= set(uris(full.catalog()))


def test_names_that_a_read_would_refuse_are_not_listed(full: Home) -> None:
    for path in (
        "scenarios/a b.lua",
        "scenarios/é.lua",
        "scenarios/..lua",
        "evals/plan_solve_1.json",
        "evals/x.json",
        "cards/sketch/a&b.toml",
        "packages/a b/init.lua",
        "packages/_hidden/init.lua",
        "packages/.dot/init.lua",
        "packages/no-source/readme.md",
        "logs/a+b.json",
    ):
        full.write(path, "")
    (full.home / "scenarios" / os.fsdecode(b"\xff.lua")).write_text("")

    assert len(uris(full.catalog())) == 9
    assert read(full.catalog(), "alc://packages/_hidden/init.lua") == ""
    assert "alc://eval/plan_solve_1" in uris(full.catalog(eval_ids="relaxed"))


def test_pages_neither_repeat_nor_skip_when_files_come_and_go(full: Home) -> None:
    catalog = full.catalog()
    first = catalog.page(limit=4)
    assert [entry.uri for entry in first.entries] == [*FIXED, "alc://cards/sketch_m_1", "alc://eval/sketch_1745000000"]
    full.write("cards/sketch/a.toml", "")
    (full.home / "evals/sketch_1745000000.json").unlink()

    second = catalog.page(first.next_cursor, limit=3)

    assert [entry.uri for entry in second.entries] == [
        "alc://hub/index",
        "alc://logs/s-1",
        "alc://packages/sketch/init.lua",
    ]
    with pytest.raises(BadCursor) as caught:
        catalog.page("bm90IG91cnM")
    assert caught.value.message == "invalid cursor"


def test_templates_stand_in_the_order_of_the_page(full: Home) -> None:
    templates, cursor = full.catalog().templates()

    assert cursor is None
    assert [(one.uri_template, one.name, one.title, one.description, one.mime_type) for one in templates] == [
        (
            "alc://packages/{name}/init.lua",
            "package-init-lua",
            "Package Lua Source",
            "Package init.lua source",
            "text/x-lua",
        ),
        (
            "alc://packages/{name}/meta",
            "package-meta",
            "Package Metadata",
            "Package metadata (M.meta table)",
            "application/json",
        ),
        ("alc://cards/{card_id}", "card", "Card Snapshot", "Full Card JSON", "application/json"),
        (
            "alc://cards/{card_id}/samples",
            "card-samples",
            "Card Samples",
            "Card samples JSONL. Supports ?offset=N&limit=M",
            "application/json",
        ),
        ("alc://scenarios/{name}", "scenario", "Scenario Source", "Scenario source", "text/x-lua"),
        ("alc://eval/{result_id}", "eval-result", "Eval Result", "Eval result JSON", "application/json"),
        (
            "alc://logs/{session_id}",
            "session-log",
            "Session Log",
            "Session log JSON. Supports ?limit=M&max_chars=C",
            "application/json",
        ),
        (
            "alc://packages/{name}/narrative",
            "package-narrative",
            "Package Narrative",
            "Package narrative in Markdown",
            "text/markdown",
        ),
    ]


# Completion


def test_names_are_offered_in_order_and_what_has_a_time_newest_first(full: Home) -> None:
    for number, name in enumerate(["b", "a", "ab", "Ab"]):
        for path in (f"packages/{name}/init.lua", f"scenarios/{name}.lua"):
            full.write(path, "")
        for path in (f"cards/x/{name}.toml", f"evals/{name}_1.json", f"logs/{name}.json"):
            os.utime(full.write(path, ""), (0, 100 + number // 2))
    full.write("packages/gone/readme.md", "")
    catalog = full.catalog()

    def offered(template: str, variable: str, value: str = "a") -> Completion:
        return catalog.complete(template, variable, value, {})

    for word in ("init.lua", "meta", "narrative"):
        assert offered(f"alc://packages/{{name}}/{word}", "name") == Completion(("a", "ab"), 2, has_more=False)
    assert offered("alc://packages/{name}/meta", "name", "g") == Completion((), 0, has_more=False)
    assert offered("alc://scenarios/{name}", "name", "") == Completion(("Ab", "a", "ab", "b", "my_scenario"), 5, False)
    assert offered("alc://cards/{card_id}", "card_id") == Completion(("ab", "a"), 2, False)
    assert offered("alc://cards/{card_id}/samples", "card_id", "") == Completion(
        ("sketch_m_1", "Ab", "ab", "a", "b"), 5, False
    )
    assert offered("alc://eval/{result_id}", "result_id") == Completion(("ab_1", "a_1"), 2, False)
    assert offered("alc://logs/{session_id}", "session_id") == Completion(("ab", "a"), 2, False)
    for template, variable in (("alc://nothing/{x}", "x"), ("alc://logs/{session_id}", "name")):
        with pytest.raises(RequestError):
            offered(template, variable)


def test_a_hundred_are_offered_and_the_rest_is_counted(full: Home) -> None:
    for number in range(150):
        full.write(f"scenarios/n{number:03d}.lua", "")

    completion = full.catalog().complete("alc://scenarios/{name}", "name", "n", {})

    assert completion == Completion(tuple(f"n{number:03d}" for number in range(100)), 150, has_more=True)


# Changes


class Heard:
    """Listens to a home and keeps what it is told."""

    def __init__(self, catalog: Catalog, *uris: str, list_changes: bool = False) -> None:
        self.told: queue.Queue[str] = queue.Queue()
        self._watcher = Watcher(catalog)
        self.subscription = self._watcher.subscribe(self.told.put, uris, list_changes=list_changes)
        self.subscription.start()

    def next(self) -> str:
        return self.told.get(timeout=10)

    def __enter__(self) -> "Heard":
        return self

    def __exit__(self, *_: object) -> None:
        self.subscription.close()


def test_what_changes_appears_or_vanishes_is_reported_as_it_was_subscribed(full: Home) -> None:
    catalog = full.catalog(poll_seconds=0.02)
    for uri in (
        "alc:///scenarios//a/",
        "alc://logs/a?limit=5&max_chars=99",
        "alc://cards/a/samples",
        "alc://hub/index",
    ):
        with Heard(catalog, uri) as heard:
            for path in ("scenarios/a.lua", "logs/a.json", "cards/sketch/a.toml"):
                full.write(path, "")
            assert heard.next() == uri
            for path in ("scenarios/a.lua", "logs/a.json", "cards/sketch/a.toml"):
                (full.home / path).unlink()
            assert heard.next() == uri


def test_the_list_changes_with_its_set_and_not_with_contents(full: Home) -> None:
    provider = full.provider()
    before = provider.list_fingerprint()

    full.write("scenarios/my_scenario.lua", "other")
    full.write("packages/new/readme.md", "")
    full.write("logs/s-9.meta.json", "")
    assert provider.list_fingerprint() == before
    full.write("packages/new/init.lua", "")
    assert provider.list_fingerprint() != before
    assert full.provider(list_items=False).list_fingerprint() == ""


def test_a_new_item_notifies_subscribers_of_the_list(full: Home) -> None:
    with Heard(full.catalog(poll_seconds=0.02), list_changes=True) as heard:
        full.write("scenarios/new.lua", "")
        assert heard.next() == LIST


def test_variants_of_one_uri_are_reported_once_each(full: Home) -> None:
    variants = ("alc://logs/s-1", "alc://logs/s-1?limit=1", "alc://logs/s-1?limit=2")
    with Heard(full.catalog(poll_seconds=0.05), *variants) as heard:
        full.write("logs/s-1.json", "{}")
        assert sorted(heard.next() for _ in variants) == sorted(variants)
        with pytest.raises(queue.Empty):
            heard.told.get(timeout=0.5)


def test_only_what_passes_the_checks_can_be_listened_to(home: Home) -> None:
    catalog = home.catalog()

    assert catalog.fingerprint("alc://cards/not-there-yet") is None
    for uri in ("alc://types/other.lua", "alc://eval/bad", "alc://cards/a?x=1", "ALC://x"):
        with pytest.raises(RequestError):
            catalog.fingerprint(uri)


# Being called for


def desk_choice(folder: Path, environment: dict[str, str], *only: str) -> str:
    flags = [("server", "only", ",".join(only))] if only else []
    desk = open_desk(load(str(folder), environment, flags))
    try:
        return next(choice.state for choice in desk.choices if choice.name == "alc")
    finally:
        desk.close()


def test_alc_is_served_where_something_calls_for_it(tmp_path: Path) -> None:
    user = tmp_path / "user"
    (tmp_path / "project").mkdir()
    environment = {"HOME": str(user)}
    project = tmp_path / "project"

    assert desk_choice(project, environment) == "not served"
    assert desk_choice(project, {**environment, "ALC_HOME": ""}) == "not served"
    assert desk_choice(project, {**environment, "ALC_HOME": "x"}) == "served"
    assert desk_choice(project, environment, "alc") == "served"
    assert desk_choice(project, {**environment, "CARREL_ALC_ENABLED": "auto"}) == "served"
    (tmp_path / "alc.toml").write_text("")
    assert desk_choice(project, environment) == "served"
    (tmp_path / "alc.toml").unlink()
    (user / ".algocline").mkdir(parents=True)
    assert desk_choice(project, environment) == "served"


def test_a_working_folder_that_was_deleted_fails_neither_detection_nor_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    here = project / "here"
    here.mkdir(parents=True)
    environment = {"HOME": str(tmp_path / "user")}
    desk = open_desk(load(str(project), environment))
    assert not any(uri.startswith("alc:") for uri in uris(desk.catalog))
    monkeypatch.chdir(here)
    here.rmdir()

    assert not any(uri.startswith("alc:") for uri in uris(desk.catalog))
    assert refusal(desk.catalog, "alc://cards/no") == ("NotFound", "card 'no' not found")
    (project / "alc.toml").write_text("")
    assert "alc://hub/index" in uris(desk.catalog)
    desk.close()


def test_a_project_that_is_deleted_and_comes_back_is_served_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"

    def make() -> None:
        (project / "algocline-logs").mkdir(parents=True)
        (project / "algocline-logs/s.json").write_text("1")
        (project / "alc.toml").write_text("")

    make()
    monkeypatch.chdir(project)
    desk = open_desk(load(str(project), {"HOME": str(tmp_path / "user")}))
    assert "alc://logs/s" in uris(desk.catalog)
    shutil.rmtree(project)

    assert [uri for uri in uris(desk.catalog) if uri.startswith("alc:")] == [*FIXED, "alc://hub/index"]
    assert refusal(desk.catalog, "alc://logs/s")[0] == "NotFound"
    make()
    assert "alc://logs/s" in uris(desk.catalog)
    assert read(desk.catalog, "alc://logs/s") == "1"
    desk.close()


def test_reads_are_answered_where_nothing_calls_for_alc(tmp_path: Path) -> None:
    desk = open_desk(load(str(tmp_path), {"HOME": str(tmp_path / "user")}))

    assert refusal(desk.catalog, "alc://cards/no") == ("NotFound", "card 'no' not found")
    assert refusal(desk.catalog, "ALC://cards/no")[1] == "invalid scheme: expected alc://, got ALC://cards/no"
    assert not any(uri.startswith("alc:") for uri in uris(desk.catalog))
    assert desk.catalog.fingerprint("alc://cards/no") is None
    desk.close()


def test_settings_win_over_the_environment_and_that_over_defaults(tmp_path: Path) -> None:
    for name in ("set", "variable", "user/.algocline", "project/.algocline"):
        (tmp_path / name / "scenarios").mkdir(parents=True)
        (tmp_path / name / "scenarios/a.lua").write_text(name)
    environment = {"HOME": str(tmp_path / "user"), "ALC_HOME": str(tmp_path / "variable")}

    def served(environment: dict[str, str], **settings: Any) -> str:
        keys = frozenset(settings)
        provider = Alc(Project(str(tmp_path / "project"), environment, keys, keys), **settings)
        return read(Catalog([provider]), "alc://scenarios/a")

    assert served(environment, home="../set") == "set"
    assert served(environment) == "variable"
    assert served({**environment, "ALC_HOME": ""}) == "user/.algocline"
    assert served({}) == "project/.algocline"
    with pytest.raises(NotFound):
        served({**environment, "ALC_HOME": "~"})


@pytest.mark.parametrize("setting", [{"poll_seconds": 0}, {"max_file_bytes": 0}, {"max_page_bytes": 1}])
def test_settings_that_make_no_sense_are_refused(home: Home, setting: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        home.provider(**setting)


def test_a_project_file_may_not_reach_outside_without_trust(tmp_path: Path) -> None:
    (tmp_path / "carrel.toml").write_text(
        f'[alc]\nhome = "/elsewhere"\npackages_path = "inside{os.pathsep}/elsewhere"\nlog_dir = "inside"\n'
    )
    config = load(str(tmp_path), {"HOME": str(tmp_path)})

    assert [(one.section, one.key) for one in config.withheld] == [("alc", "home"), ("alc", "packages_path")]
    assert config.values("alc") == {"log_dir": "inside"}


# What is looked at


def test_a_card_that_is_no_toml_is_tried_once(full: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    full.write("cards/sketch/broken.toml", "a = ")
    parsed: list[str] = []
    parse = tomllib.loads

    def noted(text: str) -> dict[str, Any]:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(tomllib, "loads", noted)
    catalog = full.catalog()
    sizes = [{entry.uri: entry.size for entry in catalog.entries()}["alc://cards/broken"] for _ in range(2)]
    read(catalog, "alc://hub/index")

    assert sizes == [None, None]
    assert parsed.count("a = ") == 1


def test_a_page_looks_only_at_its_own_files(full: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(300):
        full.write(f"scenarios/n{number:03d}.lua", "")
    provider = full.provider()
    catalog = Catalog([provider])
    looked: list[str] = []
    find = provider._reader.find

    def counted(target: AlcTarget) -> FoundResource:
        looked.append(target.uri)
        return find(target)

    monkeypatch.setattr(provider._reader, "find", counted)
    cursor = catalog.page(limit=100).next_cursor
    looked.clear()
    page = catalog.page(cursor, limit=10)

    assert looked[:10] == [entry.uri for entry in page.entries]
    assert len(looked) == 11


def test_a_provider_is_asked_as_often_as_it_wants(full: Home) -> None:
    shelf = Counted("notes", {"a": ""})
    catalog = Catalog([full.provider(poll_seconds=600), shelf])
    told: queue.Queue[str] = queue.Queue()
    watcher = Watcher(catalog, poll_s=0.02)
    subscription = watcher.subscribe(told.put, ["alc://logs/s-1", "notes:///a"])
    subscription.start()
    # Each provider is looked at once when it begins to be watched; only then does the interval count.
    until(lambda: [one.has_begun and not one.is_running for one in watcher._watched_providers.values()] == [True, True])
    for text in ("first", "second"):
        shelf.put("a", text)
        assert told.get(timeout=PATIENCE_S) == "notes:///a"
        full.write("logs/s-1.json", json.dumps(text))
    shelf.put("a", "third")

    assert told.get(timeout=10) == "notes:///a"
    subscription.close()


def test_results_that_only_relaxed_ids_show_are_counted(full: Home) -> None:
    for name in ("plan_solve_1", "ab_mcts_2", "x", "compare_a_b_1_vs_c_2"):
        full.write(f"evals/{name}.json", "{}")
    note = 'eval results that are not served: 2; strategies with _ in their names need eval_ids = "relaxed" in [alc]'

    assert full.provider().health() == {"problems": [note]}
    assert full.provider(eval_ids="relaxed").health() == {"problems": []}


def test_problems_are_told_to_current_access_for_health(full: Home) -> None:
    provider = full.provider()
    assert provider.health() == {"problems": []}

    (full.project / "alc.toml").write_text("")
    (full.project / "alc.local.toml").write_text("packages = 1")
    assert provider.health() == {"problems": ["malformed alc.local.toml: packages is not a table"]}
