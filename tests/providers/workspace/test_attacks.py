"""Every trick we know to read what lies outside, or what is denied: by URI, by link, by race. None works."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import monotonic

import pytest

from carrel.core.errors import RequestError
from carrel.core.model import Resource
from tests.support.workspaces import SECRET, Served, fill, handles

OUTSIDE, MISSING, INVALID, DENY, HIDDEN = (
    "DENIED outside",
    "NOTFOUND",
    "BADARGUMENT uri",
    "DENIED deny",
    "DENIED hidden",
)

URIS = {
    # Steps up, spelled in every way
    "workspace:///../secret.md": OUTSIDE,
    "workspace:///lib/../../secret.md": OUTSIDE,
    "workspace:///lib/./../../secret.md": OUTSIDE,
    "workspace:///lib/..": OUTSIDE,
    "workspace:///..": OUTSIDE,
    "workspace:..": OUTSIDE,
    "workspace:../secret.md": OUTSIDE,
    "workspace:/../secret.md": OUTSIDE,
    "workspace://../secret.md": OUTSIDE,
    "workspace:////../secret.md": OUTSIDE,
    "workspace://///../secret.md": OUTSIDE,
    "workspace:///lib//..//..//secret.md": OUTSIDE,
    "workspace:///%2e%2e/secret.md": OUTSIDE,
    "workspace:///%2E%2E/secret.md": OUTSIDE,
    "workspace:///.%2e/secret.md": OUTSIDE,
    "workspace:///%2e./secret.md": OUTSIDE,
    "workspace:///%2e%2e%2fsecret.md": OUTSIDE,
    "workspace:///..%2fsecret.md": OUTSIDE,
    "workspace:///..%2Fsecret.md": OUTSIDE,
    "workspace:///lib%2f..%2f..%2fsecret.md": OUTSIDE,
    "workspace:///%2f..%2fsecret.md": OUTSIDE,
    "workspace:///..\\secret.md": OUTSIDE,
    "workspace:///..%5csecret.md": OUTSIDE,
    "workspace:///lib\\..\\..\\secret.md": OUTSIDE,
    "workspace:///%5c..%5csecret.md": OUTSIDE,
    "workspace:///lib/..%5c..%2fsecret.md": OUTSIDE,
    "workspace:///../root/a.md": OUTSIDE,
    "workspace:///../root-2/secret.md": OUTSIDE,
    "workspace://@other/../secret.md": OUTSIDE,
    "workspace:///..?start=0": OUTSIDE,
    "workspace:///../secret.md?lines=1": OUTSIDE,
    # Encoded twice, overlong, look-alike: these are names, or no URIs
    "workspace:///%252e%252e/secret.md": MISSING,
    "workspace:///%252e%252e%252fsecret.md": MISSING,
    "workspace:///..%252fsecret.md": HIDDEN,
    "workspace:///%c0%ae%c0%ae/secret.md": INVALID,
    "workspace:///%c0%2e%c0%2e/secret.md": INVALID,
    "workspace:///%e0%80%ae%e0%80%ae/secret.md": INVALID,
    "workspace:///%f0%80%80%ae/secret.md": INVALID,
    "workspace:///..%c0%afsecret.md": INVALID,
    "workspace:///%uff0e%uff0e/secret.md": INVALID,
    "workspace:///\uff0e\uff0e/secret.md": MISSING,
    "workspace:///\u2025/secret.md": MISSING,
    "workspace:///..\u2215secret.md": HIDDEN,
    "workspace:///..\uff0fsecret.md": HIDDEN,
    "workspace:///..;/secret.md": HIDDEN,
    "workspace:///.../secret.md": HIDDEN,
    "workspace:///.. /secret.md": HIDDEN,
    "workspace:///..%20/secret.md": HIDDEN,
    "workspace:///..%09/secret.md": HIDDEN,
    "workspace:///..%e2%80%8b/secret.md": HIDDEN,
    # What ends a name early somewhere else
    "workspace:///a.md%00/../../secret.md": INVALID,
    "workspace:///../secret.md%00.md": INVALID,
    "workspace:///a.md#/../../secret.md": INVALID,
    "workspace:///a.md%0a": MISSING,
    "workspace:///a.md%20": MISSING,
    "workspace:///a.md.": MISSING,
    "workspace:///a.md/": MISSING,
    "workspace:///a.md/.": MISSING,
    "workspace:///a.md/..": OUTSIDE,
    "workspace:///a.md::$DATA": MISSING,
    # Absolute paths, other schemes inside, home folders, hosts
    "workspace:///etc/passwd": MISSING,
    "workspace:////etc/passwd": MISSING,
    "workspace://///etc/passwd": MISSING,
    "workspace:etc/passwd": MISSING,
    "workspace://localhost/etc/passwd": MISSING,
    "workspace://user:pass@host:80/etc/passwd": MISSING,
    "workspace:///file:///etc/passwd": MISSING,
    "workspace:///~/secret.md": MISSING,
    "workspace:///~root/.bashrc": HIDDEN,
    "workspace:///$HOME/secret.md": MISSING,
    "workspace:///C:/secret.md": MISSING,
    "workspace:///C:\\secret.md": OUTSIDE,
    "workspace:///\\\\host\\share": OUTSIDE,
    "workspace:///proc/self/environ": MISSING,
    "workspace:///dev/stdin": MISSING,
    "workspace:///dev/fd/0": MISSING,
    # Links that leave, at the end or on the way
    "workspace:///out.md": OUTSIDE,
    "workspace:///out-absolute.md": OUTSIDE,
    "workspace:///out-and-back.md": OUTSIDE,
    "workspace:///absolute-inside.md": OUTSIDE,
    "workspace:///out-folder": OUTSIDE,
    "workspace:///out-folder/": OUTSIDE,
    "workspace:///out-folder/secret.md": OUTSIDE,
    "workspace:///out-folder/missing.md": OUTSIDE,
    "workspace:///out-missing.md": OUTSIDE,
    "workspace:///lib/up-up/secret.md": OUTSIDE,
    "workspace:///chain-1.md": OUTSIDE,
    "workspace:///proc-link/environ": OUTSIDE,
    "workspace:///fd-link": OUTSIDE,
    "workspace:///dev-link": OUTSIDE,
    "workspace:///magic.md": MISSING,
    "workspace:///loop/x.md": MISSING,
    "workspace:///in-secret.md": DENY,
    "workspace:///in-git/config": DENY,
    "workspace:///to-root/.env": DENY,
    "workspace:///to-root/to-root/.git/config": DENY,
    "workspace:///to-root/../../secret.md": OUTSIDE,
    # Denied names
    "workspace:///.env": DENY,
    "workspace:///.ENV": DENY,
    "workspace:///%2eenv": DENY,
    "workspace:///.%65nv": DENY,
    "workspace:///./.env": DENY,
    "workspace:///lib//../.env": OUTSIDE,
    "workspace:///.env?start=0&length=10": DENY,
    "workspace:///.env?lines=1": DENY,
    "workspace:///.env?x=1": "BADARGUMENT x",
    "workspace:///.env/": HIDDEN,
    "workspace:///.git/config": DENY,
    "workspace:///.GIT/config": DENY,
    "workspace:///.git%20/config": HIDDEN,
    "workspace:///.git%2Fconfig": OUTSIDE,
    "workspace:///\uff0egit/config": DENY,
    "workspace:///.env%e2%80%8b": DENY,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("attacked")
    fill(place, {"secret.md": SECRET, "root-2/secret.md": SECRET, "outside/secret.md": SECRET})
    root = fill(place / "root", {"a.md": "a", "lib/b.md": "b", ".env": SECRET, ".git/config": SECRET})
    links = {
        "out.md": "../secret.md",
        "out-absolute.md": str(place / "secret.md"),
        "out-and-back.md": "../root/a.md",
        "absolute-inside.md": str(root / "a.md"),
        "out-folder": "../outside",
        "out-missing.md": "../missing.md",
        "lib/up-up": "../..",
        "chain-1.md": "chain-2.md",
        "chain-2.md": "lib/../../secret.md",
        "proc-link": "/proc/self",
        "fd-link": "/dev/fd/0",
        "dev-link": "/dev/zero",
        "magic.md": "proc/self/fd/0",
        "loop": "loop",
        "in-secret.md": ".env",
        "in-git": ".git",
        "to-root": ".",
    }
    for link, target in links.items():
        (root / link).symlink_to(target)
    return root


@pytest.fixture(scope="module", params=["code", "all"])
def served(root: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    with Served(root, preset=request.param) as served:
        yield served


def test_no_uri_reads_what_it_must_not(served: Served) -> None:
    assert {uri: served.outcome(uri) for uri in URIS} == URIS
    assert [uri for uri in URIS if SECRET.encode() in served.bytes_of(uri)] == []


def test_no_uri_lists_completes_or_watches_what_it_must_not(served: Served) -> None:
    assert {uri: shown for uri in URIS if (shown := shown_of_the_outside(served, uri))} == {}


def shown_of_the_outside(served: Served, uri: str) -> list[str]:
    path = uri.partition(":")[2].lstrip("/")
    workspace = served.workspace
    ways: list[Callable[[], object]] = [
        *(partial(_uris_of, workspace.browse, folder, "") for folder in (uri, path, f"/{path}")),
        partial(_uris_of, workspace.browse, None, uri),
        *(partial(served.completions, value) for value in (path, f"{path}/")),
        partial(workspace.fingerprint, uri),
    ]
    seen = []
    for ask in ways:
        try:
            seen.append(str(ask()))
        except RequestError as error:
            seen.append(error.message)

    shown = " ".join(seen).replace(uri, "").replace(path, "").replace("in-secret.md", "")
    return re.findall(r"secret\.md|passwd|" + re.escape(served.root), shown)


def _uris_of(browse: Callable[[str | None, str], Iterator[Resource]], *arguments: str | None) -> list[str]:
    directory, prefix = arguments
    return [entry.uri for entry in browse(directory, prefix or "")]


def test_every_way_to_spell_two_dots_is_refused(served: Served) -> None:
    dots = ["..", ".%2e", "%2e.", "%2e%2e", "%2E%2e", ".%2E"]
    slashes = ["/", "//", "/./", "%2f", "%5c", "\\", "/%2e/", "%2F"]
    starts = ["workspace:", "workspace:/", "workspace://", "workspace:///", "WORKSPACE:////", "workspace:///lib/"]

    outcomes = {
        served.outcome(f"{start}{dot}{slash}secret.md") for start in starts for dot in dots for slash in slashes
    }

    assert outcomes == {OUTSIDE}


# Races

READS = 30_000
MANY_READS = 40 * READS
SOME_S = 3.0
"""Number of reads and time limit of a race; it goes on until everything expected was seen."""

SWAPPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pairs = list(zip(sys.argv[1::2], sys.argv[2::2]))
for turn in range(sys.maxsize):
    for one, other in pairs:
        if libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2):
            raise OSError(ctypes.get_errno())
    if turn == 0:
        print("begun", flush=True)
"""

