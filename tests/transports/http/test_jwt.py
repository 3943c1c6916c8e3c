"""Tokens of an outside issuer: only signed, fresh ones made for this server count."""

import contextlib
import json
import queue
import ssl
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import time
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from carrel.catalog.access import Access
from carrel.catalog.groups import Groups, GroupSettings
from carrel.core.errors import ConfigError, ProviderError
from carrel.transports.http import jwt as issuer_jwt
from carrel.transports.http.jwt import LEEWAY_S, MAX_WAITING, REFRESH_S, Issuer
from tests.support.certificates import make_certificate
from tests.support.waiting import PATIENCE_S

ISSUER, AUDIENCE = "https://login.example", "https://desk.example/mcp"
KEY = ECKey.generate_key("P-256", {"kid": "one"})
OTHER = ECKey.generate_key("P-256", {"kid": "two"})
Sign = Callable[..., str]


def sign(key: Any = KEY, alg: str = "ES256", *, names_key: bool = True, **claims: object) -> str:
    """Make a token, good unless said otherwise; a claim that is None is left out."""
    good = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": int(time()) + 600,
        "sub": "ann",
        "scope": "workspace:read logs:tools",
    }
    kept = {name: value for name, value in {**good, **claims}.items() if value is not None}
    header = {"alg": alg, "kid": key.kid} if names_key else {"alg": alg}
    return jwt.encode(header, kept, key, algorithms=[alg])


def key_set(*keys: ECKey | RSAKey, **more: str) -> str:
    """Spell public keys."""
    return json.dumps({"keys": [{**key.as_dict(private=False), **more} for key in keys]})


class KeyServer:
    """Serves an issuer's keys over HTTP; while `gate` is closed, it pauses after each byte of them, and of `header`."""

    def __init__(self, served: str, certified: ssl.SSLContext | None = None) -> None:
        self.served = served
        self.header = ""
        self.asked = threading.Semaphore(0)
        self.times_asked = 0
        self.sent = 0
        self.pause_s = PATIENCE_S
        self.gate = threading.Event()
        self.gate.set()
        outer = self

        class Keys(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.times_asked += 1
                self.send_response(200 if self.path == "/keys" else 302)
                self.send_header("Location", "/keys")
                self.flush_headers()
                outer.asked.release()
                outer.sent = 0
                with contextlib.suppress(OSError):
                    self._trickle(outer.header)
                    self.end_headers()
                    self._trickle(outer.served)

            def _trickle(self, text: str) -> None:
                for byte in text.encode():
                    self.wfile.write(bytes([byte]))
                    outer.sent += 1
                    outer.gate.wait(outer.pause_s)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Keys)
        if certified is not None:
            self._server.socket = certified.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        self.address = f"{'http' if certified is None else 'https'}://127.0.0.1:{self._server.server_port}"
        self.issuer = Issuer(ISSUER, AUDIENCE, f"{self.address}/keys")

    def grow_old(self) -> None:
        """Make the issuer fetch the keys again if one is unknown."""
        self.issuer._keys._asked_at -= REFRESH_S + 1

    def close(self) -> None:
        """Serve no more."""
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(name="keys")
def key_server() -> Iterator[KeyServer]:
    server = KeyServer(key_set(KEY))
    yield server
    server.close()


Done = queue.SimpleQueue[Access | ProviderError | None]


class Verifying(threading.Thread):
    """Verifies a token on a thread of its own."""

    def __init__(self, issuer: Issuer, token: str, done: Done | None = None) -> None:
        super().__init__(daemon=True)
        self._ask = partial(issuer.verify, token)
        self._done: Done = done or queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        """Verify it."""
        try:
            self._done.put(self._ask())
        except ProviderError as error:
            self._done.put(error)

    def result(self) -> Access | ProviderError | None:
        """Wait for what came of it."""
        return self._done.get(timeout=PATIENCE_S)


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


