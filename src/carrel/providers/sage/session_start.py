"""The text at the start of a conversation: the system files, and failures that are relevant to the project.

It is the project's text and may come from a stranger. So it names its origin, and hidden characters and imitations of
a host's prompts are removed. Together with the server's own lines it is no longer than the instructions that common
hosts keep. Only the user's own settings, or a project file that the user trusts, raise that limit.
"""

import json
import os
import re
from collections.abc import Callable
from typing import Final

from carrel.core.hosts import INSTRUCTIONS_LENGTH
from carrel.core.provider import Injection, Project
from carrel.core.record import Value
from carrel.providers.sage.memory import SageMemory
from carrel.providers.sage.names import is_plain
from carrel.providers.sage.records import FailureRecord
from carrel.providers.sage.rendering import Format, render_failure, tokens
from carrel.providers.sage.sanitize import sanitize
from carrel.providers.sage.system_files import OBJECTIVE

OWN_CHARACTERS: Final = 260
"""The characters of what the server itself says first."""
DEFAULT_TOKENS: Final = 400
FRAME_CHARACTERS: Final = INSTRUCTIONS_LENGTH - 1 - OWN_CHARACTERS - 2 - DEFAULT_TOKENS * 4
"""The characters left for headings, so that the default fits the host."""

INTRODUCTION: Final = "From this project's .sage/{}, not from the user:"
SMALLEST_CUT: Final = 50
CUT_MARK: Final = "\n\n... (truncated)"
RULE: Final = "═══════════════════════"
LEAST_SCORE: Final = 0.2
FIELD_LENGTH: Final = 300
NOTE_LENGTH: Final = 200
MAX_FAILURES_READ: Final = 1_000
"""Only the newest failures are considered: a start must be fast."""


class SystemExcerpt(Value, frozen=True):
    """The shown part of a system file."""

    path: str
    text: str
    tokens: int
    is_cut: bool = False

    @property
    def shown(self) -> str:
        """The text, with a mark if it is cut."""
        return self.text + CUT_MARK if self.is_cut else self.text


