"""TOML of strangers: what is TOML is read, and nothing takes long."""

import tomllib
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.core import toml
from carrel.core.toml import MAX_DOTS, TomlError

LONG = ".".join(["a"] * (MAX_DOTS + 2))


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG} = 1",
        f"x = 1\n[{LONG}]",
        f"[[ {LONG} ]]",
        f"x = {{ y = 1, {LONG} = 2 }}",
        f"x = [ 1,\n {{ {LONG} = 2 }} ]",
        " . ".join(["a"] * (MAX_DOTS + 2)) + " = 1",
        ".".join(['"a\'"', "'b\"'"] * MAX_DOTS) + " = 1",
        f'"".a = 1\n{LONG} = 1',
        f'x = """ends with quotes"""""\n{LONG} = 1',
        f"x = '''ends with quotes'''''\n{LONG} = 1",
        f'x = "\\\\"\n{LONG} = 1',
    ],
)
def test_a_key_of_many_dots_is_refused_wherever_it_stands(text: str) -> None:
    with pytest.raises(TomlError, match=r"a key has more than 64 dots \(at line [12]\)"):
        toml.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        ".".join(["a"] * (MAX_DOTS + 1)) + " = 1",
        ".".join(['"a.b.c"', "'d.e.f'"] * 30) + " = 1",
        f'x = "{LONG}"',
        f"x = '{LONG}'",
        f'x = "\\"{LONG}"',
        f'x = """\n{LONG} = 1\n"{LONG}"""',
        f"x = '''\n{LONG} = 1\n'{LONG}'''",
        f"# {LONG}\nx = 1 # {LONG}",
        "x = [" + "1.5, " * 100 + "]\ny = 1979-05-27T07:32:00.999999Z",
        'x = "' + "9" * 10_000 + '"',
    ],
)
def test_dots_elsewhere_do_no_harm(text: str) -> None:
    assert toml.loads(text) == tomllib.loads(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = " + "9" * 5_000, "a key or number is longer than 4000 characters (at line 1)"),
        ("\nx = 0x" + "f" * 5_000, "a key or number is longer than 4000 characters (at line 2)"),
        ("x = " + "[" * 50_000, "nested more than 100 deep"),
        ("x = " + "{a.a.a.a.a = " * 30 + "1" + "}" * 30, "nested more than 100 deep"),
        ("x = 2024-02-30", "Invalid date or datetime (at line 1, column 5)"),
        ("x = ", "Invalid value (at end of document)"),
    ],
)
def test_what_cannot_be_read_says_why_without_advice_for_programmers(text: str, reason: str) -> None:
    with pytest.raises(TomlError) as caught:
        toml.loads(text)

    assert str(caught.value) == reason


@pytest.mark.parametrize("text", ["x = 2024-02-30", "x = 0000-01-01", "x =", "[x", '"\\u001b[31m" ='])
def test_no_message_holds_control_characters(text: str) -> None:
    with pytest.raises(TomlError) as caught:
        toml.loads(text)

    assert str(caught.value).isprintable()


HEADER = f"[{LONG[:-4]}]\n"
SLOW = {
    "one long key": ".".join(["a"] * 500_000) + " = 1",
    "long headers": "".join(f"[k{number}.{LONG[:-6]}]\n" for number in range(30_000)),
    "long keys below a long header": HEADER + "".join(f"k{number}.{LONG[:-6]} = 1\n" for number in range(30_000)),
    "short keys below a long header": HEADER + "".join(f"k{number} = 1\n" for number in range(400_000)),
    "an unclosed string": 'x = """' + '"\\' * 1_000_000,
    "quotes": '"' * 1_000_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("text", SLOW.values(), ids=SLOW.keys())
def test_hostile_text_is_refused_soon(text: str) -> None:
    began = thread_time()

    with pytest.raises(TomlError):
        toml.loads(text)

    assert thread_time() - began < 5


WORDS = st.sampled_from(
    [".", "a", '"', "'", '"""', "'''", "\\", "\n", "#", "=", "[", "]", "{", "}", ",", " ", "1", LONG]
)


@given(st.lists(WORDS, max_size=40).map("".join))
def test_whatever_is_taken_is_read_as_usual_and_only_long_keys_are_refused_besides(text: str) -> None:
    try:
        found = toml.loads(text)
    except TomlError as error:
        if "more than" not in str(error):
            with pytest.raises(tomllib.TOMLDecodeError):
                tomllib.loads(text)
    else:
        assert found == tomllib.loads(text)
