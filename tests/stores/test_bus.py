"""The bus: how it fails at the start, that it comes back by itself, and that no login is shown or sent unencrypted."""

import asyncio
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from carrel.core.bus_address import parse_bus
from carrel.core.errors import ConfigError
from carrel.stores.bus import Bus
from tests.support.certificates import make_certificate
from tests.support.nats import NatsServer
from tests.support.waiting import has_thread, until

PATIENCE_S = 60.0


@pytest.fixture(name="server")
def running_server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path).running() as server:
        yield server


def refused(url: str) -> str:
    """Return the sentence with which a start fails."""
    with closing(Bus(parse_bus(url))) as bus, pytest.raises(ConfigError) as error:
        bus.start()
    return str(error.value)


# The address


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://bus", "bus:4222"),
        ("nats://ann:s3cret@bus:4000/", "bus:4000"),
        ("tls://token@[::1]:4", "[::1]:4"),
        ("nats://a:1,nats://ann:s3cret@b:2", "a:1,b:2"),
    ],
)
def test_an_address_shows_no_login(url: str, shown: str) -> None:
    address = parse_bus(url)

    assert (address.shown, repr(address)) == (shown, f"BusAddress('{shown}')")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "redis://ann:s3cret@bus",
        "nats://",
        "nats://ann:s3cret@",
        "nats://ann:s3/cret@bus",
        "nats://ann:s3@cret@bus",
        "nats://ann:s3%cret@bus",
        "nats://ann:s3cret@bus:99999",
        "nats://ann:s3cret@a,tls://b",
        "nats://ann:s3cret@a,nats://ann:s4cret@b",
        "nats://ann:s3cret@a,",
        "nats://ann:s3cret@bus?x=1",
    ],
)
def test_a_wrong_url_is_refused_without_its_text(url: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_bus(url)

    assert str(error.value).startswith("[bus] url: ")
    assert "s3" not in str(error.value)


@pytest.mark.parametrize("subject", ["", "a..b", "a b", ">", "a.*", "x" * 300])
def test_a_wrong_subject_is_refused(subject: str) -> None:
    with pytest.raises(ConfigError, match=r"^\[bus\] subject: "):
        parse_bus("nats://bus", subject)


# The start


def test_a_wrong_login_is_one_sentence_without_it(server: NatsServer) -> None:
    login = f"the bus 127.0.0.1:{server.port} refused the login: the user, the password or the token is wrong"

    assert refused(f"nats://ann:wr0ng@127.0.0.1:{server.port}") == login
    assert refused(f"nats://127.0.0.1:{server.port}") == login


def test_a_server_that_is_not_there_or_says_nothing_is_one_sentence(unused_port: int) -> None:
    there = f"the bus 127.0.0.1:{unused_port} cannot be reached: is NATS running there?"
    assert refused(f"nats://ann:s3cret@127.0.0.1:{unused_port}") == there
    assert "cannot be found: check the name of the host" in refused("nats://ann:s3cret@nowhere.invalid")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = refused(f"nats://ann:s3cret@127.0.0.1:{silent.getsockname()[1]}")
    assert said.endswith("does not answer: check the host, the port and the firewall")


def test_no_login_is_sent_to_a_server_without_tls_if_the_address_demands_it(server: NatsServer) -> None:
    said = refused(server.url.replace("nats://", "tls://"))

    assert (
        said
        == f"the bus 127.0.0.1:{server.port} offers no TLS, so no login was sent: use nats://, or turn TLS on there"
    )


@contextmanager
def encrypted(folder: Path, address: str = "127.0.0.1") -> Iterator[tuple[NatsServer, Path]]:
    """Run a server that demands TLS; yield it and its certificate."""
    certificate, key = make_certificate(folder, address)
    tls = {"cert_file": str(certificate), "key_file": str(key)}
    with NatsServer(folder, tls=tls).running() as server:
        yield server, certificate


@pytest.mark.parametrize("scheme", ["tls", "nats"])
def test_signals_go_over_tls_to_a_server_whose_certificate_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    heard = threading.Semaphore(0)
    with encrypted(tmp_path) as (server, certificate):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        address = parse_bus(server.url.replace("nats://", f"{scheme}://"))
        with closing(Bus(address)) as one, closing(Bus(address)) as other:
            other.start()
            other.listen(heard.release)
            assert heard.acquire(timeout=PATIENCE_S)

            one.signal()

            assert heard.acquire(timeout=PATIENCE_S)


@pytest.mark.parametrize(("address", "is_trusted"), [("127.0.0.1", False), ("127.0.0.2", True)])
def test_a_certificate_that_is_not_trusted_or_is_of_another_server_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, is_trusted: bool
) -> None:
    with encrypted(tmp_path, address) as (server, certificate):
        if is_trusted:
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

        said = refused(server.url.replace("nats://", "tls://"))

    assert said == f"the bus 127.0.0.1:{server.port} cannot agree on TLS: check the certificates"


