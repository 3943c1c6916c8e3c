"""Replace tokens and keys in lines before they are kept.

Each pattern has words without which it cannot match: a text without these words is not searched. A token that is
cut off at the end of a long line is still recognised.
"""

import re
from typing import Final

MARK: Final = "[redacted]"
MAX_KEY_LINES: Final = 200
"""Number of lines after which a private key without an end is taken for ordinary text again."""

_ASSIGNED: Final = r"(?:=[\"']?|[\"'][ \t]*[:=][ \t]*[\"']))(?!\[redacted\])[^\s\"'&;,]{6,}"
_SHAPES: Final = (
    ("_", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"), r"\b(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{16,}"),
    ("_", ("carrel_",), r"\bcarrel_[A-Za-z0-9_-]{24,}"),
    ("_", ("npm_", "hf_", "dop_v1_", "shpat_"), r"\b(?:npm_|hf_|dop_v1_|shpat_)[A-Za-z0-9]{16,}"),
    ("_", ("k_live_", "k_test_"), r"\b[srp]k_(?:live|test)_[A-Za-z0-9]{8,}"),
    ("-", ("sk-",), r"\bsk-[A-Za-z0-9_-]{16,}"),
    ("-", ("glpat-", "gldt-", "glrt-"), r"\bgl(?:pat|dt|rt)-[A-Za-z0-9_-]{12,}"),
    ("-", ("xox", "xapp-"), r"\b(?:xox[a-z]|xapp)-[A-Za-z0-9-]{8,}"),
    ("-", ("pypi-",), r"\bpypi-[A-Za-z0-9_-]{16,}"),
    ("-", ("age-secret-key-",), r"\bAGE-SECRET-KEY-[A-Z0-9]{8,}"),
    (".", ("ya29.",), r"\bya29\.[0-9A-Za-z_-]{16,}"),
    (".", ("sg.",), r"\bSG\.[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]*)?"),
    ("J", ("eyj",), r"\beyJ[A-Za-z0-9_-]{14,}(?:\.[A-Za-z0-9_-]*){0,4}"),
    ("I", ("aiza",), r"\bAIza[0-9A-Za-z_-]{20,}"),
    ("I", ("akia", "asia"), r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}"),
    (" ", ("bearer", "basic"), r"(?i)(?P<kept>\b(?:bearer|basic)[ \t]+)[A-Za-z0-9._~+/-]{12,}=*"),
    ("@", ("://",), r"(?P<kept>://[^\s/:@]{0,256}+:)[^\s/@]{1,512}+(?=@)"),
    *(
        (
            sign,
            ("password", "passwd", "secret", "token", "api", "access", "private", "credential"),
            r"(?i)(?P<kept>(?:password|passwd|secret|token|(?:api|access|private)[_-]?key|credentials?)" + _ASSIGNED,
        )
        for sign in "=\"'"
    ),
)
"""A character and words (in lower case) without which a pattern cannot match, and the pattern."""
_COMPILED: Final = tuple((sign, words, re.compile(shape)) for sign, words, shape in _SHAPES)
_KEY_BEGINS: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")


class Redactor:
    """Removes secrets from the lines of one stream; it remembers whether it is inside a private key."""

    def __init__(self) -> None:
        self._key_lines = 0

    def __call__(self, lines: list[str]) -> list[str]:
        """Return the lines with secrets replaced."""
        block = "\n".join(lines)
        lowered = block.lower()
        for sign, words, shape in _COMPILED:
            if sign in block and any(word in lowered for word in words):
                block = shape.sub(_replace, block)
        redacted = block.split("\n")
        if self._key_lines or "private key" in lowered:
            redacted = [self._without_key(line) for line in redacted]
        return redacted

    def _without_key(self, line: str) -> str:
        """Return a line without its part of a private key."""
        if not self._key_lines:
            begin = _KEY_BEGINS.search(line)
            if begin is None:
                return line
            end = _KEY_ENDS.search(line, begin.end())
            if end is None:
                self._key_lines = 1
            return line[: begin.start()] + MARK + ("" if end is None else line[end.end() :])
        end = _KEY_ENDS.search(line)
        self._key_lines += 1
        if end is not None or self._key_lines > MAX_KEY_LINES:
            self._key_lines = 0
        return MARK if end is None else MARK + line[end.end() :]


def _replace(found: re.Match[str]) -> str:
    kept = found.groupdict().get("kept")
    return f"{kept or ''}{MARK}"
