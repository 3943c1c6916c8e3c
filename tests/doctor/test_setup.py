"""What is examined is looked at once, when it is needed, and by several threads alike."""

import threading
from pathlib import Path

import pytest

from carrel.doctor.answers import Once, ask_all
from carrel.doctor.setup import Setup
from tests.support.doctor import Ward


def test_once_calls_a_function_once_for_all_threads() -> None:
    calls: list[int] = []
    begun = threading.Barrier(4)

    def count() -> int:
        calls.append(1)
        return len(calls)

    once = Once(count)
    results: list[int] = []

    def ask() -> None:
        begun.wait()
        results.append(once())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (results, calls) == ([1, 1, 1, 1], [1])


def test_a_setup_opens_nothing_before_it_is_needed(ward: Ward) -> None:
    setup = ward.setup()
    ward.write(ward.file, "[server]\npage_size = 3\n")

    assert setup.config is not None
    assert setup.config.values("server") == {"page_size": 3}
    ward.write(ward.file, "[server]\npage_size = 4\n")
    assert setup.config.values("server") == {"page_size": 3}
    setup.close()


def test_settings_that_cannot_be_read_leave_no_configuration_and_no_desk(ward: Ward) -> None:
    ward.write(ward.file, "[")
    setup = ward.setup()

    assert setup.settings_error is not None
    assert (setup.config, setup.config_error, setup.desk, setup.desk_error) == (None, None, None, None)
    assert (setup.answers, setup.index_folder, setup.index_state, setup.mistakes) == ({}, None, None, ())


def test_a_wrong_variable_is_an_error_of_the_configuration_only(ward: Ward) -> None:
    ward.environment["CARREL_SERVER_PAGE_SIZE"] = "x"
    setup = ward.setup()

    assert setup.settings_error is None
    assert "CARREL_SERVER_PAGE_SIZE" in str(setup.config_error)


def test_every_served_provider_answers_with_its_first_entry(ward: Ward) -> None:
    ward.write(ward.project / "a.md", "# A\n")
    setup = ward.setup()
    try:
        assert setup.desk is not None
        found = {name: answer.first for name, answer in ask_all(setup.desk, 20.0).items()}
    finally:
        setup.close()

    assert found == {"logs": "", "workspace": "workspace:///a.md"}


def test_programs_are_those_on_path_that_can_be_started(ward: Ward) -> None:
    ward.write(ward.bin / "tool", "#!/bin/sh\n", 0o755)
    ward.write(ward.home / "tool", "not a program\n", 0o644)
    (ward.project / "tool").mkdir()
    ward.environment["PATH"] = f"relative:{ward.project}:{ward.home}:{ward.bin}:{ward.bin}"

    assert ward.setup().programs("tool") == [str(ward.bin / "tool")]


@pytest.mark.parametrize(
    ("environment", "folders"),
    [
        (
            {"HOME": "/h"},
            {
                "settings": "/h/.config/carrel",
                "tokens and trust": "/h/.local/state/carrel",
                "caches": "/h/.cache/carrel",
            },
        ),
        (
            {"HOME": "/h", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/c"},
            {"settings": "/h/.config/carrel", "tokens and trust": "/s/carrel", "caches": "/c/carrel"},
        ),
    ],
)
def test_the_folders_are_those_that_carrel_writes(environment: dict[str, str], folders: dict[str, str]) -> None:
    assert Setup(environment).folders == folders


def test_a_path_is_shown_with_the_home_as_a_tilde(ward: Ward) -> None:
    setup = ward.setup()

    assert [setup.short(str(one)) for one in (ward.home, ward.home / "a", Path(f"{ward.home}-b"))] == [
        "~",
        "~/a",
        f"{ward.home}-b",
    ]
