"""Packages: where they are looked for, their metadata, their narrative, and the index of all of them."""

import json
import os
from typing import Any

import pytest

from carrel.providers.alc.hub import origin
from carrel.providers.alc.packages import ParseBudget
from tests.providers.alc.homes import CARD, SKETCH, Home, read, refusal

META = "alc://packages/sketch/meta"
INIT = "alc://packages/sketch/init.lua"


def local(home: Home, text: str) -> None:
    (home.project / "alc.toml").write_text("")
    (home.project / "alc.local.toml").write_text(text)


# Lookup


def test_a_variant_comes_before_the_home_and_that_before_further_folders(home: Home) -> None:
    more, other = home.folder / "more", home.folder / "other"
    catalog = home.catalog(packages_path=f"{home.folder}/none{os.pathsep}{os.pathsep}{more}{os.pathsep}{other}")
    assert refusal(catalog, INIT) == ("NotFound", "pkg not found: sketch")
    for folder, scope in ((other, "global"), (more, "global"), (home.home / "packages", "global")):
        (folder / "sketch").mkdir(parents=True)
        (folder / "sketch/init.lua").write_text(f"-- {folder.name}")
        assert read(catalog, INIT) == f"-- {folder.name}"
        assert json.loads(read(catalog, META))["scope"] == scope

    (home.project / "drafts/any-name").mkdir(parents=True)
    (home.project / "drafts/any-name/init.lua").write_text("-- variant")
    local(home, '[packages]\nsketch = { path = "drafts/any-name", git = "x" }\n')
    assert read(catalog, INIT) == "-- variant"
    assert json.loads(read(catalog, META)) == {"has_meta": False, "linked": False, "name": "sketch", "scope": "variant"}

    (home.project / "drafts/any-name/init.lua").unlink()
    assert refusal(catalog, INIT) == ("NotFound", "pkg not found: sketch")
    assert refusal(catalog, META) == ("NotFound", f"resource not found: {META}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        'other = 1\n[tool]\nx = 2\n[packages]\nsketch = "1.0"\n',
        '[packages]\nsketch = { git = "https://example.org/x" }\n',
        '[packages]\nsketch = { path = "nowhere" }\n',
        '[packages]\nother = { path = "." }\n',
    ],
)
def test_what_names_no_folder_for_a_package_leaves_the_global_one(full: Home, text: str) -> None:
    local(full, text)

    assert read(full.catalog(), INIT) == SKETCH


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[packages", "malformed alc.local.toml: Expected ']' at the end of a table declaration (at end of document)"),
        ("packages = 1", "malformed alc.local.toml: packages is not a table"),
        (
            "[packages]\nx = 1",
            "malformed alc.local.toml: packages.x is neither a version nor a table with path or git",
        ),
        (
            "[packages]\nx = { path = 1, git = 'y' }",
            "malformed alc.local.toml: packages.x is neither a version nor a table with path or git",
        ),
    ],
)
def test_a_malformed_file_of_variants_fails_every_package_but_no_list(full: Home, text: str, message: str) -> None:
    local(full, text)
    catalog = full.catalog()

    for uri in (INIT, META, "alc://packages/other/narrative", "alc://hub/index"):
        assert refusal(catalog, uri) == ("Internal", message)
    assert INIT in [entry.uri for entry in catalog.entries()]
    assert catalog.complete("alc://packages/{name}/meta", "name", "", {}).values == ("sketch",)


def test_a_file_of_variants_that_cannot_be_read_is_reported(full: Home) -> None:
    (full.project / "alc.toml").write_text("")
    (full.project / "alc.local.toml").mkdir()

    assert refusal(full.catalog(), INIT) == ("Internal", "failed to read alc.local.toml: not a regular file")


