"""`.sage/tuning.yaml`: what Sage's own users set there, as far as Carrel heeds it."""

import logging
import os
from typing import Final

from carrel.core.record import Value
from carrel.providers.sage import folders
from carrel.providers.sage.file_format import Broken, Fields, decode, flag_of, number_of, read_mapping, text_of
from carrel.providers.sage.folders import Folders, Gone, Signature
from carrel.providers.sage.rendering import Format

log = logging.getLogger(__name__)

FILE: Final = "tuning.yaml"
MAX_BYTES: Final = 1_048_576


class Tuning(Value, frozen=True):
    """The keys that count; None where nothing usable is set."""

    output_format: Format | None = None
    system_folder_enabled: bool | None = None
    system_folder_max_tokens: int | None = None
    failure_memory_enabled: bool | None = None
    failure_injection_limit: int | None = None


NOTHING: Final = Tuning()


class TuningFile:
    """The file, read again when it changed."""

    def __init__(self, home: Folders) -> None:
        self._home = home
        self._signature: Signature | None = None
        self._tuning = NOTHING

    def read(self) -> Tuning:
        """Give what is set now; a broken file is logged, and counts as absent."""
        root = self._home.root("")
        if root is None:
            return NOTHING
        try:
            os.stat(FILE, dir_fd=root.fd, follow_symlinks=False)  # most projects have none, and every read asks
        except OSError:
            return NOTHING
        try:
            with folders.open_beneath(root, (FILE,)) as opened:
                signature = folders.signature_of(opened.stat)
            if signature != self._signature:
                self._signature = signature
                self._tuning = NOTHING
                self._tuning = _parse(decode(folders.read(root, (FILE,), MAX_BYTES).data))
            return self._tuning
        except Gone:
            return NOTHING
        except Broken as error:
            log.warning("%s is not heeded: %s", FILE, error.reason)
            return NOTHING


def _parse(text: str) -> Tuning:
    if not text.strip():
        return NOTHING
    fields = read_mapping(text)
    named = text_of(fields, "output_format")
    return Tuning(
        "toon" if named == "toon" else "markdown" if named == "markdown" else None,
        flag_of(fields, "system_folder_enabled"),
        _count(fields, "system_folder_max_tokens"),
        flag_of(fields, "failure_memory_enabled"),
        _count(fields, "failure_injection_limit"),
    )


def _count(fields: Fields, name: str) -> int | None:
    value = number_of(fields, name)
    return int(value) if value is not None and 0 <= value < 1e9 else None
