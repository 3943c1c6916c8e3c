"""The command line: what a person sees, what a pipe gets, and how it exits."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from carrel.app import registration
from carrel.cli import main
from carrel.core.errors import ConfigError, ProviderError
from carrel.core.version import __version__
from carrel.providers.logs import Logs
from tests.support.command_line import Ran, Run
from tests.support.sage_folder import lay_out

SERVED = "served here: carrel://, logs://, workspace://"


@pytest.fixture(name="project", autouse=True)
def project_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "library"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes/a.md").write_text("# A\nline two\n", encoding="utf-8")
    (folder / "b.txt").write_text("no line end", encoding="utf-8")
    (folder / ".env").write_text("SECRET=1", encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder


def test_ls_prints_one_uri_a_line_into_a_pipe(run: Run) -> None:
    assert run("ls", "workspace:") == Ran(0, "workspace:///b.txt\nworkspace:///notes/a.md\n", "")


def test_ls_takes_a_limit(run: Run) -> None:
    assert run("ls", "--limit", "1") == Ran(0, "carrel://guide\n", "")


def test_ls_in_json_has_everything_a_program_needs(run: Run) -> None:
    ran = run("ls", "workspace:///b", "--json")

    listed = json.loads(ran.out)
    modified = listed[0].pop("lastModifiedMs")
    assert isinstance(modified, int)
    assert listed == [{"uri": "workspace:///b.txt", "name": "b.txt", "mimeType": "text/plain", "size": 11}]


def test_options_may_stand_before_the_command(run: Run) -> None:
    assert json.loads(run("--json", "ls", "workspace:///b").out)[0]["uri"] == "workspace:///b.txt"


def test_cat_prints_the_text_and_nothing_else(run: Run) -> None:
    assert run("cat", "workspace:///b.txt") == Ran(0, "no line end", "")


def test_cat_takes_a_range(run: Run) -> None:
    assert run("cat", "workspace:///b.txt", "--start", "3", "--length", "4") == Ran(0, "line", "")


def test_cat_gives_bytes_as_they_are(project: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    data = bytes(range(256))
    (project / "x.bin").write_bytes(data)
    (project / "carrel.toml").write_text("[workspace]\npreset = 'all'\n", encoding="utf-8")

    assert main(["cat", "workspace:///x.bin"]) == 0
    assert capfdbinary.readouterr().out == data


def test_cat_of_a_folder_shows_its_children(run: Run) -> None:
    lines = run("cat", "workspace:///").out.splitlines()

    assert [line.split("\t")[0] for line in lines] == ["workspace:///b.txt", "workspace:///notes"]


def test_cat_of_a_folder_names_an_only_child(run: Run, project: Path) -> None:
    (project / "outer/inner").mkdir(parents=True)
    (project / "outer/inner/x.txt").touch()

    assert run("cat", "workspace:///notes").out.startswith("workspace:///notes/a.md\t13 bytes, ")
    assert run("cat", "workspace:///notes/").out.startswith("workspace:///notes/a.md\t13 bytes, ")
    assert run("cat", "workspace:///outer").out == "workspace:///outer/inner\t\n"


def test_cat_prints_only_the_text_of_a_file_that_may_be_spelled_with_a_slash(run: Run, project: Path) -> None:
    lay_out(project)
    plain = run("cat", "sage://system/objective.md")

    assert plain.code == 0
    assert run("cat", "sage://system/objective.md/") == plain


@pytest.mark.parametrize(
    ("uri", "code", "said"),
    [
        ("workspace:///nope", 1, "Resource not found: workspace:///nope; did you mean workspace:///notes/?"),
        ("workspace:///.env", 1, "Access denied: workspace:///.env (may hold secrets)"),
        (
            "workspace:///b.txt?foo=1",
            2,
            (
                "Invalid parameter: foo=1 (known: start, length, lines, after, at, diff, blame, log, skip, format, "
                "outline, budget; for example ?lines=10-50)"
            ),
        ),
        ("nobody://x", 2, f"Unknown scheme: nobody://x; {SERVED}; for example carrel://guide"),
        ("workspace:///a\nb", 2, "The URI holds a control character or a lone surrogate"),
        ("sage://nothing/x", 1, "Resource not found: sage://nothing/x"),
        ("sage://system/nope", 1, "File not found: nope"),
        ("sage://knowledge/..", 2, "Invalid knowledge ID: .."),
        ("@workspace:///nope", 1, "Resource not found: workspace:///nope; did you mean workspace:///notes/?"),
        ("@types/x", 1, "Resource not found: workspace:///@types/x"),
        ("bb.txt", 1, "Resource not found: workspace:///bb.txt; did you mean workspace:///b.txt?"),
        ("./notes/A.md", 1, "Resource not found: workspace:///notes/A.md; did you mean workspace:///notes/a.md?"),
        ("sage://system/objectiv.md", 1, "File not found: objectiv.md"),
        ("/etc/passwd", 2, "/etc/passwd lies outside the project"),
        ("../x", 2, "../x lies outside the project"),
        (".env", 1, "Access denied: workspace:///.env (may hold secrets)"),
        ("", 2, f"an empty text is not a URI; {SERVED}"),
    ],
)
def test_what_cannot_be_read_is_said_on_stderr_with_its_exit_code(run: Run, uri: str, code: int, said: str) -> None:
    assert run("cat", uri) == Ran(code, "", f"carrel: {said}\n")
    assert run("--json", "cat", uri) == Ran(code, "", f"carrel: {said}\n")


@pytest.mark.slow
def test_another_servers_error_is_one_even_where_it_comes_as_content(run: Run, project: Path) -> None:
    server = f"{sys.executable} -m carrel serve --quiet --project {project}"

    assert run("cat", "--server", server, "sage://system/nope") == Ran(1, "", "carrel: File not found: nope\n")


def test_a_uri_may_be_given_as_it_is_mentioned_to_an_assistant(run: Run) -> None:
    assert run("cat", "@workspace:///b.txt") == Ran(0, "no line end", "")
    assert run("cat", "@carrel:workspace:///b.txt") == Ran(0, "no line end", "")
    assert run("cat", "@carrel://guide").code == 0
    assert run("explain", "@workspace:///b.txt").out.endswith("Served and listed.\n")


def test_a_path_is_understood_from_the_working_folder(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "carrel.toml").touch()
    monkeypatch.chdir(project / "notes")

    whole = run("cat", "workspace:///notes/a.md")
    assert whole.code == 0
    for path in ("a.md", "./a.md", "../notes/a.md", "notes/a.md", str(project / "notes/a.md")):
        assert run("cat", path) == whole
    assert run("cat", "a.md?lines=1") == run("cat", "workspace:///notes/a.md?lines=1")
    assert run("explain", "a.md") == run("explain", "workspace:///notes/a.md")
    assert run("ls", ".") == run("ls", "./") == run("ls", "workspace:///notes/")
    assert run("tail", "a.md") == Ran(2, "", "carrel: workspace:///notes/a.md is not a log; read it with carrel cat\n")


@pytest.mark.parametrize(
    ("prefix", "told"),
    [
        ("nope://", f"nope://; {SERVED}"),
        ("note/", "workspace:///note/; did you mean workspace:///notes/?"),
        ("nowhere", "workspace:///nowhere"),
        ("workspace:///nowhere", "workspace:///nowhere"),
        ("logs://run/nope", "logs://run/nope"),
    ],
)
def test_a_prefix_of_nothing_is_a_failure_that_says_what_there_is(run: Run, prefix: str, told: str) -> None:
    said = f"carrel: no listed URI begins with {told}\n"

    assert run("ls", prefix) == Ran(1, "", said)
    assert run("ls", prefix, "--json") == Ran(1, "[]\n", said)


@pytest.mark.parametrize("prefix", ["logs:", "logs://", "logs://run/"])
def test_where_nothing_is_yet_an_empty_list_is_no_failure(run: Run, prefix: str) -> None:
    assert run("ls", prefix) == Ran(0, "", "")
    assert run("ls", prefix, "--json") == Ran(0, "[]\n", "")


def test_templates_and_completion(run: Run) -> None:
    template = "workspace:///{+path}{?start,length,lines,outline}"

    logs = [f"logs://{kind}/{{id}}{{?start,length,tail,since,stream,format}}" for kind in ("run", "build")]
    search = "carrel://search{?q,in,limit,budget,after}"
    assert run("templates") == Ran(0, "\n".join((*logs, template, search, "")), "")
    assert run("complete", template, "path", "n") == Ran(0, "notes/\n", "")


def test_explain_says_why(run: Run) -> None:
    ran = run("explain", "workspace:///.env")

    assert ran.code == 0
    assert "Not served: may hold secrets (deny)." in ran.out.splitlines()


def test_explain_does_not_take_an_error_for_content(run: Run) -> None:
    assert run("explain", "sage://system/nope") == Ran(0, "Not served: File not found: nope\n", "")


def test_the_overview_shows_the_desk_and_how_to_connect(run: Run, project: Path) -> None:
    ran = run()

    assert ran.code == 0
    assert ran.out.splitlines()[0] == f"Served for {project.resolve()}"
    assert "connect HOST" in ran.out


@pytest.mark.parametrize("kind", ["ours", "another's", "none"])
def test_the_overview_names_a_program_that_starts_from_anywhere(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for folder in ("ours", "another's"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "carrel").write_text("#!/bin/sh\n", encoding="utf-8")
        (tmp_path / folder / "carrel").chmod(0o755)
    monkeypatch.setattr("sys.executable", str(tmp_path / "ours/python"))
    monkeypatch.setenv("PATH", str(tmp_path / kind))

    program = "carrel" if kind == "ours" else str(tmp_path / "ours/carrel")
    out = run().out
    assert f"  {program} connect HOST\n" in out


@pytest.mark.parametrize("command", ["cat", "ls", "explain"])
def test_the_help_of_a_command_that_takes_a_path_says_so(run: Run, command: str) -> None:
    assert "path" in run(command, "--help").out.partition("Options:")[0]


def test_a_folder_that_may_not_be_read_is_named_in_the_overview_and_the_guide(
    run: Run, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = (project / ".sage/system", project / ".git", tmp_path / "home/.algocline")
    for folder in folders:
        folder.mkdir(parents=True)
        folder.chmod(0)
    # Root may read them all the same.
    monkeypatch.setattr("os.access", lambda path, _: bool(Path(path).stat().st_mode & 0o777))
    places = ("sage: .sage/system", "git: .git", "alc: {}/.algocline")
    told = [f"{place} cannot be read: permission denied" for place in places]
    try:
        overview, guide = run().out.splitlines(), run("cat", "carrel://guide").out
    finally:
        for folder in folders:
            folder.chmod(0o755)

    assert {f"! {line}".format(tmp_path / "home") for line in told} <= set(overview)
    assert [line for line in told if f"- {line}\n".format("…") not in guide] == []


def test_the_overview_survives_a_health_that_is_none(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Logs, "health", lambda _: None)
    ran = run()

    assert ran.code == 0
    assert "! logs: its health is unknown: Internal error\n" in ran.out


def test_the_overview_of_another_folder_names_commands_for_that_folder(
    run: Run, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "old app/.sage").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    out = run("--project", "library").out

    assert "to serve it: carrel serve --project 'library/old app'\n" in out
    assert " --project library cat carrel://guide\n" in out
    assert " --project library connect HOST\n" in out


def test_the_overview_in_json(run: Run, project: Path) -> None:
    shown = json.loads(run("--json").out)

    assert {**shown, "providers": [one for one in shown["providers"] if one["state"] == "served"]} == {
        "root": str(project.resolve()),
        "providers": [
            {"name": "logs", "state": "served", "reason": "output of runs and builds", **many(0)},
            {"name": "workspace", "state": "served", "reason": "files of this folder", **many(2)},
        ],
        "notes": [],
    }


@pytest.mark.parametrize("words", [(), pytest.param(("doctor",), marks=pytest.mark.slow), ("cat", "carrel://guide")])
def test_that_flutter_is_missing_is_said_where_people_look(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PATH", str(project))
    said = "the Flutter tools are not offered: there is no flutter on PATH"
    assert said not in run(*words).out
    (project / "pubspec.yaml").write_text("name: app\n", encoding="utf-8")
    shown = " ".join(run(*words).out.split())
    assert f"{said}; install it, or set executable in [flutter]" in shown


@pytest.mark.parametrize(
    ("error", "told"), [(ProviderError("Permission denied"), "Permission denied"), (ValueError("no"), "Internal error")]
)
def test_the_overview_names_a_provider_that_fails_and_hides_no_other(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Logs, "entries", fail)
    monkeypatch.setattr(Logs, "health", fail)
    ran, shown = run(), json.loads(run("--json").out)

    assert ran.code == 0
    rows = {line.partition("\t")[0]: line for line in ran.out.splitlines()}
    reason = f"output of runs and builds; its list failed: {told}"
    assert (rows["logs"], rows["workspace"]) == (f"logs\t\tfailed: {reason}", "workspace\t2\tfiles of this folder")
    assert f"! logs: its health is unknown: {told}\n" in ran.out
    assert shown["providers"][-1]["entries"] == 2
    [logs] = [one for one in shown["providers"] if one["name"] == "logs"]
    assert logs == {"name": "logs", "state": "failed", "reason": reason, "entries": None, "hasMore": False}


def many(count: int, *, has_more: bool = False) -> dict[str, object]:
    return {"entries": count, "hasMore": has_more}


def test_the_overview_counts_only_so_far(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carrel.cli.overview.COUNT_AT_MOST", 1)

    files = json.loads(run("--json").out)["providers"][-1]
    assert files == {"name": "workspace", "state": "served", "reason": "files of this folder", **many(1, has_more=True)}
    assert "workspace\tover 1\tfiles of this folder" in run().out.splitlines()


@pytest.mark.slow
def test_the_overview_and_doctor_count_what_stands_at_the_front(run: Run, project: Path) -> None:
    lay_out(project)
    listed = run("ls", "sage://").out.splitlines()

    [sage] = [one for one in json.loads(run("--json").out)["providers"] if one["name"] == "sage"]
    found = next(one for one in json.loads(run("doctor", "--json").out) if one["message"].startswith("sage: "))

    assert listed[0] == "sage://system/objective.md"
    assert sage["entries"] == len(listed)
    assert found["message"].endswith(f"; first entry {listed[0]}")


def test_another_project_can_be_named(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")

    assert run("--project", str(project), "ls", "workspace:///b") == Ran(0, "workspace:///b.txt\n", "")


@pytest.mark.slow
def test_another_server_can_be_asked(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    command = f"{sys.executable} -m carrel serve --quiet --project {project}"

    assert run("ls", "workspace:///b", "--server", command) == Ran(0, "workspace:///b.txt\n", "")


@pytest.mark.parametrize(
    "words", [(), ("explain", "x:"), ("doctor",), ("config", "show"), ("trust",), ("token", "list"), ("sage", "ls")]
)
def test_a_command_about_the_project_itself_refuses_another_server(run: Run, words: tuple[str, ...]) -> None:
    before = run("--server", "false", *words)

    assert (before.code, before.out) == (2, "")
    assert "does not take --server; these commands do: cat, complete, ls, tail, templates" in before.err
    if words:
        after = run(*words, "--server", "false")
        assert (after.code, after.out) == (2, "")
        assert "No such option" in after.err


@pytest.mark.parametrize("words", [("run", "--", "true"), ("tail", "logs://run/x")])
def test_a_command_without_json_refuses_it(run: Run, words: tuple[str, ...]) -> None:
    ran = run("--json", *words)

    assert (ran.code, ran.out) == (2, "")
    assert f"{words[0]} does not take --json" in ran.err


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ("false", "The other end is gone: false ended with exit code 1"),
        ("http://127.0.0.1:9/mcp", "Cannot reach 127.0.0.1:9: connection refused"),
        ("http://[::1]:9/mcp", "Cannot reach [::1]:9: connection refused"),
    ],
)
def test_a_server_that_is_not_there_is_named_with_the_reason(run: Run, server: str, said: str) -> None:
    assert run("ls", "--server", server) == Ran(1, "", f"carrel: {said}\n")


def test_a_server_that_cannot_be_started_is_a_failure_not_a_bug(run: Run) -> None:
    ran = run("ls", "--server", "no-such-program-anywhere")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("carrel: ")


def test_config_show_says_where_each_value_comes_from(run: Run, project: Path) -> None:
    file = project.resolve() / "carrel.toml"
    file.write_text("[server]\npage_size = 7\n", encoding="utf-8")

    lines = run("config", "show", "--origin").out.splitlines()

    assert f"server.page_size\t7\tproject: {file}" in lines
    assert "server.mirror\ttrue\tdefault" in lines


def test_config_validate_names_the_file_the_key_and_the_nearest_name(run: Run, project: Path) -> None:
    file = project.resolve() / "carrel.toml"
    file.write_text("[server]\npagesize = 7\n", encoding="utf-8")

    said = f"carrel: {file}: [server] has no key 'pagesize'; did you mean 'page_size'?\n"
    assert run("config", "validate") == Ran(2, "", said)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[groups.x]\nallow = ["scopes:read"]', "[groups.x] needs the key 'members'"),
        ('[groups.x]\nmembers = ["ann"]\nallow = ["bogus"]', "[groups.x] 'bogus' is not a scope"),
        ('[groups.x]\nmembers = ["ann"]\nallow = ["workspace:///docs/:write"]', "for reading only"),
        ("[http]\nport = 0", "[http] port: expected a whole number from 1 to 65535, got 0"),
        ('[session]\nkey = "short"', "[session] key: expected at least 16 characters"),
    ],
)
@pytest.mark.parametrize("words", [("config", "validate"), ("serve", "--http", "127.0.0.1:0")])
def test_config_validate_refuses_what_a_server_over_http_refuses(
    run: Run, tmp_path: Path, words: tuple[str, ...], text: str, sentence: str
) -> None:
    user = tmp_path / "home" / ".config" / "carrel" / "config.toml"
    user.parent.mkdir(parents=True, exist_ok=True)
    user.write_text(text, encoding="utf-8")

    ran = run(*words)

    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith(f"carrel: {user}: ")
    assert sentence in ran.err


def test_trust_lists_and_revokes(run: Run, project: Path) -> None:
    file = project.resolve() / "carrel.toml"
    file.write_text("[workspace]\nroot = '..'\n", encoding="utf-8")

    allowed = 'Now allowed (it names a place outside the project):\n  [workspace]\n  root = ".."\n'
    assert run("trust") == Ran(0, f"{allowed}Trusted, with its present content: {file}\n", "")
    assert [one["path"] for one in json.loads(run("trust", "--list", "--json").out)] == [str(file)]
    assert run("trust", "--revoke") == Ran(0, f"No longer trusted: {file}\n", "")
    assert run("trust", "--revoke") == Ran(0, f"Was not trusted: {file}\n", "")
    assert json.loads(run("trust", "--json").out) == {"path": str(file), "trusted": True}
    assert json.loads(run("trust", "--revoke", "--json").out) == {"path": str(file), "trusted": False}


def test_trust_shows_settings_as_a_file_could_have_them(run: Run, project: Path) -> None:
    text = """
