"""The class of providers that pass on the resources of another server or a foreign object.

Such a provider may learn its URIs while it runs. Providers with their own data do not need this class.
"""

from collections.abc import Callable, Sequence

from carrel.core.model import Template
from carrel.core.provider import Given, Provider, Route


class Gateway(Provider):
    """A provider whose routes are known only when it runs.

    Its readers get the URI exactly as sent as their only argument: the other side reads the variables. Only the part
    before the `?` is matched, and any query may follow.
    """

    has_completions: bool = True
    """Whether the source offers completions."""

    @property
    def is_starting(self) -> bool:
        """Whether its list may still be incomplete."""
        return False

    def begin(self) -> None:
        """Connect or load in the background."""

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is ready or has failed, at most `timeout_s`; return False after a timeout."""
        del timeout_s
        return True

    @property
    def problem(self) -> str:
        """Why it is not served; empty if it is, or if that is not known yet."""
        return ""

    def claims(self) -> Sequence[Route] | None:
        """Return a route for each URI that has precedence over every template, with any query.

        Return None to claim no URIs: then its schemes and templates rank with those of other providers.
        """
        return None

    def on_reroute(self, again: Callable[[], None]) -> None:
        """Register `again`, which is called from any thread after the routes or claims changed."""

    def adopts(self, scheme: str) -> bool:
        """Return whether URIs of a scheme without an owner are read with `read_unmatched`."""
        del scheme
        return False

    def refers(self, reference: str) -> str | None:
        """Return what `complete` takes for a reference that is no template of a route; None for an unknown one."""
        del reference
        return None

    def templates(self) -> Sequence[Template] | None:
        """Return the templates to list, if they are not those of the routes; else None."""
        return None

    def read_if(self, uri: str, condition: str) -> Given | None:
        """Read a URI, or return an `unchanged` reading if its ETag meets the condition; None to use its route."""
        del uri, condition
        return None

    def follow(self, uri: str) -> None:
        """Note that a client subscribed to the URI."""

    def unfollow(self, uri: str) -> None:
        """Note that no client is subscribed to the URI any more."""
