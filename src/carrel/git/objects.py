"""Read the objects of a git repository through the handle of its folder: loose ones and those in packs.

The bytes may be hostile. So nothing is mapped into memory, no object larger than `MAX_OBJECT_BYTES` is inflated, chains
of deltas are bounded, and everything stops at a deadline. Only the repository's own `objects` folder is used:
alternates are not followed, and nothing is fetched.
"""

import binascii
import os
import struct
import sys
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator
from math import isqrt
from time import monotonic
from typing import Final

from carrel.core.cancellation import check_cancelled
from carrel.files.sandbox import Opened, Root, SandboxError

MAX_OBJECT_BYTES: Final = 16 * 1_048_576
MAX_DELTAS: Final = 512
"""Maximum length of a chain; git itself makes chains of 50 by default."""

MAX_PACKS: Final = 128
_KEPT_BYTES: Final = 8 * 1_048_576
_KEPT_OBJECT_BYTES: Final = 262_144
_BUCKET_BYTES: Final = 131_072
_BUCKETS_BYTES: Final = 10 * 1_048_576
"""How much of a pack's index is cached: names by their first byte, unless there are very many of them."""

_FEW_FINDS: Final = 64
"""Number of names after which all names with the same first byte are read; before, only those near each other."""
_NEAR: Final = 32
"""Names on both sides of the place where a name is expected among those with the same first byte."""
_WINDOW: Final = 32_768
_WINDOWS: Final = 64
"""Pieces of a pack that are cached: a long walk reads neighbours."""
_FEW_READS: Final = 512
"""Number of reads of a pack after which larger pieces are read."""

_RECENT: Final = 128
_RECENT_BYTES: Final = 16_384
"""Number and maximum length of objects that are cached by name: one question reads a commit for several reasons."""
_MAX_MATCHES: Final = 64
_LOOKS_AGAIN: Final = 2
"""How often one question looks for the packs again because an object is in none of them."""
_FIRST_CHUNK: Final = 512
_DEFLATED: Final = 64
"""How much longer than a small object its deflated form is at most, in any sensible pack."""
_CHUNK: Final = 65_536
_HEADER: Final = 32
"""Maximum length of an object's header: a type and a length, and in a pack the position of a delta's base."""

COMMIT: Final = 1
TREE: Final = 2
BLOB: Final = 3
TAG: Final = 4
_TYPES: Final = {b"commit": COMMIT, b"tree": TREE, b"blob": BLOB, b"tag": TAG}
_OFFSET_DELTA: Final = 6
_NAMED_DELTA: Final = 7

_FAN: Final = struct.Struct(">256L")
_MAGIC: Final = b"\xfftOc\x00\x00\x00\x02"
_NAMES_AT: Final = len(_MAGIC) + _FAN.size
_LARGE: Final = 0x80000000
"""An offset with this bit is an index into the table of 8-byte offsets."""

Id = bytes
"""An object's name in hexadecimal digits, as dulwich has it."""


class Unknown(Exception):
    """The repository has no answer: an object is missing, broken or too large, or the time is up."""


class MissingObject(Unknown):
    """The repository does not have an object of this name."""


class TimeUp(Unknown):
    """The answer takes longer than its time limit."""


class Deadline:
    """The time at which a question is abandoned."""

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds

    def restart(self, seconds: float) -> None:
        """Set the deadline to this time from now."""
        self._end = monotonic() + seconds

    def check(self) -> None:
        """Raise `TimeUp` once the time is up, or `Cancelled` if the caller no longer waits for the answer."""
        check_cancelled()
        if monotonic() > self._end:
            raise TimeUp("the time is up")


