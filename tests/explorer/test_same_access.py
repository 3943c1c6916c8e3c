"""What the explorer shows or hides is what the protocol serves or refuses: the same callers, the same URIs.

Every word that only one resource holds is a mark. A page may hold a mark only if the protocol gives it to the caller of
the page, whatever the page is about.
"""

import asyncio
import html
import json
import os
import random
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from carrel.app.app import Desk, open_desk
from carrel.app.config import load
from carrel.catalog.access import Access
from carrel.cli.serve import parse
from carrel.explorer.explorer import Explorer
from carrel.transports.http.app import App
from carrel.transports.http.guard import AcceptedNames, Guard
from examples.sample import lay_out
from tests.support.http_asking import Reply, ask, modern, modern_headers
from tests.support.sage_folder import git, put
from tests.support.waiting import until

SCHEMES = ("workspace", "logs", "sage", "scopes", "alc", "garden", "carrel")
PLACES = ("workspace:///docs/", "workspace:///README.md", "scopes://scope/project-alpha", "garden://beds/north")
HTML = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
MARK = re.compile(r"mark[0-9]{4}x")
STATUS = {-32602: (400, 404), -32601: (404,), -32803: (403,), -32002: (404,), -32603: (500, 503)}
"""Of each code of a refusal, the statuses that a page may have."""

SHELF = """
from carrel import Shelf

BEDS = {"north": "mark0001x", "south": "mark0002x"}
shelf = Shelf("garden")


@shelf.resource("garden://beds/{bed}", entries=lambda: BEDS)
def bed(bed: str) -> dict:
    return {"bed": bed, "word": BEDS[bed]}
"""

FILES = {
    "README.md": "# Read me\n\nmark1001x, then [more](docs/more.md) and [the key](secrets/id_rsa).\n",
    "docs/more.md": "mark1002x\n",
    "src/code.py": "word = 'mark1003x'\n",
    "src/data.json": '{"word": "mark1004x"}\n',
    "long.txt": "".join(f"line {number}\n" for number in range(9_000)) + "mark1005x\n",
    ".env": "KEY=mark2001x\n",
    "secrets/id_rsa": "mark2002x\n",
    "build/out.txt": "mark2003x\n",
    "own.private": "mark2004x\n",
    ".hidden/file.txt": "mark1006x\n",
    "node_modules/pack/index.js": "// mark2006x\n",
    "certificate.pem": "mark2007x\n",
    "docs/mark2008x.key": "x\n",
}
"""Those with a mark from 2001 on are never served to anybody."""

OWN = ("/-/providers", "/-/limits", "/-/health", "/-/subscriptions", "/-/callers", "/-/index")

MADE_UP = (
    "workspace:///nothing.txt",
    "workspace:///../etc/passwd",
    "workspace:///docs/%2e%2e/.env",
    "workspace:///README.md?at=HEAD",
    "workspace:///own.private?at=HEAD",
    "workspace:///README.md?log",
    "workspace:///README.md?blame",
    "workspace:///README.md?diff=HEAD~1..HEAD",
    "workspace:///?log",
    "workspace:///README.md?lines=1-2",
    "workspace:///README.md?lines=900-901",
    "workspace:///long.txt?lines=8990-",
    "workspace:///src/code.py?outline",
    "workspace:///src?outline",
    "workspace:///README.md?unknown=1",
    "workspace:///README.md/",
    "workspace:///src",
    "workspace:///src/",
    "workspace:///",
    "git://log",
    "git://commit/HEAD",
    "git://diff/HEAD~1..HEAD",
    "git://status",
    "git://branches",
    "git://commit/nothing",
    "logs://",
    "logs://run",
    "logs://run/nothing",
    "sage://",
    "sage://system",
    "sage://failure",
    "sage://nothing",
    "scopes://scope",
    "scopes://tree",
    "scopes://tree/project-alpha",
    "scopes://scope/nothing",
    "alc://",
    "alc://packages",
    "alc://packages/sketch",
    "alc://packages/nothing/meta",
    "garden://",
    "garden://beds",
    "garden://beds/east",
    "carrel://guide",
    "carrel://catalog",
    "carrel://health",
    "carrel://nothing",
    "carrel://search?q=mark1002x",
    "carrel://search?q=mark2001x",
    "unknown://thing",
    "no uri at all",
    "http://example.org/",
    "file:///etc/passwd",
)


