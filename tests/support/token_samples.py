"""Texts of every kind to hold the estimate of tokens against a tokenizer: real ones, and hostile ones."""

import base64
import json
import random
import re
import string
import sysconfig
import unicodedata
import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PACKAGES = Path(sysconfig.get_path("purelib"))
STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))
PROSE = {
    path.stem: path.read_text(encoding="utf-8").split("\n\n")
    for path in sorted((REPOSITORY / "tests" / "support" / "prose").glob("*.txt"))
}
"""A story, a report and a manual in each of six languages, written for this test."""
MIN_CHARS = 400
"""Shorter texts are no samples of a kind: a single rare word may cost more than any average says."""
MAX_CHARS = 100_000

_GENERATED = {"site-packages", "test", "tests", "__pycache__"}
"""Folders of the standard library that hold what others wrote, and lists that were generated."""


def files(folder: Path, pattern: str, most: int, skipped: Iterable[str] = ()) -> Iterator[str]:
    """Yield at most as many files as asked for, from all over the folder; of a long one its beginning."""
    left_out = set(skipped)
    found = sorted(path for path in folder.rglob(pattern) if not left_out & set(path.relative_to(folder).parts))
    for path in found[:: 1 + len(found) // most]:
        text = path.read_text(encoding="utf-8", errors="replace")[:MAX_CHARS] if path.is_file() else ""
        if len(text) > MIN_CHARS and "\N{REPLACEMENT CHARACTER}" not in text:
            yield text


def prose(language: str) -> Iterator[str]:
    yield from (part for part in PROSE[language] if len(part) > 100)
    yield "\n".join(PROSE[language])


def javascript(is_minified: bool) -> Iterator[str]:
    for text in (*files(PACKAGES, "*.js", 60), *files(REPOSITORY / "src", "*.js", 5)):
        if (max(map(len, text.splitlines())) > 1_000) is is_minified:
            yield text


def code_in_seventeen_languages() -> Iterator[str]:
    samples = REPOSITORY / "tests" / "outline" / "samples"
    texts = [path.read_text(encoding="utf-8") for path in sorted(samples.iterdir()) if path.suffix != ".golden"]
    assert len(texts) == 17
    yield from (text for text in texts if len(text) > MIN_CHARS)
    yield "\n".join(texts)


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


def rows() -> Iterator[list[dict[str, object]]]:
    chance = random.Random(18)
    words = " ".join(PROSE["english"]).split()
    for _ in range(20):
        yield [
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


def json_texts() -> Iterator[str]:
    for table, indent in zip(rows(), (None, 1, 2, 4) * 5, strict=True):
        yield json.dumps(table, indent=indent, separators=(",", ":") if indent is None else None)
    yield from files(REPOSITORY / "tests", "*.json", 4)
    yield from files(PACKAGES, "*.json", 40)


def yaml_texts() -> Iterator[str]:
    for table in rows():
        yield "\n".join("- " + "\n  ".join(f"{key}: {value}" for key, value in row.items()) for row in table)
    yield from files(REPOSITORY, ".github/**/*.y*ml", 4)
    yield from files(PACKAGES, "*.yaml", 4)


def csv_texts() -> Iterator[str]:
    for table in rows():
        yield "\n".join(",".join(map(str, row.values())) for row in table)
    yield from files(PACKAGES, "*.csv", 20)


def bytes_as_text(spell: Callable[[bytes], str], width: int) -> Iterator[str]:
    for seed in range(10):
        spelled = spell(random.Random(seed).randbytes(1_500))
        yield spelled
        yield "\n".join(re.findall(f".{{1,{width}}}", spelled))


def uuids() -> Iterator[str]:
    for seed in range(10):
        chance = random.Random(seed)
        yield "\n".join(str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(40))


def tables_of_numbers() -> Iterator[str]:
    """Yield columns with two decimals, with an exponent, and of whole numbers of any length."""
    for seed in range(10):
        chance = random.Random(seed)
        yield "\n".join(",".join(f"{chance.random() * 100:.2f}" for _ in range(8)) for _ in range(40))
        yield "\n".join(f"{chance.random():.7e}" for _ in range(100))
        rows = ([chance.randrange(10 ** chance.randrange(1, 7)) for _ in range(8)] for _ in range(40))
        yield "\n".join(",".join(map(str, row)) for row in rows)


SAMPLES: dict[str, Callable[[], Iterable[str]]] = {
    **{language: partial(prose, language) for language in PROSE},
    "Python of the standard library": lambda: files(STANDARD_LIBRARY, "*.py", 120, _GENERATED),
    "Python of packages": lambda: files(PACKAGES, "*.py", 80, ["tests"]),
    "Python of this repository": lambda: files(REPOSITORY / "src", "*.py", 60),
    "headers of C": lambda: [
        *files(Path(sysconfig.get_path("include")), "*.h", 60),
        *files(PACKAGES, "*.h", 60),
    ],
    "code in seventeen languages": code_in_seventeen_languages,
    "JavaScript": lambda: javascript(is_minified=False),
    "minified JavaScript": lambda: javascript(is_minified=True),
    "TypeScript": lambda: files(PACKAGES, "*.ts", 10),
    "stubs of types": lambda: files(PACKAGES, "*.pyi", 30),
    "Markdown": lambda: [*files(REPOSITORY / "docs", "*.md", 60), *files(PACKAGES, "*.md", 20)],
    "TOML": lambda: files(REPOSITORY, "pyproject.toml", 1),
    "YAML": yaml_texts,
    "CSV": csv_texts,
    "tables of numbers": tables_of_numbers,
    "logs": logs,
    "JSON": json_texts,
    "base64": lambda: bytes_as_text(lambda data: base64.b64encode(data).decode(), 76),
    "hex": lambda: bytes_as_text(bytes.hex, 64),
    "UUIDs": uuids,
}
"""Kinds of text that people and programs really write."""


def alternating(text: str) -> str:
    return "".join(letter.upper() if at % 2 else letter.lower() for at, letter in enumerate(text))


ODD: dict[str, Callable[[], str]] = {
    "words in alternating case": lambda: alternating(" ".join(PROSE["english"])),
    "letters in alternating case": lambda: alternating("".join("".join(PROSE["english"]).split())),
    "words in capitals": lambda: " ".join(PROSE["english"]).upper(),
    "words without spaces": lambda: "".join("".join(PROSE["english"]).split()),
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
    "names of characters": lambda: "\n".join(
        unicodedata.name(chr(code), "") for code in range(0x20, 0x3000) if unicodedata.name(chr(code), "")
    ),
    "every character of the plane": lambda: "".join(map(chr, [*range(0xD800), *range(0xE000, 0x10000)])),
}
"""Texts that are no samples of anything that people write."""


@cache
def rare_words() -> tuple[str, ...]:
    """Return names of functions that other languages have built in, from the tables of Pygments."""
    found: set[str] = set()
    for path in (PACKAGES / "pygments" / "lexers").glob("_*builtins.py"):
        found.update(re.findall(r"[A-Za-z]{3,}", path.read_text(encoding="utf-8")))
    assert len(found) > 10_000
    return tuple(sorted(found))


SCRIPTS = {
    "Latin with accents": range(0xC0, 0x250),
    "phonetic letters": range(0x250, 0x370),
    "Greek": range(0x370, 0x400),
    "Cyrillic": range(0x400, 0x530),
    "Armenian": range(0x530, 0x590),
    "Hebrew": range(0x590, 0x600),
    "Arabic": range(0x600, 0x700),
    "Devanagari": range(0x900, 0x980),
    "Tamil": range(0xB80, 0xC00),
    "Thai": range(0xE00, 0xE80),
    "Tibetan": range(0xF00, 0x1000),
    "Georgian": range(0x10A0, 0x1100),
    "Ethiopic": range(0x1200, 0x1380),
    "Cherokee": range(0x13A0, 0x1400),
    "Mongolian": range(0x1800, 0x18B0),
    "arrows and signs": range(0x2190, 0x2300),
    "drawn lines": range(0x2500, 0x2600),
    "Braille": range(0x2800, 0x2900),
    "kana": range(0x3040, 0x3100),
    "rare Chinese": range(0x3400, 0x4DC0),
    "Chinese": range(0x4E00, 0xA000),
    "Yi": range(0xA000, 0xA4D0),
    "Hangul": range(0xAC00, 0xD7A4),
    "private use": range(0xE000, 0xF900),
    "cuneiform": range(0x12000, 0x12400),
    "emoji": range(0x1F300, 0x1FA00),
}


def _spaced(chance: random.Random, alphabet: str, length: int) -> str:
    words = ("".join(chance.choices(alphabet, k=chance.randrange(1, 12))) for _ in range(length // 6 + 1))
    return chance.choice((" ", "\n", "_", ",")).join(words)


def _syllables(chance: random.Random, length: int) -> str:
    pairs = (chance.choice("bcdfghjklmnpqrstvwxz") + chance.choice("aeiouy") for _ in range(length // 2 + 1))
    return "".join(pair + " " * (chance.random() < 0.3) for pair in pairs)


HOSTILE: dict[str, Callable[[random.Random, int], str]] = {
    **{
        f"random {name}": partial(lambda alphabet, chance, n: "".join(chance.choices(alphabet, k=n)), alphabet)
        for name, alphabet in {
            "small letters": string.ascii_lowercase,
            "letters": string.ascii_letters,
            "letters and digits": string.ascii_letters + string.digits,
            "digits": string.digits,
            "marks": string.punctuation,
            "characters of ASCII": string.printable,
            "white space": " \t\n\r",
            "letters of Russian": "абвгдежзийклмнопрстуфхцчшщъыьэюя",
            **{name: "".join(map(chr, codes)) for name, codes in SCRIPTS.items()},
        }.items()
    },
    "random words": lambda chance, n: _spaced(chance, string.ascii_lowercase, n),
    "random words of any case": lambda chance, n: _spaced(chance, string.ascii_letters, n),
    "random syllables": _syllables,
    "rare words": lambda chance, n: chance.choice(" \n,").join(chance.choices(rare_words(), k=n // 8 + 1)),
    "random characters": lambda chance, n: "".join(
        chr(chance.choice((chance.randrange(0x800), chance.randrange(0xD800), chance.randrange(0xE000, 0x110000))))
        for _ in range(n)
    ),
}
"""Texts made to cost more than they look: from a source of chance, and about how many characters."""
