"""What must hold for every face over every repository, as functions from evidence to complaints."""

import base64
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.hostile.faces import Evidence
from tests.hostile.place import CANARY, Place
from tests.support.waiting import patience_s

ENDS_S: Final = 2.0
MAX_PEAK_KB: Final = 300_000
MAX_INSTRUCTIONS: Final = 6_000
"""Carrel's own words, and at most 2,000 characters of the project's."""

_BLOB: Final = re.compile(rb'"blob":"([A-Za-z0-9+/=]+)"')
_COLOURS: Final = re.compile(
    r"\x1b\[(?:0|1|2|3|4|22|23|31|32|33|34|35|36|37|39|9[0-7])?(?:;(?:1|2|3|4|3[1-7]|9[0-7]))*m"
)
"""What `rich` writes. It hides nothing, moves nothing and asks the terminal nothing."""

_OBEYED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

_SOURCE: Final = str(Path(__file__).parents[2])
_OF_THE_SYSTEM: Final = re.compile(
    "/(?:usr|lib|lib64|opt|nix|sys|dev/pts|dev/shm)/"
    "|/dev/(?:null|urandom|random|tty|ptmx)$"
    "|/etc/(?:ld\\.so|localtime|timezone|passwd|group|nsswitch|hosts$|host\\.conf|resolv|gai|mime|ssl|locale|terminfo)"
    "|/proc/(?:\\d+|self)/(?:status|stat|statm|maps|mounts|mountinfo|cgroup|fd|task|comm|cmdline)"
    "|/proc/(?:sys|stat|meminfo|cpuinfo|filesystems|mounts)"
    "|/proc$"  # `doctor` and `connect` look for servers and editors that run
    "|(?:pipe|socket|anon_inode):"
    "|/$"  # whether the kernel has openat2 is tried on the topmost folder
)


def nothing_is_started(evidence: Evidence, place: Place) -> Iterator[str]:
    """A program was started that is not ours."""
    ours = (sys.executable, str(Path(sys.executable).resolve()), str(Path(sys.executable).with_name("carrel")))
    for started in evidence.seen.started:
        if not started.startswith(ours):
            yield started[:200]


def no_program_leaves_a_mark(evidence: Evidence, place: Place) -> Iterator[str]:
    """A program of the repository's ran."""
    for mark in place.marks.iterdir():
        yield mark.read_text().strip()


def nothing_outside_is_opened(evidence: Evidence, place: Place) -> Iterator[str]:
    """A file was opened that is neither the project's, nor Carrel's, nor the system's."""
    own = [place.home / name for name in (".config/carrel", ".local/state/carrel", ".cache/carrel", "runtime")]
    allowed = tuple(map(str, (place.root, *own, sys.prefix, sys.base_prefix, sys.exec_prefix, _SOURCE)))
    for path in sorted(evidence.seen.opened | {one for one in evidence.seen.watched if one.startswith("/")}):
        is_allowed = any(path == one or path.startswith(f"{one}/") for one in allowed)
        if not is_allowed and not _OF_THE_SYSTEM.match(path):
            yield path


def no_canary_is_seen(evidence: Evidence, place: Place) -> Iterator[str]:
    """A secret, or a text from outside, was shown."""
    for answer in evidence.answers:
        decoded = b"".join(base64.b64decode(blob) for blob in _BLOB.findall(answer))
        if CANARY.encode() in answer or CANARY.encode() in decoded:
            yield answer[:400].decode(errors="replace")
    for name, text in (("log", evidence.log), ("terminal", evidence.terminal)):
        for line in text.splitlines():
            if CANARY in line:
                yield f"{name}: {line[:300]}"


def no_path_of_the_server_is_told(evidence: Evidence, place: Place) -> Iterator[str]:
    """A client learnt where the project lies."""
    for answer in evidence.answers:
        for path in (str(place.root.parent), _SOURCE):
            if len(path) > 1 and path.encode() in answer:
                at = answer.index(path.encode())
                yield answer[max(0, at - 150) : at + 100].decode(errors="replace")
                break


def every_answer_comes_in_time(evidence: Evidence, place: Place) -> Iterator[str]:
    """An answer did not come, or the server did not end when asked to."""
    yield from evidence.late
    if evidence.ended_s > patience_s(ENDS_S):
        yield f"SIGTERM took {evidence.ended_s:.1f} s"


def the_terminal_is_told_nothing(evidence: Evidence, place: Place) -> Iterator[str]:
    """A control character of the repository's reached the terminal or the log."""
    for name, text in (("terminal", _COLOURS.sub("", evidence.terminal)), ("log", evidence.log)):
        for line in text.split("\n"):
            if _OBEYED.search(line):
                yield f"{name}: {line[:200]!r}"


def memory_is_bounded(evidence: Evidence, place: Place) -> Iterator[str]:
    """The process became large."""
    if evidence.peak_kb > MAX_PEAK_KB:
        yield f"{evidence.peak_kb} kB"


def instructions_are_bounded(evidence: Evidence, place: Place) -> Iterator[str]:
    """The project put more into the instructions than it may, or something that looks like the host's own words."""
    for text in evidence.instructions:
        if len(text) > MAX_INSTRUCTIONS:
            yield f"{len(text)} characters"
        if "<system-reminder>" in text or _OBEYED.search(text):
            yield text[:300]


def nothing_is_a_bug(evidence: Evidence, place: Place) -> Iterator[str]:
    """Carrel itself says that it is broken."""
    for line in (evidence.log + evidence.terminal).splitlines():
        if "this is a bug" in line or "Traceback (most recent call last)" in line:
            yield line
    yield from (f"exit code {code}" for code in evidence.exit_codes if code not in (0, 1, 2, -15, 143))
    for answer in evidence.answers:
        if b"Internal error" in answer and not _OF_SCOPES.search(answer):
            yield answer[:300].decode(errors="replace")


_OF_SCOPES: Final = re.compile(
    rb'"data":{"error":"Internal error","status":500,"dev.carrel/error":"failed","uri":"scopes://'
    rb'|\AGET /(?:-/read\?uri=scopes%3A%2F%2F|scopes/)[^\n]*\n500 [^{}]*\{"error":"Internal error"\}\s*\Z',
)
"""What scopes says of a file that is no database, or a damaged one, and no more: over MCP, and over plain HTTP, where
the address says whose answer it is."""

Law = Callable[[Evidence, Place], Iterator[str]]
LAWS: Final[tuple[Law, ...]] = (
    nothing_is_started,
    no_program_leaves_a_mark,
    nothing_outside_is_opened,
    no_canary_is_seen,
    no_path_of_the_server_is_told,
    every_answer_comes_in_time,
    the_terminal_is_told_nothing,
    memory_is_bounded,
    instructions_are_bounded,
    nothing_is_a_bug,
)


def complaints(evidence: Evidence, place: Place) -> list[str]:
    """Return every breach of a law, a few of each kind."""
    return [f"{law.__name__}: {one}" for law in LAWS for one, _ in zip(law(evidence, place), range(6), strict=False)]
