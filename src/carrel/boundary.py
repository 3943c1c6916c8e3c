"""The last boundary: where a fault nobody planned becomes an error that says nothing of its cause.

Every face has providers' code called through here: a fault stays in its request.
"""

import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from carrel.errors import ProtocolError, ProviderError, RequestError

log = logging.getLogger(__name__)

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


def attempt(what: str, action: Callable[_Given, _Made], *given: _Given.args, **named: _Given.kwargs) -> _Made:
    """Do it; what is raised is an error that a client may be told. `what` is for our log."""
    try:
        return action(*given, **named)
    except (RequestError, ProviderError, ProtocolError):
        raise
    except (Exception, SystemExit):  # who calls `sys.exit` in a request ends that, and not the server
        log.exception("unexpected fault in %s", what)
        raise ProviderError("Internal error", word="internal") from None
