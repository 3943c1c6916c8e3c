"""Valid messages, mutated, against a connection in this process.

Whatever comes in: no exception escapes, every request is answered exactly once and with its id, a notification never
is, and our own fault is admitted only where a provider was asked to break. One answer in twenty is also held against
the JSON Schema of its version, which takes ten times as long as answering.
"""

import json
from collections import Counter
from typing import Any

from carrel.server.connection import Connection
from carrel.server.requests import Work
from carrel.server.server import Server
from tests.fuzz.generation import Source, encode, make_server
from tests.support.schemas import LEGACY, MODERN, check

MESSAGES = 72_000
PER_CONNECTION = 300
SAMPLE = 20
VERSION = "io.modelcontextprotocol/protocolVersion"
BREAKING = ("error/", "error%2", "whole/", "break")
"""What stands in a message that may make a provider of the tests break."""


def is_id(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def expected(message: Any) -> tuple[bool, Any]:
    """Return whether a message is answered, and with which id; None for an answer without."""
    if not isinstance(message, dict):
        return True, None
    has_version = message.get("jsonrpc") == "2.0"
    if has_version and isinstance(message.get("method"), str):
        return "id" in message, message.get("id") if is_id(message.get("id")) else None
    if has_version and "method" not in message and ("result" in message or "error" in message):
        return not (message.get("id") is None or is_id(message.get("id"))), None
    return True, message.get("id") if is_id(message.get("id")) else None


def begins_to_listen(message: Any) -> bool:
    """Return whether a message may be left unanswered until the end."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return False
    return message.get("method") == "subscriptions/listen" and is_id(message.get("id"))


def version_of(message: Any) -> str:
    """Return which rules a message is under."""
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    method = message.get("method") if isinstance(message, dict) else None
    if method in ("server/discover", "subscriptions/listen"):
        return MODERN
    return MODERN if method != "initialize" and isinstance(meta, dict) and VERSION in meta else LEGACY


class Client:
    """One connection, and a count of what it still owes."""

    def __init__(self, server: Server, source: Source) -> None:
        self._source = source
        self._told: list[bytes] = []
        self._connection: Connection = server.connect(self._told.append)
        self._open: set[Any] = set()
        self._cancelled: set[Any] = set()
        self._may_batch = False
        self.codes: Counter[object] = Counter()

    def say(self, message: Any) -> None:
        """Send a message; hold its answer against what must come."""
        line = encode(self._source, message)
        answer = self._settled(self._connection.accept(line))
        is_batch = isinstance(message, list) and self._may_batch and 0 < len(message) <= 50
        if is_batch:
            self._check_batch(message, answer)
        else:
            self._check(message, None if answer is None else json.loads(answer), answer)
        self._note(message if is_batch else [message], answer)
        for told in self._told:
            version = MODERN if b"subscriptionId" in told else LEGACY
            assert b'"id"' not in told.partition(b'"params"')[0], told
            if self._source.one_in(SAMPLE):
                check(told, version, None)
        self._told.clear()

    def _settled(self, given: bytes | Work | None) -> bytes | None:
        """Do work in one of the ways a transport may, twice; it is settled once."""
        if not isinstance(given, Work):
            return given
        give_up = self._source.choice((given.expire, given.refuse))
        ways = (given.run, give_up) if self._source.randrange(4) else (give_up, given.run)
        answers = [way() for way in ways]
        if answers[0] is not None:
            assert answers[1] is None
        return answers[0] if answers[0] is not None else answers[1]

    def _check_batch(self, message: list[Any], answer: bytes | None) -> None:
        answers = Counter(_key(one.get("id")) for one in ([] if answer is None else json.loads(answer)))
        wanted = Counter(_key(request_id) for is_answered, request_id in map(expected, message) if is_answered)
        listens = {_key(one.get("id")) for one in message if begins_to_listen(one)}
        missing = wanted - answers
        assert answers - wanted == Counter(), (message, answer)
        assert set(missing) <= listens, (message, answer)
        assert all(count == 1 for count in missing.values()), (message, answer)

    def _check(self, message: Any, answer: Any, spelled: bytes | None) -> None:
        is_answered, request_id = expected(message)
        if answer is None:
            assert not is_answered or begins_to_listen(message), message
            return
        assert is_answered, (message, answer)
        assert ("id" in answer) == (request_id is not None), (message, answer)
        assert _key(answer.get("id")) == _key(request_id), (message, answer)
        error = answer.get("error", {})
        self.codes[error.get("code")] += 1
        if isinstance(error.get("data"), dict) and error["data"].get("dev.carrel/error") == "internal":
            text = json.dumps(message)
            assert any(word in text for word in BREAKING), (message, answer)
        if spelled is not None and self._source.one_in(SAMPLE):
            check(spelled, version_of(message), message.get("method") if isinstance(message, dict) else None)

    def _note(self, messages: list[Any], answer: bytes | None) -> None:
        """Remember what was agreed, what is listened to, and cursors to use again."""
        answers = parsed(answer)
        keys = {_key(one.get("id")) for one in (answers if isinstance(answers, list) else [answers])}
        for one in messages:
            self._note_one(one, keys)
        if answer is not None and b'"protocolVersion":"' in answer and b'"serverInfo"' in answer:
            self._may_batch = b'"protocolVersion":"2025-03-26"' in answer
        if answer is not None and b'"nextCursor":"' in answer and self._source.one_in(9):
            cursor = answer.partition(b'"nextCursor":"')[2].partition(b'"')[0].decode()
            self._source.cursors = (*self._source.cursors[-20:], cursor)

    def _note_one(self, message: Any, answered: set[Any]) -> None:
        if begins_to_listen(message) and _key(message["id"]) not in answered:
            self._open.add(_key(message["id"]))
            self._cancelled.discard(_key(message["id"]))
        method = message.get("method") if isinstance(message, dict) else None
        params = message.get("params") if method == "notifications/cancelled" else None
        if isinstance(params, dict) and is_id(params.get("requestId")):
            self._cancelled.add(_key(params["requestId"]))

    def close(self) -> None:
        """End the conversation: each subscription still open is answered once, and nothing else."""
        endings = self._connection.close()
        keys = [_key(check(ending, MODERN, "subscriptions/listen")["id"]) for ending in endings]
        assert len(keys) == len(set(keys))
        assert self._open - self._cancelled <= set(keys) <= self._open
        assert self._connection.close() == []


def parsed(answer: bytes | None) -> Any:
    return {} if answer is None else json.loads(answer)


def _key(value: object) -> tuple[str, object]:
    return type(value).__name__, value


def test_every_request_is_answered_once_and_no_fault_escapes(source: Source, rounds: int) -> None:
    server = make_server()
    codes: Counter[object] = Counter()
    sent = 0
    while sent < MESSAGES * rounds:
        client = Client(server, source)
        for _ in range(PER_CONNECTION):
            message: Any = source.message()
            if not source.one_in(4):
                message = source.mutated(message)
            if source.one_in(30):
                message = [message, *(source.mutated(source.message()) for _ in range(source.randrange(4)))]
            client.say(message)
            sent += len(message) if isinstance(message, list) else 1
        client.close()
        codes += client.codes
    assert server.watcher._subscriptions == set()
    assert {None, -32600, -32601, -32602, -32603, -32022, -32002, -32802, -32803} <= set(codes)
    assert codes[None] > sent // 10


def test_a_connection_answers_plainly_after_all_that(source: Source) -> None:
    server = make_server()
    client = Client(server, source)
    for _ in range(2_000):
        client.say(source.mutated(source.message()))
    client.close()

    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert server.answer(json.dumps(ping).encode()) == b'{"id":1,"result":{},"jsonrpc":"2.0"}'
