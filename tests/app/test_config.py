"""Configuration: layers, origins, mistakes that say where, and what needs trust."""

import contextlib
import errno
import functools
import os
import re
import shlex
from collections.abc import Callable
from os.path import relpath
from pathlib import Path

import pytest

from carrel.app import config
from carrel.app.app import open_desk
from carrel.app.schema import Key, schema_of
from carrel.app.trust import TrustStore
from carrel.cli.serve import parse
from carrel.core.errors import ConfigError
from carrel.core.hashing import sha256
from carrel.core.provider import Project
from tests.support.owners import give_away
from tests.support.trusting import trust


@pytest.fixture(name="home")
def user_home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture(name="project")
def project_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder.resolve()


def load(folder: Path, home: Path, *flags: tuple[str, str, str], **variables: str) -> config.Config:
    """Load the settings as somebody who works in the folder."""
    with contextlib.chdir(folder):
        return config.load(None, {"HOME": str(home), **variables}, flags)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_without_any_file_the_working_folder_is_the_root_and_nothing_is_set(project: Path, home: Path) -> None:
    loaded = load(project, home)

    assert (loaded.root, loaded.files, loaded.sections, loaded.withheld) == (str(project), [], {}, [])


def test_the_nearest_folder_with_git_is_the_root(project: Path, home: Path) -> None:
    (project / ".git").mkdir()
    (project / "a/b").mkdir(parents=True)

    assert load(project / "a/b", home).root == str(project)


@pytest.mark.parametrize("mark", [".carrel/", ".sage/", "pubspec.yaml", "alc.toml", ".git/", ".git"])
def test_the_nearest_folder_that_bears_a_mark_is_the_root(project: Path, home: Path, mark: str) -> None:
    (project / ".git").mkdir()
    write(project / "carrel.toml", "")
    (project / "app/lib").mkdir(parents=True)
    if mark.endswith("/"):
        (project / "app" / mark).mkdir()
    else:
        write(project / "app" / mark, "")

    assert [load(place, home).root for place in (project / "app", project / "app/lib")] == [str(project / "app")] * 2


def test_a_folder_that_is_named_is_the_root_as_it_is(project: Path, home: Path) -> None:
    (project / ".git").mkdir()
    (project / "a").mkdir()
    named = config.load(str(project / "a"), {"HOME": str(home)})
    with contextlib.chdir(home):
        by_host = config.load(None, {"HOME": str(home), "CLAUDE_PROJECT_DIR": str(project / "a")})

    assert (named.root, by_host.root) == (str(project / "a"), str(project / "a"))


def test_a_host_that_names_no_folder_names_nothing(project: Path, home: Path) -> None:
    assert load(project, home, CLAUDE_PROJECT_DIR=str(project / "gone")).root == str(project)


def test_a_host_that_works_in_a_home_does_not_make_it_a_project(home: Path) -> None:
    assert load(home, home, CLAUDE_PROJECT_DIR=str(home)).place.is_too_much


@pytest.mark.parametrize("mark", [".carrel", ".sage", ".git"])
def test_marks_in_a_home_do_not_make_it_the_root_of_what_is_in_it(home: Path, mark: str) -> None:
    (home / mark).mkdir()
    (home / "notes").mkdir()

    assert (load(home / "notes", home).root, load(home, home).place.is_too_much) == (str(home / "notes"), True)


