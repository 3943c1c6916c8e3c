"""`token add`, `token list`, `token revoke`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click

from carrel.app.app import open_store, release_store
from carrel.catalog.groups import NO_SCOPES, parse_token_scopes
from carrel.cli import output
from carrel.cli.context import CommandOptions
from carrel.cli.options import with_command_options
from carrel.core.errors import ConfigError
from carrel.core.isotime import iso
from carrel.core.writer import LOCAL, writing_as
from carrel.transports.http.tokens import TokenStore


@contextmanager
def _tokens(options: CommandOptions, *, writes: bool = True) -> Iterator[TokenStore]:
    """Yield the tokens of the team's store, if one is configured, else those of this user."""
    store = open_store(options.config("store", "bus", writes=writes))
    if store is None:
        yield TokenStore(os.environ)
        return
    from carrel.stores.token_table import TokenTable  # only where there is a store
    from carrel.transports.http.stored_tokens import StoredTokens

    try:
        with writing_as(LOCAL, f"carrel token {click.get_current_context().info_name}"):
            yield StoredTokens(os.environ, TokenTable(store))
    finally:
        release_store(store)


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
    help="A permission, such as workspace:read, or none: only what its groups allow. "
    "Without it, the token may do everything.",
)
@with_command_options
@click.pass_obj
def add(options: CommandOptions, name: str, scopes: tuple[str, ...]) -> None:
    """Create a token and print it. It is shown only once."""
    given = parse_token_scopes(scopes)
    with _tokens(options) as tokens:
        secret = tokens.add(name, given)
    if options.is_json:
        output.print_json({"name": name, "token": secret, "scopes": None if given is None else sorted(given)})
    else:
        output.print_text(secret)


@token.command("list")
@with_command_options
@click.pass_obj
def list_tokens(options: CommandOptions) -> None:
    """List the tokens and their permissions."""
    with _tokens(options, writes=False) as stored:
        tokens = stored.all()
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
        (one.name, "everything" if one.scopes is None else " ".join(one.scopes) or NO_SCOPES, iso(one.created_ms))
        for one in tokens
    ]
    empty = "No tokens yet. To create one: carrel token add NAME"
    output.print_table(("token", "permissions", "created"), rows, plain_columns=2, empty=empty)


@token.command()
@click.argument("name")
@with_command_options
@click.pass_obj
def revoke(options: CommandOptions, name: str) -> None:
    """Revoke a token. A running server refuses it within a second."""
    with _tokens(options) as tokens:
        has_gone = tokens.revoke(name)
    if not has_gone:
        raise ConfigError(f"no token is named {name!r}; `carrel token list` shows all tokens")
    if options.is_json:
        output.print_json({"revoked": name})
    else:
        output.print_lines(f"Revoked: {output.escape(name)}")
