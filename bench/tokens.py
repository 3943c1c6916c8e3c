"""What an answer costs a model, in tokens: search and parts beside grep and whole files, and the reference server.

    python -m bench.tokens [--smoke] [--check] [--json FILE] [--markdown FILE] [--misses]

Sixty questions about three repositories: packages of the standard library, this checkout, and a desk with logs, memory
and tasks. For each, a script does what the documents advise: it searches, looks whether the answer is among the
hits, and reads the lines of the best hits until it is. The others get the same word to look for:

    grep     `grep -rn WORD`, then whole files in the order of their matches until the answer is there
    server   the file server of the protocol's authors: `search_files` by name, then `read_text_file`

All answers are counted with the same estimate. What grep cannot reach (a running log, tasks in a database) is counted
as a read of the whole resource. The server needs npm and is left out with `--smoke`.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.questions import QUESTIONS, Question
from carrel.app.app import Desk, open_desk
from carrel.app.config import load
from carrel.client.client import Client
from carrel.core.errors import CarrelError
from carrel.core.isotime import now_ms
from carrel.core.model import Text
from carrel.core.tokens import estimate_tokens
from carrel.providers.scopes import changes, queries
from carrel.providers.scopes.store import Store
from examples import sample

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = ("asyncio", "email", "http", "json", "logging", "unittest")
SERVER: Final = ("npx", "--yes", "@modelcontextprotocol/server-filesystem@2026.8.31")
MAX_SHARE: Final = 0.1
"""What search may cost of what grep costs."""
MIN_FOUND: Final = 0.95
"""Answers that must be found for a check to pass: this checkout, about which some questions are, changes."""
MOST_READ: Final = 3
"""Hits that are read, and files that the others read."""
MOST_FILES: Final = 5

DECISIONS: Final = (
    ("Retries of failed calls", "A call is tried again: retry at most twice, then say so"),
    ("How long to cache forecasts", "Forecasts are kept for ten minutes"),
    ("Which map library", "We draw vector tiles ourselves"),
    ("Translations and languages", "Norwegian first, then English"),
    ("Offline use", "Without a network the last forecast is shown with its time"),
    ("Push messages", "Push messages are sent only for storms"),
)
TASKS: Final = (
    "Send weather alerts to subscribers",
    "Lay out the forecast on a tablet",
    "Collect crash reports with consent",
    "Show a widget on the home screen",
    "Choose colours for the dark theme",
)


@dataclass(slots=True)
class Way:
    """One way of answering a question: what it cost, and whether the answer was found."""

    tokens: int = 0
    calls: int = 0
    is_found: bool = False

    def take(self, text: str, answer: re.Pattern[str]) -> bool:
        """Pay for a text; return whether it has the answer."""
        self.tokens += estimate_tokens(text)
        self.calls += 1
        self.is_found = self.is_found or answer.search(text) is not None
        return self.is_found


@dataclass(slots=True)
class Row:
    """A question with what each way cost."""

    question: Question
    ways: dict[str, Way] = field(default_factory=dict)


# The repositories


def lay_out(name: str, folder: Path) -> None:
    """Create one of the three repositories."""
    if name == "library":
        standard = Path(sysconfig.get_paths()["stdlib"])
        for package in PACKAGES:
            shutil.copytree(standard / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    elif name == "carrel":
        for part in ("src", "tests", "docs", "examples"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        for part in ("README.md", "pyproject.toml", "Makefile", "CONTRIBUTING.md"):
            shutil.copy(ROOT / part, folder / part)
    else:
        sample.lay_out(folder)
        _write_memory(folder)
        _write_tasks(folder)
        _write_log(folder)


def _write_memory(folder: Path) -> None:
    """Write checkpoints: a few decisions that are asked about, among many others."""
    for number in range(60):
        subject, thesis = (
            DECISIONS[number] if number < len(DECISIONS) else (f"Point {number}", f"Decided point {number}")
        )
        name = f"2026-03-{1 + number % 28:02}T{number % 24:02}-{number % 60:02}-00_{subject.lower().replace(' ', '-')}"
        evidence = "".join(
            f"- Observation {at} about {subject.lower()}: measured, discussed, kept\n" for at in range(40)
        )
        head = f"id: {name}\ntype: checkpoint\nts: '2026-03-01T00:00:00+00:00'\nconfidence: 0.8\n"
        text = f"---\n{head}---\n\n# {subject}?\n\n## Thesis\n{thesis}\n\n## Key Evidence\n{evidence}"
        (folder / ".sage" / "checkpoints" / f"{name}.md").write_text(text, encoding="utf-8")


def _write_tasks(folder: Path) -> None:
    """Add tasks: a few that are asked about, among many others."""
    store = Store(str(folder / ".carrel/scopes.db"))
    with store.writing() as connection:
        parent = queries.find(connection, "feature-y")
        for number in range(120):
            title = TASKS[number] if number < len(TASKS) else f"Chore {number} of the release"
            changes.create(connection, now_ms(), title=title, alias=f"job-{number}", status="TODO", parent=parent)
    store.close()


def _write_log(folder: Path) -> None:
    """Run a build that fails late, as `carrel run` keeps it."""
    program = (
        "for number in range(1_500): print(f'[{number:05}] compiled lib/part_{number}.dart in 12 ms')\n"
        "print('ERROR: lib/forecast.dart:17: The getter temperature is not defined for the class City.')\n"
        "raise SystemExit(1)\n"
    )
    command = [sys.executable, "-P", "-m", "carrel", "run", "--name", "nightly", "--", sys.executable, "-c", program]
    subprocess.run(command, cwd=folder, capture_output=True, check=False)


# The three ways


def by_search(client: Client, question: Question) -> Way:
    """Search, then read the lines of the best hits until the answer is there."""
    way, answer = Way(), re.compile(question.answer)
    result = client.call("search", {"query": question.query, "limit": 5, "budget": 1_200, **_scheme(question)})
    text = "\n".join(map(str, result.blocks))
    if way.take(text, answer):
        return way
    for uri in _uris(text)[:MOST_READ]:
        if way.take(_read(client, uri), answer):
            return way
    return way


def _scheme(question: Question) -> Mapping[str, str]:
    return {"in": question.scheme} if question.scheme else {}


def _uris(text: str) -> list[str]:
    return [line.split("  ")[0] for line in text.splitlines() if re.match(r"[a-z]+://", line)]


def _read(client: Client, uri: str) -> str:
    try:
        return "\n".join(map(str, client.call("read_resource", {"uri": uri}).blocks))
    except CarrelError as error:
        return str(error)


def by_grep(folder: Path, client: Client, question: Question) -> Way:
    """Look for the word with grep, then read whole files, those with most matches first, until the answer is there."""
    way, answer = Way(), re.compile(question.answer)
    if question.scheme in ("logs", "scopes"):
        return _whole_resources(client, question, way, answer)
    found = subprocess.run(
        ["grep", "-rnI", "--exclude-dir=.git", "--", question.word, "."], cwd=folder, capture_output=True, check=False
    ).stdout.decode(errors="replace")
    way.tokens += estimate_tokens(found)
    way.calls += 1
    matches: dict[str, int] = {}
    for line in found.splitlines():
        name = line.partition(":")[0]
        matches[name] = matches.get(name, 0) + 1
    for name in sorted(matches, key=lambda one: -matches[one])[:MOST_FILES]:
        if way.take((folder / name).read_text(encoding="utf-8", errors="replace"), answer):
            break
    return way


def _whole_resources(client: Client, question: Question, way: Way, answer: re.Pattern[str]) -> Way:
    """Read the resources of a scheme one after another, each as a whole."""
    for entry in client.resources(f"{question.scheme}:"):
        try:
            items = client.read(entry.uri).items
        except CarrelError:
            continue
        if way.take("\n".join(item.text for item in items if isinstance(item, Text)), answer):
            break
    return way


def by_server(server: Client, folder: Path, question: Question) -> Way:
    """Look for a file by its name with the reference server, then read whole files until the answer is there."""
    way, answer = Way(), re.compile(question.answer)
    result = server.call("search_files", {"path": str(folder), "pattern": f"**/*{question.word.lower()}*"})
    text = "\n".join(map(str, result.blocks))
    if way.take(text, re.compile("(?!)")):
        return way
    names = [line for line in text.splitlines() if line.startswith(str(folder))]
    names = names or _listed(server, folder, way)
    for name in names[:MOST_FILES]:
        if way.take("\n".join(map(str, server.call("read_text_file", {"path": name}).blocks)), answer):
            break
    return way


def _listed(server: Client, folder: Path, way: Way) -> list[str]:
    """Read the whole tree, where no name matches; return the files that a reader would try: none is known."""
    text = "\n".join(map(str, server.call("directory_tree", {"path": str(folder)}).blocks))
    way.take(text, re.compile("(?!)"))
    return []


# The whole


def ask(name: str, questions: Sequence[Question], *, has_server: bool) -> Iterator[Row]:
    """Ask every question about one repository in all ways."""
    with tempfile.TemporaryDirectory() as made:
        folder, home = Path(made, name), Path(made, "home")
        folder.mkdir()
        lay_out(name, folder)
        flags = [("workspace", "preset", "code"), ("search", "answer_s", "60")]
        desk = open_desk(load(str(folder), {"HOME": str(home)}, flags))
        server = Client.start([*SERVER, str(folder)]) if has_server else None
        try:
            with Client.to(desk.server) as client:
                _complete(desk)
                for question in questions:
                    row = Row(question)
                    row.ways["search"] = by_search(client, question)
                    row.ways["grep"] = by_grep(folder, client, question)
                    if server is not None:
                        row.ways["server"] = by_server(server, folder, question)
                    yield row
        finally:
            desk.close()
            if server is not None:
                server.close()


def _complete(desk: Desk) -> None:
    assert desk.server.search is not None
    desk.server.search.opened().build()


def table(rows: Sequence[Row]) -> str:
    """Return the results as Markdown: by repository and kind, what each way cost and found."""
    ways = list(rows[0].ways)
    lines = [
        f"| repository | kind | questions | {' | '.join(f'{way}: tokens, found' for way in ways)} | share of grep |",
        f"| --- | --- | --: | {' | '.join('--:' for _ in ways)} | --: |",
    ]
    groups = list(dict.fromkeys((row.question.repository, row.question.kind) for row in rows))
    for repository, kind in [*groups, ("all", "")]:
        chosen = [
            row
            for row in rows
            if repository == "all" or (row.question.repository, row.question.kind) == (repository, kind)
        ]
        cells = []
        for way in ways:
            found = sum(row.ways[way].is_found for row in chosen)
            cells.append(f"{sum(row.ways[way].tokens for row in chosen):,}, {found} of {len(chosen)}")
        lines.append(f"| {repository} | {kind} | {len(chosen)} | {' | '.join(cells)} | {share(chosen):.1%} |")
    return "\n".join(lines) + "\n"


def share(rows: Sequence[Row]) -> float:
    """Return what search costs of what grep costs."""
    return sum(row.ways["search"].tokens for row in rows) / max(1, sum(row.ways["grep"].tokens for row in rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="without the reference server")
    parser.add_argument("--check", action="store_true", help="fail if answers are missing or search costs too much")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--misses", action="store_true", help="show the questions that search did not answer")
    given = parser.parse_args()
    rows: list[Row] = []
    for name in dict.fromkeys(question.repository for question in QUESTIONS):
        asked = [question for question in QUESTIONS if question.repository == name]
        rows += ask(name, asked, has_server=not given.smoke)
    print(table(rows), end="")
    missed = [row.question for row in rows if not row.ways["search"].is_found]
    if given.misses or given.check:
        for question in missed:
            print(f"not found: {question.repository}: {question.question}")
    if given.markdown:
        given.markdown.write_text(table(rows), encoding="utf-8")
    if given.json:
        spelled = [
            {
                "question": row.question.question,
                **{name: [way.tokens, way.calls, way.is_found] for name, way in row.ways.items()},
            }
            for row in rows
        ]
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(spelled, indent=1), encoding="utf-8")
    is_dear = share(rows) > MAX_SHARE
    if given.check and is_dear:
        print(f"search costs {share(rows):.1%} of grep, and may cost {MAX_SHARE:.0%}")
    return int(given.check and (is_dear or len(missed) > len(rows) * (1 - MIN_FOUND)))


if __name__ == "__main__":
    sys.exit(main())
