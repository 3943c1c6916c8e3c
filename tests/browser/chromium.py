"""A real browser for the tests, without root and without anything installed on the machine.

The browser is the one that `CARREL_BROWSER` names, else a Chromium or Chrome on the PATH, else the one that
`make browser` fetched. Python's `playwright` drives it: that package brings playwright-core and the Node that runs it,
downloads no browser when it is told which program to start, and gives the tests types. A driver of our own around
playwright-core from npm would need a second protocol, and a Node of a version that a machine may not have.

Whatever the browser asks of another machine, for a page or for itself, goes to a proxy of ours, which answers nobody
and remembers who asked.
"""

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

FETCHED = Path(__file__).resolve().parents[2] / ".browser"
PACKED = FETCHED / "chromium"
ON_PATH = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",
)
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{folder}/fonts</dir><cachedir>{folder}/fonts-cache</cachedir></fontconfig>
"""


@cache
def executable() -> str:
    """Return the browser to start; that there is none is a failure, and says what to do."""
    named = os.environ.get("CARREL_BROWSER", "")
    found = named or next(filter(None, map(shutil.which, ON_PATH)), "") or str(PACKED / "chromium")
    assert os.access(found, os.X_OK), f"There is no browser at {found}: run make browser, or name one by CARREL_BROWSER"
    return found


def environment(program: str) -> dict[str, str]:
    """Return the environment for a browser: with the packed libraries and fonts, if the machine has none."""
    variables = dict(os.environ)
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    if "not found" in linked:
        kept = variables.get("LD_LIBRARY_PATH")
        variables["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(PACKED / "al2023/lib"), kept]))
    if not Path("/etc/fonts/fonts.conf").exists():
        made = PACKED / "fonts.conf"
        made.write_text(FONTS.format(folder=PACKED / "fonts"), encoding="utf-8")
        variables["FONTCONFIG_FILE"] = str(made)
    return variables


class Outside:
    """The rest of the world: a proxy that closes every connection and remembers what was wanted."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._door = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://127.0.0.1:{self._door.getsockname()[1]}"

    def close(self) -> None:
        """Stop listening."""
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._door.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(1)
                try:
                    self.asked.append(connection.recv(4096).partition(b"\r\n")[0].decode("latin-1"))
                except OSError as error:
                    self.asked.append(f"a connection that said nothing ({error})")


@contextmanager
def browsing(outside: Outside) -> Iterator[Browser]:
    """Start a browser with a profile of its own."""
    program = executable()
    variables: Mapping[str, str | float | bool] = environment(program)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=[*FLAGS, f"--proxy-server={outside.address}"],
            env=dict(variables),
            chromium_sandbox=False,
        )
        try:
            yield browser
        finally:
            browser.close()
