"""One served folder: its handle, its rules, and the way from a path to an open file.

Everything that opens anything goes through `open`: policy by name first, then the
sandbox, then policy on what was really opened, links followed.
"""

import os
from collections import OrderedDict
from threading import Lock
from typing import Final

from carrel.digest import sha256
from carrel.errors import NotFound, RequestError
from carrel.providers.workspace import kinds
from carrel.providers.workspace.ignore import Segments
from carrel.providers.workspace.kinds import Kind
from carrel.providers.workspace.paths import Target, denied
from carrel.providers.workspace.policy import Policy, Verdict
from carrel.sandbox import Missing, Opened, Outside, Root, SandboxError, Special
from carrel.value import Value

MAX_SNIFFED: Final = 16_384


class Found(Value, frozen=True):
    """Something open that may be served: the names that led to it, and what holds for it."""

    opened: Opened
    segments: Segments
    verdict: Verdict
    etag: str


class Tree:
    """A root with its policy."""

    def __init__(self, name: str, root: Root, policy: Policy, configured: str) -> None:
        self.name = name
        self.root = root
        self.policy = policy
        self._aliases = {_names(configured), _names(root.path)}
        self._sniffed: OrderedDict[str, Kind] = OrderedDict()
        self._lock = Lock()

    def open(self, target: Target) -> Found:
        """Open what a target means, or raise; an absolute path inside the root is an alias for its rest."""
        try:
            return self._open(target, target.segments)
        except RequestError:
            rest = self.unaliased(target.segments)
            if rest is None:
                raise
        return self._open(target, rest)

    def unaliased(self, segments: Segments) -> Segments | None:
        """Give what follows the root's own absolute path, if the segments begin with it."""
        for alias in self._aliases:
            if alias and segments[: len(alias)] == alias:
                return segments[len(alias) :]
        return None

    def _open(self, target: Target, segments: Segments) -> Found:
        verdict = self.policy.judge(segments, is_folder=target.is_folder)
        # A name that is refused as a file may still be a folder's; only the disk can tell.
        if verdict.reason and (target.is_folder or self.policy.judge(segments, is_folder=True).reason):
            raise denied(target.uri, verdict.reason)
        opened = self._open_below(target, segments, verdict)
        try:
            return self._admit(target, segments, opened, verdict)
        except BaseException:
            opened.close()
            raise

    def _open_below(self, target: Target, segments: Segments, verdict: Verdict) -> Opened:
        try:
            return self.root.open(segments)
        except Missing:
            failure: RequestError = NotFound(target.uri)
        except Outside:
            failure = denied(target.uri, "outside")
        except Special:
            failure = denied(target.uri, "special")
        except (SandboxError, ValueError):
            failure = denied(target.uri, "os")
        raise denied(target.uri, verdict.reason) if verdict.reason else failure

    def _admit(self, target: Target, segments: Segments, opened: Opened, verdict: Verdict) -> Found:
        """Judge what was really opened: a link leads to another name, and a name may be a folder."""
        if target.is_folder and not opened.is_folder:
            raise NotFound(target.uri)
        if opened.is_folder:
            verdict = self.policy.judge(segments, is_folder=True)
        if opened.real != segments and not verdict.reason:
            verdict = self.policy.judge(opened.real, is_folder=opened.is_folder)
        if verdict.reason:
            raise denied(target.uri, verdict.reason)
        found = Found(opened, segments, verdict, etag_of(opened.stat))
        if verdict.needs_text and not opened.is_folder and not self.kind(found).is_text:
            raise denied(target.uri, "type")
        return found

    def kind(self, found: Found) -> Kind:
        """Give what the file's bytes are: looked at once per state of the file."""
        return self.sniff(found.opened, found.etag)[0]

    def sniff(self, opened: Opened, etag: str) -> tuple[Kind, bytes | None]:
        """Give what the file's bytes are, and its first bytes if they had to be read."""
        with self._lock:
            known = self._sniffed.get(etag)
            if known is not None:
                self._sniffed.move_to_end(etag)
                return known, None
        head = opened.read(0, kinds.WINDOW)
        kind = kinds.sniff(head, is_whole=opened.stat.st_size <= len(head))
        with self._lock:
            self._sniffed[etag] = kind
            if len(self._sniffed) > MAX_SNIFFED:
                self._sniffed.popitem(last=False)
        return kind, head


def etag_of(stat: os.stat_result) -> str:
    """Give the ETag of a file's state: it changes whenever the bytes may have."""
    state = f"{stat.st_dev}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}"
    return str(sha256(state.encode()).hexdigest()[:16])


def _names(path: str) -> Segments:
    return tuple(part for part in path.split("/") if part)
