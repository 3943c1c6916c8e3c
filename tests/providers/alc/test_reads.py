"""Reads of every kind, what each failure is called, and the state that goes with a reading."""

import json
import os
from pathlib import Path

import pytest

from carrel.core.errors import ProviderError
from carrel.core.model import Range, Text
from tests.providers.alc.homes import SKETCH, Home, compact, read, refusal, text_of

CARD_JSON = (
    '{"card_id":"sketch_m_1","created_at":"2026-04-01T00:00:00Z","pkg":{"name":"sketch"},'
    '"schema_version":"card/v0","stats":{"pass_rate":1.0}}'
)


# Every kind

UUID = "3f4b1a2c-0001-0000-0000-000000000000"
ROWS = [{"case_idx": number} for number in range(150)]


@pytest.mark.parametrize(
    ("uri", "mime_type", "beginning"),
    [
        ("alc://packages/panel/init.lua", "text/x-lua", SKETCH),
        ("alc://packages/cot/meta", "application/json", '{"has_meta":false,"linked":false,"name":"cot"'),
        ("alc://packages/cot/narrative", "text/markdown", "# cot\n"),
        (f"alc://cards/{UUID}", "application/json", '{"a":1}'),
        (f"alc://cards/{UUID}/samples?offset=0&limit=20", "application/json", compact(ROWS[:20])),
        (f"alc://cards/{UUID}/samples", "application/json", compact(ROWS[:100])),
        ("alc://scenarios/my_scenario", "text/x-lua", "return {}\n"),
        (f"alc://logs/{UUID}?limit=50&max_chars=10000", "application/json", '{"original_rounds":60,'),
        ("alc://hub/index", "application/json", '{"packages":['),
    ],
)
def test_the_examples_of_the_documents_are_read(full: Home, uri: str, mime_type: str, beginning: str) -> None:
    full.write("packages/panel/init.lua", SKETCH)
    full.write("packages/cot/init.lua", "return {}")
    full.write(f"cards/x/{UUID}.toml", "a = 1")
    full.write(f"cards/x/{UUID}.samples.jsonl", "".join(f"{json.dumps(row)}\n" for row in ROWS))
    full.write(f"logs/{UUID}.json", json.dumps({"transcript": list(range(60))}))

    reading = full.catalog().read(uri)

    assert (reading.mime_type, text_of(reading)[: len(beginning)]) == (mime_type, beginning)


# Files as they are


@pytest.mark.parametrize(
    ("uri", "text", "mime_type"),
    [
        ("alc://types/alc.d.lua", "---@meta\n", "text/x-lua"),
        ("alc:///types//alc_shapes.d.lua/", "---@meta shapes\n", "text/x-lua"),
        ("alc://packages/sketch/init.lua", SKETCH, "text/x-lua"),
        ("alc://scenarios/my_scenario", "return {}\n", "text/x-lua"),
        ("alc://eval/sketch_1745000000", '{"status": "completed"}\n', "application/json"),
        ("alc://cards/sketch_m_1", CARD_JSON, "application/json"),
        (
            "alc://cards/sketch_m_1/samples",
            '[{"case_idx":0,"score":1.0},{"case_idx":1,"score":0.0}]',
            "application/json",
        ),
        ("alc://logs/s-1", '{"session_id":"s-1","transcript":[{"query_id":"q1"}]}', "application/json"),
    ],
)
def test_every_kind_is_read(full: Home, uri: str, text: str, mime_type: str) -> None:
    reading = full.catalog().read(uri)

    assert (text_of(reading), reading.mime_type) == (text, mime_type)


def test_files_are_served_byte_for_byte(full: Home) -> None:
    full.write("scenarios/odd.lua", b"\xef\xbb\xbfone\r\ntwo\rthree\n\n\xc3\xa9")

    assert read(full.catalog(), "alc://scenarios/odd") == "\ufeffone\r\ntwo\rthree\n\né"


