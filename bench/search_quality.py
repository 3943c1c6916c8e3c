"""Search judged by what it finds: NDCG@10 on questions whose answers are known, beside other ways to search.

    python -m bench.search_quality --questions FOLDER --checkouts FOLDER [--only NAME,NAME] [--json FILE]

The questions are those of semble's public benchmark: a file `<name>.json` for each repository, with `query`, `category`
and the `relevant` and `secondary` files. `checkouts` holds the repositories, and `checkouts.json` with `cwd` and `root`
of each. Everybody searches the same folders in the same run, and has one hit for each file. ripgrep takes part if `rg`
is there, semble if it can be imported; it is used without its model, which would be downloaded.
"""

import argparse
import json
import math
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from carrel.catalog.catalog import Catalog
from carrel.core.provider import FractionalCeiling, Project
from carrel.providers.workspace import Workspace
from carrel.search.answers import SearchRequest
from carrel.search.search import Search
from carrel.search.settings import SearchSettings

TOP: Final = 10
CATEGORIES: Final = ("architecture", "semantic", "symbol")
MAX_BYTES: Final = 1 << 20
_LEAST: Final = 3

Lines = tuple[int, int] | None
Found = list[tuple[str, Lines]]
"""Paths below the folder that was searched, best first, with the lines of the hit if it has some."""
Asked = Callable[[str], Found]


def carrel(folder: Path) -> Asked:
    """Search as a server does: through the catalogue, every hit read again."""
    # A machine that others use should not cut answers short.
    patient = SearchSettings(answer_s=FractionalCeiling(60.0))
    search = Search(Catalog([Workspace(Project(str(folder), {}))]), None, patient)
    search.build()

    def ask(query: str) -> Found:
        hits = search.search(SearchRequest(query, limit=TOP)).hits
        lines = [(hit.first_line, hit.last_line) if hit.first_line else None for hit in hits]
        return [(hit.base.removeprefix("workspace:///"), place) for hit, place in zip(hits, lines, strict=True)]

    return ask


def plain_fts5(folder: Path) -> Asked:
    """Search whole files in a plain FTS5 table."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE plain USING fts5 (path UNINDEXED, body)")
    database.executemany("INSERT INTO plain VALUES (?, ?)", texts(folder))

    def ask(query: str) -> Found:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
        rows = database.execute("SELECT path FROM plain WHERE plain MATCH ? ORDER BY rank LIMIT ?", (words, TOP))
        return [(path, None) for (path,) in rows]

    return ask


def ripgrep(folder: Path) -> Asked:
    """Count with ripgrep how many words of the query a file has, and how often."""

    def ask(query: str) -> Found:
        held: Counter[str] = Counter()
        times: Counter[str] = Counter()
        for word in {word for word in re.findall(r"\w+", query.lower()) if len(word) >= _LEAST}:
            command = ["rg", "--count-matches", "-i", "-F", "--no-messages", "-e", word, "."]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            for line in done.stdout.splitlines():
                path, _, count = line.rpartition(":")
                held[path] += 1
                times[path] += int(count)
        best = sorted(held, key=lambda path: (-held[path], -times[path], path))
        return [(path.removeprefix("./"), None) for path in best[:TOP]]

    return ask


def semble(folder: Path, *, ranks: bool) -> Asked:
    """Search with semble's chunks and BM25, with or without its ranking."""
    ranking, search, tokens, chunking, bm25, files, sparse = (
        import_module(f"semble.{name}")
        for name in ("ranking", "search", "tokens", "chunking", "index.bm25", "index.files", "index.sparse")
    )
    index, chunks, names = bm25.BM25.empty(), list[Any](), list[str]()
    for path, text in texts(folder):
        for chunk in chunking.chunk_source(text, path, files.detect_language(Path(path))):
            names.append(str(len(names)))
            chunks.append(chunk)
            index.add_document(names[-1], tokens.tokenize(sparse.enrich_for_bm25(chunk)))
    index.set_doc_order(names)

    def ask(query: str) -> Found:
        found = search._search_bm25(query, index, chunks, TOP * 5, None)
        ordered = [(one.chunk, one.score) for one in found]
        if ranks:
            scores = search._rrf_scores(dict(ordered))
            ranking.boost_multi_chunk_files(scores)
            scores = ranking.apply_query_boost(scores, query, chunks)
            ordered = ranking.rerank_topk(scores, TOP * 3, penalise_paths=True)
        return [(path, None) for path in list(dict.fromkeys(chunk.file_path for chunk, _ in ordered))[:TOP]]

    return ask


