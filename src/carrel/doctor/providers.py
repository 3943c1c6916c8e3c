"""Checks of the providers: whether each that is wanted is served, and if not, why not."""

import math
import os
import re
import shutil
from collections.abc import Iterator
from time import monotonic
from typing import Final

from carrel.app import registration
from carrel.app.config import MEGABYTE, Config, ServerSettings
from carrel.app.gateways import ClashingProviders
from carrel.app.registration import Registration
from carrel.core.errors import ConfigError
from carrel.core.provider import Project
from carrel.doctor.checks import Check, Finding, Repair, check, note, ok, problem
from carrel.doctor.repairs import moved_away
from carrel.doctor.setup import Setup
from carrel.doctor.user_settings import set_users

LOOK_S: Final = 3.0
"""Time limit for finding the largest file."""
MOST_MB: Final = 64
"""The largest message limit that is offered; hosts take less."""
_PLACE_KEYS: Final = {"sage": "dir", "scopes": "db", "alc": "home"}
"""The setting that names the place of a provider's data."""
_BUCKETS: Final = "workspace@"
"""The beginning of the name of a root that is a bucket."""
_PLACES: Final = ("ALC_LOG_DIR", "ALC_PACKAGES_PATH", "ALC_PROJECT_ROOT")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@check("providers", "provider", "a provider fails, or does not answer", "see the message")
def provider(setup: Setup) -> Iterator[Finding]:
    """Yield for each provider whether it is served, and why."""
    desk = setup.desk
    if desk is None:
        if setup.desk_error is not None and not isinstance(setup.desk_error, ConfigError):
            yield problem(str(setup.desk_error))
        return
    for choice in desk.choices:
        answer = setup.answers.get(choice.name)
        if answer is None and choice.state == "disabled" and desk.config.place.is_too_much:
            continue  # `project-home` says why
        if answer is None:
            yield ok(f"{choice.name}: {choice.state}: {choice.why}")
        elif choice.name in _gateways(setup) and (answer.is_late or _is_down(setup, choice.name)):
            continue  # `mount-answer` and `object-import` say why
        elif choice.name.startswith(_BUCKETS) and (answer.is_late or _is_down(setup, choice.name)):
            continue  # `bucket-answer` says why
        elif answer.is_late:
            yield problem(f"{choice.name}: no answer within {setup.patience_s:g} s", "restart it, or disable it")
        elif answer.error:
            yield problem(f"{choice.name}: {answer.error}", "carrel ls --debug shows where it fails")
        else:
            listed = f"first entry {answer.first}" if answer.first else "no entries yet"
            yield ok(f"{choice.name}: {choice.why}; {listed}")


def _gateways(setup: Setup) -> dict[str, str]:
    """Return the table of each object and mount, by name."""
    sections = [] if setup.config is None else setup.config.sections
    return {name: table for table, _, name in (one.partition(".") for one in sections) if name}


def _is_down(setup: Setup, name: str) -> bool:
    return setup.answers[name].health.get("state") in ("down", "left out")


@check(
    "providers",
    "provider-data",
    "a provider is asked for, but its data is not in this project",
    "start in the folder that has the data: the finding names it",
)
def provider_data(setup: Setup) -> Iterator[Finding]:
    """Yield each built-in provider that was named and has nothing to serve, with the reason."""
    config = setup.config
    if config is None or (setup.desk is None and setup.desk_error is not None):
        return
    chosen = ServerSettings(**config.values("server"))
    for one in registration.BUILT_IN:
        origin = _requested_by(one, config, chosen)
        why, fix = _missing(one, config) if origin and one.missing else ("", "")
        if why:
            message = f"{one.name} is asked for by {origin}, but {why}"
            yield problem(message, fix) if one.name in (chosen.only or ()) else note(message, fix)


def _missing(one: Registration, config: Config) -> tuple[str, str]:
    """Return why a provider has no data here, and what to do; empty texts if it has data."""
    key = _PLACE_KEYS.get(one.name, "")
    named = config.values(one.name).get(key)
    if named is not None:
        place = os.path.join(config.root, os.path.expanduser(named))
        fix = f"correct [{one.name}] {key}, or remove it"
        return ("", "") if os.path.exists(place) else (f"its [{one.name}] {key}, {named}, does not exist", fix)
    if one.reason(Project(config.root, config.environment)) is not None:
        return "", ""
    data = one.missing.removeprefix("this folder has no ")
    notes = config.elsewhere(is_from_here=True)
    near = next((text for text in notes if re.search(rf"(^|[/ ]){re.escape(data)} \(", text)), "")
    if near:
        found, _, command = near.partition(" not served here; to serve ")
        return f"{one.missing}; {found} elsewhere".replace(" is elsewhere", " exists"), command.partition(": ")[2]
    here = os.getcwd()
    if os.path.realpath(here) != config.root:
        has = ", which has one" if os.path.exists(os.path.join(here, data)) else ""
        why = f"{one.missing}: the project is {config.root}, not the working folder{has}"
        return why, "carrel serve --project ." if has else "start in the folder that has it, or use --project DIR"
    return one.missing, "start in the folder that has it, or use --project DIR"


