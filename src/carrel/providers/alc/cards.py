"""Cards: TOML on disk, compact JSON on the wire, and the best one of a package."""

import math
from collections.abc import Callable
from typing import Final

from carrel.core import toml
from carrel.core.record import Value
from carrel.providers.alc import compact_json
from carrel.providers.alc.cache import Cache
from carrel.providers.alc.files import AlcFolder, Failed, FileError, HeldFile, Stamp, open_below

MAX_KEPT: Final = 20_000
MAX_TOML_BYTES: Final = 4 * 1024 * 1024
"""The largest Card that is parsed; that takes a second at most. Real ones have some kilobytes."""


class NotToml(Exception):
    """The file is no TOML; the message says where."""


class Summary(Value, frozen=True):
    """What the index and the list need of a Card."""

    size: int
    pass_rate: int | float | None
    created_at: str
    model: str
    scenario: str


Known = Summary | str
"""What is known of a Card: its summary, or why it is no TOML."""


class Cards:
    """The Cards, of which summaries are kept while their files stay as they are."""

    def __init__(self, max_file_bytes: int) -> None:
        self._max_bytes = min(max_file_bytes, MAX_TOML_BYTES)
        self._cache: Cache[Known] = Cache(MAX_KEPT)

    def text(self, held: HeldFile) -> str:
        """Return a Card as JSON; nothing is validated or dropped. Raises `NotToml`, the second time at once."""
        known = self._cache.get(held.path, held.stamp)
        if isinstance(known, str):
            raise NotToml(known)
        try:
            return _spell(self._parse(held))
        except NotToml as error:
            self._cache.put(held.path, held.stamp, str(error))
            raise

    def size(self, held: HeldFile) -> int | None:
        """Give the size of a Card's JSON; None if it is none."""
        summary = self._kept(held.path, held.stamp, lambda: self.summary(held))
        return None if summary is None else summary.size

    def is_known(self, path: str, stamp: Stamp) -> bool:
        """Return whether a Card was parsed as it is now."""
        return self._cache.get(path, stamp) is not None

    def summary(self, held: HeldFile) -> Summary:
        """Read what is needed of a Card that is open."""
        card = self._parse(held)
        created = card.get("created_at", "")
        return Summary(
            size=len(_spell(card).encode()),
            pass_rate=_rate(_inner(card, "stats", "pass_rate")),
            created_at=created if isinstance(created, str) else _spell(created).strip('"'),
            model=_text(_inner(card, "model", "id")),
            scenario=_text(_inner(card, "scenario", "name")),
        )

    def known(self, cards: AlcFolder, folder: str, name: str, stamp: Stamp) -> Summary | None:
        """Give what is needed of a Card by where it lies; None if it cannot be read."""

        def read() -> Summary:
            with open_below(cards, (folder, name)) as held:
                return self.summary(held)

        return self._kept(f"{cards.path}/{folder}/{name}", stamp, read)

    def _kept(self, path: str, stamp: Stamp, read: Callable[[], Summary]) -> Summary | None:
        """Give what is known of a file as it is now, or learn it; that it is no TOML is kept too."""
        known = self._cache.get(path, stamp)
        if known is None:
            try:
                known = read()
            except NotToml as error:
                known = str(error)
            except FileError:
                return None
            self._cache.put(path, stamp, known)
        return None if isinstance(known, str) else known

    def _parse(self, held: HeldFile) -> dict[str, object]:
        try:
            return toml.loads(held.read_all(self._max_bytes).decode("utf-8"))
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
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and isinstance(value, int | float) and math.isfinite(value) else None


def _spell(value: object) -> str:
    try:
        return compact_json.dumps(value)
    except ValueError as error:
        raise NotToml(str(error)) from None
