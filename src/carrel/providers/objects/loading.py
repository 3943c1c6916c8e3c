"""Import and build the object that a setting names; each failure has its own message.

All of this is foreign code and runs inside the boundary of `calls`.
"""

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from operator import attrgetter
from threading import Lock
from types import ModuleType
from typing import Any

from carrel.core.errors import CarrelError
from carrel.core.hashing import blake2b
from carrel.core.provider import Project
from carrel.providers.objects.calls import attempt
from carrel.providers.objects.settings import split_target
from carrel.providers.objects.shelf import Shelf

GROUP = "carrel.providers"

_running: dict[str, Lock] = {}
"""Held while a file is run, by the name of its module."""


class Unloadable(CarrelError):
    """An object cannot be served; the message says why, and what to do."""


def build(target: str, entry_point: str, args: Mapping[str, object], project: Project, path: str | None) -> Any:
    """Import what the setting names; build an instance of a class, call a function."""
    if path is not None:
        _add_to_path(path)
    found = find(target, path or "") if target else find_installed(entry_point)
    named = os.path.basename(target) or entry_point
    if not (inspect.isclass(found) or inspect.isroutine(found)):
        if args:
            raise Unloadable(f"{named} is neither a class nor a function: it takes no args")
        return found
    made, error = attempt(lambda: found(**_with_project(found, args, project)))
    if error is None:
        return made
    missing, _ = attempt(lambda: _missing(found, _with_project(found, args, project)))
    if missing:
        needed = f"{named} needs the parameter {missing}; give it in args, in a section [objects.NAME]"
        raise Unloadable(needed) from error
    raise Unloadable(f"{named}({', '.join(args)}) raised {type(error).__name__} when it was called") from error


def _add_to_path(folder: str) -> None:
    if folder not in sys.path:
        # Last, so that no file of the project replaces a module of Carrel or of Python.
        sys.path.append(folder)


def find(target: str, folder: str = "") -> Any:
    """Import what `module:attribute`, `file.py` or `file.py:attribute` means; a relative file starts at `folder`."""
    module_name, attribute = split_target(target)
    if module_name.endswith(".py"):
        return _find_in_file(os.path.join(folder, os.path.expanduser(module_name)), attribute)
    module, error = attempt(lambda: import_module(module_name))
    if isinstance(error, ModuleNotFoundError):
        missing = error.name or module_name
        if f"{module_name}.".startswith(f"{missing}."):
            raise Unloadable(f"there is no module {missing}; install it, or add its folder to PYTHONPATH") from error
        raise Unloadable(f"{module_name} imports {missing}, which is not installed") from error
    if error is not None:
        raise Unloadable(f"importing {module_name} raised {type(error).__name__}") from error
    return _attribute(module, module_name, attribute)


def _attribute(module: ModuleType, name: str, attribute: str) -> Any:
    found, error = attempt(lambda: attrgetter(attribute)(module))
    if error is not None:
        raise Unloadable(f"{name} has no attribute {attribute}") from error
    return found


def _find_in_file(path: str, attribute: str) -> Any:
    """Return the attribute of a Python file, or the one shelf in it."""
    name = os.path.basename(path)
    module, error = attempt(lambda: _run_file(path))
    if error is not None:
        raise Unloadable(f"{name}: {_reason(error, path)}") from error
    if attribute:
        return _attribute(module, name, attribute)
    shelves = {key: one for key, one in vars(module).items() if isinstance(one, Shelf)}
    if len({id(one) for one in shelves.values()}) == 1:
        return next(iter(shelves.values()))
    if shelves:
        raise Unloadable(f"{name} has several shelves; name each: {', '.join(f'{name}:{key}' for key in shelves)}")
    raise Unloadable(f'{name} has no shelf; write shelf = Shelf("NAME"), or name an object: {name}:thing')


def _run_file(path: str) -> ModuleType:
    """Import a file once, under a name that no other module has; objects of one file wait for each other."""
    mark = blake2b(path.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
    name = f"carrel_file_{mark}_{os.path.basename(path).removesuffix('.py')}"
    with _running.setdefault(name, Lock()), ExitStack() as until_run:
        if name not in sys.modules:
            spec = spec_from_file_location(name, path)
            assert spec is not None
            assert spec.loader is not None
            module = sys.modules[name] = module_from_spec(spec)
            until_run.callback(sys.modules.pop, name)
            _add_to_path(os.path.dirname(path))
            spec.loader.exec_module(module)
            until_run.pop_all()
        return sys.modules[name]


def _reason(error: BaseException, path: str) -> str:
    """Return why a file cannot be imported, and the line that its author has to look at."""
    if isinstance(error, FileNotFoundError) and error.filename == path:
        return "there is no such file"
    if isinstance(error, SyntaxError) and error.filename == path:
        return f"line {error.lineno}: {error.msg}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    place = f"line {lines[-1]}: " if lines else ""
    if isinstance(error, CarrelError):
        return f"{place}{error}"
    if isinstance(error, ModuleNotFoundError):
        return f"{place}there is no module {error.name}"
    return f"{place}{type(error).__name__} was raised"


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
    """Add the project for parameters that are annotated with it."""
    try:
        parameters = inspect.signature(found).parameters
    except (TypeError, ValueError):
        return dict(args)
    wanted = [name for name, one in parameters.items() if one.annotation in (Project, "Project")]
    return {**{name: project for name in wanted if name not in args}, **args}


def _missing(found: Callable[..., object], given: Mapping[str, object]) -> str:
    """Return the first parameter that has no default and no value; empty if there is none."""
    needed = (
        name
        for name, one in inspect.signature(found).parameters.items()
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    )
    return next((name for name in needed if name not in given), "")


def has_method(made: object, name: str) -> bool:
    """Return whether an object has such a method."""
    return callable(getattr(made, name, None))
