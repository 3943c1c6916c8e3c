"""Find the skills of a project and of installed packages, and open their files; nothing outside their folders.

A skill is a folder with a `SKILL.md`, directly in one of the usual places or in a folder that groups skills. Its path
is that below the place; a skill whose name is taken gets the label of its place before it. What is below a skill
belongs to it: a `SKILL.md` there is one of its files.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from carrel.core.cache import BoundedCache
from carrel.core.errors import echo
from carrel.core.hashing import sha256
from carrel.core.model import SkillFile
from carrel.core.provider import Project
from carrel.core.record import Value
from carrel.core.uri import is_text, quote
from carrel.files import packaged_skills
from carrel.files.data_folder import DataFolder
from carrel.files.sandbox import (
    FileState,
    Forbidden,
    Kind,
    Opened,
    Outside,
    Root,
    SandboxError,
    Unreadable,
    is_settled,
    state_of,
)

if TYPE_CHECKING:
    from carrel.providers.skills.front_matter import FrontMatter

SCHEME: Final = "skill"
START: Final = "skill://"
MAIN: Final = "SKILL.md"
PROJECT_PLACES: Final = {"claude": ".claude/skills", "agents": ".agents/skills", "skills": "skills"}
"""Where a project has its skills, by label."""
MAX_FILES: Final = 512
MAX_SIZE: Final = 16_777_216
"""The limits of one skill that every host accepts, by the specification."""
MAX_NAMES: Final = 262_144
"""Maximum characters in the paths of a skill's files: a list of skills must be able to name them in one message."""
MAX_ALL_NAMES: Final = 16 * MAX_NAMES
"""The same for all skills together."""
MAX_MAIN_BYTES: Final = 1_048_576
MAX_FOLDERS: Final = 1_000
"""Folders that are looked into to find skills."""
MAX_GROUPS: Final = 3
MAX_DEPTH: Final = 16
MAX_LOOKS: Final = 2_048
"""Files, folders and links that are looked at in one skill."""
MAX_ALL_LOOKS: Final = 16_384
"""The same for all skills together, so that the time of one list is bounded."""
MAX_ALL_SIZE: Final = 16 * MAX_SIZE
"""Bytes of all skills together, which a list reads for their digests."""
CHUNK: Final = 1_048_576
NOISE: Final = frozenset({"__pycache__", "node_modules", ".venv", ".DS_Store", "Thumbs.db"})
"""Files and folders that tools create; they are never part of a skill."""

Segments = tuple[str, ...]


class SkillPlace(Value, frozen=True):
    """A folder of skills. `origin` is its path below the project, or the package it comes with."""

    label: str
    origin: str
    folder: DataFolder
    is_package: bool = False


class OwnFile(Value, frozen=True):
    """A file of a skill, and its state when it was found."""

    segments: Segments
    state: os.stat_result


class FoundSkill(Value, frozen=True):
    """A folder with a `SKILL.md`. `reason` is why it cannot be used as a skill; `path` is its place in URIs."""

    place: SkillPlace
    names: Segments
    path: Segments
    main: os.stat_result
    front_matter: "FrontMatter | None"
    reason: str
    files: "tuple[OwnFile, ...]" = ()

    @property
    def start(self) -> str:
        """The URI of its folder."""
        return START + "/".join(map(quote, self.path))

    @property
    def uri(self) -> str:
        """The URI of its `SKILL.md`."""
        return f"{self.start}/{MAIN}"

    @property
    def origin(self) -> str:
        """Where it comes from: the folder below the project, or the package."""
        return self.place.origin if self.place.is_package else "/".join((self.place.origin, *self.names))

    def open(self) -> Root:
        """Open its folder; raise `SandboxError` or `OSError`."""
        return self.place.folder.open(*self.names)


class ExaminedFile(Value, frozen=True):
    """What is known of the bytes of a file."""

    digest: str
    size: int
    is_utf8: bool


