"""Groups of callers: the rights of each group, in addition to those of a caller's own token.

    [groups.writers]
    members = ["alice", "groups=platform"]
    allow = ["scopes:write", "workspace:///docs/:read"]

A member is the subject of a token (or the name of one that `carrel token add` made), `claim=value` for a claim that an
issuer signed, or `*` for every caller with a valid token.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from carrel.catalog.access import parse_scopes
from carrel.core.errors import ConfigError
from carrel.core.provider import Section

_NONE: Final = "none"
NO_SCOPES: Final = "none (only those of its groups)"
"""The permissions of a token without scopes, in words."""

Claims = Mapping[str, object]


class GroupSettings(Section, frozen=True):
    """A section `[groups.NAME]`."""

    members: list[str]
    allow: list[str]

    examples: ClassVar[Mapping[str, str]] = {
        "members": '["alice", "groups=platform"]',
        "allow": '["scopes:write", "workspace:///docs/:read"]',
    }

    def __post_init__(self) -> None:
        parse_scopes(self.allow)
        if not all(member.strip() for member in self.members):
            raise ConfigError("members: expected subjects, claims such as groups=platform, or *")


class Groups:
    """All groups of a desk."""

    def __init__(self, groups: Iterable[GroupSettings] = ()) -> None:
        self._groups = tuple((frozenset(group.members), parse_scopes(group.allow)) for group in groups)

    def rights_of(self, subject: str, claims: Claims | None = None) -> frozenset[str]:
        """Return the rights of the groups of a caller."""
        names = {"*", subject, *_claimed(claims or {})}
        rights = (allowed for members, allowed in self._groups if not members.isdisjoint(names))
        return frozenset[str]().union(*rights)


NO_GROUPS: Final = Groups()


def parse_token_scopes(words: Iterable[str]) -> frozenset[str] | None:
    """Return the scopes of a new token: none for the word `none`; None, which is everything, without a word."""
    given = set(words)
    if _NONE not in given:
        return parse_scopes(given) if given else None
    if given != {_NONE}:
        raise ConfigError("--scope none stands alone: leave it out, or the other scopes")
    return frozenset()


def _claimed(claims: Claims) -> Iterable[str]:
    """Yield each claim as `name=value`; one with several values, several times."""
    for name, value in claims.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str):
                yield f"{name}={one}"
