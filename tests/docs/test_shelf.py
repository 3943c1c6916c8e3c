"""The code of docs/providers/shelf.md, run as a reader would."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from carrel.client.client import Client
from carrel.core.model import Text

PAGE = (Path(__file__).resolve().parents[2] / "docs/providers/shelf.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
IMPORTS = "from collections.abc import Iterator\nfrom pathlib import Path\nfrom typing import Literal\n"


@pytest.fixture(name="folder")
def followed_page(tmp_path: Path) -> Path:
    (tmp_path / "garden.py").write_text("\n\n".join([IMPORTS, *BLOCKS]), encoding="utf-8")
    (tmp_path / "diary.md").write_text("".join(f"day {day}\n" for day in range(20)), encoding="utf-8")
    return tmp_path


@pytest.fixture(name="client")
def served_page(folder: Path) -> Iterator[Client]:
    command = [sys.executable, "-m", "carrel", "serve", "garden.py", "--quiet"]
    with Client.start(command, cwd=folder) as client:
        yield client


@pytest.mark.slow
def test_the_first_example_has_at_most_ten_lines_and_runs_by_itself(tmp_path: Path) -> None:
    assert len([line for line in BLOCKS[0].splitlines() if line]) <= 10
    (tmp_path / "garden.py").write_text(BLOCKS[0], encoding="utf-8")
    said = [
        subprocess.run(
            [sys.executable, "-m", *line.split()],
            cwd=tmp_path,
            env={"HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for line in re.findall(r"^(carrel (?:cat|ls|serve) .*)$", PAGE, re.MULTILINE)
    ]

    assert said == ['{"bed":"north","moisture":41.5}', "garden://beds/north\ngarden://beds/south\n", ""]


def test_the_functions_of_the_page_do_what_it_says(client: Client) -> None:
    [item] = client.read("garden://diary?last=2").items
    template = "garden://seats/{row}/{seat}"

    assert isinstance(item, Text)
    assert item.text == "day 18\nday 19\n"
    assert client.complete(template, "row", "").values == ("a", "b", "c")
    assert client.complete(template, "seat", "b", {"row": "b"}).values == ("b1", "b2", "b3", "b4")
    assert client.call("driest", {"beds": ["north", "south"]}).blocks == ("south",)
