"""Every mistake of a settings file is found, and what is right stays in effect."""

import pytest

from carrel.app import config, project
from carrel.core.errors import ConfigError
from carrel.doctor.mistakes import Mistake, find_mistakes, read_settings
from tests.support.doctor import Ward

WRONG = {
    "server": {"page_size": 0, "mirror": False},
    "http": {"issuer": "https://login.example"},
    "serch": {"enabled": True},
    "search": {"anser_s": 1.0, "max_documents": "many"},
    "mounts": {"x": {"command": "not a list"}, "y": {"comand": ["true"]}, "z": {}},
    "workspace": 7,
    "groups": {"g": {"allow": ["scopes:read"]}, "h": {"members": ["ann"], "allow": ["bogus"]}},
    "objects": {"o": {"import": "module:thing", "timeout_s": 0.0}},
}


def test_every_mistake_is_found_with_its_place() -> None:
    found = [(one.kind, one.section, one.key, one.nearest) for one in find_mistakes("carrel.toml", WRONG)]

    assert found == [
        ("value", "server", "page_size", None),
        ("value", "http", "", None),
        ("unknown", "serch", "", "search"),
        ("unknown", "search", "anser_s", "answer_s"),
        ("value", "search", "max_documents", None),
        ("value", "mounts.x", "command", None),
        ("unknown", "mounts.y", "comand", "command"),
        ("value", "mounts.z", "", None),
        ("value", "workspace", "", None),
        ("value", "groups.g", "", None),
        ("value", "groups.h", "", None),
        ("value", "objects.o", "timeout_s", None),
    ]


def test_every_message_names_the_file() -> None:
    assert all(one.message.startswith("carrel.toml: ") for one in find_mistakes("carrel.toml", WRONG))


@pytest.mark.parametrize(
    "text",
    [
        "[server]\npagesize = 7\n",
        "[server]\npage_size = 'x'\n",
        "[nothing]\n",
        "[mounts.x]\ncomand = ['true']\n",
        "workspace = 7\n",
    ],
)
def test_what_loading_refuses_is_a_mistake_with_the_same_message(ward: Ward, text: str) -> None:
    ward.write(ward.file, text)

    with pytest.raises(ConfigError) as refused:
        config.load(None, ward.environment)

    [mistake] = read_settings(None, ward.environment).mistakes
    assert mistake.message == str(refused.value)


def test_what_is_right_stays_in_effect(ward: Ward) -> None:
    ward.write(ward.file, "[server]\npagesize = 7\nmax_listed = 5\n\n[nothing]\nx = 1\n\n[workspace]\npreset = 'all'\n")
    ward.write(ward.user_file, "[server]\nmirror = 'perhaps'\n\n[search]\nenabled = false\n")

    setup = ward.setup()

    assert setup.config is not None
    assert setup.config.values("server") == {"max_listed": 5}
    assert setup.config.values("workspace") == {"preset": "all"}
    assert setup.config.values("search") == {"enabled": False}
    assert "nothing" not in setup.config.sections
    assert [one.path for one in setup.mistakes] == [str(ward.user_file), str(ward.file), str(ward.file)]


def test_a_mount_with_a_mistake_keeps_its_other_keys(ward: Ward) -> None:
    ward.write(ward.user_file, "[mounts.x]\ncommand = ['true']\ncwdd = '.'\n")

    setup = ward.setup()

    assert setup.config is not None
    assert setup.config.values("mounts.x") == {"command": ["true"]}


def test_settings_without_a_mistake_are_those_that_are_loaded(ward: Ward) -> None:
    ward.write(ward.file, "[server]\npage_size = 7\n[mounts.x]\ncommand = ['true']\n[commands.test]\nargv = ['make']\n")

    found = read_settings(None, ward.environment)

    assert found.place == project.find(None, ward.environment)
    assert found.mistakes == ()


def test_a_mistake_says_what_it_is() -> None:
    [mistake] = find_mistakes("a.toml", {"server": {"mirrror": True}})

    message = "a.toml: [server] has no key 'mirrror'; did you mean 'mirror'?"
    assert mistake == Mistake("unknown", "a.toml", "server", "mirrror", message, "mirror")
