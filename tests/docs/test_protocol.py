"""The examples of docs/protocol.md, asked of a real desk in their order; and its table of versions."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from carrel.app import config
from carrel.app.app import open_desk
from carrel.core.tokens import estimate_tokens
from carrel.protocol import eras
from tests.support.schemas import Conversation
from tests.support.workspaces import fill, settle

PAGE = Path(__file__).resolve().parents[2] / "docs/protocol.md"
EXAMPLE = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES: dict[str, str | bytes] = {
    "notes.md": "one\ntwo\nthree\nfour\n",
    "src/lend.py": "def lend(book):\n    return book\n",
    "src/shelve.py": "def shelve(book):\n    return None\n",
}
LONG = "".join(f"## Chapter {number}\n\nMuch is said about books here.\n\n" for number in range(100))


@pytest.fixture(name="client")
def desk_of_the_page(tmp_path: Path) -> Iterator[Conversation]:
    project = fill(tmp_path / "library", FILES)
    settle(*(project / name for name in FILES))  # an ETag of what was written a moment ago holds only once
    desk = open_desk(config.load(str(project), {"HOME": str(tmp_path)}, ()))
    client = Conversation(desk.server)
    yield client
    client.close()
    desk.close()


def pairs() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each request of the page with the answer that follows it."""
    blocks = [json.loads(text) for text in EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))]
    assert ["method" in block for block in blocks] == [True, False] * (len(blocks) // 2)
    return zip(blocks[::2], blocks[1::2], strict=True)


def filled(value: Any, names: dict[str, Any]) -> Any:
    """Return a part of a request with the values that earlier answers gave."""
    if isinstance(value, dict):
        return {key: filled(part, names) for key, part in value.items()}
    return names[value] if isinstance(value, str) and value.startswith("$") else value


def differences(shown: Any, given: Any, names: dict[str, Any], where: str = "") -> list[str]:
    """Return where an answer is not what the page shows; keys that the page leaves out do not count."""
    if isinstance(shown, dict) and isinstance(given, dict):
        missing = [f"{where}.{key} is missing" for key in shown if key not in given]
        common = [key for key in shown if key in given]
        return missing + [one for key in common for one in differences(shown[key], given[key], names, f"{where}.{key}")]
    if isinstance(shown, list) and isinstance(given, list) and len(shown) == len(given):
        both = enumerate(zip(shown, given, strict=True))
        return [one for at, (a, b) in both for one in differences(a, b, names, f"{where}[{at}]")]
    if isinstance(shown, str) and shown.startswith("$"):
        shown = names.setdefault(shown, given)
    return [] if shown in ("…", given) else [f"{where}: {shown!r} is shown, {given!r} is given"]


def test_every_example_of_the_page_is_answered_as_it_says(client: Conversation, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    asked = 0
    for request, shown in pairs():
        if "long.md" in json.dumps(request):
            fill(tmp_path / "library", {"long.md": LONG})
        given = client.ask(request["method"], filled(request["params"], names))
        given = {"error": given} if "error" in shown else given
        assert differences(shown, given, names) == [], request
        asked += 1

    assert asked >= 10
    rest = client.ask("resources/read", {"uri": names["$rest"]})["contents"][0]
    assert estimate_tokens(rest["text"]) <= 100


def test_a_wrong_example_would_be_noticed() -> None:
    assert differences({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}], "c": 0}, {}) == [
        ".a[1].b: 'x' is shown, 'y' is given"
    ]
    assert differences({"a": 1}, {}, {}) == [".a is missing"]
    assert differences(["$x", "$x"], [1, 2], {}) == ["[1]: 1 is shown, 2 is given"]


def test_the_page_names_every_version() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert [name for name in (*eras.VERSIONS.modern, *eras.VERSIONS.legacy) if f"`{name}`" not in page] == []
