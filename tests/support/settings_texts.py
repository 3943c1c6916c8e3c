"""Settings files as people and programs write them: any indentation, comments, commas, line ends and styles.

Made with a seeded generator of our own, since Hypothesis takes twenty times as long for as many texts.
"""

import json
import random
from collections.abc import Callable, Iterator

Plain = dict[str, object]
WORDS = ("a", "theme", "model", "files.exclude", "größe", "x y", "servers", "carrel-old", "ui", "0", "emoji 🌿")
TEXTS = ("", "npx", "-y", "C:\\tools\\x.exe", 'quote " here', "// no comment", "/* none */", "# none", "a\nb", "}{][,:")


def servers(chance: random.Random) -> Plain:
    """Return the servers of other people."""
    return {
        chance.choice(("github", "my server", "fs", "größe")): {"command": chance.choice(TEXTS), "args": ["x", "-y"]}
        for _ in range(chance.randrange(4))
    }


def plain(chance: random.Random, depth: int = 0) -> object:
    """Return any plain value."""
    kind = chance.randrange(5 if depth > 2 else 8)
    if kind > 5:
        return {chance.choice(WORDS): plain(chance, depth + 1) for _ in range(chance.randrange(4))}
    if kind == 5:
        return [plain(chance, depth + 1) for _ in range(chance.randrange(4))]
    return (chance.choice(TEXTS), chance.randrange(-5, 10**12), chance.random(), True, None)[kind]


def document(chance: random.Random, key: str | None) -> Plain:
    """Return a document, with the servers under `key` or without them."""
    made: Plain = {chance.choice(WORDS): plain(chance) for _ in range(chance.randrange(5))}
    made.pop(key or "", None)
    if key is not None:
        made[key] = servers(chance)
    items = list(made.items())
    chance.shuffle(items)
    return dict(items)


# JSON and JSON with comments


class JsonWriter:
    """Writes JSON in a style that changes from text to text, and in one text where that is legal."""

    def __init__(self, chance: random.Random, *, has_comments: bool) -> None:
        self._chance = chance
        self._has_comments = has_comments
        self._unit = chance.choice(("", " ", "  ", "    ", "\t"))
        self._is_flat = chance.random() < 0.2
        self._has_last_commas = has_comments and chance.random() < 0.5

    def write(self, value: Plain) -> str:
        """Return a document."""
        chance = self._chance
        text = f"{self._space()}{self._value(value, 0)}{self._space()}{chance.choice(('', chr(10)))}"
        text = text.replace("\n", chance.choice(("\n", "\n", "\r\n")))
        return ("\ufeff" if chance.random() < 0.1 else "") + text

    def _space(self) -> str:
        if self._has_comments and self._chance.random() < 0.15:
            return self._chance.choice(("/* , { */", ' // { , "\n', "/**/ ", "\n// x\n"))
        return self._chance.choice(("", "", " "))

    def _value(self, value: object, depth: int) -> str:
        if isinstance(value, dict):
            return self._bracket("{", "}", [self._member(key, one, depth) for key, one in value.items()], depth)
        if isinstance(value, list):
            return self._bracket("[", "]", [self._value(one, depth + 1) for one in value], depth)
        return json.dumps(value, ensure_ascii=self._chance.random() < 0.5)

    def _member(self, key: str, value: object, depth: int) -> str:
        return f"{json.dumps(key)}{self._space()}:{self._space()} {self._value(value, depth + 1)}"

    def _bracket(self, opening: str, closing: str, items: list[str], depth: int) -> str:
        is_flat = self._is_flat or self._chance.random() < 0.15
        line = "" if is_flat else "\n" + self._unit * (depth + 1)
        end = "" if is_flat else "\n" + self._unit * depth
        if not items:
            return opening + self._chance.choice(("", " ", self._space(), end)) + closing
        inside = f"{self._space()},{self._space()}{line}".join(items)
        last = "," if self._has_last_commas else ""
        return f"{opening}{self._space()}{line}{inside}{self._space()}{last}{self._space()}{end}{closing}"


def json_text(chance: random.Random, key: str, *, has_comments: bool) -> tuple[str, Plain]:
    """Return a text and what it says."""
    if chance.random() < 0.03:
        return chance.choice(("", "\n", "  ")), {}
    said = document(chance, key if chance.random() < 0.7 else None)
    return JsonWriter(chance, has_comments=has_comments).write(said), said


# TOML


