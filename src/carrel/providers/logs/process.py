"""Child processes: started without a shell, captured, stopped with their process group, reaped.

One thread follows all children. The parent of each is a small supervisor (`supervisor`), which ends the child's process
group when this process ends in any way. Output is passed on in the order of its arrival; a full pipe slows down a child
that writes faster.
"""

import contextlib
import errno
import logging
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic, sleep
from typing import Final, Literal, Protocol

from carrel.core.record import Value
from carrel.providers.logs.ring import Stream

log = logging.getLogger(__name__)

End = Literal["exited", "stopped", "timed-out", "cancelled", "not-started", "lost"]

SILENCE_S: Final = 1.0
"""Silence after which an unfinished line is passed on."""
SURVIVORS_S: Final = 2.0
"""How long the output of surviving grandchildren is read after the end of a child."""
_CHUNK: Final = 1 << 14
_PIPE_CHUNKS: Final = 64
_BUSY_S: Final = 0.0005
_PAUSE_S: Final = 0.0005
"""After `_BUSY_S` of work the thread pauses: otherwise a thread that answers a request would wait for Python's global
lock at each system call."""
_SUPERVISOR: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "supervisor.py")
_REASONS: Final = {
    errno.ENOENT: "there is no such program",
    errno.ENOTDIR: "there is no such program",
    errno.EACCES: "it may not be executed",
    errno.ENOEXEC: "this system cannot run it",
}
_REFUSED: Final = "the system refused to start it"


class Launch(Value, frozen=True):
    """A program to run: argument list, working folder, environment and time limit (0 for no limit)."""

    argv: Sequence[str]
    cwd: str
    environment: Mapping[str, str]
    timeout_s: float = 0


class ProcessOutput(Protocol):
    """Receives the output and the end of a child, on the thread that follows children."""

    def write(self, stream: Stream, data: bytes) -> None:
        """Receive bytes."""

    def pause(self, stream: Stream) -> None:
        """Learn that a stream was silent for `SILENCE_S`."""

    def end(self, end: End, exit_code: int | None, reason: str) -> None:
        """Learn that the child has ended; `reason` says why it was not started."""


