"""Child processes: started without a shell, captured, stopped with all their group, reaped.

One thread follows all children. Each has a small supervisor (`supervisor`) as its parent,
which ends the child's process group when this process is gone, however it went. What a
child writes is handed on in the order of its arrival; a child that writes faster than
that is slowed by its full pipe.
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
"""An unfinished line is handed on after this."""
SURVIVORS_S: Final = 2.0
"""How long the output of a child's own children is read after its end."""
_CHUNK: Final = 1 << 14
_PIPE_CHUNKS: Final = 64
_BUSY_S: Final = 0.0005
_PAUSE_S: Final = 0.0005
"""After so much work in one go the thread rests for a moment. Python lets one thread run at a time, and who answers
a request would otherwise wait for it at each system call."""
_SUPERVISOR: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "supervisor.py")
_REASONS: Final = {
    errno.ENOENT: "there is no such program",
    errno.ENOTDIR: "there is no such program",
    errno.EACCES: "it may not be executed",
    errno.ENOEXEC: "it is no program this system can run",
}
_REFUSED: Final = "the system refused to start it"


class Launch(Value, frozen=True):
    """What to run: an argument list, where, and with which environment. 0 s is no time limit."""

    argv: Sequence[str]
    cwd: str
    environment: Mapping[str, str]
    timeout_s: float = 0


class ProcessOutput(Protocol):
    """Takes what a child writes, and what becomes of it; called from the one thread that follows children."""

    def write(self, stream: Stream, data: bytes) -> None:
        """Take bytes."""

    def pause(self, stream: Stream) -> None:
        """Learn that a stream was silent for a while."""

    def end(self, end: End, exit_code: int | None, reason: str) -> None:
        """Learn that it is over; `reason` says why a program was not started."""


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
        self.told = b""
        self.is_released = False
        self.timeout_at = self.kill_at = self.survivors_at = float("inf")
        self._changed = threading.Condition()

    @property
    def is_over(self) -> bool:
        """Whether it has ended and everything it wrote was taken."""
        return self.end is not None

    def wait_until_started(self, timeout_s: float) -> bool:
        """Wait until it runs or has ended; tell whether it got that far."""
        with self._changed:
            return self._changed.wait_for(lambda: self.group is not None or self.end is not None, timeout_s)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is over; tell whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self.end is not None, timeout_s)

    def change(self, **values: object) -> None:
        """Set attributes and wake whoever waits."""
        with self._changed:
            for name, value in values.items():
                setattr(self, name, value)
            self._changed.notify_all()


class Processes:
    """The children of this process. Its thread lives while there are any."""

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
        """Start a program; what cannot be started ends at once as `not-started`."""
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
        """Ask a child's whole group to end, and make it after a while; does not wait."""
        self._order(partial(self._begin_end, process, end))

    def running(self) -> int:
        """Count the children that are alive, or have left somebody in their group."""
        with self._lock:
            return len(self._alive)

    def close(self) -> None:
        """End all groups and wait until they are gone; a second call does nothing."""
        with self._lock:
            self._is_closed = True
            thread, alive = self._thread, tuple(self._alive)
        for process in alive:
            self.stop(process)
        if thread is not None:
            thread.join(self.grace_s + 0.5)

    # Starting, on the caller's thread

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
        """Have the thread do something; start it where there is anybody to follow and it is not running."""
        with self._lock:
            if not self._alive:
                return
            self._orders.append(order)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="carrel-processes", daemon=True)
                self._thread.start()
            elif self._waker >= 0:
                os.write(self._waker, b".")

    # The thread

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
        """Do what was ordered; tell whether there is anything left to follow."""
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
            return  # closed by what was ready before it
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
        *lines, process.told = (process.told + data).split(b"\n")
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
        """Let go of the supervisor: the group is gone, or somebody killed the supervisor itself."""
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
        """Take what is left in a pipe, and let go of it."""
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
        """Finish a child that has ended and whose output was taken; one that is being ended, with all its group."""
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
        """Ask a group to end, once; also what a child that is over has left in its group."""
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
