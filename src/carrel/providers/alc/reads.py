"""Read the content of a target, with the state of its file, and word the client's message for each failure."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from carrel.core.errors import ProviderError, echo
from carrel.core.model import Reading, Stored
from carrel.core.record import replace
from carrel.providers.alc import compact_json, uris
from carrel.providers.alc.cards import Cards, NotToml
from carrel.providers.alc.files import Absent, AlcFile, Escapes, Failed, FileError, Malformed, Oversized, open_below
from carrel.providers.alc.hub import Hub
from carrel.providers.alc.layout import INIT, Layout, Package
from carrel.providers.alc.packages import ParseBudget, Sources, meta_text, narrative
from carrel.providers.alc.samples import PageTooLarge, Samples, SearchTimeout
from carrel.providers.alc.session_log import DoesNotFit, newest_rounds
from carrel.providers.alc.uris import KINDS, AlcTarget, Kind

FORMAT: Final = "2"
"""Part of the ETags of texts made from files; another number when the same file gives another text."""
BUILDING_S: Final = 20.0
"""Seconds that a read of the index may spend on parsing new files; the next read goes on from there."""
SIZE_KEY: Final = "dev.carrel/size"

_FILES: Final[Mapping[Kind, tuple[str, str, str]]] = {
    "types": ("{id}", "failed to read type stub '{id}'", ""),
    "init": (INIT, "failed to read package '{id}'", "pkg not found: {id}"),
    "meta": (INIT, "failed to read package '{id}'", ""),
    "card": ("{id}.toml", "Failed to read card '{id}'", "card '{id}' not found"),
    "samples": ("{id}.samples.jsonl", "Failed to read samples file", ""),
    "scenario": ("{id}.lua", "Failed to read scenario '{id}'", "Scenario '{id}' not found"),
    "eval": ("{id}.json", "Failed to read eval", "Eval result not found: {id}"),
    "log": ("{id}.json", "Failed to read log", "Log file not found for session '{id}'"),
    "narrative": (INIT, "failed to read package '{id}'", ""),
    "index": ("", "", ""),
}
"""The file's name, the beginning of the message when it cannot be read, and the message when there is none."""


class FoundResource:
    """A target's open file and its text: a source of bytes that makes the text when it is first needed.

    `file_size` is the size that clients see, if that is the size of the file. `is_parsed` returns whether the text can
    be made without parsing the file.
    """

    def __init__(
        self,
        target: AlcTarget,
        etag: str,
        modified_ms: int,
        make: Callable[[], bytes],
        file: AlcFile | None = None,
        file_size: int | None = None,
        is_parsed: Callable[[], bool] = lambda: True,
    ) -> None:
        self.etag = etag
        self.modified_ms = modified_ms
        self.file = file
        self.file_size = file_size
        self.is_parsed = is_parsed
        self._target = target
        self._make = make
        self._text: bytes | None = None

    @property
    def text(self) -> bytes:
        """Return the text; raise the error that the client sees."""
        if self._text is None:
            with _client_errors(self._target):
                self._text = self._make()
        return self._text

    @property
    def size(self) -> int:
        """Return the length of the text, in bytes."""
        return len(self.text)

    def read(self, start: int, length: int) -> bytes:
        """Return a part of the text."""
        return self.text[start : start + length]

    def has_moved(self) -> bool:
        """Return whether the file changed since it was opened."""
        return self.file is not None and self.file.has_moved()

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            self.file.close()


