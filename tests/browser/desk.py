"""A desk for the tests: the installed `carrel serve --http --open` over a project, as a user starts it."""

import json
import os
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.browser.project import EVIL, FRIEND, GARDEN, lay_out_everything
from tests.support.http_asking import META, MODERN
from tests.support.sage_folder import put

CARREL = str(Path(sys.executable).parent / "carrel")
UNSEEN = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "CARREL_TOKEN")
"""Variables by which a desk would open the browser of the person who runs the tests."""


class Answer(NamedTuple):
    """What came back to a plain request."""

    status: int
    headers: dict[str, str]
    body: bytes


class Desk:
    """A desk that is being served."""

    def __init__(self, process: "subprocess.Popen[str]", project: Path, environment: Mapping[str, str]) -> None:
        self.process = process
        self.project = project
        self.environment = environment
        self.said: list[str] = []
        self.origin = self.link = ""
        self._draining: threading.Thread | None = None

    @property
    def token(self) -> str:
        """The local token."""
        return (Path(self.environment["XDG_STATE_HOME"]) / "carrel/local-token").read_text(encoding="ascii").strip()

    def listen(self, *, has_link: bool = True) -> None:
        """Wait until it serves, and has printed its link if it has one; then read on, so that it can go on writing."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.search(r"(http://\S+)/mcp", line):
                self.origin = found[1]
                if not has_link:
                    break
            if found := re.search(r"(http://\S+?)(/-/open\?\S+)", line):
                self.origin, self.link = found[1], found[1] + found[2]
                break
        assert self.link if has_link else self.origin, "".join(self.said)
        self._draining = threading.Thread(target=self._drain, daemon=True)
        self._draining.start()

    def stop(self) -> None:
        """Stop it as a user does."""
        self.process.terminate()
        ended_with = self.process.wait(10)
        if self._draining is not None:
            self._draining.join(5)
        assert ended_with == 0, f"{ended_with}: {''.join(self.said)[-4_000:]}"

    def add_token(self, name: str, *scopes: str) -> str:
        """Create a token with these scopes."""
        options = [word for scope in scopes for word in ("--scope", scope)]
        return self.run("token", "add", name, *options).split()[0]

    def run(self, *words: str) -> str:
        """Run a command of Carrel's in this project."""
        command = [CARREL, *words]
        done = subprocess.run(
            command, cwd=self.project, env=self.environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    def get(self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Answer:
        """Ask over plain HTTP, by default with the local token; redirects are not followed."""
        given = {"Authorization": f"Bearer {self.token}"} if headers is None else dict(headers)
        request = urllib.request.Request(self.origin + path, headers=given, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay())
        try:
            with opener.open(request, timeout=30) as answer:
                return Answer(answer.status, _lower(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, _lower(error.headers), error.read())

    def read(self, uri: str, token: str = "") -> dict[str, Any]:
        """Ask the protocol for a resource; return the whole answer."""
        return self.call("resources/read", {"uri": uri}, uri, token)

    def call(self, method: str, params: Mapping[str, object], name: str = "", token: str = "") -> dict[str, Any]:
        """Make a call of the protocol; return the whole answer."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META, **params}}
        headers = {
            "Authorization": f"Bearer {token or self.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": method,
            **({"Mcp-Name": name} if name else {}),
        }
        request = urllib.request.Request(f"{self.origin}/mcp", json.dumps(message).encode(), headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=30) as answer:
                told: dict[str, Any] = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                told = json.loads(error.read())
        return told

    def _drain(self) -> None:
        assert self.process.stderr is not None
        self.said.extend(self.process.stderr)


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow no redirect."""


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def surroundings(home: Path) -> dict[str, str]:
    """Return an environment in which everything of the user's is in a folder of the test."""
    kept = {name: value for name, value in os.environ.items() if name not in UNSEEN}
    places = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("STATE", "CONFIG", "CACHE", "DATA", "RUNTIME")}
    return {**kept, "HOME": str(home), **places}


@contextmanager
def serving(
    project: Path, home: Path, flags: Sequence[str] = (), port: int = 0, *, opens: bool = True
) -> Iterator[Desk]:
    """Start a desk on a free port, and stop it; without `opens`, it prints no link."""
    environment = surroundings(home)
    command = [CARREL, "serve", "--http", str(port), *["--open"] * opens, "--project", str(project), *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=project) as process:
        desk = Desk(process, project, environment)
        try:
            desk.listen(has_link=opens)
            yield desk
        finally:
            desk.stop()


def lay_out_desk(folder: Path) -> Path:
    """Write the project, a shelf beside it, and the settings of a user who mounted a friend's server."""
    project = folder / "weather_desk"
    lay_out_everything(project)
    put(folder / "garden.py", GARDEN)
    put(folder / "diary.md", "Monday: sowed beans.\n")
    put(folder / "friend.py", FRIEND.format(evil=EVIL.replace('"', '\\"')))
    mount = [
        CARREL,
        "serve",
        "--quiet",
        "--without",
        "workspace,logs,guide",
        "--project",
        str(folder / "elsewhere"),
        f"{folder}/friend.py",
    ]
    (folder / "elsewhere").mkdir()
    put(folder / "home/.claude.json", '{"mcpServers": {"carrel": {"command": "carrel", "args": ["serve"]}}}\n')
    put(folder / "home/config/carrel/config.toml", f"[mounts.friend]\ncommand = {json.dumps(mount)}\n")
    return project


@contextmanager
def running(desk: Desk, name: str, script: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a shell script under `carrel run`, whose input the test holds."""
    command = [CARREL, "run", "--name", name, "--", "sh", "-c", script]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=desk.project, env=desk.environment, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.stdin.close()
            process.wait(10)
