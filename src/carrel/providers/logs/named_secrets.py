"""Values that are secrets by what stands before them: the name of a password or a token, an option, a login of curl.

The pattern takes care not to hide prose, such as `password: required` and `token: 12 left`. Each part of it is bounded,
so that a hostile line costs time in proportion to its length.
"""

import re
from typing import Final

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
_LOGIN: Final = r"(?<!\S)(?:-[A-Za-z]{0,16}[uU][ \t]*|--(?:proxy-)?user[ \t=]+)[\"']?[^\s:\"']{1,128}:"

NAMES: Final = (
    *("passw", "passphrase", "secret", "token", "credential"),
    *("_key", "-key", "apikey", "accesskey", "privatekey"),
)
"""Parts of words (in lower case) without which `NAMED` cannot match."""
NAMED: Final = re.compile(
    rf"(?i)(?P<kept>{_NAME}(?:{_CERTAIN}(?={_ANY})|{_SEPARATOR}(?={_LIKELY}))|{_OPTION}(?={_LIKELY})){_VALUE}+"
)
CURL_LOGIN: Final = re.compile(rf"(?P<kept>{_LOGIN})(?!\[redacted\])[^\s\"']+")
"""The user and the password in a line with `curl`."""
BEGUN: Final = (rf"(?i:{_NAME}{_SEPARATOR}|{_OPTION}){_VALUE}+", rf"{_LOGIN}[^\s\"']*")
"""What matches a value at the end of a text that more text may make a secret."""
