"""One splice a change: what is inserted where, in the style of the file."""

import pytest

from carrel.connect import splice
from carrel.connect.errors import BrokenFile, NotSpliceable
from carrel.connect.splice import EntryPlace

ENTRY = {"command": "carrel", "args": ["serve"]}
JSON = EntryPlace("json", ("mcpServers",), "carrel")
JSONC = EntryPlace("jsonc", ("mcpServers",), "carrel")
TOML = EntryPlace("toml", ("mcp_servers",), "carrel")
YAML = EntryPlace("yaml", ("extensions",), "carrel")
LISTED = EntryPlace("yaml", ("mcpServers",), "carrel", is_listed=True, new_file={"name": "Carrel", "schema": "v1"})

INLINE = '"carrel": {"command": "carrel", "args": ["serve"]}'
TABBED = """{
\t"mcpServers": {
\t\t"x": {},
\t\t"carrel": {
\t\t\t"command": "carrel",
\t\t\t"args": ["serve"]
\t\t},
\t},
}
"""
FIRST = """{
  "mcpServers": {
    "carrel": {
      "command": "carrel",
      "args": ["serve"]
    },
    "x": {} // mine
  }
}"""
ADDED: dict[str, tuple[EntryPlace, str, str]] = {
    "an empty file": (
        JSON,
        "",
        '{\n  "mcpServers": {\n    "carrel": {\n      "command": "carrel",\n      "args": ["serve"]\n    }\n  }\n}\n',
    ),
    "one line": (JSON, '{"mcpServers": {"x": {}}}', f'{{"mcpServers": {{"x": {{}}, {INLINE}}}}}'),
    "no servers in one line": (JSON, '{"a": 1}', f'{{"a": 1, "mcpServers": {{{INLINE}}}}}'),
    "tabs, and a comma after the last value": (
        JSONC,
        '{\n\t"mcpServers": {\n\t\t"x": {},\n\t},\n}\n',
        TABBED,
    ),
    "a comment behind the last value": (
        JSONC,
        '{\n  "mcpServers": {\n    "x": {} // mine\n  }\n}',
        FIRST,
    ),
    "a table": (TOML, "a = 1\n", 'a = 1\n\n[mcp_servers.carrel]\ncommand = "carrel"\nargs = ["serve"]\n'),
    "an inline table": (
        TOML,
        "mcp_servers = { x = { command = 'a' } }\n",
        'mcp_servers = { x = { command = \'a\' }, carrel = {command = "carrel", args = ["serve"]} }\n',
    ),
    "a mapping": (
        YAML,
        "extensions:\n    x: # c\n        cmd: y\n",
        'extensions:\n    carrel:\n      command: carrel\n      args: ["serve"]\n    x: # c\n        cmd: y\n',
    ),
    "a list": (
        LISTED,
        "mcpServers:\n- name: x\n",
        'mcpServers:\n- name: carrel\n  command: carrel\n  args: ["serve"]\n- name: x\n',
    ),
    "a new file of a host that wants more": (
        LISTED,
        "",
        'name: Carrel\nschema: v1\nmcpServers:\n  - name: carrel\n    command: carrel\n    args: ["serve"]\n',
    ),
    "a block that ends without a line end": (
        YAML,
        "a: |\n  x",
        'extensions:\n  carrel:\n    command: carrel\n    args: ["serve"]\na: |\n  x',
    ),
}


@pytest.mark.parametrize(("target", "text", "after"), ADDED.values(), ids=ADDED.keys())
def test_an_entry_is_added_in_the_style_of_the_file(target: EntryPlace, text: str, after: str) -> None:
    spliced = splice.add(text, target, ENTRY)

    assert spliced.text == after
    assert splice.remove(after, target, spliced.piece, spliced.made) == text


CHANGED: dict[str, tuple[EntryPlace, str, str]] = {
    "JSON": (JSON, '{"mcpServers": {"carrel": {"command": "old"}, "x": 1}}', f'{{"mcpServers": {{{INLINE}, "x": 1}}}}'),
    "TOML": (
        TOML,
        "[mcp_servers.carrel]\ncommand = 'old'\n[mcp_servers.carrel.env]\nA = '1'\n\n# b\n[b]\n",
        '[mcp_servers.carrel]\ncommand = "carrel"\nargs = ["serve"]\n\n# b\n[b]\n',
    ),
    "YAML": (
        YAML,
        "extensions:\n  carrel:\n    cmd: old\n  # x\n  x: {}\n",
        'extensions:\n  carrel:\n    command: carrel\n    args: ["serve"]\n  # x\n  x: {}\n',
    ),
    "YAML in braces": (
        YAML,
        "extensions: {carrel: {cmd: old}, x: {}}\n",
        'extensions: {"carrel": {"command": "carrel", "args": ["serve"]}, x: {}}\n',
    ),
}


