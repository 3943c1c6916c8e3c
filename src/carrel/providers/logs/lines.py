"""Turn the bytes that a program writes into lines of plain text, in bounded memory.

Malformed UTF-8 becomes U+FFFD. ANSI sequences and control characters except tab are removed. A lone carriage return
restarts the line when something follows it, as on a terminal.
"""

import codecs
import re
from typing import Final

from carrel.providers.logs.ring import LogLine
from carrel.providers.logs.unfinished import LineInParts, Redact

MARK_ROOM: Final = 33
"""Bytes of a cut line that are reserved for its mark and its line end."""

_MAX_PARTS: Final = 1_024
_MAX_CARRY: Final = 256
_OPEN: Final = "\x1b\x90\x98-\x9f"
"""Characters that begin a sequence, or end one that is not closed."""
_STRING: Final = "(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])"
_SPECIAL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_NOISE: Final = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*+[ -/]*+[@-~]"  # a control sequence, as for colours
    f"|{_STRING}[^\x07\n{_OPEN}]*+(?:\x07|\x1b\\\\|\x9c|(?=[\n{_OPEN}]|\\Z))"  # a string for the terminal, as its title
    "|\x1b[ -/]*+[0-~]"  # other escapes
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_UNFINISHED: Final = re.compile(
    f"(?:\x1b(?:\\[[0-?]*+)?[ -/]*+|\x9b[0-?]*+[ -/]*+|(?P<string>{_STRING}[^\x07\n{_OPEN}]*+\x1b?))\\Z"
)
_CONTROLS: Final = bytes(set(range(32)) - {9, 10} | {127})
_LATE_CONTROL: Final = re.compile(b"\xc2[\x80-\x9f]")
_STRING_END: Final = re.compile(f"\x07|\x9c|\x1b\\\\|(?=[\n{_OPEN}])")


