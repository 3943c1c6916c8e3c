"""Where an index lies, and which limits it has."""

from pathlib import Path

import pytest

from carrel.app import config, schema
from carrel.core.errors import ConfigError
from carrel.search.location import index_folder
from carrel.search.settings import SearchSettings


def test_each_project_has_an_index_in_the_cache_folder_of_the_user(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    one, other = index_folder(environment, "/work/one"), index_folder(environment, "/work/other")

    assert one != other
    assert str(one).startswith(str(tmp_path / ".cache" / "carrel"))


def test_a_link_to_a_project_leads_to_its_index(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}

    assert index_folder(environment, str(tmp_path / "link")) == index_folder(environment, str(tmp_path / "real"))


def test_a_user_without_a_home_has_no_index(tmp_path: Path) -> None:
    assert index_folder({}, str(tmp_path)) is None


def test_the_limits_are_checked() -> None:
    with pytest.raises(ConfigError, match="answer_s"):
        schema.build(SearchSettings, "search", {"answer_s": 0.0})


def test_an_untrusted_project_lowers_limits_and_does_not_raise_them(tmp_path: Path) -> None:
    (tmp_path / "carrel.toml").write_text("[search]\nmax_index_mb = 100000\nmax_documents = 10\n")

    loaded = config.load(str(tmp_path), {"HOME": str(tmp_path)})

    assert loaded.values("search") == {"max_documents": 10}
    assert any("max_index_mb" in note for note in loaded.notes)
