"""What a file is: text or binary by its content, its MIME type by its name.

The table is Carrel's own, not the machine's, so the same file has the same type
everywhere. Text or binary is decided by the first bytes alone, never by the name.
"""

from typing import Final

from carrel.core.model import Encoding
from carrel.core.record import Value

WINDOW: Final = 65_536
UNKNOWN_TEXT: Final = "text/plain"
UNKNOWN_BINARY: Final = "application/octet-stream"

_TEXT_TYPES: Final = {
    "text/x-dart": "dart",
    "text/markdown": "md markdown mdx",
    "text/yaml": "yaml yml",
    "application/json": "json jsonc json5 webmanifest ipynb arb",
    "application/x-ndjson": "jsonl ndjson",
    "application/toml": "toml",
    "text/plain": "txt text log cfg conf ini properties env gitignore gitattributes editorconfig lock rst adoc tex po",
    "text/html": "html htm xhtml",
    "text/css": "css scss sass less",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "text/javascript": "js mjs cjs jsx",
    "text/x-typescript": "ts mts cts tsx",
    "text/x-python": "py pyi pyw",
    "text/x-kotlin": "kt kts",
    "text/x-swift": "swift",
    "text/x-java": "java",
    "text/x-groovy": "gradle groovy",
    "text/x-objective-c": "m mm",
    "text/x-c": "c h",
    "text/x-c++": "cc cpp cxx hpp hh hxx",
    "text/x-csharp": "cs",
    "text/x-go": "go mod sum",
    "text/x-rust": "rs",
    "text/x-ruby": "rb rake gemspec podspec",
    "text/x-php": "php",
    "text/x-lua": "lua",
    "text/x-perl": "pl pm",
    "text/x-scala": "scala sbt",
    "text/x-clojure": "clj cljs edn",
    "text/x-elixir": "ex exs",
    "text/x-erlang": "erl hrl",
    "text/x-haskell": "hs",
    "text/x-julia": "jl",
    "text/x-r": "r rmd",
    "text/x-sql": "sql",
    "text/x-shellscript": "sh bash zsh fish",
    "text/x-powershell": "ps1 psm1",
    "text/x-diff": "diff patch",
    "text/x-protobuf": "proto",
    "text/x-graphql": "graphql gql",
    "text/x-logtalk": "lgt logtalk",
    "text/x-prolog": "pro prolog",
    "text/x-nix": "nix",
    "text/x-zig": "zig",
    "text/x-vue": "vue svelte",
    "text/x-terraform": "tf hcl",
    "text/x-cmake": "cmake",
    "application/xml": "xml plist xsd xsl xslt storyboard xib pom csproj",
    "image/svg+xml": "svg",
}
_BINARY_TYPES: Final = {
    "image/png": "png",
    "image/jpeg": "jpg jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/avif": "avif",
    "image/bmp": "bmp",
    "image/tiff": "tif tiff",
    "image/x-icon": "ico",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/ogg": "ogg",
    "audio/flac": "flac",
    "video/mp4": "mp4",
    "video/webm": "webm",
    "video/quicktime": "mov",
    "font/ttf": "ttf",
    "font/otf": "otf",
    "font/woff": "woff",
    "font/woff2": "woff2",
    "application/pdf": "pdf",
    "application/zip": "zip",
    "application/gzip": "gz tgz",
    "application/x-bzip2": "bz2",
    "application/x-xz": "xz",
    "application/zstd": "zst",
    "application/x-tar": "tar",
    "application/x-7z-compressed": "7z",
    "application/java-archive": "jar aar",
    "application/wasm": "wasm",
    "application/vnd.sqlite3": "db sqlite sqlite3",
    "application/vnd.android.package-archive": "apk",
    "application/octet-stream": "bin exe dll so dylib o a class pyc pyd dill",
}
_NAMES: Final = {
    "Makefile": "text/x-makefile",
    "GNUmakefile": "text/x-makefile",
    "Dockerfile": "text/x-dockerfile",
    "Containerfile": "text/x-dockerfile",
    "CMakeLists.txt": "text/x-cmake",
    "Podfile": "text/x-ruby",
    "Gemfile": "text/x-ruby",
    "Rakefile": "text/x-ruby",
    "LICENSE": "text/plain",
    "README": "text/plain",
    "go.sum": "text/plain",
}
_BY_SUFFIX: Final = {
    suffix: (kind, is_text)
    for table, is_text in ((_BINARY_TYPES, False), (_TEXT_TYPES, True))
    for kind, suffixes in table.items()
    for suffix in suffixes.split()
}
_BY_NAME: Final = {name: (kind, True) for name, kind in _NAMES.items()}

_CONTROL: Final = bytes([*range(0x07), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F])


class Kind(Value, frozen=True):
    """What a file's bytes are."""

    encoding: Encoding
    is_fallback: bool = False

    @property
    def is_text(self) -> bool:
        """Whether it is served as text."""
        return self.encoding != "binary"


def sniff(head: bytes, *, is_whole: bool) -> Kind:
    """Decide by the first bytes; `is_whole` when there are no more."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) and not head.startswith(b"\xff\xfe\x00\x00"):
        return Kind("utf-16le" if head.startswith(b"\xff\xfe") else "utf-16be")
    if head.startswith(b"\xef\xbb\xbf"):
        return Kind("utf-8")
    if b"\0" in head:
        return Kind("binary")
    if head.isascii() or _is_utf8(head, is_whole=is_whole):
        return Kind("utf-8")
    if head.translate(None, _CONTROL) == head:
        return Kind("iso-8859-1", is_fallback=True)
    return Kind("binary")


def _is_utf8(head: bytes, *, is_whole: bool) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # Where the window ends, its last character may be cut.
        return not is_whole and error.reason == "unexpected end of data" and error.end == len(head)
    return True


def type_of(name: str, *, is_text: bool) -> str:
    """Give the MIME type: by the name, but a text type on binary content becomes plain bytes."""
    known = known_type(name)
    if known is None:
        return UNKNOWN_TEXT if is_text else UNKNOWN_BINARY
    return known[0] if is_text or not known[1] else UNKNOWN_BINARY


def known_type(name: str) -> tuple[str, bool] | None:
    """Give the MIME type and whether it is text, where the name alone tells."""
    # What stands after the last dot counts; for a name like `.gitignore`, its rest.
    return _BY_NAME.get(name) or (_BY_SUFFIX.get(name.rpartition(".")[2].lower()) if "." in name else None)
