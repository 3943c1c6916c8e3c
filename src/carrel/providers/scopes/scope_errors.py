"""The errors of scopes: each has a code, the status that readers see, and the exit code of the command line."""

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
    "conflict",
    "IDEMPOTENCY_CONFLICT",
    "ALIAS_GENERATION_FAILED",
    "BUSY",
    "UNAVAILABLE",
    "INTERNAL",
]

_STATUSES: Final[dict[str, int]] = {
    "SCOPE_NOT_FOUND": 404,
    "ALIAS_NOT_FOUND": 404,
    "BUSY": 503,
    "UNAVAILABLE": 503,
    "INTERNAL": 500,
}
INTERNAL_TEXT: Final = "Internal error"


class ScopeError(CarrelError):
    """A request failed, and nothing was changed."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code: Code = code
        self.text = text
        self.status = _STATUSES.get(code) or (400 if code.startswith("INVALID_") else 409)
        self.exit = 2 if self.status == 400 else 1


class StoreFault(ScopeError):
    """The store cannot be used. The text may name paths and is for the log and the command line.

    `note` is a reason without paths, which clients may see.
    """

    def __init__(self, reason: str, note: str = "") -> None:
        super().__init__("INTERNAL", reason)
        self.note = note

    @property
    def shown(self) -> str:
        """The text for clients."""
        return self.note or INTERNAL_TEXT


class StoreAway(ScopeError):
    """The team's store cannot be used. `detail` names it, and is for the command line."""

    def __init__(self, text: str, detail: str) -> None:
        super().__init__("UNAVAILABLE", text)
        self.detail, self.exit = detail, 2


class Archived(ScopeError):
    """The scope is archived."""

    def __init__(self, alias: str) -> None:
        super().__init__("ARCHIVED", f"Scope is archived: {alias}")
        self.alias = alias

    def with_advice(self, way: str) -> str:
        """Return the text, and how the caller can restore the scope."""
        return f"{self.text} (to restore it: {way})"


class ScopeConflict(ScopeError):
    """The scope is not the version that the caller has read: `given` and `current` are the ETags."""

    def __init__(self, alias: str, given: str, current: str) -> None:
        super().__init__("conflict", f"Scope was changed meanwhile: {alias} (read it again; its ETag is {current})")
        self.given = echo(given)
        self.current = current


def not_found(alias: str) -> ScopeError:
    """Return the error for an alias or id that no scope has."""
    return ScopeError("SCOPE_NOT_FOUND", f"Scope not found: {echo(alias)}")


def invalid(text: str) -> ScopeError:
    """Return the error for a bad argument."""
    return ScopeError("INVALID_ARGUMENT", text)
