"""A small module."""

import functools

LIMIT = 10


def plain(first: int, second: str = "x") -> bool:
    """Say something."""
    return bool(first)


@functools.cache
@functools.wraps(len)
def decorated(
    first: int,
    *,
    second: str,
) -> None:
    def inner() -> int:
        return 1

    inner()


class Shelf(dict[str, int]):
    """A class."""

    size = 3

    def __init__(self) -> None:
        self.x = 1

    @property
    def name(self) -> str:
        return "shelf"

    async def load(self) -> None: ...

    class Row:
        def _hidden(self) -> None:
            pass


if LIMIT:

    def conditional() -> None:
        pass
