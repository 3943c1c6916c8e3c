"""`token add`, `token list`, `token revoke`."""

import os
from typing import TYPE_CHECKING

from carrel.catalog.access import parse_scopes
from carrel.cli import output
from carrel.core.errors import ConfigError
from carrel.core.isotime import iso
from carrel.transports.http.tokens import TokenStore

if TYPE_CHECKING:
    from carrel.cli.context import CommandOptions


def add_token(options: "CommandOptions", name: str, scopes: tuple[str, ...]) -> None:
    """Create a token and print it; only its hash is stored."""
    token = TokenStore(os.environ).add(name, parse_scopes(scopes) if scopes else None)
    if options.is_json:
        output.print_json({"name": name, "token": token, "scopes": list(scopes) or None})
    else:
        output.print_text(token)


def list_tokens(options: "CommandOptions") -> None:
    """Print every token's name and scopes."""
    tokens = TokenStore(os.environ).all()
    if options.is_json:
        described = [
            {
                "name": one.name,
                "scopes": None if one.scopes is None else list(one.scopes),
                "created": iso(one.created_ms),
            }
            for one in tokens
        ]
        output.print_json(described)
        return
    rows = [
        (one.name, "everything" if one.scopes is None else " ".join(one.scopes), iso(one.created_ms)) for one in tokens
    ]
    empty = "No tokens yet. To create one: carrel token add NAME"
    output.print_table(("token", "permissions", "created"), rows, plain_columns=2, empty=empty)


def revoke_token(options: "CommandOptions", name: str) -> None:
    """Revoke a token."""
    if not TokenStore(os.environ).revoke(name):
        raise ConfigError(f"no token is named {name!r}; `carrel token list` shows all tokens")
    if options.is_json:
        output.print_json({"revoked": name})
    else:
        output.print_lines(f"Revoked: {output.escape(name)}")