class Process:
    """One child."""

    def __init__(self, launch: Launch, output: ProcessOutput) -> None:
        self.launch = launch
        self.end: End | None = None
        self.exit_code: int | None = None
        self.group: int | None = None
        self.signal: str | None = None
        self.output = output
        self.supervisor: subprocess.Popen[bytes] | None = None
        self.wanted_end: End | None = None
        self.streams: dict[int, Stream] = {}
        self.silence_at: dict[Stream, float] = {}
        self.status = self.control = -1
        self.unread_status = b""
        self.is_released = False
        self.timeout_at = self.kill_at = self.survivors_at = float("inf")
        self._changed = threading.Condition()

    @property
    def is_over(self) -> bool:
        """Whether it has ended and all its output was passed on."""
        return self.end is not None

    def wait_until_started(self, timeout_s: float) -> bool:
        """Wait until it runs or has ended; return whether that happened in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.group is not None or self.end is not None, timeout_s)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is over; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self.end is not None, timeout_s)

    def change(self, **values: object) -> None:
        """Set attributes and wake waiting threads."""
        with self._changed:
            for name, value in values.items():
                setattr(self, name, value)
            self._changed.notify_all()


class Processes:
    """The children of this process, and the thread that follows them."""

    def __init__(self, grace_s: float) -> None:
        self.grace_s = grace_s
        self._lock = threading.Lock()
        self._alive: set[Process] = set()
        self._orders: list[Callable[[], None]] = []
        self._thread: threading.Thread | None = None
        self._selector: selectors.BaseSelector | None = None
        self._waker = -1
        self._is_closed = False

    def start(self, launch: Launch, output: ProcessOutput) -> Process:
        """Start a program; one that cannot be started ends at once as `not-started`."""
        process = Process(launch, output)
        try:
            if self._is_closed:
                raise BlockingIOError(errno.EAGAIN, "closed")
            self._spawn(process)
        except (OSError, ValueError) as error:
            log.info("not started: %s", error)
            number = error.errno if isinstance(error, OSError) else None
            self._finish(process, "not-started", _REASONS.get(number or 0, _REFUSED))
            return process
        with self._lock:
            self._alive.add(process)
        self._order(partial(self._adopt, process))
        return process

    def stop(self, process: Process, end: End = "stopped") -> None:
        """Send TERM to a child's group, and KILL after the grace period; do not wait."""
        self._order(partial(self._begin_end, process, end))

    def running(self) -> int:
        """Return the number of children that run, or whose group is not empty."""
        with self._lock:
            return len(self._alive)

    def close(self) -> None:
        """End all groups and wait until they are empty; a second call does nothing."""
        with self._lock:
            self._is_closed = True
            thread, alive = self._thread, tuple(self._alive)
        for process in alive:
            self.stop(process)
        if thread is not None:
            thread.join(self.grace_s + 0.5)

    # On the caller's thread

    def _spawn(self, process: Process) -> None:
        pipes = [os.pipe() for _ in range(4)]
        (orders, process.control), (out, out_end), (err, err_end), (process.status, status_end) = pipes
        launch = process.launch
        keeps_locale = "1" if "LC_CTYPE" in launch.environment else ""
        command = [sys.executable, "-I", "-S", _SUPERVISOR, str(status_end), keeps_locale, *launch.argv]
        try:
            process.supervisor = subprocess.Popen(
                command,
                stdin=orders,
                stdout=out_end,
                stderr=err_end,
                cwd=launch.cwd,
                env=dict(launch.environment),
                pass_fds=(status_end,),
                start_new_session=True,
            )
        except BaseException:
            for descriptor in (process.control, process.status, out, err):
                os.close(descriptor)
            raise
        finally:
            for descriptor in (orders, out_end, err_end, status_end):
                os.close(descriptor)
        process.streams = {out: "out", err: "err"}
        if launch.timeout_s:
            process.timeout_at = monotonic() + launch.timeout_s

    def _order(self, order: Callable[[], None]) -> None:
        """Let the thread call `order`; start the thread if it does not run. Do nothing if there are no children."""
        with self._lock:
            if not self._alive:
                return
            self._orders.append(order)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="carrel-processes", daemon=True)
                self._thread.start()
            elif self._waker >= 0:
                os.write(self._waker, b".")

    # On the thread that follows children

    def _run(self) -> None:
        waking, waker = os.pipe()
        with selectors.DefaultSelector() as selector:
            selector.register(waking, selectors.EVENT_READ, lambda: os.read(waking, 512))
            self._selector = selector
            with self._lock:
                self._waker = waker
            while self._obey():
                began = monotonic()
                ready = selector.select(max(0.0, self._next_time() - began))
                began = monotonic()
                for key, _ in ready:
                    key.data()
                    if monotonic() - began > _BUSY_S:
                        sleep(_PAUSE_S)
                        began = monotonic()
                self._keep_time(monotonic())
        os.close(waking)
        os.close(waker)

    def _obey(self) -> bool:
        """Call the orders; return whether there are children left."""
        while True:
            with self._lock:
                orders, self._orders = self._orders, []
                if not orders and not self._alive:
                    self._thread, self._waker = None, -1
                    return False
            if not orders:
                return True
            for order in orders:
                order()

    def _adopt(self, process: Process) -> None:
        assert self._selector is not None
        for descriptor, stream in process.streams.items():
            os.set_blocking(descriptor, False)
            self._selector.register(descriptor, selectors.EVENT_READ, partial(self._read, process, descriptor, stream))
        self._selector.register(process.status, selectors.EVENT_READ, partial(self._read_status, process))

    def _read(self, process: Process, descriptor: int, stream: Stream) -> None:
        if descriptor not in process.streams:
            return  # closed by an earlier event
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            process.output.write(stream, data)
            process.silence_at[stream] = monotonic() + SILENCE_S
            return
        self._close_stream(process, descriptor)
        self._finish_if_over(process)

    def _read_status(self, process: Process) -> None:
        data = os.read(process.status, 512)
        *lines, process.unread_status = (process.unread_status + data).split(b"\n")
        for line in lines:
            word, _, number = line.partition(b" ")
            if word == b"started":
                process.change(group=int(number))
            elif word == b"failed":
                self._finish(process, "not-started", _REASONS.get(int(number), _REFUSED))
            elif word == b"ended":
                code = os.waitstatus_to_exitcode(int(number))
                process.exit_code = 128 - code if code < 0 else code
                process.survivors_at = monotonic() + SURVIVORS_S
                self._finish_if_over(process)
        if not data:
            self._release(process)

    def _release(self, process: Process) -> None:
        """Reap the supervisor: the group is empty, or the supervisor was killed."""
        assert self._selector is not None
        assert process.supervisor is not None
        self._selector.unregister(process.status)
        os.close(process.status)
        os.close(process.control)
        process.control = -1
        process.supervisor.wait()
        process.is_released = True
        if process.exit_code is None and not process.is_over:
            process.wanted_end = process.wanted_end or "lost"
            if process.group is not None:
                with contextlib.suppress(OSError):
                    os.killpg(process.group, signal.SIGKILL)
        if process.wanted_end is not None:
            for descriptor in tuple(process.streams):
                self._drain(process, descriptor)
        self._finish_if_over(process)

    def _drain(self, process: Process, descriptor: int) -> None:
        """Read the rest of a pipe, and close it."""
        with contextlib.suppress(OSError):
            for _ in range(_PIPE_CHUNKS):
                data = os.read(descriptor, _CHUNK)
                if not data:
                    break
                process.output.write(process.streams[descriptor], data)
        self._close_stream(process, descriptor)

    def _close_stream(self, process: Process, descriptor: int) -> None:
        assert self._selector is not None
        self._selector.unregister(descriptor)
        os.close(descriptor)
        del process.streams[descriptor]

    def _finish_if_over(self, process: Process) -> None:
        """Finish a child that has ended and whose output was read; a stopped one only when its group is empty."""
        is_known = process.exit_code is not None or process.wanted_end == "lost"
        is_whole = process.wanted_end is None or process.is_released
        if is_known and is_whole and not process.streams and not process.is_over:
            self._finish(process, process.wanted_end or "exited")
        if process.is_over and process.is_released:
            for descriptor in tuple(process.streams):
                self._close_stream(process, descriptor)
            with self._lock:
                self._alive.discard(process)

    def _finish(self, process: Process, end: End, reason: str = "") -> None:
        process.output.end(end, process.exit_code, reason)
        process.change(end=end)

    # Time

    def _begin_end(self, process: Process, end: End) -> None:
        """Send TERM to a group, once; also to the processes that an ended child left in it."""
        if process.signal is not None or process.is_released:
            return
        if process.exit_code is None and not process.is_over:
            process.wanted_end = end
        process.signal = "SIGTERM"
        process.timeout_at = float("inf")
        process.kill_at = monotonic() + self.grace_s
        self._send(process, b"T")

    def _send(self, process: Process, order: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(process.control, order)

    def _next_time(self) -> float:
        times = [monotonic() + 60.0]
        for process in tuple(self._alive):
            times += (process.timeout_at, process.kill_at, process.survivors_at, *process.silence_at.values())
        return min(times)

    def _keep_time(self, now: float) -> None:
        for process in tuple(self._alive):
            for stream, at in tuple(process.silence_at.items()):
                if at <= now:
                    del process.silence_at[stream]
                    if not process.is_over:
                        process.output.pause(stream)
            if process.timeout_at <= now:
                self._begin_end(process, "timed-out")
            if process.kill_at <= now:
                process.kill_at = float("inf")
                process.signal = "SIGKILL"
                self._send(process, b"K")
            if process.survivors_at <= now:
                process.survivors_at = float("inf")
                for descriptor in tuple(process.streams):
                    self._drain(process, descriptor)
                self._finish_if_over(process)
