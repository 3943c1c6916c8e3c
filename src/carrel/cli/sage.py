"""`carrel sage`: read, search and extend an assistant's memory."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from carrel.app import registration
from carrel.app.app import open_store, release_store
from carrel.cli import exit_codes, output
from carrel.cli.context import CommandOptions
from carrel.cli.options import with_command_options
from carrel.core.errors import BadArgument, ConfigError, RequestError, echo
from carrel.core.model import Resource, ToolResult
from carrel.core.writer import LOCAL, writing_as
from carrel.providers.sage.arguments import SaveCheckpoint, needed
from carrel.providers.sage.memory import SageError
from carrel.providers.sage.names import KINDS, split_uri
from carrel.providers.sage.provider import Sage

_SEARCHED = ("checkpoint", "knowledge", "failure")
_FOLDERS = (("system", "pinned"), ("checkpoints",), ("knowledge", "global"), ("knowledge", "skills"), ("failures",))


@contextmanager
def opened(options: CommandOptions, *, writes: bool = False) -> Iterator[Sage]:
    """Open the project's memory as configured, but with every tool: a person at the command line may always save."""
    config = options.config("store", "bus", "sage", writes=writes)
    values = {**config.values("sage"), "tools": "write"}
    with ExitStack() as until_closed:
        store = open_store(config)
        until_closed.callback(release_store, store)
        memory = registration.load("carrel.providers.sage:Sage")(config.project_of("sage"), **values)
        assert isinstance(memory, Sage)
        until_closed.callback(memory.close)
        memory.memory.refresh()
        with writing_as(LOCAL, f"carrel sage {click.get_current_context().info_name}"):
            yield memory


class SageCommands(click.Group):
    """Commands whose errors are reported as those of all others: 2 for wrong input, or else 1."""

    def invoke(self, ctx: click.Context) -> object:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except SageError as error:
            raise (BadArgument if error.kind == "invalid" else RequestError)(error.message) from None


@click.group(cls=SageCommands)
def sage() -> None:
    """Read, search and extend an assistant's memory of this project."""


@sage.command("ls")
@click.option("--kind", type=click.Choice(KINDS), help="Only items of this kind.")
@click.option("--check", is_flag=True, help="Show the files that are not listed, and why.")
@with_command_options
@click.pass_obj
def list_items(options: CommandOptions, kind: str | None, check: bool) -> int:
    """List all items. With --check, list the files that are not listed, and why."""
    with opened(options) as memory:
        if check:
            return _check(options, memory, kind)
        entries = [entry for entry in memory.entries() if kind is None or entry.uri.startswith(f"sage://{kind}/")]
    if options.is_json:
        output.print_json([_entry(entry) for entry in entries])
    else:
        output.print_entries(
            entries, "The memory is empty. Add something: carrel sage save-knowledge ID --keyword K --content TEXT"
        )
    return exit_codes.DONE


def _check(options: CommandOptions, memory: Sage, kind: str | None) -> int:
    # The name of each folder begins with its kind.
    found = [(path, reason) for path, reason in memory.listing.unlisted() if path.startswith(kind or "")]
    if options.is_json:
        output.print_json([{"path": path, "reason": reason} for path, reason in found])
    else:
        output.print_table(("not listed", "reason"), found, plain_columns=2, empty="Everything is listed.")
    return exit_codes.FAILED if found else exit_codes.DONE


def _entry(entry: Resource) -> dict[str, object]:
    fields = {"uri": entry.uri, "title": entry.title, "description": entry.description, "size": entry.size}
    return {key: value for key, value in fields.items() if value not in (None, "")}


@sage.command()
@click.argument("item")
@click.option("--format", "form", metavar="F", help="Format: markdown or toon.")
@with_command_options
@click.pass_obj
def show(options: CommandOptions, item: str, form: str | None) -> None:
    """Print an item. ITEM is its URI or KIND/ID, with or without a leading @ or @carrel: as in a mention."""
    named = item.removeprefix("@").removeprefix("carrel:")
    uri = named if "://" in named else f"sage://{named}"
    parts = split_uri(uri)
    if parts is None:
        raise SageError(f"Resource not found: {uri}", "not_found")
    kind, name, wanted = parts
    with opened(options) as memory:
        text = memory.memory.read(kind, name, wanted if form is None else form)
    if options.is_json:
        output.print_json({"uri": uri, "mimeType": text.mime_type, "text": text.text})
    else:
        output.print_text(text.text, "")


@sage.command()
@click.argument("query")
@click.option("--kind", type=click.Choice(_SEARCHED), help="Only items of this kind.")
@click.option("--limit", type=click.IntRange(1, 200), default=10, show_default=True, help="Maximum number of results.")
@with_command_options
@click.pass_obj
def search(options: CommandOptions, query: str, kind: str | None, limit: int) -> None:
    """Search for items, the best first within each kind."""
    with opened(options) as memory:
        needed("query", query, memory.memory.limit)
        results = _search(memory, query, _SEARCHED if kind is None else (kind,), limit)
    if options.is_json:
        output.print_json(results)
    else:
        rows = [(str(one["uri"]), f"{one['score']:.3f}", str(one["description"])) for one in results]
        empty = "Nothing found. To list all items: carrel sage ls"
        output.print_table(("URI", "score", "what"), rows, plain_columns=2, spare=("score", "what"), empty=empty)


