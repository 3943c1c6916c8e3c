"""What a commit says about itself, whatever its bytes are."""

import pytest

from carrel.git.commit_text import CommitDetails, Person, commit_head, details_of, log_lines, one_line, short
from carrel.git.history import Commit, History, decode_message, seconds_of

ID = b"1f" * 20
TREE = b"2e" * 20
PARENT = b"3d" * 20


class OneCommit(History):
    """A history that has the bytes of one commit."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def raw(self, name: bytes) -> bytes:
        del name
        return self._data


def details(data: bytes, subject: str = "Subject") -> CommitDetails:
    return details_of(OneCommit(data), Commit(ID, TREE, (PARENT,), 5, subject))


HEAD = b"tree %s\nparent %s\n" % (TREE, PARENT)


def test_a_commit_names_its_people_and_times() -> None:
    data = (
        HEAD + b"author Ada <ada@x.org> 1700000000 +0530\ncommitter Bo <bo@x.org> 1700000060 -0200\n\nSubject\n\nBody\n"
    )

    found = details(data)

    assert found.author == Person("Ada", "ada@x.org", 1_700_000_000)
    assert found.committer == Person("Bo", "bo@x.org", 1_700_000_060)
    assert found.message == "Subject\n\nBody\n"
    assert found.to_json() == {
        "id": ID.decode(),
        "parents": [PARENT.decode()],
        "author": {"name": "Ada", "email": "ada@x.org", "time": "2023-11-14T22:13:20Z"},
        "committer": {"name": "Bo", "email": "bo@x.org", "time": "2023-11-14T22:14:20Z"},
        "subject": "Subject",
        "body": "Body",
    }


def test_a_commit_by_its_author_is_shown_without_a_committer() -> None:
    who = b"Ada <ada@x.org> 1700000000 +0000\n"

    assert commit_head(details(HEAD + b"author " + who + b"committer " + who + b"\nSubject\n\n  indented\n")) == (
        f"commit {ID.decode()}\nparents {PARENT.decode()}\nauthor Ada <ada@x.org> 2023-11-14T22:13:20Z\n\n"
        "    Subject\n\n      indented\n"
    )


def test_a_line_of_a_log_is_one_line_whatever_a_name_holds() -> None:
    data = HEAD + b"author A\x1b[2J\rB\xff <a@b> 1 +0000\n\nx"

    line = log_lines([details(data, "sub\x1b]0;x\x07ject\u2028more")])

    assert line == f"{short(ID)} 1970-01-01T00:00Z A [2J B\N{REPLACEMENT CHARACTER}: sub ]0;x ject more\n"
    assert line.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        (b"Ada <a@b> 1700000000 +0000", 1_700_000_000),
        (b"Ada <a@b> -1 +0000", -1),
        (b"Ada <a@b>", 0),
        (b"Ada <a@b> tomorrow +0000", 0),
        (b"Ada <a@b> 99999999999999999999 +0000", 0),
        (b"", 0),
    ],
)
def test_a_time_that_makes_no_sense_is_0(line: bytes, seconds: int) -> None:
    assert seconds_of(line) == seconds


@pytest.mark.parametrize(
    ("lines", "message", "text"),
    [
        ([b"encoding ISO-8859-1"], b"caf\xe9", "café"),
        ([b"encoding nothing"], "café".encode(), "café"),
        ([b"encoding \xff"], b"x", "x"),
        ([b"encoding hex"], b"zz", "zz"),
        ([b"encoding unicode_escape"], rb"\ud800", r"\ud800"),
        ([b"encoding raw_unicode_escape"], rb"\ud800", r"\ud800"),
        ([b"encoding utf7"], b"+2AA-", "+2AA-"),
        ([b"encoding punycode"], b"a-aaab" * 100_000, "a-aaab" * 100_000),
        ([b"encoding " + b"x" * 1_000_000], b"x", "x"),
        ([], b"\xff", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_a_message_is_read_in_its_encoding_or_as_utf_8(lines: list[bytes], message: bytes, text: str) -> None:
    assert decode_message(message, lines) == text


def test_a_commit_without_people_is_still_shown() -> None:
    assert commit_head(details(HEAD + b"\n")).startswith(f"commit {ID.decode()}\n")
    assert one_line("a\nb\tc") == "a b c"
