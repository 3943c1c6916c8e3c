"""Lines that are returned in parts, because a program paused in them: a secret that a pause divides is redacted too.

What may become a secret with the text that follows is held back. What was returned is redacted once more together with
the text that follows, since it may end in the name of a password, or within the first letters of a token.
"""

import re
from collections.abc import Callable
from os.path import commonprefix
from typing import Final

from carrel.providers.logs.named_secrets import BEGUN
from carrel.providers.logs.redaction import TOKENS

Redact = Callable[[list[str]], list[str]]
"""Returns lines without their secrets."""

_UNFINISHED: Final = re.compile(
    "(?:"
    + "|".join(
        (
            *(f"{begin}[A-Za-z0-9._~+/=-]*" for _, _, begin, _ in TOKENS),
            *BEGUN,
            r"://[^\s/:@]{0,256}:(?![0-9]{0,5}\Z)[^\s/@]*",
            "-----(?:BEGIN|END) [A-Z0-9 ]{0,64}-{0,4}",
        )
    )
    + r")\Z"
)
"""A secret, or the beginning of one, that more text may continue."""
_TAIL: Final = 4_096
"""Number of characters at the end of a text in which the beginning of a secret is searched for."""
_CONTEXT: Final = 512
"""Number of characters that are redacted again with the text that follows."""


class LineInParts:
    """Redacts one line of a stream after the other, each in any number of parts. Without `redact`, texts stay."""

    def __init__(self, redact: Redact | None) -> None:
        self._redact = redact
        self._before = ""

    def split(self, text: str) -> tuple[str, str]:
        """Return the part of an unfinished line that can be returned, and the part to hold back."""
        begin = len(text) if self._redact is None else _find_unfinished(text)
        return text[:begin], text[begin:]

    def redact(self, text: str, *, is_partial: bool) -> str:
        """Return the next part of the line without its secrets; if it is not partial, the line ends."""
        if self._redact is None:
            return text
        before = self._before
        [whole] = self._redact([before + text])
        self._before = whole[-_CONTEXT:] if is_partial else ""
        return whole[len(commonprefix((before, whole))) :]  # noqa: RUF071 texts, not paths

    def restart(self) -> None:
        """Forget the parts of the line so far: a carriage return restarts it."""
        self._before = ""


def _find_unfinished(text: str) -> int:
    """Return where a word begins that may become a secret with the text that follows; the length if there is none.

    Only the end of the text is searched. If that is a single word, the answer is 0.
    """
    tail = text[-_TAIL:]
    if len(tail) < len(text) and " " not in tail:
        return 0
    found = _UNFINISHED.search(tail)
    if found is None:
        return len(text)
    begin = len(text) - len(tail) + found.start()
    return max(text.rfind(" ", 0, begin), text.rfind("\t", 0, begin)) + 1
