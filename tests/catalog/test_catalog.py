"""The catalogue: one list, routes that are found, and what holds for every read."""

import logging
from collections.abc import Iterator, Sequence

import pytest

from carrel.catalog.access import Access, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.catalog.pages import seal
from carrel.core.arguments import InvalidArguments
from carrel.core.content import close_sources
from carrel.core.errors import (
    BadArgument,
    BadCursor,
    ConfigError,
    NotFound,
    ProviderError,
    RequestError,
    TooLarge,
    UnknownScheme,
)
from carrel.core.model import Blob, Completion, Range, Reading, Resource, Stored, Text
from carrel.core.provider import Reader, Route
from tests.support.memory_provider import NOTES, SAMPLE, Kept, Memory, Newest, Shelf


class Desk(Shelf):
    """A Shelf with routes of its own."""

    def __init__(self, *routes: tuple[str, Reader], name: str = "desk", mime_type: str = "") -> None:
        super().__init__(name)
        self._routes = tuple(Route(template, reader, template, mime_type) for template, reader in routes)

    def routes(self) -> Sequence[Route]:
        return self._routes


class Fronted(Shelf):
    """A Shelf with two front entries."""

    def entries(self, after: str = "") -> Iterator[Resource]:
        front = [Resource(f"{self.name}:///{path}", path, sort_key=path, pinned=True) for path in ("!a", "!z")]
        yield from (entry for entry in front if entry.sort_key > after)
        yield from super().entries(after if after > "!z" else "")


def says(text: str) -> Reader:
    return lambda **variables: Text(" ".join([text, *(f"{name}={variables[name]}" for name in sorted(variables))]))


def text_of(catalog: Catalog, uri: str, wanted: Range | None = None) -> str:
    [item] = catalog.read(uri, wanted).items
    assert isinstance(item, Text)
    return item.text


def refusal(catalog: Catalog, uri: str, wanted: Range | None = None) -> tuple[type[RequestError], str, object]:
    with pytest.raises(RequestError) as caught:
        catalog.read(uri, wanted)
    return type(caught.value), caught.value.message, caught.value.data.get("parameter")


def pages(catalog: Catalog, limit: int) -> list[list[str]]:
    given = []
    cursor: str | None = ""
    while cursor is not None:
        page = catalog.page(cursor, limit)
        given.append([entry.uri for entry in page.entries])
        cursor = page.next_cursor
        assert len(given) < 1_000, "the pages never end"
    return given


# Listing


def test_front_entries_come_first_then_provider_by_provider() -> None:
    shelves = [Fronted("b", {"2": "", "1": ""}), Shelf("c", {"3": ""}), Fronted("a", {"4": ""})]
    expected = [
        *("b:///!a", "b:///!z", "a:///!a", "a:///!z"),
        *("b:///1", "b:///2", "c:///3", "a:///4"),
    ]

    for limit in range(1, 10):
        given = pages(Catalog(shelves), limit)
        assert [uri for page in given for uri in page] == expected
        assert all(len(page) == limit for page in given[:-1])
        assert 0 < len(given[-1]) <= limit


def test_an_empty_catalogue_has_one_empty_page() -> None:
    page = Catalog().page()

    assert (page.entries, page.next_cursor, page.ttl_ms, page.cache_scope) == ((), None, 1_000, "private")


def test_the_last_page_has_no_cursor_even_when_it_is_full() -> None:
    catalog = Catalog([Shelf("a", {"1": "", "2": ""})])

    assert (catalog.page(limit=2).next_cursor, catalog.page(limit=3).next_cursor) == (None, None)


def test_pages_are_as_long_as_the_setting_says() -> None:
    catalog = Catalog([Memory()], page_size=100)

    assert [len(page) for page in pages(catalog, catalog.page_size)] == [100, 100, 100, NOTES + 3 - 300]
    assert len(catalog.page().entries) == 100


def test_a_page_never_repeats_or_skips_when_entries_come_and_go() -> None:
    shelf = Shelf("a", {"b": "", "d": "", "f": "", "h": ""})
    catalog = Catalog([shelf])
    first = catalog.page(limit=2)
    for path in ("a", "c", "e"):
        shelf.put(path)
    for path in ("b", "d"):
        shelf.remove(path)

    second = catalog.page(first.next_cursor, limit=2)
    shelf.remove("f")
    third = catalog.page(second.next_cursor, limit=2)

    assert [entry.uri for entry in second.entries] == ["a:///e", "a:///f"]
    assert ([entry.uri for entry in third.entries], third.next_cursor) == (["a:///h"], None)


