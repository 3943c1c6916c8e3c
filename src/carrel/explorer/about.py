"""Pages about the server: its providers, limits, health, subscriptions, callers and the search index.

Each shows the caller only facts about what they may read, or about themselves.
"""

from collections.abc import Callable, Mapping
from typing import Final

from carrel.app.app import Desk
from carrel.catalog.access import current_access
from carrel.core import limits
from carrel.core.isotime import iso
from carrel.core.server_paths import without_paths_within
from carrel.core.version import __version__
from carrel.explorer.home import reason, served_of_guide
from carrel.explorer.labels import fact_texts, limit_texts
from carrel.explorer.leaves import Leaf
from carrel.explorer.survey import Survey
from carrel.transports.http.app import App

TITLES: Final = {
    "providers": "Providers",
    "limits": "Limits",
    "health": "Health",
    "subscriptions": "Subscriptions",
    "callers": "Callers",
    "index": "Search index",
}
LEADS: Final = {
    "providers": "The sources of this desk: the schemes of each, why it is served or not, and its URI templates.",
    "limits": "The largest sizes, numbers and times allowed here. Settings in `carrel.toml` change some.",
    "health": "Whether the server and each provider work, and what to fix.",
    "subscriptions": "The resources whose changes are sent to your clients. A host subscribes to what it shows.",
    "callers": "Your name on this server, and what you may do.",
    "index": "How much of the desk can be searched. The index follows changes by itself.",
}
_MODEL: Final = {"providers": "carrel://catalog", "health": "carrel://health"}


class About:
    """Makes the pages about the server."""

    def __init__(self, desk: Desk, app: App, survey: Survey) -> None:
        self._desk = desk
        self._survey = survey
        self._app = app
        self._facts: Mapping[str, Callable[[], dict[str, object]]] = {
            "providers": self._providers,
            "limits": self._limits,
            "health": self._health,
            "subscriptions": self._subscriptions,
            "callers": self._callers,
            "index": self._index,
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the pages."""
        return tuple(self._facts)

    def leaf(self, name: str) -> Leaf:
        """Return a page by its name."""
        data = self._facts[name]()
        shown = limit_texts(data) if name == "limits" else fact_texts(data)
        view = {"name": name, "names": TITLES, "lead": LEADS[name], "shown": shown, "crumbs": []}
        model = served_of_guide(self._desk, _MODEL[name]) if name in _MODEL else ""
        return Leaf("about", TITLES[name], data, f"/-/{name}.json", f"/-/{name}.md", view, model=model)

    def _providers(self) -> dict[str, object]:
        reasons = {choice.name: choice for choice in self._desk.choices}
        rows = []
        for one in self._desk.catalog.visible():
            if one.provider.name == "mirror":
                continue  # the tools that read resources, for hosts that have tools alone
            name, choice = one.provider.name, reasons.get(one.chosen)
            state, why = "served" if choice is None else choice.state, reason(self._desk, name, choice)
            templates = [template.uri_template for template in one.templates()]
            named = {"name": name, "schemes": list(one.provider.schemes), "summary": one.provider.summary}
            rows.append({**named, "state": state, "why": why, "templates": templates})
        return {"providers": rows}

    def _limits(self) -> dict[str, object]:
        catalog = self._desk.catalog
        named = {name.lower(): value for name, value in vars(limits).items() if name.isupper()}
        return {**named, "max_message_bytes": catalog.max_bytes, "page_size": catalog.page_size}

    def _health(self) -> dict[str, object]:
        """Return the state of the server, and the health that each provider reports."""
        said = self._survey.ask(self._desk.catalog.visible())
        problems = [f"{name}: {one}" for name, found in said.items() for one in found.sentences("problems")]
        state = {
            "status": "problems" if problems else "ok",
            "version": __version__,
            "sessions": len(self._app.sessions),
        }
        providers = {name: _dated(found.health) for name, found in said.items()}
        return {**state, "streams": self._app.threads.open_streams, "problems": problems, "providers": providers}

    def _subscriptions(self) -> dict[str, object]:
        """Return the URIs whose changes the caller is subscribed to."""
        own = current_access()
        found = [one for one in self._desk.server.watcher.subscriptions() if one.access.name == own.name]
        rows = [{"uris": sorted(one.uris)[:_MANY], "count": len(one.uris), "list": one.list_changes} for one in found]
        return {"caller": own.name, "subscriptions": rows}

    def _callers(self) -> dict[str, object]:
        """Return who the caller is and what they may do."""
        own = current_access()
        scopes = ["*:read", "*:tools", "*:write"] if own.scopes is None else sorted(own.scopes)
        expires = None if own.expires_at is None else iso(int(own.expires_at * 1_000))
        rows = [{"name": own.name, "scopes": scopes, "expiresAt": expires}]
        return {"callers": rows}

    def _index(self) -> dict[str, object]:
        search = self._desk.server.search
        if search is None:
            return {"state": "off", "problems": ["The search is turned off in the configuration"]}
        facts = _dated(search.opened().facts(looks=True))
        return {name: without_paths_within(value, self._desk.config.root) for name, value in facts.items()}


def _dated(facts: Mapping[str, object]) -> dict[str, object]:
    """Return facts with the time of the last write as people read it."""
    written = facts.get("written")
    return {**facts, **({"written": iso(written)} if isinstance(written, int) else {})}


_MANY: Final = 200
