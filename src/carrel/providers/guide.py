"""Resources that tell a model what this server has, and how to read it.

carrel://guide     Markdown: the providers, their URIs, how to read parts and pages
carrel://catalog   JSON: providers, templates, counts
carrel://health    JSON: the state of each provider, and problems
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from carrel.catalog.catalog import Catalog
from carrel.catalog.pages import groups_of
from carrel.catalog.routes import Mounted
from carrel.core.bounded_calls import BoundedCalls
from carrel.core.errors import CarrelError
from carrel.core.faults import attempt
from carrel.core.model import Annotations, Resource, Text
from carrel.core.printable import printable_line
from carrel.core.provider import Provider, Route
from carrel.core.record import replace
from carrel.core.server_paths import without_paths_within, without_server_paths

COUNT_AT_MOST: Final = 10_000
"""Maximum number of entries to count for each provider: counting more would delay the guide."""
ANSWER_S: Final = 1.0
"""How long the guide waits for a provider; counting stops then too."""
EXAMPLES: Final = 3
INSTRUCTIONS: Final = (
    "This server has the project's own knowledge as read-only resources. "
    "Read carrel://guide first: it lists what is here, explains the URIs and how to read parts."
)

_LATE: Final = "does not answer"
_FAILED: Final = "failed to report its health; see the server's log"
_LIST: Final = "the list"
_Answer = TypeVar("_Answer")

_READING_PARTS: Final = """\
## How to read

- Read a URI with `resources/read`, or with the tool `read_resource` if your host has only tools.
- **Parts:** add `?start=0&length=20000` (bytes) to the URI of anything but a folder, or `?lines=10-50` \
to the URI of a file. `dev.carrel/next` in `_meta` is the URI of the next part. \
A part past the end is empty, not an error.
- **Folders:** reading a folder returns its children. If there are more, `dev.carrel/next` is the URI of the rest.
- **Lists:** if a list has a `nextCursor`, send it as `cursor` to get the next page.
- **Changes:** every answer has an ETag in `_meta` (`dev.carrel/etag`). Send it as \
`dev.carrel/if-none-match` in the `_meta` of the next read: if nothing has changed, the answer has no content.
- **Errors** say why. If a resource is too large, the error names a part that fits.
"""

_LEFT_OUT: Final = """\
## What is not listed

`resources/list` returns the {bound} most useful entries. Files come last, files in deep folders at the very end:

{lines}
You can read the others too. To find them, read a folder (`workspace:///src/`), fill in a template, complete \
its variable, or call the tool `list_resources` with a `prefix`. On the command line: `carrel ls PREFIX`.
"""

_LIST_LATE: Final = """\
## What is not listed