def test_a_page_goes_on_when_the_rest_of_a_provider_is_gone() -> None:
    shelf, other = Shelf("a", {"1": "", "2": "", "3": ""}), Shelf("b", {"4": ""})
    catalog = Catalog([shelf, other])
    first = catalog.page(limit=2)
    for path in ("1", "2", "3"):
        shelf.remove(path)

    assert [entry.uri for entry in catalog.page(first.next_cursor).entries] == ["b:///4"]


def test_an_order_of_ones_own_is_paged_by_its_key() -> None:
    shelf = Newest("n", {"1": "", "2": "", "10": ""})
    catalog = Catalog([shelf])
    first = catalog.page(limit=2)
    shelf.put("11")

    assert [entry.uri for entry in first.entries] == ["n:///10", "n:///2"]
    assert [entry.uri for entry in catalog.page(first.next_cursor).entries] == ["n:///1"]
    assert next(catalog.entries()).uri == "n:///11"


@pytest.mark.parametrize(
    "cursor",
    [
        "foreign",
        seal("m", "nobody", "x"),
        seal("x", "a", "a:///1"),
        seal("m", "a"),
        seal("b", "d", "", "x", "a", "k"),
        seal("b", "x", "", "1", "a", "k"),
        seal("b"),
        seal("m", "a", "x", "y", "z"),
        seal("s", "6", "nobody", "x"),
        seal("s", "six", "a", "x"),
        seal("s", "6", "a"),
        seal("t", "0"),
        seal(""),
    ],
)
def test_a_cursor_of_somebody_else_is_refused(cursor: str) -> None:
    with pytest.raises(BadCursor):
        Catalog([Shelf("a", {"1": ""})]).page(cursor)


@pytest.mark.parametrize(
    "cursor",
    ["foreign", seal("m", "memory", "x"), seal("t"), seal("t", ""), seal("t", "x"), seal("t", "-1"), seal("t", "٣")],
)
def test_a_cursor_of_somebody_else_is_refused_for_templates_too(cursor: str) -> None:
    with pytest.raises(BadCursor):
        Catalog([Memory()]).templates(cursor)


@pytest.mark.parametrize("number", ["99", "9" * 5_000])
def test_a_cursor_past_the_templates_gives_an_empty_page(number: str) -> None:
    assert Catalog([Memory()]).templates(seal("t", number)) == ((), None)


def test_templates_are_the_routes_with_variables_page_by_page() -> None:
    memory = Memory()
    catalog = Catalog([memory], page_size=3)
    cursor: str | None = ""
    listed: list[str] = []
    while cursor is not None:
        templates, cursor = catalog.templates(cursor)
        assert len(templates) <= 3
        assert len(listed) < 100, "the pages never end"
        listed += [template.uri_template for template in templates]

    assert listed == [route.template for route in memory.routes() if "{" in route.template]


def test_a_provider_that_breaks_while_listing_leaves_the_others(caplog: pytest.LogCaptureFixture) -> None:
    class Breaking(Shelf):
        def entries(self, after: str = "") -> Iterator[Resource]:
            yield from super().entries(after)
            raise ProviderError("no more")

    catalog = Catalog([Breaking("a", {"1": ""}), Shelf("b", {"2": ""})])

    with caplog.at_level(logging.WARNING):
        listed = [entry.uri for entry in catalog.entries()]

    assert (listed, caplog.messages) == (["a:///1", "b:///2"], ["the list of a is cut short: no more"])


def test_entries_of_one_scheme_are_given_alone() -> None:
    catalog = Catalog([Fronted("a", {"1": ""}), Shelf("b", {"2": ""})])

    assert [entry.uri for entry in catalog.entries("a")] == ["a:///!a", "a:///!z", "a:///1"]


def test_two_providers_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two providers are named 'a'"):
        Catalog([Shelf("a"), Shelf("a")])


# Which route


