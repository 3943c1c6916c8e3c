"""The answers the C floor sends, encoded beforehand by the bare loop."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.messages import Era, initialize, request
from bench.peers.bare import Loop
from bench.peers.served import CONDITION, FILES, MEMORY, PAGE, SIZES, Folder, Options
from bench.works import ENTRIES, PART

ERAS: Final[tuple[Era, ...]] = ("modern", "legacy")
AFTER_ID: Final = b'"id":0'


def lay_answers(folder: Path) -> None:
    """Write the answers to every request of the harness, in the order in which they are to be tried."""
    for count in set(ENTRIES.values()):
        loop = Loop(Options(str(folder), count, 0))
        place = folder / f"floor-{count}"
        place.mkdir()
        for number, (needle, method, params) in enumerate(asked(folder, count)):
            (place / f"{number}.needle").write_text(needle, "utf-8")
            for era in ERAS:
                line = initialize() if method == "initialize" else request(method, params, era)
                answer = loop.answer(line) or b""
                (place / f"{number}.{era}").write_bytes(answer.partition(AFTER_ID)[2])


def asked(folder: Path, count: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield a word that is in a request, its method and its parameters; the more special first."""
    start, length = PART
    conditional = f"{FILES}100k.txt"
    etag = Folder(str(folder)).etag(conditional)
    for condition, spelled in (('"none"', '\\"none\\"'), (etag, etag)):
        params = {"uri": conditional, "_meta": {CONDITION: condition}}
        yield f'"{CONDITION}":"{spelled}"', "resources/read", params
    part = f"{FILES}100m.txt?start={start}&length={length}"
    uris = [part, *(prefix + name for prefix in (MEMORY, FILES) for name in SIZES if name != "100m.txt")]
    for uri in uris:
        yield f'"{uri}"', "resources/read", {"uri": uri}
    for method in ("resources/templates/list", "initialize", "server/discover"):
        yield f'"{method}"', method, {}
    for cursor in range(PAGE, count, PAGE):
        yield f'"cursor":"{cursor}"', "resources/list", {"cursor": str(cursor)}
    yield '"resources/list"', "resources/list", {}
