"""One served folder: its handle, its rules, and the way from a path to an open file.

Everything that opens anything for a client goes through `open`: policy by name first, then
the sandbox, which refuses links to what is denied before it opens it, then policy on what was
really opened.
"""

import os
from time import monotonic, time_ns
from typing import Final

from carrel.core.errors import Denied, NotFound, RequestError
from carrel.core.hashing import sha256
from carrel.core.model import Range
from carrel.core.record import Value
from carrel.files import file_types
from carrel.files.file_types import Kind
from carrel.files.sandbox import Forbidden, Missing, Opened, Outside, Root, SandboxError, Special, Walk, Way
from carrel.providers.workspace.ignore_rules import SETTLED_NS, Segments
from carrel.providers.workspace.paths import OWN_DENY, Target, denied
from carrel.providers.workspace.policy import OPEN, TYPE, Policy, Verdict, follow

MAX_SNIFFED: Final = 16_384
MAX_KNOWN: Final = 4_096

_Identity = tuple[int, int]
"""A file's number and its device. The latest state of each file is remembered: earlier ones never come back."""
_State = tuple[int, int, int]


class FoundFile(Value, frozen=True):
    """Something open that may be served: the names that led to it, and what holds for it."""

    opened: Opened
    segments: Segments
    verdict: Verdict


class Sniffed(Value, frozen=True):
    """What was found out about one state of a file."""

    etag: str
    kind: Kind
    is_text: bool
    head: bytes = b""
    """The first bytes, where they were read just now."""


