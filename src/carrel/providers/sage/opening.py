"""What an assistant is told at the start of a conversation: the system files, and failures that matter here.

By default all of it fits what a common host keeps of a server's instructions, with the guide's line before it.
"""

import json
import os
import re
from collections.abc import Iterator
from typing import Final

from carrel import toml
from carrel.provider import Project
from carrel.providers.sage.memory import Memory
from carrel.providers.sage.records import Failure
from carrel.providers.sage.rendering import Format, failure_text, tokens
from carrel.providers.sage.system import OBJECTIVE, SystemFiles
from carrel.value import Value

HOST_CHARACTERS: Final = 2_048
GUIDE_CHARACTERS: Final = 200
DEFAULT_TOKENS: Final = 400
FRAME_CHARACTERS: Final = HOST_CHARACTERS - 1 - GUIDE_CHARACTERS - 2 - DEFAULT_TOKENS * 4
"""What headings may take beside the files' own text, so that the default fits the host."""

SMALLEST_CUT: Final = 50
CUT_MARK: Final = "\n\n... (truncated)"
RULE: Final = "═══════════════════════"
LEAST_SCORE: Final = 0.2
FIELD_LENGTH: Final = 300
CONSIDERED: Final = 1_000
"""How many failures are looked at, the newest: a start must stay fast."""


class Told(Value, frozen=True):
    """A system file as it is told."""

    path: str
    text: str
    tokens: int
    is_cut: bool = False


