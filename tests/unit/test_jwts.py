"""Tokens of an outside issuer: only signed, fresh ones made for this server count."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from time import time
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

from carrel.errors import ConfigError
from carrel.jwts import LEEWAY_S, Issuer
from carrel.permissions import Access

ISSUER, AUDIENCE = "https://login.example", "https://desk.example/mcp"
KEY = ECKey.generate_key("P-256", {"kid": "one"})
OTHER = ECKey.generate_key("P-256", {"kid": "two"})
Sign = Callable[..., str]


def sign(key: Any = KEY, alg: str = "ES256", **claims: object) -> str:
    """Make a token, good unless said otherwise."""
    good = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": int(time()) + 600,
        "sub": "ann",
        "scope": "workspace:read logs:tools",
    }
    kept = {name: value for name, value in {**good, **claims}.items() if value is not None}
    return jwt.encode({"alg": alg, "kid": key.kid}, kept, key, algorithms=[alg])


def key_set(*keys: ECKey) -> str:
    """Spell public keys."""
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]})


@pytest.fixture(name="issuer")
def file_issuer(tmp_path: Path) -> Issuer:
    (tmp_path / "keys.json").write_text(key_set(KEY), "utf-8")
    return Issuer(ISSUER, AUDIENCE, str(tmp_path / "keys.json"))


def test_a_good_token_gives_its_scopes_until_it_expires(issuer: Issuer) -> None:
    expires = int(time()) + 600
    token = sign(exp=expires)

    assert issuer.known(token) is None
    access = issuer.verify(token)
    assert access == Access("jwt ann", frozenset({"workspace:read", "logs:tools"}), float(expires + LEEWAY_S))
    assert issuer.known(token) == access


def test_scopes_may_be_a_list(issuer: Issuer) -> None:
    access = issuer.verify(sign(scope=None, scp=["a:read", 7]))

    assert access is not None
    assert access.scopes == frozenset({"a:read"})


def test_a_token_without_scopes_may_nothing(issuer: Issuer) -> None:
    access = issuer.verify(sign(scope=None))

    assert access is not None
    assert access.scopes == frozenset()


@pytest.mark.parametrize(
    "token",
    [
        sign(iss="https://evil.example"),
        sign(iss=None),
        sign(aud="https://other.example/mcp"),
        sign(aud=None),
        sign(exp=int(time()) - LEEWAY_S - 5),
        sign(exp=None),
        sign(exp="soon"),
        sign(nbf=int(time()) + 600),
        sign(OTHER),
        sign(OctKey.import_key(b"0" * 32, {"kid": "one"}), "HS256"),
        "a.b.c",
        "..",
        "",
        sign()[:-4] + "AAAA",
    ],
)
def test_any_other_token_is_none(issuer: Issuer, token: str) -> None:
    assert issuer.verify(token) is None
    assert issuer.known(token) is None


def test_an_unsigned_token_is_none(issuer: Issuer) -> None:
    header, payload, _ = sign().split(".")
    unsigned = "eyJhbGciOiJub25lIn0"

    assert issuer.verify(f"{unsigned}.{payload}.") is None
    assert issuer.verify(f"{header}.{payload}.") is None


def test_several_audiences_are_fine_when_ours_is_among_them(issuer: Issuer) -> None:
    assert issuer.verify(sign(aud=["https://other.example", AUDIENCE])) is not None


def test_what_was_known_is_forgotten_when_it_expires(issuer: Issuer) -> None:
    token = sign(exp=int(time()) + 1)
    access = issuer.verify(token)
    assert access is not None

    issuer._known[next(iter(issuer._known))] = Access(access.name, access.scopes, time() - 1)

    assert issuer.known(token) is None


def test_keys_from_an_address_are_looked_for_again_when_they_change() -> None:
    served = [key_set(KEY)]
    asked: list[str] = []

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(served[0].encode())

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Keys) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        issuer = Issuer(ISSUER, AUDIENCE, f"http://127.0.0.1:{server.server_port}/keys")
        assert issuer.verify(sign()) is not None
        served[0] = key_set(KEY, OTHER)
        # A key that is not known is not looked for at once again: a stranger could make us ask without end.
        assert issuer.verify(sign(OTHER)) is None
        issuer._fetched_at -= 61
        assert issuer.verify(sign(OTHER)) is not None
        assert len(asked) == 2
        server.shutdown()
        thread.join()


def test_an_issuer_that_is_away_lets_nobody_in(tmp_path: Path) -> None:
    issuer = Issuer(ISSUER, AUDIENCE, str(tmp_path / "none.json"))

    assert [issuer.verify(sign()) for _ in range(2)] == [None, None]


def test_keys_are_not_taken_from_where_anybody_could_change_them() -> None:
    with pytest.raises(ConfigError, match="https"):
        Issuer(ISSUER, AUDIENCE, "http://login.example/keys")
