"""What is advised or cut fits a message on the wire, not only the bounds of alc."""

import json
import re
from collections.abc import Iterator

import pytest

from carrel.catalog.watcher import Watcher
from carrel.server.server import Server
from tests.providers.alc.homes import Home, refusal
from tests.support.schemas import LEGACY, MODERN, Conversation


@pytest.fixture
def conversation(full: Home) -> Iterator[Conversation]:
    catalog = full.catalog()
    talk = Conversation(Server(catalog, Watcher(catalog, 0.01)))
    yield talk
    talk.close()


ERRORS = {
    "an invalid scheme": ("ALC://types/alc.d.lua", -32602),
    "an unknown service": ("alc://foo/bar", -32602),
    "a step up": ("alc://types/../x", -32602),
    "a listed stub without its file": ("alc://types/alc.d.lua", -32602),
    "a missing card": ("alc://cards/no", -32602),
    "a missing session": ("alc://logs/no", -32602),
    "a missing result": ("alc://eval/no_1", -32602),
    "a bad query value": ("alc://logs/s-1?limit=x", -32602),
    "a cap that is exceeded": ("alc://logs/s-1?limit=10001", -32602),
    "an id with a reserved character": ("alc://cards/a%20b", -32602),
    "a card that is no TOML": ("alc://cards/bad", -32603),
    "a file that is no text": ("alc://scenarios/bad", -32603),
}


@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize(("uri", "code"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_has_the_same_code_in_both_eras(
    full: Home, conversation: Conversation, version: str, uri: str, code: int
) -> None:
    (full.home / "types/alc.d.lua").unlink()
    full.write("cards/sketch/bad.toml", "a = = 1")
    full.write("scenarios/bad.lua", b"\xff")
    listed = [entry["uri"] for entry in conversation.ask("resources/list", version=version)["resources"]]

    error = conversation.ask("resources/read", {"uri": uri}, version=version)

    assert (error["code"], error["data"]["uri"]) == (code, uri)
    assert "alc://types/alc.d.lua" in listed


@pytest.mark.slow
@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize(
    "row", ['{"text":"' + "x" * 8_000 + '"}', '{"t":"' + "記" * 3_000 + '"}', '"' + '\\"' * 4_000 + '"']
)
def test_the_limit_that_is_advised_for_samples_works(
    full: Home, conversation: Conversation, version: str, row: str
) -> None:
    full.write("cards/sketch/sketch_m_1.samples.jsonl", f"{row}\n" * 3_000)
    uri = "alc://cards/sketch_m_1/samples"

    _, message = refusal(full.catalog(), f"{uri}?limit=3000")
    found = re.search(r"limit=([0-9]+) works", message)
    assert found is not None
    answer = conversation.ask("resources/read", {"uri": f"{uri}?limit={found[1]}"}, version=version)

    rows = json.loads(answer["contents"][0]["text"])
    assert len(rows) == int(found[1]) > 50


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_a_japanese_log_is_cut_to_what_a_message_holds(full: Home, conversation: Conversation, version: str) -> None:
    rounds = [{"query_id": f"q{number}", "prompt": "質問" * 5_000} for number in range(95)]
    full.write("logs/ja.json", json.dumps({"session_id": "ja", "transcript": rounds}))

    answer = conversation.ask("resources/read", {"uri": "alc://logs/ja?limit=100&max_chars=1000000"}, version=version)

    told = json.loads(answer["contents"][0]["text"])
    assert (told["truncated"], told["original_rounds"]) == (True, 95)
    assert told["transcript"] == rounds[95 - told["returned_rounds"] :]
    assert 66 <= told["returned_rounds"] <= 70


def test_a_log_of_which_nothing_fits_a_message_is_read_in_parts(full: Home, conversation: Conversation) -> None:
    full.write("logs/notes.json", json.dumps({"notes": "記" * 900_000, "transcript": [1]}))
    uri = "alc://logs/notes?max_chars=1000000"

    refused = conversation.ask("resources/read", {"uri": uri})
    assert "start=0&length=" in refused["message"]
    part = conversation.ask("resources/read", {"uri": f"{uri}&start=0&length=1000"})
    assert part["contents"][0]["text"].startswith('{"notes":"記')
