"""What each function of `carrel.core.uri` gives for named cases; the laws are in `tests/property`."""

import pytest

from carrel.core import uri
from carrel.core.errors import BadArgument
from carrel.core.limits import MAX_QUERY_PAIRS, MAX_URI_LENGTH


def refusal(error: BadArgument) -> tuple[str, str | None, dict[str, object]]:
    return error.message, error.uri, error.data


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("logs://run/web_1?tail=20", "logs"),
        ("LOGS://run/web_1", "logs"),
        ("git+ssh.v1-x:anything", "git+ssh.v1-x"),
        ("a:", "a"),
        ("workspace:///read me/größe.md", "workspace"),
        ("workspace:///\U0001f4da", "workspace"),
        ("a:" + "x" * (MAX_URI_LENGTH - 2), "a"),
    ],
)
def test_a_scheme_is_given_in_lower_case(text: str, scheme: str) -> None:
    assert uri.scheme_of(text) == scheme


@pytest.mark.parametrize("text", ["", ":", "//host/x", "/etc/passwd", "1a:x", "a_b:x", " a:x", "größe:x", "a", "%61:x"])
def test_a_text_without_a_scheme_is_refused(text: str) -> None:
    with pytest.raises(BadArgument) as caught:
        uri.scheme_of(text)

    assert refusal(caught.value) == (
        "The URI does not start with a scheme, such as workspace: or logs:",
        text,
        {"parameter": "uri"},
    )


@pytest.mark.parametrize("text", ["a:\0", "a:x\n", "a:\x1fx", "a:\x7f", "a:\ud800", "a:\udfffx", "a\n:x"])
def test_a_control_character_or_lone_surrogate_is_refused(text: str) -> None:
    with pytest.raises(BadArgument) as caught:
        uri.scheme_of(text)

    assert refusal(caught.value) == (
        "The URI holds a control character or a lone surrogate",
        text,
        {"parameter": "uri"},
    )


def test_a_uri_longer_than_the_limit_is_refused() -> None:
    text = "a:" + "x" * (MAX_URI_LENGTH - 1)

    with pytest.raises(BadArgument) as caught:
        uri.scheme_of(text)

    assert refusal(caught.value) == ("The URI is longer than 8192 characters", text, {"parameter": "uri"})


@pytest.mark.parametrize(
    ("text", "place", "is_text"),
    [
        ("", -1, True),
        ("größe und mehr \U0001f4da", -1, True),
        ("ab\ncd\n", 2, True),
        ("ab\x7f", 2, True),
        ("ab\x80", -1, True),
        ("\0ab", 0, False),
        ("ö\ud800", 1, False),
        ("\udfff", 0, False),
    ],
)
def test_what_may_stand_in_a_uri_escaped_or_not_is_told_apart(text: str, place: int, *, is_text: bool) -> None:
    assert (uri.find_unsound(text), uri.is_text(text)) == (place, is_text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a:b", ("a:b", None)),
        ("a:b?", ("a:b", None)),
        ("a:b?x=1", ("a:b", "x=1")),
        ("a:b?x=?&y", ("a:b", "x=?&y")),
        ("a:b??", ("a:b", "?")),
        ("", ("", None)),
    ],
)
def test_a_query_starts_at_the_first_question_mark(text: str, parts: tuple[str, str | None]) -> None:
    assert uri.split_query(text) == parts


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("plain", "plain"),
        ("", ""),
        ("a%20b", "a b"),
        ("a+b", "a+b"),
        ("%2F%2f", "//"),
        ("gr%C3%B6%c3%9fe", "größe"),
        ("größe und mehr", "größe und mehr"),
        ("ö%C3%B6ö", "ööö"),
        ("%F0%9F%93%9A", "\U0001f4da"),
        ("%0A%7F", "\n\x7f"),
    ],
)
def test_escapes_are_decoded_as_utf_8(text: str, decoded: str) -> None:
    assert uri.decode(text) == decoded


def test_a_text_is_decoded_exactly_once() -> None:
    assert uri.decode("%252e%252E%2500") == "%2e%2E%00"


