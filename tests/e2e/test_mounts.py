"""Other people's servers, mounted in the installed `carrel serve`: all of them give what they have."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic

import pytest

from carrel.client.client import Client
from carrel.core.errors import RemoteError
from carrel.core.model import Blob, Text
from tests.e2e.http_desk import serving as serving_http
from tests.support.ports import free_ports
from tests.support.waiting import until

EVERYTHING = Path(__file__).resolve().parents[2] / ".node/node_modules/.bin/mcp-server-everything"
SDK = [sys.executable, str(Path(__file__).with_name("sdk_server.py"))]
START_S = 30.0
"""A server that is started is a whole program, of somebody else's."""
ERAS = ("auto", "legacy")
DOORS = ("stdio", "http")
Start = Callable[[int], AbstractContextManager["subprocess.Popen[str]"]]


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {json.dumps(inner)}" for key, inner in value.items()) + " }"
    return json.dumps(value)


@contextmanager
def serving(carrel: str, folder: Path, name: str, command: Sequence[str] = (), **settings: object) -> Iterator[Client]:
    """Start a Carrel that has mounted a server, the way a host starts it."""
    home = folder / "home"
    lines = [f"[mounts.{name}]", *([f"command = {json.dumps(list(command))}"] if command else [])]
    lines += [f"{key} = {_toml(value)}" for key, value in settings.items()]
    (home / ".config/carrel").mkdir(parents=True, exist_ok=True)
    (home / ".config/carrel/config.toml").write_text("\n".join(lines), encoding="utf-8")
    started = [carrel, "serve", "--quiet", "--project", str(folder), "--without", "workspace"]
    environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""}
    # Of one era: a probe that a busy machine answers late would choose the other.
    with Client.start(started, env=environment, era="modern", stderr=lambda _: None) as client:
        yield client


def wait_for(client: Client, scheme: str) -> list[str]:
    """Return what a mount lists, once it is up; a change of the list is told."""
    with client.listen(list_changes=True) as listening:
        deadline = monotonic() + START_S
        while True:
            listed = [entry.uri for entry in client.resources() if entry.uri.startswith(scheme)]
            if listed or monotonic() > deadline:
                return listed
            listening.wait(1.0)


def text_of(client: Client, uri: str) -> str:
    [item] = client.read(uri).items
    assert isinstance(item, Text)
    assert item.uri == uri
    return item.text