def test_the_project_root_is_a_setting_a_variable_or_found_upwards(full: Home) -> None:
    for name in ("set", "variable"):
        (full.folder / name / "x").mkdir(parents=True)
        (full.folder / name / "x/init.lua").write_text(f"-- {name}")
        (full.folder / name / "alc.local.toml").write_text('[packages]\nsketch = { path = "x" }')
    (full.folder / "alc.toml").write_text("")
    (full.folder / "alc.local.toml").write_text('[packages]\nsketch = { path = "up" }')
    (full.folder / "up").mkdir()
    (full.folder / "up/init.lua").write_text("-- up")

    assert read(full.catalog(), INIT) == SKETCH  # it lies outside the project, and nobody trusts it yet
    full.trust(full.folder / "alc.local.toml")
    assert read(full.catalog(), INIT) == "-- up"
    full.environment["ALC_PROJECT_ROOT"] = str(full.folder / "variable")
    assert read(full.catalog(), INIT) == "-- variable"
    assert read(full.catalog(project_root=str(full.folder / "set")), INIT) == "-- set"
    full.environment["ALC_PROJECT_ROOT"] = str(full.folder / "no-folder")
    assert read(full.catalog(), INIT) == "-- up"


def test_a_package_may_be_a_link_to_anywhere_but_its_source_may_not(full: Home) -> None:
    elsewhere = full.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "init.lua").write_text("-- linked")
    (full.home / "packages/linked").symlink_to(elsewhere)
    catalog = full.catalog()

    assert read(catalog, "alc://packages/linked/init.lua") == "-- linked"
    assert json.loads(read(catalog, "alc://packages/linked/meta"))["linked"] is True
    (elsewhere / "init.lua").unlink()
    (elsewhere / "init.lua").symlink_to(full.home / "packages/sketch/init.lua")
    for word in ("init.lua", "meta", "narrative"):
        assert refusal(catalog, f"alc://packages/linked/{word}") == (
            "InvalidParams",
            "Path 'init.lua' escapes base directory",
        )


@pytest.mark.parametrize("is_collection", [True, False])
def test_a_clone_of_a_repository_of_packages_shows_its_packages(home: Home, is_collection: bool) -> None:
    (home.project / "alc.toml").write_text('[hub]\nname = "mine"\n' if is_collection else "[packages]\n")
    for name in ("sketch", "cot", ".hidden"):
        (home.project / name).mkdir()
        (home.project / name / "init.lua").write_text(SKETCH)
    (home.project / "docs").mkdir()
    catalog = home.catalog()
    listed = [entry.uri for entry in catalog.entries() if "/packages/" in entry.uri]

    assert listed == (
        [f"alc://packages/{name}/{word}" for name in ("cot", "sketch") for word in ("init.lua", "meta")]
        if is_collection
        else []
    )
    if is_collection:
        assert json.loads(read(catalog, META))["scope"] == "global"
        assert [one["name"] for one in json.loads(read(catalog, "alc://hub/index"))["packages"]] == ["cot", "sketch"]


def test_an_installed_package_comes_before_the_one_of_a_clone(full: Home) -> None:
    (full.project / "alc.toml").write_text("[hub]\n")
    (full.project / "sketch").mkdir()
    (full.project / "sketch/init.lua").write_text("-- of the clone")

    assert read(full.catalog(), INIT) == SKETCH


# Metadata


def test_the_example_of_the_page_comes_out_as_it_says(full: Home) -> None:
    assert read(full.catalog(), META) == (
        '{"_unresolved":["limits.timeout"],"category":"reasoning","description":"Draws a sketch first",'
        '"has_meta":true,"limits":{"rounds":3},"linked":false,"name":"sketch","scope":"global",'
        '"tags":["draft","cheap"],"version":"0.1.0"}'
    )


def test_the_host_wins_and_says_what_was_declared(full: Home) -> None:
    full.write(
        "packages/odd/init.lua",
        'local M = {}\nM.meta = { name = "even", scope = "global", linked = 0, _declared = 1, x = "\\255" }\nreturn M',
    )

    assert json.loads(read(full.catalog(), "alc://packages/odd/meta")) == {
        "_declared": {"_declared": 1, "linked": 0, "name": "even"},
        "has_meta": True,
        "linked": False,
        "name": "odd",
        "scope": "global",
        "x": "\ufffd",
    }