def texts(folder: Path) -> Iterable[tuple[str, str]]:
    """Yield the files below a folder with their texts."""
    for place in sorted(folder.rglob("*")):
        if place.is_file() and not place.is_symlink() and place.stat().st_size <= MAX_BYTES:
            content = place.read_bytes()
            if b"\0" not in content[:1_024]:
                yield place.relative_to(folder).as_posix(), content.decode("utf-8", "replace")


def contenders() -> dict[str, Callable[[Path], Asked]]:
    """Return everybody who can take part here."""
    known: dict[str, Callable[[Path], Asked]] = {}
    if shutil.which("rg"):
        known["ripgrep, words of the query"] = ripgrep
    known["plain FTS5, whole files"] = plain_fts5
    if find_spec("semble") is not None:
        known["semble, BM25 alone"] = lambda folder: semble(folder, ranks=False)
        known["semble, BM25 and ranking"] = lambda folder: semble(folder, ranks=True)
    return {**known, "carrel": carrel}


def targets_of(question: dict[str, Any], top: Path, root: str) -> Found:
    """Return the files that answer a question, as paths of the repository."""
    found: Found = []
    for raw in question.get("relevant", []) + question.get("secondary", []):
        one = {"path": raw} if isinstance(raw, str) else raw
        path = one["path"]
        if root and not path.startswith(f"{root}/") and (top / root / path).is_file():
            path = f"{root}/{path}"
        first, last = one.get("start_line"), one.get("end_line")
        found.append((path, (int(first), int(last)) if first and last else None))
    return found


def ndcg(targets: Found, hits: Found) -> float:
    """Return what an answer is worth: 1 if every target is found before everything else."""
    ranks = set()
    for path, lines in targets:
        for rank, (found, place) in enumerate(hits[:TOP], 1):
            if found == path and (not lines or not place or (place[0] <= lines[1] and lines[0] <= place[1])):
                ranks.add(rank)
                break
    best = sum(1 / math.log2(rank + 1) for rank in range(1, min(TOP, len(targets)) + 1))
    return sum(1 / math.log2(rank + 1) for rank in ranks) / best if best else 0.0


def judge(given: argparse.Namespace) -> dict[str, list[tuple[str, float]]]:
    """Ask everybody everything; return the category and the worth of each answer."""
    info = json.loads((given.checkouts / "checkouts.json").read_text(encoding="utf-8"))
    wanted = set(given.only.split(",")) if given.only else info.keys()
    worth: dict[str, list[tuple[str, float]]] = {name: [] for name in contenders()}
    for name in sorted(wanted & info.keys()):
        top, cwd = given.checkouts / name, info[name]["cwd"]
        questions = json.loads((given.questions / f"{name}.json").read_text(encoding="utf-8"))
        for who, made in contenders().items():
            ask = made((top / cwd).resolve())
            for question in questions:
                hits = [(f"{cwd}/{path}" if cwd else path, lines) for path, lines in ask(question["query"])]
                value = ndcg(targets_of(question, top, info[name]["root"]), hits)
                worth[who].append((question.get("category", "semantic"), value))
        print(name, file=sys.stderr, flush=True)
    return worth


def mean(worth: Sequence[tuple[str, float]], category: str = "") -> float:
    """Return the mean of one category, or of all."""
    values = [value for kind, value in worth if category in ("", kind)]
    return statistics.fmean(values) if values else 0.0


def main() -> int:
    """Judge and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.search_quality", description="What searches find.")
    parser.add_argument("--questions", type=Path, required=True, help="folder with the questions, a file each")
    parser.add_argument("--checkouts", type=Path, required=True, help="folder with the repositories")
    parser.add_argument("--only", default="", help="names of repositories, with commas")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the worth of every answer there")
    given = parser.parse_args()
    worth = judge(given)
    for who, values in worth.items():
        by_category = " / ".join(f"{mean(values, category):.2f}" for category in CATEGORIES)
        print(f"{who:30} {mean(values):.3f}   {by_category}   ({len(values)} questions)")
    if given.json:
        given.json.write_text(json.dumps(worth, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
