"""Ignore files in a bucket: every `.gitignore` from the prefix down, as for a folder on this machine.

A recent list of the bucket shows which ignore files exist, so that a read does not ask for each. If an ignore file
cannot be read because the bucket does not answer, `BucketFault` is raised: hidden files must not become visible.
"""

from functools import partial
from typing import Final

from carrel.buckets.address import BucketAddress
from carrel.buckets.bucket import Bucket, BucketObject, NoSuchObject
from carrel.buckets.contents import BucketContents
from carrel.files.gitignore import Rules, TooManyPatterns
from carrel.providers.workspace.ignore_rules import (
    EVERYTHING,
    EXCLUDE_FILE,
    MAX_IGNORE_BYTES,
    TOO_LONG,
    IgnoreRules,
    Segments,
    compile_text,
)

RECENT_S: Final = 20.0
"""Maximum age of a list that shows which ignore files exist."""


class BucketIgnoreFiles(IgnoreRules):
    """The ignore files of a bucket."""

    def __init__(self, bucket: Bucket, contents: BucketContents, address: BucketAddress) -> None:
        super().__init__()
        self._bucket = bucket
        self._contents = contents
        self._start = address.start

    def exists(self, folder: Segments) -> bool:
        """Return whether a folder exists; True if that cannot be known."""
        table = self._contents.recent(RECENT_S)
        return table is None or table.has_folder("".join(f"{name}/" for name in folder))

    def _read(self, segments: Segments, *, follow: bool = True) -> Rules | None:
        del follow  # a bucket has no links
        if segments == EXCLUDE_FILE:
            return None
        self.unusable.pop(segments, None)
        name = "/".join(segments)
        table = self._contents.recent(RECENT_S)
        known = None if table is None else table.objects.get(name)
        if table is not None and known is None:
            return None
        try:
            if known is not None:
                state = (known.key, known.tag, known.size, known.modified_ms)
                return self._compiled_for(state, partial(self._compile, known), keeps=True)
            return self._asked(self._start + name)
        except NoSuchObject:
            return None
        except TooManyPatterns as error:
            self._refuse(segments, f"it has {error}")
        return EVERYTHING

    def _compile(self, known: BucketObject) -> Rules | TooManyPatterns:
        if known.size > MAX_IGNORE_BYTES:
            return TOO_LONG
        part = self._bucket.fetch(known.key, 0, MAX_IGNORE_BYTES + 1)
        return compile_text(part.data if part is not None else b"")

    def _asked(self, key: str) -> Rules:
        """Return the rules of a file, read from the bucket because there is no recent list."""
        part = self._bucket.fetch(key, 0, MAX_IGNORE_BYTES + 1)
        assert part is not None  # no condition was given
        found = part.found
        if found.size > MAX_IGNORE_BYTES:
            raise TOO_LONG.with_traceback(None)
        state = (found.key, found.tag, found.size, found.modified_ms)
        return self._compiled_for(state, partial(compile_text, part.data), keeps=True)
