"""What is on this desk, told to a model: it reads this first and follows the URIs in it.

carrel://guide     Markdown: the providers, how their URIs look, how to page and read parts
carrel://catalog   JSON: providers, templates, counts
carrel://health    JSON: what works, and what does not and why
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
"""How far the entries of a provider are counted: a longer walk would hold up who reads the guide."""
ANSWER_S: Final = 1.0
"""How long the guide waits for what a provider says of itself; a long list is counted as far as that goes."""
EXAMPLES: Final = 3
INSTRUCTIONS: Final = (
    "This server has the project's own knowledge as read-only resources. "
    "Read carrel://guide first: what is here, how the URIs look, how to read parts."
)

_LATE: Final = "does not answer"
_FAILED: Final = "cannot tell how it is; the server's log says why"
_LIST: Final = "the list"
_Told = TypeVar("_Told")

_READING_PARTS: Final = """\
## How to read

- Read a URI with `resources/read`, or with the tool `read_resource` where your host has only tools.
- **A part:** add `?start=0&length=20000` (bytes) to any URI but a folder's, or `?lines=10-50` \
to a file's. What follows is told in the answer \
as `dev.carrel/next`, or ask again from `start` + `length`. Past the end is empty, not an error.
- **A folder** gives its children; what does not fit is told as `dev.carrel/next` too (`?after=…`).
- **Paging:** a list that goes on has a `nextCursor`; pass it as `cursor`.
- **Unchanged?** Each answer has an ETag in `_meta` (`dev.carrel/etag`). Send it back as \
`dev.carrel/if-none-match` in the request's `_meta`: an unchanged resource is answered in a few bytes.
- What is refused says why; what is too large names a part that fits.
"""

_LEFT_OUT: Final = """\
## What the list leaves out

`resources/list` holds the {bound} most useful entries, files last and shallow before deep:

{lines}
Everything can be read all the same. To find it, read a folder (`workspace:///src/`), fill in a template, complete \
its variable, or call the tool `list_resources` with a `prefix`; for people: `carrel ls PREFIX`.
"""

_LIST_LATE: Final = """\
## What the list leaves out