class _PlaceSearch:
    """One search for skills: how much may still be looked at, and the problems that were found."""

    def __init__(self, problems: list[str]) -> None:
        self.left = MAX_FOLDERS
        self.looks = MAX_ALL_LOOKS
        self.size = MAX_ALL_SIZE
        self.names = MAX_ALL_NAMES
        self.problems = problems

    def folders(self, place: SkillPlace) -> Iterator[tuple[Segments, Root]]:
        """Yield every folder of a place that has a `SKILL.md`, open; folders without one are looked into."""
        try:
            with place.folder.open() as root:
                yield from self._below(place, root, ())
        except Outside:
            self.problems.append(_leaves(place.origin))
        except Unreadable:
            self.problems.append(_unreadable(place.origin))
        except (SandboxError, OSError, ValueError):
            return

    def files(self, root: Root) -> tuple[tuple[OwnFile, ...], str]:
        """Return the files of a skill; or none, and why it is larger than may be looked at."""
        if self.names <= 0:
            all_names = f"the names of the files of all skills together have more than {MAX_ALL_NAMES} characters"
            return (), f"{all_names}; this one was not looked at"
        looks = Looks(min(MAX_LOOKS, self.looks))
        is_last = self.looks < MAX_LOOKS
        files = tuple(files_of(root, MAX_FILES + 1, looks))
        self.looks -= looks.taken
        reason = _excess(files)
        if not reason and looks.are_spent:
            everything = "files, folders and links"
            reason = f"it has more than {MAX_LOOKS} {everything}"
            if is_last:
                reason = f"all skills together have more than {MAX_ALL_LOOKS} {everything}; this one was not looked at"
        size = sum(file.state.st_size for file in files)
        if not reason and size > self.size:
            reason = f"all skills together have more than {MAX_ALL_SIZE} bytes; this one was not looked at"
        if reason:
            return (), reason
        self.size -= size
        self.names -= _length_of_names(files)
        return files, ""

    def _below(self, place: SkillPlace, root: Root, above: Segments) -> Iterator[tuple[Segments, Root]]:
        for name, kind in self._names(place, root, above):
            names = (*above, name)
            if kind == "link":
                found = self._open_link(place, names)
                if found is not None:
                    yield names, found
            elif root.exists((*names, MAIN)):
                try:
                    found = root.below(names)
                except Unreadable:
                    self.problems.append(_unreadable(_shown(place, names)))
                    continue
                except (SandboxError, OSError):
                    continue
                yield names, found
            elif len(names) < MAX_GROUPS:
                yield from self._below(place, root, names)

    def _names(self, place: SkillPlace, root: Root, above: Segments) -> list[tuple[str, Kind]]:
        """Return the folders and links in a folder, in order, as many as may still be looked into."""
        try:
            with root.open(above) as opened:
                found = sorted(opened.scan())
        except Unreadable:
            self.problems.append(_unreadable(_shown(place, above)))
            return []
        except (SandboxError, OSError, ValueError):
            return []
        wanted = [one for one in found if one[1] in ("folder", "link") and one[0] not in NOISE and is_text(one[0])]
        taken = wanted[: max(0, self.left)]
        self.left -= len(taken)
        return taken

    def _open_link(self, place: SkillPlace, names: Segments) -> Root | None:
        """Open a skill that a link leads to; it may lie anywhere in the project."""
        try:
            root = place.folder.open(*names)
        except Outside:
            self.problems.append(_leaves(_shown(place, names)))
            return None
        except (SandboxError, OSError, ValueError):
            return None
        if root.exists((MAIN,)):
            return root
        root.close()
        return None


