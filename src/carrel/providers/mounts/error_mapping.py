"""The errors of a mounted server as errors of Carrel; the server's own messages stay in the log."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from carrel.core.errors import CarrelError, Disconnected, ProviderError, RemoteError, RequestError, Unreachable
from carrel.providers.mounts.link import Link, unavailable

log = logging.getLogger(__name__)

_MISSING: Final = frozenset({-32002, -32602, -32601})


@contextmanager
def translated(name: str, about: str, link: Link, missing: Callable[[], RequestError]) -> Iterator[None]:
    """Raise the error that a client gets; `missing` if the server does not know what it was asked for."""
    try:
        yield
    except (Disconnected, Unreachable):
        raise unavailable(name, link.retry_after_ms) from None
    except RemoteError as error:
        if error.code in _MISSING:
            raise missing() from None
        raise _failed(name, about, "Mount failed", "failed", error) from None
    except ProviderError as error:
        if error.word == "unavailable":
            raise unavailable(name, link.retry_after_ms) from None
        message = "Mount timed out" if error.word == "timeout" else "Mount failed"
        raise _failed(name, about, message, error.word, error) from None


def _failed(name: str, about: str, message: str, word: str, cause: CarrelError) -> ProviderError:
    incident = os.urandom(4).hex()
    log.error("incident %s: mount %s, %s: %s (%s): %s", incident, name, about, message, word, cause)
    return ProviderError(f"{message}: {name}", word=word, data={"incident": incident})