ROUTED = Desk(
    ("desk:///fixed", says("fixed")),
    ("desk:///{x}", says("one")),
    ("desk:///deep/{x}", says("deep")),
    ("desk:///{+rest}", says("rest")),
    ("desk:///log/{id}{?tail,since}", says("log")),
    ("desk:///ask{?q}", says("ask")),
    ("desk:///größe", says("unicode")),
)


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("desk:///fixed", "fixed"),
        ("DESK:///fixed", "fixed"),
        ("desk:///fi%78ed", "fixed"),
        ("desk:///fixed?", "fixed"),
        ("desk:///other", "one x=other"),
        ("desk:///deep/a", "deep x=a"),
        ("desk:///deep/a/b", "rest rest=deep/a/b"),
        ("desk:///a%20b", "one x=a b"),
        ("desk:///a%2Fb", "rest rest=a/b"),
        ("desk:///log/a?since=2&tail=1", "log id=a since=2 tail=1"),
        ("desk:///log/a?tail=%2B+", "log id=a tail=++"),
        ("desk:///ask?q=", "ask q="),
        ("desk:///ask", "ask"),
        ("desk:///gr%C3%B6%C3%9Fe", "unicode"),
        ("desk:///größe", "unicode"),
        ("desk:///", "rest rest="),
        ("desk:///a/../b", "rest rest=a/../b"),
    ],
)
def test_a_listed_uri_goes_before_templates_and_the_longer_start_before_the_shorter(uri: str, text: str) -> None:
    assert text_of(Catalog([ROUTED]), uri) == text


def test_of_two_equal_templates_the_one_configured_first_is_taken() -> None:
    first, second = Desk(("x:///{a}", says("1")), name="one"), Desk(("x:///{b}", says("2")), name="two")

    assert text_of(Catalog([first, second]), "x:///z") == "1 a=z"


def test_of_two_equal_fixed_uris_the_one_configured_first_is_taken_and_the_clash_is_reported() -> None:
    catalog = Catalog([Desk(("x:///a", says("1")), name="one"), Desk(("X:///a", says("2")), name="two")])

    assert text_of(catalog, "x:///a") == text_of(catalog, "X:///a") == "1"
    assert [str(clash) for clash in catalog.clashes()] == ["X:///a is claimed by one and by two; one keeps it"]


EVERYWHERE = "start, length, lines, outline, budget; for example ?lines=1-50"
LOGS = Desk(("desk:///log/{id}{?tail,since}", says("log")), ("desk:///fixed", says("fixed")))


@pytest.mark.parametrize(
    ("uri", "error", "message", "parameter"),
    [
        ("desk:///nope", NotFound, "Resource not found: desk:///nope", None),
        ("desk:///log/a/b", NotFound, "Resource not found: desk:///log/a/b", None),
        ("desk:///log/", NotFound, "Resource not found: desk:///log/", None),
        ("desk:///nope?tail=1", NotFound, "Resource not found: desk:///nope?tail=1", None),
        ("desk:///log/a#b", NotFound, "Resource not found: desk:///log/a#b", None),
        ("desk:///log/a%2Fb", NotFound, "Resource not found: desk:///log/a%2Fb", None),
        (
            "desk:///log/a?foo=1",
            InvalidArguments,
            f"Invalid parameter: foo=1 (known: tail, since, {EVERYWHERE})",
            "foo",
        ),
        (
            "desk:///log/a?tail=1&foo=1",
            InvalidArguments,
            f"Invalid parameter: foo=1 (known: tail, since, {EVERYWHERE})",
            "foo",
        ),
        (
            "desk:///log/a?start=1&foo=1",
            InvalidArguments,
            f"Invalid parameter: foo=1 (known: tail, since, {EVERYWHERE})",
            "foo",
        ),
        ("desk:///fixed?foo=1", InvalidArguments, f"Invalid parameter: foo=1 (known: {EVERYWHERE})", "foo"),
        ("desk:///log/a?tail=1&tail=2", InvalidArguments, "Invalid parameter: tail=2 (given twice)", "tail"),
        ("desk:///log/a?tail=1&since=1&since=2", InvalidArguments, "Invalid parameter: since=2 (given twice)", "since"),
        ("other:///x", UnknownScheme, "Unknown scheme: other:///x", None),
        ("nothing", BadArgument, "The URI does not start with a scheme, such as workspace: or logs:", "uri"),
        (
            "desk:///log/%zz",
            BadArgument,
            "A percent sign in the URI is not followed by two hexadecimal digits",
            "uri",
        ),
        ("desk:///log/a?tail=%FF", BadArgument, "The percent escapes in the URI are not UTF-8", "uri"),
    ],
)
def test_a_uri_without_a_route_gets_the_reason(
    uri: str, error: type[RequestError], message: str, parameter: str
) -> None:
    assert refusal(Catalog([LOGS]), uri) == (error, message, parameter)


