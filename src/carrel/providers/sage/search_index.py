"""A full-text index of the memory: SQLite FTS5 in the user's cache folder, or in memory.

It holds nothing that is not in the files. Before a search, what changed is read again and what is gone is
dropped; a missing, old or corrupt index is made anew without a word.
"""

import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from threading import RLock
from typing import Final

from carrel.core.hashing import blake2b
from carrel.core.record import Value
from carrel.files.atomic import FILE_MODE, FOLDER_MODE

VERSION: Final = 1
FIELDS: Final = ("question", "thesis", "evidence", "keywords", "content")
WEIGHTS: Final = (4.0, 5.0, 2.0, 6.0, 1.0)
KINDS: Final = ("checkpoint", "knowledge", "failure")
MAX_WORDS: Final = 64
BUSY_S: Final = 2.0
_GAPS: Final = re.compile(r"[\s\x00-\x1f\"'`!?,.;:()\[\]{}<>|/\\*^&%$#@+=~_-]+")
_TOKENIZER: Final = "porter unicode61 remove_diacritics 2"


class Document(Value, frozen=True):
    """What is searched of one item."""

    fields: tuple[str, str, str, str, str]
    when: int


class Hit(Value, frozen=True):
    """An item that was found."""

    key: str
    score: float
    when: int = 0


def words_in(query: str) -> list[str]:
    """Give the words of a query; operators and marks mean nothing."""
    return [word for word in _GAPS.split(query) if word][:MAX_WORDS]


def place_for(cache: str | None, folder: str) -> str | None:
    """Give the file an index of this folder lies in; None where there is no cache folder."""
    if cache is None:
        return None
    name = blake2b(os.path.realpath(folder).encode(errors="surrogateescape"), digest_size=12).hexdigest()
    return os.path.join(cache, "carrel", "sage", f"{name}.db")


