"""Turn unexpected exceptions of providers into "Internal error", with the traceback in the log.

All calls of provider code go through here, so that an exception ends one request and not the server.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from carrel.core.errors import ProtocolError, ProviderError, RequestError

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


def attempt(what: str, action: Callable[_Given, _Made], *given: _Given.args, **named: _Given.kwargs) -> _Made:
    """Call `action`; log an unexpected exception with `what` and raise "Internal error" instead."""
    try:
        return action(*given, **named)
    except (RequestError, ProviderError, ProtocolError):
        raise
    except (Exception, SystemExit) as error:  # `sys.exit` in a provider ends the request, not the server
        raise internal(what, error) from None


def internal(what: str, error: BaseException) -> ProviderError:
    """Log an unexpected exception; return the error that clients get in its place."""
    import logging  # only on failure: it takes 4 % of the start of a server

    logging.getLogger(__name__).error("unexpected fault in %s", what, exc_info=error)
    return ProviderError("Internal error", word="internal")
