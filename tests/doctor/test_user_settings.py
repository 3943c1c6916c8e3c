"""One key of the user's own settings file is set, and the rest of the file stays."""

import pytest

from carrel.doctor.user_settings import set_users
from tests.support.doctor import Ward


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "[http]\nport = 9\n"),
        ("# mine\n[http]\nport = 8 # old\n", "# mine\n[http]\nport = 9 # old\n"),
        ("[http]\nhosts = ['a']\n", "[http]\nhosts = ['a']\nport = 9\n"),
        ("[server]\npage_size = 5\n", "[server]\npage_size = 5\n[http]\nport = 9\n"),
    ],
)
def test_a_key_is_set_and_comments_stay(ward: Ward, before: str, after: str) -> None:
    ward.write(ward.user_file, before, 0o640)

    set_users(ward.environment, "http", "port", 9)

    assert ward.user_file.read_text().replace("\n\n", "\n") == after
    assert ward.user_file.stat().st_mode & 0o777 == 0o640


def test_a_file_that_does_not_exist_is_made(ward: Ward) -> None:
    set_users(ward.environment, "server", "max_message_mb", 4)

    assert ward.user_file.read_text() == "[server]\nmax_message_mb = 4\n"


def test_a_file_behind_a_link_is_changed_where_it_is(ward: Ward) -> None:
    real = ward.write(ward.home / "dotfiles/carrel.toml", "")
    ward.user_file.parent.mkdir(parents=True)
    ward.user_file.symlink_to(real)

    set_users(ward.environment, "http", "port", 9)

    assert ward.user_file.is_symlink()
    assert real.read_text() == "[http]\nport = 9\n"
