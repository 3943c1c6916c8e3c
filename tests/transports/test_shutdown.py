"""The end of a serving process."""

import subprocess
import sys
import textwrap

LATE_KERNEL = textwrap.dedent(
    """
    import os, signal, threading
    from carrel.transports.shutdown import Ending, Stopped

    with Ending(lambda: None) as ending:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(30)
        except Stopped:
            pass
        threading.Event().wait(0.1)
        signal.alarm(1)  # as the kernel does, late, on a busy machine
        threading.Event().wait(1.1)
    """
)


def test_a_server_that_closes_in_time_is_not_ended_by_a_late_alarm_of_the_kernel() -> None:
    ran = subprocess.run([sys.executable, "-c", LATE_KERNEL], timeout=30, check=False)

    assert ran.returncode == 0
