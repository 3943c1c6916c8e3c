"""The guide in any project: at most so long, and the useful part stays."""

import pytest

from carrel.core.tokens import estimate_tokens
from carrel.providers.guide.pages import GuideSection, fit

TOP = ["# Resources of a project\n", "## How to read\n\n- Search first.\n"]


def section(number: int, rows: int) -> GuideSection:
    template = (
        f"`scheme{number}://thing/{{id}}{{?start,length}}`",
        "What it is, in a sentence that is rather long. " * 3,
    )
    return GuideSection(f"## `scheme{number}://` A provider", (template,) * rows, (("`x://1`", "an example"),) * 3)


@pytest.mark.parametrize("providers", [0, 1, 5, 40, 400])
@pytest.mark.parametrize("rows", [0, 2, 30])
@pytest.mark.parametrize("notes", [0, 3, 1_000])
def test_the_guide_fits_whatever_there_is(providers: int, rows: int, notes: int) -> None:
    sections = [section(number, rows) for number in range(providers)]

    text = fit(TOP, sections, "", [f"provider {number}: a problem with a file" for number in range(notes)], 900)

    assert estimate_tokens(text) <= 900
    assert text.startswith("".join(TOP[0]))
    assert ("## Not served" in text) == (notes > 0)


def test_what_does_not_fit_is_counted_with_the_place_that_has_it() -> None:
    text = fit(TOP, [section(number, 9) for number in range(40)], "", ["a"] * 90, 900)

    assert "more providers: `carrel://catalog`" in text
    assert "more: `carrel://health`" in text


def test_where_all_fits_all_is_shown() -> None:
    text = fit(TOP, [section(1, 1)], "## Not listed\n", ["logs: nothing yet"], 900)

    assert "What it is, in a sentence that is rather long." in text
    assert text.count("`x://1`: an example") == 3
    assert text.endswith("## Not listed\n\n## Not served\n\n- logs: nothing yet\n")


@pytest.mark.parametrize("name", ["x" * 400, "字" * 200, "\N{GRINNING FACE}" * 90])
def test_very_long_names_do_not_make_the_guide_longer(name: str) -> None:
    long = [GuideSection(f"## `{name}://`", ((name, name),), ((name, name),)) for _ in range(5)]

    text = fit([*TOP, f"{name}\n"], long, name, [name] * 9, 900)

    assert estimate_tokens(text) <= 900
    assert text.startswith(TOP[0].strip().splitlines()[0])
