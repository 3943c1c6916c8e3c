"""The laws every provider obeys, held by a Sage folder, with errors as content and as protocol errors."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pytest

from carrel.core.provider import Provider
from carrel.providers.sage import Sage
from carrel.testing.contract import ProviderContract
from tests.support import schemas
from tests.support.sage_folder import STEM, lay_out, open_sage, put

pytestmark = pytest.mark.usefixtures("backend")
LOCAL = pytest.mark.parametrize("backend", ["local"], indirect=True)
"""Marks tests about the folder itself."""


class TestSage(ProviderContract):
    """With tools that write, and errors answered as content."""

    settings: ClassVar[dict[str, str]] = {"tools": "write", "search": "bm25"}

    @pytest.fixture(autouse=True)
    def _project(self, tmp_path: Path) -> None:
        self.project = lay_out(tmp_path / "shop")
        put(self.project / ".sage/system/notes/plain.txt", "Plain.\n")
        put(self.project / ".sage/checkpoints/broken.md", "broken")

    def provider(self) -> Provider:
        """Return a new provider."""
        self.sage: Sage = open_sage(self.project, **self.settings)
        return self.sage

    def missing_uri(self) -> str:
        """Return the URI of a missing checkpoint."""
        return "sage://checkpoint/no-such-thing"

    def change(self, uri: str) -> None:
        """Append to the file of a URI in one step: a file that is emptied first would change twice."""
        if "system" not in uri:
            raise NotImplementedError
        path = self.project / ".sage/system" / uri.removeprefix("sage://system/")
        with path.open("ab", buffering=0) as file:
            file.write(b"More.\n")

    def variables(self) -> dict[str, dict[str, str]]:
        """Return names that can be read."""
        return {
            "sage://system/{+filename}": {"filename": "objective.md"},
            "sage://checkpoint/{id}": {"id": STEM},
            "sage://knowledge/{id}": {"id": "auth-patterns"},
            "sage://failure/{id}": {"id": "jwt-localstorage"},
        }

    def validate(self, message: bytes, version: str, method: str) -> None:
        """Check a message against the protocol's schema."""
        schemas.check(message, version, method)

    def test_law_4_a_declared_size_is_the_length_in_bytes(self) -> None:
        """Sage declares the size of the stored file, not that of the formatted text."""
        sage = open_sage(self.project)
        sizes = {entry.uri: entry.size for entry in sage.entries()}
        stored = {
            "sage://system/objective.md": ".sage/system/objective.md",
            f"sage://checkpoint/{STEM}": f".sage/checkpoints/{STEM}.md",
            "sage://knowledge/auth-patterns": ".sage/knowledge/global/auth-patterns.md",
        }
        assert {uri: sizes[uri] for uri in stored} == {
            uri: (self.project / file).stat().st_size for uri, file in stored.items()
        }


@pytest.mark.slow
class TestSageWithProtocolErrors(TestSage):
    """With errors as protocol errors and no tools at all."""

    settings: ClassVar[dict[str, str]] = {"tools": "off", "errors": "protocol"}


@LOCAL
def test_threads_that_look_at_a_folder_together_all_find_it(tmp_path: Path) -> None:
    project = lay_out(tmp_path / "shop")
    for _ in range(50):
        sage = open_sage(project)
        start = threading.Barrier(4)

        def look(_: int, start: threading.Barrier = start, sage: Sage = sage) -> bool:
            start.wait()
            return sage.memory.home.root("knowledge") is not None

        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(look, range(4))) == [True] * 4
        sage.close()
