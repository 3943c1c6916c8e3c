"""A command run in the user's terminal as always, while somebody else gets a copy of what it writes.

Where our output is a terminal, the command's is one too (a pseudo-terminal of the same size), so that
it keeps its colours; its input is ours. It stays in our process group: what is typed at the terminal
reaches it without us, and other signals are passed on. When it is stopped, as by Ctrl-Z, we stop after
it, so that the shell has its terminal back. A pager reads its keys from the terminal that it writes its
messages to; while it does, `Keyboard` passes on what is typed.
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
"""We stop when the command's other processes, too, have had the time to leave the terminal in order."""

HELD_BYTES: Final = 1 << 22
"""While more comes at once, this much is held before it is copied: a flood is copied in large pieces."""
HELD_S: Final = 0.2
"""It is held no longer than this, however slowly it is passed on."""

_PIPE_BYTES: Final = 1 << 20
_CHUNK: Final = 1 << 18
_LOOK_S: Final = 0.05
_LFLAG, _CC = 3, 6
_TYPED: Final = termios.ICANON | termios.ECHO | termios.ECHONL | termios.ISIG | termios.IEXTEN
"""What a terminal does with what is typed."""


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
        if not self.is_terminal:
            _enlarge(self.source)
        else:
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

    def wants_keys(self) -> bool:
        """Tell whether the command reads keys from this terminal: it takes them one by one."""
        if not self.is_terminal or not self.is_open:
            return False
        with contextlib.suppress(termios.error):
            return not int(termios.tcgetattr(self.source)[_LFLAG]) & termios.ICANON
        return False

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


class Keyboard:
    """Passes on what is typed to a command that reads its keys from the terminal it writes to, as pagers do.

    Our own terminal then gives keys one by one too, and does not show them. Typed signals still come from it,
    so that the command and we get them as always.
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
        """Return the descriptor to read keys from, while the command wants them and is in the foreground."""
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
        """Read what was typed, and hand it to the command."""
        typed = os.read(self._terminal, 4_096)
        if self._reader is not None:
            with contextlib.suppress(OSError):
                os.write(self._reader.source, typed)

    def close(self) -> None:
        """Leave our terminal as it was."""
        if self._terminal >= 0:
            with contextlib.suppress(OSError, termios.error):
                if os.tcgetpgrp(self._terminal) == os.getpgrp():
                    self.restore()
            os.close(self._terminal)

    def _follow(self, reader: Outlet) -> None:
        """Give our terminal the command's ways with keys; also after a shell took them back, as it does on a stop."""
        ours = termios.tcgetattr(self._terminal)
        if self._settings is not None and not int(ours[_LFLAG]) & termios.ICANON:
            return
        self._settings = [*ours[:_CC], list(ours[_CC])]
        theirs = termios.tcgetattr(reader.source)
        ours[_LFLAG] = int(ours[_LFLAG]) & ~_TYPED | int(theirs[_LFLAG]) & _TYPED
        ours[0], ours[_CC] = theirs[0], theirs[_CC]
        termios.tcsetattr(self._terminal, termios.TCSADRAIN, ours)

    def restore(self) -> None:
        """Give our terminal back its own ways with keys."""
        settings, self._settings = self._settings, None
        if settings is not None:
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, settings)


class HeldOutput:
    """What is to be copied, in the order in which it came: held while more comes at once."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._parts: list[tuple[Stream, list[bytes]]] = []
        self._size = 0
        self._since = 0.0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, stream: Stream, data: bytes) -> None:
        """Take bytes; copy all that is held when it is much, or has been held for long."""
        if not self._parts:
            self._since = monotonic()
        if not self._parts or self._parts[-1][0] != stream:
            self._parts.append((stream, []))
        self._parts[-1][1].append(data)
        self._size += len(data)
        if self._size >= HELD_BYTES or monotonic() - self._since >= HELD_S:
            self.release()

    def flush(self) -> None:
        """Copy all that is held, also a line that has not ended."""
        self.release()
        self._copy.flush()

    def release(self) -> None:
        """Copy all that is held."""
        parts, self._parts, self._size = self._parts, [], 0
        for stream, pieces in parts:
            self._copy.feed(stream, b"".join(pieces))


def _enlarge(pipe: int) -> None:
    """Let a command write much before it waits for us."""
    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


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
    keyboard, held = Keyboard(outlets), HeldOutput(copy)
    try:
        return _pass_all(child, outlets, keyboard, held)
    finally:
        keyboard.close()
        held.release()


def _pass_all(child: int, outlets: Sequence[Outlet], keyboard: Keyboard, held: HeldOutput) -> int:
    code: int | None = None
    until = silence_at = float("inf")
    while True:
        has_read = _pass_ready(outlets, keyboard, held, 0 if held else _LOOK_S)
        now, is_open = monotonic(), any(outlet.is_open for outlet in outlets)
        if has_read:
            silence_at = now + SILENCE_S
        else:
            held.release()
        if now >= silence_at:
            silence_at = float("inf")
            held.flush()
        if code is None:
            pid, status = os.waitpid(child, os.WUNTRACED | (os.WNOHANG if is_open else 0))
            if pid and os.WIFSTOPPED(status):
                _stop_too(child, os.WSTOPSIG(status), outlets, keyboard, held)
            elif pid:
                code = _exit_code(status)
                until = now + SURVIVORS_S
        elif now >= until or not is_open:
            return code


def _pass_ready(outlets: Sequence[Outlet], keyboard: Keyboard, held: HeldOutput, timeout_s: float) -> bool:
    """Wait for something to pass on, and do so; return whether the command wrote anything."""
    sources = {outlet.source: outlet for outlet in outlets if outlet.is_open}
    if not sources:
        return False
    keys = keyboard.source()
    ready = select.select([*sources, *(() if keys is None else (keys,))], [], [], timeout_s)[0]
    for source in ready:
        if source == keys:
            keyboard.pass_on()
        else:
            _pass_on(sources[source], held)
    return any(source in sources for source in ready)


def _stop_too(child: int, number: int, outlets: Sequence[Outlet], keyboard: Keyboard, held: HeldOutput) -> None:
    """Stop as the command has, until somebody has us go on; then it goes on too."""
    if number not in JOB_STOPS:
        return
    while _pass_ready(outlets, keyboard, held, STOP_QUIET_S):
        pass
    held.flush()
    keyboard.restore()
    os.kill(os.getpid(), signal.SIGSTOP)
    for outlet in outlets:
        outlet.resize()
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGCONT)


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _pass_on(outlet: Outlet, held: HeldOutput) -> None:
    data = outlet.read()
    if data:
        is_read = outlet.pass_on(data)
        held.add(outlet.stream, data)
        if is_read:
            return
    outlet.close()
