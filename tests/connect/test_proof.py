"""The proof: a real server is started as a host starts it, and says why it does not work."""

import shutil
import sys
from pathlib import Path

import pytest

from carrel.connect import proof
from carrel.connect.entries import ServerLaunch
from carrel.connect.errors import NotProved
from carrel.connect.hosts import HOSTS, HostFacts, by_name
from carrel.connect.places import Surroundings
from carrel.core.record import replace
from carrel.transports.http.guard import AcceptedNames, Guard
from carrel.transports.http.tokens import Keyring, TokenStore
from tests.support.http_asking import application, listening
from tests.support.memory_provider import Memory

COMMAND = (sys.executable, "-P", "-m", "carrel", "serve", "--quiet")
HOST = replace(HOSTS[0], era="legacy")  # as the small server below
SERVER = """\
import json, sys
print("I am starting", file=sys.stderr, flush=True)
RESULTS = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}},
    "resources/list": {"resources": %s},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = RESULTS.get(asked["method"])
    answer = {"error": {"code": -32002, "message": "gone"}} if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


def launch(around: Surroundings, *command: str) -> ServerLaunch:
    return ServerLaunch(command or COMMAND, folder=around.folder)


def failure(around: Surroundings, wanted: ServerLaunch, host: HostFacts = HOST) -> str:
    with pytest.raises(NotProved) as error:
        proof.prove(host, wanted, around.environment)
    return str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize(("era", "version"), [("legacy", "2025-11-25"), ("modern", "2026-07-28")])
def test_a_server_that_works_is_proved_in_the_era_of_the_host(around: Surroundings, era: str, version: str) -> None:
    host = replace(HOST, era=era)

    proved = proof.prove(host, launch(around), around.environment)

    assert (proved.resources, proved.version) == (6, version)
    assert str(proved) == f"connected, 6 resources, first answer {proved.first_answer_ms} ms"


def test_the_environment_of_a_host_has_a_bare_path_and_nothing_of_the_shell() -> None:
    shell = {
        "HOME": "/home/ada",
        "PATH": "/home/ada/bin:/usr/bin",
        "PYTHONPATH": "/x",
        "XDG_DATA_HOME": "/d",
        "LANG": "C",
    }
    wanted = ServerLaunch(("x",), {"A": "b"})

    assert proof.host_environment(wanted, shell) == {
        "HOME": "/home/ada",
        "XDG_DATA_HOME": "/d",
        "LANG": "C",
        "PATH": "/usr/bin:/bin",
        "A": "b",
    }


def test_a_name_that_only_a_shell_finds_is_not_proved(around: Surroundings, tmp_path: Path) -> None:
    program = tmp_path / "bin/carrel-of-mine"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)

    why = failure(around, launch(around, "carrel-of-mine"))

    assert why == "carrel-of-mine is not on the PATH of a host (/usr/bin:/bin); write its absolute path"


def test_a_program_that_is_gone_is_named(around: Surroundings) -> None:
    assert failure(around, launch(around, "/nowhere/carrel")) == (
        "/nowhere/carrel does not exist; Carrel was moved or removed"
    )


def test_a_server_that_ends_says_why_on_stderr(around: Surroundings) -> None:
    why = failure(around, launch(around, *COMMAND, "--only", "nonsense"))

    assert "ended with exit code 2" in why
    assert "nonsense" in why


def test_a_program_that_is_no_server_is_not_proved(around: Surroundings) -> None:
    echo = shutil.which("echo", path="/usr/bin:/bin")
    assert echo is not None

    assert "ended with exit code 0" in failure(around, launch(around, echo, "hello"))


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ("[]", "it lists no resources"),
        ('[{"uri": "x://a", "name": "a"}]', "only 0 of 1 resources can be read; x://a: gone"),
    ],
)
def test_a_server_without_readable_resources_is_not_proved(around: Surroundings, listed: str, why: str) -> None:
    wanted = launch(around, sys.executable, "-c", SERVER % listed)

    assert failure(around, wanted) == f"{why}; I am starting"


def test_a_running_server_is_proved_with_its_token(around: Surroundings, tmp_path: Path) -> None:
    store = TokenStore({"XDG_STATE_HOME": str(tmp_path)})
    token, _ = store.local()
    guard = Guard(AcceptedNames(is_loopback=True), Keyring(store, token))
    with listening(application(Memory(), guard=guard)) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        right = ServerLaunch(url=url, headers={"Authorization": f"Bearer {token}"})
        proved = proof.prove(HOST, right, around.environment)
        refused = failure(around, ServerLaunch(url=url))

    assert proved.resources > 3
    assert "set CARREL_TOKEN to a token of it" in refused


def test_a_server_that_does_not_listen_is_not_proved(around: Surroundings) -> None:
    host = by_name("codex")
    assert host is not None

    assert "http://127.0.0.1:9/mcp cannot be reached" in failure(
        around, ServerLaunch(url="http://127.0.0.1:9/mcp"), host
    )
