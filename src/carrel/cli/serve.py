"""`carrel serve`: MCP on the standard streams or, with --http, on an address.

Parsed by hand, from one table that `carrel serve --help` shows too: a host waits for
the first answer, and a CLI package would be most of that wait.
"""

import os
import sys
from collections.abc import Sequence
from typing import Final

from carrel.app.app import Desk, open_desk
from carrel.app.config import Config, load
from carrel.cli.named_objects import object_flag, positional_flag
from carrel.cli.stderr import say, set_up_logging
from carrel.core.errors import ConfigError, Disconnected
from carrel.core.record import Value


class Option(Value, frozen=True):
    """A flag of `serve`: with `value` it takes one; `key` is the [server] setting it sets."""

    flag: str
    value: str
    told: str
    key: str = ""


OPTIONS: Final = (
    Option("--project", "DIR", "Serve the folder DIR instead of the project around the working folder."),
    Option("--only", "NAMES", "Serve only these providers, separated by commas.", "only"),
    Option("--without", "NAMES", "Leave these providers out.", "without"),
    Option("--max-message-mb", "N", "Largest message either way (default 2).", "max_message_mb"),
    Option("--page-size", "N", "Entries in one page of a list (default 1000).", "page_size"),
    Option("--no-mirror", "", "No list_resources and read_resource tools.", "mirror"),
    Option("--with", "FILE.py|MODULE:THING", "Serve a Python file or object too; FILE.py alone does the same."),
    Option("--object", "MODULE:THING", "The same; also for an installed provider, by its name."),
    Option("--http", "[HOST:]PORT", "Serve on an address instead of stdin and stdout (HOST: 127.0.0.1)."),
    Option("--no-token", "", "With --http on a loopback address: ask nobody for a token."),
    Option("--set", "SECTION.KEY=VALUE", "Set anything the configuration file can set."),
    Option("--quiet", "", "Do not say on stderr what is served."),
    Option("--debug", "", "Say more on stderr when something goes wrong."),
)


class Parsed:
    """What the flags say."""

    def __init__(self) -> None:
        self.project: str | None = None
        self.flags: list[tuple[str, str, str]] = []
        self.origins: dict[tuple[str, str], str] = {}
        self.is_quiet = False
        self.is_debug = False
        self.http: str | None = None
        self.has_token = True


def run(words: Sequence[str]) -> int:
    """Serve until input ends; give the exit code."""
    parsed = parse(words)
    is_terminal = sys.stdin.isatty()
    set_up_logging(is_debug=parsed.is_debug)
    from carrel.transports import stdio  # not before the flags are known to be right

    # The streams are taken first: an object that prints while it loads must not be heard by the client.
    if parsed.http is not None:
        with stdio.taken_stdout():
            return _serve_http(load(parsed.project, os.environ, parsed.flags, parsed.origins), parsed.http, parsed)
    if sys.__stdin__ is None:  # so it is where it was closed
        raise Disconnected(
            "stdin is closed, and a host speaks to `carrel serve` there; "
            "for an address: carrel serve --http 8000, for a look by eye: carrel ls"
        )
    with stdio.taken_streams() as streams:
        desk = open_desk(load(parsed.project, os.environ, parsed.flags, parsed.origins))
        if not parsed.is_quiet:
            say("\n".join(announcement(desk, is_terminal=is_terminal)))
        stdio.serve(desk.server, streams)
    return 0


def _serve_http(config: Config, address: str, parsed: Parsed) -> int:
    from carrel.cli.serve_http import refuse_own_address, run_http  # an event loop and more; stdio needs none of it

    refuse_own_address(config, address)
    desk = open_desk(config)
    told = None if parsed.is_quiet else announcement(desk)
    return run_http(desk, address, told, has_token=parsed.has_token)


def parse(words: Sequence[str]) -> Parsed:
    """Read the flags, or say which one is wrong."""
    parsed = Parsed()
    rest = list(words)
    while rest:
        if not rest[0].startswith("-"):
            parsed.flags.append(positional_flag(rest.pop(0), parsed.flags))
            continue
        option, value = _next_option(rest)
        if option.key:
            parsed.flags.append(("server", option.key, value if option.value else "false"))
            parsed.origins["server", option.key] = option.flag
        elif option.flag == "--set":
            parsed.flags.append(_assignment(value))
            parsed.origins.pop(parsed.flags[-1][:2], None)
        elif option.flag in ("--with", "--object"):
            parsed.flags.append(object_flag(value, parsed.flags))
        else:
            _take(parsed, option.flag, value)
    if not parsed.has_token and parsed.http is None:
        raise ConfigError("--no-token goes with --http; stdin and stdout have no token")
    if parsed.project is not None and not os.path.isdir(parsed.project):
        raise ConfigError(f"--project {parsed.project}: there is no such folder")
    return parsed


def _next_option(rest: list[str]) -> tuple[Option, str]:
    """Take an option off the words, and its value if it has one."""
    flag, has_value, value = rest.pop(0).partition("=")
    option = next((one for one in OPTIONS if one.flag == flag), None)
    if option is None:
        known = ", ".join(one.flag for one in OPTIONS)
        raise ConfigError(f"serve has no option {flag!r}; it has {known}")
    if has_value and not option.value:
        raise ConfigError(f"{flag} takes no value: leave out ={value}")
    if option.value and not value:
        if not rest:
            raise ConfigError(f"{flag} needs a value: {flag} {option.value}")
        value = rest.pop(0)
    return option, value


def _take(parsed: Parsed, flag: str, value: str) -> None:
    if flag == "--project":
        parsed.project = value
    elif flag == "--http":
        parsed.http = value
    elif flag == "--no-token":
        parsed.has_token = False
    elif flag == "--quiet":
        parsed.is_quiet = True
    elif flag == "--debug":
        parsed.is_debug = True


def _assignment(text: str) -> tuple[str, str, str]:
    name, is_assigned, value = text.partition("=")
    section, is_dotted, key = name.rpartition(".")
    if not (is_assigned and is_dotted and section and key):
        raise ConfigError(f"--set {text}: write it as --set section.key=value")
    return section, key, value


def announcement(desk: Desk, *, is_terminal: bool = False) -> list[str]:
    """Say what is served and why, for the person who reads the log."""
    served = [f"{choice.name} ({choice.why})" for choice in desk.choices if choice.state == "served"]
    has_guide = any("carrel" in mounted.provider.schemes for mounted in desk.catalog.mounted)
    nothing = "nothing but the guide" if has_guide else "nothing"
    lines = [f"carrel: serving {', '.join(served) or nothing} from {desk.config.root}"]
    lines += [f"carrel: {note}" for note in desk.notes]
    if is_terminal:
        lines.append("carrel: this speaks MCP on stdin and stdout, for a program. For a look by eye: carrel ls")
    return lines