def test_a_uri_no_route_matches_goes_as_sent_to_the_owner_of_its_scheme() -> None:
    class Catching(Desk):
        def read_unmatched(self, uri: str) -> Text:
            return Text(f"caught {uri}")

    catalog = Catalog([Catching(("desk:///x", says("x")))])

    assert text_of(catalog, "DESK:///a%zz?b=%41#c") == "caught DESK:///a%zz?b=%41#c"
    assert text_of(catalog, "desk:///y?start=0&b=1&length=99") == "caught desk:///y?b=1"


def test_a_route_for_whole_uris_gets_it_as_sent() -> None:
    assert text_of(Catalog([Memory()]), "TEST:///whole/%41/..//b?") == "TEST:///whole/%41/..//b?"


# ETags and conditions


def test_every_read_has_an_etag_that_stays_until_the_bytes_change() -> None:
    shelf = Shelf("a", {"1": "one", "2": "one"})
    catalog = Catalog([shelf])
    first, again, other = (catalog.read(uri).etag for uri in ("a:///1", "a:///1", "a:///2"))
    shelf.put("1", "two")

    assert first == again == other
    assert catalog.read("a:///1").etag != first


def test_a_part_has_the_etag_of_the_whole() -> None:
    catalog = Catalog([Memory()])

    assert catalog.read("test:///plain?start=1&length=2").etag == catalog.read("test:///plain").etag


@pytest.mark.parametrize("spelling", ["{}", '"{}"', 'W/"{}"', "x, {}", '"x" , "{}"', "*"])
def test_a_condition_that_names_the_etag_gives_an_empty_unchanged_item(spelling: str) -> None:
    catalog = Catalog([Memory()])
    etag = catalog.read("test:///a-guide").etag or ""

    given = catalog.read("test:///a-guide", condition=spelling.format(etag))

    assert (given.items, given.etag, given.unchanged) == ((Text("", "text/markdown"),), "g1", True)
    assert (given.ttl_ms, given.cache_scope, given.last_modified_ms) == (0, "private", 1_784_030_400_000)


def test_a_condition_that_names_another_etag_gives_everything() -> None:
    catalog = Catalog([Memory()])

    assert catalog.read("test:///plain", condition='"other"') == catalog.read("test:///plain")


@pytest.mark.parametrize(
    ("uri", "error"),
    [("test:///note/none", NotFound), ("test:///plain?start=x", BadArgument), ("other:///x", BadArgument)],
)
def test_an_error_comes_before_a_condition(uri: str, error: type[RequestError]) -> None:
    with pytest.raises(error):
        Catalog([Memory()]).read(uri, condition="*")


def test_an_error_that_is_content_is_never_unchanged() -> None:
    given = Catalog([Memory()]).read("test:///error/content", condition="*")

    assert (given.error, given.unchanged, given.items[0]) == (
        "not_found",
        False,
        Text("No such note; try 000", "text/plain"),
    )


# Ranges


@pytest.mark.parametrize(
    "uri",
    [
        "test:///plain?start=3&length=3",
        "TEST:///plain?length=3&start=3",
        "test:///part/1?start=3&length=3",
        "test:///stored/utf-8?start=3&length=3",
        "test:///plain?st%61rt=3&length=3",
    ],
)
def test_a_range_is_asked_for_in_the_query_on_every_route(uri: str) -> None:
    assert text_of(Catalog([Memory()]), uri) == "€"


@pytest.mark.parametrize("uri", ["test:///plain", "test:///part/1", "test:///stored/utf-8"])
def test_a_range_is_asked_for_beside_the_uri_on_every_route(uri: str) -> None:
    assert text_of(Catalog([Memory()]), uri, Range(3, 3)) == "€"


