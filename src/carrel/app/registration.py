"""How providers are registered: one record for each, whether it comes with Carrel or the configuration names it.

A provider's module is imported when the provider is chosen, not before. The order of the table is that of the
catalogue: the largest comes last, since some hosts see only the first page.
"""

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, Literal

from carrel.core.errors import ConfigError
from carrel.core.provider import PlacesFile, Project
from carrel.core.record import Value
from carrel.files.marks import find_mark, is_in_git, working_folder
from carrel.files.sandbox import is_inside

GIT_SCHEME: Final = "git"
ALC_FILE: Final = "alc.toml"
ALC_LOCAL_FILE: Final = "alc.local.toml"

OutsidePlaces = tuple[PlacesFile | None, tuple[str, ...]]
"""The project's file that names places outside for a provider, if there is one, and notes about files not used."""
RESERVED: Final = ("guide", "mirror", "server")
"""Names that no object and no mount may have, beside those of `names`."""
NO_PLACES: Final[OutsidePlaces] = (None, ())

Table = Literal["", "objects", "mounts"]
"""The table of the configuration that names a provider; empty for one that comes with Carrel."""


class Registration(Value, frozen=True):
    """A provider that may be served: the name, the schemes, where its class is, and when it is served.

    `reason` returns why it is served in a project; None if it has no data there. Then `missing` is the message for
    people, its URIs are answered all the same, and it joins the list when its data appears. `sections` are its sections
    of the configuration besides its own: the parameters of its constructor that are a `Section`. A provider with
    `needs_project` serves the whole folder. `appears` is called in place of `reason` for each list after the start, if
    it looks in more places than there is time for at the start. `places_file` looks for a file of the project, other
    than its settings, that names places outside. A provider that `is_stored` keeps its records in the team's store, if
    there is one.
    """

    name: str
    schemes: tuple[str, ...]
    target: str
    reason: Callable[[Project], str | None]
    table: Table = ""
    sections: tuple[str, ...] = ()
    needs_project: bool = False
    is_stored: bool = False
    missing: str = ""
    appears: Callable[[Project], str | None] | None = None
    places_file: Callable[[Project, Mapping[str, object]], OutsidePlaces] = lambda project, settings: NO_PLACES

    @property
    def section(self) -> str:
        """The section of the configuration that has its settings."""
        return f"{self.table}.{self.name}" if self.table else self.name

    def load(self) -> type:
        """Import the provider's class."""
        return load(self.target)


def load(target: str) -> type:
    """Import and return the class `module:name`."""
    module, _, name = target.partition(":")
    found = getattr(import_module(module), name, None)
    if not isinstance(found, type):
        raise ConfigError(f"{target} is not a class")
    return found


def _always(why: str) -> Callable[[Project], str | None]:
    return lambda project: why


def _find_sage(project: Project) -> str | None:
    place = os.path.join(project.root, ".sage")
    return "there is a .sage folder" if os.path.isdir(place) and is_inside(place, project.root) else None


def _find_scopes(project: Project) -> str | None:
    place = os.path.join(project.root, ".carrel", "scopes.db")
    return "there is a .carrel/scopes.db" if os.path.exists(place) else None


def _find_git(project: Project) -> str | None:
    return "there is a git repository" if is_in_git(project.root, project.environment.get("HOME", "")) else None


def _find_algocline(project: Project) -> str | None:
    if project.environment.get("ALC_HOME"):
        return "ALC_HOME is set"
    folder = working_folder(project.root)  # where the provider looks too
    if os.path.isdir(os.path.join(project.environment.get("HOME") or folder, ".algocline")):
        return "there is a ~/.algocline folder"
    return "there is an alc.toml" if find_mark(folder, ALC_FILE, project.root).folder is not None else None


def _find_linked_packages(project: Project, settings: Mapping[str, object]) -> OutsidePlaces:
    """Return `alc.local.toml` if it names places outside; nothing is imported if there is no such file."""
    named = settings.get("project_root") or project.environment.get("ALC_PROJECT_ROOT")
    if not named:
        mark = find_mark(working_folder(project.root), ALC_FILE, project.root)
        if mark.folder is None or not os.path.lexists(os.path.join(mark.folder, ALC_LOCAL_FILE)):
            return None, mark.passed_over
    from carrel.providers.alc.local_packages import outside_places

    return outside_places(project, settings)


SKILL_PLACES: Final = (".claude/skills", ".agents/skills", "skills")


def _find_skills(project: Project) -> str | None:
    places = (place for place in SKILL_PLACES if os.path.isdir(os.path.join(project.root, place)))
    found = next(places, None)
    return None if found is None else f"there is a {found} folder"


def _find_any_skills(project: Project) -> str | None:
    from carrel.files import packaged_skills  # not at the start: it looks at every installed package

    return _find_skills(project) or ("an installed package has skills" if packaged_skills.find(project.root) else None)


BUILT_IN: Final[tuple[Registration, ...]] = (
    Registration(
        "skills",
        ("skill",),
        "carrel.providers.skills:Skills",
        _find_skills,
        missing="this folder has no .claude/skills, .agents/skills or skills",
        appears=_find_any_skills,
    ),
    Registration(
        "sage",
        ("sage",),
        "carrel.providers.sage:Sage",
        _find_sage,
        missing="this folder has no .sage",
        is_stored=True,
    ),
    Registration(
        "scopes",
        ("scopes",),
        "carrel.providers.scopes:Scopes",
        _find_scopes,
        missing="this folder has no .carrel/scopes.db",
        is_stored=True,
    ),
    Registration(
        "alc",
        ("alc",),
        "carrel.providers.alc:Alc",
        _find_algocline,
        missing="there is no ~/.algocline and no alc.toml",
        places_file=_find_linked_packages,
    ),
    Registration(
        "logs",
        ("logs",),
        "carrel.providers.logs:Logs",
        _always("output of runs and builds"),
        sections=("flutter", "processes", "commands"),
    ),
    Registration(
        "git",
        (GIT_SCHEME,),
        "carrel.providers.git:GitHistory",
        _find_git,
        needs_project=True,
        missing="this folder has no git history",
    ),
    Registration(
        "workspace",
        ("workspace",),
        "carrel.providers.workspace:Workspace",
        _always("files of this folder"),
        sections=("buckets",),
        needs_project=True,
    ),
)


def names() -> tuple[str, ...]:
    """Return the names of the providers that come with Carrel."""
    return tuple(known.name for known in BUILT_IN)
