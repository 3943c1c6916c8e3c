"""Languages by file ending, and how a definition looks in each."""

import difflib
import re
from functools import cache
from typing import Final, NamedTuple

ENDINGS: Final = {
    "bash": "sh bash bats zsh fish",
    "c": "c h",
    "clojure": "clj cljs cljc edn",
    "cpp": "cc cpp cxx c++ hh hpp hxx inc ipp",
    "csharp": "cs csx",
    "css": "css scss sass less",
    "dart": "dart",
    "elixir": "ex exs",
    "erlang": "erl hrl",
    "fsharp": "fs fsi fsx",
    "go": "go",
    "graphql": "graphql gql",
    "groovy": "groovy gradle",
    "haskell": "hs lhs",
    "html": "html htm xhtml",
    "java": "java",
    "javascript": "js jsx mjs cjs",
    "json": "json jsonc json5 jsonl ndjson",
    "julia": "jl",
    "kotlin": "kt kts",
    "log": "log",
    "lua": "lua",
    "markdown": "md markdown mdx",
    "nim": "nim",
    "ocaml": "ml mli",
    "perl": "pl pm",
    "php": "php",
    "powershell": "ps1 psm1",
    "protobuf": "proto",
    "python": "py pyi pyw",
    "r": "r",
    "ruby": "rb rake gemspec",
    "rust": "rs",
    "scala": "scala sc sbt",
    "sql": "sql",
    "swift": "swift",
    "terraform": "tf tfvars",
    "text": "txt text rst adoc org",
    "toml": "toml",
    "typescript": "ts tsx mts cts",
    "vue": "vue svelte",
    "xml": "xml xsd xsl svg plist csproj",
    "yaml": "yaml yml",
    "zig": "zig zon",
}
"""Each language with the file endings that belong to it."""

ALIASES: Final = {
    "c#": "csharp",
    "c++": "cpp",
    "golang": "go",
    "js": "javascript",
    "md": "markdown",
    "objc": "c",
    "py": "python",
    "rb": "ruby",
    "rs": "rust",
    "sh": "bash",
    "shell": "bash",
    "ts": "typescript",
    "yml": "yaml",
}
"""Other names of languages."""

_BY_ENDING: Final = {ending: language for language, endings in ENDINGS.items() for ending in endings.split()}
_BY_NAME: Final = {"makefile": "make", "dockerfile": "docker", "cmakelists.txt": "cmake", "rakefile": "ruby"}
NAMES: Final = frozenset({*ENDINGS, *_BY_NAME.values()})


def language_of(path: str) -> str:
    """Return the language of a file by its name; empty if the name does not tell."""
    name = path.rpartition("/")[2].lower()
    return _BY_NAME.get(name) or _BY_ENDING.get(name.rpartition(".")[2] if "." in name else "", "")


def language_named(word: str) -> str | None:
    """Return the language for a word such as `py`; None if there is none."""
    folded = word.lower().lstrip(".")
    if folded in NAMES:
        return folded
    return ALIASES.get(folded) or _BY_ENDING.get(folded)


def nearest_language(word: str) -> str | None:
    """Return the language with the most similar name; None if none is similar."""
    return next(iter(difflib.get_close_matches(word.lower(), sorted({*NAMES, *ALIASES}), 1, 0.5)), None)


# Definitions. Each pattern is tried at the begin of every line. Two parts that follow each other never match the same
# characters, so that no line takes long. The last group that matched is the name.

_NAME: Final = r"([A-Za-z_$][\w$]*)"
_MODIFIERS: Final = (
    r"(?:(?:public|private|protected|internal|static|final|abstract|override|open|sealed|data|inline|async|export|default"
    r"|declare|readonly|partial|virtual|unsafe|extern|pub(?:\([^)\n]*\))?|const|fileprivate|mutating|suspend|expect|actual"
    r"|implicit|lazy|case|operator|infix|tailrec|value|enum|annotation|synchronized|native|local|indirect|final|class"
    r"|nonisolated|required|convenience|inner|companion|external|new|virtual|volatile|transient|strictfp|ref)[ \t]+)*"
)


def _keywords(words: str, name: str = _NAME) -> str:
    return rf"[ \t]*{_MODIFIERS}(?:{words})[ \t]+{name}"


_METHOD: Final = (
    r"[ \t]{0,8}(?:[A-Za-z_][\w.<>\[\],?:]*[ \t*&]+){1,6}~?([A-Za-z_]\w*)[ \t]*\([^;{}\n]*(?:\)[^;={}\n]*)?\{?[ \t]*$"
)
"""A method or function of a language that writes the type before the name: no semicolon ends its line."""
_OBJECTS: Final = (
    "class|interface|struct|enum|record|delegate|namespace|object|trait|protocol|typealias|union|mixin|extension"
)

_CLASS: Final = _keywords(
    r"class|struct|union|enum(?:[ \t]+class)?|namespace|concept",
    r"(?:[A-Z][A-Z_\d]+(?:\([^)\n]*\))?[ \t]+){0,3}" + _NAME + r"(?![\w \t]*;)",
)
"""A class of C++; macros may stand before its name. A header says by nothing whether it is C or C++."""

