"""Python files and objects named on the command line: found, served beside the desk, and refused with a reason."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from carrel.cli.named_objects import object_flag, positional_flag, with_flags
from carrel.cli.serve import parse
from carrel.core.errors import ConfigError
from carrel.providers.objects.loading import find
from tests.support.command_line import Ran, Run
from tests.support.waiting import PATIENCE_S

GARDEN = '''
from carrel import Shelf
from beds import BEDS

shelf = Shelf("garden")

@shelf.resource("garden://beds/{bed}", entries=lambda: BEDS)
def bed(bed: str) -> dict:
    """One bed: name and moisture."""
    return {"bed": bed, "moisture": BEDS[bed]}
'''


@pytest.fixture(name="project", autouse=True)
def project_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "README.md").write_text("# A\n", encoding="utf-8")
    (folder / "code").mkdir()
    (folder / "my code").mkdir()
    (folder / "code/garden.py").write_text(GARDEN, encoding="utf-8")
    (folder / "code/beds.py").write_text("BEDS = {'north': 41.5, 'south': 12.0}\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    yield folder
    for name in [name for name in sys.modules if name in ("beds", "pond") or name.startswith("carrel_file_")]:
        del sys.modules[name]


@pytest.mark.slow
def test_commands_read_a_file_together_with_the_folder_s_desk(run: Run) -> None:
    garden = ("--with", "code/garden.py")
    assert run("cat", "garden://beds/north", *garden) == Ran(0, '{"bed":"north","moisture":41.5}', "")
    assert run("ls", "garden:", *garden).out == "garden://beds/north\ngarden://beds/south\n"
    assert "workspace:///README.md\n" in run("ls", *garden).out
    assert "garden://beds/{bed}\n" in run("templates", *garden).out
    assert run("complete", "garden://beds/{bed}", "bed", "s", *garden).out == "south\n"
    assert "garden: object garden.py, from the command line" in run("doctor", *garden).out
    assert run("explain", "garden://beds/north", *garden) == Ran(0, "Served.\n", "")
    assert run(*garden, "cat", "garden://beds/south").code == 0
    assert run("cat", "garden://beds/east", *garden).code == 1


def test_the_overview_shows_how_a_host_is_connected_with_the_file(run: Run) -> None:
    ran = run("--with", "code/garden.py")

    assert "connect HOST --with code/garden.py" in " ".join(ran.out.split())


def test_a_search_of_a_person_finds_what_an_object_has(run: Run) -> None:
    assert "\ngarden://beds/north  " in run("search", "north", "--with", "code/garden.py").out


def test_an_object_that_is_a_provider_of_another_name_is_counted_and_checked(run: Run, project: Path) -> None:
    (project / "pond.py").write_text(
        "from carrel import Project, Provider, Resource, Route, Text\n"
        "class Fish(Provider):\n"
        "    name, schemes = 'fish', ('fish',)\n"
        "    def __init__(self, project: Project) -> None: pass\n"
        "    def routes(self): return [Route('fish://carp', lambda: Text('a carp'), name='carp')]\n"
        "    def entries(self, after=''): return iter([Resource('fish://carp', 'carp')])\n",
        encoding="utf-8",
    )
    overview = json.loads(run("--json", "--with", "pond.py:Fish").out)
    checked = run("doctor", "--with", "pond.py:Fish").out

    assert [(one["name"], one["entries"]) for one in overview["providers"] if one["name"] == "pond"] == [("pond", 1)]
    assert "provider: pond: object pond.py:Fish, from the command line; first entry fish://carp" in checked


def test_several_files_and_a_module_are_served_side_by_side(run: Run, project: Path) -> None:
    (project / "pond.py").write_text(
        "from carrel import Shelf\nshelf = Shelf('pond')\nshelf.resource('pond://fish', name='fish')(lambda: 'carp')\n",
        encoding="utf-8",
    )
    both = ("--with", "code/garden.py", "--with", "pond:shelf")

    assert run("cat", "pond://fish", *both).out == "carp"
    assert run("cat", "garden://beds/south", *both).code == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(:\n", "broken.py: line 1: invalid syntax"),
        ("x = 1\nraise ValueError('/etc/passwd')\n", "broken.py: line 2: ValueError was raised"),
        ("import nowhere_at_all\n", "broken.py: line 1: there is no module nowhere_at_all"),
        ("x = 1\n", 'broken.py has no shelf; write shelf = Shelf("NAME"), or name an object: broken.py:thing'),
        (
            "from carrel import Shelf\na = Shelf('a')\nb = Shelf('b')\n",
            "broken.py has several shelves; name each: broken.py:a, broken.py:b",
        ),
        (
            "from carrel import Shelf\nshelf = Shelf('a')\n@shelf.resource('a://{x}')\ndef f(): ...\n",
            "broken.py: line 3: f: a://{x} has the variable x; give the function a parameter x",
        ),
    ],
)
def test_a_file_that_cannot_be_loaded_is_left_out_with_the_line_to_look_at(
    run: Run, project: Path, caplog: pytest.LogCaptureFixture, text: str, told: str
) -> None:
    (project / "broken.py").write_text(text, encoding="utf-8")
    ran = run("ls", "--with", "broken.py", "--with", "code/garden.py")

    assert caplog.messages == [f"object broken (broken.py) is not served: {told}"]
    assert "garden://beds/north" in ran.out


def test_an_attribute_of_a_file_may_be_any_object(run: Run, project: Path, caplog: pytest.LogCaptureFixture) -> None:
    (project / "two.py").write_text(
        "from carrel import Shelf\na = Shelf('a')\nb = Shelf('b')\nb.resource('b://b', name='b')(lambda: 'B')\n",
        encoding="utf-8",
    )
    assert run("cat", "b://b", "--with", "two.py:b").out == "B"
    assert run("ls", "b:", "--with", "two.py:c").out == ""
    assert "two.py has no attribute c" in caplog.text


def test_several_objects_of_one_file_are_served_side_by_side(run: Run, project: Path) -> None:
    (project / "two.py").write_text(
        "from carrel import Shelf\na = Shelf('a')\nb = Shelf('b')\n"
        "a.resource('a://a', name='a')(lambda: 'A')\nb.resource('b://b', name='b')(lambda: 'B')\n",
        encoding="utf-8",
    )
    both = ("--with", "two.py:a", "--with", "two.py:b")

    assert run("cat", "a://a", *both) == Ran(0, "A", "")
    assert run("cat", "b://b", *both) == Ran(0, "B", "")


def test_an_object_waits_until_another_one_has_run_their_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = SimpleNamespace(began=Event(), go=Event())
    monkeypatch.setitem(sys.modules, "gate", gate)
    (project / "two.py").write_text("import gate\na = 1\ngate.began.set()\ngate.go.wait(60)\nb = 2\n", encoding="utf-8")
    found: dict[str, object] = {}

    def load(name: str) -> None:
        found[name] = find(f"{project}/two.py:{name}")

    first, second = Thread(target=load, args=("a",)), Thread(target=load, args=("b",))

    first.start()
    assert gate.began.wait(PATIENCE_S)
    second.start()
    second.join(0.2)  # it would end here if it took the half of the file that has run
    gate.go.set()
    first.join(PATIENCE_S)
    second.join(PATIENCE_S)
    assert found == {"a": 1, "b": 2}


def test_a_project_file_may_name_a_file_below_it_and_needs_trust(run: Run, project: Path) -> None:
    (project / "carrel.toml").write_text("[objects.garden]\nimport = 'code/garden.py'\n", encoding="utf-8")
    untrusted = run("cat", "garden://beds/north")
    trusted = run("trust").code, run("cat", "garden://beds/north").out

    assert untrusted.code != 0
    assert trusted == (0, '{"bed":"north","moisture":41.5}')


@pytest.mark.parametrize("command", ["ls", "serve"])
def test_a_file_with_the_name_of_a_configured_object_is_refused_and_both_are_named(
    run: Run, project: Path, command: str
) -> None:
    settings = project / "carrel.toml"
    settings.write_text("[objects.garden]\nimport = 'code/garden.py'\n", encoding="utf-8")
    other = project / "my code/garden.py"
    other.write_text(GARDEN, encoding="utf-8")
    run("trust")

    ran = run(command, "--with", "my code/garden.py")

    assert (ran.code, ran.out) == (2, "")
    assert f"--with {other}: [objects.garden] in {settings} serves another object" in ran.err
    assert "code/garden.py; to serve both, rename the file or the section" in ran.err


def test_a_file_may_be_configured_and_named_on_the_command_line(run: Run, project: Path) -> None:
    (project / "carrel.toml").write_text("[objects.garden]\nimport = 'code/garden.py'\n", encoding="utf-8")
    run("trust")

    assert run("ls", "garden:", "--with", "code/garden.py").out == "garden://beds/north\ngarden://beds/south\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("ls", "--with", "none.py"), "none.py: no such file"),
        (("ls", "--with", "garden"), "--with garden: give a Python file (garden.py) or an object (module:name)"),
        (("complete", "x://{a}", "a", "--with", "b=1"), "--with b=1: give a Python file (garden.py) or an object"),
        (("serve", "--with", "garden"), "--with garden: give a Python file (garden.py) or an object (module:name)"),
        (("serve", "none.py"), "none.py: no such file"),
        (("serve", "code"), "code is a folder; to serve a folder: carrel serve --project code"),
        (("serve", "my code"), "my code is a folder; to serve a folder: carrel serve --project 'my code'"),
        (
            ("serve", "garden"),
            "unexpected argument 'garden'; serve takes Python files (garden.py) and objects (module:name)",
        ),
        (("trust", "--list", "--with", "code/garden.py"), "No such option '--with'"),
        (("--with", "code/garden.py", "trust"), "trust does not take --with; these commands do:"),
        (("ls", "--server", "x", "--with", "code/garden.py"), "--with serves more from this project"),
    ],
)
def test_what_cannot_be_served_is_a_wrong_command_line(run: Run, words: tuple[str, ...], told: str) -> None:
    ran = run(*words)

    assert ran.code == 2
    assert told in ran.err.replace("such option: --with", "such option '--with'")


def test_a_file_is_meant_from_the_working_folder_and_names_its_section(project: Path) -> None:
    file = str(project / "code/garden.py")
    assert object_flag("code/garden.py") == ("objects.garden", "import", file)
    assert object_flag("code/garden.py:other") == ("objects.garden", "import", f"{file}:other")
    assert object_flag("pkg.garden:shelf") == ("objects.garden", "import", "pkg.garden:shelf")
    assert object_flag("pkg.garden:Greenhouse") == ("objects.greenhouse", "import", "pkg.garden:Greenhouse")
    assert object_flag("installed") == ("objects.installed", "provider", "installed")
    (project / "logs.py").touch()
    (project / "1 & 2.py").touch()
    assert [flag[0] for flag in with_flags(["logs.py", "1 & 2.py", "code/garden.py", "x:garden"])] == [
        "objects.logs-2",
        "objects.object-1-2",
        "objects.garden",
        "objects.garden-2",
    ]
    with pytest.raises(ConfigError):
        positional_flag("installed")


def test_settings_of_a_file_may_stand_before_and_after_it() -> None:
    flags = parse(["--set", "objects.garden.timeout_s=30", "code/garden.py", "--set", "objects.garden.poll_s=1"]).flags

    assert [(section, key) for section, key, _ in flags] == [
        ("objects.garden", "timeout_s"),
        ("objects.garden", "import"),
        ("objects.garden", "poll_s"),
    ]


def test_health_names_the_file_and_not_its_folder(run: Run, project: Path) -> None:
    health = json.loads(run("cat", "carrel://health", "--with", "code/garden.py").out)

    assert "garden.py" in json.dumps(health)
    assert os.fspath(project / "code") not in json.dumps(health)
