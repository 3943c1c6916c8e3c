"""The estimate of tokens beside a real tokenizer: never below it, and on average at most a quarter above."""

import base64
import json
import random
import sysconfig
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rs_bpe.bpe import openai

from carrel.core.tokens import JOINT, estimate_tokens

REPOSITORY = Path(__file__).parents[2]
PROSE = {
    path.stem: path.read_text(encoding="utf-8").split("\n\n")
    for path in sorted((REPOSITORY / "tests" / "support" / "prose").glob("*.txt"))
}
"""A story, a report and a manual in each of six languages, written for this test."""
MIN_CHARS = 400
"""Shorter texts are no samples: a single rare word may cost more than any estimate says."""

NOT_SAMPLES = {"site-packages", "test"}
"""Folders of the standard library that hold what others wrote, and lists that were generated."""

TEXTS = st.text(st.one_of(st.sampled_from("abzBQ09 \t\n.-─é字дの👍\x00"), st.characters()))


@cache
def true_tokens(text: str) -> int:
    return int(openai.o200k_base().count(text))


def ratio(text: str) -> float:
    return estimate_tokens(text) / true_tokens(text)


def prose(language: str) -> Iterator[str]:
    yield from PROSE[language]
    yield "\n".join(PROSE[language])


def files(folder: Path, pattern: str, most: int) -> Iterator[str]:
    """Yield about as many files as asked for, from all over the folder."""
    found = sorted(path for path in folder.rglob(pattern) if not NOT_SAMPLES & {*path.parts} and path.is_file())
    for path in found[:: max(1, len(found) // most)]:
        text = path.read_text(encoding="utf-8", errors="replace")
        if MIN_CHARS < len(text) < 200_000 and "\N{REPLACEMENT CHARACTER}" not in text:
            yield text


def logs() -> Iterator[str]:
    chance = random.Random(18)
    messages = (
        "GET /api/v1/users/{n}/orders?page={n} HTTP/1.1 200",
        "connection from 10.0.{b}.{b} closed after {n} ms",
        "request {uuid} took {n} ms",
        "cache miss for session:{hex}",
        "java.lang.NullPointerException: name is null\n\tat com.example.app.Service.run(Service.java:{b})",
        "Failed to open /var/lib/data/{hex}.db: No such file or directory",
        "token {base64} expired",
    )
    for form in ("2026-11-17T20:{m:02}:{m:02}.{b:03}Z", "Nov 17 20:{m:02}:{m:02} host", "[{n}.{b:03}]"):
        for _ in range(6):
            kinds = chance.sample(messages, 3)
            lines = []
            for _ in range(40):
                filling = {
                    "n": chance.randrange(10 ** chance.randrange(1, 7)),
                    "b": chance.randrange(256),
                    "m": chance.randrange(60),
                    "uuid": uuid.UUID(int=chance.getrandbits(128)),
                    "hex": f"{chance.getrandbits(64):x}",
                    "base64": base64.b64encode(chance.randbytes(24)).decode(),
                }
                level = chance.choice(["INFO", "WARN", "ERROR", "debug:"])
                lines.append(f"{form} {level} web[{{n}}]: {chance.choice(kinds)}".format(**filling))
            yield "\n".join(lines)


def json_texts() -> Iterator[str]:
    chance = random.Random(18)
    words = " ".join(PROSE["english"]).split()
    for indent in (None, 1, 2, 4):
        for _ in range(5):
            rows = [
                {
                    "id": chance.randrange(10**6),
                    "createdAt": f"2026-11-17T20:00:{chance.randrange(60):02}Z",
                    "user_id": str(uuid.UUID(int=chance.getrandbits(128))),
                    "description": " ".join(chance.sample(words, 8)),
                    "price": chance.random() * 100,
                    "tags": chance.sample(words, 3),
                    "isActive": chance.random() < 0.5,
                }
                for _ in range(12)
            ]
            yield json.dumps(rows, indent=indent, separators=(",", ":") if indent is None else None)
    yield from files(REPOSITORY / "tests", "*.json", 4)


SAMPLES: dict[str, Callable[[], Iterable[str]]] = {
    **{language: partial(prose, language) for language in PROSE},
    "Python of the standard library": lambda: files(Path(sysconfig.get_path("stdlib")), "*.py", 60),
    "Python of this repository": lambda: files(REPOSITORY / "src", "*.py", 60),
    "headers of C": lambda: files(Path(sysconfig.get_path("include")), "*.h", 40),
    "Markdown": lambda: files(REPOSITORY / "docs", "*.md", 20),
    "TOML": lambda: [(REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")],
    "JavaScript": lambda: files(REPOSITORY / "tests", "*.mjs", 2),
    "logs": logs,
    "JSON": json_texts,
}


def alternating(text: str) -> str:
    return "".join(letter.upper() if at % 2 else letter.lower() for at, letter in enumerate(text))


ODD: dict[str, Callable[[], str]] = {
    "words in alternating case": lambda: alternating(" ".join(PROSE["english"])),
    "letters in alternating case": lambda: alternating("".join("".join(PROSE["english"]).split())),
    "words in capitals": lambda: " ".join(PROSE["english"]).upper(),
    "a generated list of short words": lambda: (
        REPOSITORY / "src" / "carrel" / "providers" / "scopes" / "alias_words.py"
    ).read_text(encoding="utf-8"),
    "a generated list of constants": lambda: "\n".join(f"NPY_{n:X}_{n * 7919 % 997} = {n * n}" for n in range(300)),
    "names from everywhere": lambda: (
        "Łukasz Żółć <lukasz@example.org>\nJosé Ñuñez\nĐặng Văn Sỹ\nŠárka Dvořáková\nÅsa Öberg\n" * 8
    ),
    "decimal fractions": lambda: " ".join(repr(random.Random(n).random()) for n in range(100)),
    "tabs among spaces": lambda: " \t" * 300,
    "numbers": lambda: "\n".join(str(n * 7919 % 1_000_003) for n in range(300)),
}
"""Texts that are no samples of anything that people write."""


@pytest.mark.parametrize("kind", ODD)
def test_odd_texts_are_not_below_the_true_count_either(kind: str) -> None:
    assert ratio(ODD[kind]()) >= 1


@cache
def ratios(kind: str) -> list[float]:
    return [ratio(text) for text in SAMPLES[kind]() if len(text) > MIN_CHARS or kind == "chinese"]


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_estimate_is_never_below_the_true_count(kind: str) -> None:
    assert min(ratios(kind)) >= 1


@pytest.mark.parametrize("kind", SAMPLES)
def test_no_kind_of_text_costs_much_more_than_it_is(kind: str) -> None:
    assert fmean(ratios(kind)) <= 1.5


def test_the_estimate_is_on_average_at_most_a_quarter_above() -> None:
    """Each kind counts once: how many files there are of a kind depends on the machine."""
    assert fmean(fmean(ratios(kind)) for kind in SAMPLES) <= 1.25


def test_nothing_costs_nothing_and_anything_costs_something() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens(" ") == 1
    assert estimate_tokens("\udc80") > 0


@given(TEXTS, TEXTS)
def test_two_texts_joined_cost_at_most_their_sum_and_a_constant(first: str, second: str) -> None:
    assert estimate_tokens(first + second) <= estimate_tokens(first) + estimate_tokens(second) + JOINT


@given(TEXTS.filter(bool), st.integers(1, 3))
def test_a_long_text_costs_as_much_as_its_repetitions(text: str, more: int) -> None:
    """Texts longer than one step of the count: where a step ends makes no difference."""
    times = (1 << 15) // len(text) + more

    assert abs(estimate_tokens(text * times) - times * estimate_tokens(text)) <= times * (JOINT + 1)


def test_where_a_step_ends_makes_no_difference() -> None:
    line = "def read(self, uri: str) -> Reading:  # 1234 bcdfg\n"
    once = estimate_tokens(line * 10_000) - estimate_tokens(line * 9_000)
    again = estimate_tokens(line * 11_000) - estimate_tokens(line * 10_000)

    assert abs(once - again) <= 1


def test_a_large_text_is_estimated_in_no_time() -> None:
    text = "def read(self, uri: str) -> Reading:  # 1234\n" * 100_000
    began = time.perf_counter()

    estimate_tokens(text)

    assert time.perf_counter() - began < len(text) / 2_000_000  # 2 MB/s; a machine at rest has 50
