"""From a name to an object: imported, found, built. Each step that fails says which.

All of it is foreign code and runs inside the boundary of `calls`.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from typing import Any

from carrel.core.errors import CarrelError
from carrel.core.provider import Project, Provider
from carrel.providers.objects.calls import attempt

GROUP = "carrel.providers"


class Unloadable(CarrelError):
    """An object cannot be served; the message says what, where and what to do."""


def build(target: str, entry_point: str, args: Mapping[str, object], project: Project, path: str | None) -> Any:
    """Import what is named; make an object of a class or a function."""
    if path is not None and path not in sys.path:
        # Last, so that nothing in the project stands for a module of Carrel's or of Python's.
        sys.path.append(path)
    found = find(target) if target else find_installed(entry_point)
    named = target or entry_point
    if not (inspect.isclass(found) or inspect.isroutine(found)):
        if args:
            raise Unloadable(f"{named} is neither a class nor a function: it takes no args")
        return found
    made, error = attempt(lambda: found(**_with_project(found, args, project)))
    if error is None:
        return made
    missing, _ = attempt(lambda: _missing(found, _with_project(found, args, project)))
    if missing:
        told = f"{named} needs the parameter {missing}; give it in args, in a section [objects.NAME]"
        raise Unloadable(told) from error
    raise Unloadable(f"{named}({', '.join(args)}) raised {type(error).__name__} when it was called") from error


def find(target: str) -> Any:
    """Import what `module:attribute` means."""
    module_name, _, attribute = target.partition(":")
    module, error = attempt(lambda: import_module(module_name))
    if isinstance(error, ModuleNotFoundError):
        missing = error.name or module_name
        if f"{module_name}.".startswith(f"{missing}."):
            raise Unloadable(f"there is no module {missing}; install it, or add its folder to PYTHONPATH") from error
        raise Unloadable(f"{module_name} imports {missing}, which is not installed") from error
    if error is not None:
        raise Unloadable(f"importing {module_name} raised {type(error).__name__}") from error
    found, error = attempt(lambda: attrgetter(attribute)(module))
    if error is not None:
        raise Unloadable(f"{module_name} has no attribute {attribute}") from error
    return found


def find_installed(name: str) -> Any:
    """Load the entry point of that name."""
    from importlib.metadata import entry_points  # only where one is named

    known = entry_points(group=GROUP)
    for found in known:
        if found.name == name:
            return find(f"{found.module}:{found.attr}")
    names = ", ".join(sorted(one.name for one in known)) or "none is installed"
    raise Unloadable(f"no installed package has the entry point {name} in the group {GROUP} (known: {names})")


def _with_project(found: Callable[..., object], args: Mapping[str, object], project: Project) -> dict[str, object]:
    """Add the project where a native provider asks for it."""
    try:
        parameters = inspect.signature(found).parameters
    except (TypeError, ValueError):
        return dict(args)
    wanted = [name for name, one in parameters.items() if one.annotation in (Project, "Project")]
    return {**{name: project for name in wanted if name not in args}, **args}


def _missing(found: Callable[..., object], given: Mapping[str, object]) -> str:
    """Name the first parameter without a default that nothing is given for; empty if there is none."""
    needed = (
        name
        for name, one in inspect.signature(found).parameters.items()
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    )
    return next((name for name in needed if name not in given), "")


def is_native(made: object) -> bool:
    """Return whether it is a provider already, and no facet object."""
    return isinstance(made, Provider)


def has_method(made: object, name: str) -> bool:
    """Tell whether there is something to call."""
    return callable(getattr(made, name, None))
