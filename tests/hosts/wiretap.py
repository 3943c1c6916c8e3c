"""Runs `carrel` for a host and records the messages of `carrel serve` in both directions.

`carrel connect` writes the launcher of this script, `bin/carrel`, into the host's settings.
Each server writes `$HOME/wire/<process>.jsonl`: hosts keep most of the environment from a server, but not its home.
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Final

FROM_HOST: Final = b">"
FROM_SERVER: Final = b"<"
CARREL: Final = [sys.executable, "-m", "carrel"]
BIN: Final = Path(__file__).resolve().parent / "bin"


def main(arguments: list[str]) -> int:
    """Run a command of Carrel; record it if it serves."""
    if arguments[:1] == ["connect"]:
        return _connect(arguments)
    if arguments[:1] != ["serve"]:
        return subprocess.run([*CARREL, *arguments], check=False).returncode
    folder = Path.home() / "wire"
    folder.mkdir(exist_ok=True)
    server = subprocess.Popen([*CARREL, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: server.send_signal(number))
    assert server.stdin is not None
    assert server.stdout is not None
    with (folder / f"{os.getpid()}.jsonl").open("ab", buffering=0) as record:
        towards = threading.Thread(
            target=_copy, args=(sys.stdin.buffer, server.stdin, record, FROM_HOST, True), daemon=True
        )
        towards.start()
        _copy(server.stdout, sys.stdout.buffer, record, FROM_SERVER)
        return server.wait()


def _connect(arguments: list[str]) -> int:
    """Run `carrel connect` as an installed Carrel with this launcher."""
    from carrel.cli import main as carrel
    from carrel.connect import program

    sys.argv = ["carrel", *arguments]
    sys.executable = str(BIN / "python")  # the launcher is looked for beside it
    vars(program)["_ALWAYS_CLEARED"] = ()  # the checkout may be in a temporary folder
    return carrel()


def _copy(source: IO[bytes], target: IO[bytes], record: IO[bytes], mark: bytes, last: bool = False) -> None:
    """Copy lines; record each before it is passed on, so that a record is never behind its effects."""
    try:
        for line in iter(source.readline, b""):
            record.write(mark + line)
            target.write(line)
            target.flush()
        if last:
            target.close()
    except (BrokenPipeError, ValueError):
        return  # the other side has gone


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # the thread may still wait for a host that has gone
