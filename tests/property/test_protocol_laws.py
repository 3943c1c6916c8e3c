"""Laws of the protocol core: what holds for every message and every stream of bytes."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from msgspec import Raw

from carrel.catalog.catalog import Catalog
from carrel.catalog.pages import seal, unseal
from carrel.core.errors import BadCursor, ProtocolError
from carrel.protocol import jsonrpc, methods
from carrel.protocol.framing import Lines, OverLong
from carrel.protocol.headers import Headers
from carrel.protocol.jsonrpc import Message
from carrel.server.server import Server
from tests.support.memory_provider import Memory
from tests.support.schemas import LEGACY, MODERN, RESULTS, Conversation, check, meta_of

SERVER = Server(Catalog([Memory()]))

IDS = st.one_of(st.integers(), st.text(max_size=20))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=20)
)
URIS = st.sampled_from(
    [
        "test:///plain",
        "test:///note/007",
        "test:///none",
        "test:///tree/",
        "other:///x",
        "",
        "%",
        "test:///plain?start=1",
    ]
)
VALUES = st.recursive(
    st.one_of(SCALARS, URIS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=8,
)
NAMES = st.one_of(
    st.sampled_from(["uri", "cursor", "start", "length", "ref", "argument", "name", "arguments", "context"]),
    st.sampled_from(["notifications", "protocolVersion", "page", "pageSize", "directory", "_meta"]),
    st.text(max_size=8),
)
METHODS = st.one_of(st.sampled_from(sorted({*RESULTS, "nope", "prompts/list"})), st.text(max_size=10))
METAS = st.one_of(
    st.just({}),
    st.just(meta_of(MODERN)),
    st.dictionaries(
        st.one_of(
            st.sampled_from([*meta_of(MODERN), "progressToken", "dev.carrel/if-none-match"]), st.text(max_size=5)
        ),
        st.one_of(st.just(MODERN), VALUES),
        max_size=4,
    ),
)
PARAMS = st.one_of(
    VALUES, st.builds(lambda given, meta: {**given, "_meta": meta}, st.dictionaries(NAMES, VALUES), METAS)
)


# Decoding


@given(st.binary())
@example(b'{"jsonrpc":"2.0","id":true,"method":"x"}')
@example(b"[" * 100_000)
@example(b'{"a":' * 100_000)
@example(b'{"jsonrpc":"2.0","id":' + b"1" * 100_000 + b',"method":"x"}')
@example(b'{"jsonrpc":"2.0","id":1e999,"method":"x"}')
@example(b'{"jsonrpc":"1.0","id":' + b"9" * 400 + b"}")
@example(b'{"jsonrpc":"2.0","id":"\\ud800","method":"x"}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"x","params":"\xff"}')
@example(b"\0")
@example(b"\xef\xbb\xbf{}")
@example(b'{"jsonrpc":"2.0","id":{},"result":1}')
def test_no_bytes_make_decode_raise_anything_else(text: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        jsonrpc.decode(text)
    with contextlib.suppress(ProtocolError):
        jsonrpc.decode_batch(text)
    jsonrpc.find_id(text)


@given(
    st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=8), inner), max_leaves=10)
)
def test_no_json_makes_decode_raise_anything_else(value: object) -> None:
    with contextlib.suppress(ProtocolError):
        jsonrpc.decode(json.dumps(value).encode())


@given(request_id=IDS, method=st.text(), params=VALUES, spaced=st.booleans(), ascii_only=st.booleans())
def test_a_request_is_decoded_to_what_it_said(
    request_id: int | str, method: str, params: object, spaced: bool, ascii_only: bool
) -> None:
    message = {"params": params, "method": method, "id": request_id, "jsonrpc": "2.0"}
    text = json.dumps(message, indent=1 if spaced else None, ensure_ascii=ascii_only).encode()

    decoded = jsonrpc.decode(text)

    assert isinstance(decoded, Message)
    assert (decoded.key, decoded.method, json.loads(bytes(decoded.params))) == (request_id, method, params)
    assert json.loads(jsonrpc.answer(decoded.id or b"", Raw(b"{}"))) == {
        "jsonrpc": "2.0",
        "id": request_id,
        "result": {},
    }


@given(
    line=st.one_of(
        st.builds(
            lambda request_id, params, more, spaced: json.dumps(
                {"jsonrpc": "2.0", "id": request_id, "method": "resources/read", "params": params, **more},
                separators=None if spaced else (",", ":"),
            ).encode(),
            st.one_of(IDS, SCALARS),
            st.one_of(st.fixed_dictionaries({"uri": st.one_of(URIS, SCALARS), "_meta": METAS}), PARAMS),
            st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "more"]), SCALARS, max_size=1),
            st.booleans(),
        ),
        st.binary().map(lambda some: b'"resources/read"' + some),
    )
)
@example(b'{"jsonrpc":"2.0","id":-0,"method":"resources/read","params":{"uri":"x"}}')
@example(b'{"jsonrpc":"2.0","id":1e3,"method":"resources/read","params":{"uri":"x"}}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"nope","method":"resources/read","params":{"uri":"x"}}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"resources/read","method":"nope","params":{"uri":"x"}}')
@example(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"resources/read","params":{"uri":"x"}}')
@example(b'{"jsonrpc":"2.0","method":"resources/read","params":{"uri":"x"}}')
@example(b'{"jsonrpc":"2.0","id":1,"params":{"uri":"x"},"error":"resources/read"}')
def test_a_read_that_is_parsed_in_one_step_is_what_two_steps_make_of_it(line: bytes) -> None:
    call = methods.parse_read(line)

    if call is not None:
        message = jsonrpc.decode(line)
        assert isinstance(message, Message)
        assert methods.parse(message, SERVER.dispatch.served) == call


@given(
    meta=METAS,
    beside=st.builds(
        Headers,
        st.sampled_from([None, "2025-11-25", "2026-07-28", "2099-01-01"]),
        st.sampled_from([None, "resources/read", "tools/call"]),
        st.sampled_from([None, "x", "y", "=?base64?eA==?=", "=?base64?!?="]),
        st.sampled_from(["", "mcp-name"]),
    ),
)
@example(meta_of(MODERN), Headers("2026-07-28", "resources/read", "x"))
@example(meta_of(MODERN), Headers("2026-07-28", "resources/read", "y"))
@example({}, Headers("2025-11-25", None, None))
def test_headers_count_for_a_read_that_is_parsed_in_one_step_as_in_two(meta: object, beside: Headers) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "x", "_meta": meta}}
    line = json.dumps(request).encode()

    call = methods.parse_read(line, beside)

    if call is not None:
        message = jsonrpc.decode(line)
        assert isinstance(message, Message)
        assert methods.parse(message, SERVER.dispatch.served, beside) == call


@given(request_id=IDS, params=VALUES, cut=st.integers(0, 300), first=st.booleans())
def test_the_id_found_in_a_beginning_is_the_id_of_the_whole_or_none(
    request_id: int | str, params: object, cut: int, first: bool
) -> None:
    parts: list[dict[str, object]] = [{"id": request_id}, {"params": {"id": 5, "x": params}}]
    message = {"jsonrpc": "2.0", **parts[not first], **parts[first], "method": "x"}
    text = json.dumps(message).encode()

    assert jsonrpc.find_id(text[:cut]) in (None, json.dumps(request_id).encode())
    assert jsonrpc.find_id(text) == json.dumps(request_id).encode()


# Framing

LINE = st.one_of(
    st.binary(max_size=60), st.just(b""), st.just(b"\r"), st.integers(18, 23).map(lambda size: b"x" * size)
)


@given(lines=st.lists(LINE, max_size=12), sizes=st.lists(st.integers(0, 30), max_size=40), limit=st.integers(1, 40))
def test_a_stream_gives_the_same_lines_in_any_pieces(lines: list[bytes], sizes: list[int], limit: int) -> None:
    stream = b"\n".join(lines)
    whole, bytewise, pieces = Lines(limit), Lines(limit), Lines(limit)
    expected = [*whole.feed(stream), *whole.end()]
    given_bytewise = [line for at in range(len(stream)) for line in bytewise.feed(stream[at : at + 1])]
    given_pieces: list[bytes | OverLong] = []
    at = 0
    for size in sizes:
        given_pieces += pieces.feed(stream[at : at + size])
        at += size

    assert [*given_bytewise, *bytewise.end()] == expected
    assert [*given_pieces, *pieces.feed(stream[at:]), *pieces.end()] == expected


@given(lines=st.lists(LINE, max_size=12), limit=st.integers(1, 40))
def test_every_line_that_fits_is_given_and_every_other_reported_once(lines: list[bytes], limit: int) -> None:
    stream = b"\n".join(lines)
    framing = Lines(limit)
    raw = stream.split(b"\n")
    expected: list[bytes | OverLong] = [
        line.strip(b" \t\r") if len(line.removesuffix(b"\r")) <= limit else OverLong(line[:limit]) for line in raw
    ]

    assert [*framing.feed(stream), *framing.end()] == [line for line in expected if line]


# Answers


def answered(client: Conversation, text: bytes) -> list[Any]:
    answer = client.say(text)
    return [] if answer is None else [json.loads(answer)]


@given(st.binary())
@example(b"[" * 100_000)
@example(b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"\\u0000"}}')
def test_no_bytes_make_a_connection_raise(text: bytes) -> None:
    client = Conversation(SERVER)
    answer = client.say(text)
    if answer is not None:
        check(answer, LEGACY, "ping")
    client.close()


@given(request_id=IDS, method=METHODS, params=PARAMS)
def test_every_request_is_answered_once_with_its_id(request_id: int | str, method: str, params: object) -> None:
    client = Conversation(SERVER)
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    meta = params.get("_meta") if isinstance(params, dict) else None
    has_version = isinstance(meta, dict) and "io.modelcontextprotocol/protocolVersion" in meta
    is_modern = method != "initialize" and (has_version or method in {"server/discover", "subscriptions/listen"})
    answer = client.say(json.dumps(message).encode())
    endings = client.close()

    if answer is None:
        assert (method, [ending["id"] for ending in endings]) == ("subscriptions/listen", [request_id])
    else:
        assert check(answer, MODERN if is_modern else LEGACY, method)["id"] == request_id
        assert endings == []


@given(
    method=st.one_of(METHODS, st.just("notifications/cancelled"), st.just("notifications/initialized")), params=PARAMS
)
def test_a_notification_is_never_answered(method: str, params: object) -> None:
    client = Conversation(SERVER)

    assert client.say(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()) is None
    assert client.close() == []


@given(uri=st.text(), version=st.sampled_from([MODERN, LEGACY]))
@example(uri="test:///note/" + "é" * 9_000, version=MODERN)
@example(uri="test:///plain?" + "&".join(f"a{n}=1" for n in range(100)), version=LEGACY)
@example(uri="test:///tree/" + "../" * 100, version=MODERN)
@example(uri="test:///big/٣", version=MODERN)
def test_any_uri_is_read_or_refused_with_itself_in_one_line(uri: str, version: str) -> None:
    assume(not any("\ud800" <= character <= "\udfff" for character in uri))
    client = Conversation(SERVER)
    given = client.ask("resources/read", {"uri": uri}, version=version)

    if "contents" not in given:
        assert given["code"] in (-32602, -32002, -32603)
        assert given["data"]["uri"] == uri or len(uri) > 8_192


# Cursors

PARTS = st.lists(st.text(st.characters(exclude_characters="\0")), min_size=1).map(tuple)


@given(PARTS)
def test_what_is_sealed_is_unsealed(parts: tuple[str, ...]) -> None:
    assert unseal(seal(*parts)) == parts


@given(st.text())
@example("\ud800")
@example("=" * 100)
@example("A" * 12)
def test_no_text_makes_unseal_raise_anything_else(text: str) -> None:
    with contextlib.suppress(BadCursor):
        assert seal(*unseal(text)) == text


@given(parts=PARTS, data=st.data())
def test_a_changed_cursor_is_refused(parts: tuple[str, ...], data: st.DataObject) -> None:
    cursor = seal(*parts)
    at = data.draw(st.integers(0, len(cursor)))
    changed = cursor[:at] + data.draw(st.text(max_size=3)) + cursor[at + data.draw(st.integers(0, 3)) :]
    assume(changed != cursor)

    with pytest.raises(BadCursor):
        unseal(changed)
