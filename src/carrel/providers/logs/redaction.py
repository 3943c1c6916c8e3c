"""Replace tokens and keys in lines before they are kept.

Each pattern has words without which it cannot match: a text without these words is not searched. A token that is
cut off at the end of a long line is still recognised.
"""

import re
from typing import Final

MARK: Final = "[redacted]"
MAX_KEY_LINES: Final = 200
"""Number of lines after which a private key without an end is taken for ordinary text again."""

_NAME: Final = r"(?:pass(?:word|wd|phrase)|secret(?:[_-]?key)?|token|(?:api|access|private)[_-]?key|credentials?)"
_VALUE: Final = r"[^\s\"'&;,]"
_ANY: Final = rf"(?!\[redacted\]){_VALUE}{{6,}}"
_LIKELY: Final = (
    r"(?!\[redacted\]|https?://)"
    rf"(?:(?={_VALUE}{{0,63}}[0-9])(?={_VALUE}{{0,63}}[a-z]){_VALUE}{{6}}|[a-z0-9_+=-]{{20}})"
)
"""A value that is hardly ever a word: 6 characters with a letter and a digit, or 20 without most signs."""
_CERTAIN: Final = r"(?:=[\"']?|[\"'][ \t]*[:=][ \t]*[\"'])"
"""What stands between a name and a value that is hardly ever prose."""
_SEPARATOR: Final = r"[\"']?[ \t]*(?::(?!:)|=)[ \t]*[\"']?"
_OPTION: Final = rf"(?<=-){_NAME}[ \t]+[\"']?"
_SHAPES: Final = (
    (
        "_",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"\b(?:gh[pousr]|github_pat)_",
        r"[A-Za-z0-9_]{16,}",
    ),
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
_NAMES: Final = (
    *("password", "passwd", "passphrase", "secret", "token", "credential"),
    *(f"{kind}{sign}key" for kind in ("api", "access", "private") for sign in ("", "_", "-")),
)
_COMPILED: Final = (
    *((sign, words, re.compile(begin + rest)) for sign, words, begin, rest in _SHAPES),
    ("@", ("://",), re.compile(r"(?P<kept>://[^\s/:@]{0,256}+:)[^\s/@]{1,512}+(?=@)")),
    (
        "",
        _NAMES,
        re.compile(
            rf"(?i)(?P<kept>{_NAME}(?:{_CERTAIN}(?={_ANY})|{_SEPARATOR}(?={_LIKELY}))|{_OPTION}(?={_LIKELY})){_VALUE}+"
        ),
    ),
)
_CURL_LOGIN: Final = r"(?<!\S)(?:-[A-Za-z]{0,16}[uU][ \t]*|--(?:proxy-)?user[ \t=]+)[\"']?[^\s:\"']{1,128}:"
_CURL: Final = re.compile(rf"(?P<kept>{_CURL_LOGIN})(?!\[redacted\])[^\s\"']+")
_UNFINISHED: Final = re.compile(
    "(?:"
    + "|".join(
        (
            f"(?:{'|'.join(begin for _, _, begin, _ in _SHAPES)})[A-Za-z0-9._~+/=-]*",
            f"(?i:{_NAME}{_SEPARATOR}|{_OPTION}){_VALUE}+",
            r"://[^\s/:@]{0,256}:(?![0-9]{0,5}\Z)[^\s/@]*",
            rf"{_CURL_LOGIN}[^\s\"']*",
            "-----(?:BEGIN|END) [A-Z0-9 ]{0,64}-{0,4}",
        )
    )
    + r")\Z"
)
"""A secret, or the beginning of one, that more text may continue."""
_TAIL: Final = 4_096
"""Number of characters at the end of a line in which the beginning of a secret is searched for."""
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
            redacted = [_CURL.sub(_replace, line) if "curl" in line else line for line in redacted]
        if self._key_lines or "private key" in lowered:
            redacted = [self._without_key(line) for line in redacted]
        return redacted

    def find_unfinished(self, text: str) -> int:
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
        return max(text.rfind(" ", 0, begin), text.rfind("	", 0, begin)) + 1

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
