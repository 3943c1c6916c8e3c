"""How the estimate of tokens compares with a real tokenizer: by kind of text, and for hostile texts.

    python -m bench.estimate [--texts N]
    python -m bench.estimate --tree FOLDER [--files N]

The texts are those of `tests/core/test_tokens.py`; of hostile texts, N of each kind. Or the text files below any
folder, for texts that the weights were not made with: by the end of their names, N of each chosen at random.
"""

import argparse
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import fmean

from rs_bpe.bpe import openai

from carrel.core.tokens import estimate_tokens
from tests.support.token_samples import HOSTILE, SAMPLES

MOST_BYTES = 1_000_000
FEWEST_FILES = 20
"""Kinds with fewer files are left out of the table."""
COUNT = openai.o200k_base().count


def ratio(text: str) -> float:
    """Return the estimate of a text as a multiple of its true count."""
    return estimate_tokens(text) / int(COUNT(text))


def show(kinds: Mapping[str, list[float]]) -> None:
    """Print a row for each kind of text, from the ratios of its texts."""
    print("| kind | texts | on average | lowest | below |\n| --- | --: | --: | --: | --: |")
    for kind, ratios in kinds.items():
        below = sum(one < 1 for one in ratios)
        print(f"| {kind} | {len(ratios)} | {fmean(ratios):.2f} | {min(ratios):.2f} | {below} |")


def show_hostile(each: int) -> None:
    """Print how many hostile texts are below their true count."""
    chance = random.Random(18)
    below = 0
    for make in HOSTILE.values():
        below += sum(ratio(make(chance, chance.randrange(1, 600))) < 1 for _ in range(each))
    print(f"\n{below} of {each * len(HOSTILE):,} hostile texts are below the true count")


def files_by_kind(tree: Path, most: int) -> Iterator[tuple[str, list[Path]]]:
    """Yield the ends of names below a folder, each with at most `most` of its files."""
    found: defaultdict[str, list[Path]] = defaultdict(list)
    for file in sorted(tree.rglob("*.*")):
        if file.is_file() and not file.is_symlink() and 0 < file.stat().st_size <= MOST_BYTES:
            found[file.suffix].append(file)
    for kind, files in sorted(found.items()):
        if len(files) >= FEWEST_FILES:
            yield kind, random.Random(kind).sample(files, min(most, len(files)))


def texts_of(files: Iterable[Path]) -> Iterator[str]:
    """Yield what files hold that are text."""
    for file in files:
        data = file.read_bytes()
        if b"\0" not in data:
            yield data.decode("utf-8", "replace")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=1_000, help="hostile texts of each kind")
    parser.add_argument("--tree", type=Path, help="a folder whose text files are compared instead")
    parser.add_argument("--files", type=int, default=1_000, help="files of each kind below that folder")
    asked = parser.parse_args()
    if asked.tree is None:
        show({kind: [ratio(text) for text in texts()] for kind, texts in SAMPLES.items()})
        show_hostile(asked.texts)
        return
    kinds = {kind: [ratio(text) for text in texts_of(files)] for kind, files in files_by_kind(asked.tree, asked.files)}
    show({kind: ratios for kind, ratios in kinds.items() if ratios})


if __name__ == "__main__":
    main()