def _search(memory: Sage, query: str, kinds: tuple[str, ...], limit: int) -> list[dict[str, object]]:
    """Return the best results of each kind, `limit` in all: scores of different kinds cannot be compared."""
    entries = {entry.uri: entry for entry in memory.entries()}
    addresses = {file.stem: address for file, address in memory.memory.failures.listed()}
    ranked = []
    for place, kind in enumerate(kinds):
        found = memory.toolset.search.search(kind, query, limit)
        for rank, hit in enumerate(found.hits):
            uri = f"sage://{kind}/{addresses.get(hit.key, hit.key) if kind == 'failure' else hit.key}"
            entry = entries.get(uri)
            what = (entry.description or entry.title) if entry else ""
            result = {"uri": uri, "score": round(hit.score, 6), "engine": found.engine, "description": what}
            ranked.append((rank, place, result))
    best = sorted(ranked, key=lambda one: one[:2])[:limit]
    return [result for _, _, result in sorted(best, key=lambda one: (one[1], one[0]))]


@sage.command("save-checkpoint")
@click.option("--question", help="The question under research.")
@click.option("--thesis", help="The current answer.")
@click.option("--confidence", help="Confidence in the answer, from 0 to 1.")
@click.option(
    "--from-json",
    "source",
    metavar="FILE",
    help="JSON file with the parameters of sage_save_checkpoint; - for standard input.",
)
@with_command_options
@click.pass_obj
def save_checkpoint(
    options: CommandOptions, question: str | None, thesis: str | None, confidence: str | None, source: str | None
) -> None:
    """Save a checkpoint and print its URI."""
    given = {} if source is None else _parameters(source)
    options_given = {"core_question": question, "thesis": thesis, "confidence": confidence and _number(confidence)}
    given |= {name: value for name, value in options_given.items() if value is not None}
    with opened(options, writes=True) as memory:
        _print_saved(options, memory.toolset.run("sage_save_checkpoint", given))


@sage.command("save-knowledge")
@click.argument("name", metavar="ID")
@click.option("--keyword", "keywords", multiple=True, metavar="K", help="A word to find it by; may be repeated.")
@click.option("--content", help="The knowledge itself.")
@click.option("--file", "source", metavar="FILE", help="A file with the knowledge; - for standard input.")
@click.option("--source", "origin", help="Where it comes from.")
@click.option("--skill", help="The skill it belongs to.")
@click.option("--type", "kind", default="knowledge", show_default=True, help="The type of knowledge.")
@click.argument("stdin", default="", metavar="[-]")
@with_command_options
@click.pass_obj
def save_knowledge(
    options: CommandOptions, /, name: str, keywords: tuple[str, ...], stdin: str, **given: str | None
) -> None:
    """Save a knowledge item and print its URI."""
    content, source = given["content"], given["source"]
    if stdin not in ("", "-"):
        raise click.UsageError(f"unexpected argument {stdin}")
    if sum((content is not None, source is not None, stdin != "")) > 1:
        raise click.UsageError("give one of --content, --file and -")
    if content is None:
        content = _text("-" if stdin else source) if stdin or source else ""
    named = {"source": given["origin"], "skill": given["skill"], "type": given["kind"]}
    with opened(options, writes=True) as memory:
        values = {"id": name, "content": content, "keywords": list(keywords), **named}
        _print_saved(options, memory.toolset.run("sage_save_knowledge", values))


@sage.command("record-failure")
@click.argument("name", metavar="ID")
@click.option("--approach", help="What was tried.")
@click.option("--why", "why_failed", help="Why it failed.")
@click.option("--learned", help="What was learned.")
@click.option("--keyword", "keywords", multiple=True, metavar="K", help="A word to find it by; may be repeated.")
@with_command_options
@click.pass_obj
def record_failure(options: CommandOptions, /, name: str, keywords: tuple[str, ...], **given: str | None) -> None:
    """Record a failure and print its URI."""
    with opened(options, writes=True) as memory:
        values = {"id": name, "keywords": list(keywords), **given}
        _print_saved(options, memory.toolset.run("sage_record_failure", values))


@sage.command()
@with_command_options
@click.pass_obj
def init(options: CommandOptions) -> None:
    """Create the folders of a memory. Existing ones are not changed."""
    with opened(options, writes=True) as memory:
        made = list(dict.fromkeys(path for way in _FOLDERS for path in memory.toolset.writer.make_folder(*way)))
    if options.is_json:
        output.print_json(made)
    else:
        for path in made:
            output.print_text(path)


def _print_saved(options: CommandOptions, result: ToolResult) -> None:
    assert isinstance(result.structured, dict)
    if options.is_json:
        output.print_json(result.structured)
    else:
        output.print_text(str(result.structured["uri"]))


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _text(source: str | None) -> str:
    try:
        return sys.stdin.read() if source == "-" else Path(source or "").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"{source} cannot be read: {reason}") from None


def _parameters(source: str) -> dict[str, object]:
    """Return the parameters in a JSON file; raise `ConfigError` for unknown ones, which would be lost."""
    try:
        given = json.loads(_text(source))
    except ValueError as error:
        raise ConfigError(f"{source} is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ConfigError(f"{source} is not a JSON object")
    known = SaveCheckpoint.__struct_fields__
    odd = [echo(name) for name in given if name not in known]
    if odd:
        raise ConfigError(f"{source} has unknown keys: {', '.join(odd)}; known keys: {', '.join(known)}")
    return given