class Tree:
    """A root with its policy."""

    def __init__(self, name: str, root: Root, policy: Policy, configured: str) -> None:
        self.name = name
        self.root = root
        self.policy = policy
        places = {_names(configured), _names(root.path)}
        self._places = sorted(places, key=len, reverse=True)
        self._sniffed: dict[_Identity, tuple[_State, Sniffed]] = {}

    def open(self, target: Target) -> FoundFile:
        """Open what a target means, or raise; an absolute path inside the root is an alias for its rest."""
        try:
            return self.open_path(target.uri, target.segments, is_folder=target.is_folder)
        except RequestError:
            if target.is_guess:
                raise NotFound(target.uri) from None
            rest = self.unaliased(target.segments)
            if rest is None or rest == target.segments:
                raise
        return self.open_path(target.uri, rest, is_folder=target.is_folder)

    def unaliased(self, segments: Segments) -> Segments | None:
        """Give what follows the root's own absolute path, if the segments begin with it."""
        for place in self._places:
            if segments[: len(place)] == place:
                return segments[len(place) :]
        return None

    def holds(self, segments: Segments) -> bool:
        """Tell whether anything is there, as far as can be known; whether it may be read is not asked."""
        try:
            self.root.open(segments).close()
        except SandboxError as error:
            return not isinstance(error, Missing)
        return True

    def ways(self, segments: Segments) -> list[Segments]:
        """Give the names, and the other names they have by each link on the way, as far as there is anything."""
        trail = Trail(self.root.fd, None)
        try:
            with trail.open(segments) as opened:
                names = [segments, *trail.places, opened.real]
        except (OSError, UnicodeEncodeError, SandboxError):
            names = [segments, *trail.places]
        return list(dict.fromkeys(names))

    def open_path(self, uri: str, segments: Segments, *, is_folder: bool = False) -> FoundFile:
        """Open the names below the root; `is_folder` if they can only mean a folder."""
        judge = self.policy.judge
        as_file = judge(segments, is_folder=False) if segments else judge(segments, is_folder=True)
        verdict = judge(segments, is_folder=True) if is_folder or as_file.reason else as_file
        # A name that is refused as a file may still be a folder's; only the disk can tell.
        if verdict.reason and not self.policy.leads_to_allowed(segments, verdict):
            raise self._refused(uri, verdict if is_folder else as_file)
        try:
            opened = self.root.open(segments)
        except (SandboxError, ValueError) as error:
            failure = self._failure(uri, segments, error, as_file, is_folder=is_folder)
        else:
            try:
                return self._admit(uri, segments, opened, as_file, is_folder=is_folder)
            except BaseException:
                opened.close()
                raise
        raise failure

    def _failure(
        self, uri: str, segments: Segments, error: Exception, as_file: Verdict, *, is_folder: bool
    ) -> RequestError:
        """Say why nothing was opened; where a name may be refused, the same whether or not anything has it."""
        if is_folder:
            if as_file.reason:
                return NotFound(uri)
        else:
            verdict = as_file if as_file.reason else self.policy.judge(segments, is_folder=True)
            if verdict.reason:
                return self._refused(uri, verdict)
        if isinstance(error, Outside):
            return denied(uri, "outside")
        if isinstance(error, Forbidden):
            return denied(uri, "deny")
        refused = self._refused_behind_links(segments, is_folder=is_folder)
        if refused is not None:
            return self._refused(uri, refused)
        if isinstance(error, Missing):
            return NotFound(uri)
        return denied(uri, "special" if isinstance(error, Special) else "os")

    def _refused(self, uri: str, verdict: Verdict) -> Denied:
        told = OWN_DENY if verdict.is_own else self.policy.type_told if verdict.reason == "type" else ""
        return denied(uri, verdict.reason, told)

    def _refused_behind_links(self, segments: Segments, *, is_folder: bool) -> Verdict | None:
        """Return why the place that links lead to is refused, though nothing could be opened there.

        It is the refusal that a link to something gets: what is missing is told in the same words.
        """
        for place in self.ways(segments)[1:]:
            if place != segments and all(map(is_servable, place)):
                verdict = self.policy.judge(place, is_folder=is_folder)
                if verdict.reason:
                    return verdict
        return None

    def _admit(self, uri: str, segments: Segments, opened: Opened, as_file: Verdict, *, is_folder: bool) -> FoundFile:
        """Judge what was really opened: a link leads to another name, and a name may be a folder's."""
        if is_folder and not opened.is_folder:
            raise NotFound(uri)
        verdict = self.policy.judge(segments, is_folder=True) if opened.is_folder else as_file
        if opened.is_folder and opened.real == segments and self.policy.leads_to_allowed(segments, verdict):
            return FoundFile(opened, segments, OPEN)
        if not verdict.reason and opened.real != segments:
            if not all(map(is_servable, opened.real)):
                raise NotFound(uri)
            verdict = follow(verdict, self.policy.judge(opened.real, is_folder=opened.is_folder))
        if verdict.reason:
            raise self._refused(uri, verdict)
        if verdict.needs_text and not opened.is_folder and not self.sniff(opened).is_text:
            raise self._refused(uri, TYPE)
        return FoundFile(opened, segments, verdict)

    def sniff(self, opened: Opened) -> Sniffed:
        """Find out what a file's bytes are: looked at once per state of the file."""
        stat = opened.stat
        known = self.sniffed(stat)
        if known is not None:
            return known
        head = opened.read(0, file_types.WINDOW)
        kind = file_types.sniff(head, is_whole=stat.st_size <= len(head))
        etag = etag_of(stat)
        # What changed a moment ago may change once more and not show it.
        if time_ns() - stat.st_ctime_ns > SETTLED_NS:
            if len(self._sniffed) >= MAX_SNIFFED:
                self._sniffed.clear()
            self._sniffed[_identity(stat)] = _state(stat), Sniffed(etag, kind, kind.is_text)
        return Sniffed(etag, kind, kind.is_text, head)

    def sniffed(self, stat: os.stat_result) -> Sniffed | None:
        """Return what is known of this state of a file, or None."""
        known = self._sniffed.get(_identity(stat))
        return known[1] if known is not None and known[0] == _state(stat) else None


class Trail(Walk):
    """A way that remembers where it met links, and where it ended behind one or for want of anything to go on with."""

    def __init__(self, root: int, anchor: str | None) -> None:
        super().__init__(root, anchor)
        self.places: list[Segments] = []

    def _step(self, name: str) -> int | str | None:
        found: int | str | None = None
        try:
            found = super()._step(name)
        finally:
            if not isinstance(found, int) or (self.links and not self.ahead):
                ahead = [one for one in reversed(self.ahead) if one not in ("", ".", "..")]
                self.places.append((*self.names, name, *ahead))
        return found