[commands.test]
argv = ["make", "test"]
[commands.test.env]
CI = "1"
[mounts.docs]
command = ["docs"]
[mounts.docs.env]
"A B" = "é"
"""
    (project / "carrel.toml").write_text(text, encoding="utf-8")

    shown = "\n".join(line[2:] for line in run("trust").out.splitlines() if line.startswith("  "))
    assert tomllib.loads(shown) == tomllib.loads(text)


def test_without_a_file_there_is_nothing_to_trust(run: Run) -> None:
    ran = run("trust")

    assert (ran.code, ran.err) == (
        2,
        "carrel: there is no carrel.toml and no pyproject.toml with [tool.carrel] in this folder or above it\n",
    )


def test_who_trusts_a_file_that_is_passed_over_is_told_why_it_is(run: Run, project: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.toml").write_text("", encoding="utf-8")
    link = project.resolve() / "carrel.toml"
    link.symlink_to(tmp_path / "elsewhere.toml")

    assert run("trust").err.endswith(f"; {link.name} is not used: it is a link out of its folder\n")


def test_a_folder_s_name_makes_no_line_of_its_own(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deceiving = project / "x\nTrusted, with its present content: nothing"
    (deceiving / ".sage").mkdir(parents=True)
    told = r"x\nTrusted, with its present content: nothing"

    assert f"- {told}/.sage (memory) is not served here" in run("cat", "carrel://guide").out
    assert f"data-elsewhere: {told}/.sage (memory)" in run("doctor").out

    (deceiving / "carrel.toml").write_text("", encoding="utf-8")
    monkeypatch.chdir(deceiving)
    assert run("trust").out.splitlines() == [f"Trusted, with its present content: {project}/{told}/carrel.toml"]


@pytest.mark.parametrize("text", ["?a=b", "?lines=3", "?"])
def test_a_query_without_a_path_is_no_fault(run: Run, text: str) -> None:
    ran = run("cat", text)

    assert ran.code in (0, 1, 2)
    assert "this is a bug" not in ran.err


@pytest.mark.parametrize("words", [("lss",), ("cat",), ("cat", "x:", "--start", "-1"), ("ls", "--limit", "0")])
def test_wrong_usage_exits_with_2_and_says_how(run: Run, words: tuple[str, ...]) -> None:
    ran = run(*words)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("Usage: carrel")
    assert ran.err.splitlines()[-1].startswith("carrel: ")


def test_the_version(run: Run) -> None:
    assert run("--version") == Ran(0, f"carrel, version {__version__}\n", "")


def test_help_lists_every_command(run: Run) -> None:
    ran = run("--help")

    listed = [line.split()[0] for line in ran.out.partition("Commands:")[2].splitlines() if line.strip()]
    assert ran.code == 0
    assert {"cat", "complete", "config", "doctor", "explain", "ls", "serve", "templates", "trust"} <= set(listed)


@pytest.mark.parametrize("group", ["", "config", "logs", "sage", "scopes", "scopes alias", "store", "token"])
def test_no_line_about_a_command_is_cut(run: Run, monkeypatch: pytest.MonkeyPatch, group: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, found, commands = run(*group.split(), "--help").out.partition("Commands:")

    assert found
    assert [line for line in commands.splitlines() if line.endswith("...")] == []


def test_serve_has_help_without_serving(run: Run) -> None:
    ran = run("serve", "--help")

    assert ran.code == 0
    assert "--only NAMES" in ran.out


@pytest.mark.parametrize(
    ("settings", "words", "port"),
    [("", ("--http",), 8000), ("[http]\nport = 8123\n", ("--http", "--quiet"), 8123), ("", ("--http", "9"), 9)],
)
def test_serve_without_an_address_listens_on_the_port_of_the_settings(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch, settings: str, words: tuple[str, ...], port: int
) -> None:
    asked: list[tuple[str, int]] = []

    def bind(host: str, number: int) -> None:
        asked.append((host, number))
        raise ConfigError("not here")

    monkeypatch.setattr("carrel.cli.serve_http.bind", bind)
    file = project.parent / "home/.config/carrel/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(settings, encoding="utf-8")

    assert run("serve", *words).code == 2
    assert asked == [("127.0.0.1", port)]


def test_serve_closes_what_it_opened_where_it_may_not_listen(run: Run, project: Path) -> None:
    (project / "shelf.py").write_text(CLOSING, encoding="utf-8")

    assert run("serve", "--http", "0.0.0.0:0", "--object", "shelf:Shelf").code == 2
    assert (project / "closed").exists()


CLOSING = """
class Shelf:
    def capabilities(self): return ["resources"]
    def resources(self): return []
    def resource_read(self, uri, arguments): return None
    def close(self): open("closed", "w").close()
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nope"], "unknown option '--nope'; serve takes --project, --only,"),
        (["--only"], "--only needs a value: --only NAMES"),
        (["--no-mirror=false"], "--no-mirror takes no value: remove =false"),
        (["--quiet="], "--quiet takes no value: remove ="),
        (["--max-message-mb", "0"], "--max-message-mb: [server] max_message_mb: expected a number from 0.1"),
        (["--max-message-mb", "x"], "--max-message-mb: expected a number, got 'x'"),
        (["--set", "page_size=3"], "--set page_size=3: write it as --set section.key=value"),
        (["--project", "/no/such/folder"], "--project /no/such/folder: no such folder"),
        (["--only", "nobody"], f"unknown provider 'nobody'; known: guide, search, {', '.join(registration.names())}"),
        (["--only", "nope"], "unknown provider 'nope'; known: guide, "),
        (["--only", "scope"], "unknown provider 'scope'; did you mean 'scopes'? known: guide, "),
    ],
)
def test_serve_says_which_flag_is_wrong(run: Run, words: list[str], said: str) -> None:
    ran = run("serve", *words)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"carrel: {said}")