class SessionText:
    """The text for one conversation."""

    def __init__(
        self, project: Project, memory: SageMemory, inject: Injection, inject_tokens: int, inject_failures: int
    ) -> None:
        tuning = memory.tuning()
        is_wanted = project.is_trusted if inject == "trusted" else inject
        ignores_tuning = "inject" in project.given
        self._project = project
        self._memory = memory
        self._form: Format = tuning.output_format or "markdown"
        self._has_system = is_wanted and (ignores_tuning or tuning.system_folder_enabled is not False)
        self._has_failures = is_wanted and (ignores_tuning or tuning.failure_memory_enabled is not False)
        most = inject_tokens if "inject_tokens" in project.named else min(inject_tokens, DEFAULT_TOKENS)
        self._budget = most
        if tuning.system_folder_max_tokens is not None and "inject_tokens" not in project.given:
            self._budget = min(most, tuning.system_folder_max_tokens)
        self._count = inject_failures
        if tuning.failure_injection_limit is not None and "inject_failures" not in project.given:
            self._count = tuning.failure_injection_limit
        self._room = max(most, DEFAULT_TOKENS) * 4 + FRAME_CHARACTERS

    def text(self) -> str:
        """Return the block of system files, if there are any, and that of failures, or where they are if none fits."""
        home = self._memory.home
        if not home.exists:
            return ""
        is_wanted = self._has_failures and self._count > 0 and home.is_within("failures")
        told = self._relevant_failures() if is_wanted else []
        named = _not_shown([f"sage://failure/{name}" for name, _ in told[: self._count] if is_plain(name)]).rstrip("\n")
        room = self._room - len(named) - 2
        system = self._system_block(room) if self._has_system and home.is_within("system") else ""
        gap = ("\n" if system.endswith("\n") else "\n\n") if system else ""
        failures = self._failure_block(told, self._room - len(system) - len(gap)) or named
        return f"{system}{gap}{failures}" if failures else system

    # System files

    def _system_block(self, room: int) -> str:
        files = [
            file.path
            for file in self._memory.system.listed()
            # Only Markdown files, at the top or directly below `pinned/`.
            if file.first_line and file.path.endswith(".md") and file.path.count("/") <= (file.rank == 2)
        ]
        shown = self._fit(files)
        while shown and (over := len(self._system_text(shown, files)) - room) > 0:
            last = shown.pop()
            length = len(last.text) - over - (0 if last.is_cut else len(CUT_MARK))
            if length >= SMALLEST_CUT * 4 or (not shown and length > 0):  # the first is cut, never left out
                shown.append(SystemExcerpt(last.path, _cut(last.text, length), length // 4, is_cut=True))
        return self._system_text(shown, files)

    def _fit(self, files: list[str]) -> list[SystemExcerpt]:
        """Return the files within the budget; the first beyond it is cut if enough of it remains."""
        shown: list[SystemExcerpt] = []
        left = self._budget
        for path in files:
            whole = self._memory.system.text(path)
            text = sanitize(whole[: self._room * 2]).strip()
            size = tokens(text)
            if size > left or len(whole) > self._room * 2:
                if left > SMALLEST_CUT or (left > 0 and not shown):
                    shown.append(SystemExcerpt(path, _cut(text, max(left * 4 - 20, 1)), left, is_cut=True))
                break
            if text:
                shown.append(SystemExcerpt(path, text, size))
            left -= size
        return shown

    def _system_text(self, shown: list[SystemExcerpt], files: list[str]) -> str:
        whole = {one.path for one in shown if not one.is_cut}
        note = _not_shown([f"sage://system/{path}" for path in files if path not in whole])
        if not shown:
            return note.rstrip("\n")
        spent = sum(one.tokens for one in shown)
        head = f"{INTRODUCTION.format('system')}\n{note}"
        if self._form == "markdown":
            parts = "".join(f"## {one.path}\n{one.shown}\n\n" for one in shown)
            return f"{head}═══ SYSTEM CONTEXT ═══\n*{len(shown)} file(s), ~{spent} tokens*\n\n{parts}{RULE}"
        parts = "\n".join(f"## {one.path.removesuffix('.md')}\n{one.shown}\n" for one in shown)
        return f"{head}# System [{len(shown)}] ~{spent}tok\n\n{parts}"

    # Failures

    def _failure_block(self, failures: list[tuple[str, FailureRecord]], room: int) -> str:
        head = f"{INTRODUCTION.format('failures')}\n"
        heading = f"{head}═══ FAILURE MEMORY ═══\n*Relevant past failures to avoid repeating:*\n\n"
        length = len(heading) + len(RULE) if self._form == "markdown" else len(f"{head}# Failures [99]\n\n")
        texts: list[str] = []
        for name, one in failures:
            title, approach, why_failed, learned = map(_shorten, (name, one.approach, one.why_failed, one.learned))
            short = FailureRecord(" ".join(title.split()), approach, why_failed, learned)
            text = render_failure(short, "", self._form) + "\n"
            length += len(text)
            if length > room or len(texts) >= self._count:
                break
            texts.append(text)
        if not texts:
            return ""
        if self._form == "markdown":
            return f"{heading}{''.join(texts)}{RULE}"
        return f"{head}# Failures [{len(texts)}]\n\n{''.join(texts)[:-1]}"

    def _relevant_failures(self) -> list[tuple[str, FailureRecord]]:
        """Return the failures that match the project by name, the best first, then the newest; one for each name."""
        folder = self._memory.failures
        newest = folder.newest_first(folder.files().values())[:MAX_FAILURES_READ]
        failures: dict[str, FailureRecord] = {}
        for stem, record in folder.load_readable(file.stem for file in newest):
            failures.setdefault(record.id or stem, record)
        context = self._context() if failures else ""
        scored = [(score(one.keywords, context), name) for name, one in failures.items()]
        best = sorted((one for one in scored if one[0] >= LEAST_SCORE), key=lambda one: -one[0])
        return [(name, failures[name]) for _, name in best]

    def _context(self) -> str:
        """Return the project's names and its objective."""
        code = self._memory.code
        names = [os.path.basename(self._project.root), self._memory.git.origin()]
        if text := code.read("pyproject.toml"):
            from carrel.core import toml  # only if there is such a file

            table = _parse(toml.loads, text)
            names += [_name_in(table, "project"), _name_in(table, "tool", "poetry")]
        names.append(_name_in(_parse(json.loads, code.read("package.json") or "")))
        return "\n".join((*names, self._memory.system.text(OBJECTIVE))).casefold()


def score(keywords: tuple[str, ...], context: str) -> float:
    """Return how well keywords match a context, from 0 to 1."""
    total = 0
    for keyword in keywords:
        word = keyword.strip().casefold()
        if word and word in context:
            total += 2 if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", context) else 1
    return min(1.0, total / 6)


def _cut(text: str, length: int) -> str:
    """Return the beginning of a text, up to a space if there is one in its second half."""
    head = text[:length]
    space = head.rfind(" ")
    return head[:space] if space > length / 2 else head


def _not_shown(uris: list[str]) -> str:
    """Return a short line that names the files left out or cut."""
    if not uris:
        return ""
    line = "Not shown: "
    for at, uri in enumerate(uris):
        piece = f"{', ' if at else ''}{uri}"
        if at and len(line) + len(piece) > NOTE_LENGTH:
            return f"{line}, …\n"
        line += piece
    return f"{line}\n"


def _shorten(text: str) -> str:
    shown = sanitize(text[: FIELD_LENGTH * 4])
    is_short = len(shown) <= FIELD_LENGTH and len(text) <= FIELD_LENGTH * 4
    return shown if is_short else f"{shown[:FIELD_LENGTH]}…"


def _parse(load: Callable[[str], object], text: str) -> object:
    """Return the value of a text, or None if it is not valid."""
    try:
        return load(text)
    except (ValueError, RecursionError):
        return None


def _name_in(table: object, *keys: str) -> str:
    """Return the name in a table within others, or an empty text."""
    for key in (*keys, "name"):
        table = table.get(key) if isinstance(table, dict) else None
    return table if isinstance(table, str) else ""
