"""How tests wait: for something to happen, never for time to pass."""

import threading
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

PATIENCE_S = 10.0
"""What happens within milliseconds has not happened if it takes longer than this."""

_LOOK_S = 0.01

_Seen = TypeVar("_Seen")


def until(look: Callable[[], _Seen], patience_s: float = PATIENCE_S) -> _Seen:
    """Look until there is something to see, and give it; for what tells nobody that it happened."""
    deadline = monotonic() + patience_s
    pause = threading.Event()
    while not (seen := look()):
        assert monotonic() < deadline, f"still {seen!r} after {patience_s} s"
        pause.wait(_LOOK_S)
    return seen
