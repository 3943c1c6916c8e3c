"""The static reader of Lua, beside a real interpreter: where both give a value, they agree."""

import json
from collections.abc import Iterator
from time import thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lupa.lua54 import LuaError, LuaRuntime, lua_type

from carrel.providers.alc.lua_source import Facts, read_facts
from tests.providers.alc.lua_cases import ABSENT, VALUES

PRELUDE = "local M = {}\nlocal x = 5\nlocal function f() return 7 end\n"
RUNTIME = LuaRuntime(encoding=None, register_eval=False)

Leaves = dict[tuple[str, ...], object]


def in_lua(source: str) -> Leaves | None:
    """Run a module in Lua; return the scalars of its `meta` by their paths, or None if Lua refuses it."""
    try:
        module: Any = RUNTIME.execute(source.encode())
        return dict(leaves_of_lua(module[b"meta"], ()))
    except (LuaError, TypeError):
        return None


def leaves_of_lua(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    if lua_type(value) == "table":
        for key, inner in value.items():
            yield from leaves_of_lua(inner, (*path, spelled(key)))
    else:
        yield path, spelled(value) if isinstance(value, bytes) else value


def spelled(key: object) -> str:
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)


def leaves_of_json(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves_of_json(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value, 1):
            yield from leaves_of_json(inner, (*path, str(number)))
    elif value is not None:
        yield path, value


def agree(source: str, facts: Facts) -> bool:
    """Return whether all that is known statically is so, and whether Lua took the source at all."""
    ran = in_lua(source)
    if ran is None:
        return False
    for path, value in leaves_of_json(facts.meta):
        assert (type(ran[path]), repr(ran[path])) == (type(value), repr(value)), path
    return True


@pytest.mark.parametrize(("text", "expected", "unresolved"), VALUES, ids=[case[0] for case in VALUES])
def test_a_value_is_what_lua_says_it_is_or_named_as_not_known(
    text: str, expected: object, unresolved: tuple[str, ...]
) -> None:
    source = f"{PRELUDE}M.meta = {{ v = {text} }}\nreturn M\n"

    facts = read_facts(source)

    assert facts == Facts({} if expected is ABSENT else {"v": expected}, True, unresolved, False)
    ran = agree(source, facts)
    assert ran or unresolved == ("v",)


def test_the_oracle_takes_part_in_at_least_sixty_cases() -> None:
    sources = [f"{PRELUDE}M.meta = {{ v = {text} }}\nreturn M\n" for text, _, unresolved in VALUES if not unresolved]

    assert len(sources) >= 60
    assert all(in_lua(source) is not None for source in sources)


PLACES: tuple[tuple[str, dict[str, object], bool, tuple[str, ...]], ...] = (
    ("M.meta = { a = 1 }", {"a": 1}, True, ()),
    ('M["meta"] = { a = 1 }', {"a": 1}, True, ()),
    ("M.meta = { a = 1 }\nM.meta = { b = 2 }", {"b": 2}, True, ()),
    ("M.meta = { a = 1 }\nM.meta.b = 2", {"a": 1, "b": 2}, True, ()),
    ('M.meta = { a = { } }\nM.meta.a["x y"] = "z"\nM.meta["a"].w = { 1 }', {"a": {"x y": "z", "w": [1]}}, True, ()),
    ('M.meta = { tags = { "a" } }\nM.meta.tags[2] = "b"', {"tags": ["a", "b"]}, True, ()),
    ("M.meta = { a = 1 }\nM.meta.a = nil", {}, True, ()),
    ("M.meta = { a = 1 }\nM.meta.a = f()", {}, True, ("a",)),
    ("M.meta = { a = f() }\nM.meta.a = 1", {"a": 1}, True, ()),
    ("M.meta = { a = 1 }\nM.meta[f()] = 1", {"a": 1}, True, ("[?]",)),
    ("M.meta, M.other = { a = 1 }, 2", {"a": 1}, True, ()),
    ("M.meta = { a = f(), b = { x, 2 } }", {"b": [None, 2]}, True, ("a", "b[1]")),
    ("local M = { meta = { a = 1 } }", {"a": 1}, True, ()),
    ('local M = { ["meta"] = { a = 1 }, other = f() }', {"a": 1}, True, ()),
    ("M.meta = { a = 1 }\nlocal M = { }", {}, False, ()),
    ("-- M.meta = { a = 1 }\n--[[ M.meta = { a = 2 } ]]\nM.meta = { a = 3 }", {"a": 3}, True, ()),
    ('local s = "M.meta = { a = 1 }"\nlocal l = [[\nM.meta = { a = 2 }\n]]\nM.meta = { a = 3 }', {"a": 3}, True, ()),
    ("M.meta = { a = 1 }\nlocal function g() M.meta = { a = 2 } end", {"a": 1}, True, ()),
    ("local N = { }\nN.meta = { a = 1 }", {}, False, ()),
    ("M.metadata = { a = 1 }", {}, False, ()),
    ("M.meta = f", {}, False, ("M.meta",)),
    ("M.meta = nil", {}, False, ()),
    ("M.meta = ({ a = 1 })", {"a": 1}, True, ()),
    ('M.meta = { "a" }', {"1": "a"}, True, ()),
)


@pytest.mark.parametrize(("body", "meta", "has_meta", "unresolved"), PLACES, ids=[case[0] for case in PLACES])
def test_the_table_is_found_where_it_counts_and_nowhere_else(
    body: str, meta: dict[str, object], has_meta: bool, unresolved: tuple[str, ...]
) -> None:
    source = f"{PRELUDE}{body}\nreturn M\n"

    facts = read_facts(source)

    assert facts == Facts(meta, has_meta, unresolved, False)
    assert not has_meta or agree(source, facts)


def test_blocks_do_not_count() -> None:
    source = "local M = {}\nif true then M.meta = { a = 1 } end\ndo M.meta = { a = 2 } end\nreturn M\n"

    assert read_facts(source) == Facts({}, False, (), False)


CHANGES: tuple[tuple[str, dict[str, object], tuple[str, ...]], ...] = (
    ("table.insert(M.meta.tags, 'y')", {"a": 1}, ("tags",)),
    ("table.insert(M.meta.tags, 1, 'y')\ntable.sort(M.meta.tags)", {"a": 1}, ("tags",)),
    ("local n = table.insert(M.meta.tags, 'y')", {"a": 1}, ("tags",)),
    ("extend(M.meta['tags'])", {"a": 1}, ("tags",)),
    ("M.meta.tags:extend('y')", {"a": 1}, ("tags",)),
    ("rawset(M.meta, 'a', 2)", {"tags": ["x"]}, ("a",)),
    ("rawset(M.meta.tags, 1, 'y')", {"a": 1, "tags": [None]}, ("tags[1]",)),
    ("decorate(M.meta)", {"a": 1, "tags": ["x"]}, ("M.meta",)),
    ("local meta = M.meta\nmeta.a = 2", {"tags": ["x"]}, ("a",)),
    ("local m = M\nlocal t = m.meta.tags\nt[1] = 'y'", {"a": 1, "tags": [None]}, ("tags[1]",)),
    ("local t = M.meta.tags\ntable.insert(t, 'y')", {"a": 1}, ("tags",)),
    ("if f() then M.meta.a = 2 end", {"tags": ["x"]}, ("a",)),
    ("if f() then M.meta = { a = 2 } else M.meta.a = 3 end", {}, ("M.meta",)),
    ("for _, t in ipairs({ 'y' }) do table.insert(M.meta.tags, t) end", {"a": 1}, ("tags",)),
    ("while f() do M.meta.tags[2] = 'y' end", {"a": 1, "tags": ["x", None]}, ("tags[2]",)),
    ("do local meta = M.meta\nmeta.a, meta.b = 2, 3 end", {"tags": ["x"]}, ("a", "b")),
    ("do M.meta[f()] = 2 end", {"a": 1, "tags": ["x"]}, ("[?]",)),
    ("if f() then M.meta.a = 2 end\nM.meta.a = 3", {"a": 3, "tags": ["x"]}, ()),
    ("if f() then M.meta.a = 2 end\nM.meta = { a = 4 }", {"a": 4}, ()),
)


@pytest.mark.parametrize(("body", "meta", "unresolved"), CHANGES, ids=[case[0] for case in CHANGES])
def test_what_may_have_changed_is_named_instead_of_reported(
    body: str, meta: dict[str, object], unresolved: tuple[str, ...]
) -> None:
    source = f"local M = {{}}\nM.meta = {{ a = 1, tags = {{ 'x' }} }}\n{body}\nreturn M\n"

    assert read_facts(source) == Facts(meta, True, unresolved, False)


@pytest.mark.parametrize(
    "body",
    [
        "assert(M.meta.tags)",
        "for _, tag in ipairs(M.meta.tags) do print(tag, M.meta) end",
        "print(M.meta.a, table.concat(M.meta.tags, ','))",
        "M.run = instrument(M, 'run')",
        "local meta = M.meta\nlocal name = meta.a",
        "local meta = M.meta\nmeta = {}\nmeta.a = 2",
        "if M.meta.a == 2 then M.other = 1 end",
        "function M.setup() M.meta.a = 2 table.insert(M.meta.tags, 'y') end",
        "if f() then function M.setup() M.meta.a = 2 end end",
        "local N = {}\nN.meta = {}\nN.meta.a = 2",
        "log(M.meta.a)",
    ],
)
def test_what_only_looks_at_the_table_changes_nothing(body: str) -> None:
    source = f"local M = {{}}\nM.meta = {{ a = 1, tags = {{ 'x' }} }}\n{body}\nreturn M\n"

    facts = read_facts(source)

    assert (facts.meta, facts.unresolved) == ({"a": 1, "tags": ["x"]}, ())


@pytest.mark.parametrize(
    "source",
    [
        "local P = {}\nP.meta = { a = 1 }\nreturn setmetatable(P, { __index = {} })\n",
        "local M = {}\nlocal P = { meta = { a = 1 } }\nreturn setmetatable(P, {})\n",
        "return setmetatable({ meta = { a = 1 } }, {})\n",
        "local M = setmetatable({ meta = { a = 1 } }, {})\nreturn M\n",
        "local M = {}\nM.meta = setmetatable({ a = 1 }, {})\nreturn M\n",
    ],
)
def test_a_metatable_hides_no_table(source: str) -> None:
    facts = read_facts(source)

    assert facts == Facts({"a": 1}, True, (), False)
    assert agree(source, facts)


def test_the_module_variable_is_the_one_returned_last() -> None:
    source = "local Sketch = {}\nSketch.meta = { a = 1 }\nlocal M = { meta = { a = 2 } }\nreturn Sketch -- done\n"

    facts = read_facts(source)

    assert facts == Facts({"a": 1}, True, (), False)
    assert agree(source, facts)


def test_a_returned_table_counts() -> None:
    source = 'return { meta = { name = "x" }, run = function() end }\n'

    facts = read_facts(source)

    assert facts == Facts({"name": "x"}, True, (), True)
    assert agree(source, facts)


@pytest.mark.parametrize(
    ("body", "runs"),
    [
        ("M.run = f", True),
        ("M['run'] = f", True),
        ("function M.run(ctx) end", True),
        ("function M:run() end", True),
        ("local M = { run = f }", True),
        ("-- function M.run() end", False),
        ("local s = 'M.run = 1'", False),
        ("function M.runner() end", False),
        ("M.other.run = f", False),
        ("N.run = f", False),
    ],
)
def test_a_package_that_defines_run_can_run(body: str, runs: bool) -> None:
    assert read_facts(f"local M = {{}}\n{body}\nreturn M\n").runs is runs


@pytest.mark.parametrize(
    ("source", "meta", "unresolved"),
    [
        ("M.meta = { a = 1, b = = 2, c = 3 }\nreturn M", {"a": 1, "c": 3}, ("[?]",)),
        ("M.meta = { a = 1, b 7, c = 3 }\nreturn M", {"a": 1, "c": 3}, ("[?]",)),
        ("M.meta = { a = 1, b = , c = 3 }\nreturn M", {"a": 1, "c": 3}, ("[?]",)),
        ("M.meta = { a = 1, l = { 1, b 7 }, c = 3 }\nreturn M", {"a": 1, "l": [1], "c": 3}, ("l[?]",)),
        ("M.meta = { a = 1, b = 2\nreturn M", {"a": 1, "b": 2}, ()),
        ("x = = 1\nM.meta = { a = 1 }\nfor i in do end end\nreturn M", {"a": 1}, ()),
        ("local function g(\n\nM.meta = { a = 1 }\nreturn M", {"a": 1}, ()),
        ("M.meta = { a = 1 }\nfunction M.run(ctx\n  if then\nreturn M", {"a": 1}, ()),
    ],
)
def test_an_error_costs_no_more_than_it_touches(
    source: str, meta: dict[str, object], unresolved: tuple[str, ...]
) -> None:
    facts = read_facts(source)

    assert (facts.meta, facts.has_meta, facts.unresolved) == (meta, True, unresolved)


def test_ten_thousand_pieces_are_joined() -> None:
    source = "M.meta = { v = " + " .. ".join(["'x'"] * 10_000) + " }\nreturn M"

    assert read_facts(source) == Facts({"v": "x" * 10_000}, True, (), False)


@pytest.mark.parametrize(("depth", "unresolved"), [(31, ()), (32, ("v" + "[1]" * 31,))])
def test_tables_nest_thirty_two_deep(depth: int, unresolved: tuple[str, ...]) -> None:
    source = "M.meta = { v = " + "{" * depth + "}" * depth + " }\nreturn M"

    assert read_facts(source).unresolved == unresolved


HOSTILE = {
    "nested": "M.meta = " + "{" * 100_000,
    "nested and closed": "M.meta = " + "{" * 100_000 + "}" * 100_000,
    "unclosed string": "M.meta = { a = '" + "x" * 5_000_000,
    "unclosed long string": "M.meta = { a = [==[" + "x" * 5_000_000,
    "parentheses": "M.meta = { a = " + "(" * 100_000 + "1" + ")" * 100_000 + " }",
    "minus signs": "M.meta = { a = " + "- " * 100_000 + "1 }",
    "dots": "M" + ".a" * 100_000 + " = 1",
    "begun again and again": "M.meta = {" * 50_000,
    "brackets": "M.meta={[" * 50_000,
    "functions": "function " * 100_000,
    "quotes": "'\n" * 200_000,
    "errors": "M.meta = {" + "'x' 7 " * 100_000 + "}",
    "nothing": "",
    "zeros": "\0" * 100_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_source_is_answered_soon(source: str) -> None:
    began = thread_time()

    facts = read_facts(source)

    assert thread_time() - began < 2
    json.dumps(facts.meta, allow_nan=False)


def lua_string(text: str) -> str:
    """Spell a text as Lua's own `%q` would: every byte escaped by number."""
    return '"' + "".join(f"\\{octet:03d}" for octet in text.encode()) + '"'


SCALARS = st.one_of(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=12).map(lambda text: (lua_string(text), text)),
    st.integers(-(2**63) + 1, 2**63 - 1).map(lambda number: (str(number), number)),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda number: (repr(number), number)),
    st.booleans().map(lambda word: (str(word).lower(), word)),
)
TABLES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map(
            lambda items: ("{" + ", ".join(text for text, _ in items) + "}", [value for _, value in items])
        ),
        st.dictionaries(st.sampled_from(["a", "b", "c d", "é"]), inner, max_size=3).map(
            lambda items: (
                "{" + "; ".join(f"[{lua_string(key)}] = {text}" for key, (text, _) in items.items()) + "}",
                {key: value for key, (_, value) in items.items()},
            )
        ),
    ),
    max_leaves=12,
)


@given(TABLES)
def test_whatever_is_spelled_is_read_back(case: tuple[str, object]) -> None:
    text, value = case
    source = f"local M = {{}}\nM.meta = {{ v = {text} }}\nreturn M"

    facts = read_facts(source)

    assert repr(facts.meta) == repr({"v": value})
    assert agree(source, facts)


@given(st.text(max_size=200))
def test_no_text_makes_it_raise(text: str) -> None:
    json.dumps(read_facts(f"M.meta = {{ a = {text}").meta, allow_nan=False)
