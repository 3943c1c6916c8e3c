"""What a file is: text or binary by its first bytes, its MIME type by its name.

The table does not depend on the machine, so the same file has the same type everywhere.
"""

from typing import Final

from carrel.core.model import Encoding
from carrel.core.record import Value

WINDOW: Final = 65_536
"""First bytes of a file that are looked at."""
UNKNOWN_TEXT: Final = "text/plain"
UNKNOWN_BINARY: Final = "application/octet-stream"

_NAMED_LIKE_THEIR_SUFFIX: Final = {
    ("text/x-", True): "cmake dart java lua nix php sql swift zig",
    ("text/", True): "csv",
    ("application/", True): "toml",
    ("application/", False): "pdf wasm zip",
    ("audio/", False): "flac ogg wav",
    ("font/", False): "otf ttf woff woff2",
    ("image/", False): "avif bmp gif png webp",
    ("video/", False): "mp4 webm",
}
"""The beginnings of MIME types, with whether they are text, and the suffixes that end them."""
_TEXT_TYPES: Final = {
    "text/markdown": "md markdown mdx",
    "text/yaml": "yaml yml",
    "application/json": "json jsonc json5 webmanifest ipynb arb",
    "application/x-ndjson": "jsonl ndjson",
    "text/plain": "txt text log cfg conf ini properties env gitignore gitattributes editorconfig lock rst adoc tex po",
    "text/html": "html htm xhtml",
    "text/css": "css scss sass less",
    "text/tab-separated-values": "tsv",
    "text/javascript": "js mjs cjs jsx",
    "text/x-typescript": "ts mts cts tsx",
    "text/x-python": "py pyi pyw",
    "text/x-kotlin": "kt kts",
    "text/x-groovy": "gradle groovy",
    "text/x-objective-c": "m mm",
    "text/x-c": "c h",
    "text/x-c++": "cc cpp cxx hpp hh hxx",
    "text/x-csharp": "cs",
    "text/x-go": "go mod sum",
    "text/x-rust": "rs",
    "text/x-ruby": "rb rake gemspec podspec",
    "text/x-perl": "pl pm",
    "text/x-scala": "scala sbt",
    "text/x-clojure": "clj cljs edn",
    "text/x-elixir": "ex exs",
    "text/x-erlang": "erl hrl",
    "text/x-haskell": "hs",
    "text/x-julia": "jl",
    "text/x-r": "r rmd",
    "text/x-shellscript": "sh bash zsh fish",
    "text/x-powershell": "ps1 psm1",
    "text/x-diff": "diff patch",
    "text/x-protobuf": "proto",
    "text/x-graphql": "graphql gql",
    "text/x-logtalk": "lgt logtalk",
    "text/x-prolog": "pro prolog",
    "text/x-vue": "vue svelte",
    "text/x-terraform": "tf hcl",
    "application/xml": "xml plist xsd xsl xslt storyboard xib pom csproj",
    "image/svg+xml": "svg",
}
_BINARY_TYPES: Final = {
    "image/jpeg": "jpg jpeg",
    "image/tiff": "tif tiff",
    "image/x-icon": "ico",
    "audio/mpeg": "mp3",
    "video/quicktime": "mov",
    "application/gzip": "gz tgz",
    "application/x-bzip2": "bz2",
    "application/x-xz": "xz",
    "application/zstd": "zst",
    "application/x-tar": "tar",
    "application/x-7z-compressed": "7z",
    "application/java-archive": "jar aar",
    "application/vnd.sqlite3": "db sqlite sqlite3",
    "application/vnd.android.package-archive": "apk",
    "application/octet-stream": "bin exe dll so dylib o a class pyc pyd dill",
}
_NAMES: Final = {
    "text/x-makefile": "Makefile GNUmakefile",
    "text/x-dockerfile": "Dockerfile Containerfile",
    "text/x-cmake": "CMakeLists.txt",
    "text/x-ruby": "Podfile Gemfile Rakefile",
    "text/plain": "LICENSE README go.sum",
}


def _by_word(types: dict[str, str], *, is_text: bool) -> dict[str, tuple[str, bool]]:
    """Return the MIME type of each word, and whether it is text."""
    return {word: (kind, is_text) for kind, words in types.items() for word in words.split()}


_BY_SUFFIX: Final = {
    **{
        s: (start + s, is_text)
        for (start, is_text), suffixes in _NAMED_LIKE_THEIR_SUFFIX.items()
        for s in suffixes.split()
    },
    **_by_word(_BINARY_TYPES, is_text=False),
    **_by_word(_TEXT_TYPES, is_text=True),
}
_BY_NAME: Final = _by_word(_NAMES, is_text=True)

_CONTROL: Final = bytes([*range(0x07), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F])


class Kind(Value, frozen=True):
    """The encoding of a file; `is_fallback` if it is only assumed."""

    encoding: Encoding
    is_fallback: bool = False

    @property
    def is_text(self) -> bool:
        """Whether the file is served as text."""
        return self.encoding != "binary"


def sniff(head: bytes, *, is_whole: bool) -> Kind:
    """Return the kind of a file by its first bytes; `is_whole` if there are no more."""
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
        # The last character may be cut at the end of the window.
        return not is_whole and error.reason == "unexpected end of data" and error.end == len(head)
    return True


def type_of(name: str, *, is_text: bool) -> str:
    """Return the MIME type of a file by its name; binary content never gets a text type."""
    known = known_type(name)
    if known is None:
        return UNKNOWN_TEXT if is_text else UNKNOWN_BINARY
    return known[0] if is_text or not known[1] else UNKNOWN_BINARY


def known_type(name: str) -> tuple[str, bool] | None:
    """Return the MIME type that belongs to a name, and whether it is text; None for an unknown name."""
    # The suffix of `.gitignore` is `gitignore`.
    return _BY_NAME.get(name) or (_BY_SUFFIX.get(name.rpartition(".")[2].lower()) if "." in name else None)
