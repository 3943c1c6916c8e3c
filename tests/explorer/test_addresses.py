"""The page of a URI, and back again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.explorer.addresses import Addresses, address_about, short_name, title_of

ADDRESSES = Addresses(lambda scheme: scheme == "workspace")


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("workspace:///README.md", "/workspace/README.md"),
        ("workspace:///", "/workspace/"),
        ("workspace:///a%20b?lines=4-6", "/workspace/a%20b?lines=4-6"),
        ("logs://run/web_1?tail=20", "/logs/run/web_1?tail=20"),
        ("logs://", "/logs/"),
        ("workspace:///ä", "/workspace/%C3%A4"),
        ('workspace:///a"b<c', "/workspace/a%22b%3Cc"),
    ],
)
def test_a_page_has_the_address_of_plain_http(uri: str, address: str) -> None:
    assert ADDRESSES.page(uri) == address


@pytest.mark.parametrize(
    "uri",
    ["workspace:///../x", "workspace:///a/./b", "workspace:///%2e%2e/x", "logs://a#b", "mailto:x", "no uri at all"],
)
def test_a_uri_that_a_browser_would_change_is_asked_for_whole(uri: str) -> None:
    assert ADDRESSES.page(uri).startswith("/-/read?uri=")


def test_twins_are_beside_the_page() -> None:
    assert ADDRESSES.page("workspace:///a?lines=1-2", ".json") == "/workspace/a.json?lines=1-2"
    assert address_about("read", "x:y z", ".md") == "/-/read.md?uri=x%3Ay%20z"


@given(st.text(max_size=40))
def test_an_address_never_leaves_this_server_and_never_ends_an_attribute(text: str) -> None:
    for uri in (text, f"workspace:///{text}", f"logs://{text}"):
        address = ADDRESSES.page(uri)
        assert address.startswith("/")
        assert not address.startswith("//")
        assert address.isascii()
        assert not set(address) & set("\"'<> \n\r\t\\") - {"'"}


def test_crumbs_lead_from_the_root_down_to_the_resource() -> None:
    assert ADDRESSES.crumbs("workspace:///a/b%20c/") == [
        ("workspace:///", "/workspace/"),
        ("a", "/workspace/a"),
        ("b c", "/workspace/a/b%20c"),
    ]


@given(st.text(max_size=40))
def test_crumbs_of_any_text_end(text: str) -> None:
    for uri in (f"workspace:///{text}", f"logs://{text}", f"x:{text}", text):
        assert ADDRESSES.crumbs(uri)


@pytest.mark.parametrize(
    ("uri", "title"),
    [
        ("workspace:///", "workspace:///"),
        ("workspace:///a/b%20c/", "b c"),
        ("workspace:///%20", "%20"),
        ("workspace:///a%0Ab%09", "a\\nb\\t"),
        ("alc://packages/sketch/meta", "sketch/meta"),
        ("alc://packages/sketch", "sketch"),
        ("alc://cards/one", "one"),
    ],
)
def test_the_title_of_a_page_tells_it_from_others(uri: str, title: str) -> None:
    assert title_of(uri) == title


@pytest.mark.parametrize(
    ("name", "folder", "short"),
    [
        ("failure/jwt", "sage://failure", "jwt"),
        ("run/lamps_1", "logs://run/", "lamps_1"),
        ("lib/", "workspace:///lib", "lib/"),
        ("main.py", "workspace:///", "main.py"),
        ("größe/jwt", "sage://gr%C3%B6%C3%9Fe", "jwt"),
        (" ", "workspace:///", "%20"),
        ("\u200b", "workspace:///", "%E2%80%8B"),
        ("a\nb", "workspace:///", "a\\nb"),
    ],
)
def test_a_child_is_shown_without_the_name_of_its_folder(name: str, folder: str, short: str) -> None:
    assert short_name(name, folder) == short
