"""The plain HTTP of another desk, over real sockets: what is taken, refused, or may succeed later."""

import json
from pathlib import Path

import pytest

from carrel.catalog.access import Access
from carrel.client.desk_address import DeskAddress, RefusedByDesk
from carrel.core.errors import ConfigError, Unreachable
from carrel.transports.http.guard import AcceptedNames, Guard
from tests.support.http_asking import application, ask, listening, run
from tests.support.logging_project import logs, text

HEADER = {"program": "make", "ms": 1, "origin": {"key": "k" * 24}}
BODY = "".join(
    f"{json.dumps(line)}\n" for line in (HEADER, {"seq": 1, "ms": 2, "stream": "out", "text": "one"})
).encode()


class Tokens:
    """Two tokens: one that writes logs, one that only reads."""

    def find(self, token: str) -> Access | None:
        known = {"writes": frozenset({"logs:write"}), "reads": frozenset({"logs:read"})}
        return Access(token, known[token]) if token in known else None


GUARD = Guard(AcceptedNames(is_loopback=True), Tokens())


def test_lines_are_taken_with_a_token_that_may_write(tmp_path: Path) -> None:
    provider = logs(tmp_path)
    with listening(application(provider, guard=GUARD)) as port:
        desk = DeskAddress(f"http://127.0.0.1:{port}/mcp", "writes\n")
        for _ in range(2):
            taken = {"uri": "logs://build/ci_1", "newest": 1, "max_bytes": 4_194_304}
            assert desk.post("/logs/build/ci_1", BODY) == taken
        desk.close()
    assert text(provider, "logs://build/ci_1") == "one\n"


@pytest.mark.parametrize(
    ("token", "path", "body", "message"),
    [
        (None, "/logs/build/ci_1", BODY, "A token is needed.*; set CARREL_TOKEN"),
        (" \n", "/logs/build/ci_1", BODY, "A token is needed.*; set CARREL_TOKEN"),
        ("wri\ntes", "/logs/build/ci_1", BODY, "^CARREL_TOKEN holds blanks or characters that no token has$"),
        ("schlüssel€", "/logs/build/ci_1", BODY, "^CARREL_TOKEN holds blanks or characters that no token has$"),
        ("nobody", "/logs/build/ci_1", BODY, "The token is not valid; see CARREL_TOKEN"),
        ("reads", "/logs/build/ci_1", BODY, "needs the scope logs:write"),
        ("writes", "/logs/build/ci_1", b"x", "Invalid line 1"),
        ("writes", "/logs/build", BODY, "Nothing can be added"),
        ("writes", "/workspace/x", BODY, "needs the scope workspace:write"),
    ],
)
def test_what_a_desk_refuses_is_not_tried_again(
    tmp_path: Path, token: str | None, path: str, body: bytes, message: str
) -> None:
    with listening(application(logs(tmp_path), guard=GUARD)) as port:
        desk = DeskAddress(f"http://127.0.0.1:{port}", token)
        with pytest.raises(RefusedByDesk, match=message):
            desk.post(path, body)
        desk.close()


def test_a_desk_that_is_not_there_may_come_back(tmp_path: Path) -> None:
    provider = logs(tmp_path)
    with listening(application(provider)) as port:
        desk = DeskAddress(f"http://127.0.0.1:{port}", None)
        desk.post("/logs/build/ci_1", BODY)
    with pytest.raises(Unreachable, match=r"cannot reach 127\.0\.0\.1:\d+: "):
        desk.post("/logs/build/ci_1", BODY)
    desk.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("desk.example", "write the address"),
        ("ftp://desk.example", "write the address"),
        ("http://desk.example", "unencrypted; use https"),
        ("https://user:secret@desk.example", "CARREL_TOKEN"),
        ("https://desk.example:x", "port"),
        ("https://desk.example/?a=b", "write the address"),
    ],
)
def test_an_address_that_is_wrong_is_refused_before_anything_is_sent(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as failed:
        DeskAddress(url, "token")
    assert "secret" not in str(failed.value)


@pytest.mark.parametrize("kind", ["text/plain", "application/json", ""])
def test_a_form_of_a_web_page_cannot_add_lines(tmp_path: Path, kind: str) -> None:
    """A page of another site can send these types without asking first."""

    async def talk() -> None:
        headers = {"content-type": kind} if kind else {}
        reply = await ask(application(logs(tmp_path)), "POST", "/logs/build/ci_1", headers, BODY)
        assert (reply.status, reply.json["error"]) == (
            400,
            "Send lines of JSON with the content type application/x-ndjson",
        )

    run(talk)
    assert not (tmp_path / ".carrel").exists()


def test_too_many_lines_at_once_are_refused(tmp_path: Path) -> None:
    with listening(application(logs(tmp_path), max_bytes=100)) as port:
        desk = DeskAddress(f"http://127.0.0.1:{port}", None)
        with pytest.raises(RefusedByDesk, match="one message holds 100 bytes"):
            desk.post("/logs/build/ci_1", BODY)
        desk.close()
