"""What may be read: presets, hidden, ignored, allow, deny; the same answer on every way to ask."""

import os
from pathlib import Path
from typing import Any

import pytest

from carrel.core.provider import Place
from tests.support.workspaces import SECRET, Served, fill, record_opens

BINARY = b"\x00\x01\x02"
TREE: dict[str, str | bytes] = {
    "main.dart": "d",
    "notes.md": "m",
    "image.png": BINARY,
    "fake.md": BINARY,
    "LICENSE": "l",
    "raw": BINARY,
    "Podfile": "p",
    "sub/CMakeLists.txt": "c",
    "sub/other.txt": "o",
    ".hidden.yaml": "h",
    ".dot/x.yaml": "hx",
    ".dot/.y.yaml": "hy",
    "build/gen.dart": "g",
    "skip.dart": "s",
    ".gitignore": "build/\nskip.*\n",
    ".env": SECRET,
    "sub/.env.local": SECRET,
    ".git/config": SECRET,
    "server.key": SECRET,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("policy") / "root", TREE)


def reach(served: Served, path: str) -> str:
    """Tell by which ways a file or folder can be had: listed, shown by its folder, completed, read."""
    folder = path.rpartition("/")[0]
    uri = f"workspace:///{path}"
    shown = served.children(f"workspace:///{folder}") if served.outcome(f"workspace:///{folder}") == "folder" else []
    ways = {
        "L": path in served.uris(),
        "F": uri in [child.rstrip("/") for child in shown],
        "C": path in [one.rstrip("/") for one in served.completions(path)],
        "R": not served.outcome(uri).startswith(("DENIED", "NOTFOUND")),
    }
    return "".join(way for way, is_open in ways.items() if is_open)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"preset": "flutter"},
            {"main.dart": "LFCR", "notes.md": "", "LICENSE": "", "Podfile": "LFCR", "sub/CMakeLists.txt": "LFCR"}
            | {".hidden.yaml": "R", ".dot": "R", ".dot/x.yaml": "FCR", "build": "R", "build/gen.dart": "FCR"}
            | {"skip.dart": "R", "sub/other.txt": "", ".env": "", "image.png": "", ".dot/.y.yaml": "R"},
        ),
        (
            {"preset": "code"},
            {"main.dart": "LFCR", "notes.md": "LFCR", "LICENSE": "LFCR", "raw": "", "image.png": "", "fake.md": "LC"}
            | {".hidden.yaml": "", ".dot": "", ".dot/x.yaml": "", "build": "", "build/gen.dart": "", "skip.dart": ""},
        ),
        (
            {"preset": "all"},
            {"main.dart": "LFCR", "image.png": "LFCR", "raw": "LFCR", "fake.md": "LFCR", ".hidden.yaml": ""}
            | {"skip.dart": "", ".env": "", "server.key": "", ".git": "", "sub/.env.local": ""},
        ),
        ({"preset": "none"}, {"main.dart": "", "sub": "FCR", "sub/other.txt": "", "LICENSE": ""}),
        (
            {"preset": "code", "hidden": "show", "ignored": "show"},
            {".hidden.yaml": "LFCR", ".dot": "FCR", ".dot/x.yaml": "LFCR", ".dot/.y.yaml": "LFCR", "build": "FCR"}
            | {"build/gen.dart": "LFCR", "skip.dart": "LFCR", ".gitignore": "LFCR", ".env": "", ".git": ""}
            | {".git/config": "", "server.key": "", "sub/.env.local": ""},
        ),
        (
            {"preset": "code", "hidden": "unlisted", "ignored": "unlisted"},
            {".hidden.yaml": "R", ".dot/x.yaml": "FCR", "build/gen.dart": "FCR", "skip.dart": "R", ".env": ""},
        ),
        (
            {"preset": "flutter", "hidden": "refuse", "ignored": "show"},
            {".hidden.yaml": "", ".dot/x.yaml": "", "build/gen.dart": "LFCR", "skip.dart": "LFCR"},
        ),
        (
            {"preset": "none", "allow": ["sub/", "*.png", "/.dot/x.yaml", "build/gen.dart", ".env", "*.key", ".git/"]},
            {"sub/other.txt": "LFCR", "sub/CMakeLists.txt": "LFCR", "image.png": "LFCR", "main.dart": ""}
            | {".dot/x.yaml": "LFCR", ".dot": "FCR", ".dot/.y.yaml": "", "build/gen.dart": "LFCR", "build": "FCR"}
            | {".env": "", "server.key": "", ".git/config": "", "sub/.env.local": ""},
        ),
        (
            {"preset": "code", "allow": [".dot/", "raw", "skip.dart"]},
            {".dot": "FCR", ".dot/x.yaml": "LFCR", ".dot/.y.yaml": "LFCR", "raw": "LFCR", "skip.dart": "LFCR"}
            | {".hidden.yaml": "", "build": "", "build/gen.dart": ""},
        ),
        (
            {"preset": "all", "deny": ["*.md", "/sub/"], "allow": ["notes.md"]},
            {"notes.md": "", "sub": "", "sub/other.txt": "", "main.dart": "LFCR"},
        ),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if "preset" in value else "",
)
def test_every_way_to_a_file_asks_the_same_policy(
    root: Path, settings: dict[str, Any], expected: dict[str, str]
) -> None:
    with Served(root, **settings) as served:
        assert {path: reach(served, path) for path in expected} == expected


