"""Groups of callers, and rights to parts of a scheme: a caller sees its part, and of the rest not even names."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from carrel.app.config import load
from carrel.app.explanation import explain
from carrel.catalog.access import Access, ActingAs, may_see_all, parse_scopes
from carrel.catalog.catalog import Catalog
from carrel.catalog.fly import FlyRequest
from carrel.catalog.groups import Groups, GroupSettings
from carrel.core.errors import CarrelError, ConfigError, Denied
from carrel.core.model import Text
from carrel.core.provider import Project
from carrel.providers.workspace import Workspace

DOCS = Access("writer", frozenset({"workspace:///docs/:read"}))


@pytest.fixture(name="catalog")
def files_in_two_folders(tmp_path: Path) -> Iterator[Catalog]:
    for name in ("README.md", "docs/guide.md", "docs/deep/more.md", "docs2/plan.md", "src/main.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    catalog = Catalog([Workspace(Project(str(tmp_path), {"HOME": str(tmp_path)}))])
    with ActingAs(DOCS):
        yield catalog
    catalog.close()


def text_of(catalog: Catalog, uri: str) -> str:
    [item] = catalog.read(uri).items
    assert isinstance(item, Text)
    return item.text


def test_what_is_below_a_place_is_read_and_listed(catalog: Catalog) -> None:
    assert [entry.uri for entry in catalog.page().entries] == [
        "workspace:///docs/deep/more.md",
        "workspace:///docs/guide.md",
    ]
    assert text_of(catalog, "workspace:///docs/guide.md") == "docs/guide.md"
    assert text_of(catalog, "workspace:/docs//deep/more.md?start=0&length=4") == "docs"
    assert [one.name for one in catalog.read_folder("workspace:///docs").entries] == ["deep", "guide.md"]
    assert len(catalog.read("workspace:///docs/").items) == 2
    browsed = catalog.browse(FlyRequest(prefix="workspace://"))
    assert (len(browsed.page.entries), browsed.total) == (2, 2)


@pytest.mark.parametrize(
    "uri",
    [
        "workspace:///README.md",
        "workspace:///docs2/plan.md",
        "workspace:///docs2",
        "workspace:///missing.md",
        "workspace:///",
        "workspace:///docs/../src/main.py",
        "workspace:///docs/%2e%2e/src/main.py",
        "workspace:///docs%2F..%2Fsrc/main.py",
        "workspace://src/main.py",
        "workspace:///docs/guide.md#/../../src/main.py",
        "WORKSPACE:///src/main.py",
        "git://log",
    ],
)
def test_nothing_else_is_read_whether_it_exists_or_not(catalog: Catalog, uri: str) -> None:
    with pytest.raises(CarrelError) as failed:
        catalog.read(uri)
    if "docs/" not in uri and "docs%" not in uri:
        assert isinstance(failed.value, Denied)
        assert failed.value.data["scope"] == "workspace:read"
    with pytest.raises(CarrelError):
        catalog.read_folder(uri)


def test_an_absolute_path_that_begins_like_the_place_leads_nowhere_else(tmp_path: Path) -> None:
    """`workspace:///docs/app/secret.md` may mean `secret.md`, if the root itself is `/docs/app`."""
    root = tmp_path / "app"
    root.mkdir()
    (root / "secret.md").write_text("secret")
    catalog = Catalog([Workspace(Project(str(root), {"HOME": str(root)}))])
    place = f"workspace://{tmp_path.as_posix()}/"
    uri = f"{place}app/secret.md"
    assert text_of(catalog, uri) == "secret"

    with ActingAs(Access("odd", frozenset({f"{place}:read"}))), pytest.raises(Denied):
        catalog.read(uri)
    catalog.close()


def test_a_place_without_a_slash_is_one_uri_and_what_is_below(catalog: Catalog) -> None:
    with ActingAs(Access("one", frozenset({"workspace:///docs/guide.md:read"}))):
        assert [entry.uri for entry in catalog.page().entries] == ["workspace:///docs/guide.md"]
        with pytest.raises(Denied):
            catalog.read("workspace:///docs/guide.md2")


FILE = "workspace:///{+path}{?start,length,lines,outline}"


def test_nothing_is_reported_of_the_rest(catalog: Catalog) -> None:
    assert not may_see_all(("workspace",))
    assert catalog.instructions() == ""
    assert [one.uri_template for one in catalog.templates()[0]] == [FILE]
    with ActingAs(Access("nobody", frozenset({"logs:read"}))):
        assert catalog.templates() == ((), None)
        with pytest.raises(Denied):
            catalog.complete(FILE, "path", "", {})


@pytest.mark.parametrize(
    ("value", "offered"),
    [
        ("", ["docs/deep/", "docs/guide.md"]),
        ("d", ["docs/deep/", "docs/guide.md"]),
        ("docs", ["docs/deep/", "docs/guide.md"]),
        ("docs/g", ["docs/guide.md"]),
        ("docs/deep/", ["docs/deep/more.md"]),
        ("docs2/", []),
        ("README", []),
        ("docs/../src/", []),
        ("docs/all/", []),
    ],
)
def test_names_in_the_part_are_offered_and_no_others(
    catalog: Catalog, tmp_path: Path, value: str, offered: list[str]
) -> None:
    (tmp_path / "docs" / "all").symlink_to("../src")
    (tmp_path / "docs" / "link.py").symlink_to("../src/main.py")

    completion = catalog.complete(FILE, "path", value, {})

    assert (list(completion.values), completion.total, completion.has_more) == (offered, len(offered), False)


def test_a_place_without_a_slash_is_offered_itself_and_not_what_begins_like_it(catalog: Catalog) -> None:
    with ActingAs(Access("one", frozenset({"workspace:///docs:read", "workspace:///README.md:read"}))):
        assert catalog.complete(FILE, "path", "", {}).values == ("README.md", "docs/")


def test_names_of_the_rest_do_not_crowd_out_those_of_the_part(catalog: Catalog, tmp_path: Path) -> None:
    for number in range(150):
        (tmp_path / f"a{number}.md").write_text("x")
        (tmp_path / f"docs-{number}.md").write_text("x")

    completion = catalog.complete(FILE, "path", "", {})

    assert completion.values == ("docs/deep/", "docs/guide.md")
    assert not completion.has_more


@pytest.mark.parametrize(
    "reference", ["workspace:///docs/{x}", "workspace:///docs/guide.md", "workspace:///docs/{+path}"]
)
def test_a_reference_in_the_part_offers_no_names_of_the_rest(catalog: Catalog, reference: str) -> None:
    try:
        offered = catalog.complete(reference, "path", "", {}).values
    except CarrelError:
        return
    assert set(offered) <= {"docs/deep/", "docs/guide.md"}


def test_a_link_that_leads_out_of_the_part_is_not_listed(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "docs" / "all").symlink_to("../src")
    (tmp_path / "docs" / "link.py").symlink_to("../src/main.py")
    (tmp_path / "docs" / "own.md").symlink_to("deep/more.md")
    shown = ["deep", "guide.md", "own.md"]

    assert [one.name for one in catalog.read_folder("workspace:///docs").entries] == shown
    assert [entry.uri.rpartition("/")[2] for entry in catalog.page().entries] == ["more.md", "guide.md", "own.md"]
    assert [(item.uri or "").rpartition("/")[2] for item in catalog.read("workspace:///docs/").items] == shown
    outline = text_of(catalog, "workspace:///docs/?outline")
    assert "3 files" in outline
    assert "link.py" not in outline
    assert catalog.browse(FlyRequest(prefix="workspace://")).total == 3


@pytest.mark.parametrize(
    "uri", ["workspace:///docs/link.py", "workspace:///docs/all/", "workspace:///docs/all/main.py"]
)
def test_a_link_in_the_part_opens_nothing_of_the_rest(catalog: Catalog, tmp_path: Path, uri: str) -> None:
    (tmp_path / "docs" / "link.py").symlink_to("../src/main.py")
    (tmp_path / "docs" / "all").symlink_to("../src")
    (tmp_path / "docs" / "own.md").symlink_to("deep/more.md")

    for ask in (catalog.read, catalog.read_folder, catalog.fingerprint, partial(explain, catalog)):
        with pytest.raises(Denied) as refused:
            ask(uri)
        assert "src" not in f"{refused.value.message} {refused.value.data}"
    assert text_of(catalog, "workspace:///docs/own.md") == "docs/deep/more.md"


@pytest.mark.parametrize(
    "scope", ["workspace:///docs/:write", "workspace:/docs:read", "workspace:///docs?x:read", ":read", "workspace:own"]
)
def test_a_scope_that_is_wrong_is_refused(scope: str) -> None:
    with pytest.raises(ConfigError, match="is not a scope"):
        parse_scopes([scope])


# Groups

GROUPS = Groups(
    [
        GroupSettings(["alice", "groups=platform"], ["scopes:write", "workspace:///docs/:read"]),
        GroupSettings(["*"], ["logs:read"]),
    ]
)


@pytest.mark.parametrize(
    ("subject", "claims", "rights"),
    [
        ("alice", {}, {"scopes:write", "workspace:///docs/:read", "logs:read"}),
        ("bob", {"groups": ["web", "platform"]}, {"scopes:write", "workspace:///docs/:read", "logs:read"}),
        ("bob", {"groups": "platform"}, {"scopes:write", "workspace:///docs/:read", "logs:read"}),
        ("bob", {"groups": ["web"], "team": "platform"}, {"logs:read"}),
        ("groups=platform2", {"groups": [1, None, {"platform": 1}]}, {"logs:read"}),
    ],
)
def test_a_caller_has_the_rights_of_its_groups(subject: str, claims: dict[str, object], rights: set[str]) -> None:
    assert GROUPS.rights_of(subject, claims) == rights


def test_groups_stand_in_the_configuration(tmp_path: Path) -> None:
    user = tmp_path / "home" / ".config" / "carrel" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text('[groups.writers]\nmembers = ["alice"]\nallow = ["scopes:write"]\n')
    environment = {"HOME": str(tmp_path / "home")}

    assert load(str(tmp_path), environment).groups() == [GroupSettings(["alice"], ["scopes:write"])]

    user.write_text('[groups.writers]\nmembers = ["alice"]\nallow = ["scopes:wrong"]\n')
    with pytest.raises(ConfigError, match=r"config.toml: \[groups.writers\] 'scopes:wrong' is not a scope"):
        load(str(tmp_path), environment).groups()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('allow = ["scopes:read"]', 'needs the key \'members\', such as members = ["alice", "groups=platform"]'),
        ('members = ["alice"]', 'needs the key \'allow\', such as allow = ["scopes:write", "workspace:///docs/:read"]'),
    ],
)
def test_a_group_without_one_of_its_keys_is_refused_with_an_example(tmp_path: Path, text: str, sentence: str) -> None:
    user = tmp_path / "home" / ".config" / "carrel" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text(f"[groups.writers]\n{text}\n")

    with pytest.raises(ConfigError) as refused:
        load(str(tmp_path), {"HOME": str(tmp_path / "home")}).groups()

    assert str(refused.value) == f"{user}: [groups.writers] {sentence}"


def test_a_project_decides_nothing_about_callers_before_it_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "carrel.toml").write_text('[groups.all]\nmembers = ["*"]\nallow = ["*:write"]\n')

    config = load(str(tmp_path), {"HOME": str(tmp_path / "home")})

    assert config.groups() == []
    [note] = config.notes
    assert (
        note
        == "[groups.all] in carrel.toml is not in effect: it decides who may do what; run `carrel trust` to allow it"
    )
