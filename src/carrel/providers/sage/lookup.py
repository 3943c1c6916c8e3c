"""Which item an id means: exact, exact inside the file, part of it, its words. The first step with a match decides."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from carrel.providers.sage.item_names import is_plain
from carrel.providers.sage.record_folders import Card, Shelf, words_of
from carrel.providers.sage.records import Checkpoint, Failure

NAMED: Final = 5

Item = TypeVar("Item")


class Ambiguous(Exception):
    """Several items match; `ids` are the newest of them, each of which works."""

    def __init__(self, count: int, ids: Sequence[str]) -> None:
        super().__init__(count)
        self.count = count
        self.ids = tuple(ids)


class Unmatched(Exception):
    """No item matches."""


def find_checkpoint(shelf: Shelf[Checkpoint], wanted: str) -> Card:
    """Give the one checkpoint an id means; an exact stem is for the caller to try first."""
    cards = shelf.examined()
    if wanted in cards:
        return cards[wanted]
    inner = [card for card in cards.values() if card.id == wanted]
    if inner:
        return _only(shelf.newest_first(inner), lambda card: card.stem)
    return _only(shelf.newest_first(_loosely(list(cards.values()), wanted)), lambda card: card.stem)


def find_failure(shelf: Shelf[Failure], wanted: str) -> Card:
    """Give the one failure an id means: of records with one id, the newest."""
    cards = shelf.examined()
    if wanted in cards:
        return cards[wanted]
    inner = [card for card in cards.values() if card.id == wanted]
    if inner:
        return shelf.newest_first(inner)[0]
    newest: dict[str, Card] = {}
    for card in shelf.newest_first(_loosely(list(cards.values()), wanted)):
        newest.setdefault(card.id or f"\n{card.stem}", card)
    matching = list(newest.values())
    addresses = failure_addresses(shelf, cards) if len(matching) > 1 else {}
    return _only(matching, lambda card: addresses[card.stem])


def failure_addresses(shelf: Shelf[Failure], cards: Mapping[str, Card]) -> dict[str, str]:
    """Say by which id each record is read: the newest of an id by that, the others by their stems."""
    addresses: dict[str, str] = {}
    taken = set(cards)
    for card in shelf.newest_first(cards.values()):
        is_free = bool(card.id) and card.id not in taken and is_plain(card.id)
        addresses[card.stem] = card.id if is_free else card.stem
        taken.add(card.id)
    return addresses


def _loosely(cards: list[Card], wanted: str) -> list[Card]:
    """Give what a part of an id means, else its words; broken files only where nothing good matches."""
    parts = [card for card in cards if wanted in card.stem or wanted in card.id]
    matching = parts or by_words(cards, wanted, lambda card: (card.stem, card.id), lambda card: card.lowered)
    good = [card for card in matching if not card.reason]
    return good or matching


def by_words(
    items: Sequence[Item], wanted: str, names: Callable[[Item], Sequence[str]], lowered: Callable[[Item], str]
) -> list[Item]:
    """Give the items of which every wanted word is a word of a name."""
    words = words_of(wanted)
    if not words:
        return []
    likely = [item for item in items if all(word in lowered(item) for word in words)]
    return [item for item in likely if words <= frozenset[str]().union(*map(words_of, names(item)))]


def _only(matching: Sequence[Item], name: Callable[[Item], str]) -> Item:
    if not matching:
        raise Unmatched
    if len(matching) > 1:
        raise Ambiguous(len(matching), [name(one) for one in matching[:NAMED]])
    return matching[0]