FLUTTER_TYPES = (
    *(f"x{suffix}" for suffix in (".dart", ".yaml", ".yml", ".gradle", ".kt", ".kts", ".swift", ".mm", ".m")),
    *("x.xml", "x.plist", "pubspec.yaml", "analysis_options.yaml", "CMakeLists.txt", "Podfile", "Info.plist"),
)
OTHER_TYPES = ("x.txt", "x.DART", "x.dart.bak", "x.md", "x.json", "x.py", "dart", "podfile", "Podfile.lock", "x.xmlx")


def test_a_flutter_project_serves_exactly_its_types(tmp_path: Path) -> None:
    fill(tmp_path, {f"sub/{name}": name for name in (*FLUTTER_TYPES, *OTHER_TYPES)})
    with Served(tmp_path, preset="flutter") as served:
        assert served.uris() == sorted(f"sub/{name}" for name in FLUTTER_TYPES)
        assert {served.outcome(f"workspace:///sub/{name}") for name in OTHER_TYPES} == {"DENIED type"}
        assert [served.text(f"workspace:///sub/{name}") for name in FLUTTER_TYPES] == [*FLUTTER_TYPES]


def test_auto_is_flutter_where_a_pubspec_is_when_the_server_starts(tmp_path: Path) -> None:
    presets = []
    for is_there in (False, True):
        if is_there:
            fill(tmp_path, {"pubspec.yaml": "name: x"})
        with Served(tmp_path) as served:
            presets.append(served.workspace.health()["presets"])

    assert presets == [{"main": "code"}, {"main": "flutter"}]


@pytest.mark.parametrize(
    ("path", "preset", "reason"),
    [
        (".env", "flutter", "deny"),
        (".git/.x/build/y.bin", "code", "deny"),
        ("build/.git/x", "code", "deny"),
        ("build/.x", "code", "hidden"),
        (".x/skip.dart", "code", "hidden"),
        ("build/x.txt", "flutter", "type"),
        ("build/x.txt", "code", "ignored"),
        ("build/x.txt", "none", "ignored"),
        ("x.txt", "none", "type"),
        (".x.txt", "flutter", "type"),
    ],
)
def test_the_first_reason_in_order_is_given(root: Path, path: str, preset: str, reason: str) -> None:
    with Served(root, preset=preset) as served:
        assert served.outcome(f"workspace:///{path}") == f"DENIED {reason}"


REFUSED = (
    ".env",
    ".env/",
    ".env/x.dart",
    ".ENV.production",
    "x.pem",
    "x.pem/",
    "sub/id_rsa",
    "credentials.json",
    ".git",
    ".git/",
    ".git/config",
    ".carrel/logs",
    ".hidden.yaml",
    ".dot",
    ".dot/",
    ".dot/x.yaml",
    "build",
    "build/",
    "build/gen.dart",
    "skip.dart",
    "skip.dart/",
    "notes.md",
    "raw.bin",
    "my.md",
)


