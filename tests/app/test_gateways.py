"""Objects that the configuration, the command line or an installed package names: found, checked, left out, joined."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from carrel.app import config
from carrel.app.app import Desk, open_desk
from carrel.cli.serve import announcement, parse
from carrel.client.client import Client
from carrel.core.errors import ConfigError, RemoteError
from carrel.core.model import Text
from tests.support.trusting import trust
from tests.support.waiting import PATIENCE_S

GARDEN = (Path(__file__).parents[1] / "support" / "greenhouse.py").read_text(encoding="utf-8")
OBJECT = """
from carrel import Resource
from carrel.providers.objects import Contents, TextContent
class {name}:
    def __init__(self, uri="{uri}"):
        self.uri = uri
    def capabilities(self):
        return ["resources"]
    def resources(self):
        return [Resource(self.uri, "{name}")]
    def resource_read(self, uri, arguments):
        return Contents([TextContent(uri, "text/plain", "{name}")])
"""


@pytest.fixture(name="project")
def project_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = (tmp_path / "project").resolve()
    folder.mkdir()
    modules = set(sys.modules)
    yield folder
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def desk_of(project: Path, *flags: str, patience_s: float = PATIENCE_S, is_trusted: bool = True) -> Desk:
    environment = {"HOME": str(project.parent)}
    if is_trusted and (project / "carrel.toml").exists():
        trust(project / "carrel.toml", environment)
    parsed = parse([*flags, "--project", str(project), "--without", "workspace"])
    return open_desk(config.load(str(project), environment, parsed.flags), patience_s)


def uris(desk: Desk) -> list[str]:
    return [entry.uri for entry in desk.catalog.entries() if not entry.uri.startswith("carrel:")]


def health(desk: Desk) -> Any:
    item = desk.catalog.read("carrel://health").items[0]
    assert isinstance(item, Text)
    return json.loads(item.text)


def test_an_object_of_the_project_file_is_served_with_its_arguments(project: Path) -> None:
    write(project / "garden/desk.py", GARDEN)
    text = "[objects.greenhouse]\nimport = 'garden.desk:Greenhouse'\nargs = { beds = { north = 41.5 } }\n"
    write(project / "carrel.toml", text)
    desk = desk_of(project)
    with Client.to(desk.server) as client:
        [item] = client.read("greenhouse://house/summary").items
        guide = client.read("carrel://guide").items[0]
    desk.close()

    assert isinstance(item, Text)
    assert isinstance(guide, Text)
    assert item.text == "north 41.5"
    assert uris(desk) == ["greenhouse://house/badge", "greenhouse://house/summary"]
    assert "greenhouse://house/beds/{bed}" in guide.text
    told = f"object garden.desk:Greenhouse, from {project / 'carrel.toml'}"
    assert [(one.name, one.state, one.why) for one in desk.choices[:1]] == [("greenhouse", "served", told)]


def test_an_object_of_a_file_that_is_not_trusted_is_not_even_imported(project: Path) -> None:
    write(project / "evil.py", "raise SystemExit('imported')")
    write(project / "carrel.toml", "[objects.evil]\nimport = 'evil:Evil'\n")
    desk = desk_of(project, is_trusted=False)

    assert uris(desk) == []
    assert desk.notes == (
        "[objects.evil] in carrel.toml is not in effect: it runs code; run `carrel trust` to allow it",
    )


def test_objects_of_the_command_line_get_names_of_their_own(project: Path) -> None:
    write(project / "one.py", OBJECT.format(name="Thing", uri="one://a"))
    write(project / "two.py", OBJECT.format(name="Thing", uri="two://a") + "\nthing = Thing('two://b')\n")
    write(project / "three.py", OBJECT.format(name="Thing", uri="three://a") + "\ndef make_it(): return Thing()\n")
    desk = desk_of(project, "--object", "one:Thing", "--object=two:thing", "--object", "three:make_it")
    desk.close()

    assert [choice.name for choice in desk.choices[:3]] == ["thing", "thing-2", "make-it"]
    assert uris(desk) == ["one://a", "two://b", "three://a"]


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("nowhere.desk:X", "there is no module nowhere; install it, or add its folder to PYTHONPATH"),
        ("thing:Absent", "thing has no attribute Absent"),
        ("needy:X", "needy imports absent_module, which is not installed"),
        ("broken:X", "importing broken raised SyntaxError"),
        ("leaves:X", "importing leaves raised SystemExit"),
        ("thing:fails", "thing:fails() raised ZeroDivisionError when it was called"),
        ("thing:wants", "thing:wants needs the parameter beds; give it in args, in a section [objects.NAME]"),
        ("thing:refuses", "thing:refuses() raised TypeError when it was called"),
        ("thing:NUMBER", "it is not a Provider and has no method capabilities()"),
        ("thing:Lacking", "it declares resources and has no method resources()"),
        ("installed", "no installed package has the entry point installed in the group carrel.providers"),
    ],
)
def test_what_does_not_load_is_left_out_and_the_others_are_served(
    project: Path, target: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    lacking = "\nclass Lacking:\n    def capabilities(self): return ['resources']\n"
    wrong = "\nNUMBER = 5\ndef fails(): 1 / 0\n"
    wrong += "def wants(beds, wet=1, *more, dry, **rest): ...\ndef refuses(beds=None): raise TypeError('/secret')\n"
    write(project / "thing.py", OBJECT.format(name="Thing", uri="thing://a") + wrong + lacking)
    write(project / "needy.py", "import absent_module")
    write(project / "broken.py", "def")
    write(project / "leaves.py", "raise SystemExit")
    desk = desk_of(project, "--object", target, "--object", "thing:Thing")
    name = desk.choices[0].name
    found = health(desk)
    guide = desk.catalog.read("carrel://guide").items[0]
    desk.close()

    assert uris(desk) == ["thing://a"]
    assert [choice.state for choice in desk.choices[:2]] == ["failed", "served"]
    assert told in desk.choices[0].why
    assert f" {name} (" not in announcement(desk)[0]
    assert [problem for problem in found["problems"] if problem.startswith(f"{name}: not served: {told}")] != []
    assert isinstance(guide, Text)
    assert f"- {name}: not served: {told}" in guide.text
    assert len([record for record in caplog.records if told in record.getMessage()]) == 1
    assert all(record.exc_info is None for record in caplog.records)


def test_of_a_constructor_only_what_was_not_given_is_said_to_be_missing(project: Path) -> None:
    write(project / "thing.py", "from carrel import Project\ndef make(project: Project, beds, *, dry): ...\n")
    write(project / "carrel.toml", "[objects.thing]\nimport = 'thing:make'\nargs = { beds = {} }\n")
    desk = desk_of(project)
    problems = health(desk)["problems"]
    desk.close()

    told = "thing:make needs the parameter dry; give it in args, in a section [objects.NAME]"
    assert problems == [f"thing: not served: {told}"]


def test_an_object_that_loads_slowly_joins_later_and_is_reported(project: Path) -> None:
    write(project / "gate.py", "import threading\nopen = threading.Event()\n")
    slow = "import gate\ngate.open.wait(10)\n" + OBJECT.format(name="Slow", uri="slow://a")
    write(project / "slow.py", slow)
    desk = desk_of(project, "--object", "slow:Slow", patience_s=0.05)
    assert uris(desk) == []
    with Client.to(desk.server) as client:
        assert {"tools", "completions"} <= set(client.capabilities)
        with client.listen(list_changes=True) as listening:
            sys.modules["gate"].open.set()
            assert listening.wait(PATIENCE_S) == ""
        assert [entry.uri for entry in client.resources()][3:] == ["slow://a"]
    desk.close()


def test_an_object_that_never_loads_is_given_up(project: Path) -> None:
    write(project / "never.py", "import threading\nthreading.Event().wait(5)\n")
    text = "[objects.never]\nimport = 'never:X'\nstart_timeout_s = 0.1\n"
    write(project / "carrel.toml", text)
    desk = desk_of(project)
    problems = health(desk)["problems"]
    desk.close()

    assert problems == ["never: not served: it did not load within 0.1 s"]


NATIVE = """
from carrel import Project, Provider, Resource, Route, Text
class Native(Provider):
    name = "native"
    schemes = ("native",)
    def __init__(self, project: Project, word: str = "hello") -> None:
        self.word = word
    def routes(self):
        return (Route("native://word", self.read, name="word", mime_type="text/plain"),)
    def entries(self, after=""):
        if after < "native://word":
            yield Resource("native://word", "word", "", "text/plain")
    def read(self):
        return Text(self.word)
