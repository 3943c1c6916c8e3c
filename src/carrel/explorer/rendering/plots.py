"""Plots as SVG: sizes as bars, and counts over time as columns.

A plot is never the only form of its numbers: bars stand in the rows of a table, and columns have a table below. Colours
come from the style sheet by class, so that a strict policy needs no exception.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from carrel.core.record import Value
from carrel.explorer.rendering import amounts
from carrel.explorer.rendering.logs import level, split_lines, time_of
from carrel.explorer.rendering.markup import Html, element, escape

MAX_BARS: Final = 40
MAX_COLUMNS: Final = 60
_HEIGHT: Final = 100
_STEPS_S: Final = (1, 5, 15, 60, 300, 900, 3_600, 10_800, 43_200, 86_400, 604_800, 2_592_000, 31_536_000)
"""Lengths of time that a column may stand for."""


class Bar(Value, frozen=True):
    """One thing with a size; `words` is the size for people, such as `12 kB`."""

    label: str
    value: int
    words: str = ""
    address: str | None = None


class Columns(Value, frozen=True):
    """Counts in equal steps of time. `counts` has a row for each name, with as many numbers as there are steps."""

    start: datetime
    step_s: int
    counts: Mapping[str, Sequence[int]]

    def begin(self, at: int) -> str:
        """Return when a column begins, as people write it."""
        moment = self.start + timedelta(seconds=self.step_s * at)
        return f"{moment:%Y-%m-%d}" if self.step_s >= 86_400 else f"{moment:%Y-%m-%d %H:%M:%S}Z"


# Sizes


def bars(title: str, things: Iterable[Bar], what: str = "Size", spelled: Callable[[int], str] = amounts.count) -> Html:
    """Return things with bars as long as their sizes, the largest first.

    The last row is the sum of the rest, as `spelled` by the function for sizes.
    """
    ordered = sorted(things, key=lambda bar: (-bar.value, bar.label))
    if not ordered:
        return Html("")
    shown, rest = ordered[:MAX_BARS], ordered[MAX_BARS:]
    most = max(1, ordered[0].value)
    rows = [_bar(bar, most) for bar in shown]
    if rest:
        left = sum(bar.value for bar in rest)
        rows.append(_bar(Bar(f"{amounts.count(len(rest))} more", left, spelled(left)), most))
    names = (("Name", None), (what, "right"), ("Relative size", None))
    head = element("tr", *(element("th", name, scope="col", class_=class_) for name, class_ in names))
    table = element("table", element("caption", title), element("thead", head), element("tbody", *rows))
    return element("div", table, class_="plot bars")


def _bar(bar: Bar, most: int) -> Html:
    share = min(1000, bar.value * 1000 // most) / 10
    picture = element(
        "svg",
        element("rect", width=f"{share:g}%", height="100%", x=0, y=0),
        aria_hidden="true",
        focusable="false",
        class_="bar",
    )
    name = element("a", bar.label, href=bar.address) if bar.address else escape(bar.label)
    size = element("td", bar.words or amounts.count(bar.value), class_="right")
    return element("tr", element("th", name, scope="row"), size, element("td", picture))


# Time


def count_by_time(times: Mapping[str, Iterable[datetime]], bounds: Sequence[datetime] = ()) -> Columns | None:
    """Return how often each thing happened in equal steps of time; None if there is only one time.

    `bounds` are times at which nothing is counted, such as the ends of a log. Times that no clock shows are left out.
    """
    lists = {name: sorted(filter(_is_sound, moments)) for name, moments in times.items()}
    every = [moment for moments in lists.values() for moment in (moments[:1] + moments[-1:])]
    every += filter(_is_sound, bounds)
    if not every or min(every) == max(every):
        return None
    first, last = min(every), max(every)
    span = (last - first).total_seconds()
    step = next((step for step in _STEPS_S if span / step < MAX_COLUMNS), int(span / MAX_COLUMNS) + 1)
    begin = int(first.timestamp()) // step * step
    size = int(last.timestamp() - begin) // step + 1
    counts = {}
    for name, moments in lists.items():
        found = Counter(int(moment.timestamp() - begin) // step for moment in moments)
        counts[name] = tuple(found.get(at, 0) for at in range(size))
    return Columns(datetime.fromtimestamp(begin, UTC), step, counts)


def _is_sound(moment: datetime) -> bool:
    return 1970 <= moment.year < 2200


def columns(title: str, made: Columns, id_: str) -> Html:
    """Return counts over time as columns, one on top of the other, with a table of the numbers."""
    names = list(made.counts)
    size = len(made.counts[names[0]])
    totals = [sum(made.counts[name][at] for name in names) for at in range(size)]
    most = max(1, *totals)
    said = ", ".join(amounts.counted(sum(made.counts[name]), name.removesuffix("s")) for name in names)
    peak = f"A column is {_step_words(made.step_s)}, the highest has {amounts.count(most)}"
    about = f"{said}, from {made.begin(0)} to {made.begin(size)}. {peak}."
    drawn = [_column(made, names, at, most) for at in range(size) if totals[at]]
    picture = element(
        "svg",
        element("title", title, id=f"{id_}-title"),
        element("desc", about, id=f"{id_}-desc"),
        *drawn,
        viewBox=f"0 0 {size * 10} {_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_labelledby=f"{id_}-title {id_}-desc",
        class_="columns",
    )
    legend = element("p", *(element("span", name, class_=f"key {_class_of(name)}") for name in names))
    ends = element("p", element("span", made.begin(0)), element("span", made.begin(size)), class_="ends")
    caption = element("figcaption", element("strong", title), " ", element("small", about))
    return element("figure", caption, legend, picture, ends, _numbers(made, totals), class_="plot")


def _column(made: Columns, names: Sequence[str], at: int, most: int) -> Html:
    """Return the parts of one column, the first name at the bottom."""
    parts, bottom = [], float(_HEIGHT)
    for name in names:
        count = made.counts[name][at]
        if count:
            height = max(1.0, count * _HEIGHT / most)
            bottom -= height
            top = f"{max(0.0, bottom):.2f}"
            parts.append(element("rect", x=at * 10 + 1, y=top, width=8, height=f"{height:.2f}", class_=_class_of(name)))
    words = ", ".join(
        amounts.counted(made.counts[name][at], name.removesuffix("s")) for name in names if made.counts[name][at]
    )
    return element("g", element("title", f"{made.begin(at)}: {words}"), *parts)


def _class_of(name: str) -> str:
    return f"key-{name}" if name in ("errors", "warnings") else "key-other"


def _numbers(made: Columns, totals: Sequence[int]) -> Html:
    head = element("tr", *(element("th", name, scope="col") for name in ("From", *made.counts)))
    rows = [
        element(
            "tr",
            element("th", made.begin(at), scope="row"),
            *(element("td", amounts.count(counts[at]), class_="right") for counts in made.counts.values()),
        )
        for at, total in enumerate(totals)
        if total
    ]
    table = element("table", element("thead", head), element("tbody", *rows), class_="data")
    return element("details", element("summary", "The numbers"), table)


def _step_words(step_s: int) -> str:
    for unit, words in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if step_s >= unit:
            count = step_s // unit
            return f"a {words}" if count == 1 and words != "hour" else "an hour" if count == 1 else f"{count} {words}s"
    return "a second" if step_s == 1 else f"{step_s} seconds"


def errors_over_time(text: str, id_: str = "errors") -> Html:
    """Return errors and warnings of a log over time; nothing if its lines have no times, or there are none."""
    times: dict[str, list[datetime]] = {"errors": [], "warnings": []}
    bounds: list[datetime] = []
    for line in split_lines(text):
        moment = time_of(line)
        if moment is None or not _is_sound(moment):  # a line without a time belongs to the one before
            continue
        bounds = [min(bounds[0], moment), max(bounds[1], moment)] if bounds else [moment, moment]
        found = level(line)
        if found in ("error", "warning"):
            times[f"{found}s"].append(moment)
    shown = {name: moments for name, moments in times.items() if moments}
    made = count_by_time(shown, bounds) if shown else None
    return columns("Errors over time", made, id_) if made else Html("")


def changes_over_time(times: Iterable[datetime], id_: str = "changes") -> Html:
    """Return commits over time; nothing for fewer than two."""
    made = count_by_time({"commits": times})
    return columns("Changes over time", made, id_) if made else Html("")
