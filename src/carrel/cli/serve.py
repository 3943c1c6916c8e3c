"""`carrel serve`: MCP on stdin and stdout or, with --http, on an address.

The options are parsed by hand, from the table that `carrel serve --help` prints: importing click would be most
of the time that a host waits for the first answer.
"""

import gc
import os
import sys
from collections.abc import Sequence
from typing import Final

from carrel.app.app import Desk, open_desk
from carrel.app.config import WITH, Config, load
from carrel.cli.stderr import log_everything, printable_stderr, say
from carrel.core.errors import ConfigError, Disconnected
from carrel.core.record import Value


class Option(Value, frozen=True):
    """An option of `serve`. `value` names its value, if it takes one; `key` is the [server] setting that it sets."""

    flag: str
    value: str
    help: str
    key: str = ""


OPTIONS: Final = (
    Option("--project", "DIR", "Serve the folder DIR instead of the project that contains the working folder."),
    Option("--only", "NAMES", "Serve only these providers (comma-separated).", "only"),
    Option("--without", "NAMES", "Do not serve these providers (comma-separated).", "without"),
    Option("--max-message-mb", "N", "Maximum size of a message in either direction (default 2).", "max_message_mb"),
    Option("--page-size", "N", "Number of entries in one page of a list (default 1000).", "page_size"),
    Option("--no-mirror", "", "Do not offer the tools search, list_resources and read_resource.", "mirror"),
    Option("--with", "FILE.py|MODULE:NAME", "Also serve a Python file or object; the option name may be left out."),
    Option("--object", "MODULE:NAME", "Like --with; also takes the name of an installed provider."),
    Option(
        "--http", "[HOST:]PORT", "Serve over HTTP instead of stdin and stdout (default: 127.0.0.1 and [http] port)."
    ),
    Option("--open", "", "With --http: open the explorer, which shows what is served, in the browser."),
    Option("--workers", "N", "With --http and a store: serve with N processes, which use N cores (default 1)."),
    Option("--no-token", "", "With --http on a loopback address: require no token."),
    Option("--set", "SECTION.KEY=VALUE", "Set any setting of the configuration file."),
    Option("--quiet", "", "Do not print on stderr what is served."),
    Option("--debug", "", "Print debug messages and tracebacks on stderr."),
)


class Parsed:
    """The parsed options."""

    def __init__(self) -> None:
        self.project: str | None = None
        self.flags: list[tuple[str, str, str]] = []
        self.origins: dict[tuple[str, str], str] = {}
        self.is_quiet = False
        self.is_debug = False
        self.http: str | None = None
        self.has_token = True
        self.opens = False
        self.workers = 1


def run(words: Sequence[str]) -> int:
    """Serve until the input ends; return the exit code."""
    parsed = parse(words)
    is_terminal = sys.stdin.isatty()
    with printable_stderr():
        if parsed.is_debug:
            log_everything()
        return _serve(parsed, is_terminal=is_terminal)


def _serve(parsed: Parsed, *, is_terminal: bool) -> int:
    from carrel.transports import stdio  # only after the options were checked

    # Take the streams first: what an object prints while it loads must not reach the client.
    if parsed.http is not None:
        with stdio.taken_stdout():
            return _serve_http(load(parsed.project, os.environ, parsed.flags, parsed.origins), parsed.http, parsed)
    if sys.__stdin__ is None:  # Python's sign that the descriptor is closed
        raise Disconnected(
            "stdin is closed, but carrel serve reads requests from stdin; "
            "to serve over HTTP: carrel serve --http 8000; to list resources: carrel ls"
        )
    with stdio.taken_streams() as streams:
        desk = open_desk(load(parsed.project, os.environ, parsed.flags, parsed.origins))
        if desk.store is not None:
            desk.store.begin_serving()
        if not parsed.is_quiet:
            say("\n".join(announcement(desk, is_terminal=is_terminal)))
        collect_from_now_on()
        stdio.serve(desk.server, streams)
    return 0


def _serve_http(config: Config, address: str, parsed: Parsed) -> int:
    from carrel.cli.serve_http import parse_address, refuse_own_address, run_http  # imports an event loop
    from carrel.transports.http.app import bind

    address = address or str(config.http().port)
    refuse_own_address(config, address)
    worker = None
    if parsed.workers > 1:
        from carrel.cli.serve_workers import refuse_unshared, start_workers  # only where there are several

        refuse_unshared(config)
        started = start_workers(bind(*parse_address(address)), parsed.workers)
        if isinstance(started, int):
            return started
        worker = started
    is_first = worker is None or worker.is_first
    desk = open_desk(config)
    lines = announcement(desk) if is_first and not parsed.is_quiet else None
    collect_from_now_on()
    opens = None
    if parsed.opens and is_first:
        from carrel.cli.browser import opener  # only for a person

        opens = opener(os.environ, wanted=True)
    return run_http(desk, address, lines, has_token=parsed.has_token, opens=opens, worker=worker)