class Objects:
    """The objects of one repository, open for one question."""

    def __init__(self, shared: Root, deadline: Deadline, name_bytes: int = 20) -> None:
        self._shared = shared
        self.deadline = deadline
        self._name_bytes = name_bytes
        self._packs: list[Pack] | None = None
        self._looks_again = _LOOKS_AGAIN
        self._kept: dict[tuple[int, int], tuple[int, bytes]] = {}
        self._kept_bytes = 0
        self._recent: dict[Id, tuple[int, bytes]] = {}

    def close(self) -> None:
        """Close every pack that was opened."""
        for pack in self._packs or ():
            pack.close()
        self._packs = None
        self._recent.clear()
        self._kept.clear()
        self._kept_bytes = 0

    def read(self, name: Id) -> tuple[int, bytes]:
        """Return an object's type and content; raise `Unknown` if the repository does not have it."""
        self.deadline.check()
        found = self._recent.get(name)
        if found is not None:
            return found
        try:
            found = self._read_once(name)
        except MissingObject:
            if self._looks_again < 1:
                raise
            # While git packs a repository anew, an object moves from one file to another.
            self._looks_again -= 1
            self.close()
            found = self._read_once(name)
        if len(found[1]) <= _RECENT_BYTES:
            if len(self._recent) >= _RECENT:
                self._recent.clear()
            self._recent[name] = found
        return found

    def _read_once(self, name: Id) -> tuple[int, bytes]:
        raw = binascii.unhexlify(name)
        for number, pack in enumerate(self._opened()):
            at = pack.find(raw)
            if at is not None:
                return self._unpack(number, pack, at)
        return self._read_loose(name.decode())

    def matching(self, prefix: str) -> list[Id]:
        """Return the names of objects that begin with these digits, up to a maximum."""
        found = {name for pack in self._opened() for name in pack.matching(prefix)}
        try:
            with self._shared.open(("objects", prefix[:2])) as folder:
                names = [prefix[:2] + name for name, _ in folder.scan() if len(name) == self._name_bytes * 2 - 2]
        except SandboxError:
            names = []
        return sorted(found.union(name.encode() for name in names if name.startswith(prefix)))

    def count_packed(self) -> int:
        """Return how many objects are in packs."""
        return sum(pack.count for pack in self._opened())

    # Packs

    def _opened(self) -> "list[Pack]":
        if self._packs is None:
            self._packs = list(self._open_packs())
        return self._packs

    def _open_packs(self) -> "Iterator[Pack]":
        try:
            with self._shared.open(("objects", "pack")) as folder:
                names = sorted(name for name, kind in folder.scan() if name.endswith(".idx") and kind == "file")
        except SandboxError:
            return
        for name in names[:MAX_PACKS]:
            try:
                yield Pack(self._shared, name, self._name_bytes, self.deadline)
            except (SandboxError, struct.error, Unknown):
                continue

    def _unpack(self, number: int, pack: "Pack", at: int) -> tuple[int, bytes]:
        """Return the type and content of an object in a pack, after applying its deltas."""
        deltas: list[tuple[int, bytes]] = []
        spent = 0
        while True:
            known = self._kept.get((number, at))
            if known is not None:
                kind, data = known
                break
            kind, base, data = pack.entry(at)
            spent += len(data)
            if spent > MAX_OBJECT_BYTES or len(deltas) > MAX_DELTAS:
                raise Unknown("too large, or too many deltas")
            if not base:
                self._keep((number, at), (kind, data))
                break
            deltas.append((at, data))
            at = base
        return kind, self._applied(number, kind, data, deltas) if deltas else data

    def _applied(self, number: int, kind: int, data: bytes, deltas: list[tuple[int, bytes]]) -> bytes:
        """Return the result of deltas, of which the last is applied first; raise `Unknown` if it would be too large."""
        from dulwich.pack import apply_delta

        for place, delta in reversed(deltas):
            if len(data) > _KEPT_OBJECT_BYTES:  # a chain of smaller objects takes a few milliseconds at most
                self.deadline.check()
            if _length_of_result(delta) > MAX_OBJECT_BYTES:
                raise Unknown("too large")
            data = b"".join(apply_delta(data, delta))
            self._keep((number, place), (kind, data))
        return data

    def _keep(self, place: tuple[int, int], found: tuple[int, bytes]) -> None:
        """Cache an object that others may be deltas of: neighbours in a history often are."""
        size = len(found[1])
        if size <= _KEPT_OBJECT_BYTES:
            if self._kept_bytes + size > _KEPT_BYTES:
                self._kept.clear()
                self._kept_bytes = 0
            self._kept[place] = found
            self._kept_bytes += size

    # Loose objects

    def _read_loose(self, name: str) -> tuple[int, bytes]:
        try:
            opened = self._shared.open(("objects", name[:2], name[2:]))
        except SandboxError:
            raise MissingObject("no such object") from None
        with opened:
            start = zlib.decompressobj().decompress(opened.read(0, _FIRST_CHUNK), _HEADER)
            word, space, rest = start.partition(b" ")
            digits, end, _ = rest.partition(b"\0")
            if opened.is_folder or not (space and end and digits.isdigit() and word in _TYPES):
                raise Unknown("not an object")
            head = len(word) + len(digits) + 2
            return _TYPES[word], _inflated(opened, 0, head + int(digits), self.deadline)[head:]


