"""`token add`, `token list`, `token revoke`."""

import os
from typing import TYPE_CHECKING

from carrel.catalog.access import parse_scopes
from carrel.cli import output
from carrel.core.errors import ConfigError
from carrel.core.isotime import iso
from carrel.transports.http.tokens import TokenStore

if TYPE_CHECKING:
    from carrel.cli.context import Choices


def add_token(choices: "Choices", name: str, scopes: tuple[str, ...]) -> None:
    """Make a token; it is printed once and kept only as a hash."""
    token = TokenStore(os.environ).add(name, parse_scopes(scopes) if scopes else None)
    if choices.is_json:
        output.print_json({"name": name, "token": token, "scopes": list(scopes) or None})
    else:
        output.print_text(token)


def list_tokens(choices: "Choices") -> None:
    """Print every token's name and scopes."""
    tokens = TokenStore(os.environ).all()
    if choices.is_json:
        told = [
            {
                "name": one.name,
                "scopes": None if one.scopes is None else list(one.scopes),
                "created": iso(one.created_ms),
            }
            for one in tokens
        ]
        output.print_json(told)
        return
    rows = [
        (one.name, "everything" if one.scopes is None else " ".join(one.scopes), iso(one.created_ms)) for one in tokens
    ]
    empty = "There are no tokens yet; the first: carrel token add NAME"
    output.print_table(("token", "may", "made"), rows, plain_columns=2, empty=empty)


def revoke_token(choices: "Choices", name: str) -> None:
    """Forget a token."""
    if not TokenStore(os.environ).revoke(name):
        raise ConfigError(f"there is no token {name!r}; `carrel token list` shows them")
    if choices.is_json:
        output.print_json({"revoked": name})
    else:
        output.print_lines(f"Revoked: {output.escape(name)}")
