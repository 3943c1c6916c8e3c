"""Folders of skills in installed packages, found without importing anything."""

import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from carrel.files import packaged_skills as packages

ENTRY = "[console_scripts]\nx = a:b\n\n[carrel.skills]\nacme = acme_tools.skills\nodd = acme tools\n\n[other]\nz = a\n"


def install(place: Path, distribution: str = "acme_tools-1.2.dist-info", entry: str = ENTRY) -> Path:
    """Install a package that raises when it is imported; return its folder of skills."""
    (place / distribution).mkdir(parents=True)
    (place / distribution / "entry_points.txt").write_text(entry, encoding="utf-8")
    skills = place / "acme_tools" / "skills"
    skills.mkdir(parents=True, exist_ok=True)
    (place / "acme_tools/__init__.py").write_text("raise RuntimeError('imported')\n", encoding="utf-8")
    return skills


@pytest.fixture(name="site")
def site_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(packages, "_FRESH_S", -1.0)
    yield site
    packages._known.clear()
    packages._answers.clear()


def found(root: Path) -> list[tuple[str, str, str]]:
    ours = [one for one in packages.find(str(root)) if one.name in ("acme", "odd", "other")]
    return [(one.name, one.package, one.folder) for one in ours]


def test_an_entry_point_names_a_folder_of_a_package_that_is_not_imported(site: Path, tmp_path: Path) -> None:
    skills = install(site)

    assert found(tmp_path) == [("acme", "acme-tools", str(skills))]
    assert "acme_tools" not in sys.modules


def test_a_package_that_is_installed_later_is_found(site: Path, tmp_path: Path) -> None:
    assert found(tmp_path) == []
    skills = install(site)

    assert found(tmp_path) == [("acme", "acme-tools", str(skills))]


def test_the_project_folder_itself_installs_nothing(site: Path) -> None:
    install(site)

    assert found(site) == []


@pytest.mark.parametrize("value", ["none_such.skills", "acme_tools.none", "acme_tools:skills", "..", "/etc", "os"])
def test_a_value_that_names_no_folder_is_passed_over(site: Path, tmp_path: Path, value: str) -> None:
    install(site, entry=f"[carrel.skills]\nacme = {value}\n")

    assert found(tmp_path) == []


def test_what_was_found_is_kept_for_a_few_seconds(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_FRESH_S", 60.0)
    assert found(tmp_path) == []
    install(site)

    assert found(tmp_path) == []


def test_a_look_that_finds_nothing_takes_and_keeps_hardly_any_memory(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        folder = site / f"package_{number}-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "entry_points.txt").write_text("[console_scripts]\nx = y:z\n")
    monkeypatch.setattr(sys, "path", [str(site)])
    tracemalloc.start()
    try:
        assert packages.find(str(tmp_path / "project")) == []
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 40_000
    assert kept < 4_000