BAD_ESCAPE = "A percent sign in the URI is not followed by two hexadecimal digits"
NOT_UTF_8 = "The percent escapes in the URI are not UTF-8"
NOT_TEXT = "The URI holds a NUL or a lone surrogate"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%", BAD_ESCAPE),
        ("a%2", BAD_ESCAPE),
        ("%zz", BAD_ESCAPE),
        ("%  ", BAD_ESCAPE),
        ("%+1", BAD_ESCAPE),
        ("%\N{FULLWIDTH DIGIT ONE}1", BAD_ESCAPE),
        ("%41%", BAD_ESCAPE),
        ("%FF", NOT_UTF_8),
        ("%C3", NOT_UTF_8),
        ("%C3ö", NOT_UTF_8),
        ("%C0%AF", NOT_UTF_8),
        ("%ED%A0%80", NOT_UTF_8),
        ("%00", NOT_TEXT),
        ("a\0", NOT_TEXT),
        ("ö\0", NOT_TEXT),
        ("\ud800", NOT_TEXT),
        ("%41\udfff", NOT_TEXT),
    ],
)
def test_what_does_not_decode_to_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadArgument) as caught:
        uri.decode(text)

    assert refusal(caught.value) == (message, None, {"parameter": "uri"})


@pytest.mark.parametrize(
    ("text", "safe", "quoted"),
    [
        ("AZaz09-._~", "", "AZaz09-._~"),
        ("!$&'()*+,;=:@", uri.SEGMENT_SAFE, "!$&'()*+,;=:@"),
        ("a/b?c#d[e]", uri.SEGMENT_SAFE, "a%2Fb%3Fc%23d%5Be%5D"),
        ("a/b c/ö", uri.PATH_SAFE, "a/b%20c/%C3%B6"),
        ("a=b&c+d/e", uri.QUERY_SAFE, "a%3Db%26c%2Bd%2Fe"),
        ("100%41", uri.SEGMENT_SAFE, "100%2541"),
        ("\0\n\x7f", uri.SEGMENT_SAFE, "%00%0A%7F"),
        ("ö", "ö", "%C3%B6"),
        ("", uri.SEGMENT_SAFE, ""),
    ],
)
def test_all_but_the_safe_characters_are_quoted(text: str, safe: str, quoted: str) -> None:
    assert uri.quote(text, safe) == quoted


def test_quoting_is_for_one_segment_unless_said_otherwise() -> None:
    assert uri.quote("a/b@c d") == "a%2Fb@c%20d"


def test_a_lone_surrogate_cannot_be_quoted() -> None:
    with pytest.raises(BadArgument) as caught:
        uri.quote("bad\udc80name")

    assert refusal(caught.value) == (
        "Text with a lone surrogate cannot stand in a URI",
        None,
        {"parameter": "uri"},
    )


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", []),
        ("&&", []),
        ("tail=20&since=3", [("tail", "20"), ("since", "3")]),
        ("b=1&a=2&b=3", [("b", "1"), ("a", "2"), ("b", "3")]),
        ("flag&empty=", [("flag", ""), ("empty", "")]),
        ("=x", [("", "x")]),
        ("a=b=c", [("a", "b=c")]),
        ("a%26b=c%3Dd+e", [("a&b", "c=d+e")]),
        ("a=%2541", [("a", "%41")]),
    ],
)
def test_a_query_becomes_decoded_pairs_in_order(query: str, expected: list[tuple[str, str]]) -> None:
    assert uri.pairs(query) == expected


def test_as_many_pairs_as_the_limit_are_taken() -> None:
    assert uri.pairs("a&" * MAX_QUERY_PAIRS) == [("a", "")] * MAX_QUERY_PAIRS


def test_more_pairs_than_the_limit_are_refused() -> None:
    with pytest.raises(BadArgument) as caught:
        uri.pairs("a&" * (MAX_QUERY_PAIRS + 1))

    assert refusal(caught.value) == ("The URI's query has more than 64 parameters", None, {"parameter": "uri"})


