"""What `UriTemplate` takes, refuses, matches and expands; the laws are in `tests/property`."""

import copy
import pickle
import re

import pytest

from carrel.core.errors import BadArgument, TemplateError
from carrel.core.template import UriTemplate


def pointing(why: str, column: int, text: str) -> str:
    return f"{why}, at column {column} of the URI template:\n  {text}\n  {' ' * (column - 1)}^"


@pytest.mark.parametrize(
    ("text", "why", "column"),
    [
        ("", "No scheme", 1),
        ("//host/x", "No scheme", 1),
        ("1a:x", "No scheme", 1),
        ("{s}://x", "The scheme must be literal", 1),
        ("lo{s}://x", "The scheme must be literal", 3),
        ("a:{x", "Unclosed brace", 3),
        ("a:{x{y}", "Unclosed brace", 3),
        ("a:x}", "Closing brace without an opening one", 4),
        ("a:{}", "No variable name", 4),
        ("a:{+}", "No variable name", 5),
        ("a:{?}", "No variable name", 5),
        ("a:x{?b,}", "No variable name", 8),
        ("a:{1x}", "No variable name", 4),
        ("a:{größe}", '"ö" in a variable name', 6),
        ("a:{x-y}", '"-" in a variable name', 5),
        ("a:{/x}", 'Unknown operator "/"', 4),
        ("a:{#x}", 'Unknown operator "#"', 4),
        ("a:{.x}", 'Unknown operator "."', 4),
        ("a:{;x}", 'Unknown operator ";"', 4),
        ("a:{&x}", 'Unknown operator "&"', 4),
        ("a:{=x}", 'Unknown operator "="', 4),
        ("a:{x*}", "A modifier cannot be matched", 5),
        ("a:{+x*}", "A modifier cannot be matched", 6),
        ("a:{x:3}", "A modifier cannot be matched", 5),
        ("a:b{?x,y*}", "A modifier cannot be matched", 9),
        ("a:{x}/{x}", 'Variable "x" for the second time', 8),
        ("a:{x}{?y,x}", 'Variable "x" for the second time', 10),
        ("a:{x,y}", "More than one variable in one path segment", 5),
        ("a:{+x,y}", "More than one variable in one path segment", 6),
        ("a:{x}-{y}", 'No "/" between two variables', 7),
        ("a:{x}{y}", 'No "/" between two variables', 6),
        ("a:{+x}{y}", 'No "/" between two variables', 7),
        ("a:{x}.{+y}", 'No "/" between two variables', 7),
        ("a:{+x}/{+y}", "More than one {+…}", 8),
        ("a:{+x}/b/{c}/{+y}", "More than one {+…}", 14),
        ("a:{?x}/b", "Nothing may follow the query expression", 7),
        ("a:{?x}{?y}", "Nothing may follow the query expression", 7),
        ("a:b?x={x}", 'Literal "?" (a query is written {?name})', 4),
        ("a:{x}#y", 'Literal "#" (no resource has a fragment)', 6),
    ],
)
def test_what_cannot_be_matched_is_refused_with_its_place(text: str, why: str, column: int) -> None:
    with pytest.raises(TemplateError) as caught:
        UriTemplate(text)

    assert str(caught.value) == pointing(why, column, text)


@pytest.mark.parametrize("character", ["\0", "\n", "\x7f", "\ud800"])
def test_a_control_character_is_refused_without_repeating_it(character: str) -> None:
    with pytest.raises(TemplateError) as caught:
        UriTemplate(f"a:b{character}c")

    assert str(caught.value) == pointing("Control character or lone surrogate", 4, "a:b\N{REPLACEMENT CHARACTER}c")


def test_only_the_part_around_the_fault_of_a_long_template_is_shown() -> None:
    with pytest.raises(TemplateError) as caught:
        UriTemplate("a:" + "b" * 98 + "#" + "c" * 100)

    assert str(caught.value) == (
        'Literal "#" (no resource has a fragment), at column 101 of the URI template:\n'
        f"  {'b' * 60}#{'c' * 19}\n  {' ' * 60}^"
    )


@pytest.mark.parametrize(
    ("text", "variables", "query_variables", "literal_start", "is_fixed"),
    [
        ("carrel://guide", (), set(), "carrel://guide", True),
        ("logs://run/{id}{?tail,since}", ("id", "tail", "since"), {"tail", "since"}, "logs://run/", False),
        ("logs://all{?tail}", ("tail",), {"tail"}, "logs://all", False),
        ("x:/{a}/{+rest}/{b}.md", ("a", "rest", "b"), set(), "x:/", False),
    ],
)
def test_a_template_tells_its_parts(
    text: str, variables: tuple[str, ...], query_variables: set[str], literal_start: str, *, is_fixed: bool
) -> None:
    template = UriTemplate(text)

    assert (
        template.text,
        template.variables,
        template.query_variables,
        template.literal_start,
        template.is_fixed,
    ) == (text, variables, frozenset(query_variables), literal_start, is_fixed)


