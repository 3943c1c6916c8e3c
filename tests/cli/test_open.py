"""The end of a server that was just started for a browser, or for other programs."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.browser.desk import surroundings
from tests.support.sage_folder import put

OPENED = """
    from carrel.cli.open import run_open
    code = run_open(["--project", sys.argv[2]], 0, lambda link: end())
"""
ANNOUNCED = """
    from carrel.cli import serve, serve_http
    serve_http.say = lambda text: end()
    code = serve.run(["--http", "0", "--project", sys.argv[2]])
"""
SCRIPT = textwrap.dedent(
    """
    import os, signal, sys

    def end():
        os.kill(os.getpid(), int(sys.argv[1]))

    {start}
    print("closed properly", file=sys.stderr)
    sys.exit(code)
    """
)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("start", [OPENED, ANNOUNCED])
def test_a_signal_that_comes_when_the_address_is_printed_ends_the_server_properly(
    start: str, number: signal.Signals, tmp_path: Path
) -> None:
    put(tmp_path / "project/README.md", "# Small\n")
    script = SCRIPT.format(start=textwrap.dedent(start).strip())
    command = [sys.executable, "-c", script, str(int(number)), str(tmp_path / "project")]
    ended = subprocess.run(
        command, env=surroundings(tmp_path / "home"), capture_output=True, text=True, check=False, timeout=60
    )

    assert ended.returncode == 0, ended.stderr
    assert "closed properly" in ended.stderr
