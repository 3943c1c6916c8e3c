"""The plan of the code as tests: which package imports which, how large files may be, which words are not used.

Every rule is a function from `Source`s to complaints. The last part of this file feeds each rule a small house that
breaks it, so that a rule which stopped looking is noticed. The plan itself is `docs/architecture.md`; when a wall
moves, it moves there and in `ORDER` in the same commit.
"""

import ast
import graphlib
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support import source_trees

PACKAGE = Path(__file__).parents[2] / "src" / "carrel"

ORDER = (
    "core",
    "files",
    "stores",
    "buckets",
    "outline",
    "git",
    "protocol",
    "catalog",
    "search",
    "server",
    "client",
    "providers",
    "transports",
    "app",
    "connect",
    "doctor",
    "explorer",
    "cli",
    "testing",
)
"""The packages. Each imports only those before it, and itself; inside functions and for types alone too."""

NOT_ALLOWED: Mapping[str, frozenset[str]] = {
    "protocol": frozenset({"files", "git", "outline"}),
    "search": frozenset({"git", "protocol"}),
    "client": frozenset({"catalog", "files", "git", "outline", "search"}),
    "providers": frozenset({"server", "transports"}),
    "transports": frozenset({"client", "git", "providers"}),
    "explorer": frozenset({"client", "doctor", "git", "providers"}),
    "testing": frozenset({"app", "cli", "doctor", "explorer"}),
}
"""What a package must not import although it stands before it."""

ROOT_IMPORTS = frozenset({"core"})
"""What the public names of the package root come from."""

LAZY_IN_ROOT = frozenset({"providers.objects", "providers.objects.protocol", "providers.objects.shelf"})
"""What the package root imports when one of its names is first used."""

HTTP = ("transports.http.app", "transports.http.draining", "transports.http.wire")
HOMES: Mapping[str, tuple[str, ...]] = {
    "_sha2": ("core.hashing",),
    "_sha256": ("core.hashing",),
    "click": ("cli",),
    "dulwich": ("git",),
    "httptools": HTTP,
    "jinja2": ("explorer.templating",),
    "joserfc": ("transports.http.jwt", "transports.http.session_seal"),
    "markdown_it": ("explorer.rendering",),
    "markupsafe": ("explorer",),
    "msgspec": ("protocol", "core.arguments", "core.record"),
    "nh3": ("explorer.rendering",),
    "numpy": ("search.semantic",),
    "obstore": ("buckets",),
    "nats": ("stores",),
    "psycopg": ("stores",),
    "psycopg_pool": ("stores",),
    "pygments": ("explorer.rendering",),
    "pytest": ("testing",),
    "re2": ("search.expressions",),
    "rich": ("cli",),
    "ruamel": ("connect.yaml_splice",),
    "tomlkit": ("cli", "connect.toml_splice", "doctor.user_settings"),
    "tree_sitter": ("outline", "providers.alc"),
    "tree_sitter_lua": ("providers.alc",),
    "uvicorn": HTTP,
    "uvloop": HTTP,
    "watchfiles": ("providers.workspace",),
    "wordllama": ("search.semantic",),
    "yaml": ("providers.sage", "providers.skills"),
}
"""Where each third-party package is imported, and nowhere else."""

OUTSIDE_WORLD = frozenset(
    {"asyncio", "concurrent", "os", "pathlib", "selectors", "socket", "subprocess", "tempfile", "threading", "time"}
)
"""Files, clocks and threads, of which `protocol` knows nothing."""

NO_CLOCK = frozenset({"gmtime", "strftime"})
"""What `time` has that only turns one spelling of a time into another."""

CATCH_ALL = ("core.faults", "cli", "git", "providers.objects")
"""Where everything may be caught: the last boundaries, once each."""

MAX_FILE_LINES = 600
MAX_BODY_LINES = 40
MAX_NOQA = 8
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
BANNED_WORDS = frozenset({"base", "common", "handler", "helper", "manager", "service", "util"})


