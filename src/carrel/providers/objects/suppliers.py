"""The functions given as `entries=` and `complete=`: called, and their values collected."""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NoReturn, TypeVar

from carrel.core.errors import ConfigError
from carrel.providers.objects.calls import attempt
from carrel.providers.objects.conversion import InvalidResult

log = logging.getLogger(__name__)

MAX_VALUES: Final = 100_000
"""Values taken from one function: a generator need not end."""

_Made = TypeVar("_Made")
Values = Iterable[object]


class Unlisted:
    """Stands in a list for what could not be listed; the object provider leaves it out and reports why."""

    def __init__(self, why: str, cause: BaseException) -> None:
        self._why = why
        self.cause = cause

    @property
    def uri(self) -> NoReturn:
        """Raise the reason."""
        raise InvalidResult(self._why) from self.cause


class Supplier:
    """A function that returns values: a generator, or any function whose result can be iterated, also async.

    Its first parameter, if it has one, is the text typed so far. The others are variables that are already chosen.
    """

    def __init__(self, function: Callable[..., object], label: str) -> None:
        if not callable(function):
            raise ConfigError(f"{label}: expected a function that yields values")
        self._function = function
        self._label = label
        self._names = list(inspect.signature(function).parameters)

    def values(self, typed: str = "", chosen: Mapping[str, str] | None = None) -> Values | Awaitable[Values]:
        """Return the values. An exception is not raised: an `Unlisted` stands for the values that are missing."""
        first, others = self._names[:1], self._names[1:]
        context = {name: text for name, text in (chosen or {}).items() if name in others}
        given, error = attempt(lambda: self._function(*(typed for _ in first), **context))
        if isinstance(given, AsyncIterable) or inspect.isawaitable(given):
            return self._wait(given)
        return self._taken(given) if error is None else self._failed(error)

    def _taken(self, given: object) -> Values:
        if isinstance(given, str) or not isinstance(given, Iterable):
            return self._failed(TypeError("the function returned no values to iterate over"))
        values, error = attempt(lambda: list(islice(given, MAX_VALUES)))
        return values if error is None else self._failed(error)

    async def _wait(self, given: AsyncIterable[object] | Awaitable[object]) -> Values:
        awaited = _collect(given) if isinstance(given, AsyncIterable) else given
        [outcome] = await asyncio.gather(awaited, return_exceptions=True)
        return self._failed(outcome) if isinstance(outcome, BaseException) else self._taken(outcome)

    def _failed(self, error: BaseException) -> Values:
        log.debug("%s", self._label, exc_info=error)
        return [Unlisted(f"{self._label} raised an exception", error)]


async def _collect(given: AsyncIterable[object]) -> Values:
    found: list[object] = []
    async for value in given:
        found.append(value)
        if len(found) == MAX_VALUES:
            break
    return found


def gather(
    given: Sequence[Values | Awaitable[Values]], finish: Callable[[list[Values]], _Made]
) -> _Made | Awaitable[_Made]:
    """Return what `finish` makes of the values; an awaitable of it if one of the values is awaitable."""

    async def wait() -> _Made:
        return finish([await one if inspect.isawaitable(one) else one for one in given])

    ready = [one for one in given if not inspect.isawaitable(one)]
    return finish(ready) if len(ready) == len(given) else wait()
