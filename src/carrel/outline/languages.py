"""Which language a text is in, and what counts as a definition in it.

A query names for each pattern the kind of the definition, and where its name and its body stand if the fields of the
grammar do not say so.
"""

from typing import Final

from carrel.core.record import Value


class Language(Value, frozen=True):
    """A language that has a grammar.

    `wrappers` are nodes around a definition that belong to its lines, such as decorators; those in `spelled` belong to
    its signature too. `private` is found in the signature of a private definition.
    """

    name: str
    package: str
    suffixes: tuple[str, ...]
    query: str
    entry: str = "language"
    wrappers: frozenset[str] = frozenset()
    spelled: frozenset[str] = frozenset()
    private: str = r"^[^(]*\b(file)?private\b"


_SCRIPT_FUNCTIONS: Final = """
(function_declaration) @function
(generator_function_declaration) @function
(method_definition) @method
(lexical_declaration (variable_declarator name: (_) @name
    value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @function
(variable_declaration (variable_declarator name: (_) @name
    value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @function
(expression_statement (assignment_expression left: (member_expression) @name
    right: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @function
"""

_JAVASCRIPT: Final = f"""
(class_declaration) @class
(field_definition property: (_) @name value: (arrow_function body: (_) @body)) @method
{_SCRIPT_FUNCTIONS}
"""

_TYPESCRIPT: Final = f"""
(class_declaration) @class
(abstract_class_declaration) @class
(interface_declaration) @interface
(type_alias_declaration) @type
(enum_declaration) @enum
(internal_module) @namespace
(module) @namespace
(function_signature) @function
(method_signature) @method
(abstract_method_signature) @method
(public_field_definition name: (_) @name value: (arrow_function body: (_) @body)) @method
{_SCRIPT_FUNCTIONS}
"""

_C: Final = """
(function_definition) @function
(declaration declarator: (function_declarator)) @function
(declaration declarator: (pointer_declarator declarator: (function_declarator))) @function
(struct_specifier name: (_) body: (_)) @struct
(union_specifier name: (_) body: (_)) @union
(enum_specifier name: (_) body: (_)) @enum
(type_definition type: (_ body: (_) @body) declarator: (_) @name) @type
(type_definition type: (_ !body) declarator: (_) @name) @type
(preproc_function_def value: (_)? @body) @macro
"""

_CPP: Final = f"""
{_C}
(class_specifier name: (_) body: (_)) @class
(namespace_definition) @namespace
(alias_declaration) @type
(concept_definition) @concept
(field_declaration declarator: (function_declarator)) @method
(field_declaration declarator: (reference_declarator (function_declarator))) @method
(field_declaration declarator: (pointer_declarator declarator: (function_declarator))) @method
"""

_DART: Final = """
(class_definition) @class
(mixin_declaration) @mixin
(extension_declaration) @extension
(enum_declaration) @enum
(type_alias . (type_identifier) @name) @type
(program (function_signature) @function)
(program (getter_signature) @function)
(program (setter_signature) @function)
(local_function_declaration (lambda_expression body: (_) @body)) @function
(method_signature) @method
(declaration [(constructor_signature) (constant_constructor_signature) (redirecting_factory_constructor_signature)
    (function_signature) (getter_signature) (setter_signature) (operator_signature)]) @method
"""