def test_bad_bytes_in_a_source_harm_only_themselves(full: Home) -> None:
    full.write("packages/bad/init.lua", b"--- bad \xff\nM.meta = { name = 'b\xffd' }\nreturn M")
    catalog = full.catalog()

    assert json.loads(read(catalog, "alc://packages/bad/meta"))["_declared"] == {"name": "b\ufffdd"}
    assert read(catalog, "alc://packages/bad/narrative").startswith("# bad \ufffd\n")


# Narrative


def test_a_narrative_tells_the_parts_that_there_are(full: Home) -> None:
    assert read(full.catalog(), "alc://packages/sketch/narrative") == (
        "# sketch — draw first\n\nDraws a sketch first\n\n"
        "| Field | Value |\n|---|---|\n| scope | global |\n| version | 0.1.0 |\n"
        "| category | reasoning |\n| tags | draft, cheap |\n\n"
        "## Usage\n  alc run sketch\n"
    )


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("return {}", "# p\n\n| Field | Value |\n|---|---|\n| scope | global |\n"),
        ("\n--- Draws.\n-- end\n--- no", "# p: Draws.\n\n| Field | Value |\n|---|---|\n| scope | global |\n"),
        (
            '---\r\n---  p draws  \r\n\r\n---\r\n---@x\r\n---   deep\t\r\nM.meta = { a = "x|\\nz", b = {}, c = { 1 } }',
            "# p draws\n\n| Field | Value |\n|---|---|\n| scope | global |\n| a | x\\| z |\n| c | 1 |\n\n  deep\n",
        ),
    ],
)
def test_a_narrative_leaves_out_what_is_not_there(full: Home, source: str, text: str) -> None:
    full.write("packages/p/init.lua", source.encode())

    assert read(full.catalog(), "alc://packages/p/narrative") == text


SPEC = """\
--- p: does it
local S = require("alc_shapes")
local T = S.T
local M = {}
local step = T.shape({ name = T.string, cost = T.number:is_optional() })
M.meta = { name = "p" }
M.spec = {
  entries = {
    run = {
      input = T.shape({
        task = T.string:describe("What to do | say"),
        depth = T.number:is_optional():describe("How deep (default: " .. DEPTH .. ")"),
        steps = T.array_of(step),
        mode = T.one_of({ "fast", "slow", 3, true }):describe("Mode"),
        scores = T.map_of(T.string, T.number),
        other = compute(),
      }),
      result = %s,
    },
  },
}
return M
"""
PARAMETERS = """\
## Parameters

| key | type | required | description |
|---|---|---|---|
| `ctx.depth` | number | optional | How deep (default: …) |
| `ctx.mode` | one_of("fast", "slow", 3, true) | **required** | Mode |
| `ctx.other` | ? | **required** |  |
| `ctx.scores` | map of string to number | **required** |  |
| `ctx.steps` | array of shape { cost?: number, name: string } | **required** |  |
| `ctx.task` | string | **required** | What to do \\| say |
"""


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (
            'T.shape({ answer = T.string:describe("The answer"), n = T.ref("count"):is_optional() })',
            (
                "Returns:\n\n| key | type | optional | description |\n|---|---|---|---|\n"
                "| `answer` | string | — | The answer |\n| `n` | count | optional |  |\n"
            ),
        ),
        ('"voted"', "Returns `voted`, a shape of `alc_shapes`.\n"),
        ('T.ref("voted"):describe("x")', "Returns `voted`, a shape of `alc_shapes`.\n"),
    ],
)
def test_a_narrative_tells_what_a_package_takes_and_gives(full: Home, result: str, told: str) -> None:
    full.write("packages/p/init.lua", SPEC % result)

    assert read(full.catalog(), "alc://packages/p/narrative") == (
        f"# p: does it\n\n| Field | Value |\n|---|---|\n| scope | global |\n\n{PARAMETERS}\n## Result\n\n{told}"
    )


@pytest.mark.parametrize(
    "source",
    [
        "M.spec = { entries = { run = { input = compute(), result = T.array_of(T.string) } } }",
        "M.spec = compute()",
        "M.spec = { entries = { other = { input = T.shape({ a = T.string }) } } }",
        "local a = T.shape({ b = b })\nlocal b = a\nM.other = a",
    ],
)
def test_a_narrative_tells_nothing_of_a_spec_that_is_not_known(full: Home, source: str) -> None:
    full.write("packages/p/init.lua", f"local M = {{}}\n{source}\nreturn M\n")

    text = read(full.catalog(), "alc://packages/p/narrative")

    assert text == "# p\n\n| Field | Value |\n|---|---|\n| scope | global |\n"