Unknown at the moment, because a provider does not answer. To find resources of the other providers, use folders, \
templates, or the tool `list_resources` with a `prefix`.
"""


class Guide(Provider):
    """The provider of `carrel://`: guide, catalogue and health."""

    name = "guide"
    schemes = ("carrel",)
    summary = "What this server has, and how to read it."
    speed = "as_others"

    def __init__(
        self,
        catalog: Catalog,
        title: str = "this project",
        notes: Sequence[str] = (),
        elsewhere: Callable[[], Sequence[str]] = tuple,
        root: str = "",
    ) -> None:
        """Create the guide. It shows `notes`, and the notes that `elsewhere` returns when the guide is read.

        Clients see no path of the server, except paths relative to `root`.
        """
        self._root = root
        self._catalog = catalog
        self._elsewhere = elsewhere
        self._title = title
        self._notes = tuple(notes)
        self._calls = BoundedCalls("the guide", ANSWER_S)

    def routes(self) -> Sequence[Route]:
        return (
            Route("carrel://guide", self.read_guide, name="guide", mime_type="text/markdown"),
            Route("carrel://catalog", self.read_catalog, name="catalog", mime_type="application/json"),
            Route("carrel://health", self.read_health, name="health", mime_type="application/json"),
        )

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the guide, its catalogue and its health, all pinned; some hosts show only what comes first."""
        # The instance id tells a Carrel that it has mounted itself.
        health = _entry("health", "Health", "JSON: the state of each provider, and problems", "application/json", 0.3)
        guide = _entry("guide", "Guide", "Start here: what this server has, and how to read it", "text/markdown", 1.0)
        every = (
            replace(guide, sort_key="carrel://"),
            _entry("catalog", "Catalogue", "JSON: providers, templates, counts", "application/json", 0.8),
            replace(health, meta={"dev.carrel/instance": self._catalog.instance}),
        )
        return (entry for entry in every if (entry.sort_key or entry.uri) > after)

    def instructions(self) -> str:
        """Return the text that points models to the guide."""
        return INSTRUCTIONS

    def read_guide(self) -> Text:
        others = self._others()
        sections = self._ask(others, self._section)
        health = self._health()
        left_out = [f"{name}: {rule}" for name, facts in health.items() for rule in _sentences(facts, "left_out")]
        parts = [f"# Resources of {self._title}\n", f"{_overview(others)}\n"]
        parts += [sections.get(mounted.provider.name) or _heading(mounted) for mounted in others]
        parts += self._not_listed()
        parts.append(_READING_PARTS)
        elsewhere = [without_server_paths(note, self._root) for note in self._elsewhere()]
        late = [f"{name}: {_LATE}" for name in self._late_among(others, sections)]
        notes = [*self._problems(health), *late, *left_out, *elsewhere]
        if notes:  # they may name a stranger's files: keep each on one line
            problems = dict.fromkeys(map(printable_line, notes))
            parts.append("## Not served\n\n" + "".join(f"- {problem}\n" for problem in problems))
        return Text("\n".join(parts))

    def read_catalog(self) -> Text:
        others = self._others()
        counts = self._counts(others)
        providers = []
        for mounted in others:
            count, is_more = counts[mounted.provider.name]
            providers.append(
                {
                    "name": mounted.provider.name,
                    "schemes": list(mounted.provider.schemes),
                    "summary": mounted.provider.summary,
                    "entries": count,
                    "moreEntries": is_more,
                    "templates": [
                        {"uriTemplate": one.uri_template, "name": one.name, "description": one.description}
                        for one in mounted.templates()
                    ],
                }
            )
        return Text(_json({"title": self._title, "providers": providers}))

    def read_health(self) -> Text:
        health = self._health()
        problems = self._problems(health)
        providers = [
            {
                "name": name,
                **{key: without_paths_within(value, self._root) for key, value in facts.items() if key != "left_out"},
            }
            for name, facts in health.items()
        ]
        status = "problems" if problems else "ok"
        return Text(_json({"status": status, "problems": problems, "providers": providers}))

    # Asking providers: on threads, for a bounded time

    def _ask(self, providers: Sequence[Mounted], ask: Callable[[Mounted], _Answer]) -> dict[str, _Answer | None]:
        """Return the answers that arrive in time, by provider name; None for a provider that fails."""
        return self._calls.ask({one.provider.name: partial(_unless_broken, ask, one) for one in providers})

    def _late_among(self, providers: Sequence[Mounted], answered: Mapping[str, object]) -> list[str]:
        return [one.provider.name for one in providers if one.provider.name not in answered]

    def _health(self) -> dict[str, Mapping[str, object]]:
        """Return the health of every provider, by name."""
        visible = self._catalog.visible()
        reporting = [one for one in visible if "health" in one.overrides]
        answered = self._ask(reporting, _health)
        health: dict[str, Mapping[str, object]] = {one.provider.name: {} for one in visible}
        for name in (one.provider.name for one in reporting):
            answer = answered.get(name)
            if answer is not None:
                health[name] = answer
            else:
                state, why = ("unknown", _FAILED) if name in answered else ("late", _LATE)
                health[name] = {"state": state, "problems": [why]}
        return health

    def _not_listed(self) -> list[str]:
        """Return the section on entries that are not listed, and how to find them."""
        chosen = self._calls.ask({_LIST: self._catalog.chosen}).get(_LIST)
        if chosen is None:
            return [_LIST_LATE]
        if chosen.is_whole:
            return []
        lines = []
        others = self._others()
        counts = self._counts(others)
        for mounted in others:
            schemes = tuple(f"{scheme}:" for scheme in mounted.provider.schemes)
            listed = sum(1 for entry in chosen.entries if entry.uri.startswith(schemes))
            count, is_more = counts[mounted.provider.name]
            if count > listed or is_more:
                total = f"more than {count:,}" if is_more else f"{count:,}"
                lines.append(f"- `{mounted.provider.schemes[0]}://`: {listed:,} of {total} are listed\n")
        return [_LEFT_OUT.format(bound=f"{self._catalog.max_listed:,}", lines="".join(lines))]

    def _counts(self, providers: Sequence[Mounted]) -> dict[str, tuple[int, bool]]:
        """Return the number of entries of each provider, counted for a limited time, and whether there are more."""
        tallies = {one.provider.name: _Tally(one) for one in providers}
        self._calls.ask({name: tally.count for name, tally in tallies.items()})
        return {name: (min(tally.counted, COUNT_AT_MOST), tally.is_more) for name, tally in tallies.items()}

    def _others(self) -> list[Mounted]:
        others = (mounted for mounted in self._catalog.visible() if mounted.provider.name != self.name)
        return [mounted for mounted in others if mounted.provider.schemes and (mounted.routes or mounted.claims)]

    def _problems(self, health: Mapping[str, Mapping[str, object]]) -> list[str]:
        problems = [*self._notes, *(str(clash) for clash in self._catalog.clashes())]
        for name, facts in health.items():
            found = _sentences(facts, "problems")
            problems += [f"{name}: {problem}" for problem in found if problem not in self._notes]
        return [without_server_paths(problem, self._root) for problem in problems]

    def _section(self, mounted: Mounted) -> str:
        lines = [_heading(mounted)]
        for template in mounted.templates():
            description = template.description or template.title or template.name
            lines.append(f"- `{template.uri_template}`: {description}")
        examples = self._first(mounted, EXAMPLES)
        if examples:
            lines += ["", "For example:", ""]
            lines += [_bullet(entry) for entry in examples]
        return "\n".join(lines) + "\n"

    def _first(self, mounted: Mounted, limit: int) -> list[Resource]:
        """Return the most useful entries of a provider."""
        found: list[Resource] = []
        with suppress(CarrelError):
            for group in groups_of(mounted):
                found += islice(group, limit - len(found))
        return found


