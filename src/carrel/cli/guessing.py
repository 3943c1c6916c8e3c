"""First guesses: what is meant by a path where a URI belongs, or by a scheme that nobody here has."""

import os
import re

from carrel.cli.choices import Choices
from carrel.client import Client
from carrel.errors import BadArgument, CarrelError, NotFound, ProviderError, RemoteError, echo
from carrel.model import Range, Reading, Text
from carrel.uri import PATH_SAFE, quote

_FILES = "workspace"


def read(choices: Choices, client: Client, uri: str, wanted: Range | None = None) -> Reading:
    """Read a URI; what is none, or is nobody's, is refused with what may be meant."""
    try:
        reading = client.read(uri, wanted=wanted)
    except RemoteError as error:
        raise refusal(choices, client, uri, error) from None
    failure = failed(reading)
    if failure is not None:
        raise failure
    return reading


def failed(reading: Reading) -> CarrelError | None:
    """Give the error that a reading holds where a system answers errors as content."""
    if reading.error is None:
        return None
    message = " ".join(item.text for item in reading.items if isinstance(item, Text))
    return BadArgument(message) if reading.error == "invalid" else ProviderError(message, word=reading.error)


def mentioned(text: str) -> str:
    """Give the URI of a mention, as `@sage://system/objective.md`; any other text as it is."""
    return text[1:] if text.startswith("@") and _scheme(text[1:]) else text


def refusal(choices: Choices, client: Client, text: str, error: RemoteError | BadArgument) -> CarrelError:
    """Give what to say of a text that is no URI, or whose scheme nobody has; else the error as it is."""
    if _scheme(text):
        is_nobodys = error.word == "invalid" and error.data.get("name") == "MCP_NOT_FOUND"
        return BadArgument(f"{error.message}; {_told_schemes(client)}") if is_nobodys else error
    meant = next((uri for uri in _as_files(choices, client, text) if _is_known(client, uri)), None)
    return BadArgument(
        f"{echo(text) or 'nothing'} is no URI; "
        + (_told_schemes(client) if meant is None else f"did you mean {meant}?")
    )


def nothing_listed(choices: Choices, client: Client, prefix: str) -> NotFound:
    """Give what to say where no entry begins as was asked."""
    told = f"nothing is listed that begins with {echo(prefix)}"
    if _scheme(prefix) in schemes(client):
        return NotFound(prefix, told)
    meant = (uri for uri in _as_files(choices, client, prefix) if _is_listed(client, uri))
    uri = None if _scheme(prefix) else next(meant, None)
    return NotFound(prefix, f"{told}; {_told_schemes(client) if uri is None else f'did you mean {uri}?'}")


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
    """Give the URIs that a path may mean: from the working folder, or from the project's."""
    if _FILES not in schemes(client):
        return []
    paths = [path]
    if choices.server is None:
        slash = "/" if path.endswith("/") else ""
        paths.insert(0, os.path.relpath(path or ".", choices.config().root) + slash)
    plain = [os.path.normpath(one) + "/" * one.endswith("/") for one in paths]
    inside = [one.removeprefix("./") for one in plain if not one.startswith(("..", "/"))]
    return [f"{_FILES}:///{'' if one == '.' else quote(one, PATH_SAFE)}" for one in inside]


def _is_known(client: Client, uri: str) -> bool:
    """Tell whether a URI can be read, or is refused for a reason that can be told."""
    try:
        client.read(uri)
    except CarrelError as error:
        return isinstance(error, RemoteError) and error.word == "denied"
    return True


def _is_listed(client: Client, prefix: str) -> bool:
    return any(entry.uri.startswith(prefix) for entry in client.resources())
