"""The table of hosts: every row has its file, and our entry fits into it and comes out again."""

import json
from pathlib import Path

import pytest

from carrel.connect import splice
from carrel.connect.entries import holds_token, http_entry, launch_of, stdio_entry, target_of
from carrel.connect.errors import NotWritten
from carrel.connect.hosts import HOSTS, HostFacts, Scope, System, by_name
from carrel.connect.places import Surroundings, settings_path

FILES = Path(__file__).parent / "files"
AROUND = Surroundings("linux", {"HOME": "/home/ada", "CARREL_TOKEN": "s3cret"}, "/home/ada/library")
PROGRAM = ["/home/ada/.local/bin/carrel"]
WITH_FILES = [host for host in HOSTS if not host.by_hand]

NAMES = (
    "claude-code claude-desktop codex vscode vscode-insiders copilot-cli cursor gemini-cli zed opencode goose cline "
    "continue windsurf junie ai-assistant qwen-code kiro amp crush lm-studio warp"
)


def host_of(name: str) -> HostFacts:
    host = by_name(name)
    assert host is not None
    return host


def fixture_of(host: HostFacts) -> str:
    [path] = FILES.glob(f"{host.name}.*")
    return path.read_bytes().decode()


def by_title(host: HostFacts) -> str:
    return host.name


def test_the_hosts_have_the_names_that_were_decided() -> None:
    assert " ".join(host.name for host in HOSTS) == NAMES


def test_every_host_with_a_file_has_a_fixture_and_every_fixture_a_host() -> None:
    assert sorted(path.stem for path in FILES.iterdir()) == sorted(host.name for host in WITH_FILES)


@pytest.mark.parametrize("host", HOSTS, ids=by_title)
def test_every_row_says_where_its_facts_come_from(host: HostFacts) -> None:
    assert host.source.startswith("https://")
    assert host.checked >= "2026-11-17"
    assert host.by_hand or set(host.user) == {"linux", "macos", "windows"}


@pytest.mark.parametrize("host", WITH_FILES, ids=by_title)
def test_an_entry_goes_into_a_file_of_the_documentation_and_out_again(host: HostFacts) -> None:
    text, target = fixture_of(host), target_of(host)
    entry = stdio_entry(host, PROGRAM, AROUND)

    spliced = splice.add(text, target, entry)

    assert spliced.text.replace(spliced.piece, "", 1) == text
    assert splice.remove(spliced.text, target, spliced.piece, spliced.made) == text
    assert splice.remove(spliced.text, target) == text or host.format == "toml"


@pytest.mark.parametrize("host", HOSTS, ids=by_title)
def test_the_entry_starts_what_was_written(host: HostFacts) -> None:
    launch = launch_of(host, stdio_entry(host, PROGRAM, AROUND), AROUND)

    has_folder = host.starts_elsewhere or host.arguments
    assert launch.command == (*PROGRAM, "serve", *(("--project", "/home/ada/library") if has_folder else ()))
    assert launch.folder == ("/home/ada" if host.starts_elsewhere else "/home/ada/library")


@pytest.mark.parametrize("host", [host for host in HOSTS if host.shape.url is not None], ids=by_title)
def test_the_entry_of_a_running_server_leads_to_it_with_the_token(host: HostFacts) -> None:
    entry = http_entry(host, "https://desk.example/mcp", "s3cret", "user")

    launch = launch_of(host, entry, AROUND)

    assert (launch.url, dict(launch.headers)) == ("https://desk.example/mcp", {"Authorization": "Bearer s3cret"})
    assert ("s3cret" in repr(entry)) == holds_token(host, entry)


@pytest.mark.parametrize("host", [host for host in HOSTS if host.shape.url is not None], ids=by_title)
def test_a_token_is_never_written_into_a_project_file(host: HostFacts) -> None:
    if host.shape.bearer is None and host.shape.bearer_variable is None:
        with pytest.raises(NotWritten, match="use --user"):
            http_entry(host, "https://desk.example/mcp", "s3cret", "project")
    else:
        assert "s3cret" not in repr(http_entry(host, "https://desk.example/mcp", "s3cret", "project"))


@pytest.mark.parametrize("name", ["claude-desktop", "junie"])
def test_a_host_without_remote_servers_is_not_connected_to_a_url(name: str) -> None:
    with pytest.raises(NotWritten, match="cannot be connected to a URL"):
        http_entry(host_of(name), "https://desk.example/mcp", None, "user")