def test_a_part_of_a_file_is_given_like_everywhere(full: Home) -> None:
    full.write("scenarios/odd.lua", "\ufeffé and more")
    catalog = full.catalog()

    assert read(catalog, "alc://scenarios/odd?start=0&length=5") == "\ufeffé"
    assert text_of(catalog.read("alc://scenarios/odd", Range(5, 4))) == " and"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("alc://types/alc.d.lua", "resource not found: alc://types/alc.d.lua"),
        ("alc://packages/no/init.lua", "pkg not found: no"),
        ("alc://packages/no/meta", "resource not found: alc://packages/no/meta"),
        ("alc://packages/no/narrative", "resource not found: alc://packages/no/narrative"),
        ("alc://cards/no", "card 'no' not found"),
        ("alc://cards/no/samples?limit=1", "card 'no' not found"),
        ("alc://scenarios/no", "Scenario 'no' not found"),
        ("alc://eval/no_1", "Eval result not found: no_1"),
        ("alc://logs/no", "Log file not found for session 'no'"),
        (f"alc://logs/{'x' * 300}", f"Log file not found for session '{'x' * 200}…'"),
    ],
)
def test_what_is_not_there_is_named_as_its_kind_names_it(home: Home, uri: str, message: str) -> None:
    assert refusal(home.catalog(), uri) == ("NotFound", message)
    home.home.mkdir()
    for folder in ("types", "packages", "cards", "scenarios", "evals", "logs"):
        (home.home / folder).mkdir()
    assert refusal(home.catalog(), uri) == ("NotFound", message)


def test_summaries_comparisons_and_half_written_files_are_not_served(full: Home) -> None:
    catalog = full.catalog(eval_ids="relaxed")

    assert refusal(catalog, "alc://logs/s-1.meta") == ("NotFound", "Log file not found for session 's-1.meta'")
    assert refusal(catalog, "alc://logs/s-2")[0] == "NotFound"
    assert refusal(catalog, "alc://eval/compare_sketch_1_vs_cot_2")[0] == "InvalidParams"


def test_relaxed_eval_ids_hold_underscores(full: Home) -> None:
    full.write("evals/plan_solve_1745000000.json", "{}")

    assert read(full.catalog(eval_ids="relaxed"), "alc://eval/plan_solve_1745000000") == "{}"


KINDS = {
    "alc://types/alc.d.lua": ("types/alc.d.lua", "failed to read type stub 'alc.d.lua'"),
    "alc://packages/sketch/init.lua": ("packages/sketch/init.lua", "failed to read package 'sketch'"),
    "alc://cards/sketch_m_1": ("cards/sketch/sketch_m_1.toml", "Failed to read card 'sketch_m_1'"),
    "alc://cards/sketch_m_1/samples": ("cards/sketch/sketch_m_1.samples.jsonl", "Failed to read samples file"),
    "alc://scenarios/my_scenario": ("scenarios/my_scenario.lua", "Failed to read scenario 'my_scenario'"),
    "alc://eval/sketch_1745000000": ("evals/sketch_1745000000.json", "Failed to read eval"),
    "alc://logs/s-1": ("logs/s-1.json", "Failed to read log"),
}


@pytest.mark.parametrize("uri", KINDS)
def test_a_fifo_is_refused_and_never_waited_for(full: Home, uri: str) -> None:
    path, message = KINDS[uri]
    (full.home / path).unlink()
    os.mkfifo(full.home / path)

    assert refusal(full.catalog(), uri) == ("Internal", f"{message}: not a regular file")


@pytest.mark.parametrize("uri", KINDS)
def test_a_folder_in_place_of_a_file_is_no_file(full: Home, uri: str) -> None:
    path, message = KINDS[uri]
    (full.home / path).unlink()
    (full.home / path).mkdir()

    assert refusal(full.catalog(), uri) == ("Internal", f"{message}: not a regular file")


@pytest.mark.parametrize("uri", KINDS)
def test_a_link_out_of_its_base_is_refused(full: Home, uri: str) -> None:
    path = full.home / KINDS[uri][0]
    path.unlink()
    (full.folder / "secret").write_text("secret")

    path.symlink_to(full.folder / "secret")
    assert refusal(full.catalog(), uri) == ("InvalidParams", f"Path '{path.name}' escapes base directory")

    path.unlink()
    path.symlink_to("../../../secret" if path.parent.parent.name != "home" else "../../secret")
    assert refusal(full.catalog(), uri) == ("InvalidParams", f"Path '{path.name}' escapes base directory")


