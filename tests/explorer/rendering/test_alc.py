"""What `alc://` serves as JSON: what people look for first, and all of it below."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.explorer.rendering.alc import MAX_ROWS, render_alc
from carrel.explorer.rendering.markup import visible
from tests.support.html_law import HOSTILE, LINKS, Parsed, content, read, text_of

META = {"name": "sketch", "version": "0.1.0", "tags": ["draft", "cheap"], "_unresolved": ["limits.timeout"], "n": 1.5}
PATHS = ("packages/sketch/meta", "hub/index", "cards/c1", "logs/s1", "eval/e1")


def show(value: object, path: str) -> Parsed:
    """Return JSON of `alc://` as a browser reads it."""
    return read(render_alc(content(json.dumps(value), f"alc://{path}", "application/json"), LINKS))


def facts_of(parsed: Parsed) -> dict[str, str]:
    """Return the facts that are shown."""
    names, values = ([text_of(one) for one in parsed.all(tag)] for tag in ("dt", "dd"))
    return dict(zip(names, values, strict=True))


def test_a_package_has_its_meta_and_a_link_to_its_source() -> None:
    parsed = show(META, "packages/sketch/meta")

    assert facts_of(parsed) == {
        "Name": "sketch",
        "Version": "0.1.0",
        "Tags": "draft, cheap",
        "Not known without running it": "limits.timeout",
        "Source": "alc://packages/sketch/init.lua",
    }
    assert parsed.addresses() == ["/alc/packages/sketch/init.lua"]


def test_the_index_is_a_table_of_packages() -> None:
    packages = [{"name": "a b", "version": "1", "category": "x", "description": "y"}, {"name": "z"}, 3]
    parsed = show({"packages": packages}, "hub/index")

    assert [text_of(one) for one in parsed.all("td")] == ["a b", "1", "x", "y", "z", "", "", ""]
    assert parsed.addresses() == ["/alc/packages/a%20b/meta", "/alc/packages/z/meta"]


@pytest.mark.slow
def test_packages_that_are_too_many_are_counted() -> None:
    assert "7 more packages are not shown." in show({"packages": [{"name": "a"}] * (MAX_ROWS + 7)}, "hub/index").text


def test_a_card_has_its_package_model_and_numbers() -> None:
    card = {"card_id": "c1", "pkg": {"name": "sketch"}, "model": {"id": "m"}, "stats": {"pass_rate": 0.50}}

    assert facts_of(show(card, "cards/c1")) == {"Card": "c1", "Package": "sketch", "Model": "m", "pass_rate": "0.5"}


def test_the_log_of_a_session_shows_who_said_what() -> None:
    turns = [{"prompt": "Rain?", "system": None, "response": "Yes.\nNo."}, {"prompt": "<b>"}]
    parsed = show({"session_id": "s1", "strategy": "sketch", "transcript": turns}, "logs/s1")

    assert [text_of(one) for one in parsed.all("section")] == ["PromptRain?ResponseYes.\nNo.", "Prompt<b>"]


def test_everything_is_below_as_a_tree() -> None:
    for path in PATHS:
        assert "1.5" in [text_of(one) for one in show(META, path).all("span", "m")], path


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("value", [[], "x", None, {}, {"packages": 3, "transcript": {}, "stats": [], "pkg": "x"}])
def test_json_of_another_shape_is_shown_too(path: str, value: object) -> None:
    show(value, path)


def test_a_text_that_is_not_json_is_shown() -> None:
    assert "{broken" in read(render_alc(content("{broken", "alc://hub/index"), LINKS)).text


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from("name packages transcript prompt stats pkg model id tags".split()), inner),
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("path", PATHS)
@given(value=VALUES)
def test_no_json_breaks_the_law(path: str, value: object) -> None:
    show(value, path)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_packages_cards_and_sessions_are_only_text(text: str) -> None:
    shown = [
        show({"name": text, "tags": [text], "description": text}, "packages/x/meta"),
        show({"packages": [{"name": text, "description": text}]}, "hub/index"),
        show({"card_id": text, "pkg": {"name": text}, "stats": {text: text}}, "cards/c"),
        show({"transcript": [{"prompt": text, "response": text}]}, "logs/s"),
    ]

    for parsed in shown:
        assert visible(text) in parsed.text
        assert all(address.startswith("/alc/") for address in parsed.addresses())
