"""What the guide's resources say: the guide itself, the catalogue and the health of the providers.

Imported when one of them is read, so that a server starts without it.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, TypeVar

from carrel.catalog.catalog import Catalog
from carrel.catalog.pages import groups_of
from carrel.catalog.routes import Mounted
from carrel.core.bounded_calls import BoundedCalls
from carrel.core.errors import CarrelError
from carrel.core.faults import attempt
from carrel.core.model import Resource, Text
from carrel.core.printable import printable_line
from carrel.core.server_paths import without_paths_within, without_server_paths
from carrel.core.uri import decode_loosely, quote

if TYPE_CHECKING:
    from carrel.providers.guide.pages import GuideSection
    from carrel.providers.guide.project import ProjectFacts

COUNT_AT_MOST: Final = 10_000
"""Maximum number of entries to count for each provider: counting more would delay the guide."""
ANSWER_S: Final = 1.0
"""How long the guide waits for a provider; counting stops then too."""
EXAMPLES: Final = 3
_TITLE_LENGTH: Final = 60
_LATE: Final = "does not answer"
_FAILED: Final = "failed to report its health; see the server's log"
_UNLISTED: Final = "its list failed; see the server's log"
_LIST: Final = "the list"
_PROJECT: Final = "the project"
MAX_TOKENS: Final = 900
"""What the guide costs at most, in any project."""
_Answer = TypeVar("_Answer")

_SEARCH_FIRST: Final = "- **Search first:** {tool}`carrel://search?q={word}`. A hit names the lines to read.\n"
_TOOLS: Final = (
    "- **Tools:** if your host knows only tools: `read_resource` reads a URI, `list_resources` lists a prefix.\n"
)
_HOW_TO_READ: Final = """\
- **Outline:** `{example}?outline` shows definitions or headings with their lines.
- **Part:** `{example}?lines=1-40`, or `?start=0&length=20000` in bytes. `dev.carrel/next` in `_meta` is the next part.
- **Budget:** `{example}?budget=2000` gives the best that fits into 2,000 tokens; on every URI.
- **Folder:** its URI returns its children.
- **Unchanged:** send the `dev.carrel/etag` of an answer as `dev.carrel/if-none-match` in `_meta`: if nothing has \
changed, the answer has no content.
- **Errors** say why, and what to read instead.
"""

_NOT_LISTED: Final = """\
## Not listed