@pytest.mark.parametrize(
    ("text", "names", "left"),
    [
        ("a:b?x=1&y=2&z=3", {"y"}, "a:b?x=1&z=3"),
        ("a:b?x=1&y=2&x=3", {"x"}, "a:b?y=2"),
        ("a:b?x=1", {"x"}, "a:b"),
        ("a:b?x", {"x"}, "a:b"),
        ("a:b?%78=1&y=%7a+%zz", {"x"}, "a:b?y=%7a+%zz"),
        ("a:b?x=1", {"X"}, "a:b?x=1"),
        ("a:b?x=1&&y", {"x"}, "a:b?y"),
        ("a:b?", {"x"}, "a:b"),
        ("a:b", {"x"}, "a:b"),
        ("a:b?x=1", set(), "a:b?x=1"),
    ],
)
def test_only_the_named_parameters_are_removed(text: str, names: set[str], left: str) -> None:
    assert uri.without(text, frozenset(names)) == left


def test_a_parameter_is_added_to_a_uri_without_a_query() -> None:
    assert uri.with_query("logs://run/1", tail=20, since="a b&c") == "logs://run/1?tail=20&since=a%20b%26c"


def test_a_parameter_replaces_all_of_its_name_and_stands_last() -> None:
    assert uri.with_query("a:b?x=1&y=%7a&x=2", x=3) == "a:b?y=%7a&x=3"


def test_a_parameter_may_have_any_name() -> None:
    assert uri.with_query("a:b", text="1", **{"a=ö": "2"}) == "a:b?text=1&a%3D%C3%B6=2"


def test_no_values_leave_the_query_as_it_is() -> None:
    assert uri.with_query("a:b?x=%7a") == "a:b?x=%7a"


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("LOGS://Run/Web", "logs://run/Web"),
        ("Carrel:Guide", "carrel:Guide"),
        ("A://H?Q=R", "a://h?Q=R"),
        ("A://H#F", "a://h#F"),
        ("a:///B/C", "a:///B/C"),
        ("a://%4D%c3%89x/%4D", "a://m%C3%89x/M"),
        ("a://É/É", "a://%C3%89/%C3%89"),
        ("a:/%7euser/%2fx", "a:/~user/%2Fx"),
        ('a:/ "<>\\^`{|}', "a:/%20%22%3C%3E%5C%5E%60%7B%7C%7D"),
        ("a:/[!$&'()*+,;=:@]", "a:/[!$&'()*+,;=:@]"),
        ("a:/./b/../c//d", "a:/./b/../c//d"),
        ("a:/%2e%2e/b", "a:/../b"),
        ("a:b?", "a:b"),
        ("a:b??", "a:b??"),
        ("a:b?x=%7e%2c", "a:b?x=~%2C"),
        ("a:/%", "a:/%25"),
        ("a:/%4", "a:/%254"),
        ("a:/%zz%41", "a:/%25zzA"),
        ("a:/%%34%31", "a:/%2541"),
        ("No/Scheme", "No/Scheme"),
        ("", ""),
    ],
)
def test_a_uri_has_one_normal_spelling(text: str, normal: str) -> None:
    assert uri.normalise(text) == normal


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("logs://run/1", "LOGS://RUN/1", True),
        ("a:/größe x", "a:/gr%c3%b6%C3%9Fe%20x", True),
        ("a:/x?", "a:/x", True),
        ("a:/x", "a:/X", False),
        ("a:/b/../x", "a:/x", False),
        ("a:/b%2Fx", "a:/b/x", False),
        ("a:/x+y", "a:/x%20y", False),
    ],
)
def test_uris_are_the_same_when_only_spelling_differs(a: str, b: str, *, expected: bool) -> None:
    assert uri.same(a, b) is expected


@pytest.mark.parametrize(
    ("inner", "outer", "expected"),
    [
        ("a:///b", "a:///b", True),
        ("a:///b/c", "a:///b", True),
        ("a:///b/c", "a:///b/?x=1", True),
        ("A:///%62", "a:///b", True),
        ("a:///bc", "a:///b", False),
        ("a:///", "a:///b", False),
    ],
)
def test_a_uri_is_within_itself_and_what_it_is_beneath(inner: str, outer: str, *, expected: bool) -> None:
    assert uri.is_within(inner, outer) is expected
