"""`ls`, `cat`, `templates`, `complete` and `explain`: show a person what a model gets."""

import base64
import sys
from collections.abc import Iterator, Sequence
from itertools import chain, islice

import click

from carrel.app import explanation
from carrel.cli import output, suggestions
from carrel.cli.completion import complete_uris
from carrel.cli.context import CommandOptions
from carrel.cli.options import with_command_options, with_objects, with_source
from carrel.client.client import Client
from carrel.core.errors import BadArgument
from carrel.core.model import Blob, Range, Reading, Resource, Text
from carrel.core.uri import split_query


@click.command()
@click.argument("prefix", default="", shell_complete=complete_uris)
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of results.")
@with_source
@click.pass_obj
def ls(options: CommandOptions, prefix: str, limit: int | None) -> None:
    """List resources. With PREFIX, such as logs: or the path src/, list only URIs that begin with it."""
    with options.client() as client:
        uris = suggestions.meant(options, client, prefix) if prefix else []
        uri, entries = _first_listed(client, uris or [prefix])
        entries = islice(entries, limit)
        first = tuple(islice(entries, 1))
        is_unknown = not first and uri != "" and not suggestions.may_be_empty(client, uri)
        if options.is_json:
            output.print_json([_entry_json(entry) for entry in chain(first, entries)])
        elif not is_unknown:
            output.print_entries(chain(first, entries), f"No resources{' yet' if prefix else ''}.")
        if is_unknown:
            raise suggestions.nothing_listed(client, uri)


def _first_listed(client: Client, prefixes: Sequence[str]) -> tuple[str, Iterator[Resource]]:
    """Return the first prefix with entries, and its entries; the last prefix if none has any."""
    for prefix in prefixes[:-1]:
        entries = client.resources(prefix)
        first = next(entries, None)
        if first is not None:
            return prefix, chain((first,), entries)
    return prefixes[-1], client.resources(prefixes[-1])


@click.command()
@click.argument("uri", shell_complete=complete_uris)
@click.option("--start", type=click.IntRange(min=0), help="First byte to print, counted from 0.")
@click.option("--length", type=click.IntRange(min=0), help="Number of bytes to print.")
@with_source
@click.pass_obj
def cat(options: CommandOptions, uri: str, start: int | None, length: int | None) -> None:
    """Print the content of a resource, or a folder's children. URI may be a path, such as README.md.

    A query asks for a part or a view: ?lines=10-50, ?outline, ?budget=2000 (tokens). In a git project also ?at=REV,
    ?diff=REV, ?blame and ?log.
    """
    wanted = None if start is None and length is None else Range(start or 0, length)
    with options.client() as client:
        uri, reading = suggestions.read(options, client, uri, wanted)
    if options.is_json:
        output.print_json(_reading_json(reading, uri))
        return
    for item in reading.items:
        if isinstance(item, Blob):
            _write_bytes(item, uri)
        elif isinstance(item, Text):
            is_entry = len(reading.items) > 1 or _is_below(item.uri, uri)
            text = f"{item.uri}\t{item.text}\n" if is_entry else item.text
            output.print_text(text, "\n" if output.is_terminal() and not text.endswith("\n") else "")


def _is_below(uri: str | None, requested: str) -> bool:
    """Return whether an item lies below the requested resource, as the only child of a folder does."""
    return uri not in (None, requested) and uri.startswith(split_query(requested)[0].rstrip("/") + "/")


def _write_bytes(item: Blob, uri: str) -> None:
    if output.is_terminal():
        size = f"{output.human_size(len(item.data))} of {item.mime_type or 'bytes'}"
        output.print_lines(f"[dim]{size}; to save it: carrel cat {output.escape(uri)} > FILE[/]")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(item.data)


@click.command()
@with_source
@click.pass_obj
def templates(options: CommandOptions) -> None:
    """Show the URI templates."""
    with options.client() as client:
        shown = client.templates()
    if options.is_json:
        rows_json = [
            {"uriTemplate": one.uri_template, "name": one.name, "title": one.title, "description": one.description}
            for one in shown
        ]
        output.print_json(rows_json)
    else:
        rows = [(one.uri_template, one.mime_type, one.description or one.title or one.name) for one in shown]
        headings = ("template", "type", "description")
        output.print_table(headings, rows, spare=("type", "description"), empty="No templates.")


@click.command()
@click.argument("template")
@click.argument("variable")
@click.argument("value", default="")
@click.option(
    "--given", "context", metavar="NAME=VALUE", multiple=True, help="Value of another variable of the template."
)
@with_source
@click.pass_obj
def complete(options: CommandOptions, template: str, variable: str, value: str, context: tuple[str, ...]) -> None:
    """Print values for a template's VARIABLE that begin with VALUE."""
    given = dict(_pair(one) for one in context)
    with options.client() as client:
        completion = client.complete(template, variable, value, given)
    if options.is_json:
        values = list(completion.values)
        output.print_json({"values": values, "total": completion.total, "hasMore": completion.has_more})
    else:
        for one in completion.values:
            output.print_text(one)


def _pair(text: str) -> tuple[str, str]:
    name, is_assigned, value = text.partition("=")
    if not is_assigned:
        raise click.BadParameter(f"{text}: write it as NAME=VALUE")
    return name, value


@click.command()
@click.argument("uri", shell_complete=complete_uris)
@with_command_options
@with_objects
@click.pass_obj
def explain(options: CommandOptions, uri: str) -> None:
    """Explain why a URI is served or refused. URI may be a path, such as README.md."""
    with options.desk() as desk, Client.to(desk.server) as client:
        uri = next(iter(suggestions.meant(options, client, uri)), uri)
        try:
            explained = explanation.explain(desk.catalog, uri)
        except BadArgument as error:
            raise suggestions.refusal(client, uri, error) from None
    if options.is_json:
        reasons = list(explained.reasons)
        output.print_json({"uri": uri, "provider": explained.provider, "reasons": reasons})
    else:
        output.print_lines(*(output.escape(line) for line in explained.reasons))


def _entry_json(entry: Resource) -> dict[str, object]:
    fields = {
        "uri": entry.uri,
        "name": entry.name,
        "title": entry.title,
        "description": entry.description,
        "mimeType": entry.mime_type,
        "size": entry.size,
        "lastModifiedMs": entry.annotations.last_modified_ms if entry.annotations else None,
    }
    return {key: value for key, value in fields.items() if value not in (None, "")}


def _reading_json(reading: Reading, uri: str) -> dict[str, object]:
    contents = []
    for item in reading.items:
        content: dict[str, object] = {"uri": item.uri or uri, "mimeType": item.mime_type}
        if isinstance(item, Text):
            content["text"] = item.text
        elif isinstance(item, Blob):
            content["blob"] = base64.b64encode(item.data).decode()
        contents.append({**content, "meta": dict(item.meta or {})})
    return {"contents": contents, "etag": reading.etag, "ttlMs": reading.ttl_ms}