class Assembler:
    """Makes lines of the bytes of one stream."""

    def __init__(self, max_bytes: int, redact: Redact | None = None) -> None:
        self._max_bytes = max_bytes
        self._redact = redact
        self._line = LineInParts(redact)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._carry = ""
        self._is_in_string = False
        self._has_return = False
        self._is_continued = False
        self._parts: list[str] = []
        self._held = 0
        self._lost = 0

    def feed(self, data: bytes) -> list[LogLine]:
        """Add bytes; return the lines that end in them."""
        text = self._decoder.decode(data)
        if self._carry or self._is_in_string or _SPECIAL.search(text):
            text = self._clean(text)
        if self._has_return:
            text = "\r" + text
        self._has_return = text.endswith("\r")
        if "\r" in text:
            text = text.removesuffix("\r").replace("\r\n", "\n")
        first, *others = text.split("\n")
        self._hold(first)
        if not others:
            return []
        last = others.pop()
        lines = self._release(is_partial=False)
        if others:
            lines += self._whole(others)
        self._hold(last)
        return lines

    def skip(self, data: bytes) -> tuple[int, int] | None:
        """Return the number of whole lines and their bytes, without making lines of them.

        Return None if they must be passed to `feed`, because the text after them may depend on them.
        """
        is_clean = not (self._carry or self._is_in_string or self._has_return or self._is_continued or self._lost)
        if not is_clean or self._decoder.getstate()[0] or not _is_plain(data, self._max_bytes - self._held - 1):
            return None
        count, size = data.count(b"\n"), len(data) + self._held
        self._forget()
        return count, size

    def flush(self, *, is_end: bool = False) -> list[LogLine]:
        """Return an unfinished line without the beginning of a secret; at the end all, with an unfinished character."""
        rest = ""
        if is_end:
            self._hold(self._decoder.decode(b"", final=True))
        elif not self._lost:
            text, rest = self._line.split("".join(self._parts))
            self._parts, self._held = [text], len(text.encode())
        lines = self._release(is_partial=True) if self._held else []
        self._hold(rest)
        return lines

    def _clean(self, text: str) -> str:
        """Remove sequences and control characters; remember a sequence that is not complete yet."""
        text = self._carry + text
        self._carry = ""
        if self._is_in_string:
            end = _STRING_END.search(text)
            if end is None:
                return ""
            if text[end.start() :] == "\x1b":
                self._carry = "\x1b"
                return ""
            self._is_in_string = False
            text = text[end.end() :]
        unfinished = _UNFINISHED.search(text)
        if unfinished is not None:
            tail = unfinished[0]
            text = text[: unfinished.start()]
            self._is_in_string = unfinished["string"] is not None
            if self._is_in_string:
                self._carry = "\x1b" if tail.endswith("\x1b") and len(tail) > 1 else ""
            else:
                self._carry = tail if len(tail) <= _MAX_CARRY else tail[:2]
        return _NOISE.sub("", text)

    def _hold(self, text: str) -> None:
        """Add to the unfinished line, up to the bound."""
        if "\r" in text:
            parts = text.split("\r")
            text = _last_part(parts)
            if text and not parts[0] == text == "".join(parts):
                self._forget()
                self._line.restart()
        if not text:
            return
        data = text.encode()
        room = self._max_bytes - self._held
        if len(data) > room:
            text = data[:room].decode(errors="ignore")
            kept = len(text.encode())
            self._lost += len(data) - kept
        else:
            kept = len(data)
        self._held += kept
        self._parts.append(text)
        if len(self._parts) > _MAX_PARTS:
            self._parts = ["".join(self._parts)]

    def _forget(self) -> None:
        self._parts = []
        self._held = self._lost = 0

    def _release(self, *, is_partial: bool) -> list[LogLine]:
        """Return the unfinished line; nothing if only the end of an already returned line is left."""
        text, lost = "".join(self._parts), self._lost
        is_continued, self._is_continued = self._is_continued, is_partial
        self._forget()
        text = self._line.redact(text, is_partial=is_partial)
        if not text and is_continued:
            return []
        return [make_line(text, lost, self._max_bytes, is_partial=is_partial)]

    def _whole(self, texts: list[str]) -> list[LogLine]:
        """Return lines that arrived complete."""
        texts = [_last_part(text.split("\r")) if "\r" in text else text for text in texts]
        if self._redact is not None:
            texts = self._redact(texts)
        longest = self._max_bytes - 1
        lines = []
        for text in texts:
            size = len(text) if text.isascii() else len(text.encode())
            is_short = size <= longest
            lines.append(LogLine(text, size + 1) if is_short else make_line(text, 0, self._max_bytes, is_partial=False))
        return lines


def make_line(text: str, lost: int, max_bytes: int, *, is_partial: bool) -> LogLine:
    """Return a line of a log. A line that is too long, or has lost bytes already, is cut and ends with a note."""
    data = text.encode()
    total = len(data) + lost
    if total <= max_bytes - 1:
        return LogLine(text, total + 1, is_partial=is_partial)
    kept = data[: max_bytes - MARK_ROOM].decode(errors="ignore")
    cut = total - len(kept.encode())
    text = f"{kept}…[cut {cut} bytes]"
    return LogLine(text, len(text.encode()) + 1, cut, is_partial)


def _is_plain(data: bytes, longest: int) -> bool:
    """Return whether lines need no cleaning: UTF-8 without control characters, not too long, no private key."""
    if len(data.translate(None, _CONTROLS)) != len(data) or b"PRIVATE KEY" in data:
        return False
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            return False
        if _LATE_CONTROL.search(data):
            return False
    # With a line end in each half of the maximum, no line is too long.
    half = max(1, longest // 2)
    return all(data.find(b"\n", at, at + half) >= 0 for at in range(0, len(data) - half, half))


def _last_part(parts: list[str]) -> str:
    """Return what remains of a line with carriage returns: the last part that is not empty."""
    return next(filter(None, reversed(parts)), "")
