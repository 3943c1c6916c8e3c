"""The notes of what was inserted where."""

from pathlib import Path

from carrel.connect.journal import Inserted, Journal

NOTE = Inserted(',\n  "carrel": {}', 1, is_new=True)


def test_a_note_is_found_again_until_it_is_forgotten(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path)}

    Journal(environment).note("/a", NOTE)
    Journal(environment).note("/b", Inserted("x"))
    assert Journal(environment).find("/a") == NOTE

    Journal(environment).note("/a", None)
    assert (Journal(environment).find("/a"), Journal(environment).find("/b")) == (Inserted(""), Inserted("x"))


def test_notes_are_private(tmp_path: Path) -> None:
    Journal({"XDG_STATE_HOME": str(tmp_path)}).note("/a", NOTE)

    assert (tmp_path / "carrel/connect.json").stat().st_mode & 0o777 == 0o600


def test_notes_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    (tmp_path / "carrel").mkdir()
    (tmp_path / "carrel/connect.json").write_text("[]", encoding="utf-8")
    journal = Journal({"XDG_STATE_HOME": str(tmp_path)})

    assert journal.find("/a") == Inserted("")
    journal.note("/a", NOTE)
    assert journal.find("/a") == NOTE
