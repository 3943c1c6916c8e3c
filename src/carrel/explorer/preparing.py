"""Prepare for the first pages: imports and templates take longer than a page."""

from importlib import import_module

from carrel.explorer.templating import environment


def prepare() -> None:
    """Import the modules that make pages, and compile the templates."""
    for module in ("carrel.explorer.explorer", "carrel.explorer.rendering.rendering", "carrel.search.search"):
        import_module(module)
    for name in environment().list_templates():
        environment().get_template(name)
