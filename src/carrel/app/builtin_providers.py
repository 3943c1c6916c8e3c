"""The providers that come with Carrel, and which of them a folder has data for.

Only names of files are checked; a provider's module is imported when it is served. The order is that of the
catalogue: the largest comes last, because some hosts see only the first page.
"""

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from carrel.core.errors import ConfigError
from carrel.core.provider import PlacesFile, Project
from carrel.core.record import Value
from carrel.files.marks import find_mark, working_folder
from carrel.files.sandbox import is_inside

ALC_FILE: Final = "alc.toml"
ALC_LOCAL_FILE: Final = "alc.local.toml"


Places = tuple[PlacesFile | None, tuple[str, ...]]
NO_PLACES: Final[Places] = (None, ())


class Known(Value, frozen=True):
    """A provider that comes with Carrel: its class, and how to find out whether a folder has data for it.

    `reason` returns why the provider is served, or None; `missing` is the message for None. A provider without data
    is not imported; its URIs are answered all the same, and it joins the list when its data appears. `sections` are
    additional sections: the parameters of its constructor that are a `Section`. A provider with `needs_project` serves
    the whole folder. `places_file` gets the provider's settings and returns the file of the project that names places
    outside it for this provider, if there is one, and notes about files that are not used.
    """

    name: str
    schemes: tuple[str, ...]
    target: str
    reason: Callable[[Project], str | None]
    missing: str = ""
    places_file: Callable[[Project, Mapping[str, object]], Places] = lambda project, settings: NO_PLACES
    sections: tuple[str, ...] = ()
    needs_project: bool = False

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


def _always(reason: str) -> Callable[[Project], str | None]:
    return lambda project: reason


def _has_store(project: Project) -> str | None:
    return "there is a .carrel/scopes.db" if exists(project, ".carrel", "scopes.db") else None


def _algocline(project: Project) -> str | None:
    if project.environment.get("ALC_HOME"):
        return "ALC_HOME is set"
    folder = working_folder(project.root)  # where the provider looks too
    if os.path.isdir(os.path.join(project.environment.get("HOME") or folder, ".algocline")):
        return "there is a ~/.algocline folder"
    return "there is an alc.toml" if find_mark(folder, ALC_FILE, project.root).folder is not None else None


def _linked_packages(project: Project, settings: Mapping[str, object]) -> Places:
    """Return `alc.local.toml` if it names places outside the project; import the parser only if the file exists."""
    named = settings.get("project_root") or project.environment.get("ALC_PROJECT_ROOT")
    if not named:
        mark = find_mark(working_folder(project.root), ALC_FILE, project.root)
        if mark.folder is None or not os.path.lexists(os.path.join(mark.folder, ALC_LOCAL_FILE)):
            return None, mark.passed_over
    from carrel.providers.alc.local_packages import outside_places

    return outside_places(project, settings)


def _has_sage(project: Project) -> str | None:
    place = os.path.join(project.root, ".sage")
    return "there is a .sage folder" if os.path.isdir(place) and is_inside(place, project.root) else None


BUILT_IN: Final[tuple[Known, ...]] = (
    Known("sage", ("sage",), "carrel.providers.sage:Sage", _has_sage, "this folder has no .sage"),
    Known("scopes", ("scopes",), "carrel.providers.scopes:Scopes", _has_store, "this folder has no .carrel/scopes.db"),
    Known(
        "alc",
        ("alc",),
        "carrel.providers.alc:Alc",
        _algocline,
        "there is no ~/.algocline and no alc.toml",
        places_file=_linked_packages,
    ),
    Known(
        "logs",
        ("logs",),
        "carrel.providers.logs:Logs",
        _always("output of runs and builds"),
        sections=("flutter", "processes", "commands"),
    ),
    Known(
        "workspace",
        ("workspace",),
        "carrel.providers.workspace:Workspace",
        _always("files of this folder"),
        needs_project=True,
    ),
)


def names() -> tuple[str, ...]:
    """Return the names of the providers that come with Carrel."""
    return tuple(known.name for known in BUILT_IN)


def exists(project: Project, *parts: str) -> bool:
    """Return whether the project has this file or folder."""
    return os.path.exists(os.path.join(project.root, *parts))