class Reader:
    """Reads of one home."""

    def __init__(self, layout: Layout, max_file_bytes: int, max_page_bytes: int, max_message_bytes: int) -> None:
        self.layout = layout
        self.sources = Sources(max_file_bytes)
        self.cards = Cards(max_file_bytes)
        self.hub = Hub(layout, self.sources, self.cards, max_file_bytes)
        self._max_wire = max_message_bytes - compact_json.AROUND
        self._samples = Samples(max_page_bytes, self._max_wire)
        self._max_file_bytes = max_file_bytes
        self._max_page_bytes = max_page_bytes
        self._finders: dict[Kind, Callable[[AlcTarget], FoundResource]] = {
            "types": self._find_file,
            "init": lambda target: self._verbatim(target, self._open_package(target)[1]),
            "meta": self._find_meta,
            "narrative": self._find_narrative,
            "card": self._find_card,
            "samples": self._find_samples,
            "scenario": self._find_file,
            "eval": self._find_file,
            "log": self._find_log,
            "index": lambda target: self.find_index(target, ParseBudget(BUILDING_S)),
        }

    def find(self, target: AlcTarget) -> FoundResource:
        """Find and open the file of a target, without reading it."""
        with _client_errors(target):
            return self._finders[target.kind](target)

    def read(self, target: AlcTarget) -> Reading:
        """Return the reading of a target; its text is made when it is needed."""
        found = self.find(target)
        mime_type = KINDS[target.kind].mime_type
        meta = None if found.file_size is None else {SIZE_KEY: found.file_size}
        item = Stored(found, "utf-8", mime_type, meta=meta, exact=True)
        return Reading((item,), mime_type=mime_type, etag=found.etag, last_modified_ms=found.modified_ms)

    # Files as they are

    def _open_file(self, target: AlcTarget) -> AlcFile:
        folder = self.layout.folder(target.kind)
        if folder is None:
            raise Absent
        return open_below(folder, _file_name(target))

    def _find_file(self, target: AlcTarget) -> FoundResource:
        return self._verbatim(target, self._open_file(target))

    def _verbatim(self, target: AlcTarget, file: AlcFile) -> FoundResource:
        return FoundResource(
            target, file.etag(), file.modified_ms, lambda: file.read_text(self._max_file_bytes), file, file.size
        )

    # Packages

    def _open_package(self, target: AlcTarget) -> tuple[Package, AlcFile]:
        package = self.layout.find_package(target.id, self.layout.variants.folders())
        if package is None:
            raise Absent
        return package, open_below(package.folder, INIT)

    def _find_meta(self, target: AlcTarget) -> FoundResource:
        package, file = self._open_package(target)

        def make() -> bytes:
            return meta_text(package, self.sources.read(package.init, file).facts).encode()

        def is_parsed() -> bool:
            return self.sources.known(package.init, file.stamp) is not None

        etag = file.etag(package.scope, FORMAT)
        return FoundResource(target, etag, file.modified_ms, make, file, is_parsed=is_parsed)

    def _find_narrative(self, target: AlcTarget) -> FoundResource:
        package, file = self._open_package(target)

        def make() -> bytes:
            source, spec = self.sources.read(package.init, file), self.sources.spec(package.init, file)
            return narrative(package, source, spec).encode("utf-8", "replace")

        return FoundResource(target, file.etag(package.scope, FORMAT), file.modified_ms, make, file)

    def find_index(self, target: AlcTarget, budget: ParseBudget) -> FoundResource:
        """Return the index, built within a budget; raise `ProviderError` if that is not enough."""
        index = self.hub.index(self.layout.variants.folders(), budget)
        return FoundResource(target, index.etag, index.modified_ms, index.text.encode)

    # Cards and their samples

    def _find_card(self, target: AlcTarget) -> FoundResource:
        file = open_below(self.layout.home.below("cards"), self.layout.find_card(target.id), _file_name(target))

        def make() -> bytes:
            try:
                return self.cards.text(file).encode()
            except NotToml as error:
                reason = str(error)
            raise Malformed(f"card '{echo(target.id)}': {reason}")

        def is_parsed() -> bool:
            return self.cards.is_known(file.path, file.stamp)

        return FoundResource(target, file.etag("global", FORMAT), file.modified_ms, make, file, is_parsed=is_parsed)

    def _find_samples(self, target: AlcTarget) -> FoundResource:
        folder = self.layout.home.below("cards")
        with _client_errors(replace(target, kind="card")):
            name = self.layout.find_card(target.id)
            card = open_below(folder, name, f"{target.id}.toml")
        with card:
            try:
                file = open_below(folder, name, _file_name(target))
            except Absent:
                etag = card.etag("samples", *target.values)
                return FoundResource(target, etag, card.modified_ms, lambda: b"[]", None, 2)
        etag = file.etag(FORMAT, *target.values)
        return FoundResource(target, etag, file.modified_ms, lambda: self._page(target, file).encode(), file, file.size)

    def _page(self, target: AlcTarget, file: AlcFile) -> str:
        offset, limit = target.values
        most = self._max_page_bytes
        try:
            return self._samples.page(file, offset, limit)
        except SearchTimeout:
            message = f"Failed to read samples file: row {offset} was not found in time; ask again"
            raise ProviderError(message, word="timeout", uri=target.uri) from None
        except PageTooLarge as error:
            message = f"samples page on {echo(target.uri)} exceeds {most} bytes; limit={error.fits} works"
            if not error.fits:
                message = f"sample row at offset {offset} exceeds {most} bytes"
            raise uris.too_large(message, target.uri, file.size, most) from None

    # Logs

    def _find_log(self, target: AlcTarget) -> FoundResource:
        if target.id.endswith(".meta"):
            raise Absent
        file = self._open_file(target)

        def make() -> bytes:
            return self._log_text(target, file.read_text(self._max_file_bytes)).encode()

        return FoundResource(target, file.etag(FORMAT, *target.values), file.modified_ms, make, file, file.size)

    def _log_text(self, target: AlcTarget, data: bytes) -> str:
        limit, max_chars = target.values
        try:
            return newest_rounds(compact_json.loads(data), limit, max_chars, self._max_wire)
        except ValueError as error:
            raise Malformed(f"log: {error}") from None
        except DoesNotFit as error:
            needed, cap = error.needed, uris.CAPS["max_chars"]
        advice = f"smallest max_chars that works is {needed}"
        if needed > cap:
            advice = f"it needs {needed}, above the cap of {cap}"
        message = f"log of session '{echo(target.id)}' does not fit in max_chars={max_chars}; {advice}"
        raise uris.too_large(message, target.uri, needed, max_chars)


def _file_name(target: AlcTarget) -> str:
    return _FILES[target.kind][0].format(id=target.id)


@contextmanager
def _client_errors(target: AlcTarget) -> Iterator[None]:
    """Raise the client's error if a file of the target is not served."""
    try:
        yield
        return
    except FileError as error:
        problem = error
    if isinstance(problem, Escapes):
        uris.refuse(f"Path '{echo(_file_name(target))}' escapes base directory", target.uri)
    if isinstance(problem, Oversized):
        message = f"file of {echo(target.uri)} is {problem.size} bytes, limit is {problem.limit}"
        raise uris.too_large(message, target.uri, problem.size, problem.limit)
    _, failed, absent = (text.format(id=echo(target.id)) for text in _FILES[target.kind])
    if isinstance(problem, Failed):
        raise ProviderError(f"{failed}: {problem}", word="unreadable", uri=target.uri)
    if isinstance(problem, Malformed):
        raise ProviderError(f"Failed to parse {problem}", word="unreadable", uri=target.uri)
    raise uris.not_found(target.uri, absent)
