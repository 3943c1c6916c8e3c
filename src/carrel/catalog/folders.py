"""The direct children of a folder, and skills, over all providers, in pages.

As in the list, a cursor holds a position made from an entry: the folder, the provider, and the key of the last child.
"""

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from itertools import islice
from typing import Final

from carrel.catalog import access
from carrel.catalog.pages import key_of, seal
from carrel.catalog.routes import Mounted
from carrel.core.errors import BadArgument, BadCursor, NotFound, UnknownScheme, echo
from carrel.core.hierarchy import NotAFolder, folder_of
from carrel.core.limits import LIST_TTL_MS
from carrel.core.model import Page, Resource, Skill
from carrel.core.record import Value
from carrel.core.uri import same, scheme_of

KIND: Final = "d"
SKILLS: Final = "k"
"""What a cursor begins with: that of a folder, and that of the skills."""


class SkillPage(Value, frozen=True):
    """One page of the skills, and for each the name of its provider."""

    skills: tuple[Skill, ...]
    owners: tuple[str, ...]
    is_last: bool
    ttl_ms: int = LIST_TTL_MS

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next page; None if this is the last."""
        return None if self.is_last or not self.skills else seal(SKILLS, self.owners[-1], self.skills[-1].uri)

    def first(self, count: int) -> "SkillPage":
        """Return a page of the first `count` skills; the next page begins after them."""
        return self if count >= len(self.skills) else SkillPage(self.skills[:count], self.owners[:count], is_last=False)


def read_folder(providers: Sequence[Mounted], uri: str, parts: tuple[str, ...], wanted: int) -> Page:
    """Return one page of a folder's children; raise `NotAFolder` if no provider of the scheme has such a folder."""
    scheme = scheme_of(uri)
    owners = [mounted for mounted in providers if scheme in mounted.provider.schemes]
    if not owners:
        raise UnknownScheme(uri)
    folder = folder_of(uri)
    name, key = _place(parts, folder)
    if name and all(mounted.provider.name != name for mounted in owners):
        raise BadCursor
    with closing(_children(owners, uri, name, key)) as found:
        taken = list(islice(found, wanted + 1))
    shown = taken[:wanted]
    children = tuple(child for _, child in shown)
    if len(taken) <= wanted or not shown:
        return Page(children, ttl_ms=LIST_TTL_MS)
    last, child = shown[-1]
    return Page(children, seal(KIND, folder, last, key_of(child)), ttl_ms=LIST_TTL_MS)


def _children(owners: Sequence[Mounted], uri: str, name: str, key: str) -> Generator[tuple[str, Resource]]:
    """Yield the children that each provider has, after the named provider's child with this key; each URI once."""
    seen: set[str] = set()
    is_reached, missing = not name, 0
    for mounted in owners:
        owner = mounted.provider.name
        is_first = owner == name
        is_reached = is_reached or is_first
        try:
            # With several providers, those before the place are listed too, so that their children are not repeated.
            for child in mounted.provider.children(uri, key if len(owners) == 1 else ""):
                if child.uri not in seen and access.may_list(child.uri, child.target):
                    seen.add(child.uri)
                    if is_reached and not (is_first and key_of(child) <= key):
                        yield owner, child
        except (NotFound, NotAFolder):
            missing += 1
    if missing == len(owners):
        raise NotAFolder(uri)


def _place(parts: tuple[str, ...], folder: str) -> tuple[str, str]:
    """Return the provider and the key after which a page begins; a cursor is valid only for its own folder."""
    match parts:
        case ():
            return "", ""
        case (kind, same_folder, name, key) if kind == KIND and same_folder == folder:
            return name, key
    raise BadCursor


def list_skills(providers: Sequence[Mounted], parts: tuple[str, ...], wanted: int) -> SkillPage:
    """Return one page of the skills that the caller may read: provider by provider, in URI order."""
    owners = [mounted for mounted in providers if "skills" in mounted.overrides]
    name, after = _skill_place(parts, owners)
    found: list[tuple[str, Skill]] = []
    is_reached = not name
    for mounted in owners:
        is_first = mounted.provider.name == name
        is_reached = is_reached or is_first
        if is_reached and len(found) <= wanted:
            skills = sorted(_skills(mounted), key=lambda skill: skill.uri)
            found += [(mounted.provider.name, one) for one in skills if not is_first or one.uri > after]
    return SkillPage(tuple(skill for _, skill in found), tuple(owner for owner, _ in found), is_last=True).first(wanted)


def find_skill(providers: Iterable[Mounted], uri: str) -> Skill:
    """Return the skill whose `SKILL.md` has a URI; raise if there is none."""
    scheme = scheme_of(uri)
    for mounted in providers:
        if "skills" in mounted.overrides and scheme in mounted.provider.schemes:
            for skill in _skills(mounted):
                if same(skill.uri, uri):
                    return skill
    raise BadArgument(f"No skill is served at {echo(uri)}", uri=uri, data={"parameter": "uri"})


def _skills(mounted: Mounted) -> Iterable[Skill]:
    return (skill for skill in mounted.provider.skills() if access.may_read(skill.uri))


def _skill_place(parts: tuple[str, ...], owners: Iterable[Mounted]) -> tuple[str, str]:
    match parts:
        case ():
            return "", ""
        case (kind, name, after) if kind == SKILLS and any(one.provider.name == name for one in owners):
            return name, after
    raise BadCursor
