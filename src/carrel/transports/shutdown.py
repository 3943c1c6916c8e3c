"""End a serving process after a signal or the end of input, in limited time whatever its threads do.

Python runs a signal handler on the main thread, between two instructions. A main thread inside a call that does not
return never runs it. So a thread of this module gets the signal too (`signal.set_wakeup_fd`) and ends the process when
its time is over. Child processes have a supervisor that ends them when the server is gone.

A C call that holds the interpreter's lock, such as a regular expression that backtracks, stops every Python thread. On
Linux, the kernel ends the process in this case: a write to the wake-up pipe sends SIGHUP (`F_SETSIG`), whose handler is
the C function `alarm`. Called with the number of the signal, which is 1, it sends SIGALRM a second later.
"""

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from time import monotonic
from types import FrameType
from typing import Final

from carrel.core.limits import FORCED_END_S
from carrel.transports.heap import share_heap

_ENDING: Final = (signal.SIGTERM, signal.SIGINT)
_NOTICE_S: Final = 0.05
_LATEST_NOTICE_S: Final = 0.4
"""A main thread that has not noticed a signal after this time counts as stuck."""
_KERNEL_S: Final = FORCED_END_S + 0.3
"""When the kernel ends the process, if the thread of this module cannot run."""
_PREPARE_S: Final = 1.0
"""After the first answers: preparing the kernel imports ctypes, which takes 2 to 3 ms."""
_LEAVE_S: Final = 0.4
"""Time for the interpreter to end its threads and run exit functions."""
_F_SETSIG: Final = 10
_ASKED: Final = b"\0"


class Stopped(BaseException):
    """The process was asked to end. Raised on the main thread."""


class Ending:
    """A context, on the main thread, in which SIGTERM and SIGINT end the process in limited time.

    `finish` closes what is served. The main thread calls it after `notice`; if it is stuck, another thread does. The
    process is ended by force if the context is not left within `FORCED_END_S`.
    """

    def __init__(self, finish: Callable[[], object], *, raises: bool = True) -> None:
        """With `raises`, a signal raises `Stopped` on the main thread; without, it only sets `is_asked`."""
        self._finish = finish
        self._raises = raises
        self.is_asked = False
        """Whether a signal has asked the process to end."""
        self._noticed = threading.Event()
        self._left = threading.Event()

    def __enter__(self) -> "Ending":
        """Start to watch."""
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._before = {number: signal.signal(number, self._handle) for number in _ENDING}
        self._wakeup_before = self.claim_signals()
        self._main = threading.get_ident()
        self._may_use_kernel = signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
        share_heap()  # this is the first thread of a server
        threading.Thread(target=self._watch, name="carrel-ending", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the signal handlers."""
        self._left.set()
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._write_end)
        if self._may_use_kernel:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, action in self._before.items():
            signal.signal(number, action)

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        """Handle a signal that ends the process."""
        self.is_asked = True
        if self._raises:
            self.notice()
            raise Stopped

    def claim_signals(self) -> int:
        """Receive signals here again, on the main thread: uvloop redirects them. Return the former descriptor."""
        return signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)

    def notice(self) -> None:
        """Note, on the main thread, that it is about to finish."""
        self._noticed.set()
        for number in _ENDING:
            signal.signal(number, signal.SIG_IGN)

    def begin(self) -> None:
        """Start to end the process, from any thread."""
        with contextlib.suppress(OSError):
            os.write(self._write_end, _ASKED)

    # The thread

    def _watch(self) -> None:
        for numbers in self._numbers():
            if not numbers.isdisjoint({*_ENDING, _ASKED[0]}):
                self._end(numbers)
                break
            signal.setitimer(signal.ITIMER_REAL, 0)  # the kernel set it for a signal that does not end the process
        os.close(self._read_end)

    def _numbers(self) -> Iterator[set[int]]:
        """Yield the numbers of signals until the pipe is closed; prepare the kernel once the server is idle."""
        ready, _, _ = select.select([self._read_end], [], [], _PREPARE_S)
        if not ready and self._may_use_kernel:
            _arm_kernel(self._read_end)
        while numbers := os.read(self._read_end, 64):
            yield set(numbers)

    def _end(self, numbers: set[int]) -> None:
        """Make sure that the process ends."""
        began = monotonic()
        if self._left.is_set():
            return
        _disarm_kernel(self._read_end)
        again = next((number for number in _ENDING if number in numbers), None) if self._raises else None
        is_stuck = False
        self._restart_alarm(began)
        while not self._left.wait(_NOTICE_S):
            self._restart_alarm(began)
            passed = monotonic() - began
            if passed > FORCED_END_S:
                os._exit(0)
            if self._noticed.is_set() or is_stuck:
                continue
            if passed > _LATEST_NOTICE_S:
                is_stuck = True
                threading.Thread(target=self._finish, name="carrel-finishing", daemon=True).start()
            elif again is not None:
                # A signal just before a blocking read is noticed only when it is sent again.
                signal.pthread_kill(self._main, again)

    def _restart_alarm(self, began: float) -> None:
        """Restart the alarm with the whole time. A signal from the kernel may come late, so this is repeated."""
        signal.setitimer(signal.ITIMER_REAL, max(began + _KERNEL_S - monotonic(), _NOTICE_S))
        if self._left.is_set():  # the main thread may have stopped the timer before it was set here
            signal.setitimer(signal.ITIMER_REAL, 0)


def exit_in_time(code: int) -> None:
    """End the process soon after its main thread has returned, even if threads of a provider do not end."""

    def end() -> None:
        threading.main_thread().join()
        threading.Event().wait(_LEAVE_S)
        os._exit(code)

    threading.Thread(target=end, name="carrel-ending", daemon=True).start()


def _disarm_kernel(pipe: int) -> None:
    """Stop the kernel from ending the process: a repeated signal would end it early."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl  # not on every system

        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) & ~os.O_ASYNC)


def _arm_kernel(pipe: int) -> None:
    """Make the kernel end the process with SIGALRM a second after a write to the pipe, unless that is stopped."""
    try:
        import ctypes  # takes a while
        import fcntl  # not on every system

        library = ctypes.CDLL(None)
        library.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
        library.signal.restype = ctypes.c_void_p
        fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(pipe, _F_SETSIG, signal.SIGHUP)
        # The handler first: without it, the signal of a write in between would end the process.
        library.signal(signal.SIGHUP, ctypes.cast(library.alarm, ctypes.c_void_p))
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    except (ImportError, AttributeError, OSError):
        pass  # not Linux: a call that holds the interpreter's lock must be killed by the user
