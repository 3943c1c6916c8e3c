"""Other people's servers, mounted in the installed `carrel serve`: all of them give what they have."""

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from carrel.client import Client
from carrel.errors import RemoteError
from carrel.model import Blob, Text

EVERYTHING = Path(__file__).resolve().parents[2] / ".node/node_modules/.bin/mcp-server-everything"
SDK = [sys.executable, str(Path(__file__).with_name("sdk_server.py"))]
PATIENCE_S = 30.0
ERAS = ("auto", "legacy")


@contextmanager
def serving(carrel: str, folder: Path, name: str, command: Sequence[str], **settings: object) -> Iterator[Client]:
    """Start a Carrel that has mounted a server, the way a host starts it."""
    home = folder / "home"
    lines = [f"[mounts.{name}]", f"command = {json.dumps(list(command))}"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    (home / ".config/carrel").mkdir(parents=True, exist_ok=True)
    (home / ".config/carrel/config.toml").write_text("\n".join(lines), encoding="utf-8")
    started = [carrel, "serve", "--quiet", "--project", str(folder), "--without", "workspace"]
    environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""}
    with Client.start(started, env=environment, stderr=lambda _: None) as client:
        yield client


def wait_for(client: Client, scheme: str) -> list[str]:
    """Give what a mount lists, once it is up; a change of the list is told."""
    with client.listen(list_changes=True) as listening:
        deadline = monotonic() + PATIENCE_S
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


@pytest.mark.parametrize("era", ERAS)
def test_a_server_on_the_official_sdk_is_mounted(carrel: str, tmp_path: Path, era: str) -> None:
    with serving(carrel, tmp_path, "library", SDK, era=era) as client:
        assert wait_for(client, "library:") == ["library://motto"]
        assert [template.uri_template for template in client.templates()] == ["library://shelf/{number}"]
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


@pytest.mark.parametrize("era", ERAS)
def test_the_reference_server_is_mounted(carrel: str, tmp_path: Path, era: str) -> None:
    assert EVERYTHING.exists(), "run make e2e: it fetches the server"

    with serving(carrel, tmp_path, "everything", [str(EVERYTHING), "stdio"], era=era, inherit_env=True) as client:
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


@pytest.mark.parametrize("era", ERAS)
def test_another_carrel_is_mounted_and_prefixed(carrel: str, tmp_path: Path, project: Path, era: str) -> None:
    command = [carrel, "serve", "--quiet", "--project", str(project)]
    with serving(carrel, tmp_path, "weather", command, era=era) as client:
        listed = wait_for(client, "weather+")
        uri = "weather+workspace:///lib/main.dart"
        assert uri in listed
        assert text_of(client, uri) == (project / "lib/main.dart").read_text(encoding="utf-8")
        template = "weather+workspace:///{+path}{?start,length,lines}"
        assert client.complete(template, "path", "lib/f").values == ("lib/forecast.dart",)
        with client.listen([uri]) as listening:
            assert listening.honoured == (uri,)
            (project / "lib/main.dart").write_text("void main() {}\n", encoding="utf-8")
            assert listening.wait(PATIENCE_S) == uri
        assert text_of(client, uri) == "void main() {}\n"


def pid_of(command: str) -> int:
    """Find the process that was started with this word among its arguments."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if command.encode() in words and b"sdk_server.py" in words[1]:
            return int(place.parent.name)
    raise AssertionError("the mounted server does not run")


def test_a_server_killed_amid_a_thousand_reads_gives_clean_errors_and_comes_back(carrel: str, tmp_path: Path) -> None:
    mark = f"--{tmp_path.name}"
    with serving(carrel, tmp_path, "library", [*SDK, mark], timeout_s=10) as client:
        assert wait_for(client, "library:") == ["library://motto"]

        def read(number: int) -> str:
            if number == 300:
                os.kill(pid_of(mark), signal.SIGKILL)
            try:
                return "right" if text_of(client, f"library://shelf/{number}") == f"shelf {number}" else "wrong"
            except RemoteError as error:
                return f"{error.code} {error.message} {error.word} {sorted(error.data)}"

        with ThreadPoolExecutor(8) as pool:
            told = Counter(pool.map(read, range(1_000)))
        data = ["dev.carrel/error", "retryAfterMs", "uri"]
        assert set(told) <= {"right", f"-32603 Mount is unavailable: library unavailable {data}"}
        assert told["right"] >= 250
        assert text_of(client, "carrel://guide")
        deadline = monotonic() + PATIENCE_S
        while read(1_001) != "right":
            assert monotonic() < deadline, "it did not come back"
        health = json.loads(text_of(client, "carrel://health"))
        [mount] = [one for one in health["providers"] if one["name"] == "library"]
        assert (mount["state"], mount["restarts"]) == ("up", 1)
