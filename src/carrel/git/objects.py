"""Read the objects of a git repository through the handle of its folder: loose ones and those in packs.

The bytes may be hostile. So nothing is mapped into memory, no object larger than `MAX_OBJECT_BYTES` is inflated, chains
of deltas are bounded, and everything stops at a deadline. Only the repository's own `objects` folder is used:
alternates are not followed, and nothing is fetched.
"""

import binascii
import struct
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator
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

_NEAR: Final = 32
"""Names on both sides of the place where a name is expected among those with the same first byte."""
_WINDOW: Final = 32_768
_WINDOWS: Final = 64
"""Pieces of a pack that are cached: a long walk reads neighbours."""
_FEW_READS: Final = 512
"""Number of reads of a pack after which larger pieces are read."""

_MAX_MATCHES: Final = 64
_LOOKS_AGAIN: Final = 2
"""How often one question looks for the packs again because an object is in none of them."""
_FIRST_CHUNK: Final = 4_096
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

    def close(self) -> None:
        """Close every pack that was opened."""
        for pack in self._packs or ():
            pack.close()
        self._packs = None
        self._kept.clear()
        self._kept_bytes = 0

    def read(self, name: Id) -> tuple[int, bytes]:
        """Return an object's type and content; raise `Unknown` if the repository does not have it."""
        self.deadline.check()
        try:
            return self._read_once(name)
        except MissingObject:
            if self._looks_again < 1:
                raise
        # While git packs a repository anew, an object moves from one file to another.
        self._looks_again -= 1
        self.close()
        return self._read_once(name)

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
                yield Pack(self._shared, name, self._name_bytes)
            except (SandboxError, struct.error, Unknown):
                continue

    def _unpack(self, number: int, pack: "Pack", at: int) -> tuple[int, bytes]:
        """Return the type and content of an object in a pack, after applying its deltas."""
        deltas: list[tuple[int, bytes]] = []
        spent = 0
        while True:
            kind, data = self._kept.get((number, at), (0, b""))
            if kind:
                break
            chunk = pack.read(at)
            kind, size, base, length = pack.head(at, chunk)
            spent += size
            if spent > MAX_OBJECT_BYTES or len(deltas) > MAX_DELTAS:
                raise Unknown("too large, or too many deltas")
            data = self._inflate(pack.data, at + length, size, chunk[length:])
            if kind not in (_OFFSET_DELTA, _NAMED_DELTA):
                self._keep((number, at), (kind, data))
                break
            deltas.append((at, data))
            position = at - base if isinstance(base, int) else pack.find(base)
            if position is None:
                raise Unknown("the base of a delta is not in its pack")
            at = position
        for place, delta in reversed(deltas):
            self.deadline.check()
            data = _applied(data, delta)
            self._keep((number, place), (kind, data))
        return kind, data

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
            return _TYPES[word], self._inflate(opened, 0, head + int(digits))[head:]

    def _inflate(self, file: Opened, at: int, size: int, read: bytes = b"") -> bytes:
        """Inflate content of this declared length, whose first bytes may be `read`; raise `Unknown` if it is longer."""
        if size > MAX_OBJECT_BYTES + _HEADER:
            raise Unknown("too large")
        engine = zlib.decompressobj()
        if read:  # most objects are shorter than what was read at once
            part = engine.decompress(read, size + 1)
            if engine.eof and len(part) == size:
                return part
            engine = zlib.decompressobj()
        parts: list[bytes] = []
        room = size + 1  # one more byte reveals a longer content; 0 would mean no limit to zlib
        chunk = _FIRST_CHUNK
        while not engine.eof:
            self.deadline.check()
            read = read or file.read(at, chunk)
            at, chunk = at + len(read), _CHUNK
            part = engine.decompress(read, room)
            room -= len(part)
            parts.append(part)
            if not read or room < 1:
                raise Unknown("not as long as it says")
            read = b""
        if room != 1:
            raise Unknown("not as long as it says")
        return b"".join(parts)


