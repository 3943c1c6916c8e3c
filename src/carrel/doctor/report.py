"""A report to paste into an issue: what was found, without paths, names and secrets."""

import os
import platform
import re
import socket
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final

from carrel.core.version import __version__
from carrel.doctor.checks import Finding
from carrel.doctor.setup import Setup
from carrel.providers.logs.redaction import Redactor

_SECRET_NAME: Final = re.compile(r"TOKEN|KEY|SECRET|PASS|AUTH|CREDENTIAL|COOKIE|SESSION", re.IGNORECASE)
_URL: Final = re.compile(r"\b([a-z][a-z0-9+.-]*)://[^\s'\"`,;)]*", re.IGNORECASE)
_PATH: Final = re.compile(r"(?<![\w:</])(?:~|\.{1,2}|[\w.@+-]+)?/[^\s'\"`,;:()]*")
_OURS: Final = re.compile(r"(\.(carrel|sage|claude/skills|agents/skills)|~/\.algocline)/?|\.carrel/(scopes\.db|logs)")
"""Paths that are the same in every project, and say what is missing."""
_LONG: Final = re.compile(r"\b[A-Za-z0-9_+=-]{32,}")
_MAIL: Final = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+")
_MARKS: Final = {"ok": "✓", "note": "!", "problem": "✗"}


def render(setup: Setup, findings: Sequence[Finding]) -> str:
    """Return the report in Markdown."""
    lines = [
        "### carrel doctor --report",
        "",
        f"- Carrel {__version__}, Python {platform.python_version()} ({platform.python_implementation()})",
        f"- {platform.system()} {platform.release()} {platform.machine()}, SQLite {sqlite3.sqlite_version}",
        "",
        "```",
    ]
    for one in findings:
        if one.message or one.state != "ok":
            host = f" ({one.host})" if one.host else ""
            lines.append(f"{_MARKS[one.state]} {one.id}{host}: {without_private(one.message, setup)}")
    passed = [one.id for one in findings if one.state == "ok" and not one.message]
    return "\n".join([*lines, f"✓ {', '.join(passed)}", "```", ""])


def without_private(text: str, setup: Setup) -> str:
    """Return a text without secrets, addresses, paths and the names of the user and the machine."""
    for secret in _secrets(setup):
        text = text.replace(secret, "<secret>")
    text = "\n".join(Redactor()(text.split("\n"))).replace("[redacted]", "<secret>")
    text = _MAIL.sub("<mail>", text)
    text = _URL.sub(lambda found: f"{found[1]}://<address>", text)
    text = _without_folders(text, setup)
    text = _PATH.sub(lambda found: found[0] if _OURS.fullmatch(found[0]) else "<path>", text)
    text = _LONG.sub("<secret>", text)
    for name in _names(setup.environment):
        text = re.sub(rf"\b{re.escape(name)}\b", "<name>", text)
    return text


def _secrets(setup: Setup) -> list[str]:
    """Return the values that must not be shown, the longest first: of variables, headers and mounts' environments."""
    found = {value for name, value in setup.environment.items() if _SECRET_NAME.search(name)}
    config = setup.config
    for section in () if config is None else config.sections:
        for key in ("headers", "env"):
            given = {} if config is None else config.values(section).get(key)
            found.update(map(str, given.values()) if isinstance(given, dict) else ())
    return sorted((one for one in found if len(one) >= 4), key=len, reverse=True)


def _without_folders(text: str, setup: Setup) -> str:
    """Remove paths that the pattern of paths would cut short, such as those with spaces."""
    root = "" if setup.config is None else setup.config.root
    places = {root, setup.home, os.path.realpath(setup.home), setup.short(root), setup.prefix} - {"", "/", "~"}
    for place in sorted(places, key=len, reverse=True):
        text = re.sub(rf"{re.escape(place)}(/[^\s'\"`,;:()]*)?", "<path>", text)
    return text


def _names(environment: Mapping[str, str]) -> list[str]:
    home = os.path.basename(environment.get("HOME", ""))
    names = {home, environment.get("USER", ""), environment.get("LOGNAME", ""), socket.gethostname()}
    return [name for name in names if len(name) > 2 and name not in ("root", "home", "carrel")]