def test_a_token_gives_the_rights_of_its_groups_too(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(key_set(KEY))
    groups = Groups([GroupSettings(["groups=platform"], ["workspace:///docs/:read"])])
    issuer = Issuer(ISSUER, AUDIENCE, str(tmp_path / "keys.json"), groups)

    member = issuer.verify(sign(scope="logs:read", groups=["platform"]))
    other = issuer.verify(sign(scope="logs:read", groups=["web"]))

    assert member is not None
    assert member.scopes == frozenset({"logs:read", "workspace:///docs/:read"})
    assert other is not None
    assert other.scopes == frozenset({"logs:read"})


def test_scopes_may_be_a_list(issuer: Issuer) -> None:
    access = issuer.verify(sign(scope=None, scp=["a:read", 7]))

    assert access is not None
    assert access.scopes == frozenset({"a:read"})


@pytest.mark.parametrize("scope", [7, True, {"a:read": 1}, 1.5])
def test_a_scope_that_is_no_text_makes_no_token(issuer: Issuer, scope: object) -> None:
    assert issuer.verify(sign(scope=scope)) is None
    assert issuer.verify(sign(scope=None, scp=scope)) is None


def test_a_scope_that_is_null_makes_no_token(issuer: Issuer) -> None:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "exp": int(time()) + 600, "sub": "ann", "scope": None}

    assert issuer.verify(jwt.encode({"alg": "ES256", "kid": "one"}, claims, KEY)) is None


def test_a_caller_without_a_name_is_no_other_caller(issuer: Issuer) -> None:
    nameless = [sign(sub=None, jti="1"), sign(sub=None, jti="2"), sign(sub="")]
    names = {access.name for access in map(issuer.verify, [*nameless, sign(sub="ann")]) if access is not None}

    assert len(names) == 4
    assert issuer.known(nameless[0]) == issuer.verify(nameless[0])


def test_a_token_may_last_for_ever(issuer: Issuer) -> None:
    access = issuer.verify(sign(exp=10**400))

    assert access is not None
    assert access.expires_at is not None
    assert access.expires_at > time()


RSA = RSAKey.generate_key(2048, {"kid": "three"})
WIDE = ECKey.generate_key("P-384", {"kid": "four"})


@pytest.mark.parametrize("more", [{}, {"use": "sig"}])
def test_a_token_need_not_name_its_key(tmp_path: Path, more: dict[str, str]) -> None:
    (tmp_path / "keys.json").write_text(key_set(WIDE, RSA, KEY, OTHER, **more), "utf-8")
    issuer = Issuer(ISSUER, AUDIENCE, str(tmp_path / "keys.json"))

    for key, alg in ((KEY, "ES256"), (OTHER, "ES256"), (RSA, "RS256"), (RSA, "PS256"), (WIDE, "ES384")):
        assert issuer.verify(sign(key, alg, names_key=False)) is not None
    assert issuer.verify(sign(ECKey.generate_key("P-256"), names_key=False)) is None
    assert issuer.verify(sign(names_key=False)[:-4] + "AAAA") is None


@pytest.mark.parametrize(
    "strange",
    [
        {"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA"},
        {"kty": "AKP", "kid": "pq", "pub": "AAAA"},
        {"kty": "RSA", "n": 5, "e": "AQAB"},
        {},
        "key",
    ],
)
def test_a_key_that_is_not_understood_costs_none_of_the_others(tmp_path: Path, strange: object) -> None:
    keys = [strange, *json.loads(key_set(KEY))["keys"]]
    (tmp_path / "keys.json").write_text(json.dumps({"keys": keys}), "utf-8")

    assert Issuer(ISSUER, AUDIENCE, str(tmp_path / "keys.json")).verify(sign()) is not None


@pytest.mark.parametrize("more", [{"use": "enc"}, {"alg": "ES384"}])
def test_a_key_for_something_else_verifies_nothing(tmp_path: Path, more: dict[str, str]) -> None:
    (tmp_path / "keys.json").write_text(key_set(KEY, OTHER, **more), "utf-8")
    issuer = Issuer(ISSUER, AUDIENCE, str(tmp_path / "keys.json"))

    assert [issuer.verify(sign(names_key=named)) for named in (True, False)] == [None, None]


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


def test_keys_from_an_address_are_looked_for_again_when_they_change(keys: KeyServer) -> None:
    assert keys.issuer.verify(sign()) is not None
    keys.served = key_set(KEY, OTHER)
    # A key that is not known is not looked for at once again: a stranger could make us ask without end.
    assert keys.issuer.verify(sign(OTHER)) is None
    keys.grow_old()
    assert keys.issuer.verify(sign(OTHER)) is not None
    assert keys.times_asked == 2