"""


def test_a_native_provider_comes_in_by_the_same_door(project: Path) -> None:
    write(project / "native.py", NATIVE)
    write(project / "carrel.toml", "[objects.mine]\nimport = 'native:Native'\nargs = { word = 'hi' }\n")
    desk = desk_of(project)
    read = desk.catalog.read("native://word").items
    desk.close()

    assert (uris(desk), read) == (["native://word"], (Text("hi"),))


def test_two_claims_on_one_uri_are_an_error_that_names_both(project: Path) -> None:
    write(project / "one.py", OBJECT.format(name="One", uri="x://a"))
    write(project / "two.py", OBJECT.format(name="Two", uri="X://%61"))

    with pytest.raises(ConfigError, match="both one and two define X://%61"):
        desk_of(project, "--object", "one:One", "--object", "two:Two")


def test_two_claims_on_one_template_or_tool_are_errors_too(project: Path) -> None:
    template = "\n    def resource_templates(self): return [Template('x://{y}', 'y')]\n"
    head = "from carrel import Template\n"
    write(project / "one.py", head + OBJECT.format(name="One", uri="x://a/a") + template)
    write(project / "two.py", head + OBJECT.format(name="Two", uri="x://a/b") + template)
    with pytest.raises(ConfigError, match=r"both one and two define x://\{y\}"):
        desk_of(project, "--object", "one:One", "--object", "two:Two")

    tools = "[ToolMethod('read_resource', 'go')]"
    tool = f"\n    def capabilities(self): return ['tools']\n    def tools(self): return {tools}\n"
    write(
        project / "three.py",
        "from carrel.providers.objects import ToolMethod\n"
        + OBJECT.format(name="Three", uri="x://c")
        + tool
        + "    def go(self): pass\n",
    )
    with pytest.raises(ConfigError, match="both three and mirror define read_resource"):
        desk_of(project, "--object", "three:Three")


def test_a_clash_that_appears_later_leaves_the_first_its_own_and_is_reported(project: Path) -> None:
    write(project / "one.py", OBJECT.format(name="One", uri="x://a") + "\none = One()\n")
    write(project / "two.py", OBJECT.format(name="Two", uri="x://b") + "\ntwo = Two()\n")
    text = "[objects.one]\nimport = 'one:one'\nlist_ttl_s = 0\n[objects.two]\nimport = 'two:two'\nlist_ttl_s = 0\n"
    write(project / "carrel.toml", text)
    desk = desk_of(project)
    assert uris(desk) == ["x://a", "x://b"]
    sys.modules["two"].two.uri = "x://a"
    list(desk.catalog.entries())
    read = desk.catalog.read("x://a").items
    found = (uris(desk), health(desk)["problems"])
    desk.close()

    assert found == (["x://a"], ["x://a is claimed by one and by two; one keeps it"])
    assert read == (Text("One", "text/plain"),)


@pytest.mark.slow
def test_the_doctor_tells_of_an_object_that_does_not_load_and_of_a_clash(project: Path) -> None:
    write(project / "one.py", OBJECT.format(name="One", uri="logs://run/1"))
    own = project.parent / ".config/carrel/config.toml"
    environment = {**os.environ, "HOME": str(project.parent), "XDG_CONFIG_HOME": "", "PYTHONPATH": str(project)}
    command = [sys.executable, "-m", "carrel", "doctor", "--json"]
    for target, told in (
        (
            "one:Two",
            ("object-import", f"one: the object one:Two is not served: {LACKS}"),
        ),
        ("one:One", ("clash", CLASH)),
    ):
        write(own, f"[objects.one]\nimport = '{target}'\n")
        ran = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 1
        found = [(one["id"], one["message"]) for one in json.loads(ran.stdout) if one["state"] == "problem"]
        assert (found[0][0], found[0][1].partition(";")[0]) == told


LACKS = "one has no attribute Two"
CLASH = "both logs and one define logs://run/1"


@pytest.mark.parametrize(
    ("uri", "owner", "name"),
    [
        ("logs://run/web_1", "logs", "logs"),
        ("LOGS://run/web_1", "logs", "logs"),
        ("workspace:///README.md", "workspace", "workspace"),
        ("carrel://guide", "guide", "guide"),
    ],
)
def test_a_uri_that_a_built_in_provider_serves_is_claimed_twice(project: Path, uri: str, owner: str, name: str) -> None:
    write(project / "one.py", OBJECT.format(name="One", uri=uri))
    with pytest.raises(ConfigError, match=f"both {owner} and one define {uri}"):
        open_all(project, "--object", "one:One")
    desk = open_all(project, "--object", "one:One", "--without", name)
    desk.close()


def open_all(project: Path, *flags: str) -> Desk:
    environment = {"HOME": str(project.parent)}
    return open_desk(config.load(str(project), environment, parse([*flags, "--project", str(project)]).flags), 10.0)


def test_a_uri_of_a_built_in_provider_that_an_object_lists_later_stays_where_it_was(project: Path) -> None:
    write(project / "README.md", "the file")
    write(project / "one.py", OBJECT.format(name="One", uri="x://a") + "\none = One()\n")
    write(project / "carrel.toml", "[objects.one]\nimport = 'one:one'\nlist_ttl_s = 0\n")
    trust(project / "carrel.toml", {"HOME": str(project.parent)})
    desk = open_all(project)
    sys.modules["one"].one.uri = "workspace:///README.md"
    list(desk.catalog.entries())
    listed = uris(desk)
    reading = desk.catalog.read("workspace:///README.md")
    problems = health(desk)["problems"]
    desk.close()

    assert listed.count("workspace:///README.md") == 1
    assert [item.text for item in reading.items if isinstance(item, Text)] == ["the file"]
    assert problems == ["workspace:///README.md is claimed by workspace and by one; workspace keeps it"]


def test_objects_may_share_a_scheme(project: Path) -> None:
    write(project / "one.py", OBJECT.format(name="One", uri="x://a"))
    write(project / "two.py", OBJECT.format(name="Two", uri="x://b"))
    desk = desk_of(project, "--object", "one:One", "--object", "two:Two")
    with Client.to(desk.server) as client:
        texts = [client.read(uri).items for uri in ("x://a", "x://b")]
        with pytest.raises(RemoteError, match="Resource not found: x://c"):
            client.read("x://c")
    desk.close()

    assert [item.text for items in texts for item in items if isinstance(item, Text)] == ["One", "Two"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[objects.x]\nimprt = 'a:b'\n", "[objects.x] has no key 'imprt'; did you mean 'import'?"),
        ("[objects.x]\n", "[objects.x] give either import"),
        ("[objects.x]\ntimeout_s = 5\n", '[objects.x] give either import = "module:attribute" or provider = "NAME"'),
        ("[objects.x]\nimport = 'a'\n", "[objects.x] import: expected module:attribute or a file.py, got 'a'"),
        ("[objects.x]\nimport = 'a:b'\ntimeout_s = 0.01\n", "timeout_s: expected a number from 0.1 to 300, got 0.01"),
        ("[objects.X]\nimport = 'a:b'\n", "[objects.X]: use a-z, 0-9 and '-' for the name"),
        (
            "[objects.workspace]\nimport = 'a:b'\n",
            "[objects.workspace]: the name 'workspace' is already used by Carrel itself",
        ),
        ("[objects.x]\nimport = 'a:b'\nfacets = ['prompts']\n", "expected an array, each item one of"),
        ("[objects]\nx = 5\n", "objects.x must be a section: [objects.x]"),
    ],
)
def test_a_mistake_in_the_configuration_names_its_place(project: Path, text: str, said: str) -> None:
    write(project / "carrel.toml", text)
    with pytest.raises(ConfigError) as caught:
        desk_of(project)

    assert said in str(caught.value)


def test_neither_door_is_imported_where_none_is_configured(project: Path) -> None:
    script = (
        "import sys; from carrel.app import config; from carrel.app.app import open_desk\n"
        f"open_desk(config.load({str(project)!r}, {{'HOME': {str(project.parent)!r}}})).close()\n"
        "print([name for name in sys.modules if 'objects' in name or 'mounts' in name])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert ran.stdout == "[]\n"


NOISY = (
    "import os, threading\nprint('noise at import')\nos.write(1, b'raw noise\\n')\n"
    "def shout():\n    print('noise of a thread')\n"
    + OBJECT.format(name="Noisy", uri="noisy://a").replace(
        "return Contents",
        "print('noise while reading'); thread = threading.Thread(target=shout); thread.start(); thread.join()\n"
        "        return Contents",
    )
)
NOISE = {"noise at import", "raw noise", "noise while reading", "noise of a thread"}


@pytest.mark.slow
def test_what_an_object_prints_is_not_heard_by_the_client(project: Path) -> None:
    write(project / "noisy.py", NOISY)
    said: list[str] = []
    command = [sys.executable, "-m", "carrel", "serve", "--object", "noisy:Noisy", "--without", "workspace"]
    environment = {**os.environ, "HOME": str(project.parent)}
    with Client.start(command, cwd=project, env=environment, stderr=said.append) as client:
        [item] = client.read("noisy://a").items

    assert isinstance(item, Text)
    assert item.text == "Noisy"
    assert set(said) >= NOISE


@pytest.mark.slow
def test_what_an_object_prints_is_not_part_of_a_command_s_output(project: Path) -> None:
    write(project / "noisy.py", NOISY)
    write(project.parent / ".config/carrel/config.toml", "[objects.noisy]\nimport = 'noisy:Noisy'\n")
    environment = {**os.environ, "HOME": str(project.parent), "XDG_CONFIG_HOME": "", "PYTHONPATH": str(project)}
    for words, told in ((["cat", "noisy://a"], "Noisy"), (["ls", "noisy:"], "noisy://a\n")):
        command = [sys.executable, "-m", "carrel", *words]
        ran = subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        assert ran.stdout == told
        assert set(ran.stderr.splitlines()) >= {"noise at import", "raw noise"}


@pytest.mark.slow
def test_what_an_object_prints_at_an_address_goes_to_stderr(project: Path) -> None:
    write(project / "noisy.py", NOISY)
    command = [sys.executable, "-m", "carrel", "serve", "--http", "0", "--no-token", "--object", "noisy:Noisy"]
    environment = {**os.environ, "HOME": str(project.parent)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=project, env=environment, text=True, stdout=pipe, stderr=pipe) as process:
        assert process.stderr is not None
        said: list[str] = []
        for line in process.stderr:
            said.append(line.strip())
            if "no token" in line:
                break
        [url] = [line.split()[-1] for line in said if "listening on" in line]
        with Client.at(url) as client:
            assert client.read("noisy://a").items
        process.terminate()
        printed, rest = process.communicate(timeout=30)

    assert printed == ""
    assert {*said, *rest.splitlines()} >= NOISE


def test_what_an_object_prints_in_this_process_goes_to_stderr(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project / "noisy.py", NOISY.replace("os.write(1, b'raw noise\\n')", ""))
    desk = desk_of(project, "--object", "noisy:Noisy")
    before = sys.stdout
    with Client.to(desk.server) as client:
        assert client.read("noisy://a").items
        sys.stdout.write("our own\n")
    desk.close()

    told = capsys.readouterr()
    assert told.out.replace("noise of a thread\n", "") == "our own\n"
    assert {"noise at import", "noise while reading"} <= set(told.err.splitlines())
    assert sys.stdout is before