def _requested_by(one: Registration, config: Config, chosen: ServerSettings) -> str:
    """Return the setting that names a provider; empty if none does, or if it is disabled."""
    values = config.values(one.name)
    if one.name in chosen.without or values.get("enabled") is False:
        return ""
    if one.name in (chosen.only or ()):
        return config.sections["server"]["only"].origin
    if chosen.only is not None or one.name not in config.sections:
        return ""
    settings = config.sections[one.name].values()
    return next((f"[{one.name}] in {setting.origin}" for setting in settings), f"[{one.name}]")


@check(
    "providers",
    "flutter",
    "the project is a Flutter project, and the program flutter is not found",
    "add flutter to PATH, or set [flutter] executable",
)
def flutter(setup: Setup) -> Iterator[Finding]:
    """Yield why the Flutter tools are not offered."""
    config = setup.config
    if config is None or "logs" not in setup.answers:
        return
    named = config.values("flutter").get("executable")
    fix = "install Flutter and add it to PATH, or: carrel config set --user flutter.executable /path/to/flutter"
    for one in setup.answers["logs"].texts("problems"):
        if "flutter" in one.lower():
            yield problem(one, fix) if named else note(one, fix)


@check("providers", "alc-home", "ALC_HOME or another place of algocline does not exist", "correct the variable")
def alc_home(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each place of algocline that is named and missing."""
    config = setup.config
    home = setup.environment.get("ALC_HOME", "")
    if home and not os.path.isdir(home):
        yield problem(
            f"ALC_HOME points to {setup.short(home)}, which is not a folder: its data is not served", _unset("ALC_HOME")
        )
    for name in _PLACES:
        for place in filter(None, setup.environment.get(name, "").split(os.pathsep)):
            if not os.path.isdir(place):
                yield note(f"{name} points to {setup.short(place)}, which is not a folder", _unset(name))
    named = None if config is None else config.values("alc").get("home")
    if config is not None and named and not os.path.isdir(os.path.join(config.root, os.path.expanduser(named))):
        yield problem(
            f"[alc] home is {named}, which is not a folder: its data is not served", "carrel config unset alc.home"
        )


def _unset(name: str) -> str:
    return f"set {name} to the right folder, or unset it"


@check("providers", "mount-program", "the program of a mount is not found", "install it, or give its full path")
def mount_program(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each mount whose program or folder is missing."""
    for section, values in _mounts(setup):
        command, folder = values.get("command"), str(values.get("cwd") or "")
        path = setup.environment.get("PATH", os.defpath)
        if isinstance(command, list) and command and shutil.which(command[0], path=path) is None:
            fix = f"install {command[0]}, or give its full path in [{section}] command"
            yield problem(f"[{section}]: there is no program {command[0]} on PATH", fix)
        root = "" if setup.config is None else setup.config.root
        if folder and not os.path.isdir(os.path.join(root, os.path.expanduser(folder))):
            yield problem(f"[{section}]: its folder {folder} does not exist", f"correct [{section}] cwd")


@check("providers", "mount-variable", "a mount needs a variable that is not set", "set the variable")
def mount_variable(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each variable that a mount's settings use and the environment lacks."""
    for section, values in _mounts(setup):
        for key in ("env", "headers"):
            given = values.get(key)
            for name, text in given.items() if isinstance(given, dict) else ():
                for variable in _VARIABLE.findall(text):
                    if variable not in setup.environment:
                        yield problem(
                            f"[{section}] {key}.{name} needs {variable}, which is not set: no server starts",
                            f"export {variable}=…, where the host is started too",
                        )


def _mounts(setup: Setup) -> Iterator[tuple[str, dict[str, object]]]:
    config = setup.config
    for section in [] if config is None else config.sections:
        if section.startswith("mounts.") and config is not None and config.values(section).get("enabled") is not False:
            yield section, config.values(section)


@check(
    "providers",
    "mount-answer",
    "a mounted server does not start, or does not answer",
    "run its command yourself; disable the mount until it works",
)
def mount_answer(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each mount that is down or silent."""
    for name, table in _gateways(setup).items():
        answer = setup.answers.get(name)
        if table != "mounts" or answer is None:
            continue
        fix = f"run its command yourself to see why; to do without: carrel serve --without {name}"
        if answer.is_late:
            yield problem(f"{name}: the mount does not answer within {setup.patience_s:g} s", fix)
        elif _is_down(setup, name):
            yield problem(f"{name}: {'; '.join(answer.texts('problems'))}", fix)
        else:
            for one in answer.texts("problems"):
                yield note(f"{name}: {one}", fix)


@check(
    "providers",
    "bucket-answer",
    "a bucket in [workspace.roots] does not answer, or refuses",
    "check its name, its endpoint and region in [buckets.NAME], and the credentials in the environment",
)
def bucket_answer(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each bucket that gives no list."""
    for name, answer in setup.answers.items():
        if not name.startswith(_BUCKETS) or not (answer.is_late or _is_down(setup, name)):
            continue
        root = name.removeprefix(_BUCKETS)
        fix = f"check [workspace.roots] {root}, [buckets.{root}] and the credentials in the environment"
        late = f"the bucket does not answer within {setup.patience_s:g} s"
        yield problem(f"{name}: {late if answer.is_late else '; '.join(answer.texts('problems'))}", fix)


@check("providers", "object-import", "a Python object cannot be imported", "correct the import, or install its package")
def object_import(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each object that is not served."""
    for name, table in _gateways(setup).items():
        answer = setup.answers.get(name)
        if table != "objects" or answer is None:
            continue
        source = "" if setup.config is None else setup.config.values(f"objects.{name}").get("import", "")
        if answer.is_late:
            yield problem(
                f"{name}: the object {source} did not load within {setup.patience_s:g} s", "see the log of serve"
            )
        elif _is_down(setup, name):
            why = "; ".join(answer.texts("problems"))
            fix = f"correct it; `carrel ls --debug` shows the traceback. To do without: carrel serve --without {name}"
            yield problem(f"{name}: the object {source} is {why}", fix)
        else:
            for one in answer.texts("problems"):
                yield note(f"{name}: {one}")


@check("providers", "clash", "two providers define the same URI or tool", "rename or disable one of them")
def clash(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each URI and tool with two owners."""
    if isinstance(setup.desk_error, ClashingProviders):
        yield problem(str(setup.desk_error), "disable one of them with carrel serve --without NAME, or rename it")
    elif setup.desk is not None and setup.answers:
        for one in setup.desk.catalog.clashes():
            fix = f"rename it in one of them, or: carrel serve --without {one.other}"
            yield problem(f"both {one.keeper} and {one.other} define {one.what}", fix)


@check(
    "providers",
    "message-limit",
    "the largest file does not fit into one message",
    "raise [server] max_message_mb in your own settings",
    repairs=True,
)
def message_limit(setup: Setup) -> Iterator[Finding]:
    """Yield a note if a file of the workspace can be read in parts only."""
    desk = setup.desk
    mounted = (
        None if desk is None else next((one for one in desk.catalog.mounted if one.provider.name == "workspace"), None)
    )
    if desk is None or mounted is None or "workspace" not in setup.answers:
        return
    until, size, uri = monotonic() + LOOK_S, 0, ""
    for entry in mounted.provider.entries():
        if (entry.size or 0) > size:
            size, uri = entry.size or 0, entry.uri
        if monotonic() > until:
            break
    if size <= desk.catalog.max_bytes:
        return
    wanted = math.ceil(size * 1.4 / MEGABYTE)  # base64 adds a third, and JSON some more
    limit_mb = desk.catalog.max_bytes / MEGABYTE
    message = f"{uri} has {size / MEGABYTE:.1f} MB, and a message at most {limit_mb:.1f}: it is read in parts"
    if wanted > MOST_MB:
        yield note(message, "read it in parts, with ?lines=; or leave it out with [workspace] deny")
        return
    what = f"carrel config set --user server.max_message_mb {wanted}"
    yield note(message, what, Repair(what, lambda: set_users(setup.environment, "server", "max_message_mb", wanted)))


@check("providers", "provider-files", "a provider cannot read some of its files", "see the message")
def provider_files(setup: Setup) -> Iterator[Finding]:
    """Yield a note for each problem that a built-in provider reports."""
    known = () if setup.desk is None else setup.desk.notes
    for name, answer in setup.answers.items():
        is_reported = name.startswith(_BUCKETS) and _is_down(setup, name)
        if name not in _gateways(setup) and not is_reported and answer.health.get("store") != "unreadable":
            for one in answer.texts("problems"):
                if one not in known and "flutter" not in one.lower():
                    yield note(f"{name}: {one}")


@check("providers", "left-out", "a preset leaves files of the project out", "choose another preset")
def left_out(setup: Setup) -> Iterator[Finding]:
    """Yield a note on files that the preset does not serve."""
    for name, answer in setup.answers.items():
        for one in answer.texts("left_out"):
            yield note(f"{name}: {one}")


@check(
    "providers",
    "scopes-database",
    "the database of scopes cannot be read",
    "restore it from a copy, or begin with a new one",
    repairs=True,
)
def scopes_database(setup: Setup) -> Iterator[Finding]:
    """Yield a problem if the tasks are there and cannot be read."""
    answer = setup.answers.get("scopes")
    if answer is None or setup.config is None or answer.health.get("store") != "unreadable":
        return
    path = os.path.join(setup.config.root, ".carrel", "scopes.db")
    shown = setup.short(path)
    repair = moved_away(path, shown) if os.path.isfile(path) and not os.path.islink(path) else None
    yield problem(
        f"{shown} cannot be read: {'; '.join(answer.texts('problems'))}",
        "restore it from a copy; or move it away, then `carrel scopes import` an export",
        repair,
    )


CHECKS: Final[tuple[Check, ...]] = (
    provider,
    provider_data,
    flutter,
    alc_home,
    mount_program,
    mount_variable,
    mount_answer,
    bucket_answer,
    object_import,
    clash,
    message_limit,
    provider_files,
    left_out,
    scopes_database,
)