SEEN = sorted((Path(__file__).parents[1] / "hosts/seen").glob("*.json"))


@pytest.mark.parametrize("seen", SEEN, ids=lambda seen: seen.stem)
def test_the_era_is_the_one_that_the_real_host_spoke(seen: Path) -> None:
    protocol = json.loads(seen.read_text("utf-8"))["protocol"]

    assert host_of(seen.stem).era == ("modern" if protocol >= "2026" else "legacy")


ENTRIES: dict[str, tuple[str, dict[str, object]]] = {
    "claude-code": ("mcpServers", {"type": "stdio", "command": PROGRAM[0], "args": ["serve"]}),
    "codex": ("mcp_servers", {"command": PROGRAM[0], "args": ["serve"]}),
    "vscode": ("servers", {"type": "stdio", "command": PROGRAM[0], "args": ["serve"]}),
    "copilot-cli": ("mcpServers", {"type": "stdio", "command": PROGRAM[0], "args": ["serve"], "tools": ["*"]}),
    "zed": ("context_servers", {"command": PROGRAM[0], "args": ["serve"]}),
    "opencode": ("mcp", {"type": "local", "command": [PROGRAM[0], "serve"], "enabled": True}),
    "amp": ("amp.mcpServers", {"command": PROGRAM[0], "args": ["serve"]}),
    "crush": ("mcp", {"type": "stdio", "command": PROGRAM[0], "args": ["serve"]}),
    "cursor": ("mcpServers", {"command": PROGRAM[0], "args": ["serve", "--project", "${workspaceFolder}"]}),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_is_spelled_as_the_host_spells_it(name: str) -> None:
    host = host_of(name)
    key, entry = ENTRIES[name]

    assert (host.key, stdio_entry(host, PROGRAM, AROUND)) == ((key,), entry)


PLACES: tuple[tuple[str, Scope, System, dict[str, str], str], ...] = (
    ("claude-code", "user", "linux", {}, "/home/ada/.claude.json"),
    ("claude-code", "user", "linux", {"CLAUDE_CONFIG_DIR": "/etc/c"}, "/etc/c/.claude.json"),
    ("claude-code", "project", "linux", {}, "/home/ada/library/.mcp.json"),
    ("codex", "user", "macos", {"CODEX_HOME": "/x"}, "/x/config.toml"),
    ("codex", "user", "macos", {"CODEX_HOME": "relative"}, "/home/ada/.codex/config.toml"),
    ("vscode", "user", "linux", {}, "/home/ada/.config/Code/User/mcp.json"),
    ("vscode", "user", "linux", {"XDG_CONFIG_HOME": "/c"}, "/c/Code/User/mcp.json"),
    ("vscode", "user", "macos", {}, "/home/ada/Library/Application Support/Code/User/mcp.json"),
    ("cline", "user", "linux", {"CLINE_MCP_SETTINGS_PATH": "/c/x.json"}, "/c/x.json"),
    ("goose", "user", "linux", {}, "/home/ada/.config/goose/config.yaml"),
)


@pytest.mark.parametrize(("name", "scope", "system", "environment", "path"), PLACES)
def test_a_settings_file_is_where_the_host_looks(
    name: str, scope: Scope, system: System, environment: dict[str, str], path: str
) -> None:
    around = Surroundings(system, {"HOME": "/home/ada", **environment}, "/home/ada/library")

    assert settings_path(host_of(name), scope, around) == path


def test_of_two_possible_files_the_one_that_exists_is_used(tmp_path: Path) -> None:
    (tmp_path / "opencode.jsonc").write_text("{}", encoding="utf-8")
    around = Surroundings("linux", {"HOME": str(tmp_path)}, str(tmp_path))

    assert settings_path(host_of("opencode"), "project", around) == str(tmp_path / "opencode.jsonc")
    assert settings_path(host_of("crush"), "project", around) == str(tmp_path / "crush.json")
    assert settings_path(host_of("claude-desktop"), "project", around) is None


def test_the_home_folder_is_not_named_as_a_project() -> None:
    around = Surroundings("linux", {"HOME": "/home/ada"}, "/home/ada")

    assert stdio_entry(host_of("claude-desktop"), PROGRAM, around)["args"] == ["serve"]
