"""Workspace URIs: every spelling on the page, every refusal, named roots and aliases."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from carrel.core.arguments import InvalidArguments
from carrel.core.errors import BadArgument, ConfigError, Denied, NotFound
from carrel.core.provider import Place, Project
from carrel.providers.workspace import Workspace
from carrel.providers.workspace.paths import canonical, parse
from tests.support.workspaces import SECRET, Served, fill

FILES = {
    "lib/main.dart": "main",
    "pubspec.md": "manifest",
    "a b.dart": "space",
    "日.md": "day",
    "100%.md": "percent",
    "c#.md": "hash",
    "q?.md": "question",
    "a..b.dart": "dots",
    "@scope/x.md": "scoped",
    "docs/x.md": "folder docs",
    "b.dart": "b",
    "x.dart": "x",
}


def lay_out(folder: Path) -> Path:
    fill(folder, {"x": SECRET, "b.dart": SECRET, "app2/x.dart": SECRET})
    return fill(folder / "app", FILES)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return lay_out(tmp_path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(lay_out(tmp_path_factory.mktemp("served"))) as served:
        yield served


@pytest.fixture(scope="module")
def rooted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = lay_out(tmp_path_factory.mktemp("rooted"))
    further = fill(root.parent / "further", {"x.md": "root docs", "guide/a b.md": "guide"})
    fill(root.parent / "third", {"y.md": "third"})
    with Served(root, roots={"docs": Place(str(further)), "docs-2": Place(str(root.parent / "third"))}) as served:
        yield served


MEANINGS = {
    "workspace:///lib/main.dart": "main",
    "workspace://lib/main.dart": "main",
    "workspace:/lib/main.dart": "main",
    "workspace:lib/main.dart": "main",
    "WORKSPACE:///lib//./main.dart": "main",
    "WorkSpace:///lib/%2e/main.dart": "main",
    "workspace:////lib/main.dart": "main",
    "workspace:///lib/main.dart?": "main",
    "workspace:///lib/main.dart?&": "main",
    "workspace:///%6Cib/main%2Edart": "main",
    "workspace://pubspec.md": "manifest",
    "workspace://./pubspec.md": "manifest",
    "workspace:///a%20b.dart": "space",
    "workspace:///a b.dart": "space",
    "workspace:///%E6%97%A5.md": "day",
    "workspace:///%e6%97%a5.md": "day",
    "workspace:///日.md": "day",
    "workspace:///100%25.md": "percent",
    "workspace:///c%23.md": "hash",
    "workspace:///q%3F.md": "question",
    "workspace:///a..b.dart": "dots",
    "workspace:///@scope/x.md": "scoped",
    "workspace://@scope/x.md": "scoped",
    "workspace:///docs/x.md": "folder docs",
    "workspace://docs/x.md": "folder docs",
    "workspace:///lib": "folder",
    "workspace:///lib/": "folder",
    "workspace:///lib/.": "folder",
    "workspace:///": "folder",
    "workspace://": "folder",
    "workspace:/": "folder",
    "workspace:": "folder",
    "workspace:///lib/main.dart/": "NOTFOUND",
    "workspace:///lib/main.dart/.": "NOTFOUND",
    "workspace:///lib/main.dart/x": "NOTFOUND",
    "workspace:///LIB/main.dart": "NOTFOUND",
    "workspace:///%252e%252e/x.dart": "NOTFOUND",
    "workspace:///etc/passwd": "NOTFOUND",
    "workspace:////etc/passwd": "NOTFOUND",
    "workspace:///w/app2/x.dart": "NOTFOUND",
    "workspace://@nope/x.md": "NOTFOUND",
    "workspace://@/x.md": "NOTFOUND",
    "workspace:///a/../b.dart": "DENIED outside",
    "workspace://../x": "DENIED outside",
    "workspace:///%2e%2e/x": "DENIED outside",
    "workspace:///..%2fx": "DENIED outside",
    "workspace:///a%5c..%5cx": "DENIED outside",
    "workspace:///a\\b": "DENIED outside",
    "workspace:///lib%2Fmain.dart": "DENIED outside",
    "workspace:///lib/..": "DENIED outside",
    "workspace://@nope/../x": "DENIED outside",
    "workspace:///%zz": "BADARGUMENT uri",
    "workspace:///%": "BADARGUMENT uri",
    "workspace:///%c0%ae": "BADARGUMENT uri",
    "workspace:///%ff": "BADARGUMENT uri",
    "workspace:///%ed%a0%80": "BADARGUMENT uri",
    "workspace:///a%00.dart": "BADARGUMENT uri",
    "workspace:///c#.md": "BADARGUMENT uri",
    "workspace:///c.md?start=0#x": "BADARGUMENT uri",
    "workspace:///" + "a" * 8_180: "BADARGUMENT uri",
    "workspace:///" + "a" * 8_179: "NOTFOUND",
}


def test_a_uri_means_what_the_page_says(served: Served) -> None:
    assert {uri: served.outcome(uri) for uri in MEANINGS} == MEANINGS


QUERIES = {
    "start=0&length=2": "ma",
    "length=2": "ma",
    "start=2": "in",
    "st%61rt=2": "in",
    "start=%32": "in",
    "start=999999999999999": "",
    "start=9999999999999999": "BADARGUMENT start",
    "start=-1": "BADARGUMENT start",
    "start=": "BADARGUMENT start",
    "start": "BADARGUMENT start",
    "start=1e3": "BADARGUMENT start",
    "start=%2B1": "BADARGUMENT start",
    "start=1&start=2": "BADARGUMENT start",
    "length=1_0": "BADARGUMENT length",
    "length=٣": "BADARGUMENT length",
    "foo=1": "BADARGUMENT foo",
    "Start=1": "BADARGUMENT Start",
    "after=x": "BADARGUMENT after",
    "lines=0-5": "BADARGUMENT lines",
    "lines=9-3": "BADARGUMENT lines",
    "lines=a": "BADARGUMENT lines",
    "lines=": "BADARGUMENT lines",
    "lines=1-2-3": "BADARGUMENT lines",
    "lines=-3": "BADARGUMENT lines",
    "lines=1-2&start=0": "BADARGUMENT lines",
    "lines=1&lines=1": "BADARGUMENT lines",
    "start=%zz": "BADARGUMENT uri",
}


@pytest.mark.parametrize("spelling", ["workspace:///lib/main.dart", "workspace://lib/main.dart"])
def test_a_query_has_known_keys_once_and_plain_numbers(served: Served, spelling: str) -> None:
    assert {query: served.outcome(f"{spelling}?{query}") for query in QUERIES} == QUERIES


@pytest.mark.parametrize(
    ("query", "outcome"),
    [
        ("after=a", "folder"),
        ("start=0", "BADARGUMENT start"),
        ("lines=1", "BADARGUMENT lines"),
        ("x=1", "BADARGUMENT x"),
    ],
)
@pytest.mark.parametrize("spelling", ["workspace:///lib", "workspace:///lib/", "workspace://lib"])
def test_a_folder_is_asked_only_for_what_comes_after(served: Served, spelling: str, query: str, outcome: str) -> None:
    assert served.outcome(f"{spelling}?{query}") == outcome


def test_an_error_says_what_the_page_says(served: Served) -> None:
    uris = (
        "workspace:///nope.md",
        "workspace:///.env",
        "workspace:///a/../b",
        "workspace:///x.dart?foo=1",
        "workspace:///c#.md",
        "workspace:///x.dart?start=%0a",
        "workspace:///" + "n" * 300,
    )
    found = {uri: served.error(uri) for uri in uris}
    errors = {uri: (type(error), error.message, error.data) for uri, error in found.items()}

    assert errors == {
        "workspace:///nope.md": (NotFound, "Resource not found: workspace:///nope.md", {}),
        "workspace:///.env": (Denied, "Access denied: workspace:///.env (may hold secrets)", {"reason": "deny"}),
        "workspace:///a/../b": (
            Denied,
            "Access denied: workspace:///a/../b (outside the workspace)",
            {"reason": "outside"},
        ),
        "workspace:///x.dart?foo=1": (
            InvalidArguments,
            (
                "Invalid parameter: foo=1 (known: start, length, lines, after, at, diff, blame, log, skip, format, "
                "outline, budget; for example ?lines=10-50)"
            ),
            {"parameter": "foo"},
        ),
        "workspace:///c#.md": (
            BadArgument,
            "Invalid parameter: uri=workspace:///c#.md (a # in a name is written %23)",
            {"parameter": "uri"},
        ),
        "workspace:///x.dart?start=%0a": (
            BadArgument,
            "Invalid parameter: start=\\x0a (expected a whole number, 0 or more)",
            {"parameter": "start"},
        ),
        "workspace:///" + "n" * 300: (NotFound, f"Resource not found: workspace:///{'n' * 187}…", {}),
    }


@pytest.mark.parametrize(
    ("uri", "outcome", "meant"),
    [
        ("workspace://@docs/x.md", "root docs", "workspace://@docs/x.md"),
        ("workspace://%40docs/x.md", "root docs", "workspace://@docs/x.md"),
        ("workspace://docs/x.md", "root docs", "workspace://@docs/x.md"),
        ("workspace://@docs//guide/a%20b.md", "guide", "workspace://@docs/guide/a%20b.md"),
        ("workspace://@docs-2/y.md", "third", "workspace://@docs-2/y.md"),
        ("workspace:///docs/x.md", "folder docs", "workspace:///docs/x.md"),
        ("workspace:/docs/x.md", "folder docs", "workspace:///docs/x.md"),
        ("workspace://@scope/x.md", "scoped", "workspace:///@scope/x.md"),
    ],
)
def test_a_named_root_is_chosen_by_the_first_segment_after_two_slashes(
    rooted: Served, uri: str, outcome: str, meant: str
) -> None:
    assert (rooted.outcome(uri), rooted.meta(uri)["uri"]) == (outcome, meant)


@pytest.mark.parametrize(
    ("uri", "outcome"),
    [
        ("workspace://@docs", "folder"),
        ("workspace://docs/", "folder"),
        ("workspace:///@docs/x.md", "NOTFOUND"),
        ("workspace://@@docs/x.md", "NOTFOUND"),
        ("workspace://@docs/../x.md", "DENIED outside"),
        ("workspace://@docs/.env", "DENIED deny"),
        ("workspace://@docs-2/x.md", "NOTFOUND"),
        ("workspace://DOCS/x.md", "NOTFOUND"),
    ],
)
def test_nothing_else_chooses_a_root(rooted: Served, uri: str, outcome: str) -> None:
    assert rooted.outcome(uri) == outcome


def test_the_roots_are_listed_in_the_order_of_their_uris_with_their_template(rooted: Served) -> None:
    uris = [entry.uri for entry in rooted.catalog.entries()]
    templates = [(one.uri_template, one.name) for one in rooted.catalog.templates()[0]]

    assert uris[len(FILES) :] == [
        "workspace://@docs-2/y.md",
        "workspace://@docs/guide/a%20b.md",
        "workspace://@docs/x.md",
    ]
    assert uris == sorted(uris)
    assert templates == [
        ("workspace:///{+path}{?start,length,lines,outline}", "workspace-file"),
        ("workspace://@{root}/{+path}{?start,length,lines,outline}", "workspace-root-file"),
    ]


def test_each_root_decides_its_own_preset(root: Path) -> None:
    flutter = fill(root.parent / "flutter", {"pubspec.yaml": "name: x", "notes.md": "no"})
    with Served(root, roots={"fl": Place(str(flutter))}) as served:
        health = served.workspace.health()
        assert (health["presets"], health["problems"]) == ({"main": "code", "fl": "flutter"}, [])
        assert served.outcome("workspace://@fl/notes.md") == "DENIED type"
        assert served.outcome("workspace:///pubspec.md") == "manifest"


def test_an_absolute_path_inside_the_root_is_an_alias(served: Served) -> None:
    own = served.root.lstrip("/")

    assert {
        uri: served.outcome(uri)
        for uri in (
            f"workspace:///{own}/lib/main.dart",
            f"workspace://{own}/lib/main.dart",
            f"workspace:////{own}/lib/main.dart",
            f"workspace:///{own}",
            f"workspace:///{own}/",
            f"workspace:///{own}/.env",
            f"workspace:///{own}/nope.md",
            f"workspace:///{own}2/x.dart",
            f"workspace:///{own[:-1]}/lib/main.dart",
            f"workspace:///{own}/../x",
        )
    } == {
        f"workspace:///{own}/lib/main.dart": "main",
        f"workspace://{own}/lib/main.dart": "main",
        f"workspace:////{own}/lib/main.dart": "main",
        f"workspace:///{own}": "folder",
        f"workspace:///{own}/": "folder",
        f"workspace:///{own}/.env": "DENIED deny",
        f"workspace:///{own}/nope.md": "NOTFOUND",
        f"workspace:///{own}2/x.dart": "NOTFOUND",
        f"workspace:///{own[:-1]}/lib/main.dart": "NOTFOUND",
        f"workspace:///{own}/../x": "DENIED outside",
    }
    assert served.meta(f"workspace:///{own}/lib/main.dart")["uri"] == "workspace:///lib/main.dart"


def test_where_the_plain_meaning_exists_it_wins_over_the_alias(root: Path) -> None:
    own = str(root).lstrip("/")
    fill(root, {f"{own}/lib/main.dart": "plain"})

    with Served(root) as served:
        assert served.text(f"workspace:///{own}/lib/main.dart") == "plain"
        assert served.text(f"workspace:///{own}/x.dart") == "x"


def test_a_root_given_by_a_link_has_both_paths_as_aliases(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    with Served(link) as served:
        link.unlink()

        assert served.text(f"workspace://{link}/x.dart") == "x"
        assert served.text(f"workspace://{root}/x.dart") == "x"


@pytest.mark.parametrize("name", ["", "A", "-a", "a_b", "a" * 33, "a/b", "@a", "ä"])
def test_a_root_with_a_wrong_name_is_a_configuration_error(root: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="a name is a-z, 0-9 and -"):
        Workspace(Project(str(root), {}), roots={name: Place("/")})


@pytest.mark.parametrize("inner", [".", "lib", "..", "lib/../lib", "link"])
def test_a_root_inside_another_is_a_configuration_error(root: Path, inner: str) -> None:
    (root / "link").symlink_to("lib")

    with pytest.raises(ConfigError, match=r"lies inside .+; serve one of them"):
        Workspace(Project(str(root), {}), roots={"inner": Place(inner)})


def test_a_root_that_is_no_folder_is_a_configuration_error(root: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[workspace\] root: .+ cannot be opened as a folder: Not a directory"):
        Workspace(Project(str(root), {}), root=Place("x.dart"))


def test_roots_that_share_the_beginning_of_their_path_are_apart(root: Path) -> None:
    with Served(root, roots={"two": Place("../app2")}) as served:
        assert served.text("workspace://@two/x.dart") == SECRET


@pytest.mark.parametrize("name", [*FILES, "ö/ß.md", "a+b&c=d;e,f:@!$'()*~.md", '"<>^`{|}.md', "%41.md", "\x01\x7f.md"])
def test_a_canonical_uri_means_the_name_it_was_made_from(name: str) -> None:
    segments = tuple(name.split("/"))
    uri = canonical("", segments)

    assert parse(uri, ()).segments == segments
    assert set(uri) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@%/")
