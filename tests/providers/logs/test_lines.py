"""Bytes to lines, lines to a ring: exact bounds, whatever a program writes."""

import os
import tracemalloc
from os.path import commonprefix
from time import thread_time

import pytest

from carrel.providers.logs.lines import Assembler
from carrel.providers.logs.redaction import MAX_KEY_LINES, Redactor
from carrel.providers.logs.ring import LogLine, Ring
from tests.support.waiting import patience_s

MAX_BYTES = 102_400


def texts(data: bytes, step: int | None = None, max_bytes: int = MAX_BYTES) -> list[str]:
    """Return the lines of some bytes, fed whole or in steps, the unfinished one too."""
    assembler = Assembler(max_bytes)
    width = step or len(data) or 1
    lines = [line for at in range(0, len(data), width) for line in assembler.feed(data[at : at + width])]
    return [line.text for line in (*lines, *assembler.flush(is_end=True))]


LINES = {
    "lines": (b"one\ntwo\n", ["one", "two"]),
    "an empty line": (b"one\n\ntwo\n", ["one", "", "two"]),
    "CRLF": (b"one\r\ntwo\r\n", ["one", "two"]),
    "a progress bar": (b"10%\r20%\r100%\n", ["100%"]),
    "a progress bar with CRLF": (b"10%\r100%\r\nok\r\n", ["100%", "ok"]),
    "returns before the end": (b"abc\r\r\n", ["abc"]),
    "a return at the very end": (b"abc\r", ["abc"]),
    "the last line without its end": (b"one\ntwo", ["one", "two"]),
    "colours": (b"\x1b[31;1mred\x1b[0m plain\n", ["red plain"]),
    "a window title": (b"\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", ["textlink"]),
    "a title that never ends": (b"\x1b]0;title\nnext\n", ["", "next"]),
    "other escapes": (b"\x1b(Ba\x1b7b\x1b=c\n", ["abc"]),
    "eight-bit sequences": ("\x9b31mred\x9b0m \x9d0;t\x9cx\n".encode(), ["red x"]),
    "control characters": (b"a\x00b\x07c\x08d\x7fe\x0bf\x0cg\n", ["abcdefg"]),
    "a tab": (b"a\tb\n", ["a\tb"]),
    "malformed UTF-8": (b"a\xffb\xc3\n", ["a\ufffdb\ufffd"]),
    "a character that is cut at the end": (b"a\xe2\x82", ["a\ufffd"]),
    "other line separators stay": ("a\u2028b\x85c\n".encode(), ["a\u2028bc"]),
    "nothing": (b"", []),
}


@pytest.mark.parametrize(("data", "expected"), LINES.values(), ids=LINES.keys())
@pytest.mark.parametrize("step", [None, 1, 2, 3, 7])
def test_bytes_become_the_same_lines_however_they_arrive(data: bytes, expected: list[str], step: int | None) -> None:
    assert texts(data, step) == expected


def test_an_unfinished_line_is_marked_and_its_end_makes_no_line_of_its_own() -> None:
    assembler = Assembler(MAX_BYTES)

    assert assembler.feed(b"Password: ") == []
    assert assembler.flush() == [LogLine("Password: ", 11, is_partial=True)]
    assert assembler.flush() == []
    assert assembler.feed(b"\nnext\n") == [LogLine("next", 5)]
    assert assembler.feed(b"50%\r") == []
    assert assembler.flush() == [LogLine("50%", 4, is_partial=True)]
    assert assembler.feed(b"60%\r\n") == [LogLine("60%", 4)]


@pytest.mark.parametrize(
    ("size", "kept", "cut"),
    [(102_398, 102_398, 0), (102_399, 102_399, 0), (102_400, 102_367, 33), (10_000_000, 102_367, 9_897_633)],
)
@pytest.mark.parametrize("step", [65_536, 10_000_001])
def test_an_oversize_line_is_cut_exactly(size: int, kept: int, cut: int, step: int) -> None:
    assembler = Assembler(MAX_BYTES)
    data = b"x" * size + b"\n"
    [line] = [line for at in range(0, len(data), step) for line in assembler.feed(data[at : at + step])]

    mark = f"…[cut {cut} bytes]" if cut else ""
    assert line == LogLine("x" * kept + mark, kept + len(mark.encode()) + 1, cut)
    assert line.size <= MAX_BYTES


def test_a_line_is_cut_between_characters() -> None:
    assembler = Assembler(100)
    [line] = assembler.feed(b"a" + "€".encode() * 40 + b"\n")

    # 67 bytes may stay: `a` and 22 characters of three bytes.
    assert line == LogLine("a" + "€" * 22 + "…[cut 54 bytes]", 67 + 18, 54)


@pytest.mark.slow
def test_memory_is_bounded_whatever_is_written() -> None:
    noise = os.urandom(1 << 16)
    ring = Ring(MAX_BYTES, 1_000)
    tracemalloc.start()
    try:
        for chunk in (
            b"x" * 65_536,
            noise,
            b"\x1b]0;" + b"t" * 65_000,
            b"\x1b[" + b"1" * 65_000,
            b"y\n" * 30_000,
            b"\r",
        ):
            assembler = Assembler(MAX_BYTES)
            for _ in range(20):
                ring.extend(assembler.feed(chunk), 0, "out")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert ring.size <= MAX_BYTES
    assert len(ring.entries) <= 1_000
    assert peak < 12_000_000