@pytest.mark.parametrize("uri", KINDS)
@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_link_that_stays_inside_its_base_is_followed(full: Home, uri: str, is_absolute: bool) -> None:
    path = full.home / KINDS[uri][0]
    expected = read(full.catalog(), uri)
    moved = path.with_name("moved")
    path.rename(moved)
    path.symlink_to(moved if is_absolute else f"../{path.parent.name}/moved")

    assert read(full.catalog(), uri) == expected


@pytest.mark.parametrize(
    "target", ["scenarios-old/a.lua", "Scenarios/a.lua", "scenarios/../scenarios-old/a.lua", "scenarios"]
)
def test_a_folder_whose_name_only_begins_alike_is_another(full: Home, target: str) -> None:
    for folder in ("scenarios-old", "Scenarios"):
        full.write(f"{folder}/a.lua", "secret")
    (full.home / "scenarios/link.lua").symlink_to(full.home / target)

    assert refusal(full.catalog(), "alc://scenarios/link") == (
        "InvalidParams",
        "Path 'link.lua' escapes base directory",
    )


def test_a_loop_and_a_dangling_link_are_nothing(full: Home) -> None:
    (full.home / "scenarios/loop.lua").symlink_to("loop.lua")
    (full.home / "scenarios/gone.lua").symlink_to("/nowhere/at/all")

    assert refusal(full.catalog(), "alc://scenarios/loop") == ("NotFound", "Scenario 'loop' not found")
    assert refusal(full.catalog(), "alc://scenarios/gone") == ("NotFound", "Scenario 'gone' not found")


@pytest.mark.parametrize(
    "uri",
    [uri for uri in KINDS if not uri.endswith("/samples")],
)
def test_bytes_that_are_no_text_are_a_failure(full: Home, uri: str) -> None:
    path, message = KINDS[uri]
    full.write(path, b"\xff\xfe")

    assert refusal(full.catalog(), uri) == ("Internal", f"{message}: stream did not contain valid UTF-8")


@pytest.mark.parametrize("uri", [uri for uri in KINDS if not uri.endswith("/samples")])
def test_a_file_larger_than_the_bound_is_not_read(full: Home, uri: str) -> None:
    size = (full.home / KINDS[uri][0]).stat().st_size

    assert refusal(full.catalog(max_file_bytes=size - 1), uri) == (
        "TooLarge",
        f"file of {uri} is {size} bytes, limit is {size - 1}",
    )
    read(full.catalog(max_file_bytes=size), uri)


def test_data_may_appear_and_vanish_while_carrel_runs(home: Home) -> None:
    catalog = home.catalog()
    assert refusal(catalog, "alc://scenarios/a")[0] == "NotFound"

    path = home.write("scenarios/a.lua", "one")
    assert read(catalog, "alc://scenarios/a") == "one"

    path.unlink()
    assert refusal(catalog, "alc://scenarios/a")[0] == "NotFound"
    assert not (home.home / "logs").exists()


# Cards


def test_toml_becomes_json_and_nothing_is_dropped(full: Home) -> None:
    full.write(
        "cards/sketch/odd.toml",
        """\
z = 1
nan = nan
inf = -inf
utc = 2026-04-01T01:02:03.1200Z
offset = 2026-04-01T01:02:03+09:00
local = 2026-04-01T01:02:03.000001
day = 2026-04-01
time = 01:02:03
text = "größe \\u0000 \\""
list = [1, 2.0, [true]]
""",
    )

    assert read(full.catalog(), "alc://cards/odd") == (
        '{"day":"2026-04-01","inf":null,"list":[1,2.0,[true]],"local":"2026-04-01T01:02:03.000001","nan":null,'
        '"offset":"2026-04-01T01:02:03+09:00","text":"größe \\u0000 \\"","time":"01:02:03",'
        '"utc":"2026-04-01T01:02:03.12Z","z":1}'
    )