def test_templates_are_equal_when_their_text_is() -> None:
    one, again, other = UriTemplate("a:{x}"), UriTemplate("a:{x}"), UriTemplate("a:{y}")

    assert {one: 1, again: 2, other: 3} == {one: 2, other: 3}
    assert repr(one) == "UriTemplate('a:{x}')"


def test_a_template_cannot_be_changed() -> None:
    template = UriTemplate("a:{x}")

    with pytest.raises(AttributeError, match=r"^text of a UriTemplate cannot be set$"):
        template.text = "a:{y}"
    with pytest.raises(AttributeError, match=r"^variables of a UriTemplate cannot be deleted$"):
        del template.variables

    assert (template.text, template.variables) == ("a:{x}", ("x",))


def test_a_copied_template_still_matches() -> None:
    template = UriTemplate("a:{x}{?y}")
    copies = [copy.copy(template), copy.deepcopy(template), pickle.loads(pickle.dumps(template))]

    assert [(each, each.match("a:1?y=2")) for each in copies] == [(template, {"x": "1", "y": "2"})] * 3


MATCHES: list[tuple[str, str, dict[str, str] | None]] = [
    # Fixed templates
    ("carrel://guide", "carrel://guide", {}),
    ("carrel://guide", "CARREL://guide", {}),
    ("carrel://guide", "carrel://Guide", None),
    ("carrel://guide", "carrel://guide?", {}),
    ("carrel://guide", "carrel://guide?x", None),
    ("carrel://guide", "carrel://guide#x", None),
    ("carrel://guide", "carrel://guide/", None),
    ("carrel://guide", "carrel://guide\n", None),
    ("a:x.y", "a:xzy", None),
    ("k:x", "\N{KELVIN SIGN}:x", None),
    # One segment
    ("logs://run/{id}", "logs://run/web_1", {"id": "web_1"}),
    ("LOGS://run/{id}", "Logs://run/Web", {"id": "Web"}),
    ("logs://run/{id}", "logs://run/", None),
    ("logs://run/{id}", "logs://run/a/b", None),
    ("logs://run/{id}", "logs://run/a?", {"id": "a"}),
    ("logs://run/{id}", "logs://run/a?tail=1", None),
    ("logs://run/{id}", "logs://run/a#b", None),
    ("logs://run/{id}", "logs://run/a%3Fb%23c", {"id": "a?b#c"}),
    ("logs://run/{id}", "logs://run/a b+c", {"id": "a b+c"}),
    ("logs://run/{id}", "logs://run/größe", {"id": "größe"}),
    ("logs://run/{id}", "logs://run/gr%C3%B6%c3%9fe", {"id": "größe"}),
    ("logs://run/{id}", "logs://run/..", {"id": ".."}),
    ("logs://run/{id}", "logs://r%75n/a", None),
    ("logs://run/{class}", "logs://run/a", {"class": "a"}),
    # What does not decode to one segment
    ("logs://run/{id}", "logs://run/a%2Fb", None),
    ("logs://run/{id}", "logs://run/a%00b", None),
    ("logs://run/{id}", "logs://run/a\0b", None),
    ("logs://run/{id}", "logs://run/a%zz", None),
    ("logs://run/{id}", "logs://run/%FF", None),
    ("logs://run/{id}", "logs://run/\ud800", None),
    # Literal text around a variable
    ("a:/x-{id}.json", "a:/x-1.json", {"id": "1"}),
    ("a:/x-{id}.json", "a:/x-.json", None),
    ("a:/x-{id}.json", "a:/x-1.json.json", {"id": "1.json"}),
    ("a:/x-{id}.json", "a:/x-1xjson", None),
    ("a:/{x}aba", "a:/ababa", {"x": "ab"}),
    ("a:/{x}.d/{y}.d", "a:/1.d.d/2.d", {"x": "1.d", "y": "2"}),
    ("a:/{x}.d/{y}.d", "a:/1.d/2.d/3.d", None),
    ("a://{host}/{x}", "a://h/y", {"host": "h", "x": "y"}),
    # Many segments
    ("workspace:///{+path}", "workspace:///src/a.py", {"path": "src/a.py"}),
    ("workspace:///{+path}", "workspace:///", {"path": ""}),
    ("workspace:///{+path}", "workspace:////a//", {"path": "/a//"}),
    ("workspace:///{+path}", "workspace:///a%2Fb%3Fc%25", {"path": "a/b?c%"}),
    ("workspace:///{+path}", "workspace:///a?b", None),
    ("workspace:///{+path}", "workspace:///a#b", None),
    ("workspace:///{+path}", "workspace:///a%00", None),
    ("workspace:///{+path}", "workspace:///a\0", None),
    ("a:/{x}/{+r}/{y}", "a:/1/2/3/4", {"x": "1", "r": "2/3", "y": "4"}),
    ("a:/{x}/{+r}/{y}", "a:/1//4", {"x": "1", "r": "", "y": "4"}),
    ("a:/{x}/{+r}/{y}", "a:/1/4", None),
    ("a:/{x}/{+r}/{y}", "a:/1/2/", None),
    ("a:/{+r}/end", "a:/x/end/end", {"r": "x/end"}),
    ("a:/{+r}.md/{y}", "a:/x.md/y.md/z", {"r": "x.md/y", "y": "z"}),
    ("a:/{+r}/{y}", "a:/x%2Fy/z", {"r": "x/y", "y": "z"}),
    # A query
    ("a:{x}{?t,s}", "a:1", {"x": "1"}),
    ("a:{x}{?t,s}", "a:1?", {"x": "1"}),
    ("a:{x}{?t,s}", "a:1?t=2", {"x": "1", "t": "2"}),
    ("a:{x}{?t,s}", "a:1?s=3&t=2", {"x": "1", "t": "2", "s": "3"}),
    ("a:{x}{?t,s}", "a:1?&t=2&", {"x": "1", "t": "2"}),
    ("a:{x}{?t,s}", "a:1?t", {"x": "1", "t": ""}),
    ("a:{x}{?t,s}", "a:1?%74=%2541/?+", {"x": "1", "t": "%41/?+"}),
    ("a:{x}{?t,s}", "a:1?t=2&t=2", None),
    ("a:{x}{?t,s}", "a:1?u=2", None),
    ("a:{x}{?t,s}", "a:1?x=2", None),
    ("a:{x}{?t,s}", "a:1?T=2", None),
    ("a:{x}{?t,s}", "a:1?=2", None),
    ("a:{x}{?t,s}", "a:1?t=%00", None),
    ("a:{x}{?t,s}", "a:1?t=%F", None),
    ("a:{x}{?t,s}", "a:1?t=2#f", None),
    ("a:{x}{?t,s}", "a:?t=2", None),
    ("a:b{?t}", "a:b?t=1", {"t": "1"}),
    ("a:{+r}{?t}", "a:b/c?t=1", {"r": "b/c", "t": "1"}),
    ("a:{x}.d{?t}", "a:b.d.d?t=.d", {"x": "b.d", "t": ".d"}),
]