def test_while_keys_are_fetched_only_those_wait_who_need_them(keys: KeyServer) -> None:
    known = sign()
    assert keys.issuer.verify(known) is not None
    keys.served = key_set(KEY, OTHER)
    keys.grow_old()
    keys.gate.clear()
    waiting = Verifying(keys.issuer, sign(OTHER))
    assert keys.asked.acquire(timeout=PATIENCE_S)
    assert keys.asked.acquire(timeout=PATIENCE_S)

    looking = threading.Thread(target=keys.issuer.known, args=(known,), daemon=True)
    looking.start()
    looking.join(PATIENCE_S)
    assert not looking.is_alive()
    assert isinstance(Verifying(keys.issuer, sign(sub="ben")).result(), Access)
    assert waiting.is_alive()
    keys.gate.set()
    assert isinstance(waiting.result(), Access)


def test_few_wait_for_keys_and_they_are_asked_for_once(keys: KeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuer_jwt, "FETCH_S", PATIENCE_S)
    assert keys.issuer.verify(sign()) is not None
    keys.grow_old()
    keys.gate.clear()
    done: Done = queue.SimpleQueue()
    for number in range(MAX_WAITING + 3):
        Verifying(keys.issuer, sign(OTHER, sub=str(number)), done)
    refused = [done.get(timeout=PATIENCE_S) for _ in range(3)]
    assert [one.word for one in refused if isinstance(one, ProviderError)] == ["busy"] * 3
    assert done.empty()
    keys.gate.set()

    assert [done.get(timeout=PATIENCE_S) for _ in range(MAX_WAITING)] == [None] * MAX_WAITING
    assert keys.times_asked == 2


def test_keys_that_do_not_arrive_in_time_are_not_waited_for(keys: KeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuer_jwt, "FETCH_S", 0.05)
    keys.gate.clear()

    assert Verifying(keys.issuer, sign()).result() is None


def test_keys_that_trickle_do_not_buy_time(keys: KeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuer_jwt, "FETCH_S", 0.1)
    keys.pause_s = 0.02
    keys.gate.clear()

    assert Verifying(keys.issuer, sign()).result() is None
    wait_for_fetches()
    assert keys.sent < len(keys.served)


def wait_for_fetches() -> None:
    for thread in threading.enumerate():
        if thread.name == "carrel-keys":
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def test_headers_that_trickle_do_not_keep_the_keys_from_being_looked_for_again(
    keys: KeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer_jwt, "FETCH_S", 0.1)
    keys.pause_s = 0.02
    keys.header = f"Slow: {'a' * 60_000}\r\n"
    keys.gate.clear()

    assert Verifying(keys.issuer, sign()).result() is None
    wait_for_fetches()
    monkeypatch.setattr(issuer_jwt, "FETCH_S", PATIENCE_S)
    keys.header = ""
    keys.gate.set()
    keys.grow_old()
    assert keys.issuer.verify(sign()) is not None


def test_keys_that_moved_are_found(keys: KeyServer) -> None:
    issuer = Issuer(ISSUER, AUDIENCE, f"{keys.address}/moved")

    assert issuer.verify(sign()) is not None
    assert keys.times_asked == 2


def certified(folder: Path) -> ssl.SSLContext:
    """Return the certificate of a server on this machine, which is also in `folder` for those who are to trust it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_certificate(folder))
    return context


def test_keys_by_https_come_in_time_from_a_server_that_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = KeyServer(key_set(KEY), certified(tmp_path))
    try:
        assert keys.issuer.verify(sign()) is None
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        assert Issuer(ISSUER, AUDIENCE, f"{keys.address}/moved").verify(sign()) is not None
        monkeypatch.setattr(issuer_jwt, "FETCH_S", 0.3)
        keys.pause_s = 0.02
        keys.header = f"Slow: {'a' * 60_000}\r\n"
        keys.gate.clear()
        assert Issuer(ISSUER, AUDIENCE, f"{keys.address}/keys").verify(sign()) is None
        wait_for_fetches()
    finally:
        keys.close()


def test_keys_of_other_machines_come_by_https(tmp_path: Path) -> None:
    assert [issuer_jwt._is_safe(one) for one in ("https://a/k", "http://[::1]/k", str(tmp_path), "http://a/k")] == [
        True,
        True,
        True,
        False,
    ]


def test_an_issuer_that_is_away_lets_nobody_in(tmp_path: Path) -> None:
    issuer = Issuer(ISSUER, AUDIENCE, str(tmp_path / "none.json"))

    assert [issuer.verify(sign()) for _ in range(2)] == [None, None]


def test_keys_are_not_taken_from_where_anybody_could_change_them() -> None:
    with pytest.raises(ConfigError, match="https"):
        Issuer(ISSUER, AUDIENCE, "http://login.example/keys")
