"""Reads: a target to what it holds, with the state of the file it comes from and the message for each failure.

Nothing is read before it is wanted: a reading knows its file, open, and what to make of it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from carrel.core.errors import ProviderError, echo
from carrel.core.model import Reading, Stored
from carrel.core.record import Value
from carrel.providers.alc import compact_json, uris
from carrel.providers.alc.cards import Cards, NotToml
from carrel.providers.alc.files import Absent, Escapes, Failed, FileError, HeldFile, Oversized, Rendering, open_below
from carrel.providers.alc.hub import Hub
from carrel.providers.alc.layout import INIT, Layout, Package
from carrel.providers.alc.packages import Sources, meta_text, narrative
from carrel.providers.alc.parse_deadline import Patience
from carrel.providers.alc.samples import BadRow, NotFoundYet, PageTooLarge, Samples
from carrel.providers.alc.session_log import DoesNotFit, window
from carrel.providers.alc.uris import AlcTarget, Kind

FORMAT: Final = "2"
"""Part of the ETags of what is made of files: another number where the same file gives another text."""

LUA, JSON, MARKDOWN = "text/x-lua", "application/json", "text/markdown"
MIME_TYPES: Final[dict[Kind, str]] = {
    "types": LUA,
    "init": LUA,
    "meta": JSON,
    "narrative": MARKDOWN,
    "card": JSON,
    "samples": JSON,
    "scenario": LUA,
    "eval": JSON,
    "log": JSON,
    "index": JSON,
}
BUILDING_S: Final = 20.0
"""How long a read of the index may parse what it has not parsed yet; the next read goes on from there."""
SIZE_KEY: Final = "dev.carrel/size"


class FoundResource(Value, frozen=True):
    """The file a target comes from, open, with what it gives: `size` is that of the file, if that is told."""

    etag: str
    modified_ms: int
    make: Callable[[], bytes]
    held: HeldFile | None = None
    size: int | None = None
    is_ready: Callable[[], bool] = lambda: True
    """Whether `make` has nothing to parse."""

    def close(self) -> None:
        """Let go of the file."""
        if self.held is not None:
            self.held.close()


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
            "types": self._find_types,
            "init": self._find_init,
            "meta": self._find_meta,
            "narrative": self._find_narrative,
            "card": self._find_card,
            "samples": self._find_samples,
            "scenario": self._find_scenario,
            "eval": self._find_eval,
            "log": self._find_log,
            "index": lambda _: self.find_index(Patience(BUILDING_S)),
        }

    def find(self, target: AlcTarget) -> FoundResource:
        """Find what a target means, without reading it."""
        return self._finders[target.kind](target)

    def read(self, target: AlcTarget) -> Reading:
        """Read a target; its content is made when it is asked for."""
        found = self.find(target)
        mime_type = MIME_TYPES[target.kind]
        meta = None if found.size is None else {SIZE_KEY: found.size}
        item = Stored(Rendering(found.held, found.make), "utf-8", mime_type, meta=meta, exact=True)
        return Reading((item,), mime_type=mime_type, etag=found.etag, last_modified_ms=found.modified_ms)

    # Files as they are

    def _find_types(self, target: AlcTarget) -> FoundResource:
        with _told(target, target.id, f"failed to read type stub '{echo(target.id)}'"):
            return self._verbatim(target, open_below(self.layout.place("types"), (target.id,)))

    def _find_scenario(self, target: AlcTarget) -> FoundResource:
        name = f"{target.id}.lua"
        told = f"Failed to read scenario '{echo(target.id)}'"
        with _told(target, name, told, f"Scenario '{echo(target.id)}' not found"):
            return self._verbatim(target, open_below(self.layout.place("scenarios"), (name,)), told)

    def _find_eval(self, target: AlcTarget) -> FoundResource:
        name = f"{target.id}.json"
        with _told(target, name, "Failed to read eval", f"Eval result not found: {echo(target.id)}"):
            return self._verbatim(target, open_below(self.layout.place("evals"), (name,)), "Failed to read eval")

    def _find_init(self, target: AlcTarget) -> FoundResource:
        _, held = self._open_package(target, f"pkg not found: {echo(target.id)}")
        return self._verbatim(target, held, f"failed to read package '{echo(target.id)}'")

    def _verbatim(self, target: AlcTarget, held: HeldFile, failed: str = "") -> FoundResource:
        failed = failed or f"failed to read type stub '{echo(target.id)}'"

        def make() -> bytes:
            with _told(target, "", failed):
                return held.read_text(self._max_file_bytes)

        return FoundResource(held.etag(), held.modified_ms, make, held, held.size)

    # What is made of packages

    def _open_package(self, target: AlcTarget, absent: str | None = None) -> tuple[Package, HeldFile]:
        package = self.layout.find_package(target.id, self.layout.variants())
        if package is None:
            raise uris.not_found(target, absent)
        with _told(target, INIT, f"failed to read package '{echo(target.id)}'", absent):
            return package, self.open_package(package)

    def open_package(self, package: Package) -> HeldFile:
        """Open the source of a package."""
        return open_below(package.folder, (INIT,))

    def _find_meta(self, target: AlcTarget) -> FoundResource:
        package, held = self._open_package(target)

        def make() -> bytes:
            with _told(target, INIT, f"failed to read package '{echo(target.id)}'"):
                return meta_text(package, self.sources.read(package.init, held).facts).encode()

        def is_ready() -> bool:
            return self.sources.known(package.init, held.stamp) is not None

        return FoundResource(held.etag(package.scope, FORMAT), held.modified_ms, make, held, is_ready=is_ready)

    def _find_narrative(self, target: AlcTarget) -> FoundResource:
        package, held = self._open_package(target)

        def make() -> bytes:
            with _told(target, INIT, f"failed to read package '{echo(target.id)}'"):
                source, spec = self.sources.read(package.init, held), self.sources.spec(package.init, held)
                return narrative(package, source, spec).encode("utf-8", "replace")

        return FoundResource(held.etag(package.scope, FORMAT), held.modified_ms, make, held)

    def find_index(self, patience: Patience) -> FoundResource:
        """Find the index, built as far as patience reaches; raise if that is not far enough."""
        built = self.hub.index(self.layout.variants(), patience)
        return FoundResource(built.etag, built.modified_ms, built.text.encode)

    # Cards and their samples

    def _open_card(self, target: AlcTarget) -> tuple[str, HeldFile]:
        absent = f"card '{echo(target.id)}' not found"
        folder = self.layout.find_card(target.id)
        if folder is None:
            raise uris.not_found(target, absent)
        name = f"{target.id}.toml"
        with _told(target, name, f"Failed to read card '{echo(target.id)}'", absent):
            return folder, open_below(self.layout.place("cards"), (folder, name))

    def _find_card(self, target: AlcTarget) -> FoundResource:
        _, held = self._open_card(target)

        def make() -> bytes:
            try:
                with _told(target, "", f"Failed to read card '{echo(target.id)}'"):
                    return self.cards.text(held).encode()
            except NotToml as error:
                reason = str(error)
            raise _broken(f"Failed to parse card '{echo(target.id)}': {reason}", target)

        return FoundResource(
            held.etag("global", FORMAT),
            held.modified_ms,
            make,
            held,
            is_ready=lambda: self.cards.is_known(held.path, held.stamp),
        )

    def _find_samples(self, target: AlcTarget) -> FoundResource:
        folder, card = self._open_card(target)
        name = f"{target.id}.samples.jsonl"
        with card:
            try:
                with _told(target, name, "Failed to read samples file", is_absence_told=False):
                    held = open_below(self.layout.place("cards"), (folder, name))
            except Absent:
                return FoundResource(card.etag("samples", *target.values), card.modified_ms, lambda: b"[]", None, 2)

        def make() -> bytes:
            with _told(target, "", "Failed to read samples file"):
                return self._page(target, held).encode()

        return FoundResource(held.etag(FORMAT, *target.values), held.modified_ms, make, held, held.size)

    def _page(self, target: AlcTarget, held: HeldFile) -> str:
        offset, limit = target.values
        most = self._max_page_bytes
        try:
            return self._samples.page(held, offset, limit)
        except BadRow as error:
            raise _broken(f"Failed to parse sample line {error.line}: {error.reason}", target) from None
        except NotFoundYet:
            message = f"Failed to read samples file: row {offset} was not found in time; ask again"
            raise ProviderError(message, word="timeout", uri=target.uri) from None
        except PageTooLarge as error:
            message = f"samples page on {echo(target.uri)} exceeds {most} bytes; limit={error.fits} works"
            if not error.fits:
                message = f"sample row at offset {offset} exceeds {most} bytes"
            raise uris.too_large(message, target.uri, held.size, most) from None

    # Logs

    def _find_log(self, target: AlcTarget) -> FoundResource:
        absent = f"Log file not found for session '{echo(target.id)}'"
        folder = self.layout.log_dir()
        if folder is None or target.id.endswith(".meta"):
            raise uris.not_found(target, absent)
        name = f"{target.id}.json"
        with _told(target, name, "Failed to read log", absent):
            held = open_below(folder, (name,))

        def make() -> bytes:
            with _told(target, "", "Failed to read log"):
                return self._window(target, held.read_text(self._max_file_bytes)).encode()

        return FoundResource(held.etag(FORMAT, *target.values), held.modified_ms, make, held, held.size)

    def _window(self, target: AlcTarget, data: bytes) -> str:
        limit, max_chars = target.values
        try:
            return window(compact_json.loads(data), limit, max_chars, self._max_wire)
        except ValueError as error:
            raise _broken(f"Failed to parse log: {error}", target) from None
        except DoesNotFit as error:
            needed, cap = error.needed, uris.PARAMETERS["log"][1].cap
        advice = f"smallest max_chars that works is {needed}"
        if needed > cap:
            advice = f"it needs {needed}, above the cap of {cap}"
        message = f"log of session '{echo(target.id)}' does not fit in max_chars={max_chars}; {advice}"
        raise uris.too_large(message, target.uri, needed, max_chars)


@contextmanager
def _told(
    target: AlcTarget, name: str, failed: str, absent: str | None = None, *, is_absence_told: bool = True
) -> Iterator[None]:
    """Tell a client why a file is not served; `failed` is the beginning of what it is told of a failure."""
    try:
        yield
        return
    except FileError as error:
        problem = error
    if isinstance(problem, Escapes):
        uris.refuse(f"Path '{echo(name)}' escapes base directory", target.uri)
    if isinstance(problem, Oversized):
        message = f"file of {echo(target.uri)} is {problem.size} bytes, limit is {problem.limit}"
        raise uris.too_large(message, target.uri, problem.size, problem.limit)
    if isinstance(problem, Failed):
        raise _broken(f"{failed}: {problem.reason}", target)
    raise uris.not_found(target, absent) if is_absence_told else problem


def _broken(message: str, target: AlcTarget) -> ProviderError:
    return ProviderError(message, word="unreadable", uri=target.uri)
