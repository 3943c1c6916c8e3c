"""The documents say what is so: links lead somewhere, generated pages are fresh, settings are on their page."""

import re
from pathlib import Path

import pytest

from carrel import config, detect
from carrel.provider import Project
from scripts import docs

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")


def test_the_page_of_tools_is_what_the_schemas_say() -> None:
    assert docs.PAGE.read_text(encoding="utf-8") == docs.render()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))

    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("known", detect.BUILT_IN, ids=lambda known: known.name)
def test_every_setting_and_route_of_a_provider_stands_on_its_page(known: detect.Known, tmp_path: Path) -> None:
    page = (ROOT / f"docs/providers/{known.name}.md").read_text(encoding="utf-8")
    provider = known.load()(Project(str(tmp_path), {"HOME": str(tmp_path)}))
    keys = list(config.schema(known.name, "here"))
    templates = [route.template for route in provider.routes()]

    assert [word for word in (*keys, *templates) if f"`{word}`" not in page] == []
