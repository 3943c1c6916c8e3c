"""Every face over every hostile repository: nothing runs, nothing outside is read, nobody is held up."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from carrel.app import registration
from tests.hostile import laws
from tests.hostile.attacks import ATTACKS
from tests.hostile.faces import FACES, Evidence, run
from tests.hostile.place import CANARY, ESCAPES, MATERIAL, Place, lay_out
from tests.hostile.repositories import REPOSITORIES
from tests.hostile.sentinel import Sentinel
from tests.hostile.tracing import is_traced
from tests.support.waiting import patience_s

KNOWN: Final[Mapping[tuple[str, str], str]] = {}
"""What fails today, by repository and face, with the reason. A row that no longer fails is an error: remove it."""


def _cases() -> Iterator[object]:
    for repository in REPOSITORIES:
        for face in FACES:
            reason = KNOWN.get((repository, face))
            marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
            yield pytest.param(repository, face, id=f"{repository}-{face}", marks=marks)


@pytest.fixture
def place() -> Iterator[Place]:
    """A usual project that calls for every provider."""
    # A process that builds the index may outlive its command, and write while the folder is removed.
    with TemporaryDirectory(prefix="carrel-hostile-", ignore_cleanup_errors=True) as base:
        yield lay_out(Path(base).resolve())


@pytest.mark.parametrize(("repository", "face"), [*_cases()])
def test_a_hostile_repository_gets_nothing(repository: str, face: str, place: Place) -> None:
    for spoil in REPOSITORIES[repository]:
        spoil(place)
    found = laws.complaints(FACES[face](place), place)
    assert not found, "\n".join(found)


def test_every_provider_has_something_to_attack_and_something_to_serve() -> None:
    assert set(registration.names()) == set(ATTACKS) == set(MATERIAL)


# The harness itself: a law that stopped looking is noticed.


def test_the_harness_sees_a_program_that_runs(place: Place) -> None:
    found = _complaints(place, f"import subprocess; subprocess.run([{str(place.program)!r}, 'x'])")

    assert [one for one in found if one.startswith("no_program_leaves_a_mark: ")]
    assert not is_traced() or [one for one in found if one.startswith("nothing_is_started: ")]


def test_the_harness_sees_a_file_that_is_opened_outside(place: Place) -> None:
    place.link("link", place.outside / "notes.md")
    found = _complaints(place, "print(open('link').read())")

    assert f"no_canary_is_seen: terminal: # {CANARY}" in found
    assert sys.platform != "linux" or f"nothing_outside_is_opened: {place.outside}/notes.md" in found


def test_the_harness_sees_a_file_that_is_opened_outside_where_nothing_can_be_traced(place: Place) -> None:
    sentinel = Sentinel([place.outside])
    (place.outside / ".sage/system/stranger.md").read_text()

    assert sys.platform != "linux" or sentinel.opened() == {f"{place.outside}/.sage/system/stranger.md"}


def test_the_harness_sees_what_a_terminal_would_obey_and_what_is_a_bug(place: Place) -> None:
    found = _complaints(place, f"print({ESCAPES!r}); print('this is a bug'); raise SystemExit(70)")

    assert {one.partition(":")[0] for one in found} == {"the_terminal_is_told_nothing", "nothing_is_a_bug"}


def test_the_harness_sees_what_does_not_end_and_what_grows(place: Place) -> None:
    found = _complaints(place, "x = b'x' * 400_000_000; import time; time.sleep(60)")

    assert {one.partition(":")[0] for one in found} == {"every_answer_comes_in_time", "memory_is_bounded"}


def test_the_harness_finds_nothing_where_nothing_happens(place: Place) -> None:
    assert _complaints(place, "open('README.md').read()") == []


def _complaints(place: Place, script: str) -> list[str]:
    return laws.complaints(run(place, [sys.executable, "-P", "-c", script], patience_s(4)), place)


@pytest.mark.parametrize(
    ("answer", "is_told"),
    [
        (b'GET /scopes/scope/x\n500 Server: x\n\n{"error":"Internal error"}', False),
        (b'GET /-/read?uri=scopes%3A%2F%2Fscope%2Fx\n500 Server: x\n\n{"error":"Internal error"}', False),
        (b'GET /alc/hub/index\n500 Server: x\n\n{"error":"Internal error"}', True),
        (b'GET /-/read?uri=sage%3A%2F%2Fknowledge%2Fscopes%3A%2F%2F\n500 x\n\n{"error":"Internal error"}', True),
        (b'{"id":1,"error":{"message":"Internal error","data":{"uri":"alc://hub/scopes://"}}}', True),
        (b'{"id":1,"error":{"message":"Internal error","data":{"uri":"scopes://scope/x"}}}', True),
    ],
)
def test_the_harness_takes_only_scopes_own_words_for_no_bug(place: Place, answer: bytes, is_told: bool) -> None:
    found = laws.complaints(Evidence([answer]), place)

    assert [one.partition(":")[0] for one in found] == ["nothing_is_a_bug"] * is_told
