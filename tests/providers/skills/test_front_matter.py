"""Front matter: every value as it was written, and a reason for whatever cannot be used."""

import pytest

from carrel.providers.skills.front_matter import MAX_BYTES, MAX_NODES, BadFrontMatter, parse


def fields(yaml: str, name: str = "shelf") -> dict[str, object]:
    """Return the front matter of a skill with this YAML beside its name and description."""
    return parse(f"---\nname: '{name}'\ndescription: d\n{yaml}\n---\nText\n", name).fields


def reason(text: str, folder: str = "shelf") -> str:
    with pytest.raises(BadFrontMatter) as caught:
        parse(text, folder)
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2026-01-02", "2026-01-02"),
        ("2026-01-02T10:00:00Z", "2026-01-02T10:00:00Z"),
        ("yes", "yes"),
        ("on", "on"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("010", 10),
        ("0o10", 8),
        ("0xff", 255),
        ("-7", -7),
        ("1.50", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1e999", "1e999"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("9223372036854775807", 9223372036854775807),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("'null'", "null"),
        ('"7"', "7"),
        ("!!str 7", "7"),
        ("é 😀", "é 😀"),
        ("[a, {b: c}]", ["a", {"b": "c"}]),
        ("|\n  one\n  two\n", "one\ntwo\n"),
        ("{1: a, true: b, ~: c}", {"1": "a", "true": "b", "": "c"}),
    ],
)
def test_a_value_is_what_hosts_read_and_a_date_is_the_text_that_was_written(written: str, value: object) -> None:
    found = fields(f"x: {written}")["x"]

    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    [
        "---\nname: shelf\ndescription: d\n---",
        "\ufeff---\r\nname: shelf\r\ndescription: d\r\n---\r\n",
        "---  \nname: shelf\ndescription: d\n---  \nx",
        "---\nname: shelf\ndescription: d\n---\n---\nnot: yaml: here\n",
    ],
)
def test_front_matter_may_end_the_file_and_have_any_line_ends(text: str) -> None:
    assert parse(text, "shelf").fields == {"name": "shelf", "description": "d"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it does not begin with front matter between two lines ---"),
        ("# Shelf\n", "it does not begin with front matter between two lines ---"),
        ("---\nname: shelf\n", "it does not begin with front matter between two lines ---"),
        ("---\n---\n", "its front matter is not a mapping of names to values"),
        ("---\n- a\n---\n", "its front matter is not a mapping of names to values"),
        ("---\nname: [\n---\n", "its front matter is not valid YAML (line 3)"),
        ("---\nname: a\n\tb: c\n---\n", "its front matter is not valid YAML (line 3)"),
        ("---\nname: *none\n---\n", "its front matter is not valid YAML (line 2)"),
        ("---\na: &a [*a]\n---\n", "its front matter is not valid YAML (line 2)"),
        ("---\nname: a\nname: b\n---\n", "its front matter has name twice"),
        ("---\n? [a]\n: b\n---\n", "its front matter has a mapping or a list as a name"),
        ("---\ndescription: d\n---\n", "its front matter has no name"),
        ("---\nname: shelf\n---\n", "its front matter has no description"),
        ("---\nname: shelf\ndescription: ' '\n---\n", "its front matter has no description"),
        ("---\nname: 7\ndescription: d\n---\n", "its name is not a text"),
        ("---\nname: shelf\ndescription: [d]\n---\n", "its description is not a text"),
        ("---\nname: other\ndescription: d\n---\n", "its name is other, but its folder is shelf"),
        ('---\nname: shelf\ndescription: "\\ud800"\n---\n', "its front matter is not valid YAML (line 3)"),
        (
            f"---\nname: shelf\ndescription: {'d' * 1025}\n---\n",
            "its description has 1025 characters; 1024 are allowed",
        ),
    ],
)
def test_what_cannot_be_used_says_why(text: str, why: str) -> None:
    assert reason(text) == why


@pytest.mark.parametrize("name", ["A", "a_b", "-a", "a-", "a--b", "a b", "é", "a" * 65, "a/b", "."])
def test_a_name_has_the_form_that_the_specification_gives_it(name: str) -> None:
    assert reason(f"---\nname: '{name}'\ndescription: d\n---\n", name).startswith("its name is not 1 to 64 of a-z")


@pytest.mark.parametrize("name", ["a", "7", "a-b-c", "a" * 64])
def test_other_names_are_good(name: str) -> None:
    assert fields("", name)["name"] == name


def test_aliases_that_multiply_are_counted_and_not_built() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]

    assert reason("---\n" + "\n".join(rows) + "\n---\n") == f"its front matter has more than {MAX_NODES} values"


def test_aliases_of_a_long_text_are_counted_and_not_built() -> None:
    row = f"long: &a {'x' * 10_000}\nall: [{', '.join(['*a'] * 900)}]"
    wanted = f"its front matter has more than {MAX_BYTES} characters with its aliases"
    assert reason(f"---\n{row}\n---\n") == wanted


def test_an_alias_is_the_value_of_its_anchor() -> None:
    assert fields("a: &a {b: 1}\nc: *a\n<<: *a") == {
        "name": "shelf",
        "description": "d",
        "a": {"b": 1},
        "c": {"b": 1},
        "<<": {"b": 1},
    }


def test_front_matter_is_bounded_in_depth_and_size() -> None:
    assert reason("---\na: " + "[" * 40 + "]" * 40 + "\n---\n") == "its front matter is nested deeper than 32 levels"
    assert reason(f"---\na: {'x' * MAX_BYTES}\n---\n") == f"its front matter is larger than {MAX_BYTES} bytes"
