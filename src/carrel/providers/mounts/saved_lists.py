"""A mount's last lists on disk, so that the first list after a start has them.

They lie in the user's cache folder, in files for the user alone. A file belongs to one
configuration: the mount's name, its settings with the values of the environment that they use,
and the project. What cannot be read or written is not remembered.
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
from carrel.providers.mounts.uri_mapping import Snapshot, sound_resources, sound_templates

log = logging.getLogger(__name__)

MAX_ENTRIES: Final = 2_000
"""How many resources, and how many templates, of one mount are remembered."""

MAX_BYTES: Final = 2 * 1024 * 1024
MAX_FILES: Final = 64
"""How many mounts are remembered; the file that was written longest ago goes first."""

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Recalled(Value, frozen=True):
    """Lists in the server's own spelling, and the prefix its URIs had here."""

    prefix: str
    resources: tuple[Resource, ...]
    templates: tuple[Template, ...]

    @property
    def snapshot(self) -> Snapshot:
        """Return what is sound of the lists."""
        return Snapshot(sound_resources(self.resources), sound_templates(self.templates))


class ListMemory:
    """The file of one mount."""

    def __init__(self, cache: str, *identity: object) -> None:
        """Choose the file; `identity` is everything that makes this another configuration."""
        key = blake2b(to_json(identity), digest_size=16).hexdigest()
        self._path = os.path.join(cache, "carrel", "mounts", f"{key}.json")
        self._last: Recalled | None = None

    def load(self) -> Recalled | None:
        """Return the lists, or None where there are none, or none that can be believed."""
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
            log.debug("%s is passed over: %s", self._path, error)
        finally:
            os.close(descriptor)
        return self._last

    def save(self, there: Snapshot, prefix: str) -> None:
        """Remember lists, unless they are those on the disk already."""
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
            log.debug("the lists of a mount cannot be remembered: %s", error)

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
