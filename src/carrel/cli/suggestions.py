"""First guesses: what is meant by a path where a URI belongs, by a URI that does not exist, or by an unknown scheme."""

import os
import re

from carrel.catalog import suggestions
from carrel.catalog.suggestions import FILES
from carrel.cli.context import Choices
from carrel.client.client import Client
from carrel.core.errors import BadArgument, CarrelError, NotFound, ProviderError, RemoteError, echo
from carrel.core.model import Range, Reading, Text
from carrel.core.uri import split_query


def read(choices: Choices, client: Client, text: str, wanted: Range | None = None) -> tuple[str, Reading]:
    """Read a URI, or a file by its path; return the URI with what it holds, or raise what helps to do better."""
    uris = meant(choices, client, text)
    if not uris:
        raise BadArgument(f"{echo(text) or 'nothing'} is no URI; {_told_schemes(client)}")
    for uri in uris:
        try:
            reading = client.read(uri, wanted=wanted)
        except RemoteError as error:
            if error.word == "not_found" and uri != uris[-1]:
                continue
            raise refusal(client, uri, error) from None
        failure = failed(reading)
        if failure is not None:
            told = _nearest(client, uri) if reading.error == "not_found" else ""
            raise ProviderError(f"{failure}; {told}", word="not_found") if told else failure
        return uri, reading
    raise NotFound(text)


def meant(choices: Choices, client: Client, text: str) -> list[str]:
    """Return the URIs that a text may mean: itself, or for a path the file from here and from the project's root."""
    asked = mentioned(text)
    return [asked] if _scheme(asked) else _as_files(choices, client, asked)


def failed(reading: Reading) -> CarrelError | None:
    """Give the error that a reading holds where a system answers errors as content."""
    if reading.error is None:
        return None
    message = " ".join(item.text for item in reading.items if isinstance(item, Text))
    return BadArgument(message) if reading.error == "invalid" else ProviderError(message, word=reading.error)


def mentioned(text: str) -> str:
    """Give the URI of a mention, as `@sage://system/objective.md`; any other text as it is."""
    return text[1:] if text.startswith("@") and _scheme(text[1:]) else text


def refusal(client: Client, uri: str, error: RemoteError | BadArgument) -> CarrelError:
    """Return an error with what helps to do better: the nearest that exists, or the schemes that are served."""
    if error.word == "invalid" and error.data.get("name") == "MCP_NOT_FOUND":
        return BadArgument(f"{error.message}; {_told_schemes(client)}")
    if isinstance(error, RemoteError) and error.word == "not_found" and (told := _nearest(client, uri)):
        return RemoteError(error.code, f"{error.message}; {told}", error.data)
    return error


def nothing_listed(client: Client, prefix: str) -> NotFound:
    """Return what to say where no entry begins as was asked."""
    told = f"nothing is listed that begins with {echo(prefix)}"
    if _scheme(prefix) in schemes(client):
        near = _nearest(client, prefix)
        return NotFound(prefix, f"{told}; {near}" if near else told)
    return NotFound(prefix, f"{told}; {_told_schemes(client)}")


def may_be_empty(client: Client, prefix: str) -> bool:
    """Tell whether URIs that begin so are served here, even if there are none yet."""
    return bool(_scheme(prefix)) and any(one.uri_template.startswith(prefix) for one in client.templates())


def schemes(client: Client) -> list[str]:
    """Give the schemes of what a server lists and of its templates."""
    uris = [entry.uri for entry in client.page().entries] + [one.uri_template for one in client.templates()]
    return sorted({scheme for uri in uris if (scheme := _scheme(uri))})


def _told_schemes(client: Client) -> str:
    known = schemes(client)
    return f"served here: {', '.join(f'{scheme}://' for scheme in known)}" if known else "nothing is served here"


def _scheme(text: str) -> str:
    """Give the scheme a text begins with; nothing if there is none."""
    begun = re.match(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)", text)
    return begun[0].lower() if begun else ""


def _as_files(choices: Choices, client: Client, path: str) -> list[str]:
    """Return the URIs that a path may mean: from the working folder, or from the project's."""
    if not path or FILES not in schemes(client):
        return []
    paths = [path]
    if choices.server is None:
        bare, query = split_query(path)
        slash = "/" if bare.endswith("/") else ""
        paths.insert(
            0, os.path.relpath(bare or os.curdir, choices.config().root) + slash + (f"?{query}" if query else "")
        )
        paths = [one for one in paths if not os.path.normpath(one).startswith(("..", "/"))]
        if not paths:
            raise BadArgument(f"{echo(path)} lies outside the project")
    return list(dict.fromkeys(map(suggestions.as_uri, paths)))


def _nearest(client: Client, uri: str) -> str:
    """Name what exists and is spelled much like a URI that does not."""
    scheme = _scheme(uri)
    found = suggestions.near(uri, (entry.uri for entry in client.resources(f"{scheme}:")))
    return f"did you mean {' or '.join(found)}?" if found else ""