def test_a_working_folder_that_is_gone_is_named(project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    project.rmdir()

    with pytest.raises(ConfigError, match="the working folder no longer exists"):
        config.load(None, {"HOME": str(home)})


def test_data_near_the_root_that_is_not_served_is_reported_with_the_command_that_serves_it(
    project: Path, home: Path
) -> None:
    (project / "app" / ".git").mkdir(parents=True)
    write(project / ".sage/system/objective.md", "")
    write(project / "app/mobile/pubspec.yaml", "")
    write(project / "app/mobile/.carrel/scopes.db", "")

    assert load(project / "app", home).elsewhere() == [
        "../.sage (memory) is not served here; to serve it: carrel serve --project ..",
        (
            "mobile/.carrel/scopes.db (tasks) and mobile/pubspec.yaml (a Flutter project) are not served here; "
            "to serve them: carrel serve --project mobile"
        ),
    ]


def test_the_command_for_data_in_a_subfolder_can_be_pasted_into_a_shell(project: Path, home: Path) -> None:
    name = "my app's \u00e4 $HOME"
    (project / ".git").mkdir()
    write(project / name / ".sage/system/objective.md", "")

    [note] = load(project, home).elsewhere()
    assert shlex.split(note.partition(": ")[2]) == ["carrel", "serve", "--project", name]


def test_the_command_for_data_in_a_subfolder_is_meant_from_the_root_or_from_here(project: Path, home: Path) -> None:
    (project / "app/.sage").mkdir(parents=True)
    (project / "lib/deep").mkdir(parents=True)
    loaded = load(project, home)

    def told(folder: Path, *, is_from_here: bool = True) -> str:
        with contextlib.chdir(folder):
            [note] = loaded.elsewhere(is_from_here=is_from_here)
        return note.rpartition(" ")[2]

    assert told(project / "lib/deep") == "../../app"
    assert told(Path("/")) == relpath(project / "app", "/")
    assert told(project / "lib/deep", is_from_here=False) == "app"
    gone = project / "gone"
    gone.mkdir()
    with contextlib.chdir(gone):
        gone.rmdir()
        [note] = loaded.elsewhere(is_from_here=True)
    assert note.endswith(f" --project {project}/app")


def test_packages_in_a_subfolder_are_reported_unless_others_are_in_use(project: Path, home: Path) -> None:
    (project / ".git").mkdir()
    write(project / "tools/alc.toml", "")
    loaded = load(project, home)

    assert loaded.elsewhere() == [
        "tools/alc.toml (algocline packages) is not served here; to serve it: carrel serve --project tools"
    ]
    with contextlib.chdir(project / "tools"):  # the provider looks here first
        assert loaded.elsewhere() == []
    assert load(project, home, ALC_PROJECT_ROOT="tools").elsewhere() == []
    write(project.parent / "alc.toml", "")
    assert load(project, home).elsewhere() == []


@pytest.mark.parametrize(
    ("setting", "data"),
    [(".sage.dir", ".sage/x"), (".scopes.db", ".carrel/scopes.db"), (".alc.project_root", "alc.toml")],
)
def test_data_that_a_setting_names_is_served_wherever_it_lies(
    project: Path, home: Path, setting: str, data: str
) -> None:
    (project / ".git").mkdir()
    write(project / "app" / data, "")
    _, section, key = setting.split(".")

    assert len(load(project, home).elsewhere()) == 1
    assert load(project, home, (section, key, f"app/{data.partition('/x')[0]}")).elsewhere() == []


def test_memory_in_a_home_is_served_without_serving_the_home(home: Path) -> None:
    (home / ".sage").mkdir()
    (home / ".carrel").mkdir()
    write(home / ".carrel/scopes.db", "")
    (home / "notes").mkdir()

    assert load(home / "notes", home).elsewhere() == [
        "../.sage (memory) is not served here; to serve it: carrel serve --set sage.dir=~/.sage"
    ]


@pytest.mark.parametrize("text", ['["a b", "c,d"]', ' ["a b",\n "c,d"] ', '\n["a b", "c,d"]\n'])
def test_a_list_may_be_written_as_in_a_file(project: Path, home: Path, text: str) -> None:
    assert load(project, home, ("workspace", "deny", text)).values("workspace") == {"deny": ["a b", "c,d"]}
    assert load(project, home, CARREL_WORKSPACE_DENY=text).values("workspace") == {"deny": ["a b", "c,d"]}


@pytest.mark.parametrize("patterns", [["[ab]*", "c d"], ["[a-z]*.[ch]"], ["[!ab]*", "*.[ch]"]])
def test_patterns_with_brackets_are_no_list_as_in_a_file(project: Path, home: Path, patterns: list[str]) -> None:
    given = ("workspace", "deny", ", ".join(patterns))

    assert load(project, home, given).values("workspace") == {"deny": patterns}


@pytest.mark.parametrize("text", ["[a, b]", '["a" "b"]', "{}"])
def test_a_list_that_is_written_half_as_in_a_file_is_refused(project: Path, home: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="expected an array of strings"):
        load(project, home, ("workspace", "deny", text))


def test_data_of_which_the_root_has_its_own_is_not_reported(project: Path, home: Path) -> None:
    write(project / ".sage/system/objective.md", "")
    write(project / "app/.sage/system/objective.md", "")

    assert load(project, home).elsewhere() == []


def test_the_folder_of_the_configuration_beats_the_one_with_git(project: Path, home: Path) -> None:
    (project / ".git").mkdir()
    write(project / "a/carrel.toml", "")
    (project / "a/b").mkdir()

    assert load(project / "a/b", home).root == str(project / "a")


def test_a_pyproject_without_our_table_is_no_configuration(project: Path, home: Path) -> None:
    write(project / "pyproject.toml", "[tool.other]\nx = 1\n")
    (project / "a").mkdir()

    assert load(project / "a", home).root == str(project / "a")


def test_a_table_in_pyproject_counts(project: Path, home: Path) -> None:
    file = write(project / "pyproject.toml", '[tool.carrel.workspace]\npreset = "all"\n')

    loaded = load(project, home)

    assert loaded.files == [str(file)]
    assert loaded.values("workspace") == {"preset": "all"}


def test_two_project_files_side_by_side_are_a_mistake(project: Path, home: Path) -> None:
    write(project / "pyproject.toml", "[tool.carrel.server]\n")
    own = write(project / "carrel.toml", "")

    with pytest.raises(ConfigError) as caught:
        load(project, home)

    assert str(caught.value) == f"{own}: the pyproject.toml in the same folder has [tool.carrel] too; keep one of them"


def test_flags_beat_the_environment_beats_the_project_beats_the_user(project: Path, home: Path) -> None:
    user = write(home / ".config/carrel/config.toml", "[server]\npage_size = 1\n[workspace]\npreset = 'all'\n")
    own = write(project / "carrel.toml", "[server]\npage_size = 2\nmax_message_mb = 3\n")

    loaded = load(project, home, ("server", "page_size", "4"), CARREL_SERVER_MAX_MESSAGE_MB="5")

    assert loaded.sections == {
        "server": {
            "page_size": config.Setting(4, "flag", "--set server.page_size"),
            "max_message_mb": config.Setting(5.0, "environment", "CARREL_SERVER_MAX_MESSAGE_MB"),
        },
        "workspace": {"preset": config.Setting("all", "user", str(user))},
    }
    assert loaded.files == [str(user), str(own)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[workspace]\npreste = 'all'\n", "[workspace] has no key 'preste'; did you mean 'preset'?"),
        ("[worksace]\n", "unknown section [worksace]; did you mean 'workspace'?"),
        ("[server]\npage_size = 'many'\n", "[server] page_size: expected an integer, got 'many'"),
        ("[server]\nmirror = 1\n", "[server] mirror: expected true or false, got 1"),
        (
            "[workspace]\npreset = 'dart'\n",
            "[workspace] preset: expected one of auto, flutter, code, all, none, got 'dart'",
        ),
        (
            "[workspace]\nallow = [1]\n",
            "[workspace] allow: expected an array of strings, got [1]",
        ),
        ("server = 1\n", "server must be a section: [server]"),
    ],
)
def test_a_mistake_names_file_key_and_what_was_expected(project: Path, home: Path, text: str, said: str) -> None:
    file = write(project / "carrel.toml", text)

    with pytest.raises(ConfigError) as caught:
        load(project, home)

    assert str(caught.value) == f"{file}: {said}"


