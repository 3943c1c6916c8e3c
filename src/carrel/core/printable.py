"""Make foreign text safe to print: a terminal obeys nothing in it.

A file name, a settings key or a log may contain escape sequences that rename the window, clear the screen or type a
command, and bidi controls that turn `exe.txt` into `txt.exe`. All of them are shown as text instead.
"""

import re
from typing import Final

_OBEYED: Final = (
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # escape sequences begin with one of these; not tab and newline
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of writing
    r"\u2028\u2029\ufff9-\ufffb"  # line separators and annotations
    r"\ud800-\udfff"  # lone surrogates, which no output can encode
    r"\U000e0000-\U000e007f]"  # invisible letters
)


def printable(text: str) -> str:
    r"""Return the text with each control character as an escape such as `\x1b`; tabs and newlines stay."""
    return text if text.isprintable() else re.sub(_OBEYED, _spelled, text)


def printable_line(text: str) -> str:
    """Return the same, with tabs and newlines escaped too."""
    return printable(text).replace("\n", r"\n").replace("\t", r"\t")


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