class SkillFinder:
    """Looks for skills. Remembers front matter and digests for as long as the files stay as they are."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._places = [
            SkillPlace(label, origin, DataFolder(project, origin, is_named=False))
            for label, origin in PROJECT_PLACES.items()
        ]
        self._parsed: BoundedCache[tuple[FileState, str], FrontMatter | str] = BoundedCache(4_096)
        self._examined: BoundedCache[FileState, ExaminedFile] = BoundedCache(65_536)

    def find(self) -> tuple[list[FoundSkill], list[str]]:
        """Return the skills, and sentences about folders that look like skills and cannot be opened."""
        found: list[FoundSkill] = []
        problems: list[str] = []
        seen: set[tuple[int, int]] = set()
        search = _PlaceSearch(problems)
        for place in (*self._places, *self._packages()):
            for names, root in search.folders(place):
                with root:
                    state = os.fstat(root.fd)
                    if (state.st_dev, state.st_ino) in seen:  # the same folder through a link
                        continue
                    seen.add((state.st_dev, state.st_ino))
                    self._add(place, names, root, found, search)
        if search.left <= 0:
            problems.append(f"only the first {MAX_FOLDERS} folders were looked into for skills")
        return found, problems

    def _packages(self) -> list[SkillPlace]:
        return [
            SkillPlace(one.name, one.package, DataFolder(self._project, one.folder, is_named=True), is_package=True)
            for one in packaged_skills.find(self._project.root)
        ]

    def _add(
        self, place: SkillPlace, names: Segments, root: Root, found: list[FoundSkill], search: _PlaceSearch
    ) -> None:
        """Add a skill, with the reason if it is broken; or a problem, if its `SKILL.md` cannot be read at all."""
        shown = f"{_shown(place, names)}/{MAIN}"
        problems = search.problems
        try:
            with root.open((MAIN,)) as opened:
                if opened.is_folder:
                    return
                state = opened.stat
                if opened.size > MAX_SIZE:
                    problems.append(f"{shown} has {opened.size} bytes; it is not read")
                    return
                front_matter, reason = self._front_matter(opened, names[-1])
        except Outside:
            problems.append(f"{shown} is a link that leaves its folder; it is not read")
            return
        except Forbidden:
            return
        except (SandboxError, OSError):
            problems.append(f"{shown} cannot be read")
            return
        files: tuple[OwnFile, ...] = ()
        if not reason:
            files, reason = search.files(root)
        path = _path_of(place, names, found)
        found.append(FoundSkill(place, names, path, state, None if reason else front_matter, reason, files))

    def _front_matter(self, opened: Opened, folder: str) -> "tuple[FrontMatter | None, str]":
        """Return the front matter of an open `SKILL.md`, or the reason why it cannot be used."""
        if opened.size > MAX_MAIN_BYTES:
            return None, f"it has {opened.size} bytes; {MAX_MAIN_BYTES} are allowed"
        key = state_of(opened.stat), folder
        known = self._parsed.get(key)
        if known is None:
            from carrel.providers.skills.front_matter import BadFrontMatter, parse  # loads YAML: not at the start

            try:
                known = parse(opened.read(0, MAX_MAIN_BYTES).decode(), folder)
            except UnicodeDecodeError:
                known = "it is not UTF-8"
            except BadFrontMatter as error:
                known = echo(str(error))
            if is_settled(opened.stat):
                self._parsed.put(key, known, 1)
        return (None, known) if isinstance(known, str) else (known, "")

    def manifest(self, skill: FoundSkill) -> tuple[SkillFile, ...] | None:
        """Return every file of a skill with its digest, `SKILL.md` first; None if that cannot be read now."""
        made: list[SkillFile] = []
        try:
            with skill.open() as root:
                for file in skill.files:
                    # The state is that of a moment ago, in which the file was opened and permitted.
                    examined = self._examined.get(state_of(file.state)) or self._examine_file(root, file.segments)
                    if examined is not None:
                        made.append(SkillFile(uri_of(skill, file.segments), examined.digest, examined.size))
        except (SandboxError, OSError):
            return None
        made.sort(key=lambda file: (file.uri != skill.uri, file.uri))
        return tuple(made) if made and made[0].uri == skill.uri else None

    def _examine_file(self, root: Root, segments: Segments) -> ExaminedFile | None:
        try:
            with root.open(segments) as opened:
                return None if opened.is_folder or opened.size > MAX_SIZE else self.examine(opened)
        except (SandboxError, OSError, ValueError):
            return None  # gone, or not permitted

    def examine(self, opened: Opened) -> ExaminedFile:
        """Return the digest of an open file of at most 16 MiB, and whether its bytes are UTF-8 without NUL."""
        from codecs import getincrementaldecoder

        state = state_of(opened.stat)
        known = self._examined.get(state)
        if known is not None:
            return known
        digest, decoder, is_utf8, size = sha256(), getincrementaldecoder("utf-8")(), True, 0
        while size <= MAX_SIZE and (chunk := opened.read(size, CHUNK)):
            digest.update(chunk)
            size += len(chunk)
            if is_utf8:
                try:
                    decoder.decode(chunk)
                    is_utf8 = b"\0" not in chunk
                except UnicodeDecodeError:
                    is_utf8 = False
        try:
            decoder.decode(b"", final=is_utf8)
        except UnicodeDecodeError:
            is_utf8 = False
        examined = ExaminedFile(f"sha256:{digest.hexdigest()}", size, is_utf8)
        if is_settled(opened.stat) and size == opened.size:
            self._examined.put(state, examined, 1)
        return examined


def uri_of(skill: FoundSkill, segments: Segments) -> str:
    """Return the URI of a file or folder of a skill."""
    return "/".join((skill.start, *map(quote, segments)))


def is_noise(segments: Segments) -> bool:
    """Return whether a path is never part of a skill."""
    return not NOISE.isdisjoint(segments)


class Looks:
    """How many files, folders and links may still be looked at."""

    def __init__(self, most: int = MAX_LOOKS) -> None:
        self._most = most
        self.taken = 0
        self.are_spent = False

    def take(self) -> bool:
        """Take one look; return whether there was one left."""
        self.are_spent = self.taken >= self._most
        self.taken += not self.are_spent
        return not self.are_spent


def files_of(root: Root, most: int, looks: Looks | None = None) -> Iterator[OwnFile]:
    """Yield the files of a skill that may be read, at most `most`; links that leave it are passed over.

    It ends when no look is left. A folder is looked into once, under its own name if it has one here: links may form
    a cycle.
    """
    ahead: list[Segments] = [()]
    linked: list[Segments] = []
    seen: set[tuple[int, int]] = set()
    looks = looks or Looks()
    while (ahead or linked) and most > 0:
        above = ahead.pop() if ahead else linked.pop(0)
        for segments, kind in _names_in(root, above, seen):
            if not looks.take():
                return
            state = _state(root, segments)
            if state is not None and not stat.S_ISDIR(state.st_mode):
                yield OwnFile(segments, state)
                most -= 1
                if most <= 0:
                    return
            elif state is not None and len(segments) < MAX_DEPTH:
                (linked if kind == "link" else ahead).append(segments)


def _names_in(root: Root, above: Segments, seen: set[tuple[int, int]]) -> list[tuple[Segments, Kind]]:
    """Return what a folder holds, in order; nothing if it was `seen` before or cannot be read."""
    try:
        with root.open(above) as opened:
            place = opened.stat.st_dev, opened.stat.st_ino
            if place in seen:
                return []
            seen.add(place)
            found = sorted(opened.scan())
    except (SandboxError, OSError, ValueError):
        return []
    return [((*above, name), kind) for name, kind in found if kind != "special" and name not in NOISE and is_text(name)]


def _state(root: Root, segments: Segments) -> os.stat_result | None:
    try:
        with root.open(segments) as opened:
            return opened.stat
    except (SandboxError, OSError, ValueError):
        return None


def _excess(files: Sequence[OwnFile]) -> str:
    """Return why a skill is larger than hosts accept; empty if it is not."""
    if len(files) > MAX_FILES:
        return f"it has more than {MAX_FILES} files"
    if _length_of_names(files) > MAX_NAMES:
        return f"the names of its files have more than {MAX_NAMES} characters together"
    size = sum(file.state.st_size for file in files)
    return f"its files have {size} bytes together; {MAX_SIZE} are allowed" if size > MAX_SIZE else ""


def _path_of(place: SkillPlace, names: Segments, found: list[FoundSkill]) -> Segments:
    """Return the path of a skill in URIs: that below its place, with the place before it if the name is taken."""
    taken = {skill.path for skill in found}
    if names not in taken and all(skill.path[-1] != names[-1] for skill in found):
        return names
    label = place.label
    while (label, *names) in taken or (label,) in taken:
        label += "-skills"
    return (label, *names)


def _leaves(shown: str) -> str:
    return f"{shown} is a link that leaves the project; it is not followed"


def _unreadable(shown: str) -> str:
    return f"{shown} cannot be read: permission denied"


def _shown(place: SkillPlace, names: Segments) -> str:
    """Return the place of a skill for people."""
    start = f"{place.origin}:" if place.is_package else f"{place.origin}/"
    return echo(start + "/".join(names))


def _length_of_names(files: Sequence[OwnFile]) -> int:
    """Return how many characters the paths of files have in URIs."""
    known = {name: len(quote(name)) + 1 for name in {name for file in files for name in file.segments}}
    return sum(known[name] for file in files for name in file.segments)