def test_a_card_that_is_no_toml_is_a_failure(full: Home) -> None:
    full.write("cards/sketch/bad.toml", "a = = 1")

    assert refusal(full.catalog(), "alc://cards/bad") == (
        "Internal",
        "Failed to parse card 'bad': Invalid value (at line 1, column 5)",
    )


def test_the_first_folder_that_holds_a_card_wins(full: Home) -> None:
    full.write("cards/zeta/twice.toml", "from = 'zeta'")
    full.write("cards/alpha/twice.toml", "from = 'alpha'")
    full.write("cards/zeta/deeper/hidden.toml", "")
    full.write("cards/top.toml", "")

    catalog = full.catalog()

    assert read(catalog, "alc://cards/twice") == '{"from":"alpha"}'
    assert refusal(catalog, "alc://cards/hidden")[0] == "NotFound"
    assert refusal(catalog, "alc://cards/top")[0] == "NotFound"
    assert refusal(catalog, "alc://cards/_aliases")[0] == "NotFound"


def test_a_folder_of_cards_that_leads_outside_hides_no_other_card(full: Home) -> None:
    outside = full.folder / "outside"
    outside.mkdir()
    (outside / "stray.toml").write_text("a = 1")
    (full.home / "cards/aaa").symlink_to(outside)

    assert read(full.catalog(), "alc://cards/sketch_m_1") == CARD_JSON
    assert refusal(full.catalog(), "alc://cards/stray") == (
        "InvalidParams",
        "Path 'stray.toml' escapes base directory",
    )


# Logs


def test_a_log_keeps_the_newest_rounds_and_says_so(full: Home) -> None:
    rounds = [{"query_id": f"q{number}", "prompt": "p" * 100} for number in range(60)]
    full.write("logs/long.json", json.dumps({"session_id": "long", "transcript": rounds}))
    catalog = full.catalog()

    told = json.loads(read(catalog, "alc://logs/long"))
    assert told == {
        "session_id": "long",
        "transcript": rounds[10:],
        "truncated": True,
        "original_rounds": 60,
        "returned_rounds": 50,
    }
    text = read(catalog, "alc://logs/long?max_chars=1000")
    assert len(text) <= 1_000
    assert json.loads(text)["transcript"] == rounds[-6:]