_DEFINITIONS: Final = {
    "bash": (r"[ \t]*(?:function[ \t]+)?([A-Za-z_][\w:.-]*)[ \t]*\(\)", r"[ \t]*function[ \t]+([\w:.-]+)"),
    "c": (
        _CLASS,
        r"(?:struct|union|enum|typedef[ \t]+(?:struct|union|enum))[ \t]+([A-Za-z_]\w*)[ \t]*\{?[ \t]*$",
        r"[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)",
        r"(?![ \t]|return|else|if|for|while|switch|case|goto)(?:[A-Za-z_]\w*[ \t*]+){1,6}([A-Za-z_]\w*)\([^;\n]*$",
        r"\}[ \t]*([A-Za-z_]\w*);",
        r"([A-Za-z_]\w*)\([^;\n]*\)[ \t]*\{?$",
    ),
    "cpp": (
        _CLASS,
        r"[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)",
        r"[ \t]*using[ \t]+([A-Za-z_]\w*)[ \t]*=",
        (
            r"[ \t]{0,4}(?!return|else|if|for|while|switch|case|throw|delete)(?:[A-Za-z_][\w:<>,]*[ \t*&]+){1,6}"
            r"(?:\w+::)*~?([A-Za-z_]\w*)\([^;\n]*$"
        ),
    ),
    "clojure": (r"[ \t]*\((?:def\w*|ns)[ \t]+(?:\^\S+[ \t]+)?([^\s()\[\]{}]+)",),
    "csharp": (_keywords(_OBJECTS), _METHOD),
    "css": (r"([.#@]?[\w-]+)[^;{}\n]*\{",),
    "dart": (_keywords(_OBJECTS + "|typedef"), _METHOD),
    "elixir": (
        r"[ \t]*(?:def(?:p|module|macrop?|protocol|impl|struct|guardp?|delegate|exception|callback)?)[ \t]+([\w.!?]+)",
    ),
    "erlang": (r"([a-z]\w*)\([^.\n]*->", r"-(?:module|record|define)\(([\w]+)"),
    "fsharp": (
        r"[ \t]*(?:let|type|module|member|and)[ \t]+(?:rec[ \t]+|inline[ \t]+|private[ \t]+)*(?:\w+\.)?" + _NAME,
    ),
    "go": (
        r"func[ \t]+(?:\([^)\n]*\)[ \t]*)?([A-Za-z_]\w*)",
        r"[ \t]*type[ \t]+([A-Za-z_]\w*)",
        r"(?:var|const)[ \t]+([A-Za-z_]\w*)",
    ),
    "groovy": (_keywords(_OBJECTS + "|def|task"), _METHOD),
    "haskell": (
        r"([a-z_][\w']*)(?:[ \t]*,[ \t]*[a-z_][\w']*)*[ \t]*::",
        r"(?:data|newtype|type|class)[ \t]+(?:[^\s=>][^=>\n]*=>[ \t]*)?([A-Z][\w']*)",
        r"module[ \t]+([\w.]+)",
    ),
    "java": (_keywords(_OBJECTS + "|@interface"), _METHOD),
    "javascript": (
        _keywords(r"function\*?|class|interface|type|enum|namespace|module"),
        r"(?:export[ \t]+)?(?:const|let|var)[ \t]+([A-Za-z_$][\w$]*)[ \t]*[=:]",
        (
            r"[ \t]+(?:const|let|var)[ \t]+([A-Za-z_$][\w$]*)[ \t]*=[ \t]*"
            r"(?:async[ \t]*)?(?:function|\([^)\n]*\)[ \t]*=>|\w+[ \t]*=>)"
        ),
        r"[ \t]{2,8}"
        + _MODIFIERS
        + r"(?:get[ \t]+|set[ \t]+|\*)?(?!if|for|while|switch|catch|return|function|super)#?([A-Za-z_$][\w$]*)"
        + r"[ \t]*(?:<[^>\n]*>)?\([^;\n]*\{[ \t]*$",
        r"(?:module\.)?exports\.([\w$]+)[ \t]*=",
        r"[ \t]*[\w$.]+\.prototype\.([\w$]+)[ \t]*=",
    ),
    "json": (r'(?:[ ]{0,4}|\t)"([^"\n]{1,80})"[ \t]*:',),
    "julia": (_keywords("function|struct|mutable struct|macro|module|abstract type"),),
    "kotlin": (
        _keywords(_OBJECTS),
        r"[ \t]*" + _MODIFIERS + r"(?:fun|val|var)[ \t]+(?:<[^>\n]*>[ \t]*)?(?:[\w<>?, *]+\.)?([A-Za-z_]\w*)",
    ),
    "lua": (
        r"[ \t]*(?:local[ \t]+)?function[ \t]+(?:[\w]+[.:])*([A-Za-z_]\w*)",
        r"[ \t]*(?:local[ \t]+)?(?:[\w]+\.)*([A-Za-z_]\w*)[ \t]*=[ \t]*function",
    ),
    "markdown": (r"#{1,6}[ \t]+(.{1,120}?)[ \t#]*$",),
    "nim": (_keywords("proc|func|method|template|macro|iterator|type"),),
    "ocaml": (r"[ \t]*(?:let|type|module|val|class|exception)[ \t]+(?:rec[ \t]+|type[ \t]+)?" + _NAME,),
    "perl": (r"[ \t]*(?:sub|package)[ \t]+([\w:]+)",),
    "php": (_keywords(_OBJECTS + r"|function[ \t]*&?"),),
    "powershell": (r"[ \t]*(?i:function|class|filter)[ \t]+([\w:-]+)",),
    "protobuf": (_keywords("message|enum|service|rpc"),),
    "python": (r"[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", r"([A-Za-z_]\w*)[ \t]*(?::[^=\n]+)?=(?!=)"),
    "r": (r"[ \t]*([\w.]+)[ \t]*(?:<-|=)[ \t]*function",),
    "ruby": (r"[ \t]*(?:def|class|module)[ \t]+(?:self\.|\w+::)*([A-Za-z_]\w*[?!]?)", r"[ \t]*([A-Z]\w*)[ \t]*="),
    "rust": (
        r"[ \t]*" + _MODIFIERS + r"(?:fn|struct|enum|trait|type|mod|union|static|macro_rules!)[ \t]+([A-Za-z_]\w*)",
        r"[ \t]*(?:pub(?:\([^)\n]*\))?[ \t]+)?const[ \t]+([A-Za-z_]\w*)",
    ),
    "scala": (
        _keywords("class|object|trait|type|def|given|enum|package object"),
        r"[ \t]{0,4}" + _MODIFIERS + r"(?:val|var)[ \t]+([A-Za-z_]\w*)",
    ),
    "sql": (
        (
            r"[ \t]*(?i:create)[ \t]+(?i:or replace[ \t]+)?(?i:temp(?:orary)?[ \t]+|unique[ \t]+)?"
            r"(?i:table|view|index|function|procedure|trigger|type)[ \t]+(?i:if not exists[ \t]+)?[\"`\[]?([\w.]+)"
        ),
    ),
    "swift": (
        r"[ \t]*(?:@\w+(?:\([^)\n]*\))?[ \t]+)*"
        + _MODIFIERS
        + r"(?:func|class|struct|enum|protocol|extension|typealias|actor|macro)[ \t]+([A-Za-z_]\w*)",
        r"[ \t]{0,4}" + _MODIFIERS + r"(?:let|var)[ \t]+([A-Za-z_]\w*)",
    ),
    "terraform": (r'(?:resource|data|module|variable|output|provider)[ \t]+"([^"\n]+)"(?:[ \t]+"([^"\n]+)")?',),
    "toml": (r"\[+([^\]\n]+)\]", r"([\w.-]+)[ \t]*="),
    "yaml": (r"([A-Za-z_][\w./-]*):(?:[ \t]|$)",),
    "zig": (r"[ \t]*(?:pub[ \t]+|export[ \t]+|extern[ \t]+|inline[ \t]+)*(?:fn|const|var)[ \t]+([A-Za-z_]\w*)",),
}
_SAME: Final = {"typescript": "javascript", "vue": "javascript"}
_ANY: Final = (
    (
        r"[ \t]*(?:[a-z]+[ \t]+){0,2}(?:class|def|fn|func|function|fun|struct|interface|trait|module|enum|proc|sub)"
        r"[ \t]+([A-Za-z_]\w*)"
    ),
)
_TYPE: Final = re.compile(
    r"\b(?:class|struct|trait|interface|enum|protocol|object|module|defmodule|defprotocol|type|typealias|data|newtype"
    r"|record|namespace|union|actor|message|typedef|mixin|service)\b"
)
_PROSE: Final = frozenset({"text", "log", "", "html", "xml"})
_TYPELESS: Final = frozenset({"css", "json", "markdown", "toml", "yaml"})


