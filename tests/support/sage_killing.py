"""Kills a writer, at random moments or at every step, and looks at what it left.

    python -m tests.support.sage_killing random 100 [SEED]
    python -m tests.support.sage_killing steps

A process forks a writer, which saves and acknowledges each save on a pipe, and kills it. Then every file must be
whole, and whatever was acknowledged must be there. Prints what is wrong; exits 1 if anything is.
"""

import os
import random
import select
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

from carrel.providers.sage import Sage
from carrel.providers.sage.record_files import read_mapping
from tests.support.sage_folder import open_sage

STEPS = ("open", "close", "mkdir", "fsync", "fchmod", "rename", "link", "unlink")
PATIENCE_MS = 20_000
LONG = 400
"""How often a text is repeated, so that a file written in part would show."""


class Nobody:
    """A call that is never cancelled."""

    client = ""
    cancelled = False

    def on_cancel(self, stop: object) -> None:
        """Do nothing."""

    def progress(self, value: float, total: float | None = None, message: str | None = None) -> None:
        """Do nothing."""


def text_of(number: int) -> str:
    """Return the text of the save with this number."""
    return " ".join([f"number-{number}"] * LONG)


def saves(number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return one save of each kind."""
    text = text_of(number)
    yield "sage_save_knowledge", {"id": f"k{number % 3}", "content": text, "keywords": ["k"]}
    yield "sage_save_checkpoint", {"core_question": "q", "thesis": text, "confidence": 0.5}
    yield "sage_record_failure", {"id": "f", "approach": "a", "why_failed": text, "learned": "l", "keywords": ["k"]}
    yield "sage_write_system", {"filename": "pinned/s.md", "content": text}


def write(project: Path, pipe: int, start: int) -> None:
    """Save until this process is killed, and acknowledge each save."""
    sage = open_sage(project, tools="write")
    number = start
    while True:
        for tool, given in saves(number):
            result = sage.call(tool, given, Nobody())
            assert not result.is_error, result.blocks
            assert isinstance(result.structured, dict)
            os.write(pipe, f"{number} {result.structured['path']}\n".encode())
        number += 1


def run_and_kill(project: Path, start: int, wait: Callable[[int], None], prepare: Callable[[], None]) -> dict[str, int]:
    """Fork a writer, wait and kill it; return the paths it acknowledged, each with its last number."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            prepare()
            write(project, writing, start)
        finally:
            os._exit(3)
    os.close(writing)
    wait(reading)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"the writer ended by itself with {status}"
    heard = b""
    while part := os.read(reading, 65_536):
        heard += part
    os.close(reading)
    lines = [line.split(" ", 1) for line in heard.decode().split("\n")[:-1]]
    return {path: int(number) for number, path in lines}


def numbers_in(text: str) -> int:
    """Return the number in a text; fail if the text is not whole."""
    words = text.split()
    assert len(words) == LONG, f"{len(words)} words instead of {LONG}"
    assert len(set(words)) == 1, f"a mixture of {set(words)}"
    return int(words[0].removeprefix("number-"))


def complaints(project: Path, acknowledged: dict[str, int]) -> Iterator[str]:
    """Yield the files that are not whole, and those that were acknowledged but are missing."""
    sage = open_sage(project)
    found: dict[str, int] = {}
    for path in sorted((project / ".sage").rglob("*.md")):
        if path.name.startswith("."):
            continue
        name = str(path.relative_to(project))
        try:
            found[name] = numbers_in(_body(sage, name, path))
        except Exception as error:
            yield f"{name} is not whole: {error}"
    index = project / ".sage/knowledge/index.yaml"
    if index.exists():
        files = {item.text("file") for item in read_mapping(index.read_text(encoding="utf-8")).mappings("items")}
        yield from (f"{file} is in the index and not there" for file in files if not (index.parent / file).exists())
    else:
        files = set()
    for name, number in acknowledged.items():
        if found.get(name, -1) < number:
            yield f"{name} was acknowledged with {number}, found is {found.get(name)}"
        if "/knowledge/" in name and name.partition("/knowledge/")[2] not in files:
            yield f"{name} was acknowledged and is not in the index"
    sage.close()


def _body(sage: Sage, name: str, path: Path) -> str:
    if "/checkpoints/" in name:
        return sage.memory.checkpoints.load(path.stem)[0].thesis
    if "/failures/" in name:
        return sage.memory.failures.load(path.stem)[0].why_failed
    if "/knowledge/" in name:
        knowledge = sage.memory.knowledge
        item = next((one.item for one in knowledge.items().values() if name.endswith(one.item.file)), None)
        if item is None:  # a kill before the index was written: the content must be whole all the same
            return path.read_text(encoding="utf-8").partition("\n---\n")[2]
        return knowledge.content(item)[0]
    return path.read_text(encoding="utf-8")


def at_random(kills: int, seed: int) -> Iterator[str]:
    """Kill at random moments, one round after another on the same folder."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="carrel-kill-") as name:
        project = Path(name)
        acknowledged: dict[str, int] = {}
        _load_all()
        for each in range(kills):
            until = chance.uniform(0, 0.06)
            acknowledged.update(run_and_kill(project, each * 1_000, lambda pipe: _wait(pipe, until), lambda: None))  # noqa: B023 at once
            if each % 10 == 9 or each == kills - 1:
                yield from (f"after kill {each}: {complaint}" for complaint in complaints(project, acknowledged))
        yield from () if acknowledged else ("nothing was ever acknowledged",)


def _load_all() -> None:
    """Save once, so that a forked writer has nothing left to import."""
    with tempfile.TemporaryDirectory(prefix="carrel-kill-") as name:
        sage = open_sage(Path(name), tools="write")
        for tool, given in saves(0):
            sage.call(tool, given, Nobody())
        sage.close()


def _wait(pipe: int, seconds: float) -> None:
    """Wait until the writer works, and then for a given time."""
    deadline = monotonic() + seconds
    while (left := deadline - monotonic()) > 0:
        select.select([], [], [], left)
    del pipe


def at_every_step() -> Iterator[str]:
    """Kill before every call that touches the disk, from the first save on a fresh folder to one that replaces."""
    _load_all()
    for step in range(1, 10_000):
        with tempfile.TemporaryDirectory(prefix="carrel-kill-") as name:
            project = Path(name)
            acknowledged = run_and_kill(project, 0, _until_closed, lambda: _die_at(step))  # noqa: B023 called at once
            yield from (f"before step {step}: {complaint}" for complaint in complaints(project, acknowledged))
            if max(acknowledged.values(), default=0) >= 1:
                return


def _until_closed(pipe: int) -> None:
    """Wait until the writer is dead: the pipe is then at its end, or holds what was acknowledged."""
    poll = select.poll()
    poll.register(pipe, select.POLLHUP)
    assert any(happened & select.POLLHUP for _, happened in poll.poll(PATIENCE_MS)), "the writer did not die"


def _die_at(step: int) -> None:
    """Make this process kill itself before its n-th call that touches the disk."""
    left = [step]

    def deadly(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*given, **named)

        return call

    for name in STEPS:
        real = getattr(os, name)
        setattr(os, name, deadly(real))
        if real in os.supports_dir_fd:
            os.supports_dir_fd.add(getattr(os, name))


def main() -> int:
    """Kill writers as the arguments say; print every problem."""
    if sys.argv[1] == "steps":
        wrong = list(at_every_step())
    else:
        wrong = list(at_random(int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1))
    for complaint in wrong:
        sys.stdout.write(f"{complaint}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