def test_a_log_that_cannot_fit_says_what_would(full: Home) -> None:
    catalog = full.catalog()
    uri = "alc://logs/s-1?max_chars="
    size = len(read(catalog, "alc://logs/s-1"))

    assert refusal(catalog, f"{uri}0") == (
        "TooLarge",
        f"log of session 's-1' does not fit in max_chars=0; smallest max_chars that works is {size}",
    )
    assert len(read(catalog, f"{uri}{size}")) == size
    full.write("logs/huge.json", json.dumps({"stats": "x" * 1_000_001}))
    assert refusal(catalog, "alc://logs/huge?max_chars=1000000") == (
        "TooLarge",
        "log of session 'huge' does not fit in max_chars=1000000; it needs 1000013, above the cap of 1000000",
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ('{"a": NaN}', "NaN is not JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_log_that_is_no_json_is_a_failure(full: Home, data: str, reason: str) -> None:
    full.write("logs/bad.json", data)

    assert refusal(full.catalog(), "alc://logs/bad") == ("Internal", f"Failed to parse log: {reason}")


def test_the_log_folder_is_the_first_candidate_that_is_one(home: Home) -> None:
    places = {
        "setting": home.folder / "setting",
        "home": home.home / "logs",
        "state": home.folder / "user/.local/state/algocline/logs",
        "here": home.project / "algocline-logs",
    }
    catalog = home.catalog(log_dir=str(places["setting"]))
    for name, place in reversed(places.items()):
        place.mkdir(parents=True)
        (place / "s.json").write_text(json.dumps(name))
        assert read(catalog, "alc://logs/s") == json.dumps(name)


# State


def test_a_condition_that_holds_is_answered_without_reading(full: Home) -> None:
    catalog = full.catalog()
    path = full.write("scenarios/a.lua", b"good")
    etag = catalog.read("alc://scenarios/a").etag
    before = path.stat()
    path.write_bytes(b"\xff\xff\xff\xff")  # what cannot be read, in a file that looks the same
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    reading = catalog.read("alc://scenarios/a", condition=etag)

    assert (reading.unchanged, reading.etag, reading.mime_type) == (True, etag, "text/x-lua")
    assert refusal(catalog, "alc://scenarios/a")[0] == "Internal"


@pytest.mark.parametrize("uri", [*KINDS, "alc://packages/sketch/meta", "alc://packages/sketch/narrative"])
def test_the_etag_changes_when_the_file_does(full: Home, uri: str) -> None:
    catalog = full.catalog()
    path = full.home / KINDS.get(uri, KINDS["alc://packages/sketch/init.lua"])[0]
    before = catalog.read(uri)
    assert before.etag is not None
    assert len(before.etag) == 16
    assert catalog.read(uri).etag == before.etag
    assert before.last_modified_ms == path.stat().st_mtime_ns // 1_000_000

    os.utime(path, ns=(1, 1_700_000_000_000_000_000))

    after = catalog.read(uri)
    assert (after.etag != before.etag, after.last_modified_ms) == (True, 1_700_000_000_000)


def test_the_query_is_part_of_the_etag_by_its_effect(full: Home) -> None:
    catalog = full.catalog()
    etags = [
        catalog.read(f"alc://cards/sketch_m_1/samples{query}").etag
        for query in ("", "?limit=100", "?limit=+0100&offset=0", "?limit=5", "?offset=1")
    ]

    assert etags[0] == etags[1] == etags[2]
    assert len(set(etags)) == 3


def test_a_card_without_samples_has_the_state_of_the_card(full: Home) -> None:
    path = full.write("cards/sketch/bare.toml", "a = 1")
    reading = full.catalog().read("alc://cards/bare/samples")

    assert text_of(reading) == "[]"
    assert reading.last_modified_ms == path.stat().st_mtime_ns // 1_000_000
    [item] = reading.items
    assert item.meta is not None
    assert item.meta["dev.carrel/size"] == 2


def test_a_reading_tells_the_size_of_its_file(full: Home) -> None:
    [item] = full.catalog().read("alc://cards/sketch_m_1/samples?limit=1").items

    assert isinstance(item, Text)
    assert item.meta is not None
    size = (full.home / "cards/sketch/sketch_m_1.samples.jsonl").stat().st_size
    assert (item.meta["dev.carrel/size"], item.meta["dev.carrel/total"]) == (size, len(item.text))


def test_no_message_holds_a_server_path(full: Home) -> None:
    catalog = full.catalog()
    (full.home / "cards/sketch/sketch_m_1.toml").write_bytes(b"\xff")
    (full.project / "alc.toml").write_text("")
    (full.project / "alc.local.toml").write_text("[packages\n")

    for uri in ("alc://cards/sketch_m_1", "alc://packages/sketch/init.lua", "alc://hub/index"):
        with pytest.raises(ProviderError) as caught:
            catalog.read(uri)
        assert str(full.folder) not in caught.value.message


def test_nothing_is_written_under_the_home(full: Home) -> None:
    def state() -> list[tuple[str, int]]:
        paths = (full.home, *sorted(full.home.rglob("*")))
        return [(str(path), path.stat().st_mtime_ns) for path in paths]

    before = state()
    catalog = full.catalog()
    for entry in catalog.entries():
        catalog.read(entry.uri)
    catalog.complete("alc://cards/{card_id}", "card_id", "", {})

    assert state() == before


def test_a_missing_home_is_not_created(home: Home) -> None:
    catalog = home.catalog()
    assert json.loads(read(catalog, "alc://hub/index")) == {
        "packages": [],
        "schema_version": "hub_index/v0",
        "updated_at": "1970-01-01T00:00:00Z",
    }
    assert [entry.uri for entry in catalog.entries()] == [
        "alc://types/alc.d.lua",
        "alc://types/alc_shapes.d.lua",
        "alc://hub/index",
    ]
    assert not Path(home.home).exists()
