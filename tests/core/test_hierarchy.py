"""Folders of URIs, found from the URIs that are listed."""

import pytest

from carrel.core.hierarchy import NotAFolder, children_of, folder_of, is_root, parent_of
from carrel.core.model import FOLDER_TYPE, Resource

LISTED = [
    Resource("x://a", "a", size=1),
    Resource("x://a/one", "one"),
    Resource("x://a-b", "a-b"),
    Resource("x://a/two/deep?format=json", "deep"),
    Resource("x://b%20c/%C3%A9", "é"),
    Resource("x:///top", "top"),
    Resource("x:flat", "flat"),
]


def shown(folder: str, *folders: str) -> list[str]:
    """Return the children of a folder; those that are folders end with `/`."""
    children = children_of(folder_of(folder), LISTED, folders)
    return [f"{one.uri}/" if one.mime_type == FOLDER_TYPE else one.uri for one in children]


@pytest.mark.parametrize(
    ("folder", "children"),
    [
        ("x://", ["x://a-b", "x://a/", "x://b%20c/"]),
        ("X://", ["x://a-b", "x://a/", "x://b%20c/"]),
        ("x://a", ["x://a/one", "x://a/two/"]),
        ("x://a/", ["x://a/one", "x://a/two/"]),
        ("x://a/two", ["x://a/two/deep?format=json"]),
        ("x://b%20c", ["x://b%20c/%C3%A9"]),
        ("x://b c", ["x://b%20c/%C3%A9"]),
        ("x:///", ["x:///top"]),
        ("x:", ["x:flat"]),
        ("y://", []),
    ],
)
def test_every_path_prefix_of_a_listed_uri_is_a_folder(folder: str, children: list[str]) -> None:
    assert shown(folder) == children


@pytest.mark.parametrize("uri", ["x://a-b", "x://a/one", "x://a/on", "x://none", "x://a/one?", "x://a#b"])
def test_anything_else_is_no_folder(uri: str) -> None:
    with pytest.raises(NotAFolder) as caught:
        shown(uri)

    assert caught.value.message == f"Not a folder: {uri}"


def test_a_view_of_a_folder_is_no_folder_and_says_what_to_read_instead() -> None:
    with pytest.raises(NotAFolder) as caught:
        shown("x://a?at=HEAD")

    advice = "read a URI with a query with resources/read, or list x://a"
    assert caught.value.message == f"Not a folder: x://a?at=HEAD ({advice})"


def test_a_folder_that_is_named_may_be_empty() -> None:
    assert shown("x://empty", "x://empty", "x://more/below") == []
    assert shown("x://more", "x://empty", "x://more/below") == ["x://more/below/"]
    assert shown("x://", "x://empty") == ["x://a-b", "x://a/", "x://b%20c/", "x://empty/"]


def test_an_entry_that_has_others_below_it_is_a_folder_and_keeps_its_name() -> None:
    [child] = [one for one in children_of("x://", LISTED) if one.uri == "x://a"]

    assert (child.name, child.mime_type, child.size) == ("a", FOLDER_TYPE, None)


def test_a_folder_is_named_by_its_last_segment_decoded() -> None:
    assert [one.name for one in children_of("x://", LISTED)] == ["a-b", "a", "b c"]


@pytest.mark.parametrize(
    ("uri", "parent"),
    [
        ("x://a/b/c?d=/e", "x://a/b"),
        ("x://a", "x://"),
        ("x://", "x://"),
        ("x:///a", "x:///"),
        ("x:a/b", "x:a"),
        ("x:a", "x:"),
    ],
)
def test_the_parent_of_a_uri_is_the_folder_that_holds_it(uri: str, parent: str) -> None:
    assert parent_of(uri) == parent
    assert is_root(parent) is (parent.strip("/").endswith(":"))
