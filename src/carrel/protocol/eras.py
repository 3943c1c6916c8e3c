"""The differences between the versions of the protocol, as tables.

Modern (2026-07-28): every request carries version and capabilities. Legacy (up to 2025-11-25): `initialize` agrees on
them once. The era is decided for each message. A new version is a row in `VERSIONS`, and its tests.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"
CLIENT_INFO_KEY: Final = "io.modelcontextprotocol/clientInfo"
CONDITION_KEY: Final = "dev.carrel/if-none-match"
PREFIX_KEY: Final = "dev.carrel/prefix"
"""Asks `resources/list` for everything whose URI begins with this text, instead of the bounded list."""

LOG_LEVELS: Final = frozenset({"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"})

UNSUPPORTED_VERSION: Final = -32022
TOO_LARGE: Final = -32802
DENIED: Final = -32803
LEGACY_NOT_FOUND: Final = -32002


class Era(Enum):
    """The rules that apply to a message."""

    MODERN = "modern"
    LEGACY = "legacy"

    # Enum's own is slow Python code, and every request looks something up by its era.
    __hash__ = object.__hash__


class Version(NamedTuple):
    """A version of the protocol: its name, the era whose rules it follows, and what it alone has."""

    name: str
    era: Era
    has_batches: bool = False


class VersionTable:
    """The supported versions, newest first; of each era, the first is offered and asked for."""

    def __init__(self, rows: Sequence[Version]) -> None:
        self.modern = tuple(row.name for row in rows if row.era is Era.MODERN)
        self.legacy = tuple(row.name for row in rows if row.era is Era.LEGACY)
        self.with_batches = frozenset(row.name for row in rows if row.has_batches)


VERSIONS: Final = VersionTable(
    (
        Version("2026-07-28", Era.MODERN),
        Version("2025-11-25", Era.LEGACY),
        Version("2025-06-18", Era.LEGACY),
        Version("2025-03-26", Era.LEGACY, has_batches=True),
        Version("2024-11-05", Era.LEGACY),
    )
)
MODERN_VERSION: Final = VERSIONS.modern[0]
LATEST_LEGACY: Final = VERSIONS.legacy[0]

SKILLS: Final = "io.modelcontextprotocol/skills"
"""The extension (SEP-2640) that has folders and skills; `directoryRead` obliges to both."""

ALWAYS_MODERN: Final = frozenset({"server/discover", "subscriptions/listen"})
ALWAYS_LEGACY: Final = frozenset({"initialize"})

RESOURCE_METHODS: Final = frozenset({"resources/list", "resources/templates/list", "resources/read"})
COMPLETION_METHODS: Final = frozenset({"completion/complete"})
TOOL_METHODS: Final = frozenset({"tools/list", "tools/call"})
EXTENSION_METHODS: Final = frozenset({"resources/directory/read", "skills/list", "skills/get"})
LEGACY_METHODS: Final = frozenset({"initialize", "ping", "resources/subscribe", "resources/unsubscribe"})


def meta_of(params: Mapping[str, object]) -> Mapping[str, object]:
    """Return the `_meta` of parameters; empty if they have none."""
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def negotiate(requested: str) -> str:
    """Return the version to answer an `initialize` with: the requested one, if it is supported."""
    return requested if requested in VERSIONS.legacy else VERSIONS.legacy[0]


def served(era: Era, *, completes: bool, calls: bool) -> frozenset[str]:
    """Return the methods that are answered: exactly those of the declared capabilities."""
    methods = RESOURCE_METHODS | EXTENSION_METHODS | (ALWAYS_MODERN if era is Era.MODERN else LEGACY_METHODS)
    if completes:
        methods |= COMPLETION_METHODS
    if calls:
        methods |= TOOL_METHODS
    return methods


def capabilities(*, completes: bool, calls: bool) -> dict[str, object]:
    """Return the declared capabilities; `served` returns their methods."""
    declared: dict[str, object] = {"resources": {"subscribe": True, "listChanged": True}}
    if completes:
        declared["completions"] = {}
    if calls:
        declared["tools"] = {"listChanged": True}
    declared["extensions"] = {SKILLS: {"directoryRead": True}}
    return declared
