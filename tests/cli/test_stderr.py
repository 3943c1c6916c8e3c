"""The command line where its streams, its encoding or its folders are not as usual: a sentence, never a bug."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

DISCOVER = (
    '{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":'
    '{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    '"io.modelcontextprotocol/clientCapabilities":{}}}}\n'
)


@pytest.fixture(name="project", autouse=True)
def project_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "b.txt").write_text("a line\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "PYTHONIOENCODING", "CARREL_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return folder


def shell(line: str, given: str | None = None, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a line of bash in which `carrel` is this one; a pipe fails where any part of it does."""
    return subprocess.run(
        ["bash", "-c", f'set -o pipefail; carrel() {{ "{sys.executable}" -m carrel "$@"; }}; {line}'],
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        env={**os.environ, **environment},
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    "line",
    [
        "carrel --project . serve --quiet",
        "carrel --debug --project=. serve --quiet",
        "carrel -- serve --quiet",
    ],
)
def test_options_may_stand_before_serve(line: str) -> None:
    ran = shell(line, DISCOVER)

    assert (ran.returncode, json.loads(ran.stdout)["id"]) == (0, 1)


@pytest.mark.parametrize(("option", "limit"), [("--max-message-mb 0.1", 104_857), ("", 2_097_152)])
def test_no_message_is_larger_than_the_option_says_in_either_direction(project: Path, option: str, limit: int) -> None:
    (project / "large.txt").write_text("x" * limit, encoding="utf-8")
    meta = json.loads(DISCOVER)["params"]["_meta"]
    request = {"jsonrpc": "2.0", "method": "resources/read"}
    read = {**request, "id": 1, "params": {"uri": "workspace:///large.txt", "_meta": meta}}
    padded = {**request, "id": 2, "params": {"uri": "workspace:///b.txt", "x": "x" * limit, "_meta": meta}}
    small = {**request, "id": 3, "params": {"uri": "workspace:///b.txt", "_meta": meta}}

    ran = shell(f"carrel serve --quiet {option}", "".join(f"{json.dumps(one)}\n" for one in (read, padded, small)))
    told = {answer["id"]: answer for answer in map(json.loads, ran.stdout.splitlines())}

    assert [(told[one]["error"]["code"], told[one]["error"]["data"]["limit"]) for one in (1, 2)] == [
        (-32802, limit),
        (-32802, limit),
    ]
    assert told[3]["result"]["contents"][0]["text"] == "a line\n"


def test_the_protocol_is_utf_8_whatever_the_locale_says(project: Path) -> None:
    (project / "c.txt").write_text("日本\n", encoding="utf-8")
    meta = json.loads(DISCOVER)["params"]["_meta"]
    requests = [
        {"jsonrpc": "2.0", "id": uri, "method": "resources/read", "params": {"uri": uri, "_meta": meta}}
        for uri in ("workspace:///c.txt", "workspace:///größe.txt")
    ]
    given = "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in requests)
    foreign = {"LC_ALL": "C", "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    ran = shell("carrel serve --quiet", given, **foreign)
    told = {answer["id"]: answer for answer in map(json.loads, ran.stdout.splitlines())}

    assert told["workspace:///c.txt"]["result"]["contents"][0]["text"] == "日本\n"
    assert told["workspace:///größe.txt"]["error"]["message"] == "Resource not found: workspace:///größe.txt"


def test_an_option_before_serve_means_the_same_as_after(project: Path) -> None:
    (project / "other").mkdir()
    ran = shell("carrel --project other serve", "")

    assert (ran.returncode, ran.stdout) == (0, "")
    assert ran.stderr.rstrip().endswith(str(project.resolve() / "other"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("carrel --json serve", "serve does not take --json"),
        ("carrel --server x serve", "serve does not take --server"),
        ("carrel --project . serve --nope", "unknown option '--nope'"),
    ],
)
def test_an_option_that_serve_does_not_have_is_refused_before_it_too(line: str, said: str) -> None:
    ran = shell(line, DISCOVER)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr


COMMANDS = (
    "",
    "ls",
    "cat workspace:///b.txt",
    "templates",
    "config show",
    "scopes list",
    "scopes export",
    "sage ls",
    "token list",
    "--version",
    "run -- true",
)


@pytest.mark.slow
@pytest.mark.parametrize("command", [*COMMANDS, "doctor"])
def test_a_closed_output_is_no_failure(command: str) -> None:
    ran = shell(f"carrel {command} 1>&-")

    told = [line for line in ran.stderr.splitlines() if "log: logs://" not in line and "logging to logs://" not in line]
    assert (ran.returncode, told) == (0, [])


def test_what_was_closed_is_not_taken_by_a_file_that_is_opened(project: Path) -> None:
    assert shell("carrel scopes create Title -a alias 0<&- 1>&- 2>&-").returncode == 0
    assert shell("carrel scopes list").stdout == "alias (Title) [TODO]\n"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["", "ls", "cat workspace:///b.txt", "templates", "scopes list", "--help"])
def test_an_output_that_is_full_is_named(command: str) -> None:
    ran = shell(f"carrel {command} > /dev/full")

    assert (ran.returncode, ran.stderr) == (1, "carrel: cannot write the output: No space left on device\n")


@pytest.mark.parametrize("command", ["ls", "--help", "cat workspace:///b.txt"])
def test_a_reader_that_leaves_early_is_no_failure(project: Path, command: str) -> None:
    for number in range(2_000):
        (project / f"file{number:05}.txt").touch()
    ran = shell(f"carrel {command} | head -n 1")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert len(ran.stdout.splitlines()) == 1


def test_a_reader_that_never_was_is_no_failure() -> None:
    ran = shell("carrel cat workspace:///b.txt | true")

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_serving_without_an_input_says_how_it_is_meant() -> None:
    ran = shell("carrel serve 0<&-")

    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        "carrel: stdin is closed, but carrel serve reads requests from stdin; "
        "to serve over HTTP: carrel serve --http 8000; to list resources: carrel ls\n"
    )


def test_serving_works_where_nobody_hears_what_is_said_beside_it() -> None:
    ran = shell("carrel serve 2>&-", DISCOVER)

    assert (ran.returncode, json.loads(ran.stdout)["id"]) == (0, 1)


def test_doctor_has_marks_for_every_encoding() -> None:
    ran = shell("carrel doctor", PYTHONIOENCODING="latin-1")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("ok python: ")


def test_what_an_encoding_cannot_show_is_named_with_what_to_do(project: Path) -> None:
    (project / "b.txt").write_text("a → b", encoding="utf-8")
    ran = shell("carrel cat workspace:///b.txt", PYTHONIOENCODING="latin-1")

    said = "carrel: the output encoding latin-1 cannot show U+2192; set PYTHONIOENCODING=utf-8\n"
    assert (ran.returncode, ran.stderr) == (1, said)


@pytest.mark.parametrize("command", ["token add x", "trust", "serve --http 0", "token revoke x"])
def test_a_state_folder_that_cannot_be_written_is_named_with_what_to_do(project: Path, command: str) -> None:
    (project / "carrel.toml").write_text("[workspace]\npreset = 'all'\n", encoding="utf-8")
    (project / "file").touch()
    ran = shell(f"carrel {command}", XDG_STATE_HOME=str(project / "file/state"))

    said = (
        f"{project / 'file/state'}: Not a directory; Carrel keeps tokens and trust there: "
        "make it writable, or set XDG_STATE_HOME to another folder"
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"carrel: {said}\n"
