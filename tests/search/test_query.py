"""What somebody types is taken apart by its form."""

import pytest

from carrel.core.errors import BadArgument
from carrel.search.expressions import quoted, spans
from carrel.search.query import MAX_CHARACTERS, MAX_TERMS, QueryFilter, parse


def test_words_are_words() -> None:
    query = parse("retry with backoff")

    assert query.words == ("retry", "with", "backoff")
    assert (query.identifiers, query.phrases, query.expression, query.filters, query.notes) == ((), (), None, (), ())


@pytest.mark.parametrize("name", ["parseConfig", "parse_config", "parse-config", "ParseConfig", "PARSE_CONFIG"])
def test_a_name_is_an_identifier_in_every_spelling(name: str) -> None:
    assert parse(f"the {name}").identifiers == (name,)


def test_what_stands_in_quotation_marks_is_a_phrase() -> None:
    query = parse('socket "connection  refused" "retry"')

    assert (query.words, query.phrases) == (("socket",), ("connection refused", "retry"))
    assert query.must_verify


def test_what_stands_between_slashes_is_an_expression() -> None:
    query = parse(r"/fn \w+_handler\(/ path:src/")

    assert query.expression == r"fn \w+_handler\("
    assert query.filters == (QueryFilter("path", "src/"),)


def test_a_slash_inside_an_expression_needs_no_sign_before_it() -> None:
    assert parse("/https?://x/").expression == "https?://x"


def test_a_path_without_a_closing_slash_is_no_expression() -> None:
    query = parse("/usr/lib/python")

    assert query.expression is None
    assert query.words == ("usr", "lib", "python")


def test_a_broken_expression_is_searched_as_words() -> None:
    query = parse("/(unclosed group/")

    assert query.expression is None
    assert query.words == ("unclosed", "group")
    assert "searched as words" in query.notes[0]


@pytest.mark.parametrize(
    ("text", "words", "expression", "note"),
    [
        ("/foo(/i", ("foo",), None, "/foo(/i was searched as words: "),
        ("/(?i)foo(/", ("foo",), None, "/(?i)foo(/ was searched as words: "),
        ("/(/i", (), quoted("("), "/(/i was searched as exact text: missing ): (."),
        ("/(?i)(/", (), quoted("("), "/(?i)(/ was searched as exact text: "),
        ("/a+/ /tomato/i", ("tomato",), "a+", "/tomato/i was searched as words, since a query can have one"),
    ],
)
def test_the_flags_of_an_expression_are_no_words_and_the_note_shows_what_was_typed(
    text: str, words: tuple[str, ...], expression: str | None, note: str
) -> None:
    query = parse(text)

    assert (query.words, query.expression) == (words, expression)
    assert query.notes[0].startswith(note)


def test_filters_are_taken_out_of_the_words() -> None:
    query = parse('token path:src/ -path:test lang:py scheme:logs path:"my notes/"')

    assert query.words == ("token",)
    assert query.filters == (
        QueryFilter("path", "src/"),
        QueryFilter("path", "test", is_negated=True),
        QueryFilter("lang", "python"),
        QueryFilter("scheme", "logs"),
        QueryFilter("path", "my notes/"),
    )


def test_an_unknown_filter_is_searched_as_words_and_the_nearest_is_named() -> None:
    query = parse("pth:src token")

    assert query.words == ("pth", "src", "token")
    assert "did you mean path:src?" in query.notes[0]


def test_an_unknown_language_is_left_out_and_the_nearest_is_named() -> None:
    query = parse("token lang:pythn")

    assert query.filters == ()
    assert "Did you mean lang:python?" in query.notes[0]


def test_an_unknown_scheme_is_left_out_and_the_nearest_is_named() -> None:
    query = parse("token scheme:log", schemes=("logs", "workspace"))

    assert query.filters == ()
    assert "Did you mean scheme:logs?" in query.notes[0]


@pytest.mark.parametrize("text", ["http://example.org/a", "std::vector<int>", "TypeError:x"])
def test_a_colon_alone_makes_no_filter(text: str) -> None:
    assert parse(text).filters == ()
    assert parse(text).notes == ()


@pytest.mark.parametrize("text", ["", "  ", '""', '" "'])
def test_an_empty_query_is_refused_with_advice(text: str) -> None:
    with pytest.raises(BadArgument, match=r"The query is empty\. Give words"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "matched", "missed"),
    [
        ("->{", "a->{b}", "a-> {b}"),
        ("...", "a...b", "a.b.c"),
        ("//", "// a", "/ / a"),
        ("()", "f()", "f( )"),
        ('"', 'say "a"', "say a"),
        ('"(', 'say "(a)"', 'say " (a)'),
        ("-> {", "a ->\n {", "a ->{"),
        ("__", "a__b", "a_b"),
        ("\N{PARTY POPPER}", "done \N{PARTY POPPER}", "done"),
        ("\0", "a\0b", "ab"),
        ("=> path:src/", "(a) => b", "a = > b"),
    ],
)
def test_a_query_of_signs_is_searched_as_exact_text_and_says_so(text: str, matched: str, missed: str) -> None:
    query = parse(text)

    assert query.expression is not None
    assert spans(query.expression, matched)
    assert not spans(query.expression, missed)
    assert query.notes == ("The query has no letter or digit, so it was searched as exact text.",)