def collect_from_now_on() -> None:
    """Collect garbage again, which `main` turned off for the start, but never look at what is loaded by now."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def parse(words: Sequence[str]) -> Parsed:
    """Return the parsed options; raise ConfigError for a wrong one."""
    parsed = Parsed()
    rest = list(words)
    while rest:
        if not rest[0].startswith("-"):
            from carrel.cli.named_objects import positional_flag  # most servers are started without objects

            parsed.flags.append(positional_flag(rest.pop(0), parsed.flags))
            parsed.origins[parsed.flags[-1][:2]] = WITH
            continue
        option, value = _next_option(rest)
        if option.key:
            parsed.flags.append(("server", option.key, value if option.value else "false"))
            parsed.origins["server", option.key] = option.flag
        elif option.flag == "--set":
            parsed.flags.append(_assignment(value))
            parsed.origins.pop(parsed.flags[-1][:2], None)
        elif option.flag in ("--with", "--object"):
            from carrel.cli.named_objects import object_flag, with_flag  # as above

            named = with_flag if option.flag == "--with" else object_flag
            parsed.flags.append(named(value, parsed.flags))
            parsed.origins[parsed.flags[-1][:2]] = WITH
        else:
            _take(parsed, option.flag, value)
    if not parsed.has_token and parsed.http is None:
        raise ConfigError("--no-token needs --http; stdin and stdout use no token")
    if parsed.opens and parsed.http is None:
        raise ConfigError("--open needs --http; to look at what is served: carrel open")
    if parsed.workers > 1 and parsed.http is None:
        raise ConfigError("--workers needs --http; stdin and stdout serve one client")
    if parsed.project is not None and not os.path.isdir(parsed.project):
        raise ConfigError(f"--project {parsed.project}: no such folder")
    return parsed


def _next_option(rest: list[str]) -> tuple[Option, str]:
    """Remove the next option, and its value if it takes one, from the words; return both."""
    flag, has_value, value = rest.pop(0).partition("=")
    option = next((one for one in OPTIONS if one.flag == flag), None)
    if option is None:
        known = ", ".join(one.flag for one in OPTIONS)
        raise ConfigError(f"unknown option {flag!r}; serve takes {known}")
    if has_value and not option.value:
        raise ConfigError(f"{flag} takes no value: remove ={value}")
    if option.flag == "--http" and not has_value and (not rest or rest[0].startswith("-")):
        return option, ""  # the port is that of the configuration
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
    elif flag == "--open":
        parsed.opens = True
    elif flag == "--workers":
        parsed.workers = _number_of_workers(value)
    elif flag == "--quiet":
        parsed.is_quiet = True
    elif flag == "--debug":
        parsed.is_debug = True


def _number_of_workers(text: str) -> int:
    from carrel.cli.serve_workers import MAX_WORKERS  # only where there are several

    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    if not 1 <= number <= MAX_WORKERS:
        raise ConfigError(f"--workers {text}: expected a whole number from 1 to {MAX_WORKERS}")
    return number


def _assignment(text: str) -> tuple[str, str, str]:
    name, is_assigned, value = text.partition("=")
    section, is_dotted, key = name.rpartition(".")
    if not (is_assigned and is_dotted and section and key):
        raise ConfigError(f"--set {text}: write it as --set section.key=value")
    return section, key, value


def announcement(desk: Desk, *, is_terminal: bool = False) -> list[str]:
    """Return the lines that say on stderr what is served and why."""
    served = [f"{choice.name} ({choice.why})" for choice in desk.choices if choice.state == "served"]
    has_guide = any(mounted.provider.name == "guide" for mounted in desk.catalog.mounted)
    nothing = "only the guide" if has_guide else "nothing"
    lines = [f"carrel: serving {', '.join(served) or nothing} from {desk.config.root}"]
    lines += [f"carrel: {note}" for note in desk.notes]
    if is_terminal:
        lines.append("carrel: waiting for MCP messages on stdin. To list the resources yourself: carrel ls")
    return lines
