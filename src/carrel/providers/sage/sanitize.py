"""Remove hidden characters and imitations of a host's prompts from a project's text.

A model reads a server's instructions beside its host's own prompts. A stranger's file must not look like one of
those, nor hide words from a person who reads the file.
"""

import re
import unicodedata
from typing import Final

REMOVED: Final = "[removed]"

_HIDDEN: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn"))
"""Control, format (zero-width, bidirectional, tag), surrogate, private-use and unassigned characters."""

_BREAKS: Final = str.maketrans(dict.fromkeys("\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", "\n"))
_LEFT, _RIGHT = "[<\uff1c\u2039\u27e8\u3008]", "[>\uff1e\u203a\u27e9\u3009]"
_BAR: Final = "[|\uff5c\u2502]"
_ROLES: Final = "human|user|assistant|system|developer|ai|instructions?|response"
_TAGS: Final = (
    "systems?|reminder|instructions?|prompt|human|user|assistant|developer|tools?|function|invoke|parameter|thinking"
    "|inst|sys|bos|eos|s"
)
_PARTS: Final = (
    "system|reminder|instruction|prompt|human|user|assistant|developer|tool|function|antml|environment|context|command"
    "|hook|turn|permission|policy|memory|skill"
)
"""Words that make a tag look like a host's: as its whole name, or as a part of a name with several words."""

_TAG: Final = (
    rf"{_LEFT}{{1,2}}\s*/?\s*(?:{_TAGS}|(?=[\w:.-]*[-_:.])[\w:.-]*(?:{_PARTS})[\w:.-]*)(?:\s[^<>\n]*)?/?\s*{_RIGHT}{{1,2}}"
    rf"|{_LEFT}\s*{_BAR}[^<>\n]{{0,80}}{_BAR}\s*{_RIGHT}"
)
_MARKERS: Final = (
    ("<\uff1c\u2039\u27e8\u3008", _TAG),
    ("[", r"\[\s*/?\s*(?:INST|SYS|SYSTEM|SYSTEM_PROMPT|USER|ASSISTANT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\s*\]"),
    ("═=", r"[═=]{3,}[^\n═=]*SYSTEM[^\n═=]*[═=]{3,}|═{3,}"),
)
"""Patterns of markers, each with the characters a marker may begin with."""
_SPEAKERS: Final = rf"^([^\w\n]*)({_ROLES})([*_\s]*)[:\uff1a]"


def sanitize(text: str) -> str:
    """Return the text without hidden characters and without imitations of a host's prompt.

    A marker is replaced, not removed, so that the text around it cannot become another marker. A role at the start of
    a line, such as `Human:`, keeps its word and loses its colon.
    """
    shown = _visible(text)
    for first_characters, pattern in _MARKERS:
        # A session waits while a pattern is compiled, so only those that may match are.
        if any(character in shown for character in first_characters):
            shown = re.sub(pattern, REMOVED, shown, flags=re.IGNORECASE)
    if ":" in shown or "\uff1a" in shown:
        shown = re.sub(_SPEAKERS, r"\1\2\3 –", shown, flags=re.IGNORECASE | re.MULTILINE)
    return shown


def _visible(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(one for one in text.translate(_BREAKS) if one in "\n\t" or not _is_hidden(one))


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN or "\U000e0100" <= character <= "\U000e01ef"