class Callers:
    """Tokens by their scopes, without files."""

    def __init__(self, accesses: Sequence[Access]) -> None:
        self.accesses = {f"token-{number}": access for number, access in enumerate(accesses)}

    def find(self, token: str) -> Access | None:
        """Return the access of a token."""
        return self.accesses.get(token)


class House(NamedTuple):
    """A desk, its pages, who may come, and what may be asked for."""

    app: App
    callers: Callers
    uris: list[str]


def make_callers(chance: random.Random) -> Callers:
    made = [Access("all"), Access("nobody", frozenset()), Access("reader", frozenset({"*:read"}))]
    for number in range(13):
        scopes = {f"{scheme}:{right}" for scheme in SCHEMES for right in ("read", "tools") if chance.random() < 0.4}
        if number % 2:
            scopes = {scope for scope in scopes if not scope.startswith(("workspace", "scopes", "garden"))}
            scopes |= {f"{place}:read" for place in PLACES if chance.random() < 0.5}
        made.append(Access(f"caller {number}", frozenset(scopes)))
    return Callers(made)


def lay_out_marks(project: Path) -> None:
    lay_out(project)
    for name, text in FILES.items():
        put(project / name, text)
    put(project / ".gitignore", "build/\nnode_modules/\n")
    deny = 'deny = ["*.private"]\npreset = "code"\n'
    put(project / "carrel.toml", f'[alc]\nhome = ".algocline"\n\n[workspace]\n{deny}')
    git(project, "init", "-q", "-b", "main")
    for message in ("One", "Two"):
        put(project / "docs/more.md", f"{message}: mark1002x\n")
        git(project, "add", "-A", "-f")
        author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        subprocess.run(["git", *author, "commit", "-qm", message], cwd=project, check=True)


@pytest.fixture(scope="module", name="house")
def whole_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Open a desk with everything, without a socket."""
    folder = tmp_path_factory.mktemp("house")
    project = folder / "project"
    lay_out_marks(project)
    put(folder / "garden.py", SHELF)
    environment = {"HOME": str(folder / "home"), "PATH": os.environ["PATH"]}
    parsed = parse(["--project", str(project), str(folder / "garden.py")])
    desk = open_desk(load(parsed.project, environment, parsed.flags, parsed.origins))
    callers = make_callers(random.Random(22))
    try:
        app = App(desk.server, Guard(AcceptedNames(is_loopback=True), callers), pages=partial(_explorer, desk))
        files = [f"workspace:///{name}" for name in FILES] + ["workspace:///docs", "workspace:///secrets"]
        listed = [entry.uri for entry in desk.catalog.entries()]
        until(lambda: is_whole(str(desk.catalog.read("carrel://search?q=mark0001x").items)))
        yield House(app, callers, sorted({*listed, *files, *MADE_UP}))
    finally:
        desk.close()


def is_whole(found: str) -> bool:
    """Return whether a search found all it can find: two reads of one search are compared."""
    return marks(found) >= {"mark0001x", "mark1001x"} and "partial: " not in found


def _explorer(desk: Desk, app: App) -> Explorer:
    return Explorer(desk, app)


async def call(house: House, token: str, method: str, uri: str) -> dict[str, Any]:
    """Make a call of the protocol."""
    headers = {**modern_headers(method, uri), "authorization": f"Bearer {token}"}
    reply = await ask(house.app, "POST", "/mcp", headers, modern(method, {"uri": uri}))
    told: dict[str, Any] = reply.json
    return told


async def open_page(house: House, token: str, path: str, accept: str = HTML) -> Reply:
    """Ask for a page."""
    return await ask(house.app, "GET", path, {"accept": accept, "authorization": f"Bearer {token}"})


def marks(text: str | bytes) -> set[str]:
    return set(MARK.findall(text if isinstance(text, str) else text.decode()))


def address(uri: str, chance: random.Random, twin: str = "") -> str:
    """Return an address of a URI's page: the short one if there is one, or the one that takes any URI."""
    scheme, separator, rest = uri.partition("://")
    if separator and ".." not in uri and "%2e" not in uri and not twin and chance.random() < 0.7:
        return f"/{scheme}/{rest.removeprefix('/') if scheme == 'workspace' else rest}"
    return f"/-/read{twin}?uri={quote(uri, safe='')}"