def test_only_one_end_of_a_range_may_be_given() -> None:
    catalog = Catalog([Memory()])

    assert text_of(catalog, "test:///plain?start=10") == "z\n"
    assert text_of(catalog, "test:///plain?length=1") == "a"


def test_the_range_leaves_the_query_before_the_reader_sees_it() -> None:
    catalog = Catalog([Memory()])

    assert text_of(catalog, "test:///query/a?tail=5&start=0&length=99&since=1") == "a 5 1"
    assert text_of(catalog, "test:///whole/a?start=0&length=99") == "test:///whole/a"


def test_start_and_length_go_to_the_reader_whose_template_names_them() -> None:
    catalog = Catalog([Desk(("desk:///{id}{?start,length}", says("own")))])

    assert text_of(catalog, "desk:///a?length=5&start=007") == "own id=a length=5 start=007"


@pytest.mark.parametrize("uri", ["test:///plain?start=0", "test:///part/1?length=5", "test:///query/a?length=5"])
def test_a_range_both_ways_is_refused(uri: str) -> None:
    message = "Invalid parameter: start, length (given both in the query and beside the URI)"

    assert refusal(Catalog([Memory()]), uri, Range(0, 5)) == (BadArgument, message, "start")


def test_a_range_both_ways_is_refused_even_where_the_reader_takes_it() -> None:
    catalog = Catalog([Desk(("desk:///{id}{?start,length}", says("own")))])

    assert refusal(catalog, "desk:///a?start=1", Range(0, 5))[::2] == (BadArgument, "start")
    assert text_of(catalog, "desk:///a", Range(0, 5)) == "own i"


@pytest.mark.parametrize(
    ("query", "problem", "parameter"),
    [
        ("start=-1", "start=-1 (expected a whole number, 0 or more)", "start"),
        ("start=", "start= (expected a whole number, 0 or more)", "start"),
        ("start=1e3", "start=1e3 (expected a whole number, 0 or more)", "start"),
        ("length=%2B1", "length=+1 (expected a whole number, 0 or more)", "length"),
        ("start=1&start=2", "start (given twice)", "start"),
        ("length=1&st%61rt=1&length=1", "length (given twice)", "length"),
    ],
)
def test_a_range_that_is_invalid_is_refused(query: str, problem: str, parameter: str) -> None:
    refused = refusal(Catalog([Memory()]), f"test:///plain?{query}")

    assert refused == (BadArgument, f"Invalid parameter: {problem}", parameter)


@pytest.mark.parametrize("uri", ["test:///error/content?start=9&length=2", "test:///error/content?start=99"])
def test_an_error_that_is_content_is_reported_whole_whatever_the_range(uri: str) -> None:
    catalog = Catalog([Memory()])
    reading = catalog.read(uri)
    with_range = catalog.read("test:///error/content", Range(9, 2))
    opened = catalog.open(catalog.find(uri))

    assert [item.text for item in (*reading.items, *with_range.items) if isinstance(item, Text)] == [
        "No such note; try 000"
    ] * 2
    [stored] = opened.items
    assert isinstance(stored, Stored)
    assert stored.source.read(0, 99) == b"No such note; try 000"
    close_sources(opened.items)


def test_a_range_of_a_folder_is_refused() -> None:
    refused = refusal(Catalog([Memory()]), "test:///tree/?start=0")

    assert refused == (BadArgument, "Invalid parameter: start, length (not for a folder or several items)", "start")


def test_a_source_is_closed_once_however_the_read_ends() -> None:
    sources: list[Kept] = []

    def read(size: str) -> Stored:
        sources.append(Kept(b"x" * int(size)))
        return Stored(sources[-1], "utf-8")

    catalog = Catalog([Desk(("desk:///{size}", read))], max_bytes=100)
    catalog.read("desk:///5")
    catalog.read("desk:///500?start=1&length=5")
    catalog.read("desk:///5", condition="*")
    with pytest.raises(TooLarge):
        catalog.read("desk:///500")

    assert [source.closed for source in sources] == [1, 1, 1, 1]