class Pack:
    """A pack and its index. Every position from the index is checked against the sizes of the files."""

    def __init__(self, shared: Root, name: str, name_bytes: int, deadline: Deadline) -> None:
        self._index = shared.open(("objects", "pack", name))
        try:
            self._data = shared.open(("objects", "pack", f"{name.removesuffix('.idx')}.pack"))
        except SandboxError:
            self._index.close()
            raise
        try:
            if self._index.read(0, len(_MAGIC)) != _MAGIC:
                raise Unknown("an index of another kind")
            self._ends = _FAN.unpack(self._index.read(len(_MAGIC), _FAN.size))
        except BaseException:
            self.close()
            raise
        self._name_bytes = name_bytes
        self._deadline = deadline
        self.count = self._ends[-1]
        self._buckets: dict[int, tuple[int, int, bytes, bytes]] = {}
        self._bucket_bytes = 0
        self._windows: dict[int, bytes] = {}
        self._reads = self._finds = 0

    def entry(self, at: int) -> tuple[int, int, bytes]:
        """Return what is at a position: its type, the position of a delta's base or 0, and the content or the delta."""
        raw = self._read(at)
        byte, size, place, shift = raw[0], raw[0] & 15, 1, 4
        kind = byte >> 4 & 7
        while byte & 0x80 and place < _HEADER:
            byte = raw[place]
            size |= (byte & 0x7F) << shift
            place += 1
            shift += 7
        base = 0
        if kind == _OFFSET_DELTA:
            byte = raw[place]
            back = byte & 0x7F
            place += 1
            while byte & 0x80 and place < _HEADER:
                byte = raw[place]
                back = (back + 1) << 7 | byte & 0x7F
                place += 1
            base = at - back if 0 < back < at else 0
        elif kind == _NAMED_DELTA:
            base = self.find(raw[place : place + self._name_bytes]) or 0
            place += self._name_bytes
        if kind >= _OFFSET_DELTA and not base:
            raise Unknown("a delta without a base in its pack")
        if size + _DEFLATED <= len(raw) - place:
            try:
                content = zlib.decompress(raw[place:], bufsize=size + 1)  # few bytes come in, so few can come out
            except zlib.error:
                content = b""
            if len(content) == size:
                return kind, base, content
        return kind, base, _inflated(self._data, at + place, size, self._deadline)

    def _read(self, at: int) -> bytes:
        """Return bytes of the pack from a position: enough for a small object, unless the pack ends."""
        if self._reads < _FEW_READS:
            self._reads += 1
            return os.pread(self._data.fd, _FIRST_CHUNK, at)
        number, offset = divmod(at, _WINDOW)
        window = self._windows.get(number)
        if window is None:
            if len(self._windows) >= _WINDOWS:
                self._windows.clear()
            # A window overlaps the next one, so that an object's beginning is in one of them.
            window = self._windows[number] = self._data.read(number * _WINDOW, _WINDOW + _FIRST_CHUNK)
        return window[offset : offset + _FIRST_CHUNK]

    def close(self) -> None:
        """Close both files."""
        self._index.close()
        self._data.close()

    def find(self, raw: bytes) -> int | None:
        """Return the position of an object; None if it is not in this pack."""
        bucket = self._buckets.get(raw[0])
        if bucket is None:
            start, count = self._bounds(raw[0])
            self._finds += 1
            if self._finds < _FEW_FINDS or count * self._name_bytes > _BUCKET_BYTES:
                return self._find_near(raw, start, count)
            bucket = self._bucket(raw[0], start, count)
        start, count, names, offsets = bucket
        near = max(0, _expected(raw, count) - _NEAR) * self._name_bytes
        place = _place_of(raw, names, near, near + 2 * _NEAR * self._name_bytes)
        if place is None:
            place = _place_of(raw, names)
        if place is None:
            return None
        offset = int.from_bytes(offsets[place * 4 : place * 4 + 4], "big")
        return offset if offset < _LARGE else self._offset(start + place)

    def _find_near(self, raw: bytes, start: int, count: int) -> int | None:
        """Return the position of an object; read only the names around the place where it is expected."""
        length = self._name_bytes
        expected, reach = _expected(raw, count), 2 * isqrt(count) + 1
        first, last = max(0, expected - reach), min(count, expected + reach)
        names = os.pread(self._index.fd, (last - first) * length, _NAMES_AT + (start + first) * length)
        place = _place_of(raw, names)
        if place is not None:
            return self._offset(start + first + place)
        if (not first or names[:length] < raw) and (last == count or raw < names[-length:]):
            return None
        name = self._reader(start)
        place = bisect_left(range(count), raw, key=name)
        return self._offset(start + place) if place < count and name(place) == raw else None

    def matching(self, prefix: str) -> Iterator[Id]:
        """Yield the names that begin with these digits, up to a maximum."""
        start, count = self._bounds(int(prefix[:2], 16))
        name = self._reader(start)
        least = binascii.unhexlify(prefix.ljust(self._name_bytes * 2, "0"))
        first = bisect_left(range(count), least, key=name)
        for place in range(first, min(count, first + _MAX_MATCHES)):
            spelled = binascii.hexlify(name(place))
            if not spelled.startswith(prefix.encode()):
                return
            yield spelled

    def _bounds(self, first: int) -> tuple[int, int]:
        """Return the number of the first name with this first byte, and how many there are."""
        start, end = self._ends[first - 1] if first else 0, self._ends[first]
        if start > end or _NAMES_AT + end * self._name_bytes > self._index.stat.st_size:
            raise Unknown("the index of a pack is damaged")
        return start, end - start

    def _bucket(self, first: int, start: int, count: int) -> tuple[int, int, bytes, bytes]:
        """Return the bounds of the names with this first byte, all of them and their offsets; cache them."""
        if self._bucket_bytes > _BUCKETS_BYTES:
            self._buckets.clear()
            self._bucket_bytes = 0
        names = self._index.read(_NAMES_AT + start * self._name_bytes, count * self._name_bytes)
        offsets = self._index.read(_NAMES_AT + self.count * (self._name_bytes + 4) + start * 4, count * 4)
        if len(names) != count * self._name_bytes or len(offsets) != count * 4:
            raise Unknown("the index of a pack is damaged")
        found = self._buckets[first] = start, count, names, offsets
        self._bucket_bytes += len(names) + len(offsets)
        return found

    def _reader(self, start: int) -> Callable[[int], bytes]:
        """Return a function that returns the name at a place after `start`."""
        length = self._name_bytes
        return lambda place: self._index.read(_NAMES_AT + (start + place) * length, length)

    def _offset(self, number: int) -> int:
        offsets_at = _NAMES_AT + self.count * (self._name_bytes + 4)
        offset = int.from_bytes(os.pread(self._index.fd, 4, offsets_at + number * 4), "big")
        if offset < _LARGE:
            return offset
        large_at = offsets_at + self.count * 4 + (offset - _LARGE) * 8
        return min(int.from_bytes(self._index.read(large_at, 8), "big"), self._data.stat.st_size)


