"""Checks of the settings files, the environment, and which folder is the project."""

import difflib
import os
import re
import stat
from collections.abc import Iterator
from typing import Final

from carrel.app import config as configuration
from carrel.app.gateways import ClashingProviders
from carrel.app.project import FILE_NAME, NAMED_BY_HOST
from carrel.core.errors import ConfigError
from carrel.doctor import toml_repair
from carrel.doctor.checks import Check, Finding, Repair, check, note, ok, problem
from carrel.doctor.mistakes import Mistake
from carrel.doctor.repairs import without_mode
from carrel.doctor.setup import Setup

_OTHER_VARIABLES: Final = ("CARREL_TOKEN", "CARREL_DEBUG", "CARREL_MOUNTED_BY", "CARREL_NO_SKIPS")
"""Variables of Carrel that set no setting."""
_OF_MOUNTS: Final = r"\[mounts\..*(: the environment has no |cwd: there is no folder)"
"""Mistakes that `mount-variable` and `mount-program` find."""
_TWICE: Final = "has [tool.carrel] too"


@check("project", "working-folder", "the working folder was deleted", "change to a folder that exists")
def working_folder(setup: Setup) -> Iterator[Finding]:
    """Yield a problem if the working folder is gone."""
    del setup
    try:
        os.getcwd()
    except FileNotFoundError:
        yield problem("the working folder no longer exists", "change to another folder, or use --project DIR")


