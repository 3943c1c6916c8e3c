"""The workspace obeys the laws of every provider, over a tree with something of everything."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from carrel.core.provider import Place, Project, Provider
from carrel.core.uri import decode
from carrel.providers.workspace import Workspace
from carrel.testing.contract import ProviderContract
from tests.support import schemas
from tests.support.workspaces import SECRET, fill, settle

TREE: dict[str, str | bytes] = {
    "README.md": "# aé€😀z\n",
    "lib/main.dart": "void main() {}\r\n",
    "lib/src/utf-16.md": b"\xff\xfe" + "zwei\nZeilen".encode("utf-16le"),
    "lib/src/latin-1.md": "café\n".encode("latin-1"),
    "a b/é#?%.md": "odd",
    "empty.md": "",
    "picture.png": bytes(range(256)),
    "unknown": "text",
    ".gitignore": "build/\n",
    "build/x.md": SECRET,
    ".env": SECRET,
}


class TestWorkspace(ProviderContract):
    """A main root and a named one."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        self.place = fill(tmp_path / "app", TREE)
        (self.place / "link.md").symlink_to("README.md")
        fill(tmp_path / "docs", {"README.md": "docs", "guide/x.md": "x"})
        self.changes = 0
        if "law_5" in request.node.name or "law_11" in request.node.name:  # they compare ETags
            settle(*self.place.rglob("*.*"), *tmp_path.rglob("docs/**/*.md"))

    def provider(self) -> Provider:
        return Workspace(Project(str(self.place), {}), preset="all", roots={"docs": Place("../docs")})

    def missing_uri(self) -> str:
        return "workspace:///no/such.md"

    def change(self, uri: str) -> None:
        self.changes += 1
        aside = fill(self.place.parent, {"aside": f"change {self.changes}"}) / "aside"
        aside.rename(self.place / decode(uri.removeprefix("workspace:///")))

    def variables(self) -> Mapping[str, str]:
        return {"path": "README.md", "lines": "1", "root": "docs"}

    def validate(self, message: bytes, version: str, method: str) -> None:
        schemas.check(message, version, method)
