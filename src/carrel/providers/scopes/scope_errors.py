"""What can go wrong with scopes: one error, with a code from one table.

The table says for each code which status a reader sees and with which code the command
line exits. A fault of the store itself carries its reason for people at the machine;
over MCP nobody sees more than `Internal error`.
"""

from typing import Final, Literal

from carrel.core.errors import CarrelError, echo

Code = Literal[
    "SCOPE_NOT_FOUND",
    "ALIAS_NOT_FOUND",
    "INVALID_ALIAS",
    "INVALID_TITLE",
    "INVALID_DESCRIPTION",
    "INVALID_STATUS",
    "INVALID_ARGUMENT",
    "INVALID_IDEMPOTENCY_KEY",
    "DUPLICATE_ALIAS",
    "DUPLICATE_TITLE",
    "DUPLICATE_ID",
    "HAS_CHILDREN",
    "CYCLE",
    "ARCHIVED",
    "CANNOT_REMOVE_CANONICAL",
    "ALIAS_OF_DIFFERENT_SCOPE",
    "STALE",
    "IDEMPOTENCY_CONFLICT",
    "ALIAS_GENERATION_FAILED",
    "BUSY",
    "INTERNAL",
]

_FAILED, _USAGE = 1, 2
_NOT_FOUND, _INVALID, _CONFLICT = (404, _FAILED), (400, _USAGE), (409, _FAILED)
TABLE: Final[dict[Code, tuple[int, int]]] = {
    "SCOPE_NOT_FOUND": _NOT_FOUND,
    "ALIAS_NOT_FOUND": _NOT_FOUND,
    "INVALID_ALIAS": _INVALID,
    "INVALID_TITLE": _INVALID,
    "INVALID_DESCRIPTION": _INVALID,
    "INVALID_STATUS": _INVALID,
    "INVALID_ARGUMENT": _INVALID,
    "INVALID_IDEMPOTENCY_KEY": _INVALID,
    "DUPLICATE_ALIAS": _CONFLICT,
    "DUPLICATE_TITLE": _CONFLICT,
    "DUPLICATE_ID": _CONFLICT,
    "HAS_CHILDREN": _CONFLICT,
    "CYCLE": _CONFLICT,
    "ARCHIVED": _CONFLICT,
    "CANNOT_REMOVE_CANONICAL": _CONFLICT,
    "ALIAS_OF_DIFFERENT_SCOPE": _CONFLICT,
    "STALE": _CONFLICT,
    "IDEMPOTENCY_CONFLICT": _CONFLICT,
    "ALIAS_GENERATION_FAILED": _CONFLICT,
    "BUSY": (503, _FAILED),
    "INTERNAL": (500, _FAILED),
}
"""Each code's status, and the exit code of the command line."""

INTERNAL_TEXT: Final = "Internal error"


class ScopeError(CarrelError):
    """What was asked of the scopes was not done, and nothing was changed."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code: Code = code
        self.text = text
        self.status, self.exit = TABLE[code]


class StoreFault(ScopeError):
    """The store cannot be used; the text is the reason, for people at the machine only.

    Where it was refused, `note` says why to everybody; it names no path.
    """

    def __init__(self, reason: str, note: str = "") -> None:
        super().__init__("INTERNAL", reason)
        self.note = note

    @property
    def shown(self) -> str:
        """What a client is told."""
        return self.note or INTERNAL_TEXT


class Archived(ScopeError):
    """The scope is archived; each way in says how it is brought back there."""

    def __init__(self, alias: str) -> None:
        super().__init__("ARCHIVED", f"Scope is archived: {alias}")
        self.alias = alias

    def with_way_back(self, way: str) -> str:
        """Return the text, and what brings the scope back as TODO."""
        return f"{self.text} (to bring it back: {way})"


def not_found(alias: str) -> ScopeError:
    """Say that no scope has this alias or id."""
    return ScopeError("SCOPE_NOT_FOUND", f"Scope not found: {echo(alias)}")


def invalid(text: str) -> ScopeError:
    """Say what is wrong with an argument."""
    return ScopeError("INVALID_ARGUMENT", text)