def toml_text(chance: random.Random) -> str:
    """Return a text with tables of `mcp_servers`, or without them."""
    lines = [chance.choice(("# Codex", "", "model = 'gpt-5' # c", 'text = """\n[mcp_servers.carrel]\n"""'))]
    lines += [f"k{number} = {_toml_value(chance)}" for number in range(chance.randrange(4))]
    lines += _toml_servers(chance)
    for number in range(chance.randrange(3)):
        lines += ["", chance.choice((f"[t{number}]", f"[[list{number}]]", f"  [ t{number} . 'x y' ] # c"))]
        lines += [f"v{one} = {_toml_value(chance)}" for one in range(chance.randrange(3))]
    text = "\n".join(lines) + chance.choice(("", "\n", "\n\n", "\n# end"))
    return text.replace("\n", chance.choice(("\n", "\n", "\r\n")))


def _toml_value(chance: random.Random) -> str:
    return chance.choice(
        ("1", "'[a]'", '"#"', "[1,\n  2, # c\n]", "{ a = 1, b = 'x' }", "1979-05-27", "true", "'''\n[x]\n'''", "1e3")
    )


def _toml_servers(chance: random.Random) -> list[str]:
    forms: tuple[list[str], ...] = (
        [],
        ["[mcp_servers.x]", "command = 'a'", "", "[mcp_servers.x.env]", "A = 'b' # c"],
        ["mcp_servers = { x = { command = 'a' } }"],
        ["mcp_servers = {}"],
        ["mcp_servers.x.command = 'a'"],
        ["[mcp_servers]", "# none yet"],
        ["[mcp_servers]", "x = { command = 'a', args = [] }"],
        ['[ mcp_servers . "carrel 2" ]', "command = 'a'"],
    )
    return chance.choice(forms)


# YAML


def yaml_text(chance: random.Random, key: str, *, is_listed: bool) -> str:
    """Return a text with entries under `key`, or without them."""
    parts = [_yaml_other(chance, number) for number in range(chance.randrange(4))]
    if chance.random() < 0.8:
        parts.insert(chance.randrange(len(parts) + 1), _yaml_container(chance, key, is_listed=is_listed))
    text = "\n".join(["# top"] * chance.randrange(2) + parts)
    if chance.random() < 0.1:
        text = "---\n" + text
    text += chance.choice(("", "\n", "\n\n", "\n# end\n", "\n"))
    text = text.replace("\n", chance.choice(("\n", "\n", "\r\n")))
    return ("\ufeff" if chance.random() < 0.05 else "") + text


def _yaml_other(chance: random.Random, number: int) -> str:
    lines = (" # c\n  x: 1\n  y: [1, {z: 2}]", "\n- a\n- b:\n    c", "\n    deep:\n        er: 'x'")
    scalars = (" 1", ' "a: b # c"', "", " null # n", f" &a{number} {{b: 1}}", " |\n  text\n   more", " >-\n  f\n  t")
    value = chance.choice((*lines, *scalars))
    return f"k{number}:{value}"


def _yaml_container(chance: random.Random, key: str, *, is_listed: bool) -> str:
    indent = " " * chance.choice((1, 2, 4))
    if is_listed:
        indent = chance.choice(("", indent))
        item = f"{indent}- name: x\n{indent}  command: y # c\n{indent}  args:\n{indent}    - z"
        return f"{key}:" + chance.choice((f"\n{item}", f" # c\n\n{item}\n{item}", " []", "", " [{name: x}]"))
    item = f"{indent}x:\n{indent}  cmd: y # c\n{indent}  args: [a]"
    later = f"\n{indent}# between\n\n{indent}'y z': {{a: 1}}"
    return f"{key}:" + chance.choice((f"\n{item}", f" # c\n\n{item}{later}", " {}", "", " {x: {cmd: y}}"))


# Broken texts


def broken(chance: random.Random, text: str) -> str:
    """Return a text with something missing, doubled or added, as a crash or a slip of the hand leaves it."""
    if not text:
        return chance.choice("{[\"'")
    place = chance.randrange(len(text))
    changes: tuple[Callable[[], str], ...] = (
        lambda: text[:place],
        lambda: text[:place] + text[place + 1 :],
        lambda: text[:place] + chance.choice("{}[]\",:'\t=") + text[place:],
        lambda: text + text,
    )
    return chance.choice(changes)()


def chances(count: int, seed: int) -> Iterator[random.Random]:
    """Yield as many generators, each with a seed of its own, so that one text can be made again."""
    for number in range(count):
        yield random.Random(f"{seed}-{number}")