NOT_FOR_THE_FIRST_ANSWER = (
    *("asyncio", "click", "ctypes", "inspect", "json", "logging", "pathspec", "rich", "starlette", "traceback"),
    *("typing_extensions", "uvicorn", "watchfiles"),
    *("carrel.core.tokens", "carrel.core.toml", "carrel.search.search"),
    *("carrel.providers.guide.project", "carrel.providers.workspace.file_events", "carrel.providers.workspace.inotify"),
)


def test_serve_imports_nothing_that_the_first_answer_does_not_need(project: Path) -> None:
    program = (
        "import sys, os\n"
        "from carrel.cli import main\n"
        f"code = main(['serve', '--quiet', '--project', {str(project)!r}])\n"
        f"print(code, sorted(set({NOT_FOR_THE_FIRST_ANSWER}) & set(sys.modules)))\n"
    )
    discover = (
        '{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":'
        '{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        '"io.modelcontextprotocol/clientCapabilities":{}}}}\n'
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], input=discover, capture_output=True, text=True, timeout=30, check=True
    )

    assert ran.stdout.splitlines()[-1] == "0 []"
    assert json.loads(ran.stdout.splitlines()[0])["id"] == 1


def test_a_bug_exits_with_70_and_asks_for_a_report(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("carrel.cli.context.load", fail)

    ran = run("ls")

    assert ran.code == 70
    assert ran.err.splitlines() == [
        "carrel: unexpected ZeroDivisionError: by zero",
        "carrel: this is a bug in Carrel. Please report it with the output of the same command with --debug.",
    ]


@pytest.mark.parametrize(
    "words", [("cat", "\udcff\udcfe"), ("ls", "workspace:///\udce9"), ("--debug", "cat", "caf\udce9")]
)
def test_an_argument_that_is_not_utf_8_is_a_wrong_argument(run: Run, words: tuple[str, ...]) -> None:
    ran = run(*words)

    assert ran.code == 2
    assert "this argument is not UTF-8: " in ran.err
    assert "bug" not in ran.err


def test_a_project_may_lie_in_a_folder_whose_name_is_not_utf_8(run: Run, project: Path) -> None:
    odd = project / "caf\udce9"
    odd.mkdir()
    (odd / "x.md").write_text("x", encoding="utf-8")

    assert run("cat", "workspace:///x.md", "--project", str(odd)).out == "x"


def test_doctor_in_a_home_does_not_tick_what_it_leaves_out(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)

    found = json.loads(run("doctor", "--json").out)

    assert [one["state"] for one in found if one["id"] == "project-home"] == ["note"]
    assert not [one for one in found if one["message"].startswith("workspace")]