@pytest.mark.parametrize("query", ["?start=x", "?start=1&start=2", "?start=1"])
def test_a_source_is_closed_where_it_is_opened_with_a_range_that_is_none(query: str) -> None:
    sources: list[Kept] = []

    def read() -> Reading:
        sources.append(Kept(b"abc"))
        return Reading((Stored(sources[-1], "utf-8"),), range=Range(0, 1))

    catalog = Catalog([Desk(("desk:///x", read))])
    with pytest.raises(BadArgument):
        catalog.open(catalog.find(f"desk:///x{query}"))

    assert [source.closed for source in sources] in ([], [1])


def test_a_source_that_keeps_moving_says_so_and_every_try_is_closed() -> None:
    sources: list[Kept] = []

    def read() -> Stored:
        sources.append(Kept(b"abc", is_moving=True))
        return Stored(sources[-1], "utf-8")

    given = Catalog([Desk(("desk:///x", read))]).read("desk:///x")

    assert (given.items[0].meta or {})["dev.carrel/changing"] is True
    assert [source.closed for source in sources] == [1, 1, 1]


# Sizes


@pytest.mark.parametrize("uri", ["test:///big/5000", "test:///big/5000?start=7"])
def test_what_is_too_large_suggests_a_uri_that_then_fits(uri: str) -> None:
    catalog = Catalog([Memory()], max_bytes=4_000)
    with pytest.raises(TooLarge) as caught:
        catalog.read(uri)

    assert caught.value.suggested is not None
    assert text_of(catalog, caught.value.suggested) == "x" * 250
    assert caught.value.suggested.startswith("test:///big/5000?start=" + ("7" if "7" in uri else "0"))


def test_a_part_of_what_is_too_large_is_given() -> None:
    assert text_of(Catalog([Memory()], max_bytes=4_000), "test:///big/5000?start=4990&length=99") == "x" * 10


# MIME types, fingerprints, completion, tools


def test_a_reading_without_a_mime_type_has_its_routes() -> None:
    catalog = Catalog([Desk(("desk:///{x}", says("x")), mime_type="text/x-desk")])

    given = catalog.read("desk:///a")

    assert given.items[0].mime_type or given.mime_type == "text/x-desk"


@pytest.mark.parametrize("query", ["", "?start=0", "?length=2"])
def test_a_stored_reading_without_a_mime_type_has_its_routes_too(query: str) -> None:
    def read() -> Reading:
        return Reading((Stored(Kept(b"abc"), "utf-8"),), etag="e")

    given = Catalog([Desk(("desk:///x", read), mime_type="text/csv")]).read(f"desk:///x{query}")

    assert given.mime_type == "text/csv"


@pytest.mark.parametrize("uri", ["a:///1", "a:///1?start=0&length=1", "A:///1", "a:///1?length=1"])
def test_a_range_or_another_spelling_has_the_fingerprint_of_the_whole(uri: str) -> None:
    shelf = Shelf("a", {"1": "one"})
    catalog = Catalog([shelf])
    before = catalog.fingerprint(uri)
    shelf.put("1", "onE")

    assert before == Catalog([Shelf("a", {"1": "one"})]).read("a:///1").etag
    assert catalog.fingerprint(uri) != before


def test_a_folder_a_blob_and_a_named_range_have_fingerprints_too() -> None:
    class Unwatched(Desk):
        pass

    folder = Reading((Text("", uri="desk:///a/1"), Text("", uri="desk:///a/2")))
    ranged = Reading((Text("abc"),), etag="e", range=Range(1, 1))
    catalog = Catalog(
        [
            Unwatched(
                ("desk:///a", lambda: folder),
                ("desk:///b", lambda: Blob(b"x")),
                ("desk:///c{?start}", lambda **_: ranged),
            )
        ]
    )

    assert catalog.fingerprint("desk:///a") == catalog.read("desk:///a").etag
    assert catalog.fingerprint("desk:///b") == catalog.read("desk:///b").etag
    assert catalog.fingerprint("desk:///c?start=1") == "e"


def test_what_cannot_be_read_has_no_fingerprint() -> None:
    with pytest.raises(NotFound):
        Catalog([Shelf("a")]).fingerprint("a:///none")