@contextmanager
def listening(command: Sequence[str], said: str, port: int, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Start a server that serves an address; wait until it says so."""
    environment = {**os.environ, **variables}
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment) as it:
        assert it.stderr is not None
        assert any(said in line for line in it.stderr), f"{command[0]} does not serve port {port}"
        draining = threading.Thread(target=it.stderr.read, daemon=True)
        draining.start()
        try:
            yield it
        finally:
            it.kill()
            it.wait()
            draining.join(START_S)


def sdk_at(port: int) -> AbstractContextManager[subprocess.Popen[str]]:
    return listening([*SDK, str(port)], "Uvicorn running", port)


def everything_at(port: int) -> AbstractContextManager[subprocess.Popen[str]]:
    assert EVERYTHING.exists(), "run make e2e: it fetches the server"
    return listening([str(EVERYTHING), "streamableHttp"], "listening on port", port, PORT=str(port))


@contextmanager
def library(carrel: str, folder: Path, door: str, era: str) -> Iterator[Client]:
    """Mount the server on the official SDK, by one door or the other."""
    if door == "stdio":
        with serving(carrel, folder, "library", SDK, era=era, poll_s=0.2) as client:
            yield client
        return
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}/mcp"
    with sdk_at(port), serving(carrel, folder, "library", url=url, era=era, poll_s=0.2) as client:
        yield client


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("door", DOORS)
def test_a_server_on_the_official_sdk_is_mounted(carrel: str, tmp_path: Path, door: str, era: str) -> None:
    with library(carrel, tmp_path, door, era) as client:
        assert wait_for(client, "library:") == ["library://motto", "library://slate"]
        assert "library://shelf/{number}" in [template.uri_template for template in client.templates()]
        assert client.complete("library://shelf/{number}", "number", "1").values == ("12", "13")
        with client.listen(["library://slate"]) as news:
            assert news.honoured == ("library://slate",)
            assert text_of(client, "library://slate") == "clean"
            assert text_of(client, "library://chalk/wet") == "wet"
            assert news.wait(START_S) == "library://slate"
        assert text_of(client, "library://slate") == "wet"
        assert text_of(client, "library://motto") == "Sapere aude — ☀"
        assert text_of(client, "library://shelf/7") == "shelf 7"
        reading = client.read("library://motto")
        assert client.read("library://motto", if_none_match=reading.etag).unchanged
        [part] = client.read("library://motto?start=7&length=4").items
        assert isinstance(part, Text)
        assert part.text == "aude"
        with pytest.raises(RemoteError) as caught:
            client.read("library://nothing/here")
        assert (caught.value.code, caught.value.word) == (-32602, "not_found")


@contextmanager
def everything(carrel: str, folder: Path, door: str, era: str) -> Iterator[Client]:
    """Mount the reference server, by one door or the other."""
    if door == "stdio":
        assert EVERYTHING.exists(), "run make e2e: it fetches the server"
        command = [str(EVERYTHING), "stdio"]
        with serving(carrel, folder, "everything", command, era=era, inherit_env=True, poll_s=0.5) as client:
            yield client
        return
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}/mcp"
    with everything_at(port), serving(carrel, folder, "everything", url=url, era=era, poll_s=0.5) as client:
        yield client


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("door", DOORS)
def test_the_reference_server_is_mounted(carrel: str, tmp_path: Path, door: str, era: str) -> None:
    with everything(carrel, tmp_path, door, era) as client:
        listed = wait_for(client, "demo:")
        assert len(listed) > 1
        for uri in listed:
            [item] = client.read(uri).items
            assert isinstance(item, Text | Blob)
            assert item.uri == uri
        templates = [template.uri_template for template in client.templates()]
        assert "demo://resource/dynamic/text/{resourceId}" in templates
        assert "1" in text_of(client, "demo://resource/dynamic/text/1")
        [blob] = client.read("demo://resource/dynamic/blob/1").items
        assert isinstance(blob, Blob)
        assert client.complete("demo://resource/dynamic/text/{resourceId}", "resourceId", "7").values == ("7",)
        assert client.complete("demo://resource/dynamic/text/{resourceId}", "resourceId", "x").values == ()
        with client.listen(listed[:1]) as listening:
            assert listening.honoured == (listed[0],)


@pytest.mark.parametrize("era", ERAS)
def test_another_carrel_is_mounted_and_prefixed(carrel: str, tmp_path: Path, project: Path, era: str) -> None:
    command = [carrel, "serve", "--quiet", "--project", str(project)]
    with serving(carrel, tmp_path, "weather", command, era=era) as client:
        listed = wait_for(client, "weather+")
        uri = "weather+workspace:///lib/main.dart"
        assert uri in listed
        assert text_of(client, uri) == (project / "lib/main.dart").read_text(encoding="utf-8")
        template = "weather+workspace:///{+path}{?start,length,lines,outline}"
        assert client.complete(template, "path", "lib/f").values == ("lib/forecast.dart",)
        with client.listen([uri]) as listening:
            assert listening.honoured == (uri,)
            (project / "lib/main.dart").write_text("void main() {}\n", encoding="utf-8")
            assert listening.wait(START_S) == uri
        assert text_of(client, uri) == "void main() {}\n"


@pytest.mark.parametrize("era", ERAS)
def test_another_carrel_is_mounted_by_its_address(carrel: str, tmp_path: Path, project: Path, era: str) -> None:
    uri = "weather+workspace:///lib/main.dart"
    with serving_http(carrel, project) as desk:
        with serving(carrel, tmp_path, "weather", url=desk.url, headers=desk.headers, era=era) as client:
            assert uri in wait_for(client, "weather+")
            assert text_of(client, uri) == (project / "lib/main.dart").read_text(encoding="utf-8")
            with client.listen([uri]) as listening:
                assert listening.honoured == (uri,)
                (project / "lib/main.dart").write_text("void main() {}\n", encoding="utf-8")
                assert listening.wait(START_S) == uri
            assert text_of(client, uri) == "void main() {}\n"
        denied = pytest.raises(RemoteError, match="Mount is unavailable: weather")
        with serving(carrel, tmp_path, "weather", url=desk.url, era=era) as client, denied:
            client.read(uri)


def pid_of(word: str) -> int:
    """Find the process that was started with this word among its arguments."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if word.encode() in words:
            return int(place.parent.name)
    raise AssertionError("the mounted server does not run")


def read_and_kill(client: Client, template: str, kill: Callable[[], None]) -> Counter[str]:
    """Read a thousand URIs on eight threads, kill the server amid them; return what was told how often."""

    def read(number: int) -> str:
        if number == 300:
            kill()
        try:
            return "right" if f"{number}" in text_of(client, template.format(number)) else "wrong"
        except RemoteError as error:
            return f"{error.code} {error.message} {error.word} {sorted(error.data)}"

    with ThreadPoolExecutor(8) as pool:
        return Counter(pool.map(read, range(1, 1_001)))


def expect_recovery(client: Client, told: Counter[str], name: str, uri: str) -> None:
    """Nothing but clean errors; others are answered; the server comes back after one restart."""
    data = ["dev.carrel/error", "retryAfterMs", "uri"]
    assert set(told) <= {"right", f"-32603 Mount is unavailable: {name} unavailable {data}"}
    assert told["right"] >= 250
    assert text_of(client, "carrel://guide")
    until(lambda: is_back(client, uri), START_S)
    health = json.loads(text_of(client, "carrel://health"))
    [mount] = [one for one in health["providers"] if one["name"] == name]
    assert mount["state"] == "up"
    assert mount["restarts"] >= 1


def is_back(client: Client, uri: str) -> bool:
    try:
        return bool(client.read(uri).items)
    except RemoteError:
        return False


def test_a_server_killed_amid_a_thousand_reads_gives_clean_errors_and_comes_back(carrel: str, tmp_path: Path) -> None:
    mark = f"--{tmp_path.name}"
    with serving(carrel, tmp_path, "library", [*SDK, mark], timeout_s=10) as client:
        assert wait_for(client, "library:")
        told = read_and_kill(client, "library://shelf/{}", lambda: os.kill(pid_of(mark), signal.SIGKILL))
        expect_recovery(client, told, "library", "library://shelf/1")


@pytest.mark.parametrize(
    ("start", "template"), [(sdk_at, "library://shelf/{}"), (everything_at, "demo://resource/dynamic/text/{}")]
)
@pytest.mark.parametrize("era", ERAS)
def test_a_server_at_an_address_killed_amid_a_thousand_reads_gives_clean_errors_and_comes_back(
    carrel: str, tmp_path: Path, start: Start, template: str, era: str
) -> None:
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}/mcp"
    with start(port) as first, serving(carrel, tmp_path, "foreign", url=url, timeout_s=3, era=era) as client:
        assert wait_for(client, template.partition(":")[0])
        told = read_and_kill(client, template, first.kill)
        with pytest.raises(RemoteError, match="Mount is unavailable: foreign"):
            client.read(template.format(1_001))
        with start(port):
            expect_recovery(client, told, "foreign", template.format(1))


