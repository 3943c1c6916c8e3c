"""What foreign code prints goes to stderr: stdout belongs to the protocol, or to a command."""

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TextIO, cast


class RedirectedStdout:
    """Replaces `sys.stdout`: foreign code gets stderr, all other code the real one."""

    def __init__(self, own: TextIO, is_foreign: Callable[[], bool]) -> None:
        self.own = own
        self._is_foreign = is_foreign

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr if self._is_foreign() else self.own, name)


class Redirection:
    """Redirects what threads print while they are inside its `with` block. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: set[int] = set()
        self._installed: RedirectedStdout | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside.add(threading.get_ident())
            if sys.stdout is not None and not isinstance(sys.stdout, RedirectedStdout):
                self._installed = RedirectedStdout(sys.stdout, lambda: threading.get_ident() in self._inside)
                sys.stdout = cast("TextIO", self._installed)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside.discard(threading.get_ident())
            if not self._inside and self._installed is not None and cast("object", sys.stdout) is self._installed:
                sys.stdout = self._installed.own


stdout_redirected = Redirection()


@contextlib.contextmanager
def only_this_thread() -> Iterator[None]:
    """Keep stdout for this thread; what all others print, and what child processes print, goes to stderr."""
    before, me = sys.stdout, threading.get_ident()
    if before is None:  # stdout was closed
        yield
        return
    before.flush()
    with contextlib.ExitStack() as undone:
        own = before
        with contextlib.suppress(OSError, AttributeError, ValueError):
            if before.fileno() == 1:
                kept = os.dup(1)
                undone.callback(os.close, kept)
                undone.callback(os.dup2, kept, 1)
                os.dup2(2, 1)
                encoding, errors = before.encoding, before.errors
                own = undone.enter_context(open(kept, "w", encoding=encoding, errors=errors, closefd=False))
        sys.stdout = cast("TextIO", RedirectedStdout(own, lambda: threading.get_ident() != me))
        undone.callback(setattr, sys, "stdout", before)
        yield
