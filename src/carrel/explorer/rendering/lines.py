"""Lines of a text with their numbers. Logs and plots need nothing else of code, and so no lexers."""

from typing import Final

from carrel.explorer.rendering.markup import Content, Html

_FEW_LINES: Final = 9_999
_LONG: Final = 2_000
"""Characters of a line that is broken, because nobody scrolls so far sideways; with those of its HTML."""


def numbered(lines: list[Html], first: int, levels: list[str] | None = None) -> Html:
    """Return lines with numbers that can be linked to, as `#L40`; the text in them is exactly that of the lines.

    `levels` are those of the lines of a log: words of this package, or empty. Where `first` is 0, the numbers are not
    known and not shown.
    """
    shown = []
    for at, line in enumerate(lines):
        number = first + at
        level = levels[at] if levels else ""
        own = "l long" if len(line) > _LONG else "l"
        own = f'{own} level-{level}" data-level="{level}' if level else own
        anchor = f'<a class="n" href="#L{number}" data-n="{number}" tabindex="-1" aria-hidden="true"></a>'
        shown.append(
            f'<span class="{own}" id="L{number}">{anchor}{line}</span>'
            if first
            else f'<span class="{own}">{line}</span>'
        )
    return Html("\n".join(shown))


def width(content: Content) -> str:
    """Return the class of a text whose line numbers may need more than four digits."""
    return " far" if content.first_line + (content.text or "").count("\n") > _FEW_LINES else ""
