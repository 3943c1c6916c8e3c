"""`ls`, `cat`, `templates`, `complete`: what a model gets, shown to a person."""

import base64
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice

from carrel.catalog.catalog import Catalog
from carrel.cli import output, suggestions
from carrel.cli.context import Choices
from carrel.client.client import Client
from carrel.core.errors import BadArgument, CarrelError
from carrel.core.model import Blob, Range, Reading, Resource, Text
from carrel.core.uri import split_query
from carrel.providers.workspace import Workspace


def list_resources(choices: Choices, prefix: str, limit: int | None) -> None:
    """Print the entries whose URI begins with the prefix, or that lie in the folder of that path."""
    with choices.client() as client:
        uris = suggestions.meant(choices, client, prefix) if prefix else []
        uri, entries = _first_listed(client, uris or [prefix])
        entries = islice(entries, limit)
        first = tuple(islice(entries, 1))
        is_odd = not first and uri != "" and not suggestions.may_be_empty(client, uri)
        if choices.is_json:
            output.print_json([_entry_json(entry) for entry in chain(first, entries)])
        elif not is_odd:
            output.print_entries(chain(first, entries), f"Nothing is listed here{' yet' if prefix else ''}.")
        if is_odd:
            raise suggestions.nothing_listed(client, uri)


def _first_listed(client: Client, prefixes: Sequence[str]) -> tuple[str, Iterator[Resource]]:
    """Return the first prefix that anything begins with, and what does; if there is none, the last one."""
    for prefix in prefixes[:-1]:
        entries = client.resources(prefix)
        first = next(entries, None)
        if first is not None:
            return prefix, chain((first,), entries)
    return prefixes[-1], client.resources(prefixes[-1])


def read_resource(choices: Choices, uri: str, start: int | None, length: int | None) -> None:
    """Print what a resource holds: text as it is, bytes as they are."""
    wanted = None if start is None and length is None else Range(start or 0, length)
    with choices.client() as client:
        uri, reading = suggestions.read(choices, client, uri, wanted)
    if choices.is_json:
        output.print_json(_reading_json(reading, uri))
        return
    for item in reading.items:
        if isinstance(item, Blob):
            _write_bytes(item, uri)
        elif isinstance(item, Text):
            is_entry = len(reading.items) > 1 or _is_below(item.uri, uri)
            text = f"{item.uri}\t{item.text}\n" if is_entry else item.text
            output.print_text(text, "\n" if output.is_terminal() and not text.endswith("\n") else "")


def _is_below(uri: str | None, asked: str) -> bool:
    """Tell whether what came is not what was asked for but something in it, as a folder's only child is."""
    return uri not in (None, asked) and uri.startswith(split_query(asked)[0].rstrip("/") + "/")


def _write_bytes(item: Blob, uri: str) -> None:
    if output.is_terminal():
        told = f"{output.human_size(len(item.data))} of {item.mime_type or 'bytes'}"
        output.print_lines(f"[dim]{told}; to keep it: carrel cat {output.escape(uri)} > FILE[/]")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(item.data)


def list_templates(choices: Choices) -> None:
    """Print the templates."""
    with choices.client() as client:
        templates = client.templates()
    if choices.is_json:
        told = [
            {"uriTemplate": one.uri_template, "name": one.name, "title": one.title, "description": one.description}
            for one in templates
        ]
        output.print_json(told)
    else:
        rows = [(one.uri_template, one.mime_type, one.description or one.title or one.name) for one in templates]
        output.print_table(("template", "type", "what"), rows, spare=("type", "what"), empty="There are no templates.")


def complete_variable(choices: Choices, template: str, variable: str, value: str, context: Mapping[str, str]) -> None:
    """Print values for a variable, one a line."""
    with choices.client() as client:
        completion = client.complete(template, variable, value, context)
    if choices.is_json:
        told = {"values": list(completion.values), "total": completion.total, "hasMore": completion.has_more}
        output.print_json(told)
    else:
        for offered in completion.values:
            output.print_text(offered)


def explain_uri(choices: Choices, uri: str) -> None:
    """Print why a URI is or is not served here."""
    with choices.desk() as desk, Client.to(desk.server) as client:
        uri = next(iter(suggestions.meant(choices, client, uri)), uri)
        try:
            provider = desk.catalog.find(uri).mounted.provider
        except BadArgument as error:
            raise suggestions.refusal(client, uri, error) from None
        told = provider.explain(uri) if isinstance(provider, Workspace) else _tried(desk.catalog, uri)
    if choices.is_json:
        output.print_json({"uri": uri, "provider": provider.name, "told": told})
    else:
        output.print_lines(*(output.escape(line) for line in told))


def _tried(catalog: Catalog, uri: str) -> list[str]:
    try:
        failure = suggestions.failed(catalog.read(uri))
    except CarrelError as error:
        failure = error
    return ["Served." if failure is None else f"Not served: {failure}"]


def _entry_json(entry: Resource) -> dict[str, object]:
    given = {
        "uri": entry.uri,
        "name": entry.name,
        "title": entry.title,
        "description": entry.description,
        "mimeType": entry.mime_type,
        "size": entry.size,
        "lastModifiedMs": entry.annotations.last_modified_ms if entry.annotations else None,
    }
    return {key: value for key, value in given.items() if value not in (None, "")}


def _reading_json(reading: Reading, uri: str) -> dict[str, object]:
    contents = []
    for item in reading.items:
        told: dict[str, object] = {"uri": item.uri or uri, "mimeType": item.mime_type}
        if isinstance(item, Text):
            told["text"] = item.text
        elif isinstance(item, Blob):
            told["blob"] = base64.b64encode(item.data).decode()
        contents.append({**told, "meta": dict(item.meta or {})})
    return {"contents": contents, "etag": reading.etag, "ttlMs": reading.ttl_ms}
