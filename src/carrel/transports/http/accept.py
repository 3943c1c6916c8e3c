"""Which type a client prefers: the header `Accept`, with its weights (RFC 9110, 12.5.1)."""

from functools import lru_cache
from typing import Final

HTML: Final = "text/html"
_XHTML: Final = "application/xhtml+xml"
_DATA: Final = ("application/json", "text/markdown", "text/plain", "application/octet-stream")
"""Types in which a resource or a page is offered besides HTML."""
_MAX_LENGTH: Final = 4_096


@lru_cache(maxsize=256)
def prefers_html(accept: bytes) -> bool:
    """Return whether a client names HTML and ranks nothing else that we have above it.

    With the same weight, a type has precedence over a range such as `text/*`, and an earlier type over a later one. A
    client that accepts anything (`*/*`) gets the resource itself.
    """
    weights = _weights(accept)
    wanted = max(weights.get(HTML, (0.0, 0)), weights.get(_XHTML, (0.0, 0)))
    if not wanted[0]:
        return False
    others = [weights[name] for name in _DATA if name in weights]
    ranges = [weights[name][0] for name in ("*/*", "text/*", "application/*") if name in weights]
    return wanted > max(others, default=(0.0, -len(accept))) and wanted[0] >= max(ranges, default=0.0)


@lru_cache(maxsize=256)
def preferred(accept: bytes, offered: tuple[str, ...]) -> str:
    """Return the offered type that a client prefers; the first if it names none."""
    weights = _weights(accept)

    def weight(kind: str) -> tuple[float, int]:
        if kind in weights:
            return weights[kind]
        near = weights.get(f"{kind.partition('/')[0]}/*") or weights.get("*/*")
        return (0.0 if near is None else near[0], -_MAX_LENGTH)

    best = max(offered, key=weight)
    return best if weight(best)[0] else offered[0]


def _weights(accept: bytes) -> dict[str, tuple[float, int]]:
    """Return for each named type its weight, and a number that is greater for one that was named earlier."""
    found: dict[str, tuple[float, int]] = {}
    for at, part in enumerate(accept[:_MAX_LENGTH].decode("latin-1").split(",")):
        kind, *parameters = (word.strip().lower() for word in part.split(";"))
        if kind and kind not in found:
            found[kind] = (_weight(parameters), -at)
    return found


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                weight = float(value.strip())
            except ValueError:
                return 0.0
            return weight if 0.0 <= weight <= 1.0 else 0.0
    return 1.0
