"""Replace tokens and keys in lines before they are kept.

Each pattern has words without which it cannot match: a text without these words is not searched. A token that is
cut off at the end of a long line is still recognised.
"""

import re
from typing import Final

from carrel.providers.logs.named_secrets import CURL_LOGIN, NAMED, NAMES

MARK: Final = "[redacted]"
MAX_KEY_LINES: Final = 200
"""Number of lines after which a private key without an end is taken for ordinary text again."""

TOKENS: Final = (
    ("_", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_", r"[A-Za-z0-9_]{16,}"),
    ("_", ("github_pat_",), r"\bgithub_pat_", r"[A-Za-z0-9_]{16,}"),
    ("_", ("carrel_",), r"\bcarrel_", r"[A-Za-z0-9_-]{24,}"),
    ("_", ("npm_", "hf_", "dop_v1_", "shpat_"), r"\b(?:npm_|hf_|dop_v1_|shpat_)", r"[A-Za-z0-9]{16,}"),
    ("_", ("k_live_", "k_test_"), r"\b[srp]k_(?:live|test)_", r"[A-Za-z0-9]{8,}"),
    ("-", ("sk-",), r"\bsk-", r"[A-Za-z0-9_-]{16,}"),
    ("-", ("glpat-", "gldt-", "glrt-"), r"\bgl(?:pat|dt|rt)-", r"[A-Za-z0-9_-]{12,}"),
    ("-", ("xox", "xapp-"), r"\b(?:xox[a-z]|xapp)-", r"[A-Za-z0-9-]{8,}"),
    ("-", ("pypi-",), r"\bpypi-", r"[A-Za-z0-9_-]{16,}"),
    ("-", ("age-secret-key-",), r"\bAGE-SECRET-KEY-", r"[A-Z0-9]{8,}"),
    (".", ("ya29.",), r"\bya29\.", r"[0-9A-Za-z_-]{16,}"),
    (".", ("sg.",), r"\bSG\.", r"[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]*)?"),
    ("J", ("eyj",), r"\beyJ", r"[A-Za-z0-9_-]{14,}(?:\.[A-Za-z0-9_-]*){0,4}"),
    ("I", ("aiza",), r"\bAIza", r"[0-9A-Za-z_-]{20,}"),
    ("I", ("akia", "asia"), r"\b(?:AKIA|ASIA)", r"[0-9A-Z]{12,}"),
    (" ", ("bearer", "basic"), r"(?P<kept>\b(?i:bearer|basic)[ \t]+)", r"[A-Za-z0-9._~+/-]{12,}=*"),
)
"""A character and words (in lower case) without which a token cannot be there; how it begins, and how it goes on."""
_COMPILED: Final = (
    *((sign, words, re.compile(begin + rest)) for sign, words, begin, rest in TOKENS),
    ("@", ("://",), re.compile(r"(?P<kept>://[^\s/:@]{0,256}+:)[^\s/@]{1,512}+(?=@)")),
    ("", NAMES, NAMED),
)
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
        if "curl" in block:
            redacted = [CURL_LOGIN.sub(_replace, line) if "curl" in line else line for line in redacted]
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
    return (found.groupdict().get("kept") or "") + MARK
