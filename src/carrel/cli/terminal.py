"""Runs a command in the user's terminal and copies its output.

If our output is a terminal, the command's output is a pseudo-terminal of the same size, so that it keeps its
colours. Its input is ours. It stays in our process group, so the signals of the terminal reach it directly; we
forward other signals. When it is stopped, as by Ctrl-Z, we stop after it, so that the shell gets its terminal
back. A pager reads keys from the terminal that it writes to; meanwhile `Keyboard` forwards what is typed.
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
from typing import Any, Final, Literal, Protocol

from carrel.providers.logs.process import SILENCE_S, SURVIVORS_S

Stream = Literal["out", "err"]

FORWARDED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
JOB_STOPS: Final = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
STOP_QUIET_S: Final = 0.1
"""Silence to wait for before we stop, so that the command's other processes can restore the terminal."""

BUFFER_BYTES: Final = 1 << 22
"""Maximum size of buffered output: a flood is copied in large pieces."""
BUFFER_S: Final = 0.2
"""Maximum age of buffered output."""

_PIPE_BYTES: Final = 1 << 20
_CHUNK: Final = 1 << 18
_LOOK_S: Final = 0.05
_LFLAG, _CC = 3, 6
_TYPED: Final = termios.ICANON | termios.ECHO | termios.ECHONL | termios.ISIG | termios.IEXTEN
"""The flags that control how a terminal treats typed keys."""


class Copy(Protocol):
    """Receives a copy of the command's output."""

    def feed(self, stream: Stream, data: bytes) -> None:
        """Receive bytes."""

    def flush(self) -> None:
        """Called when the command was silent for a while."""


class Outlet:
    """One of the command's two output streams: where it writes, where we read, and our own stream to write to."""

    def __init__(self, stream: Stream, target: int) -> None:
        self.stream: Stream = stream
        self.target = target
        self.is_terminal = os.isatty(target)
        self.source, self.inner = pty.openpty() if self.is_terminal else os.pipe()
        self.is_open = True
        if not self.is_terminal:
            _enlarge(self.source)
        else:
            settings = termios.tcgetattr(self.inner)
            settings[1] &= ~termios.OPOST  # the real terminal processes the output
            termios.tcsetattr(self.inner, termios.TCSANOW, settings)
            self.resize()

    def resize(self) -> None:
        """Set the command's terminal to the size of ours."""
        if self.is_terminal:
            with contextlib.suppress(OSError):
                size = fcntl.ioctl(self.target, termios.TIOCGWINSZ, bytes(8))
                fcntl.ioctl(self.source, termios.TIOCSWINSZ, size)

    def read(self) -> bytes:
        """Return what the command wrote; no bytes at the end."""
        try:
            return os.read(self.source, _CHUNK)
        except OSError as error:
            if error.errno == errno.EIO:  # how a terminal reports the end
                return b""
            raise

    def wants_keys(self) -> bool:
        """Return whether the command reads single keys from this terminal."""
        if not self.is_terminal or not self.is_open:
            return False
        with contextlib.suppress(termios.error):
            return not int(termios.tcgetattr(self.source)[_LFLAG]) & termios.ICANON
        return False

    def pass_on(self, data: bytes) -> bool:
        """Write to our own stream; return False if its reader is gone."""
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
        """Close our end."""
        if self.is_open:
            self.is_open = False
            os.close(self.source)


class Keyboard:
    """Forwards typed keys to a command that reads them from the terminal it writes to, as pagers do.

    Meanwhile our own terminal delivers single keys without echo. It still sends the signals of Ctrl-C and Ctrl-Z
    to the command and to us.
    """

    def __init__(self, outlets: Sequence[Outlet]) -> None:
        self._outlets = outlets
        self._settings: list[Any] | None = None
        self._reader: Outlet | None = None
        self._terminal = -1
        if any(outlet.is_terminal for outlet in outlets):
            with contextlib.suppress(OSError):
                self._terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)

    def source(self) -> int | None:
        """Return the descriptor to read keys from if the command wants keys and is in the foreground, else None."""
        if self._terminal < 0:
            return None
        self._reader = next((outlet for outlet in self._outlets if outlet.wants_keys()), None)
        try:
            if os.tcgetpgrp(self._terminal) != os.getpgrp():
                return None
            if self._reader is None:
                self.restore()
                return None
            self._follow(self._reader)
        except (OSError, termios.error):
            return None
        return self._terminal

    def pass_on(self) -> None:
        """Read typed keys and write them to the command's terminal."""
        typed = os.read(self._terminal, 4_096)
        if self._reader is not None:
            with contextlib.suppress(OSError):
                os.write(self._reader.source, typed)

    def close(self) -> None:
        """Restore our terminal and close it."""
        if self._terminal >= 0:
            with contextlib.suppress(OSError, termios.error):
                if os.tcgetpgrp(self._terminal) == os.getpgrp():
                    self.restore()
            os.close(self._terminal)

    def _follow(self, reader: Outlet) -> None:
        """Copy the command's key settings to our terminal; again after a shell has reset them on a stop."""
        ours = termios.tcgetattr(self._terminal)
        if self._settings is not None and not int(ours[_LFLAG]) & termios.ICANON:
            return
        self._settings = [*ours[:_CC], list(ours[_CC])]
        theirs = termios.tcgetattr(reader.source)
        ours[_LFLAG] = int(ours[_LFLAG]) & ~_TYPED | int(theirs[_LFLAG]) & _TYPED
        ours[0], ours[_CC] = theirs[0], theirs[_CC]
        termios.tcsetattr(self._terminal, termios.TCSADRAIN, ours)

    def restore(self) -> None:
        """Restore the key settings of our terminal."""
        settings, self._settings = self._settings, None
        if settings is not None:
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, settings)


