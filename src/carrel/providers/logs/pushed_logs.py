"""Write the logs that other machines send to the folder of logs, within the limits of `quota`.

A sender posts batches of lines in the form of `spool_lines`. Each batch begins with the header, so it is complete by
itself. Entries that the log already has are ignored, and so are entries after a gap. The answer always names the
newest entry, and the sender continues after it. So a batch may be sent again after a lost connection.
"""

import contextlib
import fcntl
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from hmac import compare_digest
from typing import Final

from carrel.core.errors import BadArgument, Conflict, ProviderError
from carrel.core.hashing import sha256
from carrel.core.record import Value, replace
from carrel.core.writer import current_writer
from carrel.providers.logs import spool
from carrel.providers.logs.lines import make_line
from carrel.providers.logs.log import Kind, LogFacts, LogOrigin, Retention
from carrel.providers.logs.quota import Quota, caller_label
from carrel.providers.logs.ring import LogEntry
from carrel.providers.logs.spool_lines import Dropped, End, Header, SpoolLine, dropped_line, end_line, entry_line, parse
from carrel.providers.logs.spooled_log import SpoolBounds, SpooledLog

_KNOWN: Final = 16
"""Maximum number of logs that are kept in memory, so that each batch reads only the lines that others added."""
_WRITE_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Batch(Value, frozen=True):
    """A posted batch: the header, whose origin has the hash of the sender's key, and the lines."""

    header: Header
    lines: tuple[SpoolLine, ...]


class Added(Value, frozen=True):
    """What a batch did to a log: its newest entry, and its ETags; `before` is None for a log that was begun.

    `max_bytes` is how much of a log is kept.
    """

    uri: str
    newest: int
    before: str | None
    after: str
    has_ended: bool
    max_bytes: int

    def answer(self) -> Mapping[str, object]:
        """Return the answer to the sender."""
        return {"uri": self.uri, "newest": self.newest, "max_bytes": self.max_bytes}


def parse_batch(data: bytes, caller: str) -> Batch:
    """Return a checked batch of a caller; raise BadArgument with the number of the first wrong line."""
    first, *others = data.removesuffix(b"\n").split(b"\n")
    header = parse(first)
    origin = header.origin if isinstance(header, Header) else None
    if not isinstance(header, Header) or origin is None or len(origin.key) < 16:
        raise _bad_line(1, 'a header such as {"program": "make", "ms": 1763400000000, "origin": {"key": "…"}}')
    lines = []
    for number, line in enumerate(others, 2):
        parsed = parse(line)
        if parsed is None or isinstance(parsed, Header):
            raise _bad_line(number, 'an entry such as {"seq": 1, "ms": 1763400000000, "stream": "out", "text": "…"}')
        lines.append(parsed)
    hashed = replace(origin, key=str(sha256(origin.key.encode()).hexdigest()), caller=caller)
    return Batch(replace(header, origin=hashed), tuple(lines))


def _bad_line(number: int, expected: str) -> BadArgument:
    message = f"Invalid line {number}: expected {expected}; a key has at least 16 characters"
    return BadArgument(message, data={"parameter": "body"})


