"""Reading the text of resources for search: whole, in part, and not at all."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.errors import Denied, NotFound
from carrel.core.model import Blob, Reading, Text
from carrel.core.provider import Project, Provider, Route
from carrel.providers.workspace import Workspace
from carrel.search.texts import PART_BYTES, WHOLE_BYTES, FreshText, read_text


class Made(Provider):
    """A provider with one resource for each kind of content."""

    name = "made"
    schemes = ("made",)

    def routes(self) -> Sequence[Route]:
        """Return a route for each kind."""
        return (
            Route("made://text", lambda: Text("one\ntwo\n"), mime_type="text/plain"),
            Route("made://blob", lambda: Blob(b"\0\1")),
            Route("made://two", lambda: Reading((Text("left"), Blob(b"\0"), Text("right")))),
            Route("made://large", lambda: Text("".join(f"line {number}\n" for number in range(1, 200_001)))),
            Route("made://error", lambda: Reading((Text("it is missing"),), error="not_found")),
        )


@pytest.fixture(name="made")
def catalogue_of_made() -> Catalog:
    return Catalog((Made(),))


@pytest.fixture(name="files")
def catalogue_of_files(tmp_path: Path) -> Catalog:
    return Catalog((Workspace(Project(str(tmp_path), {"HOME": str(tmp_path)})),))


def text_of(catalog: Catalog, uri: str, *, counts_lines: bool = False) -> FreshText:
    """Return the text of a URI that has one."""
    fresh = read_text(catalog, uri, counts_lines=counts_lines)
    assert fresh is not None
    return fresh


def line_in_resource(fresh: FreshText, number: int) -> int:
    """Return which line of the resource is a line of the text."""
    return number + (fresh.left_out or 0) * (fresh.is_partial and number >= fresh.tail_line)


def test_a_text_comes_with_its_type_and_etag(made: Catalog) -> None:
    fresh = text_of(made, "made://text")

    assert (fresh.text, fresh.mime_type, fresh.is_partial) == ("one\ntwo\n", "text/plain", False)
    assert fresh.etag == made.fingerprint("made://text")


def test_a_blob_has_no_text(made: Catalog) -> None:
    assert read_text(made, "made://blob") is None


def test_several_items_are_one_text(made: Catalog) -> None:
    assert text_of(made, "made://two").text == "left\nright"


def test_an_error_that_is_answered_as_content_is_no_text(made: Catalog) -> None:
    assert read_text(made, "made://error") is None


def test_a_large_text_is_read_by_its_first_and_last_part(made: Catalog) -> None:
    fresh = text_of(made, "made://large", counts_lines=True)
    lines = fresh.text.splitlines()

    assert fresh.is_partial
    assert len(fresh.text) <= 2 * PART_BYTES
    assert (lines[0], lines[-1]) == ("line 1", "line 200000")
    assert lines[fresh.tail_line - 1] == f"line {line_in_resource(fresh, fresh.tail_line)}"


def test_a_missing_resource_raises_as_a_read_does(made: Catalog) -> None:
    with pytest.raises(NotFound):
        read_text(made, "made://nothing")


def test_a_refused_file_raises_as_a_read_does(files: Catalog, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=1")

    with pytest.raises(Denied):
        read_text(files, "workspace:///.env")


def test_a_file_has_the_etag_that_its_fingerprint_is(files: Catalog, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("words")

    fresh = text_of(files, "workspace:///a.txt")

    assert (fresh.text, fresh.size, fresh.has_lines) == ("words", 5, True)
    assert fresh.etag.startswith(str(files.fingerprint("workspace:///a.txt")))


def test_a_folder_has_no_text(files: Catalog, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()

    assert read_text(files, "workspace:///inner") is None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_every_encoding_of_files_is_text(files: Catalog, tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.txt").write_bytes("grüße\nzwei\n".encode(encoding))

    assert text_of(files, "workspace:///a.txt").text == "grüße\nzwei\n"


def test_bytes_that_are_no_text_at_the_end_of_a_file_do_not_hide_the_rest(files: Catalog, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"beginning\n" * 2_000 + b"\xff\xfe\n")

    assert text_of(files, "workspace:///a.txt").text.startswith("beginning\n")


@pytest.mark.parametrize("ending", ["", "\n"])
def test_the_lines_of_the_last_part_of_a_file_have_their_numbers(files: Catalog, tmp_path: Path, ending: str) -> None:
    lines = [f"line {number}" for number in range(1, 150_001)]
    (tmp_path / "large.txt").write_text("\n".join(lines) + ending)

    fresh = text_of(files, "workspace:///large.txt", counts_lines=True)

    assert fresh.size > WHOLE_BYTES
    shown = fresh.text.splitlines()
    for number in (1, fresh.tail_line - 1, fresh.tail_line, len(shown)):
        assert shown[number - 1] == f"line {line_in_resource(fresh, number)}"


def test_a_line_that_is_cut_between_the_parts_is_left_out(files: Catalog, tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_text("first\n" + "x" * (WHOLE_BYTES * 2) + "\nlast\n")

    fresh = text_of(files, "workspace:///large.txt", counts_lines=True)

    assert fresh.text == "first\nlast\n"
    assert line_in_resource(fresh, 2) == 3


def test_the_lines_that_are_left_out_are_counted_only_if_asked(files: Catalog, tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_text("line\n" * 400_000)

    assert text_of(files, "workspace:///large.txt").left_out is None
    assert text_of(files, "workspace:///large.txt", counts_lines=True).left_out


def test_a_file_of_one_long_line_has_a_beginning_and_an_end(files: Catalog, tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_text("begin" + "x" * (WHOLE_BYTES * 2) + "end")

    fresh = text_of(files, "workspace:///large.txt")

    assert fresh.text.startswith("begin")
    assert fresh.text.endswith("end")
