"""A provider that passes on what others have: another server, or a foreign object.

Beside what every provider has, it may learn of its URIs while it runs. Authors of a provider with data of its own
need none of this.
"""

from collections.abc import Callable, Sequence

from carrel.core.model import Template
from carrel.core.provider import Given, Provider, Route


class Gateway(Provider):
    """A provider whose routes are known only when it runs."""

    has_completions: bool = True
    """Whether the source offers completions."""

    @property
    def is_starting(self) -> bool:
        """Whether its list may still be incomplete."""
        return False

    def begin(self) -> None:
        """Connect or load in the background."""

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is ready or has failed, at most `timeout_s`; return whether that is so."""
        del timeout_s
        return True

    @property
    def problem(self) -> str:
        """Why it is not served; empty if it is, or if that is not known yet."""
        return ""

    def claims(self) -> Sequence[Route] | None:
        """Return a `whole` route for each URI that goes before every template, with any query.

        None if it claims no URIs: then its schemes and templates rank with those of other providers.
        """
        return None

    def on_reroute(self, again: Callable[[], None]) -> None:
        """Have `again` called, from any thread, after the routes or claims changed."""

    def adopts(self, scheme: str) -> bool:
        """Return whether URIs of a scheme without an owner are read with `read_unmatched`."""
        del scheme
        return False

    def refers(self, reference: str) -> str | None:
        """Return the reference to pass to `complete` if it is none of the routes' templates but known; else None."""
        del reference
        return None

    def templates(self) -> Sequence[Template] | None:
        """Return the templates to list, also those that no route can match; None for those of the routes."""
        return None

    def read_if(self, uri: str, condition: str) -> Given | None:
        """Read a URI, or return an `unchanged` reading if its ETag meets the condition; None to use its route."""
        del uri, condition
        return None

    def follow(self, uri: str) -> None:
        """Note that a client subscribed to the URI."""

    def unfollow(self, uri: str) -> None:
        """Note that no client is subscribed to the URI any more."""
