"""A real child process on real pipes, fed tens of thousands of lines with garbage between them.

It must not crash or hang, must answer every request exactly once, must write nothing but messages, and must end with
exit code 0 when its input ends.
"""

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

from tests.fuzz.generation import Source, encode
from tests.support.schemas import MODERN, check, with_meta

ROOT = Path(__file__).parents[2]
LINES = 30_000
SAMPLE = 25
TIME_LIMIT_S = 120.0
SCRIPT = """
import logging
from carrel.transports import stdio
from tests.fuzz.generation import make_server
logging.disable()
stdio.serve(make_server())
"""


def requests(source: Source, number: int) -> tuple[str, bytes]:
    """Return a request with an id of its own, and its method."""
    method, params = source.choice(
        (
            ("resources/read", {"uri": "test:///note/007"}),
            ("resources/read", {"uri": source.uri()}),
            ("resources/read", {"uri": "gated:///1"}),
            ("resources/list", {}),
            ("server/discover", {}),
            ("tools/call", {"name": "count", "arguments": {"to": 3}, "_meta": {"progressToken": number}}),
            ("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["eventful:///1"]}}),
            ("nope", {}),
        )
        if not source.one_in(3)
        else (("resources/read", {"uri": "test:///plain"}),)
    )
    if method == "subscriptions/listen" and not source.one_in(50):
        method, params = "resources/templates/list", {}
    message = {"jsonrpc": "2.0", "id": f"r{number}", "method": method, "params": with_meta(params, MODERN)}
    return method, json.dumps(message).encode()


def make_lines(source: Source, count: int) -> tuple[list[bytes], dict[str, str]]:
    """Return lines, and the method of each request among them by its id."""
    lines: list[bytes] = []
    asked: dict[str, str] = {}
    for number in range(count):
        if source.one_in(3):
            line = source.garbled(encode(source, source.message()))
            lines.append(b"" if b"notifications/cancelled" in line else line)
        elif source.one_in(300):
            asked[f"r{number}"] = "too large"
            lines.append(f'{{"jsonrpc":"2.0","id":"r{number}","method":"ping","x":"'.encode() + b"x" * 70_000)
        else:
            asked[f"r{number}"], line = requests(source, number)
            lines.append(line)
    return lines, asked


def run_child(stream: bytes) -> tuple[int, list[bytes], bytes]:
    """Feed a child; return its exit code, the lines it wrote, and its stderr."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    watchdog = threading.Timer(TIME_LIMIT_S, child.kill)
    watchdog.start()
    out, err = child.communicate(stream)
    watchdog.cancel()
    return child.returncode, out.split(b"\n"), err


def test_a_real_server_answers_every_request_once_and_ends_cleanly(source: Source, rounds: int) -> None:
    for _ in range(rounds):
        lines, asked = make_lines(source, LINES)
        code, written, err = run_child(b"\n".join(lines) + source.choice((b"", b"\n")))
        assert (code, written.pop(), err) == (0, b"", b"")
        answered: Counter[object] = Counter()
        for line in written:
            value = json.loads(line)
            request_id = value.get("id") if isinstance(value, dict) else None
            if request_id in asked:
                answered[request_id] += 1
                if source.one_in(SAMPLE):
                    check(line, MODERN, asked[request_id])
        assert answered == Counter(asked.keys())
