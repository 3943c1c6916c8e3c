"""TOML that somebody else wrote: what is refused before it costs time, memory or the stack."""

from time import process_time

import pytest

from carrel.toml import MAX_DEPTH, MAX_DOTS, TomlError, parse_toml


def test_a_usual_file_is_read_as_it_is() -> None:
    content = b'\xef\xbb\xbf[a."b.c"]\r\nd.e = [1.5, {f = """x""""}, 2024-01-31]\r\n# a.b.c\r\n'
    assert parse_toml(content)["a"]["b.c"]["d"]["e"][:2] == [1.5, {"f": 'x"'}]  # type: ignore[index]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"a" + b".a" * (MAX_DOTS + 1) + b" = 1", "a key has more than 64 dots (at line 1)", id="dots"),
        pytest.param(b"\n[a" + b' . "a"' * 70 + b"]", "a key has more than 64 dots (at line 2)", id="quoted-dots"),
        pytest.param(b"[[a" + b".a" * 70 + b"]]", "a key has more than 64 dots (at line 1)", id="array-of-tables"),
        pytest.param(
            b'x = {s = """q"""", a' + b".a" * 70 + b" = 1}",
            "a key has more than 64 dots (at line 1)",
            id="quotes-at-end",
        ),
        pytest.param(
            b"x = {s = '''q'''', a" + b".a" * 70 + b" = 1}",
            "a key has more than 64 dots (at line 1)",
            id="ticks-at-end",
        ),
        pytest.param(b"a = " + b"[" * 5000, f"nested more than {MAX_DEPTH} deep (at line 1)", id="arrays"),
        pytest.param(b"a = " + b"{a = " * 5000, f"nested more than {MAX_DEPTH} deep (at line 1)", id="tables"),
        pytest.param(
            b"a = " + b"{a.a.a.a.a = " * 30 + b"1" + b"}" * 30, f"nested more than {MAX_DEPTH} deep", id="sum"
        ),
        pytest.param(b"a = " + b"9" * 5000, "a number has more than 64 characters (at line 1)", id="decimal"),
        pytest.param(b"a = -0x" + b"f" * 5000, "a number has more than 64 characters (at line 1)", id="hexadecimal"),
        pytest.param(b"a = '" + b"x" * 99 + b"'", "larger than 64 bytes", id="size"),
        pytest.param(b"a = '\xff'", "not UTF-8 at byte 5; save it as UTF-8", id="bytes"),
    ],
)
def test_what_is_refused_says_which_bound_it_broke(content: bytes, told: str) -> None:
    with pytest.raises(TomlError, match="^" + told.replace("(", r"\(").replace(")", r"\)")):
        parse_toml(content, 64 if "bytes" in told else 1_048_576)


@pytest.mark.parametrize("content", [b"a = 2024-02-30", b"a = 0000-01-01", b"a =", b"[a", b'"\\u001b[31m" ='])
def test_what_is_not_toml_is_a_toml_error_without_control_characters(content: bytes) -> None:
    with pytest.raises(TomlError, match="not valid TOML: ") as raised:
        parse_toml(content)
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    "content",
    [
        b"\n".join(b"a." * 60 + b"b%d = 1" % number for number in range(7000)),
        b"[" + b"h." * 60 + b"h]\n" + b"\n".join(b"a.a.a.a.a.b%d = 1" % number for number in range(40_000)),
        b"\n".join(b"[" + b"h." * 60 + b"x%d]" % number for number in range(7000)),
    ],
    ids=["keys", "keys-below-a-header", "headers"],
)
def test_many_long_keys_are_refused_before_they_are_parsed(content: bytes) -> None:
    began = process_time()
    with pytest.raises(TomlError, match="too many long dotted keys"):
        parse_toml(content)
    assert process_time() - began < 1


def test_dots_in_texts_and_comments_count_for_nothing() -> None:
    dots = b"a." * 500
    content = b"a = '" + dots + b"' # " + dots + b'\nb = """\n' + dots + b'"""\n"' + dots + b'" = 1'
    assert len(parse_toml(content)) == 3
