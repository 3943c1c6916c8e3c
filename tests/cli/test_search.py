"""`carrel search`: what a person sees, what a pipe gets, and how it exits."""

import fcntl
import json
import re
from pathlib import Path

import pytest

from tests.support.command_line import Ran, Run
from tests.support.waiting import until


@pytest.fixture(name="project", autouse=True)
def project_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "library"
    (folder / "tests").mkdir(parents=True)
    (folder / "loan.py").write_text("def lend_book(reader):\n    return reader\n", encoding="utf-8")
    (folder / "tests" / "test_loan.py").write_text("def test_lend_book():\n    lend_book(1)\n", encoding="utf-8")
    (folder / "notes.md").write_text("# Loans\n\nWhen to lend a book.\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CARREL_SEARCH_ANSWER_S", "60")  # a busy machine may not stop a search half way
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


def uris(ran: Ran) -> list[str]:
    return [hit["uri"].partition("?")[0] for hit in json.loads(ran.out)["hits"]]


def test_words_need_no_quotes(run: Run) -> None:
    assert "workspace:///loan.py" in uris(run("search", "--json", "lend", "book"))
    assert run("search", "lend", "book").out == run("search", "lend book").out


def test_a_pipe_gets_what_a_model_gets(run: Run) -> None:
    assert run("search", "lend book").out == run("cat", "carrel://search?q=lend%20book").out + "\n"


def test_a_filter_that_begins_with_a_dash_is_part_of_the_query(run: Run) -> None:
    found = uris(run("search", "--json", "lend_book", "-path:tests"))

    assert "workspace:///loan.py" in found
    assert "workspace:///tests/test_loan.py" not in found


def test_help_is_shown_for_its_short_name_too(run: Run) -> None:
    assert run("search", "-h") == run("search", "--help")
    assert run("search", "-h").out.startswith("Usage: carrel search ")


def test_explain_says_why(run: Run) -> None:
    assert "  why: " in run("search", "--explain", "lend_book").out
    assert json.loads(run("search", "--json", "--explain", "lend_book").out)["hits"][0]["reasons"]


def test_the_index_can_be_completed_first(run: Run) -> None:
    assert re.match(r"Indexed \d of 3 documents in ", run("search", "--index").out)
    facts = json.loads(run("search", "--index", "--json").out)
    assert facts["seconds"] >= 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "carrel: "),
        (("",), 2, "carrel: "),
        (("--in", "workspce", "x"), 2, "did you mean workspace"),
        (("--limit", "0", "x"), 2, "limit=0 (expected an integer from 1 to 100)"),
        (("--after", "zzz", "x"), 2, "the value that the previous page returned"),
        (("--limt", "3", "x"), 2, "No such option '--limt'"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(run: Run, words: tuple[str, ...], code: int, said: str) -> None:
    ran = run("search", *words)

    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_search_that_is_turned_off_says_how_to_turn_it_on(run: Run, project: Path) -> None:
    (project / "carrel.toml").write_text("[search]\nenabled = false\n", encoding="utf-8")

    ran = run("search", "book")

    assert ran.code == 2
    assert "carrel config unset search.enabled" in ran.err


def test_one_process_at_a_time_completes_the_index_behind_the_answers(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(shelf: str) -> None:
        for number in range(70):  # more than are indexed at once
            (project / f"{shelf}_{number}.txt").write_text("full\n", encoding="utf-8")

    fill("shelf")
    started = list[str]()
    monkeypatch.setattr("carrel.cli.search._complete_behind", lambda desk: started.append(desk.config.root))
    run("search", "nothing")
    [lock] = (project.parent / "home" / ".cache" / "carrel" / "search").glob("*/builder.lock")

    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fill("board")
        run("search", "nothing")

    assert started == [str(project)]


@pytest.mark.slow
def test_what_could_not_be_searched_in_time_is_indexed_behind_the_answer(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):  # more text than a search keeps in memory: no machine searches all of it at once
        (project / f"shelf_{number}.txt").write_text(f"book number {number}\n" * 40_000, encoding="utf-8")
    monkeypatch.setenv("CARREL_SEARCH_ANSWER_S", "0.05")

    first = json.loads(run("search", "--json", "number_7").out)

    assert first["partial"]["searched"] < first["partial"]["documents"]
    until(lambda: "partial" not in json.loads(run("search", "--json", "book").out), 120)
