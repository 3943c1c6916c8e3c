"""The table of hosts: where each keeps its MCP servers, how an entry looks, and where the fact comes from.

To add a host, add a row here and a fixture in `tests/connect/files`. Nothing else knows a host by name.
"""

from collections.abc import Mapping
from typing import Final, Literal

from carrel.core.record import Value, replace

Format = Literal["json", "jsonc", "toml", "yaml"]
Scope = Literal["project", "user"]
System = Literal["linux", "macos", "windows"]

ENTRY_NAME: Final = "carrel"
"""The name of our entry in every host."""
TOKEN_VARIABLE: Final = "CARREL_TOKEN"
CHECKED: Final = "2026-11-17"
"""The day on which the rows were last compared with their sources."""

WORKSPACE_FOLDER: Final = "${workspaceFolder}"
"""What some hosts replace by the folder that is open."""


class EntryShape(Value, frozen=True):
    """How a host spells an entry."""

    command: str = "command"
    is_joined: bool = False
    """Whether the command and its arguments are one list."""
    first: Mapping[str, object] = {}
    """Constant fields before the command."""
    last: Mapping[str, object] = {}
    """Constant fields after the command or the URL."""
    url: str | None = "url"
    """The field of the URL; None if the host starts local servers only."""
    http_first: Mapping[str, object] = {}
    """Constant fields before the URL."""
    headers: tuple[str, ...] = ("headers",)
    bearer: str | None = None
    """The Authorization header with the token from an environment variable; None if the host cannot refer to one."""
    bearer_variable: str | None = None
    """The field that names the environment variable with the token, for a host that has one."""
    is_listed: bool = False
    """Whether entries are items of a list, each with its name in the field `name`."""


class HostFacts(Value, frozen=True):
    """What is known of one host."""

    name: str
    title: str
    source: str
    """Where the facts come from."""
    user: Mapping[System, tuple[str, ...]]
    """The user's settings file on each system. The first that exists is used, or else the first."""
    project: tuple[str, ...] = ()
    """The project's settings file, relative to the project; empty if the host has none."""
    format: Format = "jsonc"
    key: tuple[str, ...] = ("mcpServers",)
    """The keys that lead to the entries."""
    shape: EntryShape = EntryShape()
    default: Scope = "user"
    override: tuple[str, str] | None = None
    """An environment variable that names the folder of the user's file, and the file in it ("": names the file)."""
    programs: tuple[str, ...] = ()
    """Names of the host's program, on PATH or in the list of processes."""
    arguments: tuple[str, ...] = ()
    """Arguments of `carrel serve` that this host needs."""
    starts_elsewhere: bool = False
    """Whether it starts servers outside the project, so that the entry names the project's folder."""
    era: Literal["modern", "legacy"] = "legacy"
    """The era of the protocol that its client speaks."""
    new_file: Mapping[str, object] = {}
    """Fields that a new file needs besides the entries."""
    hints: Mapping[Scope, str] = {}
    """What a person must do after connecting, so that the host uses the entry."""
    quirks: tuple[str, ...] = ()
    """Other facts that may surprise."""
    by_hand: str = ""
    """Where a person pastes the entry, for a host without a settings file."""
    checked: str = CHECKED


def _always(hint: str) -> dict[Scope, str]:
    return {"user": hint, "project": hint}


def _everywhere(*paths: str) -> dict[System, tuple[str, ...]]:
    return {"linux": paths, "macos": paths, "windows": paths}


def _by_system(linux: str, macos: str, windows: str) -> dict[System, tuple[str, ...]]:
    return {"linux": (linux,), "macos": (macos,), "windows": (windows,)}


_BRACES: Final = "Bearer ${" + TOKEN_VARIABLE + "}"
_ENV_BRACES: Final = "Bearer ${env:" + TOKEN_VARIABLE + "}"
_TYPED: Final = EntryShape(first={"type": "stdio"}, http_first={"type": "http"}, bearer=_BRACES)

_VSCODE: Final = HostFacts(
    "vscode",
    "VS Code",
    "https://code.visualstudio.com/docs/copilot/reference/mcp-configuration",
    _by_system("{config}/Code/User/mcp.json", "{support}/Code/User/mcp.json", "{appdata}/Code/User/mcp.json"),
    (".vscode/mcp.json",),
    key=("servers",),
    shape=EntryShape(first={"type": "stdio"}, http_first={"type": "http"}, bearer=_ENV_BRACES),
    default="project",
    programs=("code",),
    hints={
        "project": "VS Code asks once whether you trust the server",
        "user": "a server of your profile may start in your home folder, whose files are not served",
    },
)