@pytest.mark.parametrize(
    ("reference", "variable", "value", "completion"),
    [
        ("test:///note/{id}", "id", "29", Completion(tuple(f"29{n}" for n in range(10)), 10, False)),
        ("test:///note/{id}", "id", "x", Completion((), 0, False)),
        ("test:///note/{id}", "id", "", Completion(tuple(f"{n:03}" for n in range(100)), NOTES, True)),
        ("test:///note/007", "id", "29", Completion(tuple(f"29{n}" for n in range(10)), 10, False)),
        ("test:///query/{id}{?tail,since}", "since", "5", Completion(("since=5", "id"), 7, True)),
    ],
)
def test_a_completion_is_honest_about_what_it_leaves_out(
    reference: str, variable: str, value: str, completion: Completion
) -> None:
    assert Catalog([Memory()]).complete(reference, variable, value, {"id": "a"}) == completion


def test_a_reference_may_be_a_uri_of_a_template_with_only_a_query() -> None:
    catalog = Catalog([Desk(("desk:///ask{?q}", says("ask")))])

    assert catalog.complete("desk:///ask", "q", "", {}) == Completion((), 0, False)


@pytest.mark.parametrize("reference", ["", "x", "test:///nope/{id}", "other:///x", "test:///plain"])
def test_an_unknown_reference_is_refused(reference: str) -> None:
    with pytest.raises(BadArgument) as caught:
        Catalog([Memory()]).complete(reference, "id", "", {})

    example = "(resources/templates/list has the known ones; for example test:///note/{id})"
    assert caught.value.message == f"Unknown reference: {reference} {example}"


def test_an_unknown_variable_of_a_template_names_the_known_ones_with_an_example() -> None:
    with pytest.raises(BadArgument) as caught:
        Catalog([Memory()]).complete("test:///query/{id}{?tail,since}", "until", "", {})

    known = 'known: id, tail, since; for example {"name": "id", "value": ""}'
    assert (caught.value.message, caught.value.data) == (
        f"Unknown argument: until ({known})",
        {"parameter": "argument"},
    )


def test_instructions_are_joined() -> None:
    class Silent(Shelf):
        def instructions(self) -> str:
            return ""

    assert Catalog([Memory(), Silent("s"), Shelf("t")]).instructions() == "Read test:///a-guide first."


def test_instructions_are_those_of_what_may_be_read() -> None:
    catalog = Catalog([Memory()])
    with ActingAs(Access("restricted", frozenset(["shelf:read", "test:tools"]))):
        assert catalog.instructions() == ""
    with ActingAs(Access("restricted", frozenset(["test:read"]))):
        assert catalog.instructions() == "Read test:///a-guide first."


def test_what_a_part_shows_is_bytes_of_the_same_text() -> None:
    catalog = Catalog([Memory()])

    parts = [text_of(catalog, f"test:///plain?start={start}&length=2") for start in range(0, 12, 2)]

    assert parts == ["aé", "€", "", "😀", "", "z\n"]
    assert "".join(parts) == SAMPLE


@pytest.mark.parametrize("uri", ["DESK:///" + "a" * 9_000, "desk:///a\0", "desk:///a\nb"])
def test_a_provider_may_refuse_what_is_no_uri_in_its_own_words(uri: str) -> None:
    class Wordy(Desk):
        def refusal(self, uri: str, error: RequestError) -> BadArgument:
            return BadArgument(f"Not so: {len(uri)}", data={"parameter": "own"})

    assert refusal(Catalog([Wordy()]), uri) == (BadArgument, f"Not so: {len(uri)}", "own")
    assert refusal(Catalog([Desk()]), uri)[2] == "uri"


def test_a_reference_may_be_the_beginning_of_a_template_that_says_more_than_its_scheme() -> None:
    class Offering(Desk):
        def complete(self, template: str, variable: str, value: str, context: object) -> Sequence[str]:
            return [template]

    catalog = Catalog([Offering(("desk://drawer/{id}{?a}", says("d")), ("desk:///{+path}", says("p")))])

    for reference in ("desk://drawer/", "desk://drawer/{id}{?a,b}", "desk://drawer/x/y"):
        assert catalog.complete(reference, "id", "", {}).values == ("desk://drawer/{id}{?a}",)
    with pytest.raises(BadArgument, match="Unknown reference"):
        catalog.complete("desk://", "path", "", {})
