"""A key or a section is renamed or commented out, and no other byte of the file changes."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.core.errors import ConfigError
from carrel.doctor.toml_repair import comment_out, rename

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
VALUES = st.sampled_from(
    ["1", "true", '"text # no comment"', "[1, 2]", "[\n  1,  # one\n  2,\n]", "'''\nmany\nlines\n'''"]
)
SPACES = st.sampled_from(["", " ", "\t"])
ENDS = st.sampled_from(["\n", "\n# a comment\n", "\n\n", "  # beside\n"])


@st.composite
def files(draw: st.DrawFn) -> tuple[str, str, str]:
    """Return a file, and a section and a key in it."""
    tables = draw(
        st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, min_size=1, max_size=4), min_size=1, max_size=4)
    )
    text = draw(st.sampled_from(["", "# mine\n", "\ufeff"]))
    for section, keys in tables.items():
        text += f"[{section}]{draw(ENDS)}"
        for key, value in keys.items():
            text += f"{draw(SPACES)}{key}{draw(SPACES)}={draw(SPACES)}{value}{draw(ENDS)}"
    section = draw(st.sampled_from(sorted(tables)))
    return text, section, draw(st.sampled_from(sorted(tables[section])))


def parsed(text: str) -> dict[str, dict[str, object]]:
    return tomllib.loads(text.removeprefix("\ufeff"))


@given(files())
def test_a_renamed_key_is_the_only_difference(
    tmp_path_factory: pytest.TempPathFactory, made: tuple[str, str, str]
) -> None:
    text, section, key = made
    path = tmp_path_factory.mktemp("toml") / "carrel.toml"
    path.write_text(text, encoding="utf-8", newline="")

    rename(str(path), [section], key, "NEW_NAME")

    after = path.read_text(encoding="utf-8")
    assert len(after) == len(text) - len(key) + len("NEW_NAME")
    wanted = parsed(text)
    wanted[section]["NEW_NAME"] = wanted[section].pop(key)
    assert parsed(after) == wanted


@given(files())
def test_a_key_that_is_commented_out_can_be_read_in_the_comment(
    tmp_path_factory: pytest.TempPathFactory, made: tuple[str, str, str]
) -> None:
    text, section, key = made
    path = tmp_path_factory.mktemp("toml") / "carrel.toml"
    path.write_text(text, encoding="utf-8", newline="")

    try:
        comment_out(str(path), [section], key)
    except ConfigError:
        assert path.read_text(encoding="utf-8") == text
        return

    after = path.read_text(encoding="utf-8")
    wanted = parsed(text)
    del wanted[section][key]
    assert parsed(after) == wanted
    assert after.replace("# ", "") == text.replace("# ", "")


@pytest.mark.parametrize(
    ("before", "section", "name", "after"),
    [
        ("[worksace]\na = 1\n", "worksace", "workspace", "[workspace]\na = 1\n"),
        ("[ worksace ]  # mine\na = 1\n", "worksace", "workspace", "[ workspace ]  # mine\na = 1\n"),
        ("[a]\n[flutte]\n[flutte.inner]\nx = 1\n", "flutte", "flutter", "[a]\n[flutter]\n[flutter.inner]\nx = 1\n"),
    ],
)
def test_a_section_is_renamed_with_its_inner_tables(
    tmp_path: Path, before: str, section: str, name: str, after: str
) -> None:
    path = tmp_path / "carrel.toml"
    path.write_text(before, encoding="utf-8")

    rename(str(path), [section], "", name)

    assert path.read_text() == after


def test_a_section_that_is_commented_out_ends_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "carrel.toml"
    path.write_text("[odd]\nx = [\n 1,\n]\n\n# about y\ny = 2\n[server]\npage_size = 5\n", encoding="utf-8")

    comment_out(str(path), ["odd"], "")

    assert path.read_text() == "# [odd]\n# x = [\n#  1,\n# ]\n\n# about y\n# y = 2\n[server]\npage_size = 5\n"


@pytest.mark.parametrize(
    ("text", "section", "key", "name"),
    [
        ("server = { pagesize = 7 }\n", "server", "pagesize", "page_size"),  # an inline table
        ("server.pagesize = 7\n", "server", "pagesize", "page_size"),  # a dotted key
        ("[server]\npagesize = 7\npage_size = 8\n", "server", "pagesize", "page_size"),  # the name is taken
        ('[server]\ntext = """\npagesize = 7\n"""\npagesize = 8\n', "server", "pagesize", "page_size"),
        ("[server]\n", "server", "pagesize", "page_size"),  # it is gone by now
    ],
)
def test_a_file_that_cannot_be_changed_safely_is_not_touched(
    tmp_path: Path, text: str, section: str, key: str, name: str
) -> None:
    path = tmp_path / "carrel.toml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError, match=r"cannot be changed safely; change \[server\] pagesize yourself"):
        rename(str(path), [section], key, name)

    assert path.read_text() == text


def test_line_ends_mode_and_links_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "real.toml", tmp_path / "carrel.toml"
    path.write_bytes(b"[server]\r\npagesize = 7\r\n")
    path.chmod(0o640)
    link.symlink_to(path)

    rename(str(link), ["server"], "pagesize", "page_size")

    assert path.read_bytes() == b"[server]\r\npage_size = 7\r\n"
    assert (path.stat().st_mode & 0o777, link.is_symlink()) == (0o640, True)


def test_nothing_is_left_beside_a_file(tmp_path: Path) -> None:
    path = tmp_path / "carrel.toml"
    path.write_text("[server]\npagesize = 7\n", encoding="utf-8")

    rename(str(path), ["server"], "pagesize", "page_size")

    assert [one.name for one in tmp_path.iterdir()] == ["carrel.toml"]
