"""A command run in the user's terminal as always, while somebody else gets a copy of what it writes.

Where our output is a terminal, the command's is one too (a pseudo-terminal of the same size), so that
it keeps its colours; its input is ours. It stays in our process group: what is typed at the terminal
reaches it without us, and other signals are passed on.
"""

import contextlib
import errno
import fcntl
import os
import pty
import select
import signal
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from typing import Final, Literal, Protocol

from carrel.processes import SILENCE_S, SURVIVORS_S

Stream = Literal["out", "err"]

FORWARDED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_CHUNK: Final = 1 << 16
_LOOK_S: Final = 0.05


class Copy(Protocol):
    """Takes a copy of what the command writes."""

    def feed(self, stream: Stream, data: bytes) -> None:
        """Take bytes."""

    def flush(self) -> None:
        """Learn that the command was silent for a while."""


class Outlet:
    """One of the command's two output streams: where it writes, where we read, and our own where it goes."""

    def __init__(self, stream: Stream, target: int) -> None:
        self.stream: Stream = stream
        self.target = target
        self.is_terminal = os.isatty(target)
        self.source, self.inner = pty.openpty() if self.is_terminal else os.pipe()
        self.is_open = True
        if self.is_terminal:
            settings = termios.tcgetattr(self.inner)
            settings[1] &= ~termios.OPOST  # the real terminal does that
            termios.tcsetattr(self.inner, termios.TCSANOW, settings)
            self.resize()

    def resize(self) -> None:
        """Give the command's terminal the size of ours."""
        if self.is_terminal:
            with contextlib.suppress(OSError):
                size = fcntl.ioctl(self.target, termios.TIOCGWINSZ, bytes(8))
                fcntl.ioctl(self.source, termios.TIOCSWINSZ, size)

    def read(self) -> bytes:
        """Give what was written; nothing at the end."""
        try:
            return os.read(self.source, _CHUNK)
        except OSError as error:
            if error.errno == errno.EIO:  # the end, on a terminal
                return b""
            raise

    def pass_on(self, data: bytes) -> bool:
        """Write to our own stream; tell whether anybody still reads it."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self.target, rest) :]
            except BlockingIOError:
                select.select([], [self.target], [])
            except OSError:
                return False
        return True

    def close(self) -> None:
        """Let go of our end."""
        if self.is_open:
            self.is_open = False
            os.close(self.source)


def run(command: Sequence[str], environment: Mapping[str, str], copy: Copy) -> int:
    """Run a command to its end; give its exit code, or 128 and a signal's number. OSError is why it cannot run."""
    watched = {*FORWARDED, signal.SIGWINCH}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    outlets = [Outlet("out", 1), Outlet("err", 2)]
    try:
        try:
            child = os.posix_spawnp(
                command[0],
                list(command),
                environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, outlet.inner, outlet.target) for outlet in outlets],
                setsigmask=before,
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
        finally:
            for outlet in outlets:
                os.close(outlet.inner)
        with _forwarding(child, watched, outlets):
            return _follow(child, outlets, copy)
    finally:
        for outlet in outlets:
            outlet.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _forwarding(child: int, watched: set[signal.Signals], outlets: Sequence[Outlet]) -> Iterator[None]:
    """Pass signals on meanwhile, but not those that the terminal sent to the command as well."""
    stop = threading.Event()

    def forward() -> None:
        while not stop.is_set():
            number, is_typed = _next_signal(watched)
            if stop.is_set():
                return
            if number == signal.SIGWINCH:
                for outlet in outlets:
                    outlet.resize()
            if not is_typed or number == signal.SIGWINCH:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, number)

    thread = threading.Thread(target=forward, name="carrel-signals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        signal.pthread_kill(thread.ident or 0, signal.SIGWINCH)
        thread.join()


def _next_signal(watched: set[signal.Signals]) -> tuple[int, bool]:
    """Wait for a signal; tell also whether the terminal sent it, to the whole group, and not some process to us."""
    wait = getattr(signal, "sigwaitinfo", None)
    if wait is not None:
        told = wait(watched)
        return told.si_signo, told.si_code > 0
    number = signal.sigwait(watched)
    return number, number != signal.SIGTERM and os.isatty(0)


def _follow(child: int, outlets: Sequence[Outlet], copy: Copy) -> int:
    """Pass on what the command writes until it has ended; what its own children write, a little longer."""
    code: int | None = None
    until = silence_at = float("inf")
    while True:
        sources = {outlet.source: outlet for outlet in outlets if outlet.is_open}
        ready = select.select(list(sources), [], [], _LOOK_S)[0] if sources else []
        now = monotonic()
        for source in ready:
            _pass_on(sources[source], copy)
            silence_at = now + SILENCE_S
        if now >= silence_at:
            silence_at = float("inf")
            copy.flush()
        if code is None:
            code = _exit_code(child, is_awaited=not sources)
            until = now + SURVIVORS_S
        elif now >= until or not sources:
            return code


def _exit_code(child: int, *, is_awaited: bool) -> int | None:
    """Give the exit code of a child that has ended; wait for that where it has nothing more to write."""
    pid, status = os.waitpid(child, 0 if is_awaited else os.WNOHANG)
    if not pid:
        return None
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _pass_on(outlet: Outlet, copy: Copy) -> None:
    data = outlet.read()
    if data:
        is_read = outlet.pass_on(data)
        copy.feed(outlet.stream, data)
        if is_read:
            return
    outlet.close()
