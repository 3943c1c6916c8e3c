"""Stands between a server and one program it runs, so that the program never outlives the server.

Run as a script of its own: `supervisor.py STATUS KEEP PROGRAM ARGUMENT…`. Standard input is a pipe
from the server, standard output and error are what the program gets. The program leads a process
group of its own. Bytes on the pipe are orders: `T` asks the group to end, `K` makes it. When the pipe
ends, as when the server was killed, the program is ended with all its descendants; on Linux also with
those in a session of their own.

What happens is told on the descriptor STATUS, a line each: `started PID`, `failed ERRNO`, `ended STATUS`.
It ends when the whole group is gone. It imports as little as it can, since it is started often.
"""

import os
import select
import sys

TERM, KILL, PIPE, XFSZ = 15, 9, 13, 25
PR_SET_CHILD_SUBREAPER = 36
ORPHAN_GRACE_S = 0.3
KILL_ROUNDS = 20
"""How often what is left is killed again: a process may start another one just before it is killed."""
REAP_S = 5.0
"""How often it takes note of descendants that ended after their own parent."""
LOOK_S = 0.1
"""How often it looks whether a group whose leader is gone is gone too; ten times less until somebody asks for it."""


def main(status: int, keep: str, program: list[str]) -> None:
    """Run the program, obey orders, and stay until its group is gone."""
    if not keep:
        # Python may have chosen a locale for itself; the program gets what the server has.
        os.environ.pop("LC_CTYPE", None)
    os.set_inheritable(status, False)
    adopt_orphans()
    group, problem = start(program)
    if problem:
        tell(status, b"failed %d\n" % problem)
        return
    is_gone_by_itself = False
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        tell(status, b"started %d\n" % group)
        is_gone_by_itself = follow(group, status)
    finally:
        # Whatever went wrong here, nobody is left behind.
        if not is_gone_by_itself:
            end_orphans(group)


def start(program: list[str]) -> tuple[int, int]:
    """Start the program in a group of its own; give its number, or the reason why that cannot be."""
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
    """Return the program the signals' usual meaning, where Python ignores them."""
    import _signal  # the module `signal` costs as much as all the rest

    for number in (PIPE, XFSZ):
        _signal.signal(number, _signal.SIG_DFL)


def follow(group: int, status: int) -> bool:
    """Obey until the group is gone; tell whether it is, and not the server."""
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
            tell(status, b"ended %d\n" % ending)
        if 0 in ready:
            orders = os.read(0, 64)
            if not orders:
                return has_ended and is_gone(group)
            send(group, KILL if b"K" in orders else TERM)
            is_asked = True
        if has_ended and is_gone(group):
            return True


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, where the system can do that."""
    try:
        import _ctypes  # `ctypes` itself takes ten times as long to load

        prctl = _ctypes.dlsym(_ctypes.dlopen(_ctypes.__file__, 0), "prctl")
        _ctypes.call_function(prctl, (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    except (ImportError, AttributeError, OSError):
        pass


def reap(program: int) -> int | None:
    """Take note of all that have ended; return the status of the program if it is among them."""
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
    """Return a descriptor that tells of the end of a process; -1 where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def end_orphans(group: int) -> None:
    """End what the server left behind: ask, and soon after make it."""
    send(group, TERM)
    for pid in descendants():
        send_one(pid, TERM)
    select.select([], [], [], ORPHAN_GRACE_S)
    send(group, KILL)
    for _ in range(KILL_ROUNDS):
        left = descendants()
        if not left:
            return
        for pid in left:
            send_one(pid, KILL)
        reap(group)


def descendants() -> list[int]:
    """Return all processes that come from this one and have not ended; none where the system does not show them."""
    children: dict[int, list[int]] = {}
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for name in names:
        facts = facts_of(name)
        if facts is not None and facts[0] not in (b"Z", b"X"):
            children.setdefault(int(facts[1]), []).append(int(name))
    found = list(children.get(os.getpid(), ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def facts_of(name: str) -> tuple[bytes, bytes, bytes] | None:
    """Return the state, the parent and the group of a process, if it is there."""
    try:
        with open(f"/proc/{name}/stat", "rb") as stat:
            state, parent, group = stat.read().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):
        return None
    return state, parent, group


def is_gone(group: int) -> bool:
    """Return whether nobody is left alive in the group."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    # Those that have ended still count until their parent, often process 1, takes note of it.
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return False
    return bool(names) and not any(is_alive_in(group, name) for name in names)


def is_alive_in(group: int, name: str) -> bool:
    """Return whether a process is of the group and has not ended."""
    facts = facts_of(name)
    return facts is not None and int(facts[2]) == group and facts[0] not in (b"Z", b"X")


def send(group: int, number: int) -> bool:
    """Send a signal to everybody in the group; tell whether anybody was there."""
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True


def send_one(pid: int, number: int) -> bool:
    """Send a signal to one process; tell whether it was there."""
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def tell(status: int, line: bytes) -> bool:
    """Tell the server; give whether it is still there."""
    try:
        os.write(status, line)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