def test_a_user_who_may_not_subscribe_is_one_sentence(tmp_path: Path) -> None:
    with NatsServer(tmp_path, {"subscribe": "other"}).running() as server, closing(Bus(parse_bus(server.url))) as bus:
        bus.listen(lambda: None)
        with pytest.raises(ConfigError, match="does not allow this user to publish and to subscribe there"):
            bus.start()


# Signals


def test_a_signal_reaches_the_others_and_only_those_of_its_subject(server: NatsServer) -> None:
    near, far = threading.Semaphore(0), threading.Semaphore(0)
    with (
        closing(Bus(parse_bus(server.url))) as one,
        closing(Bus(parse_bus(server.url))) as other,
        closing(Bus(parse_bus(server.url, "another.desk"))) as stranger,
    ):
        other.start()
        other.listen(near.release)
        stranger.start()
        stranger.listen(far.release)
        assert near.acquire(timeout=PATIENCE_S)  # the first look
        assert far.acquire(timeout=PATIENCE_S)

        one.signal()

        assert near.acquire(timeout=PATIENCE_S)
        stranger.signal()
        assert far.acquire(timeout=PATIENCE_S)
        assert not far.acquire(blocking=False)


def test_a_signal_that_was_given_just_before_the_end_is_sent(server: NatsServer) -> None:
    heard = threading.Semaphore(0)
    with closing(Bus(parse_bus(server.url))) as other:
        other.start()
        other.listen(heard.release)
        assert heard.acquire(timeout=PATIENCE_S)
        with closing(Bus(parse_bus(server.url))) as one:
            one.signal()

        assert heard.acquire(timeout=PATIENCE_S)


def test_a_bus_that_went_away_is_found_again_and_asks_for_a_look(
    server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    heard = threading.Semaphore(0)
    with closing(Bus(parse_bus(server.url))) as bus, caplog.at_level(logging.WARNING):
        bus.start()
        bus.listen(heard.release)
        assert heard.acquire(timeout=PATIENCE_S)

        server.stop()
        until(lambda: "changes arrive later" in caplog.text, PATIENCE_S)
        bus.signal()
        server.start()

        assert heard.acquire(timeout=PATIENCE_S)
        until(lambda: "answers again" in caplog.text, PATIENCE_S)
    assert "s3cret" not in caplog.text
    assert len(caplog.records) == 2


def test_a_bus_that_is_closed_stays_closed_and_leaves_no_task(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops = [asyncio.new_event_loop()]
    monkeypatch.setattr(asyncio, "new_event_loop", lambda: loops[0])
    bus = Bus(parse_bus(server.url))
    bus.start()
    bus.listen(lambda: None)
    bus.close()
    assert loops[0].is_closed()
    assert not asyncio.all_tasks(loops[0])
    bus.close()
    bus.signal()

    assert not has_thread("carrel-bus")


# Commands


def carrel(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder), **variables}
    command = [str(Path(sys.executable).parent / "carrel"), *words]
    return subprocess.run(
        command,
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", [("serve",), ("serve", "--http", "0", "--no-token")])
def test_a_server_whose_bus_cannot_be_used_ends_with_one_sentence_and_code_2(
    tmp_path: Path, store_url: str, unused_port: int, words: tuple[str, ...]
) -> None:
    url = f"nats://ann:s3cret@127.0.0.1:{unused_port}"

    ended = carrel(tmp_path, *words, CARREL_STORE_URL=store_url, CARREL_BUS_URL=url)

    there = f"the bus 127.0.0.1:{unused_port} cannot be reached: is NATS running there?"
    assert ended.returncode == 2
    assert ended.stderr.strip() == f"carrel: {there}"


def test_a_bus_without_a_store_is_refused(tmp_path: Path) -> None:
    ended = carrel(tmp_path, "ls", CARREL_BUS_URL="nats://ann:s3cret@bus", CARREL_STORE_URL="")

    assert ended.returncode == 2
    assert "a bus needs a store" in ended.stderr
    assert "s3cret" not in ended.stderr


def test_a_command_signals_what_it_wrote_and_works_without_the_bus(
    tmp_path: Path, store_url: str, server: NatsServer
) -> None:
    heard = threading.Semaphore(0)
    places = {"CARREL_STORE_URL": store_url, "CARREL_BUS_URL": server.url}
    with closing(Bus(parse_bus(server.url))) as bus:
        bus.start()
        bus.listen(heard.release)
        assert heard.acquire(timeout=PATIENCE_S)

        assert carrel(tmp_path, "scopes", "create", "Garden", **places).returncode == 0

        assert heard.acquire(timeout=PATIENCE_S)
    server.stop()
    assert carrel(tmp_path, "scopes", "create", "House", **places).returncode == 0
    assert "House" in carrel(tmp_path, "scopes", "list", **places).stdout
