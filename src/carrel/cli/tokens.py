"""`token add`, `token list`, `token revoke`."""

import os

import click

from carrel.catalog.access import parse_scopes
from carrel.cli import output
from carrel.cli.context import CommandOptions
from carrel.cli.options import with_command_options
from carrel.core.errors import ConfigError
from carrel.core.isotime import iso
from carrel.transports.http.tokens import TokenStore


@click.group()
def token() -> None:
    """Create, list and revoke tokens for `carrel serve --http`."""


@token.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    metavar="SCHEME:RIGHT",
    multiple=True,
    help="A permission, such as workspace:read. Without it, the token may do everything.",
)
@with_command_options
@click.pass_obj
def add(options: CommandOptions, name: str, scopes: tuple[str, ...]) -> None:
    """Create a token and print it. It is shown only once."""
    secret = TokenStore(os.environ).add(name, parse_scopes(scopes) if scopes else None)
    if options.is_json:
        output.print_json({"name": name, "token": secret, "scopes": list(scopes) or None})
    else:
        output.print_text(secret)


@token.command("list")
@with_command_options
@click.pass_obj
def list_tokens(options: CommandOptions) -> None:
    """List the tokens and their permissions."""
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


@token.command()
@click.argument("name")
@with_command_options
@click.pass_obj
def revoke(options: CommandOptions, name: str) -> None:
    """Revoke a token. A running server refuses it within a second."""
    if not TokenStore(os.environ).revoke(name):
        raise ConfigError(f"no token is named {name!r}; `carrel token list` shows all tokens")
    if options.is_json:
        output.print_json({"revoked": name})
    else:
        output.print_lines(f"Revoked: {output.escape(name)}")
