"""How the estimate of tokens compares with a real tokenizer: by kind of text, and for hostile texts.

    python -m bench.estimate [--texts N]

The texts are those of `tests/core/test_tokens.py`; of hostile texts, N of each kind.
"""

import argparse
import random
from statistics import fmean

from rs_bpe.bpe import openai

from carrel.core.tokens import estimate_tokens
from tests.support.token_samples import HOSTILE, SAMPLES


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=1_000, help="hostile texts of each kind")
    asked = parser.parse_args()
    count = openai.o200k_base().count
    print("| kind | texts | on average | lowest |\n| --- | --: | --: | --: |")
    for kind, texts in SAMPLES.items():
        ratios = [estimate_tokens(text) / count(text) for text in texts()]
        print(f"| {kind} | {len(ratios)} | {fmean(ratios):.2f} | {min(ratios):.2f} |")
    below = 0
    chance = random.Random(18)
    for make in HOSTILE.values():
        texts_of_kind = (make(chance, chance.randrange(1, 600)) for _ in range(asked.texts))
        below += sum(estimate_tokens(text) < count(text) for text in texts_of_kind)
    print(f"\n{below} of {asked.texts * len(HOSTILE):,} hostile texts are below the true count")


if __name__ == "__main__":
    main()
