"""Named documents in the team's store, such as the files of a memory: their writer, and a mirror of them in a folder.

A document has a kind, a name with slashes, bytes, and the time of its last change. A reader keeps a private folder with
all documents of a kind, and fetches those that were written since its last query. So it reads files, as without a
store, and one query shows that they are current.
"""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import time_ns
from typing import Final

from carrel.core.record import Value
from carrel.stores.database import Database, Kind
from carrel.stores.private_folder import PrivateFolder
from carrel.stores.session import StoreSession

READ_S: Final = 25.0
WRITE_S: Final = 25.0
MAX_NAME: Final = 1_024


class StoredDocument(Value, frozen=True):
    """A document; one without data was removed."""

    name: str
    data: bytes | None
    modified_ns: int


class DocumentWriter:
    """The documents of a kind inside a transaction of its only writer."""

    def __init__(self, kind: Kind, session: StoreSession) -> None:
        self._kind = kind
        self.session = session
        self.record = session.record

    def get(self, name: str) -> bytes | None:
        """Return a document; None if there is none."""
        statement = "SELECT data FROM documents WHERE kind = ? AND name = ?"
        row = self.session.execute(statement, (self._kind, name)).fetchone()
        return None if row is None or row[0] is None else bytes(row[0])

    def put(self, name: str, data: bytes | None, modified_ns: int | None = None) -> None:
        """Write a document in place of the old one; without data, remove it."""
        if not is_name(name):
            raise ValueError(f"not a name of a document: {name!r}")
        self.session.execute(
            "INSERT INTO documents (kind, name, data, modified_ns, generation) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (kind, name) DO UPDATE SET data = excluded.data, modified_ns = excluded.modified_ns, "
            "generation = excluded.generation",
            (self._kind, name, data, time_ns() if modified_ns is None else modified_ns, self.session.generation),
        )


@contextmanager
def writing_documents(database: Database, kind: Kind) -> Iterator[DocumentWriter]:
    """Yield the only writer of a kind; everything is committed at the end, or nothing."""
    with database.writing(kind, WRITE_S) as session:
        yield DocumentWriter(kind, session)


def documents_since(database: Database, kind: Kind, generation: int) -> tuple[list[StoredDocument], int]:
    """Return the documents that were written after a generation, and the present generation, in one snapshot."""
    with database.reading(READ_S) as session:
        return _since(session, kind, generation)


def _since(session: StoreSession, kind: Kind, generation: int) -> tuple[list[StoredDocument], int]:
    row = session.execute("SELECT generation FROM generations WHERE kind = ?", (kind,)).fetchone()
    found = session.execute(
        "SELECT name, data, modified_ns FROM documents WHERE kind = ? AND generation > ? ORDER BY generation, name",
        (kind, generation),
    ).fetchall()
    documents = [StoredDocument(name, None if data is None else bytes(data), ns) for name, data, ns in found]
    return documents, 0 if row is None else int(row[0])


def is_name(name: str) -> bool:
    """Return whether a name is a relative path without empty parts, dots and control characters."""
    parts = name.split("/")
    return 0 < len(name) <= MAX_NAME and name.isprintable() and not any(part in ("", ".", "..") for part in parts)


class DocumentMirror:
    """A private folder with all documents of a kind, current after each `refresh`. Safe to use from several threads."""

    def __init__(self, database: Database, kind: Kind) -> None:
        self._database = database
        self._kind: Kind = kind
        self._generation = -1
        self._lock = threading.Lock()
        self._folder = PrivateFolder(kind)
        self.path = self._folder.path

    def refresh(self) -> None:
        """Fetch the documents that were written since the last call; raise `StoreUnavailable`."""
        if self._database.generation(self._kind) == self._generation:
            return
        # First the connection, then the lock, as in `refresh_in`: else a writer and a reader could wait for each other.
        with self._database.reading(READ_S) as session, self._lock:
            self._update(session, 0)

    def refresh_in(self, session: StoreSession) -> None:
        """Refresh inside a transaction of the only writer, before it writes, so that it writes to the newest state."""
        with self._lock:
            self._update(session, 1)

    def _update(self, session: StoreSession, own: int) -> None:
        """Apply the committed documents; the last `own` generations belong to this session, which may still fail.

        The caller holds the lock.
        """
        documents, generation = _since(session, self._kind, self._generation)
        if generation - own < self._generation:  # another database under the address: begin again
            self._clear()
            documents, generation = _since(session, self._kind, -1)
        for document in documents:
            if is_name(document.name):
                self._apply(document)
        self._generation = generation - own

    def close(self) -> None:
        """Remove the folder."""
        self._folder.close()

    def _clear(self) -> None:
        for entry in list(os.scandir(self.path)):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)

    def _apply(self, document: StoredDocument) -> None:
        path = os.path.join(self.path, document.name)
        if document.data is None:
            if os.path.exists(path):
                os.unlink(path)
            return
        folder, name = os.path.split(path)
        os.makedirs(folder, 0o700, exist_ok=True)
        written = os.path.join(folder, f".{name[:100]}.new")
        with open(written, "wb", opener=_private) as file:
            file.write(document.data)
        os.utime(written, ns=(document.modified_ns, document.modified_ns))
        os.rename(written, path)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
