"""The estimate of tokens beside a real tokenizer: never below it, and on average at most a quarter above."""

import random
import re
import time
from collections.abc import Iterator
from functools import cache
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rs_bpe.bpe import openai

from carrel.core import token_weights
from carrel.core.tokens import JOINT, estimate_tokens
from tests.support.token_samples import HOSTILE, ODD, SAMPLES

TEXTS = st.text(st.one_of(st.sampled_from("abzBQ09 \t\n.-─é字дの👍\x00"), st.characters()))

ROUGH = {"base64": 1.35}
"""Random letters cost what they cost: a lower estimate of base64 would be too low for others."""
HARDLY_BELOW = 0.9
"""The least share of the true count, four tokens aside. Of 20,000 texts of random Russian letters, 54 were below."""


def true_tokens(text: str) -> int:
    return int(openai.o200k_base().count(text))


def ratio(text: str) -> float:
    return estimate_tokens(text) / true_tokens(text)


@cache
def ratios(kind: str) -> list[float]:
    found = [ratio(text) for text in SAMPLES[kind]()]
    assert found
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAMPLES)
def test_the_estimate_is_never_below_the_true_count(kind: str) -> None:
    assert min(ratios(kind)) >= 1


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_estimate_of_each_kind_is_on_average_at_most_a_quarter_above(kind: str) -> None:
    assert fmean(ratios(kind)) <= ROUGH.get(kind, 1.25)


@pytest.mark.parametrize("kind", ODD)
def test_odd_texts_are_not_below_the_true_count_either(kind: str) -> None:
    assert ratio(ODD[kind]()) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
@settings(derandomize=True, max_examples=100)
@given(seed=st.integers(0, 1 << 64), length=st.integers(1, 600))
def test_hostile_texts_are_hardly_below_the_true_count(kind: str, seed: int, length: int) -> None:
    text = HOSTILE[kind](random.Random(seed), length)

    assert estimate_tokens(text) >= HARDLY_BELOW * true_tokens(text) - 4


@settings(derandomize=True, max_examples=300)
@given(st.text())
def test_a_text_of_any_characters_is_hardly_below_the_true_count(text: str) -> None:
    assert estimate_tokens(text) >= HARDLY_BELOW * true_tokens(text) - 4


@pytest.mark.slow
def test_the_characters_that_count_as_one_token_are_one_token() -> None:
    listed = set(_characters(token_weights.FREQUENT)) | set(_characters(token_weights.OTHER_CHINESE))
    codes = [*range(0x80, 0xD800), *range(0xE000, 0x110000)]

    assert listed == {chr(code) for code in codes if true_tokens(chr(code)) == 1}


def _characters(ranges: str) -> Iterator[str]:
    """Yield the characters of a set of `re`."""
    for first, last in re.findall("(.)(?:-(.))?", ranges, re.DOTALL):
        yield from map(chr, range(ord(first), ord(last or first) + 1))


def test_nothing_costs_nothing_and_anything_costs_something() -> None:
    assert estimate_tokens("") == 0
    assert 0 < estimate_tokens(" ") < 5
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
