"""Languages by file ending, and definitions by how they look."""

import time

import pytest

from carrel.search.languages import ENDINGS, definitions_in, language_named, language_of, nearest_language


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("src/a.py", "python"),
        ("a/b.test.TS", "typescript"),
        ("Makefile", "make"),
        ("docker/Dockerfile", "docker"),
        ("notes", ""),
        (".gitignore", ""),
        ("README.md", "markdown"),
        ("x.h", "c"),
    ],
)
def test_a_language_is_known_by_the_name_of_a_file(path: str, language: str) -> None:
    assert language_of(path) == language


@pytest.mark.parametrize(
    ("word", "language"), [("py", "python"), ("Python", "python"), ("c++", "cpp"), (".rs", "rust"), ("klingon", None)]
)
def test_a_language_is_known_by_what_people_call_it(word: str, language: str | None) -> None:
    assert language_named(word) == language


def test_the_nearest_language_is_named() -> None:
    assert nearest_language("pythn") == "python"
    assert nearest_language("zzzzzz") is None


EXAMPLES = {
    "python": ("class Router:\n    async def dispatch(self): ...\nLIMIT: int = 3\n", ["Router", "dispatch", "LIMIT"]),
    "javascript": (
        "export const go = 1\nclass A {\n  async run(x) {\n  }\n}\nfunction f() {}\n",
        ["go", "A", "run", "f"],
    ),
    "typescript": ("export interface Shape {}\nexport type Id = string\n", ["Shape", "Id"]),
    "go": ("func (s *Server) Serve() {\n}\ntype Server struct {\n", ["Serve", "Server"]),
    "rust": ("pub(crate) fn parse() {}\npub trait Visit {}\nmacro_rules! go {}\n", ["parse", "Visit", "go"]),
    "java": ("public class A {\n  public static int add(int a) {\n  }\n}\n", ["A", "add"]),
    "csharp": ("public sealed class A\n{\n    public Task<int> RunAsync(int a)\n", ["A", "RunAsync"]),
    "kotlin": ("data class P(val x: Int)\nsuspend fun <T> Flow<T>.collectAll() {\n", ["P", "collectAll"]),
    "swift": ("public final class Session {\n  open func request() {\n", ["Session", "request"]),
    "scala": ("final case class Uri(a: Int)\nobject Uri {\n  def parse(s: String) = 1\n", ["Uri", "Uri", "parse"]),
    "php": ("final class Router\n{\n    public function add($x)\n", ["Router", "add"]),
    "ruby": ("module A\n  class B < C\n    def self.go!\n", ["A", "B", "go!"]),
    "elixir": ("defmodule Phoenix.Router do\n  defmacro get(a) do\n", ["Phoenix.Router", "get"]),
    "haskell": ("module XMonad.Core where\ndata Layout = L\nrunX :: Int\n", ["XMonad.Core", "Layout", "runX"]),
    "lua": ("local function f()\nM.setup = function(x)\nfunction H.go()\n", ["f", "setup", "go"]),
    "zig": ("pub fn main() void {\nconst std = 1;\n", ["main", "std"]),
    "bash": ("go() {\nfunction run {\n", ["go", "run"]),
    "c": ("static int parse_it(int a)\n{\n#define LIMIT 3\nstruct node {\n", ["parse_it", "LIMIT", "node"]),
    "cpp": ("class LOCKABLE Mutex {\nvoid Mutex::Lock() {\nnamespace absl {\n", ["Mutex", "Lock", "absl"]),
    "dart": ("abstract class A {\n  Future<void> go() {\n", ["A", "go"]),
    "sql": ("CREATE TABLE IF NOT EXISTS users (\n", ["users"]),
    "markdown": ("# Setting up\ntext\n## Step one ##\n", ["Setting up", "Step one"]),
    "toml": ("[tool.ruff]\nline = 1\n", ["tool.ruff", "line"]),
    "yaml": ("jobs:\n  a: 1\n", ["jobs"]),
    "json": ('{\n  "name": "x",\n          "deep": 1\n}\n', ["name"]),
}


@pytest.mark.parametrize("language", EXAMPLES)
def test_definitions_are_found(language: str) -> None:
    text, names = EXAMPLES[language]

    found = definitions_in(text, language)

    assert [definition.name for definition in found] == names
    assert all(definition.start == 0 or text[definition.start - 1] == "\n" for definition in found)


def test_a_type_is_told_from_a_function() -> None:
    found = definitions_in("class A:\n    def f(self): ...\n", "python")

    assert [(definition.name, definition.is_type) for definition in found] == [("A", True), ("f", False)]


@pytest.mark.slow
@pytest.mark.parametrize("language", sorted(ENDINGS))
@pytest.mark.parametrize("line", ["a " * 50_000, "public " * 20_000, "a(" * 50_000, "\t" * 100_000, "<" * 100_000])
def test_no_line_takes_long(language: str, line: str) -> None:
    started = time.process_time()

    definitions_in(line, language)
    definitions_in(f"class {line}\n" * 2, language)

    assert time.process_time() - started < 2