@pytest.mark.parametrize(("target", "text", "after"), CHANGED.values(), ids=CHANGED.keys())
def test_an_entry_that_exists_is_changed_in_its_place(target: EntryPlace, text: str, after: str) -> None:
    assert splice.add(text, target, ENTRY).text == after
    assert splice.add(after, target, ENTRY).text == after


CUT: dict[str, tuple[EntryPlace, str, str]] = {
    "the first": (JSON, '{"mcpServers": {"carrel": {}, "x": {}}}', '{"mcpServers": { "x": {}}}'),
    "the last": (JSON, '{"mcpServers": {"x": {}, "carrel": {}}}', '{"mcpServers": {"x": {}}}'),
    "the only one": (JSON, '{\n  "mcpServers": {\n    "carrel": {}\n  }\n}', '{\n  "mcpServers": {}\n}'),
    "with comments": (
        JSONC,
        '{"mcpServers": {/* a */ "x": {} /* b */, // c\n "carrel": {} /* d */ }}',
        '{"mcpServers": {/* a */ "x": {} /* b */ // c\n /* d */ }}',
    ),
    "a table": (TOML, "a = 1\n[mcp_servers.carrel]\nb = 2\n[c]\n", "a = 1\n[c]\n"),
    "a mapping": (YAML, "extensions:\n  x: 1\n  carrel:\n    a: 1\n# end\n", "extensions:\n  x: 1\n# end\n"),
}


@pytest.mark.parametrize(("target", "text", "after"), CUT.values(), ids=CUT.keys())
def test_an_entry_whose_insertion_is_unknown_is_cut_out(target: EntryPlace, text: str, after: str) -> None:
    assert splice.remove(text, target) == after


def test_keys_that_were_added_go_with_the_entry_even_if_another_program_wrote_the_file_anew() -> None:
    spliced = splice.add('{"a": 1}', JSON, ENTRY)
    anew = '{\n    "mcpServers": {\n        "carrel": {"command": "carrel"}\n    },\n    "a": 1\n}\n'

    assert splice.remove(anew, JSON, spliced.piece, spliced.made) == '{\n    "a": 1\n}\n'
    assert splice.remove(anew, JSON) == '{\n    "mcpServers": {},\n    "a": 1\n}\n'


BROKEN: dict[str, tuple[EntryPlace, str, str]] = {
    "a comma too many": (JSON, '{"a": 1,}', "line 1, column 9: this host's settings may not have a comma after"),
    "a comment": (JSON, "{\n// x\n}", "line 2, column 1: this host's settings may not have comments"),
    "cut off": (JSONC, '{"a": {\n  "b"', "line 2, column 6: a colon is missing"),
    "no object": (JSON, "[1]", "not an object"),
    "a comment without end": (JSONC, "{} /* x", "line 1, column 4: a comment does not end"),
    "two documents": (JSONC, "{}{}", "something after the end"),
    "too deep": (JSONC, '{"a":' + "[" * 300, "nested more than 200 deep"),
    "TOML": (TOML, "a = \n", "line 1"),
    "YAML": (YAML, "a: [1\nb: 2", "line 2"),
    "YAML with a key twice": (YAML, "a: 1\na: 2\n", "duplicate key"),
}


@pytest.mark.parametrize(("target", "text", "why"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_refused_with_the_place(target: EntryPlace, text: str, why: str) -> None:
    with pytest.raises(BrokenFile) as refused:
        splice.add(text, target, ENTRY)

    assert why in str(refused.value)


IMPOSSIBLE: dict[str, tuple[EntryPlace, str]] = {
    "servers that are a list": (JSON, '{"mcpServers": []}'),
    "servers that are null": (JSON, '{"mcpServers": null}'),
    "servers that are a text": (YAML, "extensions: none\n"),
    "servers that are a number": (TOML, "mcp_servers = 1\n"),
    "two documents": (YAML, "a: 1\n---\nb: 2\n"),
}


@pytest.mark.parametrize(("target", "text"), IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_what_has_no_place_for_servers_is_refused(target: EntryPlace, text: str) -> None:
    with pytest.raises((NotSpliceable, BrokenFile)):
        splice.add(text, target, ENTRY)