def test_a_line_of_single_bytes_is_put_together() -> None:
    assembler = Assembler(MAX_BYTES)
    for _ in range(5_000):
        assert assembler.feed("é".encode()) == []

    assert assembler.feed(b"\n") == [LogLine("é" * 5_000, 10_001)]


# The ring


def lines(*sizes: int) -> list[LogLine]:
    return [LogLine("x" * (size - 1), size) for size in sizes]


def counts(ring: Ring) -> tuple[list[int], int, int, int, int]:
    seqs = [entry.seq for entry in ring.entries]
    return seqs, ring.size, ring.newest, ring.dropped_entries, ring.dropped_bytes


def test_the_oldest_go_when_there_are_too_many_entries() -> None:
    ring = Ring(1_000, 3)
    ring.extend(lines(2, 3), 0, "out")
    ring.extend(lines(4, 5), 0, "err")

    assert counts(ring) == ([2, 3, 4], 12, 4, 1, 2)


def test_the_oldest_go_when_there_are_too_many_bytes() -> None:
    ring = Ring(100, 1_000)
    ring.extend(lines(40, 40, 20), 0, "out")
    assert counts(ring) == ([1, 2, 3], 100, 3, 0, 0)

    ring.extend(lines(1), 0, "out")
    assert counts(ring) == ([2, 3, 4], 61, 4, 1, 40)


def test_lines_that_would_be_dropped_at_once_are_counted() -> None:
    ring = Ring(100, 2)
    ring.extend(lines(10), 0, "out")
    ring.extend(lines(20, 30, 40, 50), 0, "out")

    assert counts(ring) == ([4, 5], 90, 5, 3, 60)


def test_a_line_as_large_as_the_ring_drives_out_all_others() -> None:
    ring = Ring(100, 10)
    ring.extend(lines(10, 10), 0, "out")
    ring.extend(lines(100), 0, "out")

    assert counts(ring) == ([3], 100, 3, 2, 20)


# Secrets

SECRETS = {
    "a GitHub token": ("push with ghp_0123456789abcdefghijABCDEFGHIJ012345 now", "push with [redacted] now"),
    "a token of Carrel's own": (
        "serve with carrel_Zk3-w_9aQx0TtVb7LmNp2RsYcUe5HgJdFi8Ko1Wz4Xy now",
        "serve with [redacted] now",
    ),
    "an AWS key": ("id AKIAIOSFODNN7EXAMPLE.", "id [redacted]."),
    "an OpenAI key": ("OPENAI sk-proj-abcdefghijklmnopqrstuvwxyz", "OPENAI [redacted]"),
    "a Stripe key": ("sk_live_abcdefghijklmnop", "[redacted]"),
    "a Slack token": ("xoxb-1234567890-abcdefghij", "[redacted]"),
    "a Google key": ("AIzaSyA-1234567890abcdefghijklmnopqrstu", "[redacted]"),
    "a JSON web token": ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl end", "jwt [redacted] end"),
    "a bearer": ("Authorization: Bearer abcdef0123456789==", "Authorization: Bearer [redacted]"),
    "a password in a URL": ("postgres://me:s3cret@db/x", "postgres://me:[redacted]@db/x"),
    "an assignment": ("API_KEY=abcdefgh PASSWORD='hunter22'", "API_KEY=[redacted] PASSWORD='[redacted]'"),
    "an assignment with blanks": ("password = 'hunter22'", "password = '[redacted]'"),
    "a colon": ("password: hunter2 (from the file)", "password: [redacted] (from the file)"),
    "YAML with quotes": ('db_password: "hunter22"', 'db_password: "[redacted]"'),
    "a secret key": ("secret_key: wJalrXUtnFEMI/K7MDENG", "secret_key: [redacted]"),
    "a long password of letters": ("Password: correcthorsebatterystaple", "Password: [redacted]"),
    "an option": ("+ deploy --password hunter22 --dry-run", "+ deploy --password [redacted] --dry-run"),
    "an option in quotes": ("+ deploy --api-token '0a1b2c3d' x", "+ deploy --api-token '[redacted]' x"),
    "a login of curl": ("+ curl -fsSu ci:pw https://x", "+ curl -fsSu ci:[redacted] https://x"),
    "a long login of curl": ("curl --proxy-user 'ci:pw' https://x", "curl --proxy-user 'ci:[redacted]' https://x"),
    "JSON": ('{"client_secret": "abcdefgh"}', '{"client_secret": "[redacted]"}'),
    "a key in one line": (
        "-----BEGIN PRIVATE KEY-----abc-----END PRIVATE KEY----- x",
        "[redacted] x",
    ),
}