def test_a_doc_comment_that_tells_its_parameters_has_the_word(full: Home) -> None:
    full.write("packages/p/init.lua", "--- p\n--- ## Parameters\n--- none\n" + SPEC % '"voted"')

    assert read(full.catalog(), "alc://packages/p/narrative").count("## Parameters") == 1


def test_shapes_that_grow_without_end_are_cut(full: Home) -> None:
    lines = [f"local a{number} = T.shape({{ x = a{number + 1}, y = a{number + 1} }})" for number in range(25)]
    source = "\n".join([*reversed(lines), "M.spec = { entries = { run = { input = a0 } } }", "return M"])
    full.write("packages/p/init.lua", source)

    assert len(read(full.catalog(), "alc://packages/p/narrative")) < 20_000


# The index


def entry_of(home: Home, name: str) -> Any:
    told = json.loads(read(home.catalog(), "alc://hub/index"))
    return next((entry for entry in told["packages"] if entry["name"] == name), None)


def test_an_entry_has_all_its_keys(full: Home) -> None:
    (full.home / "cards/sketch/sketch_m_1.toml").unlink()

    assert entry_of(full, "sketch") == {
        "best_card": None,
        "card_count": 0,
        "category": "reasoning",
        "description": "Draws a sketch first",
        "docstring": "sketch — draw first\n\n## Usage\nalc run sketch\n@class Sketch",
        "name": "sketch",
        "source": {"type": "unknown"},
        "tags": ["draft", "cheap"],
        "type": "runnable",
        "type_source": "auto_detected_runnable",
        "version": "0.1.0",
    }


def test_packages_stand_in_order_of_names_if_they_have_one(full: Home) -> None:
    for name in ("zeta", "alpha", "_hidden", ".dot"):
        full.write(f"packages/{name}/init.lua", 'M.meta = { name = "other", type = "library" }')
    full.write("packages/nameless/init.lua", "M.meta = { version = '1' }")
    full.write("packages/unknown/init.lua", "M.meta = { name = f() }")
    full.write("packages/empty/init.lua", "M.meta = { name = '' }")
    full.write("packages/no-source/readme.md", "")

    told = json.loads(read(full.catalog(), "alc://hub/index"))

    assert [(one["name"], one["type"], one["type_source"]) for one in told["packages"]] == [
        ("alpha", "library", "explicit"),
        ("sketch", "runnable", "auto_detected_runnable"),
        ("zeta", "library", "explicit"),
    ]


def test_what_is_not_a_string_is_null(full: Home) -> None:
    full.write(
        "packages/odd/init.lua",
        'M.meta = { name = "x", version = 1, description = "", tags = { "a", 2, "b", f() }, type = "tool" }',
    )

    entry = entry_of(full, "odd")

    assert (entry["version"], entry["description"], entry["category"]) == (None, None, None)
    assert (entry["docstring"], entry["tags"], entry["type"]) == (None, ["a", "b"], "library")


