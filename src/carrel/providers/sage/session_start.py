"""What an assistant is told at the start of a conversation: the system files, and failures that matter here.

It is a project's text, perhaps a stranger's: it says where it comes from, hidden characters and look-alikes of hosts'
own prompts are taken out, and all of it fits what a common host keeps of a server's instructions, with the guide's
line before it. Only the user's own settings, or a project file that the user trusts, raise that bound.
"""

import json
import os
import re
from collections.abc import Iterator
from typing import Final

from carrel.core.provider import Injection, Project
from carrel.core.record import Value
from carrel.providers.sage.memory import Memory
from carrel.providers.sage.records import Failure
from carrel.providers.sage.rendering import Format, failure_text, tokens
from carrel.providers.sage.sanitize import cleaned
from carrel.providers.sage.system_files import OBJECTIVE, SystemFiles

HOST_CHARACTERS: Final = 2_048
GUIDE_CHARACTERS: Final = 200
DEFAULT_TOKENS: Final = 400
FRAME_CHARACTERS: Final = HOST_CHARACTERS - 1 - GUIDE_CHARACTERS - 2 - DEFAULT_TOKENS * 4
"""What headings may take beside the files' own text, so that the default fits the host."""

INTRODUCTION: Final = "From this project's .sage/{}, not from the user:"
SMALLEST_CUT: Final = 50
CUT_MARK: Final = "\n\n... (truncated)"
RULE: Final = "═══════════════════════"
LEAST_SCORE: Final = 0.2
FIELD_LENGTH: Final = 300
CONSIDERED: Final = 1_000
"""How many failures are looked at, the newest: a start must stay fast."""


class Told(Value, frozen=True):
    """A system file as it is told; one that is cut ends with a mark."""

    path: str
    text: str
    tokens: int
    is_cut: bool = False

    @property
    def shown(self) -> str:
        """The text with its mark."""
        return self.text + CUT_MARK if self.is_cut else self.text


class Opening:
    """The text for one conversation, made at that moment."""

    def __init__(
        self,
        project: Project,
        memory: Memory,
        system: SystemFiles,
        inject: Injection,
        inject_tokens: int,
        inject_failures: int,
    ) -> None:
        tuning = memory.tuning.read()
        has_said_so = "inject" in project.given
        is_told = project.is_trusted if inject == "trusted" else inject
        self._project = project
        self._memory = memory
        self._system = system
        self._form: Format = tuning.output_format or "markdown"
        self._tells_system = is_told and (has_said_so or tuning.system_folder_enabled is not False)
        self._tells_failures = is_told and (has_said_so or tuning.failure_memory_enabled is not False)
        most = inject_tokens if "inject_tokens" in project.named else min(inject_tokens, DEFAULT_TOKENS)
        self._budget = most
        if tuning.system_folder_max_tokens is not None and "inject_tokens" not in project.given:
            self._budget = min(most, tuning.system_folder_max_tokens)
        self._count = inject_failures
        if tuning.failure_injection_limit is not None and "inject_failures" not in project.given:
            self._count = tuning.failure_injection_limit
        self._room = max(most, DEFAULT_TOKENS) * 4 + FRAME_CHARACTERS

    def text(self) -> str:
        """Return both blocks, as far as there is something to tell, each introduced as the project's own words."""
        if not self._memory.home.exists:
            return ""
        system = self._system_block() if self._tells_system and self._memory.home.is_within("system") else ""
        gap = ("\n" if system.endswith("\n") else "\n\n") if system else ""
        left = self._room - len(system) - len(gap)
        tells_failures = self._tells_failures and self._memory.home.is_within("failures")
        failures = self._failure_block(left) if tells_failures else ""
        return f"{system}{gap}{failures}" if failures else system

    # System files

    def _system_block(self) -> str:
        files = self._system_files()
        told = self._fitting(files)
        while told and (over := len(self._system_text(told, files)) - self._room) > 0:
            last = told.pop()
            length = len(last.text) - over - (0 if last.is_cut else len(CUT_MARK))
            if length >= SMALLEST_CUT * 4 or (not told and length > 0):  # the first is cut, never left out
                told.append(Told(last.path, _cut(last.text, length), length // 4, is_cut=True))
        return self._system_text(told, files)

    def _system_files(self) -> list[str]:
        """Return the files in the order they are told: those deeper than at the top or pinned are left out."""
        return [
            file.path
            for file in self._system.files()
            if not file.reason
            and file.first_line
            and file.path.endswith(".md")
            and file.path.count("/") <= (file.rank == 2)
        ]

    def _fitting(self, files: list[str]) -> list[Told]:
        """Return the files that fit the budget; the first that does not is cut, if enough of it remains."""
        told: list[Told] = []
        left = self._budget
        for path in files:
            whole = self._system.text(path)
            text = cleaned(whole[: self._room * 2]).strip()
            size = tokens(text)
            if size > left or len(whole) > self._room * 2:
                if left > SMALLEST_CUT or (left > 0 and not told):
                    told.append(Told(path, _cut(text, max(left * 4 - 20, 1)), left, is_cut=True))
                break
            if text:
                told.append(Told(path, text, size))
            left -= size
        return told

    def _system_text(self, told: list[Told], files: list[str]) -> str:
        whole = {one.path for one in told if not one.is_cut}
        note = _not_shown([f"sage://system/{path}" for path in files if path not in whole])
        if not told:
            return note.rstrip("\n")
        spent = sum(one.tokens for one in told)
        head = f"{INTRODUCTION.format('system')}\n{note}"
        if self._form == "markdown":
            parts = "".join(f"## {one.path}\n{one.shown}\n\n" for one in told)
            return f"{head}═══ SYSTEM CONTEXT ═══\n*{len(told)} file(s), ~{spent} tokens*\n\n{parts}{RULE}"
        parts = "\n".join(f"## {one.path.removesuffix('.md')}\n{one.shown}\n" for one in told)
        return f"{head}# System [{len(told)}] ~{spent}tok\n\n{parts}"

    # Failures

    def _failure_block(self, room: int) -> str:
        if self._count <= 0:
            return ""
        head = f"{INTRODUCTION.format('failures')}\n"
        heading = f"{head}═══ FAILURE MEMORY ═══\n*Relevant past failures to avoid repeating:*\n\n"
        frame = len(heading) + len(RULE) if self._form == "markdown" else len(f"{head}# Failures [99]\n\n")
        texts: list[str] = []
        for failure in self._relevant():
            name, approach, why_failed, learned = map(_short, failure)
            text = failure_text(" ".join(name.split()), approach, why_failed, learned, self._form) + "\n"
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
        return f"{head}# Failures [{len(texts)}]\n\n{''.join(texts)[:-1]}"

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
    """Return the beginning of a text, up to a space if one is near."""
    head = text[:length]
    space = head.rfind(" ")
    return head[:space] if space > length / 2 else head


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
    """Return a field of a failure as it is told."""
    shown = cleaned(text[: FIELD_LENGTH * 4])
    is_short = len(shown) <= FIELD_LENGTH and len(text) <= FIELD_LENGTH * 4
    return shown if is_short else f"{shown[:FIELD_LENGTH]}…"


def _python_name(text: str | None) -> str:
    if not text:
        return ""
    from carrel.core import toml  # only where there is such a file and a failure to weigh

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
