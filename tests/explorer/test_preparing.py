"""What the first pages need is there before the first is asked for."""

import subprocess
import sys

import pytest

CODE = """
import sys
from carrel.explorer.preparing import prepare
prepare()
before = set(sys.modules)
from carrel.explorer.templating import environment
assert environment().get_template("folder.html") is environment().get_template("folder.html")
from carrel.explorer.explorer import Explorer
from carrel.explorer.rendering.rendering import render
print(sorted(set(sys.modules) - before))
"""


@pytest.mark.slow
def test_nothing_is_left_to_import() -> None:
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