class Shape(Value, frozen=True, eq=False):
    """What is told of one state of a file, whatever its bytes are."""

    sniffed: Sniffed
    meta: dict[str, object]
    mime_type: str
    modified_ms: int

    @classmethod
    def of(cls, sniffed: Sniffed, stat: os.stat_result, canonical: str, mime_types: tuple[str, str]) -> "Shape":
        """Make it. The types are those of binary content, and of text."""
        kind, is_text = sniffed.kind, sniffed.is_text
        meta: dict[str, object] = {
            "dev.carrel/uri": canonical,
            "dev.carrel/encoding": kind.encoding if is_text else "base64",
        }
        if kind.is_fallback:
            meta["dev.carrel/fallback"] = True
        return cls(sniffed, meta, mime_types[is_text], stat.st_mtime_ns // 1_000_000)


class Known:
    """A file that was read a moment ago: what its name means, what the policy said of it, and its latest state."""

    __slots__ = ("_canonical", "_latest", "_mime_types", "_needs_text", "_tree", "_until", "_way", "part")

    def __init__(
        self,
        tree: Tree,
        found: FoundFile,
        canonical: str,
        mime_types: tuple[str, str],
        until: float,
        before: "Known | None" = None,
        part: Range | None = None,
    ) -> None:
        """Remember it for as long as the rules by which it was found; `before` was remembered of it, and is too old.

        `part` is the range that its URI asks for.
        """
        self.part = part
        self._tree = tree
        self._way = Way(found.segments)
        self._needs_text = found.verdict.needs_text
        self._canonical = canonical
        self._mime_types = mime_types
        self._until = until
        # One value, so that no thread finds the state of one moment with the shape of another.
        self._latest: tuple[tuple[int, ...], Shape | None] = ((), None)
        if before is not None and (before._canonical, before._mime_types) == (canonical, mime_types):
            state, shape = before._latest
            if shape is not None and (shape.sniffed.is_text or not self._needs_text):
                self._latest = state, shape

    def open(self) -> tuple[Opened, Shape, Shape | None] | None:
        """Open it once more; None if anything is another than it was, and must be looked at from the start.

        The shape comes twice if it is kept: that of a file which changed a moment ago is not.
        """
        if monotonic() > self._until:
            return None
        try:
            opened = self._tree.root.reopen(self._way)
        except SandboxError:
            return None
        try:
            stat = opened.stat
            state, shape = self._latest
            now = (stat.st_ctime_ns, stat.st_mtime_ns, stat.st_size, stat.st_ino, stat.st_dev)
            if state == now and shape is not None and opened.real is self._way.segments:
                return opened, shape, shape
            if not opened.is_folder and opened.real == self._way.segments:
                known = self._tree.sniffed(stat)
                sniffed = known or self._tree.sniff(opened)
                if sniffed.is_text or not self._needs_text:
                    shape = Shape.of(sniffed, stat, self._canonical, self._mime_types)
                    if known is None:
                        return opened, shape, None
                    self._latest = now, shape
                    return opened, shape, shape
        except BaseException:
            opened.close()
            raise
        opened.close()
        return None


def is_servable(name: str) -> bool:
    """Tell whether a name can stand in a URI: UTF-8, without a backslash."""
    return "\\" not in name and (name.isascii() or not any("\ud800" <= one <= "\udfff" for one in name))


def etag_of(stat: os.stat_result) -> str:
    """Give the ETag of a file's state: it changes whenever the bytes may have."""
    state = f"{stat.st_dev}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}"
    digest: str = sha256(state.encode()).hexdigest()
    return digest[:16]


def _identity(stat: os.stat_result) -> _Identity:
    return (stat.st_ino, stat.st_dev)


def _state(stat: os.stat_result) -> _State:
    return (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def _names(path: str) -> Segments:
    return tuple(part for part in path.split("/") if part)