def test_broken_toml_says_where(project: Path, home: Path) -> None:
    file = write(project / "carrel.toml", "[server\n")

    with pytest.raises(ConfigError) as caught:
        load(project, home)

    assert str(caught.value).startswith(f"{file}: not valid TOML: ")


def test_an_unknown_key_in_a_variable_is_a_mistake_but_a_strange_variable_is_not(project: Path, home: Path) -> None:
    assert load(project, home, CARREL_FUZZ_SEED="1", CARREL_DEBUG="1").sections == {}
    with pytest.raises(ConfigError) as caught:
        load(project, home, CARREL_SERVER_PAGESIZE="1")

    assert str(caught.value) == "CARREL_SERVER_PAGESIZE: [server] has no key 'pagesize'; did you mean 'page_size'?"


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("off", False), ("1", True)],
)
def test_a_variable_is_read_as_its_key_wants_it(project: Path, home: Path, text: str, value: bool) -> None:
    assert load(project, home, CARREL_SERVER_MIRROR=text).values("server") == {"mirror": value}


def test_a_list_in_a_variable_has_commas(project: Path, home: Path) -> None:
    loaded = load(project, home, CARREL_WORKSPACE_ALLOW="*.md, docs/**")

    assert loaded.values("workspace") == {"allow": ["*.md", "docs/**"]}


