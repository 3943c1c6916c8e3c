"""Routes that declare more than a template: their query, their fingerprint, their spelling and their words."""

from collections.abc import Sequence
from typing import Annotated

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.arguments import Argument, Arguments
from carrel.core.errors import BadArgument, CarrelError, NotFound, RequestError
from carrel.core.model import FOLDER_TYPE, Range, Text
from carrel.core.provider import Provider, Route
from carrel.core.record import Value

KNOWN = "known: days, unit, start, length, lines, outline, budget; for example ?days=7"


class BedQuery(Value, frozen=True):
    """Which days are asked for."""

    days: Annotated[int, Argument(ge=1, le=31, examples=[7])] = 1
    unit: str | None = None


class Beds(Provider):
    """One bed, and a folder of them that is not listed as a template."""

    name = "beds"
    schemes = ("beds",)

    def routes(self) -> Sequence[Route]:
        query = Arguments(BedQuery)
        return (
            Route("beds://bed/{bed}{?days,unit}", self.read_bed, "bed", query=query, fingerprint=self.token),
            Route("beds://bed/{+bed}", self.read_odd, query=query, takes_uri=True, listed=False),
            Route("beds://all", self.read_all, query=query, takes_uri=True),
        )

    def read_bed(self, bed: str, query: BedQuery) -> Text:
        return Text(f"{bed} {query.days} {query.unit}")

    def read_odd(self, bed: str, query: BedQuery, uri: str) -> Text:
        raise BadArgument(f"No bed has a slash: {bed}", uri=uri)

    def read_all(self, query: BedQuery, uri: str) -> Text:
        return Text(f"{uri} {query.days}")

    def token(self, bed: str, query: BedQuery) -> str | None:
        return f"{bed} {query.days}" if bed == "north" else None

    def canonical(self, uri: str) -> str:
        if "#" in uri:
            raise BadArgument("No bed has a #", uri=uri)
        return uri.replace("beds:bed/", "beds://bed/")


def text_of(uri: str, wanted: Range | None = None, provider: Provider | None = None) -> str:
    [item] = Catalog([provider or Beds()]).read(uri, wanted).items
    assert isinstance(item, Text)
    return item.text


def refusal(uri: str, provider: Provider | None = None) -> CarrelError:
    with pytest.raises(CarrelError) as caught:
        Catalog([provider or Beds()]).read(uri)
    return caught.value


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("beds://bed/north", "north 1 None"),
        ("beds://bed/north?", "north 1 None"),
        ("beds://bed/north?days=7", "north 7 None"),
        ("beds://bed/n%20o?unit=%25&days=%37", "n o 7 %"),
        ("beds:bed/north?days=2", "north 2 None"),
        ("beds://all", "beds://all 1"),
        ("beds://all?days=3", "beds://all?days=3 3"),
        ("BEDS://all?days=3", "BEDS://all?days=3 3"),
    ],
)
def test_a_reader_gets_its_query_checked_and_the_uri_as_sent(uri: str, text: str) -> None:
    assert text_of(uri) == text


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("beds://bed/north?days=0", "Invalid parameter: days=0 (expected an integer from 1 to 31)"),
        ("beds://bed/north?days=x", "Invalid parameter: days=x (expected an integer from 1 to 31)"),
        ("beds://bed/north?day=1", f"Invalid parameter: day=1 ({KNOWN})"),
        ("beds://bed/north?days=1&days=2", "Invalid parameter: days=2 (given twice)"),
        ("beds://all?day=1", f"Invalid parameter: day=1 ({KNOWN})"),
        ("beds://bed/a/b", "No bed has a slash: a/b"),
        ("beds://bed/a%2Fb", "No bed has a slash: a/b"),
        ("beds://bed/north#x", "No bed has a #"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_uri(uri: str, message: str) -> None:
    error = refusal(uri)

    assert (error.message, error.uri) == (message, uri)


def test_a_range_that_a_query_does_not_declare_is_applied_by_carrel() -> None:
    assert text_of("beds://bed/north?days=7&start=0&length=5") == "north"
    assert text_of("beds://all?start=0&length=4&days=2") == "beds"
    assert text_of("beds://all?days=2", Range(0, 4)) == "beds"


def test_a_fingerprint_is_asked_for_like_a_read() -> None:
    catalog = Catalog([Beds()])

    assert catalog.fingerprint("beds://bed/north?days=7") == "north 7"
    assert catalog.fingerprint("beds://bed/east") is None
    assert catalog.fingerprint("beds://all") == catalog.read("beds://all").etag


def test_a_template_that_is_not_listed_is_matched_only() -> None:
    catalog = Catalog([Beds()])

    assert [template.uri_template for template in catalog.templates()[0]] == ["beds://bed/{bed}{?days,unit}"]
    assert text_of("beds://bed/north") == "north 1 None"
    assert refusal("beds://bed/a/b").message == "No bed has a slash: a/b"


class Wordy(Beds):
    """Has its own words for everything that does not fit."""

    def refusal(self, uri: str, error: RequestError) -> CarrelError:
        return NotFound(uri, f"{type(error).__name__} of {uri}")


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("beds://bed/north?days=0", "InvalidArguments"),
        ("beds://bed/%zz", "BadArgument"),
        ("beds://nothing", "NotFound"),
        ("beds://a\x01", "BadArgument"),
        ("other://x", "UnknownScheme"),
    ],
)
def test_a_provider_words_the_errors_for_uris_that_do_not_fit(uri: str, kind: str) -> None:
    assert refusal(uri, Wordy()).message == f"{kind} of {uri}"


def test_what_a_provider_raises_itself_is_not_worded_again() -> None:
    assert refusal("beds://bed/a/b", Wordy()).message == "No bed has a slash: a/b"
    assert refusal("beds://bed/north#x", Wordy()).message == "No bed has a #"


@pytest.mark.parametrize(
    ("uri", "known"),
    [
        ("search://hits?x=1", "known: q, start, length, lines, outline, budget; for example ?q=words"),
        ("search://all?x=1", "known: after, outline, budget; for example ?budget=2000"),
        ("search://one?x=1", "known: start, length, lines, outline, budget; for example ?lines=1-50"),
    ],
)
def test_an_unknown_parameter_names_what_the_route_and_carrel_know_with_an_example(uri: str, known: str) -> None:
    class FolderQuery(Value, frozen=True):
        after: str = ""

    class Hits(Provider):
        name = "search"
        schemes = ("search",)

        def routes(self) -> Sequence[Route]:
            return (
                Route("search://hits{?q}", Text, example="q=words"),
                Route("search://all", Text, mime_type=FOLDER_TYPE, query=Arguments(FolderQuery)),
                Route("search://one", lambda: Text("one")),
            )

    assert refusal(uri, Hits()).message == f"Invalid parameter: x=1 ({known})"