`resources/list` has the {bound} most useful entries: {counts}. All others can be read and searched too.
"""
_LIST_LATE: Final = "## Not listed\n\nUnknown at the moment, because a provider does not answer.\n"


class Reports:
    """Asks the providers of a catalogue what they have, and writes it down."""

    def __init__(
        self, catalog: Catalog, title: str, notes: Sequence[str], elsewhere: Callable[[], Sequence[str]], root: str
    ) -> None:
        """The parameters are those of the guide."""
        self._root = root
        self._catalog = catalog
        self._elsewhere = elsewhere
        self._title = title
        self._notes = tuple(notes)
        self._calls = BoundedCalls("the guide", ANSWER_S)

    def guide(self) -> Text:
        """Return the guide."""
        from carrel.providers.guide.pages import GuideSection, fit  # only for the guide itself
        from carrel.providers.guide.project import ProjectSurvey

        others = self._others()
        sections = self._ask(others, self._section)
        health = self._health()
        survey = ProjectSurvey(self._catalog)
        self._calls.ask({_PROJECT: survey.run})
        facts = survey.facts()
        left_out = [f"{name}: {rule}" for name, found in health.items() for rule in _sentences(found, "left_out")]
        elsewhere = [without_server_paths(note, self._root) for note in self._elsewhere()]
        late = [f"{one.provider.name}: {_LATE}" for one in others if one.provider.name not in sections]
        late += [f"{name}: {_UNLISTED}" for name, one in sections.items() if one is None or one.is_unlisted]
        # They may name a stranger's files: keep each on one line.
        notes = list(dict.fromkeys(map(printable_line, [*self._problems(health), *late, *left_out, *elsewhere])))
        project = ["".join(f"- {line}\n" for line in facts.lines)] if facts.lines else []
        top = [
            f"# Resources of {printable_line(self._title[:_TITLE_LENGTH])}\n",
            f"{_overview(others)}\n",
            *project,
            self._how_to_read(facts),
        ]
        served = [sections.get(one.provider.name) or GuideSection(_heading(one)) for one in others]
        return Text(fit(top, served, self._not_listed(), notes, MAX_TOKENS))

    def _how_to_read(self, facts: "ProjectFacts") -> str:
        """Return how to search, outline and read parts, with a file of this project as the example."""
        example = facts.example or "URI"
        word = quote(decode_loosely(facts.example).rpartition("/")[2].partition(".")[0] or "WORDS", "")
        served = {mounted.provider.name: mounted for mounted in self._catalog.mounted}
        search = served.get("search")
        tool = "the tool `search`, or " if search is not None and search.has_tools else ""
        first = "" if search is None else _SEARCH_FIRST.format(tool=tool, word=word)
        tools = _TOOLS if "mirror" in served else ""
        return f"## How to read\n\n{first}{tools}{_HOW_TO_READ.format(example=example)}"

    def catalogue(self) -> Text:
        """Return what is served, as JSON."""
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

    def health(self) -> Text:
        """Return the state of each provider, as JSON."""
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

    def _health(self) -> dict[str, Mapping[str, object]]:
        """Return the health of every provider, by name."""
        visible = self._catalog.visible()
        reporting = [one for one in visible if "health" in one.overrides]
        answered = self._ask(reporting, lambda one: dict(one.provider.health()))
        health: dict[str, Mapping[str, object]] = {one.provider.name: {} for one in visible}
        for name in (one.provider.name for one in reporting):
            answer = answered.get(name)
            if answer is not None:
                health[name] = answer
            else:
                state, why = ("unknown", _FAILED) if name in answered else ("late", _LATE)
                health[name] = {"state": state, "problems": [why]}
        return health

    def _not_listed(self) -> str:
        """Return the section on entries that are not listed."""
        chosen = self._calls.ask({_LIST: self._catalog.chosen}).get(_LIST)
        if chosen is None:
            return _LIST_LATE
        if chosen.is_whole:
            return ""
        lines = []
        others = self._others()
        counts = self._counts(others)
        for mounted in others:
            schemes = tuple(f"{scheme}:" for scheme in mounted.provider.schemes)
            listed = sum(1 for entry in chosen.entries if entry.uri.startswith(schemes))
            count, is_more = counts[mounted.provider.name]
            if count > listed or is_more:
                total = f"more than {count:,}" if is_more else f"{count:,}"
                lines.append(f"`{mounted.provider.schemes[0]}://` {listed:,} of {total}")
        return _NOT_LISTED.format(bound=f"{self._catalog.max_listed:,}", counts=", ".join(lines))

    def _counts(self, providers: Sequence[Mounted]) -> dict[str, tuple[int, bool]]:
        """Return the number of entries of each provider, counted for a limited time, and whether there are more."""
        counted: Counter[str] = Counter()

        def count(mounted: Mounted) -> None:
            for _ in islice(mounted.provider.entries(), COUNT_AT_MOST + 1):
                counted[mounted.provider.name] += 1

        ended = self._ask(providers, count)
        numbers = {one.provider.name: counted[one.provider.name] for one in providers}
        return {
            name: (min(number, COUNT_AT_MOST), name not in ended or number > COUNT_AT_MOST)
            for name, number in numbers.items()
        }

    def _others(self) -> list[Mounted]:
        others = (mounted for mounted in self._catalog.visible() if mounted.provider.name != "guide")
        return [mounted for mounted in others if mounted.provider.schemes and (mounted.routes or mounted.claims)]

    def _problems(self, health: Mapping[str, Mapping[str, object]]) -> list[str]:
        problems = [*self._notes, *(str(clash) for clash in self._catalog.clashes())]
        for name, facts in health.items():
            found = _sentences(facts, "problems")
            problems += [f"{name}: {problem}" for problem in found if problem not in self._notes]
        return [without_server_paths(problem, self._root) for problem in problems]

    def _section(self, mounted: Mounted) -> "GuideSection":
        from carrel.providers.guide.pages import GuideSection  # as above

        templates = [(f"`{one.uri_template}`", one.description or one.title or one.name) for one in mounted.templates()]
        first = _unless_broken(_first, mounted)
        examples = [(f"`{entry.uri}`", entry.description or entry.title) for entry in first or ()]
        return GuideSection(_heading(mounted), tuple(templates), tuple(examples), is_unlisted=first is None)


def _first(mounted: Mounted) -> list[Resource]:
    """Return the most useful entries of a provider."""
    return list(islice(chain.from_iterable(groups_of(mounted)), EXAMPLES))


def _overview(providers: list[Mounted]) -> str:
    if not providers:
        return "There are no resources yet: no provider has data in this project."
    schemes = ", ".join(f"`{mounted.provider.schemes[0]}://`" for mounted in providers)
    return f"This server has read-only resources: {schemes}. Each has a section below."


def _heading(mounted: Mounted) -> str:
    return f"## `{mounted.provider.schemes[0]}://` {mounted.provider.summary}".rstrip()


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
