"""A text becomes rows: pieces of lines with their terms."""

from carrel.search.chunks import MAX_LINES, MAX_PIECES, Splitter, definition_terms, place_terms


def test_a_piece_has_its_words_its_definitions_and_the_place() -> None:
    pieces = Splitter().split("class HttpRouter:\n    pass\n", "src/routing.py", "", "python")

    assert len(pieces.terms) == 1
    assert pieces.has_definitions
    assert {"httprouter", "http", "rout", "pas", "§httprouter", "‡httprouter", "°http", "°rout", "¶src"} <= {
        *pieces.terms[0].replace("pass", "pas").split()
    }


def test_the_lines_of_a_text_are_shared_out_evenly() -> None:
    text = "\n".join(f"line{number} " + "word " * 20 for number in range(200))
    pieces = Splitter().split(text, "a.txt", "", "text")

    assert len(pieces.terms) == -(-200 // pieces.lines_each)
    for number in (0, 57, 199):
        assert f"line{number}" in pieces.terms[number // pieces.lines_each].split()


def test_short_lines_make_no_endless_piece_and_many_lines_no_endless_number() -> None:
    few = Splitter().split("a\n" * 1_000, "a", "", "")
    many = Splitter().split("a\n" * 500_000, "a", "", "")

    assert few.lines_each == MAX_LINES
    assert len(many.terms) <= MAX_PIECES


def test_an_empty_text_is_found_by_its_place() -> None:
    assert Splitter().split("", "notes/empty.md", "A title", "markdown").terms == [" ¶a ¶empti ¶md ¶not ¶titl"]


def test_a_definition_in_a_namespace_is_found_by_its_last_name_too() -> None:
    assert {"§phoenixrouter", "§router", "‡router", "°phoenix"} <= set(definition_terms("Phoenix.Router", True))


def test_a_heading_is_found_only_as_a_whole() -> None:
    terms = definition_terms("Retry with backoff", False)

    assert "§retrywithbackoff" in terms
    assert "§backoff" not in terms


def test_a_definition_belongs_to_the_piece_it_stands_in() -> None:
    text = "x = 1\n" * 300 + "def last_one(): ...\n"
    pieces = Splitter().split(text, "a.py", "", "python")

    assert [number for number, terms in enumerate(pieces.terms) if "§lastone" in terms] == [300 // pieces.lines_each]


def test_the_words_of_a_place_are_stems() -> None:
    assert place_terms("src/parsers/x.py", "Parsing") == ["¶pars", "¶py", "¶src", "¶x"]