class Pack:
    """A pack and its index. Every position from the index is checked against the sizes of the files."""

    def __init__(self, shared: Root, name: str, name_bytes: int) -> None:
        self._index = shared.open(("objects", "pack", name))
        try:
            self.data = shared.open(("objects", "pack", f"{name.removesuffix('.idx')}.pack"))
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
        self.count = self._ends[-1]
        self._buckets: dict[int, tuple[int, int, bytes, bytes]] = {}
        self._bucket_bytes = 0
        self._windows: dict[int, bytes] = {}
        self._reads = 0

    def read(self, at: int) -> bytes:
        """Return bytes of the pack from a position: at least `_FIRST_CHUNK`, unless the pack ends."""
        if self._reads < _FEW_READS:
            self._reads += 1
            return self.data.read(at, _FIRST_CHUNK)
        number, offset = divmod(at, _WINDOW)
        window = self._windows.get(number)
        if window is None:
            if len(self._windows) >= _WINDOWS:
                self._windows.clear()
            # A window overlaps the next one, so that an object's beginning is in one of them.
            window = self._windows[number] = self.data.read(number * _WINDOW, _WINDOW + _FIRST_CHUNK)
        return window[offset : offset + _FIRST_CHUNK]

    def close(self) -> None:
        """Close both files."""
        self._index.close()
        self.data.close()

    def find(self, raw: bytes) -> int | None:
        """Return the position of an object; None if it is not in this pack."""
        start, count, names, offsets = self._buckets.get(raw[0]) or self._bucket(raw[0])
        length = self._name_bytes
        if count and not names:
            name = self._reader(start)
            place = bisect_left(range(count), raw, key=name)
            return self._offset(start + place) if place < count and name(place) == raw else None
        # Names are hashes and evenly spread, so the position of a name can be estimated.
        near = ((raw[1] << 8 | raw[2]) * count >> 16) - _NEAR
        at = names.find(raw, max(0, near) * length, (near + 2 * _NEAR) * length)
        if at < 0:
            at = names.find(raw)
        while at % length and at >= 0:  # the same bytes, across two names
            at = names.find(raw, at + 1)
        if at < 0:
            return None
        place = at // length
        offset = int.from_bytes(offsets[place * 4 : place * 4 + 4], "big")
        return offset if offset < _LARGE else self._offset(start + place)

    def matching(self, prefix: str) -> Iterator[Id]:
        """Yield the names that begin with these digits, up to a maximum."""
        start, count, _, _ = self._bucket(int(prefix[:2], 16))
        name = self._reader(start)
        least = binascii.unhexlify(prefix.ljust(self._name_bytes * 2, "0"))
        first = bisect_left(range(count), least, key=name)
        for place in range(first, min(count, first + _MAX_MATCHES)):
            spelled = binascii.hexlify(name(place))
            if not spelled.startswith(prefix.encode()):
                return
            yield spelled

    def _bucket(self, first: int) -> tuple[int, int, bytes, bytes]:
        """Return the number of the first name with this first byte, how many there are, all of them and their offsets.

        If they are too many to be cached, these are empty.
        """
        known = self._buckets.get(first)
        if known is not None:
            return known
        start, end = self._ends[first - 1] if first else 0, self._ends[first]
        size = (end - start) * self._name_bytes
        at = _NAMES_AT + start * self._name_bytes
        if size < 0 or at + size > self._index.stat.st_size:
            raise Unknown("the index of a pack is damaged")
        if size > _BUCKET_BYTES:
            return start, end - start, b"", b""
        if self._bucket_bytes > _BUCKETS_BYTES:
            self._buckets.clear()
            self._bucket_bytes = 0
        offsets_at = _NAMES_AT + self.count * (self._name_bytes + 4) + start * 4
        offsets = self._index.read(offsets_at, (end - start) * 4)
        names = self._index.read(at, size)
        if len(names) != size or len(offsets) != (end - start) * 4:
            raise Unknown("the index of a pack is damaged")
        found = self._buckets[first] = start, end - start, names, offsets
        self._bucket_bytes += size + len(offsets)
        return found

    def _reader(self, start: int) -> Callable[[int], bytes]:
        """Return a function that returns the name at a place after `start`."""
        length = self._name_bytes
        return lambda place: self._index.read(_NAMES_AT + (start + place) * length, length)

    def _offset(self, number: int) -> int:
        offsets_at = _NAMES_AT + self.count * (self._name_bytes + 4)
        (offset,) = struct.unpack(">L", self._index.read(offsets_at + number * 4, 4))
        if offset < _LARGE:
            return int(offset)
        large_at = offsets_at + self.count * 4 + (offset - _LARGE) * 8
        (offset,) = struct.unpack(">Q", self._index.read(large_at, 8))
        return int(min(offset, self.data.stat.st_size))

    def head(self, at: int, raw: bytes) -> tuple[int, int, int | bytes, int]:
        """Return an object's type and length, the base of a delta, and the length of the head; `raw` begins with it."""
        kind, size, place, shift = raw[0] >> 4 & 7, raw[0] & 15, 0, 4
        while raw[place] & 0x80 and place < _HEADER:
            place += 1
            size |= (raw[place] & 0x7F) << shift
            shift += 7
        place += 1
        if kind == _NAMED_DELTA:
            return kind, size, raw[place : place + self._name_bytes], place + self._name_bytes
        if kind != _OFFSET_DELTA:
            return kind, size, 0, place
        back = raw[place] & 0x7F
        while raw[place] & 0x80 and place < _HEADER:
            place += 1
            back = (back + 1) << 7 | raw[place] & 0x7F
        if not 0 < back < at:
            raise Unknown("a delta without a base")
        return kind, size, back, place + 1


def _applied(base: bytes, delta: bytes) -> bytes:
    """Return the result of a delta; raise `Unknown` if it would be too large."""
    from dulwich.pack import apply_delta

    _, at = _length_at(delta, 0)
    if _length_at(delta, at)[0] > MAX_OBJECT_BYTES:
        raise Unknown("too large")
    return b"".join(apply_delta(base, delta))


def _length_at(delta: bytes, at: int) -> tuple[int, int]:
    size, shift = 0, 0
    while True:
        byte = delta[at]
        size |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return size, at
