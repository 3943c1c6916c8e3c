"""Modules of the source, parsed: several tests look at all of them, and parsing takes longest."""

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

LOOKED_AT: Final = (
    ast.Import,
    ast.ImportFrom,
    ast.Call,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.ExceptHandler,
)


@cache
def tree(text: str) -> ast.Module:
    """Return a module, parsed once in each process."""
    with _no_collection():
        return ast.parse(text)


@cache
def nodes(text: str) -> tuple[ast.AST, ...]:
    """Return what the tests look at, in the order of the tree, with every use of the name `Any`."""
    with _no_collection():
        return tuple(
            node
            for node in ast.walk(tree(text))
            if isinstance(node, LOOKED_AT) or (isinstance(node, ast.Name) and node.id == "Any")
        )


@contextmanager
def _no_collection() -> Iterator[None]:
    """Make a great many objects, none of which is garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
