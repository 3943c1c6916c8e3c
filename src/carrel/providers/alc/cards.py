"""Cards: TOML on disk, compact JSON for clients, and summaries for the list and the index."""

import math
from collections.abc import Callable
from typing import Final

from carrel.core import toml
from carrel.core.record import Value
from carrel.providers.alc import compact_json
from carrel.providers.alc.files import AlcFile, AlcFolder, Failed, FileError, ParsedFiles, Stamp, open_below

MAX_KEPT: Final = 20_000
MAX_TOML_BYTES: Final = 4 * 1024 * 1024
"""The largest Card that is parsed; that takes a second at most. Real ones have some kilobytes."""


class NotToml(Exception):
    """The file is not TOML; the message says where."""


class CardSummary(Value, frozen=True):
    """The fields of a Card that the index and the list need."""

    size: int
    pass_rate: int | float | None
    created_at: str
    model: str
    scenario: str


class Cards:
    """The Cards. Summaries, and why a file is not TOML, are kept while files stay the same."""

    def __init__(self, max_file_bytes: int) -> None:
        self._max_bytes = min(max_file_bytes, MAX_TOML_BYTES)
        self._cache: ParsedFiles[CardSummary | NotToml] = ParsedFiles(MAX_KEPT)

    def text(self, file: AlcFile) -> str:
        """Return a Card as JSON; nothing is validated or dropped. Raise `NotToml`, the second time without parsing."""
        known = self._cache.get(file.path, file.stamp)
        if isinstance(known, NotToml):
            raise NotToml(str(known))
        try:
            return _json(self._parse(file))
        except NotToml as error:
            self._cache.put(file.path, file.stamp, NotToml(str(error)))
            raise

    def size(self, file: AlcFile) -> int | None:
        """Return the size of a Card's JSON; None if the file is not TOML."""
        summary = self._summary(file.path, file.stamp, lambda: self._summarize(file))
        return None if summary is None else summary.size

    def is_known(self, path: str, stamp: Stamp) -> bool:
        """Return whether a Card was parsed in this state."""
        return self._cache.get(path, stamp) is not None

    def summary(self, cards: AlcFolder, folder: str, name: str, stamp: Stamp) -> CardSummary | None:
        """Return the summary of a Card by its place; None if it cannot be read."""

        def read() -> CardSummary:
            with open_below(cards, folder, name) as file:
                return self._summarize(file)

        return self._summary(f"{cards.path}/{folder}/{name}", stamp, read)

    def _summary(self, path: str, stamp: Stamp, read: Callable[[], CardSummary]) -> CardSummary | None:
        known = self._cache.get(path, stamp)
        if known is None:
            try:
                known = read()
            except NotToml as error:
                known = NotToml(str(error))
            except FileError:
                return None
            self._cache.put(path, stamp, known)
        return None if isinstance(known, NotToml) else known

    def _summarize(self, file: AlcFile) -> CardSummary:
        card = self._parse(file)
        created = card.get("created_at", "")
        return CardSummary(
            size=len(_json(card).encode()),
            pass_rate=_rate(_inner(card, "stats", "pass_rate")),
            created_at=created if isinstance(created, str) else _json(created).strip('"'),
            model=_text(_inner(card, "model", "id")),
            scenario=_text(_inner(card, "scenario", "name")),
        )

    def _parse(self, file: AlcFile) -> dict[str, object]:
        try:
            return toml.loads(file.read_all(self._max_bytes).decode("utf-8"))
        except UnicodeDecodeError:
            raise Failed(compact_json.NOT_UTF8) from None
        except toml.TomlError as error:
            raise NotToml(str(error)) from None


def _inner(card: dict[str, object], section: str, key: str) -> object:
    table = card.get(section)
    return table.get(key) if isinstance(table, dict) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _rate(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def _json(value: object) -> str:
    try:
        return compact_json.dumps(value)
    except ValueError as error:
        raise NotToml(str(error)) from None