@pytest.mark.parametrize(("text", "expected"), SECRETS.values(), ids=SECRETS.keys())
def test_what_looks_like_a_secret_is_redacted(text: str, expected: str) -> None:
    assert Redactor()([text]) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "error: Unexpected token: identifier",
        "see http://localhost:8080/path@2",
        "task-manager and risk-free",
        "12:30:01 basic test passed",
        "secret santa",
        "the api keys page",
        "import carrel_lines",
        "password: required",
        "Password: hunter",
        "token: 12 left",
        "token: 12345678",
        "tokens: 12k left",
        "secret: see https://docs.example/secrets/v2",
        "secret: https://docs.example/secrets/v2",
        "std::token::parse1",
        "  --token TOKEN       the token of the desk",
        "the access key: last used 2 days ago",
        "docker run -u 1000:1000 image",
        "curl -A agent --user-agent a:b http://localhost:8080",
    ],
)
def test_what_does_not_stays(text: str) -> None:
    assert Redactor()([text]) == [text]


def texts_with_pause(line: str, at: int) -> list[str]:
    """Return the entries of a line that is written with a pause of more than a second."""
    assembler = Assembler(MAX_BYTES, Redactor())
    found = [*assembler.feed(line[:at].encode()), *assembler.flush(), *assembler.feed(f"{line[at:]}\n".encode())]
    return [one.text for one in found]


@pytest.mark.parametrize("name", [name for name in SECRETS if name != "a key in one line"])
def test_a_secret_that_is_written_with_a_pause_is_redacted(name: str) -> None:
    text, expected = SECRETS[name]
    same_after = len(commonprefix((text[::-1], expected[::-1])))  # noqa: RUF071 texts, not paths
    end_of_secret = text[len(text) - same_after - 4 : len(text) - same_after]
    for at in range(1, len(text)):
        joined = "".join(texts_with_pause(text, at))
        assert "[redacted]" in joined
        assert end_of_secret not in joined


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("Password: ", "", ["Password: "]),
        ("Password: ", "hunter22", ["Password: ", "[redacted]"]),
        ("login with password: hun", "ter22", ["login with ", "password: [redacted]"]),
        ("push ghp_0123456789abcdefghij", "ABCDEFGHIJ now", ["push ", "[redacted] now"]),
        ("push gh", "p_0123456789abcdefghij now", ["push gh", "[redacted] now"]),
        ("checking token: ok", ", done", ["checking ", "token: ok, done"]),
        ("listening on http://localhost:8080", " (press q)", ["listening on http://localhost:8080", " (press q)"]),
        ("-----BEGIN PRI", "VATE KEY-----MIIE", ["[redacted]"]),
    ],
)
def test_the_beginning_of_a_secret_waits_for_the_rest_of_its_line(before: str, after: str, expected: list[str]) -> None:
    assert texts_with_pause(before + after, len(before)) == expected


def test_what_waited_is_added_at_the_end() -> None:
    assembler = Assembler(MAX_BYTES, Redactor())
    assert assembler.feed(b"checking token: ok") == []
    assert assembler.flush() == [LogLine("checking ", 10, is_partial=True)]

    assert assembler.flush() == []
    assert assembler.flush(is_end=True) == [LogLine("token: ok", 10, is_partial=True)]


def test_a_line_that_starts_again_forgets_a_prompt() -> None:
    assembler = Assembler(MAX_BYTES, Redactor())
    assembler.feed(b"Password: ")
    assembler.flush()

    assert assembler.feed(b"\rstep12 done\n") == [LogLine("step12 done", 12)]


def test_hostile_lines_cost_time_in_proportion_to_their_length() -> None:
    pieces = (
        "password:",
        "token: ",
        "--token ",
        'secret"',
        "api_key = ",
        "ghp_",
        "://a:",
        "curl -u ",
        "eyJ",
        "-----BEGIN ",
    )
    for piece in (*pieces, "curl -u -uuuuuuuuuuuuuuuu ", "password: abcdefghijklmnop.", "password" + " " * 40):
        text = (piece * 100_000)[:100_000]
        began = thread_time()
        assembler = Assembler(200_000, Redactor())
        assembler.feed(text.encode())
        assembler.flush()
        assembler.feed(b" x\n")

        assert thread_time() - began < patience_s(1.0), piece


def test_a_private_key_is_redacted_over_its_lines() -> None:
    key = ["a", "-----BEGIN RSA PRIVATE KEY-----", "MIIE", "abcd==", "-----END RSA PRIVATE KEY-----", "b"]
    redactor = Redactor()

    assert [redactor([line]) for line in key] == [["a"], *[["[redacted]"]] * 4, ["b"]]


def test_a_key_that_never_ends_does_not_hide_the_log_for_ever() -> None:
    redactor = Redactor()
    redactor(["-----BEGIN PRIVATE KEY-----"])

    assert redactor(["x"] * (MAX_KEY_LINES + 1))[-2:] == ["[redacted]", "x"]


def test_sizes_count_the_redacted_text_and_a_secret_at_the_cut_does_not_show() -> None:
    token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    assembler = Assembler(200, Redactor())

    assert assembler.feed(f"{token}\n".encode()) == [LogLine("[redacted]", 11)]
    [line] = assembler.feed(b"x" * 150 + b" " + token.encode() + b"y" * 500 + b"\n")
    assert "ghp" not in line.text
