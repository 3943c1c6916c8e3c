"""An assistant's memory of a project: `.sage/`, served as resources, searched, and written to where that is allowed.

sage://system/{+filename}   a file of the system folder, as it is
sage://checkpoint/{id}      a research checkpoint, formatted
sage://knowledge/{id}       a knowledge item, with metadata and code links
sage://failure/{id}         what was tried, why it failed, what was learned
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal

from carrel.core.errors import BadArgument, ConfigError, NotFound, ProviderError
from carrel.core.limits import MAX_COMPLETIONS
from carrel.core.model import Completion, Meta, Reading, Resource, Text, Tool, ToolResult
from carrel.core.provider import Call, Ceiling, Injection, Place, Project, Provider, Route, ToolLevel
from carrel.providers.sage import item_names
from carrel.providers.sage.file_format import Broken
from carrel.providers.sage.folders import NAMES
from carrel.providers.sage.item_names import is_plain
from carrel.providers.sage.listing import Listing
from carrel.providers.sage.lookup import Ambiguous, Unmatched, failure_addresses
from carrel.providers.sage.memory import Memory, Refused
from carrel.providers.sage.system_files import SystemFiles, walk

if TYPE_CHECKING:
    from carrel.providers.sage.tools import Tools

HEALTH_S: Final = 0.5
HEALTH_PROBLEMS: Final = 20
_DESCRIPTIONS: Final = {
    "system/{+filename}": ("system-file", "System file", "A file below .sage/system, as it is"),
    "checkpoint/{id}": ("checkpoint", "Checkpoint", "A research checkpoint, by full or partial id"),
    "knowledge/{id}": ("knowledge", "Knowledge", "A knowledge item with its metadata and code links"),
    "failure/{id}": ("failure", "Failure", "What was tried, why it failed, what was learned"),
}


class Sage(Provider):
    """The memory in a Sage folder."""

    name = "sage"
    schemes = (item_names.SCHEME,)
    summary = (
        "What was learned about this project: objective, checkpoints, knowledge, failures. A part of an id is enough."
    )

    def __init__(
        self,
        project: Project,
        enabled: Literal["auto"] | bool = "auto",
        dir: Place = Place(".sage"),  # noqa: A002 the setting is named so
        tools: ToolLevel = "read",
        errors: Literal["text", "protocol"] = "text",
        inject: Injection = True,
        inject_tokens: Ceiling = Ceiling(400),
        inject_failures: int = 3,
        max_file_bytes: Ceiling = Ceiling(1_048_576),
        search: Literal["auto", "bm25"] = "auto",
    ) -> None:
        for key, value in (("inject_tokens", inject_tokens), ("inject_failures", inject_failures)):
            if value < 0:
                raise ConfigError(f"[sage] {key}: expected 0 or more, got {value}")
        if max_file_bytes < 1:
            raise ConfigError(f"[sage] max_file_bytes: expected 1 or more, got {max_file_bytes}")
        self.memory = Memory(project, dir, max_file_bytes)
        self.system = SystemFiles(self.memory.home, max_file_bytes)
        self.listing = Listing(self.memory, self.system)
        self._project = project
        self._enabled = enabled
        self._level = tools
        self._errors = errors
        self._inject = (inject, inject_tokens, inject_failures)
        self._search = search
        self._making = Lock()
        self._tools: Tools | None = None

    def routes(self) -> Sequence[Route]:
        return tuple(
            Route(f"sage://{end}", self.read, name=name, title=title, description=told, whole=True)
            for end, (name, title, told) in _DESCRIPTIONS.items()
        )

    # Listing

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the system files, then everything else, newest first within each kind."""
        return self.listing.entries(after)

    def shortlist(self) -> Sequence[Iterable[Resource]]:
        """Return the system files, which are always listed, then each kind of memory, the newest first."""
        return self.listing.kinds()

    def list_fingerprint(self) -> str:
        """Give a token of every file's state."""
        from carrel.core.hashing import blake2b

        state = blake2b(digest_size=8)
        for name in NAMES:
            root = self.memory.home.root(name)
            state.update(f"{name}{root is None}".encode())
            for path, seen in sorted(walk(root)) if root is not None else ():
                state.update(f"{path}\0{seen.signature}".encode(errors="surrogateescape"))
        return state.hexdigest()

    # Reading

    def read(self, uri: str) -> Reading:
        """Read a URI as it was sent; a failure is content, or an error where that is configured."""
        parts = item_names.split_uri(uri)
        if parts is None:
            raise NotFound(uri)
        try:
            served = self.memory.read(*parts)
        except Refused as refused:
            return self._refuse(uri, refused)
        return Reading((Text(served.text, served.mime_type),), last_modified_ms=served.modified_ms)

    def read_unmatched(self, uri: str) -> Reading:
        """Read a URI that is spelled in another way."""
        return self.read(uri)

    def _refuse(self, uri: str, refused: Refused) -> Reading:
        candidates = {"dev.carrel/candidates": list(refused.candidates)} if refused.candidates else None
        if self._errors == "text":
            text = Text(refused.message, "text/plain", meta=candidates)
            return Reading((text,), error=refused.kind, meta=candidates)
        if refused.kind == "not_found":
            raise NotFound(uri, refused.message, data=candidates)
        if refused.kind == "invalid":
            raise BadArgument(refused.message, uri=uri)
        raise ProviderError(refused.message, word="unreadable", uri=uri)

    def fingerprint(self, uri: str) -> str | None:
        """Give a token that changes when what is read does, without asking git; raise for what can never be read."""
        parts = item_names.split_uri(uri)
        if parts is None:
            raise NotFound(uri)
        kind, asked, wanted = parts
        try:
            if kind == "knowledge":
                name = item_names.checked(asked)
                form = self.memory.format(wanted)
                item = None if name is None else self.memory.library.find(name)
                if item is not None and item.code_links:
                    _, read = self.memory.library.content(item)
                    return f"{form} {item!r} {read.signature} {self.memory.code.fingerprint(item)}"
            served = self.memory.read(kind, asked, wanted)
        except (Ambiguous, Unmatched):
            return None
        except Broken as error:
            return f"error {error.reason}"
        except Refused as refused:
            if refused.kind == "invalid":
                raise BadArgument(refused.message, uri=uri) from None
            return f"error {refused.message}"
        return f"{served.mime_type} {served.text}"

    # Completion

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        """Offer ids and file names: those that begin so, then those that hold it, newest first."""
        del variable, context
        kind = template.removeprefix("sage://").partition("/")[0]
        every = self._offered(kind)
        matching = [name for name in every if name.startswith(value)]
        matching += [name for name in every if value in name and not name.startswith(value)]
        shown = tuple(matching[:MAX_COMPLETIONS])
        return Completion(shown, total=len(matching), has_more=len(matching) > len(shown))

    def _offered(self, kind: str) -> list[str]:
        memory = self.memory
        if kind == "system":
            return [file.path for file in self.system.files() if not file.reason]
        if kind == "checkpoint":
            cards = memory.checkpoints.newest_first(memory.checkpoints.examined().values())
            return [card.stem for card in cards if not card.reason]
        if kind == "failure":
            by_stem = memory.failures.examined()
            addresses = failure_addresses(memory.failures, by_stem)
            cards = memory.failures.newest_first(by_stem.values())
            return [addresses[card.stem] for card in cards if not card.reason]
        shelved = memory.library.newest_first(list(memory.library.items().values()))
        return [one.item.id for one in shelved if is_plain(one.item.id) and not self.listing.content_reason(one)]

    # Tools, instructions, health

    @property
    def is_listed(self) -> bool:
        """Whether there is anything to tell of: the folder, the right to make one, or the user's word."""
        return self._enabled is True or self._level == "write" or self.memory.home.exists

    @property
    def called(self) -> "Tools":
        """What can be called; made when it is first needed."""
        from carrel.providers.sage.tools import Tools  # search and saving, which no read waits for

        with self._making:
            if self._tools is None:
                self._tools = Tools(self._project, self.memory, self._level, self._search)
            return self._tools

    def tools(self) -> Sequence[Tool]:
        """Give the tools of the level that is set."""
        return self.called.tools() if self._level != "off" and self.is_listed else ()

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        """Run a tool."""
        del call
        return self.called.call(name, arguments)

    def instructions(self) -> str:
        """Give the system files and the failures that matter here, within the budget."""
        from carrel.providers.sage.session_start import Opening  # only at the start of a conversation

        return Opening(self._project, self.memory, self.system, *self._inject).text()

    def health(self) -> Meta:
        """Name the files that cannot be read, as far as a moment allows to look."""
        problems: list[str] = []
        deadline = monotonic() + HEALTH_S
        for one in self.listing.unlisted(with_hidden=False):
            if len(problems) >= HEALTH_PROBLEMS or monotonic() > deadline:
                problems.append("there may be more: `carrel sage ls --check` names every file that is not listed")
                break
            problems.append(f".sage/{one.path}: {one.reason}")
        return {"folder": self.memory.home.exists, "problems": problems}

    def close(self) -> None:
        """Give every handle back."""
        if self._tools is not None:
            self._tools.close()
        self.memory.close()
