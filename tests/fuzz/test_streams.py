"""Streams of bytes, in random pieces, through framing and a connection.

Whole requests stand among lines that were cut, flipped, nested, padded beyond the limit or never were JSON. The pieces
never matter; each whole request is answered once; every line gets at most one answer, which is a valid message.
"""

import json
from collections import Counter

from carrel.protocol.framing import Lines, OverLong
from carrel.protocol.jsonrpc import find_id
from carrel.server.requests import Work
from tests.fuzz.generation import Source, encode, make_server
from tests.support.schemas import LEGACY, MODERN, check, parse, with_meta

STREAMS = 450
LINES = 60
LIMIT = 8_192
SAMPLE = 20


def sentinel(name: str) -> bytes:
    """Spell a request that is answered in any state of a connection."""
    params = with_meta({"uri": "test:///note/007"}, MODERN)
    return json.dumps({"jsonrpc": "2.0", "id": name, "method": "resources/read", "params": params}).encode()


def make_stream(source: Source, names: list[str]) -> bytes:
    """Make a stream in which requests with these ids stand, each on a line of its own."""
    made = []
    for name in names:
        made.append(sentinel(name))
        for _ in range(source.randrange(5)):
            line = encode(source, source.message())
            made.append(line if source.one_in(3) else source.garbled(line))
        if source.one_in(20):
            made.append(b'{"jsonrpc":"2.0","id":"long","method":"ping","params":"' + b"x" * source.randrange(20_000))
        if source.one_in(10):
            made.append(source.choice((b"", b" ", b"\r", b"\t \r")))
    ends = (b"\n", b"\n", b"\r\n", b" \n", b"\n\n")
    return b"".join(line + source.choice(ends) for line in made)


def in_pieces(source: Source, stream: bytes) -> list[bytes | OverLong]:
    lines = Lines(LIMIT)
    given: list[bytes | OverLong] = []
    at = 0
    longest = source.choice((1, 7, 100, 5_000, 65_536))
    while at < len(stream):
        size = source.randint(1, longest)
        given += lines.feed(stream[at : at + size])
        at += size
    return given + lines.end()


def test_pieces_never_matter_and_every_whole_request_is_answered_once(source: Source, rounds: int) -> None:
    server = make_server()
    for turn in range(STREAMS * rounds):
        told: list[bytes] = []
        connection = server.connect(told.append)
        names = [f"whole {turn} {number}" for number in range(LINES // 3)]
        stream = make_stream(source, names)
        whole = Lines(LIMIT)
        lines = in_pieces(source, stream)
        assert lines == [*whole.feed(stream), *whole.end()]
        answered: Counter[object] = Counter()
        for line in lines:
            given = connection.accept(line)
            answer = given.run() if isinstance(given, Work) else given
            if answer is not None:
                value = parse(answer)
                for one in value if isinstance(value, list) else [value]:
                    answered[one.get("id")] += 1
                    assert ("result" in one) != ("error" in one)
            if isinstance(line, OverLong):
                assert answer is not None
                assert b'"code":-32802' in answer
                assert (find_id(line.head) is None) == (b'"id":' not in answer)
            elif answer is not None and line[:1] != b"[" and source.one_in(SAMPLE) and b'"error"' in answer[:12]:
                check(answer, LEGACY, None)
        connection.close()
        assert {name: answered[name] for name in names} == dict.fromkeys(names, 1)


def test_any_bytes_at_all_leave_the_connection_whole(source: Source, rounds: int) -> None:
    server = make_server()
    connection = server.connect(lambda _: None)
    for turn in range(4_000 * rounds):
        lines = Lines(LIMIT)
        noise = source.randbytes(source.randrange(200)) + b"\n"
        for line in [*lines.feed(noise), *lines.end()]:
            given = connection.accept(line)
            assert not isinstance(given, Work)
            if given is not None:
                assert b'"error"' in given
        answer = connection.accept(sentinel(str(turn)))
        assert isinstance(answer, bytes)
        assert answer.startswith(f'{{"id":"{turn}","result":'.encode())
