"""Open an address in the person's browser, or print it where there is none.

`BROWSER` is honoured as elsewhere: commands separated like the folders of PATH, with `%s` for the address. A browser
that would run in this terminal is not opened: it would fight with the server for the screen.
"""

import ipaddress
import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Final

from carrel.cli.stderr import say
from carrel.core.errors import ConfigError
from carrel.transports.http.visits import LINK_S

_LINUX: Final = ("xdg-open", "wslview", "x-www-browser", "gnome-open", "firefox", "chromium", "google-chrome")
_GRACE_S: Final = 2.0
"""How long a browser has to say that it cannot open an address."""


def opener(environment: Mapping[str, str], *, wanted: bool) -> Callable[[str], None]:
    """Return a function that opens a link; without a browser, or where none is wanted, it prints the link."""

    def open_(link: str) -> None:
        command = browser_command(environment, link) if wanted else None
        if command is None:
            say(_printed(link, "" if not wanted else "no browser was found; "))
        elif not _started(command, link):
            say(_printed(link, f"{command[0]} cannot be started; "))
        else:
            say(f"carrel: opened {link.partition('/-/')[0]}/ in the browser; Ctrl-C ends the server")

    return open_


def refuse_remote_browser(host: str) -> None:
    """Raise ConfigError if the server listens on an address that other machines reach."""
    if not ipaddress.ip_address(host).is_loopback:
        raise ConfigError(f"--open works on loopback only, and other machines can reach {host}: remove --open")


def prepare_pages() -> None:
    """Import what the first pages need while the browser starts: that takes longer than a page."""
    from carrel.explorer.preparing import prepare

    prepare()


def browser_command(environment: Mapping[str, str], link: str) -> list[str] | None:
    """Return the command that opens a link in a window; None if there is none."""
    path = environment.get("PATH", "")
    for named in environment.get("BROWSER", "").split(os.pathsep):
        try:
            words = shlex.split(named)
        except ValueError:
            continue
        if words and shutil.which(words[0], path=path) is not None:
            filled = [word.replace("%s", link) for word in words]
            return filled if filled != words else [*words, link]
    if environment.get("BROWSER"):
        return None
    if sys.platform == "darwin":
        return ["/usr/bin/open", link]
    if not any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")):
        return None
    found = (program for program in _LINUX if shutil.which(program, path=path) is not None)
    program = next(found, None)
    return None if program is None else [program, link]


def _started(command: list[str], link: str) -> bool:
    """Start a browser that outlives us; print the link if it ends at once with an error."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False

    def attend() -> None:
        try:
            code = process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.wait()  # so that it leaves nothing behind
            return
        if code:
            say(_printed(link, f"{command[0]} ended with status {code}; "))

    threading.Thread(target=attend, name="carrel-browser", daemon=True).start()
    return True


def _printed(link: str, why: str) -> str:
    return f"carrel: {why}open this link, which works once and for {int(LINK_S)} seconds: {link}"
