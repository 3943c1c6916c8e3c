"""The parent of one program that a server runs; it keeps the program from outliving the server.

A script: `supervisor.py STATUS KEEP PROGRAM ARGUMENT…`. Standard input is a pipe from the server, standard output and
error go to the program, which leads its own process group. A byte `T` on the pipe sends TERM to the group, `K` sends
KILL. When the pipe ends, because the server ended in any way, the program and its descendants are ended, on Linux also
those in other sessions.

Lines on the descriptor STATUS report `started PID`, `failed ERRNO` and `ended STATUS`. The supervisor ends when the
group is empty. It imports as little as possible, because it is started often.
"""

import os
import select
import sys

TYPE_CHECKING = False  # `typing` takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TERM, KILL, PIPE, XFSZ = 15, 9, 13, 25
PR_SET_CHILD_SUBREAPER = 36
ORPHAN_GRACE_S = 0.3
KILL_ROUNDS = 20
"""How often what is left is killed again: a process may start another one just before it is killed."""
REAP_S = 5.0
"""How often it reaps descendants that ended after their own parent."""
LOOK_S = 0.1
"""How often it checks whether the group of an ended leader is empty; ten times less often before an order."""


def main(status: int, keep: str, program: list[str]) -> None:
    """Run the program, obey orders, and stay until its group is empty."""
    if not keep:
        # Python may have set a locale for itself; the program gets the environment of the server.
        os.environ.pop("LC_CTYPE", None)
    os.set_inheritable(status, False)
    adopt_orphans()
    group, problem = start(program)
    if problem:
        attempt(os.write, status, b"failed %d\n" % problem)
        return
    is_gone_by_itself = False
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        attempt(os.write, status, b"started %d\n" % group)
        is_gone_by_itself = follow(group, status)
    finally:
        # Leave no process behind, whatever failed above.
        if not is_gone_by_itself:
            end_orphans(group)


def start(program: list[str]) -> tuple[int, int]:
    """Start the program in its own group; return its process id and 0, or an id and the error number."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        problem = 0
        try:
            os.setpgid(0, 0)
            nowhere = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nowhere, 0)
            restore_signals()
            os.execvp(program[0], program)
        except OSError as error:
            problem = error.errno or 1
        finally:
            os.write(writing, b"%d" % problem)
            os._exit(127)
    os.close(writing)
    problem = int(os.read(reading, 16) or 0)
    os.close(reading)
    if problem:
        os.waitpid(child, 0)
    return child, problem


def restore_signals() -> None:
    """Restore the default action of signals that Python ignores."""
    import _signal  # the module `signal` costs as much as all the rest

    for number in (PIPE, XFSZ):
        _signal.signal(number, _signal.SIG_DFL)


def follow(group: int, status: int) -> bool:
    """Obey orders; return True when the group is empty, False when the server is gone."""
    pidfd = open_pidfd(group)
    watched = [0] if pidfd < 0 else [0, pidfd]
    has_ended = is_asked = False
    while True:
        pause = REAP_S if pidfd >= 0 and not has_ended else LOOK_S if is_asked or not has_ended else 10 * LOOK_S
        ready = select.select(watched, [], [], pause)[0]
        ending = reap(group)
        if ending is not None:
            has_ended = True
            watched = [0]
            attempt(os.write, status, b"ended %d\n" % ending)
        if 0 in ready:
            orders = os.read(0, 64)
            if not orders:
                return has_ended and is_gone(group)
            attempt(os.killpg, group, KILL if b"K" in orders else TERM)
            is_asked = True
        if has_ended and is_gone(group):
            return True


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, where the system supports it."""
    try:
        import _ctypes  # `ctypes` itself takes ten times as long to load

        prctl = _ctypes.dlsym(_ctypes.dlopen(_ctypes.__file__, 0), "prctl")
        _ctypes.call_function(prctl, (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    except (ImportError, AttributeError, OSError):
        pass


def reap(program: int) -> int | None:
    """Reap all children that have ended; return the status of the program if it is among them."""
    status = None
    try:
        while True:
            pid, ending = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            if pid == program:
                status = ending
    except ChildProcessError:
        pass
    return status


def open_pidfd(pid: int) -> int:
    """Return a descriptor that becomes readable at the end of a process; -1 where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def end_orphans(group: int) -> None:
    """End the group and all descendants: send TERM, and soon after KILL."""
    attempt(os.killpg, group, TERM)
    for pid in descendants():
        attempt(os.kill, pid, TERM)
    select.select([], [], [], ORPHAN_GRACE_S)
    attempt(os.killpg, group, KILL)
    for _ in range(KILL_ROUNDS):
        left = descendants()
        if not left:
            return
        for pid in left:
            attempt(os.kill, pid, KILL)
        reap(group)


def descendants() -> list[int]:
    """Return all living descendants; none if the system does not show them."""
    children: dict[int, list[int]] = {}
    for pid, parent, _ in living():
        children.setdefault(parent, []).append(pid)
    found = list(children.get(os.getpid(), ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def is_gone(group: int) -> bool:
    """Return whether no living process is left in the group."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    # Ended processes count for the system until their parent, often process 1, reaps them.
    is_shown = False
    for _, _, its_group in living():
        if its_group == group:
            return False
        is_shown = True
    return is_shown


def living() -> "Iterator[tuple[int, int, int]]":
    """Yield the id, the parent and the group of each living process; none if the system does not show them."""
    names: list[str] = []
    attempt(lambda: names.extend(os.listdir("/proc")))
    for name in filter(str.isdigit, names):
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                state, parent, group = stat.read().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if state not in (b"Z", b"X"):
            yield int(name), int(parent), int(group)


def attempt(action: "Callable[..., object]", *arguments: object) -> bool:
    """Call a function of `os`; return whether it succeeded."""
    try:
        action(*arguments)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