class OutputBuffer:
    """Collects output in order while it arrives fast, and passes it to the copy in large pieces."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._parts: list[tuple[Stream, list[bytes]]] = []
        self._size = 0
        self._since = 0.0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, stream: Stream, data: bytes) -> None:
        """Add bytes; pass everything on if the buffer is large or old."""
        if not self._parts:
            self._since = monotonic()
        if not self._parts or self._parts[-1][0] != stream:
            self._parts.append((stream, []))
        self._parts[-1][1].append(data)
        self._size += len(data)
        if self._size >= BUFFER_BYTES or monotonic() - self._since >= BUFFER_S:
            self.release()

    def flush(self) -> None:
        """Pass everything on, also a line without a line end."""
        self.release()
        self._copy.flush()

    def release(self) -> None:
        """Pass everything on."""
        parts, self._parts, self._size = self._parts, [], 0
        for stream, pieces in parts:
            self._copy.feed(stream, b"".join(pieces))


def _enlarge(pipe: int) -> None:
    """Enlarge a pipe, so that the command rarely waits for us."""
    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def run(command: Sequence[str], environment: Mapping[str, str], copy: Copy) -> int:
    """Run a command; return its exit code, or 128 plus the signal's number. Raise OSError if it cannot start."""
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
    """Forward signals to the command, except those that the terminal has also sent to it."""
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
    """Wait for a signal; return its number, and whether the terminal sent it to the whole process group."""
    wait = getattr(signal, "sigwaitinfo", None)
    if wait is not None:
        info = wait(watched)
        return info.si_signo, info.si_code > 0
    number = signal.sigwait(watched)
    return number, number != signal.SIGTERM and os.isatty(0)


def _follow(child: int, outlets: Sequence[Outlet], copy: Copy) -> int:
    """Pass output on until the command ends, and the output of its children a little longer; return the exit code."""
    keyboard, buffer = Keyboard(outlets), OutputBuffer(copy)
    try:
        return _pass_all(child, outlets, keyboard, buffer)
    finally:
        keyboard.close()
        buffer.release()


def _pass_all(child: int, outlets: Sequence[Outlet], keyboard: Keyboard, buffer: OutputBuffer) -> int:
    code: int | None = None
    until = silence_at = float("inf")
    while True:
        has_read = _pass_ready(outlets, keyboard, buffer, 0 if buffer else _LOOK_S)
        now, is_open = monotonic(), any(outlet.is_open for outlet in outlets)
        if has_read:
            silence_at = now + SILENCE_S
        else:
            buffer.release()
        if now >= silence_at:
            silence_at = float("inf")
            buffer.flush()
        if code is None:
            pid, status = os.waitpid(child, os.WUNTRACED | (os.WNOHANG if is_open else 0))
            if pid and os.WIFSTOPPED(status):
                _stop_too(child, os.WSTOPSIG(status), outlets, keyboard, buffer)
            elif pid:
                code = _exit_code(status)
                until = now + SURVIVORS_S
        elif now >= until or not is_open:
            return code


def _pass_ready(outlets: Sequence[Outlet], keyboard: Keyboard, buffer: OutputBuffer, timeout_s: float) -> bool:
    """Wait for output or keys and pass them on; return whether the command wrote anything."""
    sources = {outlet.source: outlet for outlet in outlets if outlet.is_open}
    if not sources:
        return False
    keys = keyboard.source()
    ready = select.select([*sources, *(() if keys is None else (keys,))], [], [], timeout_s)[0]
    for source in ready:
        if source == keys:
            keyboard.pass_on()
        else:
            _pass_on(sources[source], buffer)
    return any(source in sources for source in ready)


def _stop_too(child: int, number: int, outlets: Sequence[Outlet], keyboard: Keyboard, buffer: OutputBuffer) -> None:
    """Stop this process like the command; when it is continued, continue the command."""
    if number not in JOB_STOPS:
        return
    while _pass_ready(outlets, keyboard, buffer, STOP_QUIET_S):
        pass
    buffer.flush()
    keyboard.restore()
    os.kill(os.getpid(), signal.SIGSTOP)
    for outlet in outlets:
        outlet.resize()
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGCONT)


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _pass_on(outlet: Outlet, buffer: OutputBuffer) -> None:
    data = outlet.read()
    if data:
        is_read = outlet.pass_on(data)
        buffer.add(outlet.stream, data)
        if is_read:
            return
    outlet.close()