class Index:
    """The index of one Sage folder; any thread may use it."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._lock = RLock()
        self._database: sqlite3.Connection | None = None
        self._known: dict[str, dict[str, str]] = {}
        self._version = -1
        self.generation = 0
        """Grows when anything in the index changed."""

    # Opening

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            self._database = self._open_file() or self._make(":memory:")
            self._known.clear()
        return self._database

    def _open_file(self) -> sqlite3.Connection | None:
        if self._path is None:
            return None
        for _ in range(2):
            try:
                os.makedirs(os.path.dirname(self._path), mode=FOLDER_MODE, exist_ok=True)
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                os.close(os.open(self._path, flags, FILE_MODE))
                return self._make(self._path)
            except sqlite3.OperationalError:
                return None  # busy, or the disk is full: this time without it
            except sqlite3.DatabaseError:
                self._remove()
            except OSError:
                return None
        return None

    def _remove(self) -> None:
        for end in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                os.unlink(f"{self._path}{end}")

    def _make(self, path: str) -> sqlite3.Connection:
        """Open a database and see that it is one of ours; raises `DatabaseError` for any other."""
        database = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            database.execute("PRAGMA synchronous = OFF")
            [version] = database.execute("PRAGMA user_version").fetchone()
            if version != VERSION:
                if version or database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    raise sqlite3.DatabaseError("another version")
                self._create(database)
            database.execute("SELECT count(*) FROM documents").fetchone()
        except BaseException:
            database.close()
            raise
        return database

    def _create(self, database: sqlite3.Connection) -> None:
        columns = ", ".join(FIELDS)
        database.execute("BEGIN IMMEDIATE")
        database.execute(
            "CREATE TABLE IF NOT EXISTS documents (id INTEGER PRIMARY KEY, kind TEXT, key TEXT, state TEXT, "
            f"time INTEGER, {columns}, UNIQUE (kind, key))"
        )
        if has_fts5(database):
            for kind in KINDS:
                database.execute(
                    f"CREATE VIRTUAL TABLE IF NOT EXISTS {kind} USING fts5("
                    f"{columns}, content='documents', content_rowid='id', tokenize='{_TOKENIZER}')"
                )
        database.execute("CREATE TABLE IF NOT EXISTS vectors (id INTEGER PRIMARY KEY, vector BLOB)")
        database.execute(f"PRAGMA user_version = {VERSION}")
        database.execute("COMMIT")

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    # Keeping it true

    def update(self, kind: str, states: Mapping[str, str], read: Callable[[str], Document | None]) -> None:
        """Make the index hold these items in these states: `read` is asked for what is new or changed."""
        with self._lock:
            try:
                self._update(kind, states, read)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    self._path = None  # busy, or the disk is full: from now on in memory
                self.discard()
                self._update(kind, states, read)

    def discard(self) -> None:
        """Throw the index away; the next use makes it anew."""
        with self._lock:
            self.close()
            if self._path is not None:
                self._remove()

    def _update(self, kind: str, states: Mapping[str, str], read: Callable[[str], Document | None]) -> None:
        database = self._open()
        known = self._known_states(database, kind)
        if known == states:
            return
        gone = [key for key in known if key not in states]
        changed = [key for key, state in states.items() if known.get(key) != state]
        database.execute("BEGIN IMMEDIATE")
        try:
            for key in (*gone, *(key for key in changed if key in known)):
                self._drop(database, kind, key)
            for key in changed:
                document = read(key)
                self._add(database, kind, key, states[key], document)
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            self._known.pop(kind, None)
            raise
        self._known[kind] = dict(states)
        self.generation += 1

    def _known_states(self, database: sqlite3.Connection, kind: str) -> dict[str, str]:
        [version] = database.execute("PRAGMA data_version").fetchone()
        if version != self._version:  # another process wrote
            self._known.clear()
            self._version = version
            self.generation += 1
        if kind not in self._known:
            rows = database.execute("SELECT key, state FROM documents WHERE kind = ?", (kind,))
            self._known[kind] = dict(rows.fetchall())
        return self._known[kind]

    def _drop(self, database: sqlite3.Connection, kind: str, key: str) -> None:
        columns = ", ".join(FIELDS)
        row = database.execute(
            f"SELECT id, {columns} FROM documents WHERE kind = ? AND key = ?", (kind, key)
        ).fetchone()
        if row is None:
            return
        if has_fts5(database):
            marks = ", ".join("?" * (len(FIELDS) + 1))
            database.execute(f"INSERT INTO {kind} ({kind}, rowid, {columns}) VALUES ('delete', {marks})", row)
        database.execute("DELETE FROM documents WHERE id = ?", (row[0],))
        database.execute("DELETE FROM vectors WHERE id = ?", (row[0],))

    def _add(self, database: sqlite3.Connection, kind: str, key: str, state: str, document: Document | None) -> None:
        columns = ", ".join(FIELDS)
        fields = ("",) * len(FIELDS) if document is None else tuple(_sound(text) for text in document.fields)
        when = 0 if document is None else document.when
        marks = ", ".join("?" * (len(FIELDS) + 4))
        added = database.execute(
            f"INSERT INTO documents (kind, key, state, time, {columns}) VALUES ({marks})",
            (kind, key, state, when, *fields),
        )
        if has_fts5(database):
            marks = ", ".join("?" * (len(FIELDS) + 1))
            database.execute(f"INSERT INTO {kind} (rowid, {columns}) VALUES ({marks})", (added.lastrowid, *fields))

    # Searching

    def by_words(self, kind: str, query: str, limit: int) -> tuple[list[Hit], int]:
        """Give the best by BM25 and how many there are in all; nothing where FTS5 is absent."""
        words = words_in(query)
        with self._lock:
            database = self._open()
            if not words or not has_fts5(database):
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

    def by_parts(self, kind: str, query: str) -> list[Hit]:
        """Give whatever holds a word of the query anywhere, case aside; the weightier the field, the better."""
        every = [word.casefold() for word in query.split()][:MAX_WORDS]
        # A word of one or two letters stands in nearly every text; in an unspaced script it is a word all right.
        words = [word for word in every if len(word) > 2 or not word.isascii()] or every
        if not words:
            return []
        with self._lock:
            rows = (
                self._open()
                .execute(f"SELECT key, time, {', '.join(FIELDS)} FROM documents WHERE kind = ?", (kind,))
                .fetchall()
            )
        hits = []
        for key, when, *fields in rows:
            folded = [text.casefold() for text in fields]
            score = sum(
                max((weight for text, weight in zip(folded, WEIGHTS, strict=True) if word in text), default=0.0)
                for word in words
            )
            if score:
                hits.append(Hit(key, score, when))
        return sorted(hits, key=lambda hit: (hit.score, hit.when, hit.key), reverse=True)

    def texts(self, kind: str, *, only_new: bool) -> list[tuple[int, str]]:
        """Give documents as one text each; only those that have no vector yet, if so wished."""
        where = "AND id NOT IN (SELECT id FROM vectors)" if only_new else ""
        with self._lock:
            rows = (
                self._open()
                .execute(f"SELECT id, {', '.join(FIELDS)} FROM documents WHERE kind = ? {where}", (kind,))
                .fetchall()
            )
        return [(row[0], "\n".join(text for text in row[1:] if text)) for row in rows]

    def put_vectors(self, vectors: Iterable[tuple[int, bytes]]) -> None:
        """Keep vectors of documents."""
        with self._lock:
            database = self._open()
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", vectors)
            database.execute("COMMIT")

    def vectors(self, kind: str) -> list[tuple[str, int, bytes]]:
        """Give every document's key, time and vector."""
        with self._lock:
            return (
                self._open()
                .execute("SELECT key, time, vector FROM documents JOIN vectors USING (id) WHERE kind = ?", (kind,))
                .fetchall()
            )


def has_fts5(database: sqlite3.Connection) -> bool:
    """Tell whether this SQLite has FTS5."""
    return ("ENABLE_FTS5",) in _options(database)


_compiled: dict[int, Sequence[tuple[str]]] = {}


def _options(database: sqlite3.Connection) -> Sequence[tuple[str]]:
    """Give how SQLite was built, asked once."""
    if 0 not in _compiled:
        _compiled[0] = database.execute("PRAGMA compile_options").fetchall()
    return _compiled[0]


def _sound(text: str) -> str:
    return text.replace("\0", " ")
