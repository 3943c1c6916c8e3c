"""Home: what is on the desk and why, how to connect a host, and what is not served."""

from collections.abc import Mapping

from carrel.app.app import Choice, Desk
from carrel.catalog.access import current_access, is_unlimited, may_read, may_see
from carrel.catalog.routes import Mounted
from carrel.core.server_paths import without_server_paths
from carrel.explorer import hosts
from carrel.explorer.addresses import Addresses
from carrel.explorer.leaves import Leaf
from carrel.explorer.survey import Survey, Surveyed


class Home:
    """Makes the home page; each caller sees only what they may read."""

    def __init__(self, desk: Desk, addresses: Addresses, survey: Survey) -> None:
        self._desk = desk
        self._addresses = addresses
        self._survey = survey

    def leaf(self) -> Leaf:
        """Return home."""
        visible = self._desk.catalog.visible()
        said = self._survey.ask(visible)
        reasons = {choice.name: choice for choice in self._desk.choices}
        served = []
        for mounted in visible:
            choice, found = reasons.get(mounted.chosen), said[mounted.provider.name]
            is_quiet = not mounted.provider.schemes and not found.sentences("problems")  # it only has tools
            if not is_quiet and (choice is None or choice.state == "served" or found.entries):
                served.append(self._row(mounted, choice, found))
        title = self._desk.config.root.rstrip("/").rpartition("/")[2] or "/"
        data: dict[str, object] = {
            "title": title,
            "served": served,
            "notServed": self._not_served({str(row["name"]) for row in served}),
            "notes": [without_server_paths(note, self._desk.config.root) for note in self._desk.notes],
            **self._hosts(),
        }
        model = served_of_guide(self._desk, "carrel://guide")
        return Leaf("home", title, data, "/index.json", "/index.md", {"crumbs": []}, model=model)

    def _row(self, mounted: Mounted, choice: Choice | None, said: Surveyed) -> dict[str, object]:
        provider = mounted.provider
        problems = said.sentences("problems")
        return {
            "name": provider.name,
            "schemes": [scheme for scheme in provider.schemes if may_see((scheme,))],
            "summary": provider.summary or ", ".join(f"`{one.uri_template}`" for one in mounted.templates()[:3]),
            "why": reason(self._desk, provider.name, choice),
            "entries": said.entries,
            "entriesAreMore": said.is_more,
            "lastChangeMs": said.last_change_ms,
            "health": "problems" if problems else "ok",
            "problems": problems,
            "leftOut": said.sentences("left_out"),
            "roots": self._roots(mounted),
        }

    def _roots(self, mounted: Mounted) -> list[dict[str, str]]:
        """Return the addresses where a person starts to look at a provider's resources."""
        if mounted.provider.name == "search":
            return [{"uri": "carrel://search", "address": "/-/search"}]
        schemes = [scheme for scheme in mounted.provider.schemes if may_read(f"{scheme}://")]
        roots = [self._addresses.root(scheme) for scheme in schemes]
        for scheme in mounted.provider.schemes:
            roots += current_access().places(scheme)
        return [{"uri": uri, "address": self._addresses.page(uri)} for uri in roots]

    def _not_served(self, served: set[str]) -> list[dict[str, str]]:
        """Return what is not served and why; a caller with scopes sees only what their scopes cover."""
        left = [one for one in self._desk.choices if one.state != "served" and one.name not in served]
        shown = left if is_unlimited() else [one for one in left if may_read(f"{one.name}://")]
        root = self._desk.config.root
        return [{"name": one.name, "state": one.state, "why": without_server_paths(one.why, root)} for one in shown]

    def _hosts(self) -> Mapping[str, object]:
        """Return the hosts of this machine; only to a caller on it who may do everything."""
        if not is_unlimited() or self._desk.catalog.is_remote:
            return {"hosts": [], "otherHosts": []}
        found, others = hosts.states(self._desk.config.root, dict(self._desk.config.environment))
        rows = [{"name": one.name, "title": one.title, "state": one.state, "command": one.command} for one in found]
        return {"hosts": rows, "otherHosts": others}


def served_of_guide(desk: Desk, uri: str) -> str:
    """Return a URI of the guide if the caller may read it and it is served; else an empty text."""
    return uri if any(one.provider.name == "guide" for one in desk.catalog.visible()) else ""


def reason(desk: Desk, name: str, choice: Choice | None) -> str:
    """Return why a provider is served, or not; only a caller on this machine who may do everything sees its paths."""
    if choice is None:
        return _ALWAYS.get(name, "")
    if is_unlimited() and not desk.catalog.is_remote:
        return choice.why
    return without_server_paths(choice.why, desk.config.root)


_ALWAYS = {"guide": "always served: it explains the rest", "search": "always served, unless it is turned off"}
"""Why some providers are always served."""
