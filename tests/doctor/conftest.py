"""The machine that the tests of the doctor make ill."""

from pathlib import Path

import pytest

from tests.support.doctor import Ward


@pytest.fixture(name="ward")
def small_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ward:
    return Ward(tmp_path, monkeypatch)