class _Tally:
    """A count of one provider's entries that can be read while counting goes on."""

    def __init__(self, mounted: Mounted) -> None:
        self._mounted = mounted
        self.counted = 0
        self.is_more = True

    def count(self) -> None:
        """Count the entries; stop one past the maximum, or when the list fails."""
        with suppress(CarrelError):
            for _ in islice(self._mounted.provider.entries(), COUNT_AT_MOST + 1):
                self.counted += 1
        self.is_more = self.counted > COUNT_AT_MOST


def _entry(name: str, title: str, description: str, mime_type: str, priority: float) -> Resource:
    uri = f"carrel://{name}"
    annotations = Annotations(priority=priority)
    return Resource(uri, name, description, mime_type, title=title, annotations=annotations, pinned=True)


def _overview(providers: list[Mounted]) -> str:
    if not providers:
        return "There are no resources yet: no provider has data in this project."
    schemes = ", ".join(f"`{mounted.provider.schemes[0]}://`" for mounted in providers)
    return f"This server has read-only resources: {schemes}. Each has a section below."


def _bullet(entry: Resource) -> str:
    description = entry.description or entry.title
    return f"- `{entry.uri}`: {description}" if description else f"- `{entry.uri}`"


def _heading(mounted: Mounted) -> str:
    return f"## `{mounted.provider.schemes[0]}://` {mounted.provider.summary}".rstrip() + "\n"


def _health(mounted: Mounted) -> Mapping[str, object]:
    return dict(mounted.provider.health())


def _sentences(facts: Mapping[str, object], key: str) -> list[str]:
    found = facts.get(key)
    return [one for one in found if isinstance(one, str)] if isinstance(found, Sequence) else []


def _unless_broken(ask: Callable[[Mounted], _Answer], mounted: Mounted) -> _Answer | None:
    try:
        return attempt(f"asking {mounted.provider.name}", ask, mounted)
    except CarrelError:
        return None


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