LANGUAGES: Final = (
    Language(
        "Python",
        "tree_sitter_python",
        ("py", "pyi", "pyw"),
        "(class_definition) @class (function_definition) @function",
        wrappers=frozenset({"decorated_definition"}),
    ),
    Language(
        "JavaScript",
        "tree_sitter_javascript",
        ("js", "mjs", "cjs", "jsx"),
        _JAVASCRIPT,
        wrappers=frozenset({"export_statement"}),
        spelled=frozenset({"export_statement"}),
    ),
    Language(
        "TypeScript",
        "tree_sitter_typescript",
        ("ts", "mts", "cts"),
        _TYPESCRIPT,
        entry="language_typescript",
        wrappers=frozenset({"export_statement", "expression_statement"}),
        spelled=frozenset({"export_statement"}),
    ),
    Language(
        "TSX",
        "tree_sitter_typescript",
        ("tsx",),
        _TYPESCRIPT,
        entry="language_tsx",
        wrappers=frozenset({"export_statement", "expression_statement"}),
        spelled=frozenset({"export_statement"}),
    ),
    Language("Dart", "tree_sitter_dart", ("dart",), _DART),
    Language(
        "Kotlin",
        "tree_sitter_kotlin",
        ("kt", "kts"),
        "(class_declaration) @class (object_declaration) @object (companion_object) @object "
        "(type_alias type: (_) @name) @type "
        "(function_declaration) @function (secondary_constructor) @method",
    ),
    Language(
        "Swift",
        "tree_sitter_swift",
        ("swift",),
        "(class_declaration) @class (protocol_declaration) @protocol (function_declaration) @function "
        "(protocol_function_declaration) @method (init_declaration) @method (deinit_declaration) @method "
        "(subscript_declaration) @method (typealias_declaration) @type",
    ),
    Language(
        "Java",
        "tree_sitter_java",
        ("java",),
        "(class_declaration) @class (interface_declaration) @interface (enum_declaration) @enum "
        "(record_declaration) @record (annotation_type_declaration) @annotation (method_declaration) @method "
        "(constructor_declaration) @method (compact_constructor_declaration) @method "
        "(annotation_type_element_declaration) @method",
    ),
    Language(
        "Go",
        "tree_sitter_go",
        ("go",),
        "(function_declaration) @function (method_declaration) @method (type_spec) @type (type_alias) @type",
        wrappers=frozenset({"type_declaration"}),
        spelled=frozenset({"type_declaration"}),
        private=r"^func (\([^)]*\) )?[a-z_]|^type [a-z_]",
    ),
    Language(
        "Rust",
        "tree_sitter_rust",
        ("rs",),
        "(function_item) @function (function_signature_item) @function (struct_item) @struct (enum_item) @enum "
        "(union_item) @union (trait_item) @trait (impl_item type: (_) @name) @impl "
        "(mod_item) @module (macro_definition) @macro (type_item) @type",
    ),
    Language("C", "tree_sitter_c", ("c", "h"), _C, private=r"^static\b"),
    Language(
        "C++",
        "tree_sitter_cpp",
        ("cc", "cpp", "cxx", "hh", "hpp", "hxx"),
        _CPP,
        wrappers=frozenset({"template_declaration"}),
        spelled=frozenset({"template_declaration"}),
        private=r"^static\b",
    ),
    Language(
        "C#",
        "tree_sitter_c_sharp",
        ("cs", "csx"),
        "(namespace_declaration) @namespace (class_declaration) @class (struct_declaration) @struct "
        "(interface_declaration) @interface (enum_declaration) @enum (record_declaration) @record "
        "(delegate_declaration) @delegate (method_declaration) @method (constructor_declaration) @method "
        "(destructor_declaration) @method (operator_declaration) @method (indexer_declaration) @method "
        "(property_declaration) @property (local_function_statement) @function",
    ),
    Language(
        "Ruby",
        "tree_sitter_ruby",
        ("rb", "rake", "gemspec"),
        "(class) @class (module) @module (singleton_class) @class (method) @method (singleton_method) @method",
    ),
    Language(
        "PHP",
        "tree_sitter_php",
        ("php", "phtml"),
        "(class_declaration) @class (interface_declaration) @interface (trait_declaration) @trait "
        "(enum_declaration) @enum (function_definition) @function (method_declaration) @method",
        entry="language_php",
    ),
    Language(
        "Lua",
        "tree_sitter_lua",
        ("lua",),
        """
        (function_declaration) @function
        (chunk (assignment_statement (variable_list) @name
            (expression_list value: (function_definition body: (_)? @body))) @function)
        (variable_declaration (assignment_statement (variable_list) @name
            (expression_list value: (function_definition body: (_)? @body)))) @function
        """,
        private=r"^local\b",
    ),
    Language(
        "Scala",
        "tree_sitter_scala",
        ("scala", "sc", "sbt"),
        "(class_definition) @class (object_definition) @object (trait_definition) @trait (enum_definition) @enum "
        "(function_definition) @function (function_declaration) @function (type_definition) @type "
        "(given_definition) @given (package_object) @object",
    ),
    Language("shell", "tree_sitter_bash", ("sh", "bash", "zsh", "ksh"), "(function_definition) @function"),
)

_BY_SUFFIX: Final = {suffix: language for language in LANGUAGES for suffix in language.suffixes}
_BY_TYPE: Final = {
    "text/javascript": "js",
    "text/x-c": "c",
    "text/x-c++": "cpp",
    "text/x-csharp": "cs",
    "text/x-dart": "dart",
    "text/x-go": "go",
    "text/x-java": "java",
    "text/x-kotlin": "kt",
    "text/x-lua": "lua",
    "text/x-php": "php",
    "text/x-python": "py",
    "text/x-ruby": "rb",
    "text/x-rust": "rs",
    "text/x-scala": "scala",
    "text/x-shellscript": "sh",
    "text/x-swift": "swift",
    "text/x-typescript": "ts",
    "application/json": "json",
    "application/toml": "toml",
    "application/yaml": "yaml",
    "text/markdown": "md",
    "text/yaml": "yaml",
}
"""The suffix that stands for a MIME type, for resources whose names have none."""
_INTERPRETERS: Final = {"python": "py", "node": "js", "ruby": "rb", "php": "php", "lua": "lua", "sh": "sh", "zsh": "sh"}
"""The suffix that stands for a program in the first line of a script, by how its name begins or ends."""


def of_suffix(suffix: str) -> Language | None:
    """Return the language of files with this suffix."""
    return _BY_SUFFIX.get(suffix)


def suffix_of(name: str, mime_type: str, first_line: str) -> str:
    """Return the suffix that stands for the kind of a text: from its name, its type or its first line."""
    stem, dot, suffix = name.rpartition(".")
    suffix = suffix.lower() if dot and stem else ""
    if suffix in _BY_SUFFIX or suffix in _BY_TYPE.values():
        return suffix
    kind = mime_type.partition(";")[0].strip().lower()
    if kind in _BY_TYPE:
        return _BY_TYPE[kind]
    if first_line.startswith("#!"):
        words = first_line[2:].split()
        program = next((word.rpartition("/")[2] for word in words if not word.endswith("/env")), "")
        for known, meant in _INTERPRETERS.items():
            if program.startswith(known) or program.endswith(known):
                return meant
    return suffix