@pytest.mark.parametrize("text", ["\udc00", "/\udc00/", '"a \udc00"', "path:\udc00", "tomato\ud800"])
def test_half_a_character_is_replaced_and_the_query_says_so(text: str) -> None:
    query = parse(text)

    assert query.text.isprintable()
    assert query.notes[0] == "The query contains invalid characters; they were replaced by \N{REPLACEMENT CHARACTER}."


def test_signs_beside_words_say_nothing() -> None:
    query = parse("what does => do ?")

    assert (query.words, query.expression, query.notes) == (("what", "does", "do"), None, ())


@pytest.mark.parametrize(("text", "exact"), [("/(/", "("), ("/[/", "["), ("/**/", "**"), ("tomato /(/", "(")])
def test_a_broken_expression_of_signs_is_searched_as_exact_text(text: str, exact: str) -> None:
    query = parse(text)

    assert query.expression is not None
    assert spans(query.expression, f"a{exact}b")
    assert not spans(query.expression, "ab")
    assert "was searched as exact text: " in query.notes[0]


@pytest.mark.parametrize("text", ["(" * 10_000, f"/{'(' * 9_000}/", f"/{'->' * 4_000}/", f'"{"->" * 4_000}"'])
def test_signs_that_are_too_many_are_refused_with_the_reason(text: str) -> None:
    with pytest.raises(BadArgument, match="too large"):
        parse(text)


def test_a_second_text_of_signs_is_left_out_with_a_note() -> None:
    query = parse('"=>" "->" /(/')

    assert query.expression == quoted("=>")
    assert [note.partition(", since")[0] for note in query.notes] == ['"->" was left out', "/(/ was left out"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("lang:pythn", "no language has that name. Did you mean lang:python?"),
        ("scheme:log", "no scheme has that name. Did you mean scheme:logs?"),
        ("-lang:pythn", "no language has that name"),
        ('path:""', "path: was left out, since it has no value."),
    ],
)
def test_where_nothing_is_left_to_search_for_the_error_says_why(text: str, part: str) -> None:
    with pytest.raises(BadArgument) as refused:
        parse(text, schemes=("logs", "workspace"))

    assert refused.value.message.startswith("Nothing is left to search for. ")
    assert part in refused.value.message


@pytest.mark.parametrize("text", ["path:", "-path:", "lang:", "scheme: "])
def test_a_filter_without_a_value_is_searched_as_a_word_and_says_so(text: str) -> None:
    query = parse(text)

    assert query.words == (text.strip(" -:"),)
    assert "no value follows it" in query.notes[0]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("in:logs", "scheme:logs"),
        ("in:docs", "path:docs"),
        ("file:a.py", "path:a.py"),
        ("ext:py", "lang:py"),
        ("ext:csv", "path:.csv"),
    ],
)
def test_a_filter_of_another_program_has_ours_named(text: str, meant: str) -> None:
    assert f"did you mean {meant}?" in parse(f"tomato {text}", ("logs", "workspace")).notes[0]


def test_a_quotation_mark_that_is_not_closed_is_noted() -> None:
    query = parse('say "hello world')

    assert query.words == ("say", "hello", "world")
    assert "not closed" in query.notes[0]


def test_a_long_query_is_cut_and_says_so() -> None:
    query = parse("word " * MAX_CHARACTERS)
    many = parse(" ".join(f"word{number}" for number in range(1_000)))

    assert query.words == ("word",)
    assert "characters" in query.notes[0]
    assert len(many.words) == MAX_TERMS
    assert "first 64 words" in many.notes[0]


@pytest.mark.parametrize(
    ("text", "unfinished"),
    [
        ("config par", "par"),
        ("config par ", ""),
        ("parse_con", "parse_con"),
        ("par path:src/", ""),
        ('"par"', ""),
        ("/par/", ""),
        ("par?", ""),
    ],
)
def test_the_last_word_may_be_unfinished_where_nothing_follows_it(text: str, unfinished: str) -> None:
    assert parse(text).unfinished == unfinished


def test_longer_words_take_the_place_of_the_unfinished_one_and_the_answer_says_so() -> None:
    query = parse("readConfig parseCon").completed(("parseconfig", "parseconnect"))

    assert query.words == ("readConfig", "parseconfig", "parseconnect")
    assert query.identifiers == ("readConfig",)
    assert query.notes == ("No text contains parseCon; words that begin with it were searched.",)
