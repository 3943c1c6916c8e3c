"""What is kept within a bound, and what goes first."""

from carrel.core.cache import BoundedCache


def test_what_was_put_is_given_until_the_bound_is_passed() -> None:
    kept: BoundedCache[str, int] = BoundedCache(10)
    kept.put("a", 1, 4)
    kept.put("b", 2, 4)
    assert (kept.get("a"), kept.get("b")) == (1, 2)

    kept.put("c", 3, 4)

    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (None, 2, 3)


def test_a_key_has_what_was_put_last_and_its_weight() -> None:
    kept: BoundedCache[str, int] = BoundedCache(10)
    kept.put("a", 1, 9)
    kept.put("a", 2, 1)
    kept.put("b", 3, 9)

    assert (kept.get("a"), kept.get("b")) == (2, 3)


def test_what_alone_passes_the_bound_is_not_kept_and_takes_nothing_else_away() -> None:
    kept: BoundedCache[str, int] = BoundedCache(10)
    kept.put("a", 1, 5)
    kept.put("b", 2, 5)
    kept.put("b", 3, 11)

    assert (kept.get("a"), kept.get("b")) == (1, None)


def test_what_is_dropped_is_gone_and_weighs_nothing() -> None:
    kept: BoundedCache[str, int] = BoundedCache(10)
    kept.put("a", 1, 6)
    kept.drop("a")
    kept.drop("never there")
    kept.put("b", 2, 6)
    kept.put("c", 3, 4)

    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (None, 2, 3)