RACED = {
    "workspace:///file.md": {"inside", OUTSIDE},
    "workspace:///folder/file.md": {"inside", OUTSIDE},
    "workspace:///link.md": {"inside", OUTSIDE},
    "workspace:///notes.md": {"inside", DENY},
    "workspace:///kind": {"folder", "inside"},
    "workspace:///file.md?lines=1": {"inside", OUTSIDE},
}


@pytest.fixture
def swapped(tmp_path: Path) -> Iterator[Path]:
    """A root in which another process swaps files, folders and links without rest."""
    fill(tmp_path, {"out/file.md": SECRET, "out/folder/file.md": SECRET})
    inside = dict.fromkeys(("file.md", "folder/file.md", "notes.md", "kind/x.md", "other-kind"), "inside")
    root = fill(tmp_path / "root", {**inside, ".env": SECRET})
    for link, target in {
        "to-file.md": "../out/file.md",
        "to-folder": str(tmp_path / "out/folder"),
        "link.md": "folder/../file.md",
        "to-env.md": ".env",
    }.items():
        (root / link).symlink_to(target)
    pairs = [("file.md", "to-file.md"), ("folder", "to-folder"), ("notes.md", "to-env.md"), ("kind", "other-kind")]
    places = [str(root / name) for pair in pairs for name in pair]
    with subprocess.Popen([sys.executable, "-c", SWAPPER, *places], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield root
        still_swapping = process.poll() is None
        process.kill()
    assert still_swapping


@pytest.mark.slow
def test_what_is_swapped_during_reads_is_inside_or_refused(swapped: Path) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    wanted = {(uri, outcome) for uri, outcomes in RACED.items() for outcome in outcomes}
    until = monotonic() + SOME_S
    with Served(swapped, preset="code") as served:
        while (seen.total() < READS and monotonic() < until) or (
            seen.total() < MANY_READS and not seen.keys() >= wanted
        ):
            seen.update((uri, served.outcome(uri)) for uri in RACED)

    assert {pair for pair in seen if pair[1] != MISSING} == wanted


@pytest.mark.slow
def test_what_is_swapped_during_lists_and_folder_reads_shows_nothing_of_the_outside(swapped: Path) -> None:
    sizes: set[tuple[str, object]] = set()
    before, until = handles(swapped), monotonic() + SOME_S / 2
    with Served(swapped, preset="code") as served:
        while monotonic() < until:
            sizes.update((entry.name, entry.size) for entry in served.catalog.entries())
            items = served.catalog.read("workspace:///").items
            sizes.update((str(item.uri), (item.meta or {}).get("dev.carrel/total")) for item in items)

    assert {size for _, size in sizes} <= {len("inside"), None}
    assert {name for name, _ in sizes if "env" in name.replace("to-env.md", "")} == set()
    assert handles(swapped) == before