def make_file(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(SECRET)


def make_folder(place: Path) -> None:
    place.mkdir(parents=True)


def make_fifo(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(place)


def make_outward_link(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to("/etc/passwd")


def make_shut_file(place: Path) -> None:
    make_file(place)
    place.chmod(0)


MAKERS = (make_file, make_folder, make_fifo, make_outward_link, make_shut_file)


def presets_that_tell(tmp_path: Path, path: str) -> set[str]:
    """Give the presets under which an answer tells what is there: nothing, or what a maker made. Folders are served."""
    places = [fill(tmp_path / "missing", {".gitignore": "build/\nskip.*\n"})]
    for make in MAKERS:
        places.append(fill(tmp_path / make.__name__, {".gitignore": "build/\nskip.*\n"}))
        make(places[-1] / path)
    telling = set()
    for preset in ("flutter", "code", "all", "none"):
        answers = set()
        for place in places:
            with Served(place, preset=preset, deny=["my.md"]) as served:
                answers.add(served.bytes_of(f"workspace:///{path}"))
        if len([answer for answer in answers if b'"inode/directory"' not in answer]) > 1:
            telling.add(preset)
    return telling


FLUTTER = {".env/x.dart", ".hidden.yaml", ".dot/x.yaml", "build/gen.dart", "skip.dart", "skip.dart/"}
"""What this preset serves though it is hidden or ignored."""
OTHERS = {"notes.md", "raw.bin", "build"}
"""What two presets serve whatever its type, the last one if it is a file: only a folder of that name is ignored."""


@pytest.mark.parametrize("path", REFUSED)
def test_a_refused_uri_gives_the_same_bytes_whatever_is_there(tmp_path: Path, path: str) -> None:
    served_by = {"flutter"} if path in FLUTTER else {"code", "all"} if path in OTHERS else set()

    assert presets_that_tell(tmp_path, path) == served_by


@pytest.mark.parametrize("path", ["x.pem/", "credentials/", "my.txt/", ".env/"])
def test_what_may_only_be_a_folder_is_missing_whatever_else_has_its_name(tmp_path: Path, path: str) -> None:
    served_by = {"code", "all"} if path == "my.txt/" else set()

    assert presets_that_tell(tmp_path, path) == served_by


def test_the_bytes_of_a_refusal_do_not_depend_on_what_is_there_in_either_era(root: Path) -> None:
    with Served(root) as served:
        answers = [
            (error["code"], error["message"], error["data"])
            for version in ("2026-07-28", "2025-11-25")
            for error in [served.ask("resources/read", {"uri": "workspace:///.env"}, version)]
        ]

    data = {"name": "MCP_PERMISSION_DENIED", "reason": "deny", "dev.carrel/error": "denied", "uri": "workspace:///.env"}
    assert answers == [(-32803, "Access denied: workspace:///.env (may hold secrets)", data)] * 2


@pytest.mark.parametrize(
    ("link", "target", "outcome"),
    [
        ("notes.md", ".env", "DENIED deny"),
        ("notes.md", ".git/config", "DENIED deny"),
        ("notes.md", "server.key", "DENIED deny"),
        ("lib", ".git", "DENIED deny"),
        ("notes.md", ".hidden.md", "DENIED hidden"),
        ("notes.md", "build/x.md", "DENIED ignored"),
        ("notes.md", "raw", "DENIED type"),
        ("notes.md", "plain.txt", "plain"),
        (".x.md", "plain.txt", "DENIED hidden"),
        ("x.pem", "plain.txt", "DENIED deny"),
        ("build/l.md", "../plain.txt", "DENIED ignored"),
    ],
)
def test_a_link_passes_only_if_both_its_names_pass(tmp_path: Path, link: str, target: str, outcome: str) -> None:
    secrets = {".env": SECRET, ".git/config": SECRET, "server.key": SECRET, ".hidden.md": SECRET, "build/x.md": SECRET}
    fill(tmp_path, {**secrets, "raw": BINARY, "plain.txt": "plain", ".gitignore": "build/\n"})
    (tmp_path / link).symlink_to(target)
    with Served(tmp_path, preset="code") as served:
        assert served.outcome(f"workspace:///{link}") == outcome
        assert (link in served.uris()) == (outcome == "plain")


def test_a_link_to_an_unlisted_file_that_may_be_read_is_listed(tmp_path: Path) -> None:
    fill(tmp_path, {".hidden/x.yaml": "x"})
    (tmp_path / "shown.yaml").symlink_to(".hidden/x.yaml")
    with Served(tmp_path, preset="flutter") as served:
        assert served.uris() == ["shown.yaml"]


def test_allow_is_in_git_ignore_syntax_relative_to_each_root(tmp_path: Path) -> None:
    files = {"a/b.txt": "ab", "b.txt": "b", "a/c.md": "c", "a/d.md": "d", "x/a/b.txt": "xab"}
    fill(tmp_path / "one", files)
    fill(tmp_path / "two", files)
    allow = ["/a/b.txt", "a/*.md", "!a/d.md"]
    with Served(tmp_path / "one", preset="none", allow=allow, roots={"two": Place(str(tmp_path / "two"))}) as served:
        assert [entry.uri for entry in served.catalog.entries()] == [
            "workspace:///a/b.txt",
            "workspace:///a/c.md",
            "workspace://@two/a/b.txt",
            "workspace://@two/a/c.md",
        ]


def test_a_folder_in_which_nothing_is_allowed_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, {"node_modules/a/b/c.md": "x", ".github/workflows/ci.yml": "ci", ".gitignore": "node_modules\n"})
    opened = record_opens(monkeypatch)
    with Served(tmp_path, preset="code", allow=[".github/workflows/*.yml"]) as served:
        assert served.uris() == [".github/workflows/ci.yml"]
        assert [segments for segments in opened if segments[:1] == ("node_modules",)] == []
