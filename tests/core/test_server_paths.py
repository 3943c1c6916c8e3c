"""No answer tells a path of the server: errors and health of every provider, asked from a root with a peculiar name."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from carrel.app.app import Desk, open_desk
from carrel.app.config import load
from carrel.core.server_paths import without_server_paths
from tests.support.schemas import Conversation
from tests.support.trusting import trust
from tests.support.waiting import PATIENCE_S, until

PECULIAR = "peculiar-9f3b"

OBJECT = """
import os
from carrel import Resource, Template

class Faulty:
    def capabilities(self):
        return ["resources", "tools"]
    def resources(self):
        return [Resource("faulty://listed", "listed")]
    def resource_templates(self):
        return [Template("faulty://{path}", "path")]
    def resource_read(self, uri, arguments):
        if uri.endswith("missing"):
            open(os.path.join(os.getcwd(), "not-there"))
        if uri.endswith("folder"):
            os.listdir(os.path.join(os.path.dirname(__file__), "not-there"))
        raise RuntimeError(f"it lies in {__file__}")
    def tools(self):
        raise RuntimeError(f"no tools in {__file__}")
"""

TOML = """
[sage]
[scopes]
[logs]
[alc]
[objects.faulty]
import = "faulty:Faulty"
[objects.absent]
import = "absent:Thing"
[mounts.gone]
command = ["{root}/no-such-program"]
[mounts.broken]
command = ["{python}", "-c", "import sys; sys.exit('I am in {root}')"]
"""

PATHS = (
    "", "/", "missing", "a/b/c", "..", "../..", "/etc/passwd", "%00", "%2e%2e/x", "a?x=1", "link-out", "secret.pem",
    "fifo", "folder", "denied/", "unreadable.txt", "big.txt?lines=5-1", "listed",
)  # fmt: skip
SCHEMES = ("workspace", "sage", "scopes", "logs", "alc", "faulty", "absent", "gone", "broken", "carrel", "nobody")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which everything is somehow wrong."""
    root = tmp_path / PECULIAR / "desk"
    for folder in (".sage/system", ".sage/knowledge/items", ".carrel/logs", "folder", "algocline-logs", ".algocline"):
        (root / folder).mkdir(parents=True)
    (root / ".carrel/scopes.db").write_bytes(b"SQLite format 3\0 and then nothing of the kind" * 100)
    (root / ".sage/system/bad.md").write_bytes(b"---\n: : :\n---\n\xff\xfe")
    (root / ".sage/knowledge/items/bad.md").write_text("---\nid: [", "utf-8")
    (root / "alc.toml").write_text("packages = [", "utf-8")
    (root / "link-out").symlink_to("/etc/passwd")
    (root / "secret.pem").write_text("x", "utf-8")
    (root / "unreadable.txt").write_text("x", "utf-8")
    (root / "unreadable.txt").chmod(0)
    os.mkfifo(root / "fifo")
    (root / "faulty.py").write_text(OBJECT, "utf-8")
    (root / "carrel.toml").write_text(TOML.format(root=root, python=sys.executable), "utf-8")
    monkeypatch.chdir(root)
    return root


@pytest.fixture(params=[True, False], ids=["trusted", "untrusted"])
def desk(root: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    home = tmp_path / "home"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "PYTHONPATH": str(root)}
    if request.param:
        trust(root / "carrel.toml", environment)
    desk = open_desk(load(str(root), environment, []), PATIENCE_S, waits_for_all=True)
    yield desk
    desk.close()


@pytest.mark.slow
def test_no_answer_tells_a_path_of_the_server(desk: Desk) -> None:
    client = Conversation(desk.server)
    uris = [f"{scheme}://{path}" for scheme in SCHEMES for path in PATHS]
    uris += [f"{scheme}:///{path}" for scheme in SCHEMES for path in PATHS]
    uris += ["carrel://health", "carrel://guide", "carrel://catalog"]
    questions: list[tuple[str, dict[str, object]]] = [("resources/read", {"uri": uri}) for uri in uris]
    questions += [("resources/list", {}), ("resources/templates/list", {}), ("tools/list", {}), ("server/discover", {})]
    tools = json.loads(client.say(client.request("tools/list")) or b"")["result"]["tools"]
    questions += [("tools/call", {"name": tool["name"], "arguments": {}}) for tool in tools]
    questions += [("tools/call", {"name": "read_resource", "arguments": {"uri": uri}}) for uri in uris[::7]]
    told = []
    for method, params in questions:
        answer = client.say(client.request(method, params)) or b""
        if PECULIAR.encode() in answer:
            told.append((method, params, answer[:300]))

    assert not told


@pytest.mark.parametrize("desk", [True], indirect=True, ids=["trusted"])
def test_health_still_says_what_is_wrong(desk: Desk) -> None:
    client = Conversation(desk.server)

    def health() -> str:
        answer = json.loads(client.say(client.request("resources/read", {"uri": "carrel://health"})) or b"")
        return str(answer["result"]["contents"][0]["text"])

    until(lambda: "Cannot start: no-such-program" in health())
    assert PECULIAR not in health()


@pytest.mark.parametrize(
    ("told", "heard"),
    [
        ("cannot read /home/x/project/.sage/a.md: denied", "cannot read .sage/a.md: denied"),
        ("the root /home/x/project is gone", "the root . is gone"),
        ("see '/usr/lib/python3/x.py', line 3", "see '…/x.py', line 3"),
        (
            "read workspace:///lib/main.dart or http://127.0.0.1/a/b",
            "read workspace:///lib/main.dart or http://127.0.0.1/a/b",
        ),
        ("either/or, 1/2, and a/b/c", "either/or, 1/2, and a/b/c"),
        ("/home/x/project-two/a is another", "…/a is another"),
    ],
)
def test_paths_are_reported_relative_to_the_project_or_by_their_name(told: str, heard: str) -> None:
    assert without_server_paths(told, "/home/x/project") == heard