class Opening:
    """The text for one conversation, made at that moment."""

    def __init__(
        self,
        project: Project,
        memory: Memory,
        system: SystemFiles,
        inject: bool,
        inject_tokens: int,
        inject_failures: int,
    ) -> None:
        tuning = memory.tuning.read()
        has_said_so = "inject" in project.given
        self._project = project
        self._memory = memory
        self._system = system
        self._form: Format = tuning.output_format or "markdown"
        self._tells_system = inject and (has_said_so or tuning.system_folder_enabled is not False)
        self._tells_failures = inject and (has_said_so or tuning.failure_memory_enabled is not False)
        self._budget = inject_tokens
        if tuning.system_folder_max_tokens is not None and "inject_tokens" not in project.given:
            self._budget = min(inject_tokens, tuning.system_folder_max_tokens)
        self._count = inject_failures
        if tuning.failure_injection_limit is not None and "inject_failures" not in project.given:
            self._count = tuning.failure_injection_limit
        self._room = max(inject_tokens, DEFAULT_TOKENS) * 4 + FRAME_CHARACTERS

    def text(self) -> str:
        """Give both blocks, as far as there is something to tell."""
        if not self._memory.home.exists:
            return ""
        system = self._system_block() if self._tells_system else ""
        gap = ("\n" if system.endswith("\n") else "\n\n") if system else ""
        left = self._room - len(system) - len(gap)
        failures = self._failure_block(left) if self._tells_failures else ""
        return f"{system}{gap}{failures}" if failures else system

    # System files

    def _system_block(self) -> str:
        texts = [(path, self._system.text(path)) for path in self._system_paths()]
        files = [(path, text) for path, text in texts if text]
        told = self._fitting(files)
        block = self._system_text(told, files)
        while told and len(block) > self._room:
            told.pop()
            block = self._system_text(told, files)
        return block

    def _system_paths(self) -> list[str]:
        """Give the files in the order they are told: what lies deeper than at the top or pinned is left out."""
        return [
            file.path
            for file in self._system.files()
            if not file.reason and file.path.endswith(".md") and file.path.count("/") <= (file.rank == 2)
        ]

    def _fitting(self, files: list[tuple[str, str]]) -> list[Told]:
        told: list[Told] = []
        left = self._budget
        for path, text in files:
            size = tokens(text)
            if size > left:
                if left > SMALLEST_CUT:
                    told.append(Told(path, _cut(text, left * 4 - 20), left, is_cut=True))
                break
            told.append(Told(path, text, size))
            left -= size
        return told

    def _system_text(self, told: list[Told], files: list[tuple[str, str]]) -> str:
        whole = {one.path for one in told if not one.is_cut}
        missing = [f"sage://system/{path}" for path, _ in files if path not in whole]
        note = _not_shown(missing)
        if not told:
            return note.rstrip("\n")
        spent = sum(one.tokens for one in told)
        if self._form == "markdown":
            parts = "".join(f"## {one.path}\n{one.text}\n\n" for one in told)
            return f"{note}═══ SYSTEM CONTEXT ═══\n*{len(told)} file(s), ~{spent} tokens*\n\n{parts}{RULE}"
        parts = "\n".join(f"## {one.path.removesuffix('.md')}\n{one.text}\n" for one in told)
        return f"{note}# System [{len(told)}] ~{spent}tok\n\n{parts}"

    # Failures

    def _failure_block(self, room: int) -> str:
        if self._count <= 0:
            return ""
        heading = "═══ FAILURE MEMORY ═══\n*Relevant past failures to avoid repeating:*\n\n"
        frame = len(heading) + len(RULE) if self._form == "markdown" else len("# Failures [99]\n\n")
        texts: list[str] = []
        for failure in self._relevant():
            name, approach, why_failed, learned = failure
            text = failure_text(name, _short(approach), _short(why_failed), _short(learned), self._form) + "\n"
            if frame + len(text) > room:
                break
            frame += len(text)
            texts.append(text)
            if len(texts) >= self._count:
                break
        if not texts:
            return ""
        if self._form == "markdown":
            return f"{heading}{''.join(texts)}{RULE}"
        return f"# Failures [{len(texts)}]\n\n{''.join(texts)[:-1]}"

    def _relevant(self) -> list[tuple[str, str, str, str]]:
        """Give the failures that matter here, the best first, then the newest."""
        records = list(self._newest())
        if not records:
            return []
        context = self._context()
        scored = [(score(record.keywords, context), stem, record) for stem, record in records]
        chosen = sorted((one for one in scored if one[0] >= LEAST_SCORE), key=lambda one: -one[0])
        return [(one.id or stem, one.approach, one.why_failed, one.learned) for _, stem, one in chosen]

    def _newest(self) -> Iterator[tuple[str, Failure]]:
        shelf = self._memory.failures
        seen: set[str] = set()
        for card in shelf.newest_first(shelf.cards().values())[:CONSIDERED]:
            record = shelf.load_if_sound(card.stem)
            if record is not None and (name := record.id or card.stem) not in seen:
                seen.add(name)
                yield card.stem, record

    def _context(self) -> str:
        """Give what this project is called and is about."""
        parts = [os.path.basename(self._project.root), self._memory.git.origin()]
        parts += [_python_name(self._memory.code.read("pyproject.toml"))]
        parts += [_node_name(self._memory.code.read("package.json")), self._system.text(OBJECTIVE)]
        return "\n".join(parts).casefold()


def score(keywords: tuple[str, ...], context: str) -> float:
    """Say how much keywords have to do with a context, from 0 to 1."""
    total = 0
    for keyword in keywords:
        word = keyword.strip().casefold()
        if word and word in context:
            total += 2 if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", context) else 1
    return min(1.0, total / 6)


def _cut(text: str, length: int) -> str:
    head = text[:length]
    space = head.rfind(" ")
    return (head[:space] if space > length / 2 else head) + CUT_MARK


def _not_shown(uris: list[str]) -> str:
    """Name what is left out, in one line that is never long."""
    if not uris:
        return ""
    line = "Not shown: "
    for at, uri in enumerate(uris):
        piece = f"{', ' if at else ''}{uri}"
        if at and len(line) + len(piece) > GUIDE_CHARACTERS:
            return f"{line}, …\n"
        line += piece
    return f"{line}\n"


def _short(text: str) -> str:
    return text if len(text) <= FIELD_LENGTH else f"{text[:FIELD_LENGTH]}…"


def _python_name(text: str | None) -> str:
    if not text:
        return ""
    try:
        table = toml.loads(text)
    except toml.TomlError:
        return ""
    tool = table.get("tool")
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    places = (table.get("project"), poetry)
    return " ".join(str(place.get("name", "")) for place in places if isinstance(place, dict))


def _node_name(text: str | None) -> str:
    if not text:
        return ""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    name = value.get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) else ""
