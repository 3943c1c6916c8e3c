"""A full-text index of the memory: SQLite FTS5 in the user's cache folder, or in memory.

It holds nothing that is not in the files, so a missing, old or corrupt index is silently built again.
"""

import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cache
from threading import RLock
from typing import Final

from carrel.core.hashing import blake2b
from carrel.core.record import Value
from carrel.files.atomic import FILE_MODE, FOLDER_MODE

VERSION: Final = 2
FIELDS: Final = ("question", "thesis", "evidence", "keywords", "content")
WEIGHTS: Final = (4.0, 5.0, 2.0, 6.0, 1.0)
KINDS: Final = ("checkpoint", "knowledge", "failure")
MAX_WORDS: Final = 64
BUSY_S: Final = 2.0
_COLUMNS: Final = ", ".join(FIELDS)
_MARKS: Final = ", ".join("?" * len(FIELDS))
_GAPS: Final = re.compile(r"[\s\x00-\x1f\"'`!?,.;:()\[\]{}<>|/\\*^&%$#@+=~_-]+")
_TOKENIZER: Final = "porter unicode61 remove_diacritics 2"

Reader = Callable[[str], "IndexedText | None"]
"""Returns the searched texts of an item by its key."""


class IndexedText(Value, frozen=True):
    """The searched texts of one item, and its time."""

    fields: tuple[str, str, str, str, str]
    when: int


class Hit(Value, frozen=True):
    """An item that was found."""

    key: str
    score: float
    when: int = 0


def best_first(hits: Iterable[Hit]) -> list[Hit]:
    """Return hits by score; of equal scores, the newest first."""
    return sorted(hits, key=lambda hit: (hit.score, hit.when, hit.key), reverse=True)


def index_path(cache_folder: str | None, folder: str) -> str | None:
    """Return the file for the index of a folder, or None without a cache folder."""
    if cache_folder is None:
        return None
    name = blake2b(os.path.realpath(folder).encode(errors="surrogateescape"), digest_size=12).hexdigest()
    return os.path.join(cache_folder, "carrel", "sage", f"{name}.db")