@cache
def _pattern(language: str) -> re.Pattern[str] | None:
    """Return the pattern of a language's definitions; it begins with the end of the line before, to be fast."""
    known = _DEFINITIONS.get(_SAME.get(language, language))
    sources = known if known is not None else () if language in _PROSE else _ANY
    return re.compile(rf"\n(?:{'|'.join(sources)})", re.MULTILINE | re.ASCII) if sources else None


class Definition(NamedTuple):
    """A definition: where its line begins in the text, its name, and whether it defines a type or a module."""

    start: int
    name: str
    is_type: bool


def definitions_in(text: str, language: str) -> list[Definition]:
    """Return every definition in a text, in its order."""
    pattern = _pattern(language)
    if pattern is None:
        return []
    return [_definition(match, language) for match in pattern.finditer(f"\n{text}")]


def definition_in(line: str, language: str) -> Definition | None:
    """Return the definition that stands in one line; None if there is none."""
    pattern = _pattern(language)
    match = None if pattern is None else pattern.match(f"\n{line}")
    return None if match is None else _definition(match, language)


def _definition(match: re.Match[str], language: str) -> Definition:
    is_type = language not in _TYPELESS and _TYPE.search(match[0]) is not None
    return Definition(match.start(), match[match.lastindex or 0], is_type)
