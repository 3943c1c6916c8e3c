"""The last lists of a mount on disk, for the first list after a start.

They are in the user's cache folder, in files that only the user can read. A file belongs to one configuration: the
name of the mount, its settings with the values of the environment that they use, and the project. Lists that cannot
be read or written are not kept.
"""

import logging
import os
import stat
from contextlib import suppress
from typing import Final

from carrel.core.hashing import blake2b
from carrel.core.model import Resource, Template
from carrel.core.record import Value, from_json, to_json
from carrel.files.atomic import FOLDER_MODE, replace_private
from carrel.providers.mounts.uri_mapping import Snapshot, valid_resources, valid_templates

log = logging.getLogger(__name__)

MAX_ENTRIES: Final = 2_000
"""Maximum number of resources, and of templates, that are kept of one mount."""

MAX_BYTES: Final = 2 * 1024 * 1024
MAX_FILES: Final = 64
"""Maximum number of mounts whose lists are kept; the oldest file is removed first."""

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Recalled(Value, frozen=True):
    """Lists as the server spells them, and the prefix that its URIs had here."""

    prefix: str
    resources: tuple[Resource, ...]
    templates: tuple[Template, ...]

    @property
    def snapshot(self) -> Snapshot:
        """The valid entries of the lists."""
        return Snapshot(valid_resources(self.resources), valid_templates(self.templates))


class ListMemory:
    """The file of one mount."""

    def __init__(self, cache: str, *identity: object) -> None:
        """Choose the file by `identity`, which differs for every configuration."""
        key = blake2b(to_json(identity), digest_size=16).hexdigest()
        self._path = os.path.join(cache, "carrel", "mounts", f"{key}.json")
        self._last: Recalled | None = None

    def load(self) -> Recalled | None:
        """Return the lists; None if there is no valid file."""
        try:
            descriptor = os.open(self._path, _FLAGS)
        except OSError:
            return None
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_size > MAX_BYTES:
                return None
            with open(descriptor, "rb", closefd=False) as source:
                self._last = from_json(source.read(MAX_BYTES), Recalled)
        except (OSError, ValueError) as error:
            log.debug("%s is ignored: %s", self._path, error)
        finally:
            os.close(descriptor)
        return self._last

    def save(self, there: Snapshot, prefix: str) -> None:
        """Save lists, unless the file has them already."""
        kept = Recalled(prefix, there.resources[:MAX_ENTRIES], there.templates[:MAX_ENTRIES])
        if kept == self._last:
            return
        text = to_json(kept)
        if len(text) > MAX_BYTES:
            self.forget()
            return
        try:
            os.makedirs(os.path.dirname(self._path), FOLDER_MODE, exist_ok=True)
            replace_private(self._path, text.decode())
            self._last = kept
            self._make_room()
        except OSError as error:
            log.debug("the lists of a mount cannot be saved: %s", error)

    def forget(self) -> None:
        """Remove the file."""
        self._last = None
        with suppress(OSError):
            os.unlink(self._path)

    def _make_room(self) -> None:
        folder = os.path.dirname(self._path)
        with os.scandir(folder) as found:
            files = sorted((one for one in found if one.name.endswith(".json")), key=lambda one: one.stat().st_mtime_ns)
        for one in files[:-MAX_FILES]:
            with suppress(OSError):
                os.unlink(one.path)
