"""Servers are found by their command lines and folders."""

import os
import sys

import pytest

from carrel.doctor.processes import is_server, servers_of


@pytest.mark.parametrize(
    "words",
    [
        ["carrel", "serve"],
        ["/usr/bin/python3", "/home/a/.local/bin/carrel", "serve", "--quiet"],
        [sys.executable, "-P", "-m", "carrel", "serve", "--project", "x"],
        [sys.executable, "-P", "-m", "carrel", "--debug", "serve"],
    ],
)
def test_a_command_line_of_serve_is_a_server(words: list[str]) -> None:
    assert is_server(words)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["carrel"],
        ["carrel", "search", "x"],
        ["vi", "carrel"],
        ["serve", "carrel"],
        ["grep", "carrel serve"],
    ],
)
def test_other_command_lines_are_none(words: list[str]) -> None:
    assert not is_server(words)


def test_a_folder_that_nobody_serves_has_no_servers(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert servers_of(str(tmp_path_factory.mktemp("empty"))) == []


def test_a_system_without_processes_to_look_at_has_no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: str) -> list[str]:
        raise FileNotFoundError

    monkeypatch.setattr(os, "listdir", fails)

    assert servers_of("/") == []
