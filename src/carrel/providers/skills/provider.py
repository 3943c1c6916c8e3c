"""Agent Skills of a project and of installed packages, as resources (SEP-2640).

skill://{+path}   `NAME/SKILL.md`, another file of a skill, or a folder
"""

from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from typing import Final, Literal

from carrel.core.errors import Denied, NotFound, TooLarge, echo
from carrel.core.hashing import blake2b
from carrel.core.hierarchy import NotAFolder, folder_entry, folder_of, is_root, start_of
from carrel.core.limits import LIST_TTL_MS, MAX_COMPLETIONS
from carrel.core.model import (
    FOLDER_TYPE,
    Annotations,
    Completion,
    Meta,
    Rank,
    Reading,
    Resource,
    Skill,
    Stored,
    Text,
)
from carrel.core.provider import Document, Project, Provider, Route
from carrel.core.record import Value, replace
from carrel.core.uri import decode, is_text, quote, split_query
from carrel.files import file_types
from carrel.files.sandbox import Forbidden, Missing, Opened, Outside, Root, SandboxError
from carrel.providers.skills.found_skills import (
    MAIN,
    MAX_FILES,
    MAX_SIZE,
    SCHEME,
    START,
    FoundSkill,
    Segments,
    SkillFinder,
    files_of,
    is_noise,
    uri_of,
)

ORIGIN_KEY: Final = "dev.carrel/origin"
TTL_MS: Final = 1_000
FRESH_S: Final = 1.0
"""How long a read goes by the skills that were found before it."""
_TEMPLATE: Final = "skill://{+path}"


class SkillTarget(Value, frozen=True):
    """What a URI means: a file or folder of a skill, or, without a skill, a folder above skills."""

    path: Segments
    skill: FoundSkill | None = None
    rest: Segments = ()


