"""One served folder: its handle, its policy, and how a path becomes an open file.

Everything that is opened for a client is opened by `open`: first the policy judges the name; then the sandbox opens it,
and refuses links to denied names; then the policy judges the file that was opened.
"""

import os
from time import monotonic
from typing import Final

from carrel.core.errors import Denied, NotFound, RequestError
from carrel.core.hashing import blake2b, sha256
from carrel.core.model import Range
from carrel.core.record import Value
from carrel.files import file_types
from carrel.files.file_types import Kind
from carrel.files.sandbox import (
    CheckedPath,
    FileState,
    Forbidden,
    Missing,
    Opened,
    Outside,
    Root,
    SandboxError,
    Special,
    Walk,
    is_settled,
    state_of,
)
from carrel.providers.workspace.ignore_rules import Segments
from carrel.providers.workspace.paths import OWN_DENY, Target, denied
from carrel.providers.workspace.policy import OPEN, TYPE, Policy, Verdict, follow

MAX_SNIFFED: Final = 16_384
MAX_KNOWN: Final = 4_096


class FoundFile(Value, frozen=True):
    """An open file or folder that may be served, the path that led to it, and the verdict on it."""

    opened: Opened
    segments: Segments
    verdict: Verdict


class Sniffed(Value, frozen=True):
    """What is known about one state of a file."""

    etag: str
    kind: Kind
    is_text: bool
    head: bytes = b""
    """The first bytes, if they were read just now."""


class Tree:
    """A root with its policy."""

    def __init__(self, name: str, root: Root, policy: Policy, configured: str) -> None:
        self.name = name
        self.root = root
        self.policy = policy
        places = {_names(configured), _names(root.path)}
        self._places = sorted(places, key=len, reverse=True)
        self._sniffed: dict[FileState, tuple[FileState, Sniffed]] = {}
        """The latest known state of each file, by inode and device."""

    def open(self, target: Target) -> FoundFile:
        """Open a target, or raise; an absolute path inside the root means the path below the root."""
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
        """Return the path below the root for an absolute path that begins with the root's; None for any other."""
        for place in self._places:
            if segments[: len(place)] == place:
                return segments[len(place) :]
        return None

    def spellings(self, segments: Segments) -> list[Segments]:
        """Return a path, and the other paths that it has through each link in it."""
        trail = Trail(self.root.fd, None)
        try:
            with trail.open(segments) as opened:
                names = [segments, *trail.places, opened.real]
        except (OSError, UnicodeEncodeError, SandboxError):
            names = [segments, *trail.places]
        return list(dict.fromkeys(names))

    def open_path(self, uri: str, segments: Segments, *, is_folder: bool = False) -> FoundFile:
        """Open a path below the root; `is_folder` if it can only mean a folder."""
        judge = self.policy.judge
        as_file = judge(segments, is_folder=False) if segments else judge(segments, is_folder=True)
        verdict = judge(segments, is_folder=True) if is_folder or as_file.reason else as_file
        # A name that is refused for files may be that of a folder; only the disk can tell.
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

    def check(self, target: Target, *, is_folder: bool | None = None) -> None:
        """Raise if a path may not be read, whether or not it exists; None if it may be a file or a folder."""
        judge = self.policy.judge
        kinds = (False, True) if is_folder is None and not target.is_folder else (bool(is_folder or target.is_folder),)
        if target.segments and not all(map(is_servable, target.segments)):
            raise NotFound(target.uri)
        verdicts = [judge(target.segments, is_folder=one) for one in kinds]
        if all(verdict.reason for verdict in verdicts):
            raise self._refused(target.uri, verdicts[0])

    def check_unknown(self, target: Target) -> None:
        """Raise unless a path may be read as a file and as a folder, because its kind is not known."""
        as_file, as_folder = (self.policy.judge(target.segments, is_folder=one) for one in (False, True))
        if as_file.reason in ("deny", "hidden", "ignored") or as_folder.reason:
            raise self._refused(target.uri, as_file if as_file.reason else as_folder)

    def check_content(self, target: Target, *, is_text: bool) -> None:
        """Raise if a file of this content may not be read."""
        if not is_text and self.policy.judge(target.segments, is_folder=False).needs_text:
            raise self._refused(target.uri, TYPE)

    def may_show(self, segments: Segments) -> bool:
        """Return whether a file may be read, by its name."""
        return all(map(is_servable, segments)) and not self.policy.judge(segments, is_folder=False).reason

    def shows(self, segments: Segments, *, is_folder: bool) -> bool:
        """Return whether a folder shows a child of this name."""
        verdict = self.policy.judge(segments, is_folder=is_folder)
        return verdict.is_listed and not verdict.reason

    def _failure(
        self, uri: str, segments: Segments, error: Exception, as_file: Verdict, *, is_folder: bool
    ) -> RequestError:
        """Return the error for a path that was not opened; for a refused name it does not depend on what exists."""
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
        return refused(self.policy, uri, verdict)

    def _refused_behind_links(self, segments: Segments, *, is_folder: bool) -> Verdict | None:
        """Return the refusal of a path that links lead to, if nothing could be opened there; else None.

        So a link to a refused path gets the same error whether or not the path exists.
        """
        for place in self.spellings(segments)[1:]:
            if place != segments and all(map(is_servable, place)):
                verdict = self.policy.judge(place, is_folder=is_folder)
                if verdict.reason:
                    return verdict
        return None

    def _admit(self, uri: str, segments: Segments, opened: Opened, as_file: Verdict, *, is_folder: bool) -> FoundFile:
        """Judge the file that was opened: a link may lead to another name, and a name may be that of a folder."""
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
        """Return the kind of a file's bytes; they are read once for each state of the file."""
        stat = opened.stat
        known = self.sniffed(stat)
        if known is not None:
            return known
        head = opened.read(0, file_types.WINDOW)
        kind = file_types.sniff(head, is_whole=stat.st_size <= len(head))
        etag = etag_of(stat)
        if not is_settled(stat):
            # It may still be written without another change of its times. So these bytes must not have the ETag of
            # the final ones; and where more will be read than these, no two reads have the same.
            is_whole = stat.st_size <= len(head)
            mark = blake2b(head, digest_size=4).hexdigest() if is_whole else os.urandom(4).hex()
            return Sniffed(f"{etag}-{mark}", kind, kind.is_text, head)
        if len(self._sniffed) >= MAX_SNIFFED:
            self._sniffed.clear()
        self._sniffed[stat.st_ino, stat.st_dev] = state_of(stat), Sniffed(etag, kind, kind.is_text)
        return Sniffed(etag, kind, kind.is_text, head)

    def sniffed(self, stat: os.stat_result) -> Sniffed | None:
        """Return what is known about this state of a file, or None."""
        known = self._sniffed.get((stat.st_ino, stat.st_dev))
        return known[1] if known is not None and known[0] == state_of(stat) else None


