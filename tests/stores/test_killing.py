"""Writers and Postgres itself are killed at random moments: nothing acknowledged is lost, and nothing is torn.

`CARREL_STORE_KILLS="1000 50"` kills that often; without it, a few times.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = os.environ.get("CARREL_STORE_KILLS", "30 2")
KILLING_S = 900


@pytest.mark.slow
def test_killed_writers_and_a_killed_server_lose_and_tear_nothing() -> None:
    command = (sys.executable, "-m", "tests.support.store_killing", *KILLS.split())
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=KILLING_S, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["problems"] == []
    assert outcome["acknowledged"] > 0