class SearchIndex:
    """The index of one Sage folder. It is safe to use from several threads."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._lock = RLock()
        self._database: sqlite3.Connection | None = None
        self._known: dict[str, dict[str, str]] = {}
        self._version = -1
        self.generation = 0
        """Grows with every change of the index."""

    # Opening

    @contextmanager
    def _locked(self) -> Iterator[sqlite3.Connection]:
        """Hold the lock, and open the database if it is not open."""
        with self._lock:
            if self._database is None:
                self._database = self._open_file() or _connect(":memory:")
                self._known.clear()
            yield self._database

    def _open_file(self) -> sqlite3.Connection | None:
        if self._path is None:
            return None
        for _ in range(2):
            try:
                os.makedirs(os.path.dirname(self._path), mode=FOLDER_MODE, exist_ok=True)
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                os.close(os.open(self._path, flags, FILE_MODE))
                return _connect(self._path)
            except (OSError, sqlite3.OperationalError):
                return None  # locked, not permitted, or the disk is full: the index is in memory this time
            except sqlite3.DatabaseError:
                self._remove()
        return None

    def _remove(self) -> None:
        for end in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                os.unlink(f"{self._path}{end}")

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def discard(self) -> None:
        """Delete the index; the next use builds it again."""
        with self._lock:
            self.close()
            if self._path is not None:
                self._remove()

    # Updating

    def update(self, kind: str, states: Mapping[str, str], read: Reader) -> None:
        """Make the index hold exactly these items in these states; new and changed items are read."""
        with self._lock:
            try:
                self._update(kind, states, read)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    self._path = None  # locked, or the disk is full: from now on in memory
                self.discard()
                self._update(kind, states, read)

    def _update(self, kind: str, states: Mapping[str, str], read: Reader) -> None:
        with self._locked() as database:
            known = self._known_states(database, kind)
            if known == states:
                return
            changed = [key for key, state in states.items() if known.get(key) != state]
            try:
                with _transaction(database):
                    for key in known:
                        if states.get(key) != known[key]:
                            _drop(database, kind, key)
                    for key in changed:
                        _add(database, kind, key, states[key], read(key))
            except BaseException:
                self._known.pop(kind, None)
                raise
            self._known[kind] = dict(states)
            self.generation += 1

    def _known_states(self, database: sqlite3.Connection, kind: str) -> dict[str, str]:
        [version] = database.execute("PRAGMA data_version").fetchone()
        if version != self._version:  # another process changed the index
            self._known.clear()
            self._version = version
            self.generation += 1
        if kind not in self._known:
            rows = database.execute("SELECT key, state FROM documents WHERE kind = ?", (kind,))
            self._known[kind] = dict(rows.fetchall())
        return self._known[kind]

    # Searching

    def find_words(self, kind: str, query: str, limit: int) -> tuple[list[Hit], int]:
        """Return the best items by BM25, and how many match; nothing without FTS5."""
        words = [word for word in _GAPS.split(query) if word][:MAX_WORDS]
        with self._locked() as database:
            if not words or not has_fts5():
                return [], 0
            phrase = " OR ".join(f'"{word}"' for word in words)
            weights = ", ".join(map(str, WEIGHTS))
            rows = database.execute(
                f"SELECT key, -bm25({kind}, {weights}) AS score, time FROM {kind} JOIN documents ON id = {kind}.rowid "
                f"WHERE {kind} MATCH ? ORDER BY score DESC, time DESC, key DESC LIMIT ?",
                (phrase, limit),
            ).fetchall()
            total = len(rows)
            if total >= limit:
                [total] = database.execute(f"SELECT count(*) FROM {kind} WHERE {kind} MATCH ?", (phrase,)).fetchone()
        return [Hit(*row) for row in rows], total

    def find_parts(self, kind: str, query: str) -> list[Hit]:
        """Return the items that contain a word of the query anywhere, in any case; a weightier field counts more."""
        every = [word.casefold() for word in query.split()][:MAX_WORDS]
        # Nearly every text contains any one or two letters; in a script without spaces they may be a word.
        words = [word for word in every if len(word) > 2 or not word.isascii()] or every
        with self._locked() as database:
            rows = database.execute(f"SELECT key, time, {_COLUMNS} FROM documents WHERE kind = ?", (kind,)).fetchall()
        hits = []
        for key, when, *fields in rows:
            texts = [(text.casefold(), weight) for text, weight in zip(fields, WEIGHTS, strict=True)]
            score = sum(max((weight for text, weight in texts if word in text), default=0.0) for word in words)
            if score:
                hits.append(Hit(key, score, when))
        return best_first(hits)

    # Vectors

    def texts_without_vector(self, kind: str) -> list[tuple[int, str]]:
        """Return the row and the text of every item that has no vector."""
        query = f"SELECT id, {_COLUMNS} FROM documents WHERE kind = ? AND id NOT IN (SELECT id FROM vectors)"
        with self._locked() as database:
            rows = database.execute(query, (kind,)).fetchall()
        return [(row[0], "\n".join(text for text in row[1:] if text)) for row in rows]

    def put_vectors(self, vectors: Iterable[tuple[int, bytes]]) -> None:
        """Store the vectors of rows."""
        with self._locked() as database, _transaction(database):
            database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", vectors)

    def vectors(self, kind: str) -> list[tuple[str, int, bytes]]:
        """Return key, time and vector of every item."""
        query = "SELECT key, time, vector FROM documents JOIN vectors USING (id) WHERE kind = ?"
        with self._locked() as database:
            return database.execute(query, (kind,)).fetchall()


def _connect(path: str) -> sqlite3.Connection:
    """Open a database; raise `DatabaseError` if it is not an index of this version."""
    database = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA synchronous = OFF")
        [version] = database.execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            if version or database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise sqlite3.DatabaseError("another version")
            _create_tables(database)
        database.execute("SELECT count(*) FROM documents").fetchone()
    except BaseException:
        database.close()
        raise
    return database


def _create_tables(database: sqlite3.Connection) -> None:
    with _transaction(database):
        database.execute(
            "CREATE TABLE IF NOT EXISTS documents (id INTEGER PRIMARY KEY, kind TEXT, key TEXT, state TEXT, "
            f"time INTEGER, {_COLUMNS}, UNIQUE (kind, key))"
        )
        for kind in KINDS if has_fts5() else ():
            database.execute(
                f"CREATE VIRTUAL TABLE IF NOT EXISTS {kind} USING fts5("
                f"{_COLUMNS}, content='documents', content_rowid='id', tokenize='{_TOKENIZER}')"
            )
        database.execute("CREATE TABLE IF NOT EXISTS vectors (id INTEGER PRIMARY KEY, vector BLOB)")
        database.execute(f"PRAGMA user_version = {VERSION}")


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _drop(database: sqlite3.Connection, kind: str, key: str) -> None:
    query = f"SELECT id, {_COLUMNS} FROM documents WHERE kind = ? AND key = ?"
    row = database.execute(query, (kind, key)).fetchone()
    if row is None:
        return
    if has_fts5():
        database.execute(f"INSERT INTO {kind} ({kind}, rowid, {_COLUMNS}) VALUES ('delete', ?, {_MARKS})", row)
    database.execute("DELETE FROM documents WHERE id = ?", (row[0],))
    database.execute("DELETE FROM vectors WHERE id = ?", (row[0],))


def _add(database: sqlite3.Connection, kind: str, key: str, state: str, text: IndexedText | None) -> None:
    """Add an item; one that cannot be read is added without texts, so that it is not read again."""
    fields = [field.replace("\0", " ") for field in text.fields] if text else [""] * len(FIELDS)
    added = database.execute(
        f"INSERT INTO documents (kind, key, state, time, {_COLUMNS}) VALUES (?, ?, ?, ?, {_MARKS})",
        (kind, key, state, text.when if text else 0, *fields),
    )
    if has_fts5():
        database.execute(f"INSERT INTO {kind} (rowid, {_COLUMNS}) VALUES (?, {_MARKS})", (added.lastrowid, *fields))


@cache
def has_fts5() -> bool:
    """Return whether this SQLite has FTS5."""
    with closing(sqlite3.connect(":memory:")) as database:
        return ("ENABLE_FTS5",) in database.execute("PRAGMA compile_options").fetchall()
