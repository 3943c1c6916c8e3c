"""What the first pages need, made beforehand: imports and templates, which take longer than a page."""

from importlib import import_module

from carrel.explorer.templating import environment


def prepare() -> None:
    """Import what shows pages, and compile the templates."""
    for module in ("carrel.explorer.explorer", "carrel.explorer.rendering.rendering", "carrel.search.search"):
        import_module(module)
    for name in environment().list_templates():
        environment().get_template(name)
