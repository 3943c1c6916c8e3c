"""What every server in the comparison serves: the same bytes under the same URIs, the same list, the same templates.

    bench://memory/{name}   a file of the folder, read once and kept
    bench://files/{name}    the same file, read anew each time; `?start=…&length=…` gives a part
    bench://entry/{number}  what the list names

Servers run in environments of their own, so this needs nothing but the standard library, and little of that: what is
imported here counts as their start-up.
"""

import os
import sys
from functools import cache
from typing import Final, NamedTuple

SIZES: Final = {
    "1k.txt": 1 << 10,
    "100k.txt": 100 << 10,
    "1m.txt": 1 << 20,
    "1m.bin": 1 << 20,
    "100m.txt": 100 << 20,
}
MEMORY: Final = "bench://memory/"
FILES: Final = "bench://files/"
OTHERS: Final = tuple(f"bench://{shelf}/{{name}}" for shelf in "abcdefgh")
TEMPLATES: Final = ("bench://memory/{name}", "bench://files/{name}{?start,length}", *OTHERS)
"""All that are listed; `OTHERS` are there to be listed only."""

PAGE: Final = 1_000
TEXT_TYPE: Final = "text/plain"
BLOB_TYPE: Final = "application/octet-stream"
CONDITION: Final = "dev.carrel/if-none-match"
ETAG: Final = "dev.carrel/etag"
STATUS: Final = "dev.carrel/status"


class Entry(NamedTuple):
    """What the list says of one resource."""

    uri: str
    name: str
    description: str


class Options(NamedTuple):
    """How a server is started: `python SERVER FOLDER ENTRIES PORT`; port 0 is stdio."""

    folder: str
    entries: int
    port: int


def options() -> Options:
    """Read the command line."""
    folder, entries, port = sys.argv[1:]
    return Options(folder, int(entries), int(port))


def entries(count: int) -> list[Entry]:
    """Return the list."""
    return [
        Entry(f"bench://entry/{number:06}", f"entry-{number:06}", f"What is kept under number {number} on this desk")
        for number in range(count)
    ]


def type_of(name: str) -> str:
    """Return the MIME type of a file."""
    return BLOB_TYPE if name.endswith(".bin") else TEXT_TYPE


class Folder:
    """The files, as a careful author of a small server would read them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._kept = cache(self._whole)

    def read(self, uri: str) -> str | bytes:
        """Return what a URI holds."""
        if uri.startswith(MEMORY):
            return self._kept(uri.removeprefix(MEMORY))
        name, _, query = uri.removeprefix(FILES).partition("?")
        return self._part(name, query) if query else self._whole(name)

    def etag(self, uri: str) -> str:
        """Return a token that changes with the file."""
        found = os.stat(os.path.join(self._path, uri.rpartition("/")[2]))
        return f"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}"

    def _whole(self, name: str) -> str | bytes:
        with open(os.path.join(self._path, name), "rb") as file:
            data = file.read()
        return data if name.endswith(".bin") else data.decode()

    def _part(self, name: str, query: str) -> str:
        asked = dict(pair.split("=") for pair in query.split("&"))
        with open(os.path.join(self._path, name), "rb", buffering=0) as file:
            file.seek(int(asked["start"]))
            return file.read(int(asked["length"])).decode()