def _expected(raw: bytes, count: int) -> int:
    """Return the place of a name among those with the same first byte: names are hashes, so they are evenly spread."""
    return int.from_bytes(raw[1:5], "big") * count >> 32


def _place_of(raw: bytes, names: bytes, start: int = 0, end: int = sys.maxsize) -> int | None:
    """Return the place of a name among all the names in some bytes; None if it is not there."""
    at = names.find(raw, start, end)
    while at % len(raw) and at >= 0:  # the same bytes, across two names
        at = names.find(raw, at + 1, end)
    return at // len(raw) if at >= 0 else None


def _inflated(file: Opened, at: int, size: int, deadline: Deadline) -> bytes:
    """Inflate content of this declared length; raise `Unknown` if it is longer."""
    if size > MAX_OBJECT_BYTES + _HEADER:
        raise Unknown("too large")
    engine = zlib.decompressobj()
    parts: list[bytes] = []
    room = size + 1  # one more byte reveals a longer content; 0 would mean no limit to zlib
    chunk = min(_CHUNK, size // 2 + _FIRST_CHUNK)  # mostly enough, and text is rarely longer
    while not engine.eof:
        deadline.check()
        read = file.read(at, chunk)
        at, chunk = at + len(read), _CHUNK
        part = engine.decompress(read, room)
        room -= len(part)
        parts.append(part)
        if not read or room < 1:
            raise Unknown("not as long as it says")
    if room != 1:
        raise Unknown("not as long as it says")
    return b"".join(parts)


def _length_of_result(delta: bytes) -> int:
    """Return the second number in a delta: the length of what it makes."""
    at = 1
    while delta[at - 1] & 0x80:  # the length of the base
        at += 1
    size = delta[at] & 0x7F
    shift = 7
    while delta[at] & 0x80:
        at += 1
        size |= (delta[at] & 0x7F) << shift
        shift += 7
    return size
