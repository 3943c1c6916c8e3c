"""The last boundary: where a fault nobody planned becomes an error that says nothing of its cause.

Every face has providers' code called through here: a fault stays in its request.
"""

import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from carrel.core.errors import ProtocolError, ProviderError, RequestError

log = logging.getLogger(__name__)

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


def attempt(what: str, action: Callable[_Given, _Made], *given: _Given.args, **named: _Given.kwargs) -> _Made:
    """Do it; what is raised is an error that a client may be told. `what` is for our log."""
    try:
        return action(*given, **named)
    except (RequestError, ProviderError, ProtocolError):
        raise
    except (Exception, SystemExit) as error:  # who calls `sys.exit` in a request ends that, and not the server
        raise _internal(what, error) from None


class Contained:
    """Around code that cannot be passed to `attempt`, such as the body of a generator: does the same."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        is_planned = isinstance(error, RequestError | ProviderError | ProtocolError)
        if isinstance(error, Exception | SystemExit) and not is_planned:
            raise _internal(self._what, error) from None


def _internal(what: str, error: BaseException) -> ProviderError:
    log.error("unexpected fault in %s", what, exc_info=error)
    return ProviderError("Internal error", word="internal")