def test_another_carrel_killed_amid_a_thousand_reads_gives_clean_errors_and_comes_back(
    carrel: str, tmp_path: Path, project: Path
) -> None:
    (project / "lib/many").mkdir()
    for number in range(1_001):
        (project / f"lib/many/{number}.dart").write_text(f"{number}", encoding="utf-8")
    uri = "weather+workspace:///lib/many/{}.dart"
    [port] = free_ports(1)
    command = [carrel, "serve", "--project", str(project), "--http", str(port), "--no-token"]
    url = f"http://127.0.0.1:{port}/mcp"
    start = partial(listening, command, "no token", port)
    with start() as first, serving(carrel, tmp_path, "weather", url=url, timeout_s=3) as client:
        assert wait_for(client, "weather+")
        told = read_and_kill(client, uri, first.kill)
        with start():
            # One that was not read before: of others there may still be fresh copies.
            expect_recovery(client, told, "weather", uri.format(0))
    command = [carrel, "serve", "--quiet", "--project", str(project)]
    with serving(carrel, tmp_path, "weather", command, timeout_s=10) as client:
        assert wait_for(client, "weather+")
        told = read_and_kill(client, uri, lambda: os.kill(pid_of(str(project)), signal.SIGKILL))
        expect_recovery(client, told, "weather", uri.format(1))
