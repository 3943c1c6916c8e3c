"""Checks of trust: settings of a project that are not in effect because the user has not allowed them."""

import os
from collections.abc import Iterator
from functools import partial
from typing import Final

from carrel.app.config import Config, Withheld
from carrel.app.project import ProjectFile
from carrel.app.trust import TrustStore, name_of
from carrel.core.errors import ConfigError
from carrel.core.provider import PlacesFile
from carrel.doctor.checks import Check, Finding, Repair, check, note, problem
from carrel.doctor.repairs import moved_away
from carrel.doctor.setup import Setup
from carrel.files.userdirs import state_folder


@check(
    "project",
    "trust",
    "settings of the project are not in effect, because the file is not trusted",
    "read the settings, then run `carrel trust`",
    repairs=True,
)
def trust(setup: Setup) -> Iterator[Finding]:
    """Yield a note for each setting that needs trust, if its file was never trusted."""
    yield from _withheld(setup, was_trusted=False)


@check(
    "project",
    "trust-changed",
    "a trusted file of the project has changed since it was trusted",
    "read the change, then run `carrel trust`",
    repairs=True,
)
def trust_changed(setup: Setup) -> Iterator[Finding]:
    """Yield a note for each setting that needs trust, if its file was trusted with other content."""
    yield from _withheld(setup, was_trusted=True)


def _withheld(setup: Setup, *, was_trusted: bool) -> Iterator[Finding]:
    config = setup.config
    if config is None:
        return
    try:
        known = {one.path for one in TrustStore(setup.environment).all()}
    except ConfigError:
        known = set()
    for path in dict.fromkeys(one.file for one in config.withheld):
        if (name_of(path) in known) == was_trusted:
            file, shown = os.path.basename(path), setup.short(path)
            settings = "; ".join(f"[{one.section}] {one.key}".rstrip() + f" ({one.why})" for one in _of(config, path))
            changed = f"{file} has changed since you trusted it: " if was_trusted else ""
            digest = _digest_of(config, path)
            trusting = partial(TrustStore(setup.environment).add, path, digest)
            repair = Repair(f"trust {shown}, which allows {settings}", trusting, needs_consent=True)
            yield note(f"{changed}not in effect from {file}: {settings}", "carrel trust", repair)


def _of(config: Config, path: str) -> list[Withheld]:
    return [one for one in config.withheld if one.file == path]


def _digest_of(config: Config, path: str) -> str:
    """Return the hash of the content that was examined."""
    own = config.place.file
    files: list[ProjectFile | PlacesFile] = [*([] if own is None else [own]), *config.places_files]
    return next(file.digest for file in files if file.path == path)


@check(
    "project",
    "trust-store",
    "the list of trusted files cannot be read, so that no project is trusted",
    "move the list away, and trust the projects again",
    repairs=True,
)
def trust_store(setup: Setup) -> Iterator[Finding]:
    """Yield a problem if the list of trusted files is broken."""
    try:
        TrustStore(setup.environment).all()
    except ConfigError as error:
        path = os.path.join(state_folder(setup.environment), "trust.json")
        yield problem(
            f"{error}; no project is trusted", f"move {setup.short(path)} away", moved_away(path, setup.short(path))
        )


CHECKS: Final[tuple[Check, ...]] = (trust, trust_changed, trust_store)