@dataclass(frozen=True)
class Source:
    """One module: its name relative to `carrel`, and its text."""

    name: str
    text: str
    is_package: bool = False

    @property
    def tree(self) -> ast.Module:
        """The module, parsed."""
        return source_trees.tree(self.text)

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        """The nodes that the rules look at, in the order of the tree; cached, because many rules read them."""
        return source_trees.nodes(self.text)

    @property
    def package(self) -> str:
        """The package it stands in; a provider is a package by itself."""
        parts = self.name.split(".")
        return ".".join(parts[:2]) if parts[0] == "providers" else parts[0]

    def at(self, line: int) -> str:
        """Name a place in it as a reader would look for it."""
        return f"{self.name or '__init__'}:{line}"

    def comments(self, pattern: str) -> Iterator[tuple[int, str]]:
        """Yield each comment in which the pattern is found, with its line; text inside strings is none."""
        # Telling comments from strings takes long, and most modules need not be looked at.
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline) if re.search(pattern, self.text) else ()
        for token in tokens:
            if token.type == tokenize.COMMENT and re.search(pattern, token.string):
                yield token.start[0], token.string

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Yield every function, nested ones too."""
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node


Rule = Callable[[tuple[Source, ...]], Iterable[str]]


@cache
def house() -> tuple[Source, ...]:
    """Read every module there is, once."""
    return tuple(
        Source(_dotted(path), path.read_text(encoding="utf-8"), path.name == "__init__.py")
        for path in sorted(PACKAGE.rglob("*.py"))
    )


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").removesuffix(".")


def _is_in(name: str, places: Iterable[str]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in places)


# Imports


def _imports(source: Source, known: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield each module that is imported anywhere in `source`, inside functions and for types alone too."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(source, node)
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                yield node.lineno, inner if inner in known else origin
        elif isinstance(node, ast.Call) and _called(node) == "import_module":
            yield from ((node.lineno, ast.literal_eval(name)) for name in node.args if isinstance(name, ast.Constant))


def _called(call: ast.Call) -> str | None:
    """Return the last word of what is called."""
    return getattr(call.func, "attr", None) or getattr(call.func, "id", None)


def _origin(source: Source, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = f"carrel.{source.name}".rstrip(".").split(".")
    package = parts[: len(parts) - node.level + source.is_package]
    return ".".join([*package, *([node.module] if node.module else [])])


@cache
def _edges(sources: tuple[Source, ...]) -> tuple[tuple[Source, int, str], ...]:
    known = frozenset(f"carrel.{source.name}" for source in sources if source.name)
    return tuple((source, line, target) for source in sources for line, target in _imports(source, known))


def _inner_edges(sources: tuple[Source, ...]) -> Iterator[tuple[Source, int, str]]:
    for source, line, target in _edges(sources):
        if target.startswith("carrel."):
            yield source, line, target.removeprefix("carrel.")


def every_module_stands_in_a_package(sources: tuple[Source, ...]) -> Iterator[str]:
    for source in sources:
        if source.name not in ("", "__main__") and source.name.partition(".")[0] not in ORDER:
            yield f"{source.name}: not in one of the packages; add the package to ORDER and to docs/architecture.md"


def imports_go_upwards(sources: tuple[Source, ...]) -> Iterator[str]:
    for source, line, target in _inner_edges(sources):
        own, wanted = source.name.partition(".")[0], target.partition(".")[0]
        if own != wanted and wanted not in _allowed(own, target):
            yield f"{source.at(line)}: {own or 'the package root'} may not import {target}"


def _allowed(package: str, target: str) -> frozenset[str]:
    """Return the packages that a package may import."""
    if package == "__main__":
        return frozenset({"cli"})
    if package == "":
        return ROOT_IMPORTS | ({"providers"} if target in LAZY_IN_ROOT else frozenset())
    return frozenset(ORDER[: ORDER.index(package)]) - NOT_ALLOWED.get(package, frozenset())


def providers_do_not_know_each_other(sources: tuple[Source, ...]) -> Iterator[str]:
    for source, line, target in _inner_edges(sources):
        wanted = Source(target, "").package
        if source.package.startswith("providers.") and wanted.startswith("providers.") and wanted != source.package:
            yield f"{source.at(line)}: a provider may not import another: {target}"


def nobody_imports_the_root(sources: tuple[Source, ...]) -> Iterator[str]:
    for source, line, target in _edges(sources):
        if target == "carrel":
            yield f"{source.at(line)}: imports the package root"


def imports_make_no_cycle(sources: tuple[Source, ...]) -> Iterator[str]:
    graph: dict[str, set[str]] = {source.name: set() for source in sources}
    for source, _, target in _inner_edges(sources):
        graph[source.name].add(target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        yield "cycle: " + " imports ".join(reversed(error.args[1]))


def strangers_have_one_home(sources: tuple[Source, ...]) -> Iterator[str]:
    for source, line, target in _edges(sources):
        package = target.partition(".")[0]
        if package == "carrel" or package in sys.stdlib_module_names:
            continue
        if package not in HOMES:
            yield f"{source.at(line)}: {package} has no home; add it to HOMES here and to docs/architecture.md"
        elif not _is_in(source.name, HOMES[package]):
            yield f"{source.at(line)}: {package} is imported only in {' and '.join(HOMES[package])}"


def the_protocol_knows_no_outside_world(sources: tuple[Source, ...]) -> Iterator[str]:
    inner = tuple(source for source in sources if _is_in(source.name, ["protocol"]))
    for source, line, target in _edges(inner):
        if target.partition(".")[0] in OUTSIDE_WORLD and line not in _spelling_lines(source):
            yield f"{source.at(line)}: the protocol imports {target}"


def _spelling_lines(source: Source) -> frozenset[int]:
    return frozenset(
        node.lineno
        for node in source.nodes
        if isinstance(node, ast.ImportFrom) and node.module == "time" and {a.name for a in node.names} <= NO_CLOCK
    )


# Sizes


def files_are_short(sources: tuple[Source, ...]) -> Iterator[str]:
    for source in sources:
        lines = len(source.text.splitlines())
        if lines > MAX_FILE_LINES:
            yield f"{source.at(1)}: {lines} lines, more than {MAX_FILE_LINES}"


def functions_are_short(sources: tuple[Source, ...]) -> Iterator[str]:
    for source in sources:
        for function in source.functions():
            body = function.body[1:] if ast.get_docstring(function) is not None else function.body
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            if lines > MAX_BODY_LINES:
                yield f"{source.at(function.lineno)}: {function.name} has {lines} lines, more than {MAX_BODY_LINES}"


# Words


def every_module_says_what_it_is(sources: tuple[Source, ...]) -> Iterator[str]:
    for source in sources:
        if not ast.get_docstring(source.tree):
            yield f"{source.at(1)}: no docstring"


def names_mean_something(sources: tuple[Source, ...]) -> Iterator[str]:
    for source in sources:
        classes = (node for node in source.nodes if isinstance(node, ast.ClassDef))
        names = [(1, source.name), *((node.lineno, node.name) for node in (*classes, *source.functions()))]
        for line, name in names:
            words = {word.lower().removesuffix("s") for word in re.findall(WORD, name)}
            for word in sorted(words & BANNED_WORDS):
                yield f"{source.at(line)}: {name}: the word {word!r} says nothing"


# Exceptions to rules


def nothing_is_ignored_by_the_type_checker(sources: tuple[Source, ...]) -> Iterator[str]:
    for source in sources:
        for line, comment in source.comments(r"#\s*((type|pyright|ty)\s*:\s*ignore|mypy\s*:)"):
            yield f"{source.at(line)}: {comment}"


def noqas_are_few_and_have_reasons(sources: tuple[Source, ...]) -> Iterator[str]:
    found = [(source.at(line), comment) for source in sources for line, comment in source.comments(r"\bnoqa\b")]
    for place, comment in found:
        if not re.fullmatch(r"# noqa: [A-Z]+\d+(, ?[A-Z]+\d+)*\W+[a-z]\w*\W+\w.*", comment):
            yield f"{place}: {comment}: write it as '# noqa: CODE the reason'"
    if len(found) > MAX_NOQA:
        yield f"{len(found)} noqa comments, more than {MAX_NOQA}: {', '.join(place for place, _ in found)}"


def everything_is_caught_only_at_the_boundaries(sources: tuple[Source, ...]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for source in sources:
        boundary = next((room for room in CATCH_ALL if _is_in(source.name, [room])), None)
        for line in _catch_alls(source):
            if boundary is None:
                yield f"{source.at(line)}: catches everything; name the errors"
            elif boundary in seen:
                yield f"{source.at(line)}: catches everything a second time, after {seen[boundary]}"
            else:
                seen[boundary] = source.at(line)


def _catch_alls(source: Source) -> Iterator[int]:
    """Yield where everything is caught; who tidies up and raises it again has caught nothing."""
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler):
            passed_on = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
            caught = [] if passed_on else [node.type or ast.Name("BaseException")]
        elif isinstance(node, ast.Call) and _called(node) == "suppress":
            caught = node.args
        else:
            continue
        if _names_everything(caught):
            yield node.lineno


def _names_everything(expressions: Iterable[ast.expr]) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id in {"Exception", "BaseException"}
        for expression in expressions
        for node in ast.walk(expression)
    )


RULES: tuple[Rule, ...] = (
    every_module_stands_in_a_package,
    imports_go_upwards,
    providers_do_not_know_each_other,
    nobody_imports_the_root,
    imports_make_no_cycle,
    strangers_have_one_home,
    the_protocol_knows_no_outside_world,
    files_are_short,
    functions_are_short,
    every_module_says_what_it_is,
    names_mean_something,
    nothing_is_ignored_by_the_type_checker,
    noqas_are_few_and_have_reasons,
    everything_is_caught_only_at_the_boundaries,
)


def test_there_is_a_house() -> None:
    assert {"core.errors", "core.model"} <= {source.name for source in house()}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_the_rule(rule: Rule) -> None:
    assert list(rule(house())) == []


# The plan in words

PLAN = Path(__file__).parents[2] / "docs" / "architecture.md"


def test_the_plan_names_the_packages_in_the_order_of_their_imports() -> None:
    named = re.findall(
        r"^\| `(\w+)` \|", PLAN.read_text(encoding="utf-8").partition("How a read travels")[0], re.MULTILINE
    )

    assert tuple(named) == ORDER


def test_every_stop_of_a_read_that_the_plan_names_exists() -> None:
    stops = re.findall(r"^\| \d \| `([\w/]+)` \(`([\w.]+)`\)", PLAN.read_text(encoding="utf-8"), re.MULTILINE)
    sources = {source.name: source.text for source in house()}

    assert len(stops) == 9
    for place, name in stops:
        module = place.replace("/", ".")
        text = sources.get(f"{module}.provider") or sources[module]
        assert re.search(rf"(?:def|class) {name.rpartition('.')[2]}\b", text), f"{module} has no {name}"


# The rules themselves


def _small_house(**texts: str) -> tuple[Source, ...]:
    """Build sources from text; `__` in a name is a dot."""
    return tuple(Source(name.replace("__", ".").strip("."), text) for name, text in texts.items())


IMPORTS = {
    "the core imports the catalogue": (
        "core.uri",
        "import carrel.catalog.catalog",
        "core.uri:1: core may not import catalog.catalog",
    ),
    "the protocol imports a file": (
        "protocol.results",
        "from carrel.files.sandbox import Root",
        "protocol.results:1: protocol may not import files.sandbox",
    ),
    "the catalogue imports a provider inside a function": (
        "catalog.catalog",
        "def f():\n    from carrel.providers import guide",
        "catalog.catalog:2: catalog may not import providers.guide",
    ),
    "a provider imports the server": (
        "providers.logs.provider",
        "from carrel.server.server import Server",
        "providers.logs.provider:1: providers may not import server.server",
    ),
    "a transport imports the app": (
        "transports.stdio",
        "from carrel.app.app import open_desk",
        "transports.stdio:1: transports may not import app.app",
    ),
    "an import by name": (
        "server.server",
        "import importlib\nimportlib.import_module('carrel.transports.stdio')",
        "server.server:2: server may not import transports.stdio",
    ),
    "the client imports the catalogue": (
        "client.client",
        "from carrel.catalog.catalog import Catalog",
        "client.client:1: client may not import catalog.catalog",
    ),
    "the root imports a provider": (
        "",
        "from carrel.providers.logs import Logs",
        "__init__:1: the package root may not import providers.logs",
    ),
}


@pytest.mark.parametrize(("name", "text", "complaint"), IMPORTS.values(), ids=IMPORTS.keys())
def test_an_import_against_the_plan_is_found(name: str, text: str, complaint: str) -> None:
    guide = Source("providers.guide", "")

    assert list(imports_go_upwards((Source(name, text), guide))) == [complaint]


def test_a_provider_that_imports_another_is_found() -> None:
    sources = (
        Source("providers.sage.search", "def f():\n    from carrel.providers.scopes.store import Store"),
        Source("providers.scopes.store", ""),
    )

    assert list(providers_do_not_know_each_other(sources)) == [
        "providers.sage.search:2: a provider may not import another: providers.scopes.store"
    ]


def test_imports_along_the_plan_are_silent() -> None:
    sources = (
        Source("providers.logs.ring", "from carrel.core.errors import NotFound"),
        Source("providers.logs.provider", "from . import ring\nfrom carrel.providers.logs.ring import Ring"),
        Source("providers.mounts.link", "from carrel.client.client import Client"),
        Source("providers.guide", "from carrel.catalog import catalog"),
        Source("catalog.catalog", "import carrel.core.model"),
        Source("server.server", "from carrel.protocol import jsonrpc"),
        Source("protocol.jsonrpc", "import msgspec"),
        Source("client.memory", "from carrel.server.server import Server"),
    )

    assert [complaint for rule in RULES[:7] for complaint in rule(sources)] == []


def test_a_module_outside_the_packages_is_found() -> None:
    complaints = list(every_module_stands_in_a_package(_small_house(extras="", more__extras="", cli__serve="")))

    assert complaints == [
        "extras: not in one of the packages; add the package to ORDER and to docs/architecture.md",
        "more.extras: not in one of the packages; add the package to ORDER and to docs/architecture.md",
    ]


@pytest.mark.parametrize("text", ["import carrel", "from carrel import __version__", "from .. import __version__"])
def test_an_import_of_the_root_is_found(text: str) -> None:
    sources = _small_house(server__server=text)

    assert list(nobody_imports_the_root(sources)) == ["server.server:1: imports the package root"]


def test_a_module_may_be_taken_from_the_root() -> None:
    sources = _small_house(server__server="from carrel import core\nimport carrel.core.errors", core="")

    assert list(nobody_imports_the_root(sources)) == []


def test_a_cycle_is_found_even_inside_functions() -> None:
    sources = _small_house(
        provider="from carrel.catalog import Catalog", catalog="def f():\n    from carrel import provider"
    )

    [complaint] = imports_make_no_cycle(sources)

    assert set(complaint.removeprefix("cycle: ").split(" imports ")) == {"catalog", "provider"}


def test_a_stranger_away_from_home_is_found() -> None:
    sources = _small_house(
        cli__serve="import click",
        server="import click\nimport requests",
        core__record="import msgspec.json",
        model="import os",
    )

    assert list(strangers_have_one_home(sources)) == [
        "server:1: click is imported only in cli",
        "server:2: requests has no home; add it to HOMES here and to docs/architecture.md",
    ]


def test_a_clock_in_the_protocol_is_found() -> None:
    sources = _small_house(
        protocol__eras="from time import monotonic", protocol__results="from time import gmtime", watch="import time"
    )

    assert list(the_protocol_knows_no_outside_world(sources)) == ["protocol.eras:1: the protocol imports time"]


def test_a_long_file_is_found() -> None:
    assert list(files_are_short(_small_house(uri="#\n" * 600, model="#\n" * 601))) == [
        "model:1: 601 lines, more than 600"
    ]


def test_a_long_function_is_found_and_its_docstring_is_free() -> None:
    head = 'def f():\n    """One.\n\n    Two.\n    """\n'
    sources = _small_house(uri=head + "    x = 1\n" * 40, model=head + "    x = 1\n" * 41, limits="def f(): 'alone'")

    assert list(functions_are_short(sources)) == ["model:1: f has 41 lines, more than 40"]


def test_a_module_without_a_docstring_is_found() -> None:
    assert list(every_module_says_what_it_is(_small_house(uri='"""URIs."""', model="x = 1"))) == [
        "model:1: no docstring"
    ]


def test_an_empty_word_in_a_name_is_found() -> None:
    sources = _small_house(
        uri_utils="", model="class HTTPHandler:\n    def decode_base64(self): ...\n    def based_on(self): ..."
    )

    assert list(names_mean_something(sources)) == [
        "uri_utils:1: uri_utils: the word 'util' says nothing",
        "model:1: HTTPHandler: the word 'handler' says nothing",
    ]


def test_a_type_error_that_is_ignored_is_found() -> None:
    sources = _small_house(model="x = 1  # type: ignore[assignment]\ny = '# type: ignore'", uri="# mypy: ignore-errors")

    assert list(nothing_is_ignored_by_the_type_checker(sources)) == [
        "model:1: # type: ignore[assignment]",
        "uri:1: # mypy: ignore-errors",
    ]


def test_a_noqa_without_a_reason_is_found() -> None:
    text = "a = 1  # noqa\nb = 2  # noqa: E501\nc = 3  # noqa: E501 a table reads better wide\nd = '# noqa'"

    assert list(noqas_are_few_and_have_reasons(_small_house(model=text))) == [
        "model:1: # noqa: write it as '# noqa: CODE the reason'",
        "model:2: # noqa: E501: write it as '# noqa: CODE the reason'",
    ]


def test_a_ninth_noqa_is_found() -> None:
    text = "a = 1  # noqa: E501 a table reads better wide\n"

    assert list(noqas_are_few_and_have_reasons(_small_house(model=text * 8))) == []
    assert len(list(noqas_are_few_and_have_reasons(_small_house(model=text * 9)))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "try: ...\nexcept Exception: ...",
        "try: ...\nexcept (OSError, BaseException): ...",
        "try: ...\nexcept: ...",
        "import contextlib\nwith contextlib.suppress(Exception): ...",
    ],
)
def test_catching_everything_is_found(text: str) -> None:
    assert list(everything_is_caught_only_at_the_boundaries(_small_house(watch=text, core__faults=text))) == [
        "watch:2: catches everything; name the errors"
    ]
    assert list(everything_is_caught_only_at_the_boundaries(_small_house(cli__serve=text, cli__ls=text))) == [
        "cli.ls:2: catches everything a second time, after cli.serve:2"
    ]


def test_tidying_up_and_raising_again_catches_nothing() -> None:
    text = "try: ...\nexcept BaseException:\n    close()\n    raise"

    assert list(everything_is_caught_only_at_the_boundaries(_small_house(sandbox=text))) == []