That is not known now: a provider does not answer. Folders, templates and the tool `list_resources` with a `prefix` \
reach what the others have.
"""


class Guide(Provider):
    """Static entries that teach the URIs of everything else."""

    name = "guide"
    schemes = ("carrel",)
    summary = "What is on this desk, and how to use it."
    speed = "as_others"

    def __init__(
        self,
        catalog: Catalog,
        title: str = "this project",
        notes: Sequence[str] = (),
        elsewhere: Callable[[], Sequence[str]] = tuple,
        root: str = "",
    ) -> None:
        """Make it; `notes` are known now, those of `elsewhere` are looked for when the guide is read.

        No path of the server's is told, but for those below `root`, relative to it.
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
        # By its mark a Carrel knows itself in the lists of others, which may mount it.
        health = _entry("health", "Health", "JSON: what works, and what does not and why", "application/json", 0.3)
        guide = _entry("guide", "Guide to this desk", "Start here: what can be read and how", "text/markdown", 1.0)
        every = (
            replace(guide, sort_key="carrel://"),
            _entry("catalog", "Catalogue", "JSON: providers, templates, counts", "application/json", 0.8),
            replace(health, meta={"dev.carrel/instance": self._catalog.instance}),
        )
        return (entry for entry in every if (entry.sort_key or entry.uri) > after)

    def instructions(self) -> str:
        """Point to the guide."""
        return INSTRUCTIONS

    def read_guide(self) -> Text:
        others = self._others()
        sections = self._ask(others, self._section)
        health = self._health()
        left_out = [f"{name}: {rule}" for name, facts in health.items() for rule in _sentences(facts, "left_out")]
        parts = [f"# The desk of {self._title}\n", f"{_overview(others)}\n"]
        parts += [sections.get(mounted.provider.name) or _heading(mounted) for mounted in others]
        parts += self._not_listed()
        parts.append(_READING_PARTS)
        elsewhere = [without_server_paths(note, self._root) for note in self._elsewhere()]
        late = [f"{name}: {_LATE}" for name in self._late_among(others, sections)]
        told = [*self._problems(health), *late, *left_out, *elsewhere]
        if told:  # they name a stranger's files, and stay on their lines
            problems = dict.fromkeys(map(printable_line, told))
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

    # Asking providers: each aside, for a bounded time

    def _ask(self, providers: Sequence[Mounted], ask: Callable[[Mounted], _Told]) -> dict[str, _Told | None]:
        """Return what providers answer in time, by name; None for one that breaks."""
        return self._calls.ask({one.provider.name: partial(_unless_broken, ask, one) for one in providers})

    def _late_among(self, providers: Sequence[Mounted], answered: Mapping[str, object]) -> list[str]:
        return [one.provider.name for one in providers if one.provider.name not in answered]

    def _health(self) -> dict[str, Mapping[str, object]]:
        """Return what every provider reports of its health, by name."""
        visible = self._catalog.visible()
        reporting = [one for one in visible if "health" in one.overrides]
        answered = self._ask(reporting, _health)
        health: dict[str, Mapping[str, object]] = {one.provider.name: {} for one in visible}
        for name in (one.provider.name for one in reporting):
            told = answered.get(name)
            if told is not None:
                health[name] = told
            else:
                state, why = ("unknown", _FAILED) if name in answered else ("late", _LATE)
                health[name] = {"state": state, "problems": [why]}
        return health

    def _not_listed(self) -> list[str]:
        """Say how many entries the list leaves out, and how to reach them."""
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
        """Count the entries of each provider, as far as that takes little time; say whether there are more."""
        tallies = {one.provider.name: _Tally(one) for one in providers}
        self._calls.ask({name: tally.count for name, tally in tallies.items()})
        return {name: (min(tally.counted, COUNT_AT_MOST), tally.is_more) for name, tally in tallies.items()}

    def _others(self) -> list[Mounted]:
        others = (mounted for mounted in self._catalog.visible() if mounted.provider.name != self.name)
        return [mounted for mounted in others if mounted.provider.schemes and (mounted.routes or mounted.claims)]

    def _problems(self, health: Mapping[str, Mapping[str, object]]) -> list[str]:
        problems = [*self._notes, *(str(clash) for clash in self._catalog.clashes())]
        for name, told in health.items():
            found = _sentences(told, "problems")
            problems += [f"{name}: {problem}" for problem in found if problem not in self._notes]
        return [without_server_paths(problem, self._root) for problem in problems]

    def _section(self, mounted: Mounted) -> str:
        lines = [_heading(mounted)]
        for template in mounted.templates():
            told = template.description or template.title or template.name
            lines.append(f"- `{template.uri_template}`: {told}")
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
    """A count of one provider's entries; it can be read while it goes on."""

    def __init__(self, mounted: Mounted) -> None:
        self._mounted = mounted
        self.counted = 0
        self.is_more = True

    def count(self) -> None:
        """Count a few more entries than are told; a list that breaks has no more."""
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
        return "Nothing is served yet: no provider found its data here."
    schemes = ", ".join(f"`{mounted.provider.schemes[0]}://`" for mounted in providers)
    return f"Here are read-only resources: {schemes}. Each has a section below."


def _bullet(entry: Resource) -> str:
    told = entry.description or entry.title
    return f"- `{entry.uri}`: {told}" if told else f"- `{entry.uri}`"


def _heading(mounted: Mounted) -> str:
    return f"## `{mounted.provider.schemes[0]}://` {mounted.provider.summary}".rstrip() + "\n"


def _health(mounted: Mounted) -> Mapping[str, object]:
    return dict(mounted.provider.health())


def _sentences(facts: Mapping[str, object], key: str) -> list[str]:
    found = facts.get(key)
    return [one for one in found if isinstance(one, str)] if isinstance(found, Sequence) else []


def _unless_broken(ask: Callable[[Mounted], _Told], mounted: Mounted) -> _Told | None:
    try:
        return attempt(f"asking {mounted.provider.name}", ask, mounted)
    except CarrelError:
        return None


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
