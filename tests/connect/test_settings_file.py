"""Settings files on disk: replaced as a whole, with owner, mode and links; left alone where they must be."""

import errno
import os
import stat
from pathlib import Path

import pytest

from carrel.connect.errors import BrokenFile, NotWritten
from carrel.connect.settings_file import (
    check_unchanged,
    check_writable,
    delete_settings,
    keep_original,
    read_settings,
    write_settings,
)


@pytest.fixture(name="path")
def settings_of_a_host(tmp_path: Path) -> Path:
    path = tmp_path / "settings.json"
    path.write_bytes(b'{"a": 1}\r\n')
    path.chmod(0o640)
    return path


def listed(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_a_file_is_replaced_with_its_mode_and_nothing_is_left_beside_it(path: Path) -> None:
    file = read_settings(str(path))

    after = write_settings(file, '{"b": 2}\r\n', "user")

    assert path.read_bytes() == b'{"b": 2}\r\n' == after.content
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert listed(path.parent) == ["settings.json"]


def test_a_file_is_replaced_and_not_written_into(path: Path) -> None:
    before = path.stat().st_ino

    write_settings(read_settings(str(path)), "{}", "user")

    assert path.stat().st_ino != before


def test_a_file_keeps_its_group(path: Path) -> None:
    # Root may choose any group; another user one of their own, if there is a second one.
    group = 12_345 if os.geteuid() == 0 else max(os.getgroups(), default=os.getgid())
    os.chown(path, -1, group)

    write_settings(read_settings(str(path)), "{}", "user")

    assert (path.stat().st_uid, path.stat().st_gid) == (os.geteuid(), group)


def test_a_link_stays_a_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(path)

    write_settings(read_settings(str(link)), "{}", "user")

    assert (link.is_symlink(), path.read_bytes()) == (True, b"{}")


@pytest.mark.parametrize(("scope", "mode"), [("user", 0o600), ("project", 0o644)])
def test_a_new_file_has_the_mode_of_its_scope_and_its_folders_are_made(tmp_path: Path, scope: str, mode: int) -> None:
    path = tmp_path / "a/b/settings.json"

    write_settings(read_settings(str(path)), "{}", scope)

    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_file_with_a_token_becomes_private(path: Path) -> None:
    path.chmod(0o755)

    write_settings(read_settings(str(path)), "{}", "user", is_private=True)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_read_only_file_is_not_written_not_even_by_root(path: Path) -> None:
    path.chmod(0o444)

    with pytest.raises(NotWritten, match=r"settings\.json: is read-only; make it writable with `chmod u\+w`"):
        write_settings(read_settings(str(path)), "{}", "user")

    assert path.read_bytes() == b'{"a": 1}\r\n'


def test_a_file_of_another_user_is_not_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)

    with pytest.raises(NotWritten, match="belongs to another user"):
        write_settings(read_settings(str(path)), "{}", "user")

    assert path.read_bytes() == b'{"a": 1}\r\n'


def test_a_file_with_two_names_is_not_written(path: Path, tmp_path: Path) -> None:
    os.link(path, tmp_path / "other.json")

    with pytest.raises(NotWritten, match="hard links"):
        check_writable(read_settings(str(path)))


def test_a_file_that_changed_meanwhile_is_not_written(path: Path) -> None:
    file = read_settings(str(path))
    path.write_bytes(b'{"new": 1}')

    with pytest.raises(NotWritten, match="was changed by another program meanwhile; run the command again"):
        write_settings(file, "{}", "user")

    assert path.read_bytes() == b'{"new": 1}'
    assert listed(path.parent) == ["settings.json"]


def test_a_file_that_was_made_meanwhile_is_not_written(tmp_path: Path) -> None:
    file = read_settings(str(tmp_path / "x.json"))
    (tmp_path / "x.json").write_bytes(b"")

    with pytest.raises(NotWritten, match="meanwhile"):
        write_settings(file, "{}", "user")


def test_a_file_that_was_deleted_meanwhile_is_noticed(path: Path) -> None:
    file = read_settings(str(path))
    path.unlink()

    with pytest.raises(NotWritten, match="meanwhile"):
        check_unchanged(file)


def test_a_full_disk_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = read_settings(str(path))
    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(NotWritten, match=r"cannot be written: No space left on device; nothing was changed"):
        write_settings(file, "{}", "user")

    assert path.read_bytes() == b'{"a": 1}\r\n'
    assert listed(path.parent) == ["settings.json"]


def test_the_first_original_is_kept_and_never_overwritten(path: Path) -> None:
    first = read_settings(str(path))

    assert keep_original(first) == f"{path}.before-carrel"
    second = write_settings(first, "{}", "user")
    assert keep_original(second) is None

    kept = path.with_name("settings.json.before-carrel")
    assert kept.read_bytes() == b'{"a": 1}\r\n'
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640


def test_nothing_is_kept_of_a_file_that_was_not_there(tmp_path: Path) -> None:
    assert keep_original(read_settings(str(tmp_path / "none.json"))) is None
    assert listed(tmp_path) == []


def test_a_file_is_deleted_only_as_it_was_read(path: Path) -> None:
    file = read_settings(str(path))
    path.write_bytes(b"{}")

    with pytest.raises(NotWritten, match="meanwhile"):
        delete_settings(file)

    delete_settings(read_settings(str(path)))
    assert listed(path.parent) == []


def test_a_text_that_is_not_utf8_is_broken(path: Path) -> None:
    path.write_bytes(b'{"a": "\xff"}')

    with pytest.raises(BrokenFile, match=r"not UTF-8 \(byte 7\)"):
        _ = read_settings(str(path)).text


def test_a_folder_or_a_pipe_is_no_settings_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(NotWritten, match="is not a file"):
            read_settings(str(path))


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nothing")

    with pytest.raises(NotWritten, match="which does not exist; make that file or remove the link"):
        read_settings(str(tmp_path / "link"))


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_link_of_a_project_does_not_lead_out_of_it(tmp_path: Path, is_folder: bool) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (outside / "mcp.json").write_bytes(b"{}")
    if is_folder:
        (project / ".vscode").symlink_to(outside)
    else:
        (project / ".vscode").mkdir()
        (project / ".vscode/mcp.json").symlink_to(outside / "mcp.json")

    with pytest.raises(NotWritten, match="is a link out of the project"):
        read_settings(str(project / ".vscode/mcp.json"), below=str(project))


def test_a_link_inside_a_project_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_bytes(b"{}")
    (tmp_path / ".mcp.json").symlink_to("real.json")

    assert read_settings(str(tmp_path / ".mcp.json"), below=str(tmp_path)).path == str(tmp_path / "real.json")
