"""Every face over every hostile repository: nothing runs, nothing outside is read, nobody is held up."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from carrel import detect
from tests.hostile import laws
from tests.hostile.attacks import ATTACKS
from tests.hostile.faces import FACES
from tests.hostile.place import MATERIAL, Place, lay_out
from tests.hostile.repositories import REPOSITORIES


@pytest.fixture
def place() -> Iterator[Place]:
    """A usual project that calls for every provider."""
    with TemporaryDirectory(prefix="carrel-hostile-") as base:
        yield lay_out(Path(base).resolve())


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("repository", REPOSITORIES)
def test_a_hostile_repository_gets_nothing(repository: str, face: str, place: Place) -> None:
    for spoil in REPOSITORIES[repository]:
        spoil(place)
    found = laws.complaints(FACES[face](place), place)
    assert not found, "\n".join(found)


def test_every_provider_has_something_to_attack_and_something_to_serve() -> None:
    assert set(detect.names()) == set(ATTACKS) == set(MATERIAL)