OUTSIDE = "[workspace]\nroot = '..'\n"


def test_a_place_outside_the_project_is_withheld_until_the_file_is_trusted(project: Path, home: Path) -> None:
    file = write(project / "carrel.toml", OUTSIDE)

    before = load(project, home)
    trust(file, {"HOME": str(home)})
    after = load(project, home)

    assert before.values("workspace") == {}
    told = (
        "[workspace] root in carrel.toml is not in effect: it names a place outside the project; "
        "run `carrel trust` to allow it"
    )
    assert [str(one) for one in before.withheld] == [told]
    assert (after.values("workspace"), after.withheld) == ({"root": ".."}, [])


def test_a_changed_file_must_be_trusted_again(project: Path, home: Path) -> None:
    file = write(project / "carrel.toml", OUTSIDE)
    trust(file, {"HOME": str(home)})
    write(file, OUTSIDE + "# changed\n")

    assert load(project, home).values("workspace") == {}


def test_trust_can_be_taken_back(project: Path, home: Path) -> None:
    file = write(project / "carrel.toml", OUTSIDE)
    store = TrustStore({"HOME": str(home)})
    trust(file, {"HOME": str(home)})

    assert [one.path for one in store.all()] == [str(file)]
    assert store.revoke(str(file)) is True
    assert store.revoke(str(file)) is False
    assert store.all() == []
    assert load(project, home).values("workspace") == {}


def test_a_project_opens_no_door_before_it_is_trusted(project: Path, home: Path) -> None:
    file = write(project / "carrel.toml", "[http]\nhosts = ['evil.example']\norigins = ['https://evil.example']\n")

    assert load(project, home).values("http") == {}
    trust(file, {"HOME": str(home)})
    assert load(project, home).values("http") == {"hosts": ["evil.example"], "origins": ["https://evil.example"]}


@pytest.mark.parametrize("value", ["'..'", "'/'", "'~'", "'out'"])
def test_every_way_to_name_a_place_outside_needs_trust(project: Path, home: Path, value: str) -> None:
    (project / "out").symlink_to("/")
    write(project / "carrel.toml", f"[workspace]\nroot = {value}\n")

    assert [(one.section, one.key) for one in load(project, home).withheld] == [("workspace", "root")]


def test_places_in_a_table_need_trust_too(project: Path, home: Path) -> None:
    write(project / "carrel.toml", "[workspace.roots]\nother = '../elsewhere'\n")

    assert [(one.section, one.key) for one in load(project, home).withheld] == [("workspace", "roots")]


def test_a_place_inside_the_project_needs_no_trust(project: Path, home: Path) -> None:
    (project / "docs").mkdir()
    write(project / "carrel.toml", "[workspace]\nroot = 'docs'\n")

    loaded = load(project, home)

    assert (loaded.values("workspace"), loaded.withheld) == ({"root": "docs"}, [])


def test_the_user_and_the_command_line_are_trusted(project: Path, home: Path) -> None:
    write(home / ".config/carrel/config.toml", OUTSIDE)

    assert load(project, home).values("workspace") == {"root": ".."}
    assert load(project, home, ("workspace", "root", "/")).values("workspace") == {"root": "/"}