@pytest.mark.parametrize(("template", "uri", "values"), MATCHES)
def test_a_uri_matches_with_these_values(template: str, uri: str, values: dict[str, str] | None) -> None:
    assert UriTemplate(template).match(uri) == values


def test_a_segment_is_decoded_exactly_once() -> None:
    assert UriTemplate("a:{x}").match("a:%252F%2500") == {"x": "%2F%00"}


@pytest.mark.parametrize(
    ("template", "values", "uri"),
    [
        ("carrel://guide", {}, "carrel://guide"),
        ("logs://run/{id}", {"id": "web 1", "unknown": "x"}, "logs://run/web%201"),
        ("a:{x}", {"x": "!$&'()*+,;=:@[]?#%ö~"}, "a:%21%24%26%27%28%29%2A%2B%2C%3B%3D%3A%40%5B%5D%3F%23%25%C3%B6~"),
        ("a:{+x}", {"x": "/b!$&'()*+,;=:@[]?#%41 ö"}, "a:/b!$&'()*+,;=:@[]%3F%23%2541%20%C3%B6"),
        ("a:{+x}", {"x": ""}, "a:"),
        ("a:{x}{?t,s}", {"s": "1/2&3", "x": "0", "t": ""}, "a:0?t=&s=1%2F2%263"),
        ("a:{x}{?t,s}", {"x": "0", "s": "1"}, "a:0?s=1"),
        ("a:{x}{?t,s}", {"x": "0"}, "a:0"),
        ("a:/{x}.d/{+r}/e", {"x": "0", "r": "1/2"}, "a:/0.d/1/2/e"),
    ],
)
def test_values_expand_to_a_uri(template: str, values: dict[str, str], uri: str) -> None:
    assert UriTemplate(template).expand(values) == uri


@pytest.mark.parametrize(
    ("template", "values", "message", "variable"),
    [
        ("a:{x}/{y}", {"x": "1"}, "Variable y has no value", "y"),
        ("a:{+r}", {}, "Variable r has no value", "r"),
        ("a:{x}", {"x": ""}, "Variable x must not be empty or hold a slash", "x"),
        ("a:{x}", {"x": "a/b"}, "Variable x must not be empty or hold a slash", "x"),
        ("a:{x}", {"x": "a\0"}, "Variable x holds a NUL or a lone surrogate", "x"),
        ("a:{x}", {"x": "\ud800"}, "Variable x holds a NUL or a lone surrogate", "x"),
        ("a:{+r}", {"r": "\0"}, "Variable r holds a NUL or a lone surrogate", "r"),
        ("a:{?t}", {"t": "\udc80"}, "Variable t holds a NUL or a lone surrogate", "t"),
    ],
)
def test_a_value_that_would_not_match_again_is_refused(
    template: str, values: dict[str, str], message: str, variable: str
) -> None:
    with pytest.raises(BadArgument, match=re.escape(message)) as caught:
        UriTemplate(template).expand(values)

    assert (caught.value.message, caught.value.data) == (message, {"parameter": variable})
