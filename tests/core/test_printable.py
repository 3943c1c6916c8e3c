"""Text that somebody else wrote, on its way to a person."""

import ast
import json
import logging
import sys
from pathlib import Path

import pytest

import carrel.cli
from carrel.cli import output, stderr
from carrel.core.printable import printable, printable_line

HOSTILE = "a\x1b]0;owned\x07\x9b2J\x7f\u202eb\u2066\u200f\u2028\udcff\U000e0041"


def test_what_a_terminal_obeys_is_spelled_and_not_sent() -> None:
    assert printable(HOSTILE) == (r"a\x1b]0;owned\x07\x9b2J\x7f\u202eb\u2066\u200f\u2028\udcff" + "\\U000e0041")


def test_what_people_write_stays_as_it_is() -> None:
    text = "Ünïcode\u00a0と\u3000日本語\n\t👩\u200d💻 עברית"
    assert printable(text) == text


def test_a_line_stays_a_line() -> None:
    assert printable_line("a\nb\tc\r") == r"a\nb\tc\x0d"


def test_json_spells_control_characters_as_json_does(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({"é": "é", "x": HOSTILE})
    printed = capsys.readouterr().out
    assert printable(printed) == printed
    assert json.loads(printed) == {"é": "é", "x": HOSTILE}


def test_marked_lines_and_tables_send_nothing_of_a_stranger(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_lines(f"[bold]x[/] {output.escape(HOSTILE)}", f"not escaped: {HOSTILE}")
    output.print_table(("one", "two"), [(HOSTILE, "two\nlines")], plain_columns=2)
    printed = capsys.readouterr().out
    assert printable(printed) == printed
    assert printed.count("\n") == 3


def test_messages_and_tracebacks_send_nothing_of_a_stranger(capsys: pytest.CaptureFixture[str]) -> None:
    stderr.say(HOSTILE)
    stderr.say_traceback(ValueError(HOSTILE))
    printed = capsys.readouterr().err
    assert printable(printed) == printed
    assert printed.count("owned") == 2


def test_log_lines_of_a_command_send_nothing_of_a_stranger(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = logging.LogRecord("carrel", logging.WARNING, "", 0, "read %s\nand on", (HOSTILE,), None)
    monkeypatch.setattr(logging, "lastResort", None)
    stderr.log_failures()
    assert logging.lastResort is not None
    logging.lastResort.handle(record)
    assert (capsys.readouterr().err, logging.lastResort.level) == (
        f"read {printable(HOSTILE)}\nand on\n",
        logging.WARNING,
    )


def test_a_server_sends_nothing_of_a_stranger_whoever_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stderr
    with stderr.printable_stderr():
        sys.stderr.write(f"{HOSTILE}\n")
        logging.StreamHandler().handle(logging.LogRecord("x", logging.ERROR, "", 0, "%s", (HOSTILE,), None))
        sys.stderr.write("no line end\x1b")
    sys.stderr.write("ordinary again \x1b\n")
    assert sys.stderr is before
    spelled = printable(HOSTILE)
    assert capsys.readouterr().err == f"{spelled}\n{spelled}\nno line end\\x1bordinary again \x1b\n"


def test_only_two_modules_of_the_command_line_print() -> None:
    """Everything else goes through them, and so nothing of a stranger's is sent unseen."""
    folder = Path(carrel.cli.__file__).parent
    printing = {
        f"{file.stem}: {ast.unparse(node)}"
        for file in folder.glob("*.py")
        if file.stem not in ("output", "stderr")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "sys.stdout.write", "sys.stderr.write")
    }
    assert printing == set()