async def compare(house: House, chance: random.Random) -> str:
    """Ask for something as somebody, in both ways; return whether it was served or refused."""
    token, uri = chance.choice(sorted(house.callers.accesses)), chance.choice(house.uris)
    read = await call(house, token, "resources/read", uri)
    folder = await call(house, token, "resources/directory/read", uri)
    page = await open_page(house, token, address(uri, chance))
    where = f"{house.callers.accesses[token]} {uri}: {page.status}"
    seen, given = marks(page.body), marks(json.dumps([read, folder])) | marks(uri)
    assert seen <= given, f"{where}: the page shows {sorted(seen - given)}"
    assert not {mark for mark in seen - marks(uri) if mark > "mark2"}, where
    if "result" not in read and "result" not in folder:
        assert page.status in STATUS[read["error"]["code"]], f"{where}, but {read['error']}"
        said = read["error"]["message"].partition(";")[0]
        is_said = shown(said) in shown(html.unescape(page.body.decode()))
        assert is_said, f"{where}: does not say {said!r}"
        return "refused"
    assert page.status == 200, f"{where}, but {str(read)[:300]}"
    await compare_data(house, token, uri, read, folder)
    return "served"


async def compare_data(house: House, token: str, uri: str, read: dict[str, Any], folder: dict[str, Any]) -> None:
    """Compare the data of a page with the answers of the protocol."""
    twin = await open_page(house, token, f"/-/read.json?uri={quote(uri, safe='')}", "*/*")
    assert twin.status == 200, uri
    data = twin.json
    if data["kind"] == "folder":
        listed = [child["uri"] for child in folder["result"]["resources"]][: len(data["children"])]
        assert [child["uri"] for child in data["children"]] == listed, uri
    elif "dev.carrel/next" not in json.dumps(data["result"]):
        texts = [item.get("text", item.get("blob")) for item in read["result"]["contents"]]
        assert [item.get("text", item.get("blob")) for item in data["result"]["contents"]] == texts, uri


def shown(text: str) -> str:
    """Return a text without what wraps and marks it up."""
    return "".join(re.sub(r"<[^<>]*>", "", text).split())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_10_000_pairs_of_caller_and_uri_are_shown_or_hidden_as_the_protocol_does(house: House, seed: int) -> None:
    async def talk() -> Counter[str]:
        chance = random.Random(seed)
        return Counter([await compare(house, chance) for _ in range(2_500)])

    counted = asyncio.run(talk())
    assert min(counted["served"], counted["refused"]) > 500, counted


@pytest.mark.slow
def test_no_page_of_the_server_shows_a_caller_what_the_protocol_does_not_give(house: House) -> None:
    async def talk() -> None:
        chance = random.Random(5)
        for token in house.callers.accesses:
            answers = [await call(house, token, "resources/read", uri) for uri in house.uris]
            readable = marks(json.dumps(answers))
            for path in own_pages(house, chance):
                page = await open_page(house, token, path)
                seen = marks(page.body) - marks(path)
                assert seen <= readable, f"{house.callers.accesses[token]} {path}: {sorted(seen - readable)}"

    asyncio.run(talk())


def own_pages(house: House, chance: random.Random) -> list[str]:
    """Return addresses of pages that are not those of one resource."""
    bare = [f"{path}{twin}" for path in ("/index", *OWN) for twin in (".json", ".md")]
    explained = [f"/-/explain?uri={quote(uri, safe='')}" for uri in chance.sample(house.uris, 20)]
    words = ["mark1002x", "mark2001x", "line", "north", "sketch", "word", "KEY", "alpha"]
    searched = [f"/-/search{twin}?q={word}" for word in words for twin in ("", ".json", ".md")]
    return ["/", *OWN, *bare, *explained, *searched]