class Trail(Walk):
    """A walk that records the path at each link, and the path at which it ended."""

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
    """What clients learn about one state of a file besides its bytes."""

    sniffed: Sniffed
    meta: dict[str, object]
    mime_type: str
    modified_ms: int

    @classmethod
    def of(cls, sniffed: Sniffed, stat: os.stat_result, canonical: str, mime_types: tuple[str, str]) -> "Shape":
        """Return the shape; `mime_types` are those for binary content and for text."""
        kind, is_text = sniffed.kind, sniffed.is_text
        meta: dict[str, object] = {
            "dev.carrel/uri": canonical,
            "dev.carrel/encoding": kind.encoding if is_text else "base64",
        }
        if kind.is_fallback:
            meta["dev.carrel/fallback"] = True
        return cls(sniffed, meta, mime_types[is_text], stat.st_mtime_ns // 1_000_000)


class Known:
    """A file that was read a moment ago: its path, the verdict of the policy, and its latest state."""

    __slots__ = ("_canonical", "_latest", "_mime_types", "_needs_text", "_path", "_tree", "_until", "part")

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
        """Remember a file until the rules by which it was found expire; `before` is the expired record of the same URI.

        `part` is the range that the URI requests.
        """
        self.part = part
        self._tree = tree
        self._path = CheckedPath(found.segments)
        self._needs_text = found.verdict.needs_text
        self._canonical = canonical
        self._mime_types = mime_types
        self._until = until
        # One value, so that no thread pairs a state with the shape of another state.
        self._latest: tuple[FileState, Shape | None] = ((), None)
        if before is not None and (before._canonical, before._mime_types) == (canonical, mime_types):
            state, shape = before._latest
            if shape is not None and (shape.sniffed.is_text or not self._needs_text):
                self._latest = state, shape

    def open(self) -> tuple[Opened, Shape, Shape | None] | None:
        """Open the file again; return None if it must be found again from the start.

        The shape is returned twice if it is kept; that of a file that changed a moment ago is not.
        """
        if monotonic() > self._until:
            return None
        try:
            opened = self._tree.root.reopen(self._path)
        except SandboxError:
            return None
        try:
            stat = opened.stat
            state, shape = self._latest
            # As `state_of`, without the call: most reads come here.
            now = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
            if state == now and shape is not None and opened.real is self._path.segments:
                return opened, shape, shape
            if not opened.is_folder and opened.real == self._path.segments:
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


def refused(policy: Policy, uri: str, verdict: Verdict) -> Denied:
    """Return the error for a refused URI."""
    words = OWN_DENY if verdict.is_own else policy.type_message if verdict.reason == "type" else ""
    return denied(uri, verdict.reason, words)


def is_servable(name: str) -> bool:
    """Return whether a URI can contain a name: UTF-8, without a backslash."""
    return "\\" not in name and (name.isascii() or not any("\ud800" <= one <= "\udfff" for one in name))


def etag_of(stat: os.stat_result) -> str:
    """Return the ETag of a file's state; it changes whenever the bytes may have changed."""
    state = f"{stat.st_dev}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}"
    digest: str = sha256(state.encode()).hexdigest()
    return digest[:16]


def _names(path: str) -> Segments:
    return tuple(part for part in path.split("/") if part)