class Skills(Provider):
    """The skills in the usual places of a project, and those of installed packages."""

    name = "skills"
    schemes = (SCHEME,)
    summary = "Agent Skills: instructions for tasks of this project. Read `skill://<name>/SKILL.md` before such a task."

    def __init__(self, project: Project, enabled: Literal["auto"] | bool = "auto") -> None:
        del enabled  # read by the application, which decides whether to mount the provider
        self._finder = SkillFinder(project)
        self._known: tuple[float, list[FoundSkill]] = 0.0, []

    def routes(self) -> Sequence[Route]:
        return (
            Route(
                _TEMPLATE,
                self.read,
                name="skill-file",
                title="Skill file or folder",
                description="A skill's SKILL.md, another file of it, or the children of a folder",
                takes_uri=True,
            ),
        )

    # Listing

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the `SKILL.md` of every skill in URI order, then those of broken ones."""
        found = map(_entry, self._look())
        return (entry for entry in sorted(found, key=lambda one: one.sort_key) if entry.sort_key > after)

    def browse(self, directory: str | None, prefix: str, after: str = "") -> Iterator[Resource]:
        """Yield every file of every skill below a folder, or whose URI begins with the prefix, in URI order.

        Without either, nothing: that is asked by Fly's numbered lists, which have files and logs only.
        """
        found: list[Resource] = []
        if directory is not None:
            prefix = start_of(folder_of(directory)) if directory.lower().startswith(f"{SCHEME}:") else ""
        for skill in self._look() if prefix else ():
            if skill.start.startswith(prefix) or prefix.startswith(skill.start):
                try:
                    with skill.open() as root:
                        every = [self._child(skill, file.segments, root) for file in files_of(root, MAX_FILES)]
                except (SandboxError, OSError):
                    continue
                found += [one for one in every if one is not None and one.uri.startswith(prefix)]
        return (one for one in sorted(found, key=lambda one: one.sort_key) if one.sort_key > after)

    def children(self, uri: str, after: str = "") -> Iterator[Resource]:
        """Yield the children of a folder of skills, or of a folder in a skill."""
        target = self._target(folder_of(uri), uri)
        if target.skill is None:
            children = self._above(target.path)
        else:
            children = self._inside(target.skill, target.rest, uri)
        return (child for child in sorted(children, key=lambda one: one.sort_key) if child.sort_key > after)

    def _above(self, path: Segments) -> list[Resource]:
        """Return the folders of skills, and those that group them, below a path."""
        count = len(path)
        starts = {skill.path[: count + 1] for skill in self._skills_now() if skill.path[:count] == path}
        return [folder_entry(START + "/".join(map(quote, start))) for start in starts if len(start) > count]

    def _inside(self, skill: FoundSkill, rest: Segments, uri: str) -> list[Resource]:
        """Return the files and folders in a folder of a skill."""
        try:
            with skill.open() as root, root.open(rest) as opened:
                if not opened.is_folder:
                    raise NotAFolder(uri)
                names = sorted(name for name, kind in opened.scan() if kind != "special" and is_text(name))
                children = (self._child(skill, (*rest, name), root) for name in names)
                return [child for child in children if child is not None]
        except SandboxError as error:
            raise _refusal(uri, error) from None
        except (OSError, ValueError):
            raise NotFound(uri) from None

    def _child(self, skill: FoundSkill, segments: Segments, root: Root) -> Resource | None:
        """Return the entry of a file or folder of a skill; None if it may not be read."""
        if is_noise(segments):
            return None
        try:
            with root.open(segments) as opened:
                if opened.is_folder:
                    return folder_entry(uri_of(skill, segments))
                return None if opened.size > MAX_SIZE else self._file(skill, segments, opened)
        except (SandboxError, OSError, ValueError):
            return None

    def _file(self, skill: FoundSkill, segments: Segments, opened: Opened) -> Resource:
        """Return the entry of a file of a skill."""
        if segments == (MAIN,):
            return replace(_entry(skill), sort_key=skill.uri)
        is_text = self._finder.examine(opened).is_utf8
        return Resource(
            uri_of(skill, segments),
            segments[-1],
            mime_type=file_types.type_of(segments[-1], is_text=is_text),
            size=opened.size,
            annotations=Annotations(last_modified_ms=opened.stat.st_mtime_ns // 1_000_000),
            meta={ORIGIN_KEY: skill.origin},
            sort_key=uri_of(skill, segments),
            rank=Rank.SKILLS,
        )

    def skills(self) -> Sequence[Skill]:
        """Return every skill that can be used, with the digests of its files."""
        made = []
        for skill in self._look():
            files = None if skill.front_matter is None else self._finder.manifest(skill)
            if skill.front_matter is not None and files is not None:
                made.append(Skill(skill.uri, skill.front_matter.fields, files, {ORIGIN_KEY: skill.origin}))
        return made

    def documents(self) -> Iterator[Document]:
        """Yield every file of every skill."""
        for skill in self._look():
            try:
                with skill.open() as root:
                    for file in files_of(root, MAX_FILES):
                        state = file.state
                        fingerprint = f"{state.st_ino}-{state.st_size}-{state.st_mtime_ns}-{state.st_ctime_ns}"
                        title = skill.path[-1] if file.segments == (MAIN,) else file.segments[-1]
                        kind = file_types.type_of(file.segments[-1], is_text=True)
                        when = state.st_mtime_ns // 1_000_000
                        yield Document(uri_of(skill, file.segments), fingerprint, title, kind, state.st_size, when)
            except (SandboxError, OSError):
                continue

    def list_fingerprint(self) -> str:
        """Return a token of the skills, their front matter and the reasons why some are broken."""
        found = [(one.uri, one.origin, one.reason, one.main.st_mtime_ns, one.main.st_size) for one in self._look()]
        return blake2b(repr(found).encode(errors="surrogatepass"), digest_size=16).hexdigest()

    # Reading

    def read(self, path: str, uri: str) -> Reading:
        """Read a file of a skill, byte for byte, or a folder."""
        del path  # in the URI, an escaped slash is not taken for one between two names
        target = self._target(folder_of(split_query(uri)[0]), uri)
        if target.skill is None:
            return self._read_folder(uri)
        opened = self._open(target.skill, target.rest, uri)
        if opened.is_folder:
            opened.close()
            return self._read_folder(uri)
        try:
            if opened.size > MAX_SIZE:
                message = f"Too large: {opened.size} bytes; a file of a skill has at most {MAX_SIZE}"
                raise TooLarge(message, size=opened.size, limit=MAX_SIZE, uri=uri)
            examined = self._finder.examine(opened)
        except BaseException:
            opened.close()
            raise
        mime_type = file_types.type_of(target.rest[-1], is_text=examined.is_utf8)
        meta = {ORIGIN_KEY: target.skill.origin}
        item = Stored(opened, "utf-8" if examined.is_utf8 else "binary", mime_type, meta=meta, exact=True)
        modified = opened.stat.st_mtime_ns // 1_000_000
        return Reading((item,), etag=examined.digest, last_modified_ms=modified, ttl_ms=TTL_MS)

    def _open(self, skill: FoundSkill, rest: Segments, uri: str) -> Opened:
        if is_noise(rest):
            raise NotFound(uri)
        try:
            with skill.open() as root:
                return root.open(rest)
        except SandboxError as error:
            raise _refusal(uri, error) from None
        except (OSError, ValueError):
            raise NotFound(uri) from None

    def _read_folder(self, uri: str) -> Reading:
        """Return one small item for each child, as for every folder."""
        try:
            children = list(self.children(uri))
        except NotAFolder:
            raise NotFound(uri) from None
        items = tuple(Text("", child.mime_type, uri=child.uri, meta=child.meta) for child in children)
        return Reading(items or (Text("", FOLDER_TYPE),), ttl_ms=LIST_TTL_MS, more=lambda _: None)

    def fingerprint(self, uri: str) -> str | None:
        """Return a token of a file's state or of a folder's names; None if there is nothing yet."""
        try:
            target = self._target(folder_of(uri), uri)
            if target.skill is None:
                return " ".join(sorted(one.uri for one in self._above(target.path)))
            opened = self._open(target.skill, target.rest, uri)
        except NotFound:
            return None
        with opened:
            if opened.is_folder:
                return " ".join(sorted(one.uri for one in self._inside(target.skill, target.rest, uri)))
            return "" if opened.size > MAX_SIZE else self._finder.examine(opened).digest

    # Completion and health

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        """Return the children of a folder that start with the typed name; folders end with `/`."""
        del template, context
        above, slash, begun = value.rpartition("/")
        offered: list[str] = []
        if variable == "path":
            try:
                children = list(self.children(START + "/".join(quote(name) for name in above.split("/") if name)))
            except (NotFound, NotAFolder, Denied):
                children = []
            for child in children:
                name = decode(child.uri.rstrip("/").rpartition("/")[2])
                if name.startswith(begun):
                    offered.append(above + slash + name + "/" * (child.mime_type == FOLDER_TYPE))
        total = len(offered)
        return Completion(tuple(offered[:MAX_COMPLETIONS]), total=total, has_more=total > MAX_COMPLETIONS)

    def health(self) -> Meta:
        """Return how many skills there are, and why some cannot be used."""
        found, problems = self._finder.find()
        broken = [f"{echo(one.origin)}/{MAIN} is not a usable skill: {one.reason}" for one in found if one.reason]
        return {"skills": len(found) - len(broken), "problems": [*broken, *problems]}

    # Finding

    def _look(self) -> list[FoundSkill]:
        """Return the skills as they are now."""
        found, _ = self._finder.find()
        self._known = monotonic(), [replace(one, files=()) for one in found]
        return found

    def _skills_now(self) -> list[FoundSkill]:
        """Return the skills as they were a moment ago."""
        looked_at, found = self._known
        return found if looked_at and monotonic() - looked_at < FRESH_S else self._look()

    def _target(self, bare: str, uri: str) -> SkillTarget:
        """Return what a URI means; raise if no skill and no folder above skills has it."""
        path = () if is_root(bare) else tuple(decode(name) for name in bare.removeprefix(START).split("/"))
        if any(name in ("", ".", "..") or "/" in name or "\\" in name for name in path):
            raise NotFound(uri)
        target = _match(path, self._skills_now()) or _match(path, self._look())
        if target is None:
            raise NotFound(uri)
        return target


def _match(path: Segments, found: Sequence[FoundSkill]) -> SkillTarget | None:
    """Return the skill that a path leads to or into, or the folder above skills; hosts may change the first case."""
    alike = (path, (path[0].lower(), *path[1:])) if path else (path,)
    for spelled in dict.fromkeys(alike):
        inside = [one for one in found if spelled[: len(one.path)] == one.path]
        if inside:
            skill = max(inside, key=lambda one: len(one.path))
            return SkillTarget(spelled, skill, spelled[len(skill.path) :])
        if not spelled or any(one.path[: len(spelled)] == spelled for one in found):
            return SkillTarget(spelled)
    return None


def _entry(skill: FoundSkill) -> Resource:
    """Return the entry of a `SKILL.md`; that of a broken skill says why."""
    front_matter = skill.front_matter
    description = f"Not a usable skill: {skill.reason}" if front_matter is None else front_matter.description
    return Resource(
        skill.uri,
        skill.path[-1] if front_matter is None else front_matter.name,
        description,
        "text/markdown",
        annotations=Annotations(last_modified_ms=skill.main.st_mtime_ns // 1_000_000),
        size=skill.main.st_size,
        meta={ORIGIN_KEY: skill.origin},
        sort_key=f"~{skill.uri}" if front_matter is None else skill.uri,
        rank=Rank.SKILLS,
    )


def _refusal(uri: str, error: SandboxError) -> NotFound | Denied:
    """Return the error for a path that was not opened; a refused name is the same whether or not it exists."""
    if isinstance(error, Forbidden):
        return Denied(f"Access denied: {echo(uri)} (may hold secrets)", reason="deny", uri=uri)
    if isinstance(error, Outside):
        return Denied(f"Access denied: {echo(uri)} (outside the skill)", reason="outside", uri=uri)
    if isinstance(error, Missing):
        return NotFound(uri)
    return Denied(f"Access denied: {echo(uri)} (no permission, or not a regular file)", reason="os", uri=uri)