class PushedLogs:
    """Writes the logs that other machines send. Several servers may write to one folder."""

    def __init__(self, root: str, bounds: SpoolBounds, retention: Retention) -> None:
        self._root = root
        self._bounds = bounds
        self._quota = Quota(root, retention)
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[Kind, str], SpooledLog] = OrderedDict()

    def append(self, kind: Kind, name: str, data: bytes) -> Added:
        """Add a batch to a log, which is begun if it does not exist; return what became of it."""
        batch = parse_batch(data, caller_label(current_writer().caller))
        try:
            with self._lock, self._claimed(kind, name, batch.header) as (folder, descriptor, is_begun):
                return self._add(folder, descriptor, kind, name, batch, is_begun=is_begun)
        except OSError as error:
            reason = "its disk is full" if error.errno in _FULL else "its folder of logs cannot be written"
            raise ProviderError(f"The desk cannot keep the log: {reason}", word="unavailable") from error

    def _add(self, folder: int, descriptor: int, kind: Kind, name: str, batch: Batch, *, is_begun: bool) -> Added:
        log = self._known.pop((kind, name), None) or SpooledLog(kind, name, self._bounds)
        log.update(descriptor)
        if not _is_same_sender(log.facts.origin, batch.header.origin):
            raise Conflict(f"Another sender already has a log {name}; choose another name", uri=log.facts.uri)
        before, had_end = None if is_begun else log.facts.etag, log.has_end
        if not log.has_end:
            text, end = self._new_lines(log.ring.newest, batch)
            if text:
                self._make_room(folder, descriptor, log, len(text.encode()))
                _write(descriptor, text)
                log.update(descriptor)
            if end is not None:
                spool.write(descriptor, end_line(replace(end, counts=_counts(log.facts))))
                log.update(descriptor)
            else:
                self._shorten(folder, descriptor, log, spool.REWRITE_AT)
            os.utime(descriptor)
        self._known[kind, name] = log
        while len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        has_ended = log.has_end and not had_end
        kept = self._bounds.pushed.max_bytes
        return Added(log.facts.uri, log.ring.newest, before, log.facts.etag, has_ended, kept)

    def _make_room(self, folder: int, descriptor: int, log: SpooledLog, size: int) -> None:
        """Make room for more lines; if there is none, shorten the file for the time when they are sent again."""
        try:
            self._quota.make_room(_caller_of(log.facts), size, (log.facts.kind, log.facts.id))
        except ProviderError:
            self._shorten(folder, descriptor, log, spool.REWRITE_AT // 2)
            raise

    def _shorten(self, folder: int, descriptor: int, log: SpooledLog, times: int) -> None:
        """Rewrite the file with only the lines that are kept, if it is much larger than a log may be."""
        if os.fstat(descriptor).st_size > times * self._bounds.pushed.max_bytes:
            os.close(spool.write_whole(folder, log.facts, log.ring.entries)[0])

    def _new_lines(self, newest: int, batch: Batch) -> tuple[str, End | None]:
        """Return the lines of a batch that follow the newest entry, and the end if it follows them."""
        texts: list[str] = []
        entries: list[LogEntry] = []
        end = None
        for line in batch.lines:
            if isinstance(line, Dropped) and line.entries > newest:
                texts.append(dropped_line(line.entries, line.size))
                newest = line.entries
            elif isinstance(line, LogEntry) and line.seq == newest + 1:
                entries.append(line)
                newest = line.seq
            elif isinstance(line, LogEntry) and line.seq > newest:
                break
            elif isinstance(line, End):
                end = line
                break
        texts += [entry_line(entry) for entry in self._without_secrets(entries)]
        return "".join(texts), end

    def _without_secrets(self, entries: list[LogEntry]) -> Iterator[LogEntry]:
        """Yield entries with secrets replaced: Carrel's sender does that too, but other programs may send."""
        bounds = self._bounds.pushed
        texts = [entry.line.text for entry in entries]
        if bounds.redact and texts:
            from carrel.providers.logs.redaction import Redactor  # its patterns are compiled when there is a log

            texts = Redactor()(texts)
        for entry, text in zip(entries, texts, strict=True):
            line = make_line(text, 0, bounds.max_bytes, is_partial=entry.line.is_partial)
            yield replace(entry, line=line if line.cut else replace(line, cut=entry.line.cut))

    @contextlib.contextmanager
    def _claimed(self, kind: Kind, name: str, header: Header) -> Iterator[tuple[int, int, bool]]:
        """Yield the folder, the file of a log locked for writing, and whether the log is begun with it."""
        with spool.opened(self._root, kind, is_made=True) as folder:
            descriptor, is_begun = _open_locked(folder, name), False
            if descriptor is None:
                fcntl.flock(folder, fcntl.LOCK_EX)  # another server may begin it at this moment
                descriptor = _open_locked(folder, name)
                if descriptor is None:
                    self._quota.make_room_for_one(header.origin.caller if header.origin else "")
                    facts = LogFacts(kind, name, header.program, header.started_ms, origin=header.origin)
                    descriptor, is_begun = spool.write_whole(folder, facts, ())[0], True
                fcntl.flock(folder, fcntl.LOCK_UN)
            try:
                yield folder, descriptor, is_begun
            finally:
                os.close(descriptor)


_FULL: Final = (28, 122)  # ENOSPC, EDQUOT


def _open_locked(folder: int, name: str) -> int | None:
    """Open a log that another machine sent and lock it; None if there is no such log."""
    while True:
        try:
            descriptor = os.open(name + spool.SUFFIX, _WRITE_FLAGS, dir_fd=folder)
        except FileNotFoundError:
            return None
        try:
            if not spool.is_pushed(descriptor):
                raise Conflict(f"This machine already has a log {name}; choose another name")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                now = os.stat(name + spool.SUFFIX, dir_fd=folder, follow_symlinks=False)
                if now.st_ino == os.fstat(descriptor).st_ino:
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was rewritten or removed meanwhile


def _write(descriptor: int, text: str) -> None:
    """Write lines; first end a line that a crash left incomplete."""
    size = os.fstat(descriptor).st_size
    is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    spool.write(descriptor, f"\n{text}" if is_torn else text)


def _is_same_sender(known: LogOrigin | None, sender: LogOrigin | None) -> bool:
    return known is not None and sender is not None and compare_digest(known.key, sender.key)


def _caller_of(facts: LogFacts) -> str:
    """Return the caller that began a log."""
    return "" if facts.origin is None else facts.origin.caller


def _counts(facts: LogFacts) -> tuple[int, int, int, int, int]:
    return facts.entries, facts.size, facts.newest, facts.dropped_entries, facts.dropped_bytes
