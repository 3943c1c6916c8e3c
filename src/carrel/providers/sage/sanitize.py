"""Take out of a text what could be mistaken for something other than a project's text.

What goes into a server's instructions is read by a model beside its host's own prompts. A stranger's file must not be
able to look like one of those, nor hide words from the person who looks at the file.
"""

import re
import unicodedata
from typing import Final

REMOVED: Final = "[removed]"

_HIDDEN: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn"))
"""Control, format (as zero-width, bidirectional and tag characters), surrogate, private and unassigned characters."""

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
"""Words that make a tag look like a host's own: as its whole name, or as a part of a name that has several."""

_TAG: Final = (
    rf"{_LEFT}{{1,2}}\s*/?\s*(?:{_TAGS}|(?=[\w:.-]*[-_:.])[\w:.-]*(?:{_PARTS})[\w:.-]*)(?:\s[^<>\n]*)?/?\s*{_RIGHT}{{1,2}}"
    rf"|{_LEFT}\s*{_BAR}[^<>\n]{{0,80}}{_BAR}\s*{_RIGHT}"
)
_MARKERS: Final = (
    ("<\uff1c\u2039\u27e8\u3008", _TAG),
    ("[", r"\[\s*/?\s*(?:INST|SYS|SYSTEM|SYSTEM_PROMPT|USER|ASSISTANT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\s*\]"),
    ("═=", r"[═=]{3,}[^\n═=]*SYSTEM[^\n═=]*[═=]{3,}|═{3,}"),
)
"""What markers look like, by the characters they begin with."""
_SPEAKERS: Final = rf"^([^\w\n]*)({_ROLES})([*_\s]*)[:\uff1a]"


def cleaned(text: str) -> str:
    """Return the text without hidden characters, and with nothing that looks like a marker of a host's prompt.

    Markers are replaced, so that what stood around one does not become another. A role at the start of a line, as
    `Human:`, keeps its word and loses its colon.
    """
    shown = _visible(text)
    for beginnings, pattern in _MARKERS:
        # Only then: to compile the pattern takes milliseconds, and a session waits for them.
        if any(one in shown for one in beginnings):
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
