"""What the tests of alc share."""

from pathlib import Path

import pytest

from tests.providers.alc.homes import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a home with nothing in it; not even its folder exists."""
    return Home(tmp_path)


@pytest.fixture
def full(home: Home) -> Home:
    """Return a home with one of everything."""
    home.fill()
    return home