HOSTS: Final = (
    HostFacts(
        "claude-code",
        "Claude Code",
        "https://code.claude.com/docs/en/mcp",
        _everywhere("{home}/.claude.json"),
        (".mcp.json",),
        format="json",
        shape=_TYPED,
        override=("CLAUDE_CONFIG_DIR", ".claude.json"),
        programs=("claude",),
        era="modern",
        hints={"project": "approve .mcp.json when Claude Code starts"},
        quirks=("no `alwaysLoad` is written: the tools for search, read and list ask for it themselves",),
    ),
    HostFacts(
        "claude-desktop",
        "Claude Desktop",
        "https://modelcontextprotocol.io/docs/develop/connect-local-servers",
        _by_system(
            "{config}/Claude/claude_desktop_config.json",
            "{support}/Claude/claude_desktop_config.json",
            "{appdata}/Claude/claude_desktop_config.json",
        ),
        format="json",
        shape=EntryShape(url=None),
        starts_elsewhere=True,
        programs=("claude-desktop",),
        hints=_always("restart Claude Desktop"),
        quirks=("remote servers are added in its settings under Connectors, not in the file",),
    ),
    HostFacts(
        "codex",
        "Codex",
        "https://developers.openai.com/codex/mcp",
        _everywhere("{home}/.codex/config.toml"),
        (".codex/config.toml",),
        format="toml",
        key=("mcp_servers",),
        shape=EntryShape(bearer_variable="bearer_token_env_var"),
        override=("CODEX_HOME", "config.toml"),
        programs=("codex",),
        hints={"project": "Codex reads this file only if the project is trusted"},
    ),
    _VSCODE,
    replace(
        _VSCODE,
        name="vscode-insiders",
        title="VS Code Insiders",
        user=_by_system(
            "{config}/Code - Insiders/User/mcp.json",
            "{support}/Code - Insiders/User/mcp.json",
            "{appdata}/Code - Insiders/User/mcp.json",
        ),
        programs=("code-insiders",),
    ),
    HostFacts(
        "copilot-cli",
        "Copilot CLI",
        "https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers",
        _everywhere("{home}/.copilot/mcp-config.json"),
        (".github/mcp.json",),
        format="json",
        shape=replace(_TYPED, last={"tools": ["*"]}),
        override=("COPILOT_HOME", "mcp-config.json"),
        programs=("copilot",),
        era="modern",
    ),
    HostFacts(
        "cursor",
        "Cursor",
        "https://cursor.com/docs/mcp",
        _everywhere("{home}/.cursor/mcp.json"),
        (".cursor/mcp.json",),
        shape=EntryShape(bearer=_ENV_BRACES),
        arguments=("--project", WORKSPACE_FOLDER),
        programs=("cursor",),
        hints=_always("switch the server on in Cursor under Customize, MCPs"),
    ),
    HostFacts(
        "gemini-cli",
        "Gemini CLI",
        "https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md",
        _everywhere("{home}/.gemini/settings.json"),
        (".gemini/settings.json",),
        shape=EntryShape(url="httpUrl", bearer=_BRACES),
        programs=("gemini",),
        hints=_always("Gemini CLI starts servers only in trusted folders"),
    ),
    HostFacts(
        "zed",
        "Zed",
        "https://zed.dev/docs/ai/mcp",
        _by_system("{config}/zed/settings.json", "{home}/.config/zed/settings.json", "{appdata}/Zed/settings.json"),
        (".zed/settings.json",),
        key=("context_servers",),
        programs=("zed", "zeditor"),
    ),
    HostFacts(
        "opencode",
        "opencode",
        "https://opencode.ai/docs/mcp-servers/",
        _everywhere("{config}/opencode/opencode.json", "{config}/opencode/opencode.jsonc"),
        ("opencode.json", "opencode.jsonc"),
        key=("mcp",),
        shape=EntryShape(
            is_joined=True,
            first={"type": "local"},
            last={"enabled": True},
            http_first={"type": "remote"},
            bearer="Bearer {env:" + TOKEN_VARIABLE + "}",
        ),
        programs=("opencode",),
        quirks=("version 2 documents `mcp.servers`; version 1, which is current, reads `mcp`",),
    ),
    HostFacts(
        "goose",
        "Goose",
        "https://block.github.io/goose/docs/guides/config-files",
        _by_system(
            "{config}/goose/config.yaml",
            "{home}/.config/goose/config.yaml",
            "{appdata}/Block/goose/config/config.yaml",
        ),
        format="yaml",
        key=("extensions",),
        shape=EntryShape(
            command="cmd",
            first={"enabled": True, "type": "stdio", "name": ENTRY_NAME, "description": "What this project knows"},
            last={"timeout": 300},
            url="uri",
            http_first={
                "enabled": True,
                "type": "streamable_http",
                "name": ENTRY_NAME,
                "description": "What this project knows",
            },
        ),
        programs=("goose",),
    ),
    HostFacts(
        "cline",
        "Cline",
        "https://docs.cline.bot/mcp/mcp-overview",
        _everywhere("{home}/.cline/data/settings/cline_mcp_settings.json"),
        format="json",
        shape=EntryShape(last={"disabled": False}, http_first={"type": "streamableHttp"}),
        override=("CLINE_MCP_SETTINGS_PATH", ""),
        programs=("cline",),
        quirks=("an older Cline in VS Code keeps its own file: MCP Servers, Configure; paste what --print shows",),
    ),
    HostFacts(
        "continue",
        "Continue",
        "https://docs.continue.dev/customize/deep-dives/mcp",
        _everywhere("{home}/.continue/config.yaml"),
        (".continue/mcpServers/carrel.yaml",),
        format="yaml",
        shape=EntryShape(is_listed=True, http_first={"type": "streamable-http"}, headers=("requestOptions", "headers")),
        programs=("cn",),
        new_file={"name": "Carrel", "version": "0.0.1", "schema": "v1"},
    ),
    HostFacts(
        "windsurf",
        "Windsurf",
        "https://docs.windsurf.com/windsurf/cascade/mcp",
        _everywhere("{home}/.codeium/windsurf/mcp_config.json"),
        shape=EntryShape(url="serverUrl", bearer=_ENV_BRACES),
        starts_elsewhere=True,
        programs=("windsurf",),
        hints=_always("refresh the list of MCP servers in Cascade"),
    ),
    HostFacts(
        "junie",
        "Junie",
        "https://www.jetbrains.com/help/junie/model-context-protocol-mcp.html",
        _everywhere("{home}/.junie/mcp/mcp.json"),
        (".junie/mcp/mcp.json",),
        shape=EntryShape(url=None),
        default="project",
        programs=("junie",),
    ),
    HostFacts(
        "ai-assistant",
        "AI Assistant (JetBrains)",
        "https://www.jetbrains.com/help/ai-assistant/mcp.html",
        {},
        starts_elsewhere=True,
        by_hand="Settings | Tools | AI Assistant | Model Context Protocol (MCP), Add, As JSON",
        quirks=("JetBrains documents no settings file for it",),
    ),
    HostFacts(
        "qwen-code",
        "Qwen Code",
        "https://qwenlm.github.io/qwen-code-docs/en/users/features/mcp/",
        _everywhere("{home}/.qwen/settings.json"),
        (".qwen/settings.json",),
        shape=EntryShape(last={"alwaysLoadTools": True}, url="httpUrl", bearer=_BRACES),
        programs=("qwen",),
        quirks=("without `alwaysLoadTools` it hides the tools behind a search for tools",),
    ),
    HostFacts(
        "kiro",
        "Kiro",
        "https://kiro.dev/docs/mcp/configuration",
        _everywhere("{home}/.kiro/settings/mcp.json"),
        (".kiro/settings/mcp.json",),
        shape=EntryShape(bearer=_BRACES),
        default="project",
        programs=("kiro", "kiro-cli"),
        quirks=("it asks before it uses an environment variable in its settings",),
    ),
    HostFacts(
        "amp",
        "Amp",
        "https://ampcode.com/manual",
        _everywhere("{home}/.config/amp/settings.json", "{home}/.config/amp/settings.jsonc"),
        (".amp/settings.json", ".amp/settings.jsonc"),
        key=("amp.mcpServers",),
        shape=EntryShape(bearer=_BRACES),
        programs=("amp",),
        hints={"project": "approve the server when Amp starts"},
    ),
    HostFacts(
        "crush",
        "Crush",
        "https://github.com/charmbracelet/crush/blob/main/README.md",
        _by_system("{config}/crush/crush.json", "{config}/crush/crush.json", "{localappdata}/crush/crush.json"),
        ("crush.json", ".crush.json"),
        format="json",
        key=("mcp",),
        shape=replace(_TYPED, bearer=f"$(echo Bearer ${TOKEN_VARIABLE})"),
        programs=("crush",),
    ),
    HostFacts(
        "lm-studio",
        "LM Studio",
        "https://lmstudio.ai/docs/app/mcp",
        _everywhere("{home}/.lmstudio/mcp.json"),
        starts_elsewhere=True,
        programs=("lm-studio",),
    ),
    HostFacts(
        "warp",
        "Warp",
        "https://docs.warp.dev/agents/capabilities/mcp",
        _everywhere("{home}/.warp/.mcp.json"),
        (".warp/.mcp.json",),
        starts_elsewhere=True,
        programs=("warp", "warp-terminal"),
    ),
)
"""Every host, in the order in which they are shown."""


def by_name(name: str) -> HostFacts | None:
    """Return the facts about a host; None for an unknown name."""
    return next((host for host in HOSTS if host.name == name), None)
