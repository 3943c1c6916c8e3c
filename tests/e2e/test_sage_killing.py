"""A writer killed at any moment leaves every file whole and loses nothing it acknowledged.

`CARREL_KILLS=1000` kills that often; without it, a hundred times.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = os.environ.get("CARREL_KILLS", "100")
KILLING_S = 600


@pytest.mark.parametrize("how", [("steps",), ("random", KILLS, "1")], ids=["every-step", "random"])
def test_a_killed_writer_leaves_everything_whole(how: tuple[str, ...]) -> None:
    command = (sys.executable, "-m", "tests.support.sage_killing", *how)
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=KILLING_S, check=False
    )

    assert (done.stdout, done.returncode) == ("", 0), done.stderr