def test_what_is_trusted_is_readable_by_the_user_only(project: Path, home: Path) -> None:
    file = write(project / "carrel.toml", "")
    trust(file, {"HOME": str(home)})

    stored = home / ".local/state/carrel/trust.json"

    assert (stored.stat().st_mode & 0o777, stored.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize("damaged", ["", "{", "[]"])
def test_a_damaged_list_of_trusted_files_trusts_none_and_is_not_overwritten(
    project: Path, home: Path, damaged: str
) -> None:
    file = write(project / "carrel.toml", OUTSIDE)
    stored = write(home / ".local/state/carrel/trust.json", damaged)
    store = TrustStore({"HOME": str(home)})

    assert load(project, home).is_trusted is False
    for change in (lambda: trust(file, {"HOME": str(home)}), lambda: store.revoke(str(file)), store.all):
        with pytest.raises(ConfigError) as caught:
            change()
        assert str(caught.value) == f"cannot read the list of trusted files: {stored}"
    assert stored.read_text("utf-8") == damaged


def test_a_file_of_another_user_is_not_found_upwards(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project / "carrel.toml", "[server]\npage_size = 1\n")
    (project / "mine").mkdir()
    give_away(project, monkeypatch)

    loaded = load(project / "mine", home)

    assert (loaded.files, loaded.root) == ([], str(project / "mine"))


@pytest.mark.parametrize("name", ["carrel.toml", "pyproject.toml"])
def test_a_file_that_another_user_put_into_a_shared_folder_is_passed_over_and_named(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    heading = "server" if name == "carrel.toml" else "tool.carrel.server"
    placed = write(project / name, f"[{heading}]\npage_size = 1\n")
    (project / "mine").mkdir()
    give_away(placed, monkeypatch)

    loaded = load(project / "mine", home)

    assert (loaded.files, loaded.root) == ([], str(project / "mine"))
    assert loaded.notes == (f"{relpath(placed, loaded.root)} is not used: it belongs to another user",)


def lock_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a file one that cannot be opened, for root neither."""
    opened = os.open

    def closed(one: str, *how: int) -> int:
        if one == str(path):
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(one, *how)

    monkeypatch.setattr(os, "open", closed)


def test_a_file_of_another_user_that_cannot_be_read_is_passed_over_too(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed = write(project / "carrel.toml", "[server]\npage_size = 1\n")
    lock_away(placed, monkeypatch)
    with pytest.raises(ConfigError, match=r"cannot read .*: Permission denied"):
        load(project, home)
    give_away(placed, monkeypatch)

    assert load(project, home).notes == (f"{relpath(placed, project)} is not used: it belongs to another user",)


@pytest.mark.parametrize("name", ["carrel.toml", "pyproject.toml"])
def test_a_file_in_a_folder_of_another_user_is_passed_over_and_named(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    heading = "server" if name == "carrel.toml" else "tool.carrel.server"
    placed = write(project / name, f"[{heading}]\npage_size = 1\n")
    (project / ".git").mkdir()
    (project / "mine").mkdir()
    give_away(project, monkeypatch)

    loaded = load(project / "mine", home)

    assert (loaded.files, loaded.root) == ([], str(project / "mine"))
    assert loaded.notes == (f"{relpath(placed, loaded.root)} is not used: its folder belongs to another user",)


def test_a_git_folder_of_another_user_makes_no_root(project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / ".git").mkdir()
    (project / "mine").mkdir()
    give_away(project / ".git", monkeypatch)

    assert load(project / "mine", home).root == str(project / "mine")


def test_what_is_trusted_is_what_was_read(project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harmless, harmful = "[workspace]\nhidden = true\n", "[commands.evil]\nargv = ['evil']\n"
    file = write(project / "carrel.toml", harmless)
    trust(file, {"HOME": str(home)})
    write(file, harmful)
    asked = TrustStore.is_trusted

    def swapped(store: TrustStore, path: str, digest: str) -> bool:
        write(file, harmless)
        return asked(store, path, digest)

    monkeypatch.setattr(TrustStore, "is_trusted", swapped)
    loaded = load(project, home)

    assert (loaded.is_trusted, loaded.values("commands")) == (False, {})


@pytest.mark.parametrize("name", ["carrel.toml", "pyproject.toml"])
def test_a_link_to_a_trusted_file_elsewhere_is_passed_over_and_named(project: Path, home: Path, name: str) -> None:
    heading = "workspace" if name == "carrel.toml" else "tool.carrel.workspace"
    trusted = write(project / "good" / name, f"[{heading}]\nroot = '..'\n")
    trust(trusted, {"HOME": str(home)})
    (project / "clone").mkdir()
    link = project / "clone" / name
    link.symlink_to(f"../good/{name}")

    loaded = load(project / "clone", home)

    assert (loaded.files, loaded.is_trusted) == ([], False)
    noted = ("carrel.toml is not used: it is a link out of its folder",)
    assert loaded.notes == (noted if name == "carrel.toml" else ())
    assert not TrustStore({"HOME": str(home)}).is_trusted(str(link), sha256(link.read_bytes()).hexdigest())


def test_a_link_to_a_pyproject_without_our_table_is_no_matter(project: Path, home: Path) -> None:
    write(project / "good/pyproject.toml", "[project]\n")
    (project / "clone").mkdir()
    (project / "clone/pyproject.toml").symlink_to("../good/pyproject.toml")

    assert load(project / "clone", home).notes == ()


def test_a_link_within_its_folder_is_followed_and_trusted_by_its_own_name(project: Path, home: Path) -> None:
    write(project / "carrel.mine.toml", OUTSIDE)
    link = project / "carrel.toml"
    link.symlink_to("carrel.mine.toml")
    before = load(project, home)
    trust(link, {"HOME": str(home)})

    assert (before.files, before.is_trusted) == ([str(link)], False)
    assert load(project, home).values("workspace") == {"root": ".."}
    assert [one.path for one in TrustStore({"HOME": str(home)}).all()] == [str(link)]


def test_a_link_of_another_user_is_passed_over_wherever_it_leads(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project / "carrel.mine.toml", "[server]\npage_size = 1\n")
    link = project / "carrel.toml"
    link.symlink_to("carrel.mine.toml")
    give_away(link, monkeypatch)

    loaded = load(project, home)

    assert (loaded.files, loaded.notes) == (
        [],
        (f"{relpath(link, loaded.root)} is not used: it belongs to another user",),
    )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"[server]\n# \xff\n", "carrel.toml: not UTF-8 at byte 11; save it as UTF-8"),
        (b"#" * 1_048_577, "carrel.toml: is larger than 1048576 bytes, the limit for a settings file"),
    ],
)
def test_a_file_that_cannot_be_settings_is_named(project: Path, home: Path, content: bytes, told: str) -> None:
    (project / "carrel.toml").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(project, home)

    assert str(caught.value) == f"{project}/{told}"


def test_a_byte_order_mark_is_no_mistake(project: Path, home: Path) -> None:
    (project / "carrel.toml").write_bytes(b"\xef\xbb\xbf[server]\npage_size = 7\n")

    assert load(project, home).values("server") == {"page_size": 7}


def test_a_pyproject_that_cannot_be_read_has_no_settings(project: Path, home: Path) -> None:
    (project / "pyproject.toml").mkdir()
    (project / "carrel.toml").mkdir()

    assert load(project, home).files == []


# A whole home


def working_in(folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> config.Config:
    monkeypatch.chdir(folder)
    return config.load(None, {"HOME": str(home)})


def test_a_home_is_no_project_unless_somebody_says_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_chance = working_in(home, home, monkeypatch)
    named = config.load(str(home), {"HOME": str(home)})
    write(home / "carrel.toml", "")
    written = working_in(home, home, monkeypatch)

    assert [one.place.is_too_much for one in (by_chance, named, written)] == [True, False, False]
    assert "start Carrel in a project" in by_chance.notes[0]


def test_settings_for_every_project_make_no_project_of_a_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / ".config/carrel/config.toml", "[workspace]\nhidden = 'show'\n")
    desk = open_desk(working_in(home, home, monkeypatch))
    states = {choice.name: choice.state for choice in desk.choices}
    desk.close()

    assert states["workspace"] == "disabled"


def test_the_whole_machine_is_no_project(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert working_in(Path("/"), home, monkeypatch).place.is_too_much


def test_a_home_under_version_control_does_not_become_the_root_of_what_is_in_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".git").mkdir()
    (home / "notes").mkdir()

    loaded = working_in(home / "notes", home, monkeypatch)

    assert (loaded.root, loaded.place.is_too_much) == (str(home / "notes"), False)


# Bounds


@pytest.mark.parametrize(
    "bound",
    [
        "alc.max_file_bytes",
        "alc.max_page_bytes",
        "logs.max_bytes",
        "logs.max_entries",
        "logs.max_logs",
        "sage.max_file_bytes",
        "scopes.max_children_listed",
        "scopes.max_nodes_ceiling",
        "server.max_message_mb",
    ],
)
def test_a_project_raises_no_bound_before_it_is_trusted(project: Path, home: Path, bound: str) -> None:
    section, _, key = bound.partition(".")
    default = config.section_schema(section, "")[key].default
    assert isinstance(default, int | float)
    higher = int(default) * 2
    write(project / "carrel.toml", f"[{section}]\n{key} = {higher}\n")
    untrusted = load(project, home)

    assert key not in untrusted.values(section)
    assert f"[{section}] {key} in carrel.toml is not in effect: it raises a limit" in untrusted.notes[0]

    write(project / "carrel.toml", f"[{section}]\n{key} = {int(default) // 2}\n")
    assert load(project, home).values(section)[key] == int(default) // 2


def test_a_project_turns_no_protection_off_before_it_is_trusted(project: Path, home: Path) -> None:
    write(project / "carrel.toml", "[logs]\nredact = false\n")
    untrusted = load(project, home)
    write(home / ".config/carrel/config.toml", "[logs]\nredact = false\n")
    write(project / "carrel.toml", "")

    assert untrusted.values("logs") == {}
    assert "[logs] redact in carrel.toml is not in effect: it turns a protection off" in untrusted.notes[0]
    assert load(project, home).values("logs") == {"redact": False}


# Where a mistake was made


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[server]\npage_size = 0\n", "[server] page_size: expected a whole number from 1 to 100000, got 0"),
        ("[logs]\nmax_logs = 0\n", "[logs] max_logs: expected a whole number, 1 or more"),
        ("[logs]\nmax_bytes = 1\n", "[logs]: max_bytes must be at least 64, max_entries at least 1"),
    ],
)
def test_a_value_out_of_bounds_is_reported_with_its_file(project: Path, home: Path, text: str, told: str) -> None:
    write(project / "carrel.toml", text)
    with pytest.raises(ConfigError) as caught:
        open_desk(load(project, home))

    assert str(caught.value) == f"{project}/carrel.toml: {told}"


def test_a_value_out_of_bounds_is_reported_with_its_variable(project: Path, home: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        open_desk(load(project, home, CARREL_SERVER_PAGE_SIZE="0"))

    assert str(caught.value).startswith("CARREL_SERVER_PAGE_SIZE: [server] page_size: ")


def test_who_may_connect_is_reported_with_its_file(project: Path, home: Path) -> None:
    write(home / ".config/carrel/config.toml", "[http]\nissuer = 'https://issuer.example'\n")
    with pytest.raises(ConfigError) as caught:
        load(project, home).http()

    assert str(caught.value).startswith(f"{home}/.config/carrel/config.toml: [http] issuer, audience and jwks: ")


@pytest.mark.parametrize(
    ("words", "blamed"),
    [
        (["--max-message-mb", "abc"], "--max-message-mb: expected a number, got 'abc'"),
        (["--page-size", "x"], "--page-size: expected an integer, got 'x'"),
        (["--set", "server.page_size=x"], "--set server.page_size: expected an integer, got 'x'"),
        (["--max-message-mb", "9999"], "--max-message-mb: [server] max_message_mb: expected a number from 0.1 to 1024"),
    ],
)
def test_a_wrong_value_is_reported_with_the_option_that_was_written(
    project: Path, home: Path, words: list[str], blamed: str
) -> None:
    parsed = parse([*words, "--project", str(project)])
    with pytest.raises(ConfigError, match=re.escape(blamed)):
        open_desk(config.load(str(project), {"HOME": str(home)}, parsed.flags, parsed.origins)).close()


def _decorated(start: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(start)
    def called(*given: object, **named: object) -> None:
        start(*given, **named)

    return called


@pytest.mark.parametrize("decorate", [lambda start: start, _decorated])
def test_the_parameters_of_a_constructor_are_the_keys_of_its_section(
    decorate: Callable[..., Callable[..., None]],
) -> None:
    class Garden:
        @decorate
        def __init__(
            self, project: Project, bed: str, import_: str = "", *, depth: int, is_wet: bool = True
        ) -> None: ...

    assert schema_of(Garden) == {
        "bed": Key("bed", str, None, is_required=True),
        "import": Key("import", str, ""),
        "depth": Key("depth", int, None, is_required=True),
        "is_wet": Key("is_wet", bool, True),
    }
