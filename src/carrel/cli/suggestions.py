"""Reads paths as URIs, and adds suggestions to errors about unknown URIs and schemes."""

import os
import re

from carrel.app.explanation import failed
from carrel.catalog import suggestions
from carrel.catalog.suggestions import FILES
from carrel.cli.context import CommandOptions
from carrel.client.client import Client
from carrel.core.errors import BadArgument, CarrelError, NotFound, ProviderError, RemoteError, echo
from carrel.core.model import Range, Reading
from carrel.core.uri import split_query


def read(options: CommandOptions, client: Client, text: str, wanted: Range | None = None) -> tuple[str, Reading]:
    """Read a URI, or a file by its path; return the URI and the reading, or raise an error with a suggestion."""
    uris = meant(options, client, text)
    if not uris:
        raise BadArgument(f"{echo(text) or 'an empty text'} is not a URI; {_served_schemes(client)}")
    for uri in uris:
        try:
            reading = client.read(uri, wanted=wanted)
        except RemoteError as error:
            if error.word == "not_found" and uri != uris[-1]:
                continue
            raise refusal(client, uri, error) from None
        failure = failed(reading)
        if failure is not None:
            advice = _nearest(client, uri) if reading.error == "not_found" else ""
            raise ProviderError(f"{failure}; {advice}", word="not_found") if advice else failure
        return uri, reading
    raise NotFound(text)


def meant(options: CommandOptions, client: Client, text: str) -> list[str]:
    """Return the URIs that a text may mean: the text itself, or, for a path, the file below here and below the root."""
    asked = suggestions.mentioned(text)
    return [asked] if _scheme(asked) else _as_files(options, client, asked)


def refusal(client: Client, uri: str, error: RemoteError | BadArgument) -> CarrelError:
    """Return an error with a suggestion: the nearest URI that exists, or the schemes that are served."""
    if error.word == "invalid" and error.data.get("name") == "MCP_NOT_FOUND":
        has_advice = "; served here: " in error.message
        return BadArgument(error.message if has_advice else f"{error.message}; {_served_schemes(client)}")
    is_unknown = isinstance(error, RemoteError) and error.word == "not_found" and "; did you mean " not in error.message
    if isinstance(error, RemoteError) and is_unknown and (advice := _nearest(client, uri)):
        return RemoteError(error.code, f"{error.message}; {advice}", error.data)
    return error


def nothing_listed(client: Client, prefix: str) -> NotFound:
    """Return the error for a prefix without entries."""
    message = f"no listed URI begins with {echo(prefix)}"
    if _scheme(prefix) in schemes(client):
        near = _nearest(client, prefix)
        return NotFound(prefix, f"{message}; {near}" if near else message)
    return NotFound(prefix, f"{message}; {_served_schemes(client)}")


def may_be_empty(client: Client, prefix: str) -> bool:
    """Return whether a template begins with the prefix, so that an empty list is no mistake."""
    return bool(_scheme(prefix)) and any(one.uri_template.startswith(prefix) for one in client.templates())


def schemes(client: Client) -> list[str]:
    """Return the schemes of a server's entries and templates."""
    uris = [entry.uri for entry in client.page().entries] + [one.uri_template for one in client.templates()]
    return sorted({scheme for uri in uris if (scheme := _scheme(uri))})


def _served_schemes(client: Client) -> str:
    known = schemes(client)
    return f"served here: {', '.join(f'{scheme}://' for scheme in known)}" if known else "nothing is served here"


def _scheme(text: str) -> str:
    """Return the scheme at the start of a text; an empty text if there is none."""
    begun = re.match(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)", text)
    return begun[0].lower() if begun else ""


def _as_files(options: CommandOptions, client: Client, path: str) -> list[str]:
    """Return the URIs that a path may mean: relative to the working folder, or to the project's root."""
    if not path or FILES not in schemes(client):
        return []
    paths = [path]
    if options.server is None:
        bare, query = split_query(path)
        slash = "/" if bare.endswith("/") else ""
        paths.insert(
            0, os.path.relpath(bare or os.curdir, options.config().root) + slash + (f"?{query}" if query else "")
        )
        paths = [one for one in paths if not os.path.normpath(one).startswith(("..", "/"))]
        if not paths:
            raise BadArgument(f"{echo(path)} lies outside the project")
    return list(dict.fromkeys(map(suggestions.as_uri, paths)))


def _nearest(client: Client, uri: str) -> str:
    """Return a question that names URIs which exist and are spelled much like this one."""
    scheme = _scheme(uri)
    return suggestions.question(suggestions.near(uri, (entry.uri for entry in client.resources(f"{scheme}:"))))