@check("project", "settings-file", "a settings file cannot be read, or is not TOML", "correct the named line")
def settings_file(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for a file that cannot be used at all; else which files are used."""
    error = setup.settings_error
    if error is None:
        files = [] if setup.config is None else setup.config.files
        yield ok(", ".join(map(setup.short, files)) or "no settings file; all settings have their defaults")
    elif _TWICE not in str(error) and _working_folder_exists():
        yield problem(str(error), "correct the file; until then no server starts here")


def _working_folder_exists() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


@check("project", "settings-twice", "carrel.toml and pyproject.toml both have settings", "keep one of them")
def settings_twice(setup: Setup) -> Iterator[Finding]:
    """Yield a problem if two files of one folder have settings."""
    error = setup.settings_error
    if error is not None and _TWICE in str(error):
        yield problem(str(error), f"move the settings to {FILE_NAME}, and remove [tool.carrel]")


@check(
    "project",
    "settings-keys",
    "a settings file has a section or key that Carrel does not know",
    "rename it to the nearest name, or comment it out",
    repairs=True,
)
def settings_keys(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each unknown section and key."""
    for one in setup.mistakes:
        if one.kind == "unknown":
            new = one.nearest
            where = f"in {setup.short(one.path)}"
            if new:
                yield problem(one.message, f"rename it to {new!r} {where}", _renaming(one, new, where))
            else:
                yield problem(one.message, f"remove it {where}", _removal(one, where))


@check(
    "project",
    "settings-values",
    "a setting has a value of the wrong type or out of range",
    "comment it out, so that the default applies",
    repairs=True,
)
def settings_values(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each value that cannot be used, whatever layer it comes from."""
    for one in setup.mistakes:
        if one.kind == "value":
            where = f"in {setup.short(one.path)}"
            yield problem(one.message, f"correct the value {where}", _removal(one, where))
    if setup.config_error is not None:
        yield problem(str(setup.config_error), "correct the variable or the option")
    error = setup.desk_error
    is_of_store = error is not None and error is setup.store_version
    is_found_elsewhere = is_of_store or isinstance(error, ClashingProviders) or re.search(_OF_MOUNTS, str(error))
    if isinstance(error, ConfigError) and not is_found_elsewhere:
        yield problem(str(error), "correct the setting; `carrel config show --origin` shows where it is")


def _path_of(one: Mistake) -> tuple[str, ...]:
    prefix = () if os.path.basename(one.path) != "pyproject.toml" else ("tool", "carrel")
    return (*prefix, *one.section.split(".", 1))


def _renaming(one: Mistake, name: str, where: str) -> Repair:
    old = one.key or one.section
    what = f"rename {old} to {name} {where}"
    return Repair(what, lambda: toml_repair.rename(one.path, _path_of(one), one.key, name))


def _removal(one: Mistake, where: str) -> Repair:
    what = f"comment out [{one.section}] {one.key}".rstrip() + f" {where}"
    return Repair(what, lambda: toml_repair.comment_out(one.path, _path_of(one), one.key))


@check(
    "project",
    "settings-environment",
    "a variable that begins with CARREL_ sets nothing",
    "use the name CARREL_<SECTION>_<KEY>",
)
def settings_environment(setup: Setup) -> Iterator[Finding]:
    """Yield a note for each variable that looks like a setting and is ignored."""
    sections = {name.upper().replace("-", "_") for name in configuration.section_names()}
    for name in sorted(setup.environment):
        section, _, key = name.removeprefix("CARREL_").partition("_")
        if name.startswith("CARREL_") and name not in _OTHER_VARIABLES and not (section in sections and key):
            near = difflib.get_close_matches(name, [*(f"CARREL_{one}_{key}" for one in sections), *_OTHER_VARIABLES], 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            yield note(f"the variable {name} sets nothing{meant}", f"unset {name}, or give it the name of a setting")


@check(
    "project",
    "settings-unused",
    "a settings file is not used: it belongs to another user, or is a link out of its folder",
    "copy it into the project",
)
def settings_unused(setup: Setup) -> Iterator[Finding]:
    """Yield a note for each file that is passed over."""
    if setup.config is not None:
        for one in (*setup.config.place.passed_over, *setup.config.passed_over):
            yield note(one, "copy the file into the project, as your own")


@check(
    "project",
    "settings-writable",
    "a settings file can be changed by every user of the machine",
    "remove the permission",
    repairs=True,
)
def settings_writable(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each settings file that others may write."""
    for path in [] if setup.config is None else setup.config.files:
        mode = os.stat(path).st_mode
        if mode & stat.S_IWOTH:
            shown = setup.short(path)
            repair = without_mode(path, stat.S_IWOTH, f"chmod o-w {shown}")
            yield problem(f"every user of this machine may change {shown}", repair.what, repair)


@check(
    "project",
    "project-root",
    "the project is another folder than the working folder",
    "give the folder with --project",
)
def project_root(setup: Setup) -> Iterator[Finding]:
    """Yield the project's folder, as a note if it is not the working folder."""
    if setup.config is None:
        return
    root = setup.config.root
    try:
        here = os.path.realpath(os.getcwd())
    except FileNotFoundError:
        return
    if root == here or setup.named is not None:
        yield ok(setup.short(root))
        return
    if setup.environment.get(NAMED_BY_HOST) and os.path.realpath(setup.environment[NAMED_BY_HOST]) == root:
        why = f"the variable {NAMED_BY_HOST} names it"
    else:
        why = "it is the nearest folder with a mark of a project, such as .git or carrel.toml"
    yield note(
        f"the project is {setup.short(root)}, not the working folder {setup.short(here)}: {why}",
        "to serve just the working folder: carrel serve --project .",
    )


@check(
    "project",
    "project-home",
    "the folder is a home folder or /, whose files are not served",
    "start in a project, or use --project",
)
def project_home(setup: Setup) -> Iterator[Finding]:
    """Yield a note if there is no project here."""
    if setup.config is not None and setup.config.place.is_too_much:
        yield note(
            "no files are served: this is a home folder or the root of the file system",
            "start Carrel in a project, or give the folder with --project",
        )


@check(
    "project",
    "project-variable",
    f"{NAMED_BY_HOST} names a folder that does not exist",
    "unset it, or start the host again",
)
def project_variable(setup: Setup) -> Iterator[Finding]:
    """Yield a note if a host named a folder that is gone."""
    named = setup.environment.get(NAMED_BY_HOST, "")
    if named and not os.path.isdir(named):
        yield note(
            f"{NAMED_BY_HOST} names {setup.short(named)}, which does not exist; the working folder is used instead",
            "unset the variable, or start the host again in the project",
        )


@check(
    "project",
    "data-elsewhere",
    "memory, tasks, packages, a Flutter project or settings lie in a folder above the project or below it",
    "serve that folder: the finding has the command",
)
def data_elsewhere(setup: Setup) -> Iterator[Finding]:
    """Yield a note for each folder near the project whose data is not served."""
    for one in [] if setup.config is None else setup.config.elsewhere(is_from_here=True):
        found, _, command = one.partition("; to serve ")
        yield note(found, command.partition(": ")[2] or None)


CHECKS: Final[tuple[Check, ...]] = (
    working_folder,
    settings_file,
    settings_twice,
    settings_keys,
    settings_values,
    settings_environment,
    settings_unused,
    settings_writable,
    project_root,
    project_home,
    project_variable,
    data_elsewhere,
)