def test_the_best_card_has_the_highest_rate_then_the_latest_time_then_the_greatest_id(full: Home) -> None:
    def card(name: str, rate: str, created: str, more: str = "") -> None:
        full.write(f"cards/sketch/{name}.toml", f"created_at = {created}\n[stats]\npass_rate = {rate}\n{more}")

    card("a", "0.5", '"2026-01-01"')
    card("b", "2", '"2026-01-01"', '[model]\nid = "m"\n[scenario]\nname = "s"\n')
    card("c", "2.0", "2026-01-01T00:00:00Z")
    card("d", "2", '"2026-01-01T00:00:00Z"')
    card("e", "true", '"2027-01-01"')
    card("f", "nan", '"2027-01-01"')
    card("g", "inf", '"2027-01-01"')
    full.write("cards/sketch/h.toml", "broken = = ")
    full.write("cards/sketch/i.toml", "stats = 1")
    full.write("cards/sketch/j.toml.tmp", "")

    entry = entry_of(full, "sketch")

    assert entry["card_count"] == 10
    assert entry["best_card"] == {"card_id": "d", "model": "", "pass_rate": 2, "scenario": ""}
    (full.home / "cards/sketch/c.toml").unlink()
    (full.home / "cards/sketch/d.toml").unlink()
    assert entry_of(full, "sketch")["best_card"] == {"card_id": "b", "model": "m", "pass_rate": 2, "scenario": "s"}


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            {"type": "git", "url": "https://me:secret@example.org/x.git", "rev": "abc", "path": "/home/me"},
            {"type": "git", "url": "https://example.org/x.git", "rev": "abc"},
        ),
        ({"type": "git", "url": "https://me:p@ss@example.org/x@1"}, {"type": "git", "url": "https://example.org/x@1"}),
        ({"type": "git", "url": "git@example.org:x/y.git"}, {"type": "git", "url": "example.org:x/y.git"}),
        ({"type": "git", "url": "file:///home/me/x"}, {"type": "git"}),
        ({"type": "git", "url": "/home/me/x"}, {"type": "git"}),
        ({"type": "bundled", "collection": "core", "extra": 1}, {"type": "bundled", "collection": "core"}),
        ({"url": "https://example.org"}, {"type": "unknown"}),
        ("", {"type": "unknown"}),
        ("bundled", {"type": "bundled"}),
        ("/home/me/x", {"type": "installed"}),
        ("https://me@example.org/x", {"type": "git", "url": "https://example.org/x"}),
        (None, {"type": "unknown"}),
        (7, {"type": "unknown"}),
    ],
)
def test_the_origin_is_reduced_to_what_may_be_told(full: Home, source: object, told: dict[str, str]) -> None:
    assert origin({"source": source}) == told
    full.write("installed.json", json.dumps({"packages": {"sketch": {"source": source}}}))
    assert entry_of(full, "sketch")["source"] == told


def test_a_variant_has_its_path_as_origin_and_broken_records_none(full: Home) -> None:
    full.write("installed.json", "{")
    assert entry_of(full, "sketch")["source"] == {"type": "unknown"}
    (full.project / "mine").mkdir()
    (full.project / "mine/init.lua").write_text(SKETCH)
    local(full, '[packages]\nsketch = { path = "mine" }')
    assert entry_of(full, "sketch")["source"] == {"type": "path"}


def test_the_index_is_as_old_as_the_newest_of_its_files(full: Home) -> None:
    (full.home / "installed.json").write_text("{}")
    for number, path in enumerate(["packages/sketch/init.lua", "cards/sketch/sketch_m_1.toml", "installed.json"]):
        os.utime(full.home / path, (0, 1_700_000_000 + number))
    reading = full.catalog().read("alc://hub/index")

    assert reading.last_modified_ms == 1_700_000_002_000
    assert json.loads(read(full.catalog(), "alc://hub/index"))["updated_at"] == "2023-11-14T22:13:22Z"


def test_one_changed_package_is_parsed_alone(full: Home) -> None:
    for number in range(20):
        full.write(f"packages/p{number}/init.lua", f'M.meta = {{ name = "p{number}" }}')
        full.write(f"cards/p{number}/c{number}.toml", CARD)
    provider = full.provider()
    sources = provider._reader.sources
    hub = provider._reader.hub
    before = hub.index({}, ParseBudget(60))
    assert sources.parsed == 21
    assert hub.index({}, ParseBudget(60)) is before

    full.write("packages/p7/init.lua", 'M.meta = { name = "p7", version = "2" }')
    after = hub.index({}, ParseBudget(60))

    assert sources.parsed == 22
    assert {one["name"]: one["version"] for one in json.loads(after.text)["packages"]}["p7"] == "2"
    full.write("cards/p7/new.toml", CARD)
    assert {one["name"]: one["card_count"] for one in json.loads(hub.index({}, ParseBudget(60)).text)["packages"]}[
        "p7"
    ] == 2
    assert sources.parsed == 22
