"""How a contender is asked for a file, and where its answer holds it."""

import base64
import json
from collections.abc import Mapping
from typing import Any, Literal, Protocol

Source = Literal["memory", "files"]


class Spelling(Protocol):
    """How a contender is asked for a file, and where its answer holds it."""

    def read(self, name: str, source: Source, query: str = "") -> tuple[str, dict[str, Any]]:
        """Return method and parameters."""

    def content(self, result: Mapping[str, Any]) -> bytes:
        """Return the bytes in a result."""


class Resources:
    """Asks with `resources/read`."""

    def __init__(self, memory: str, files: str) -> None:
        self._prefix = {"memory": memory, "files": files}

    def read(self, name: str, source: Source, query: str = "") -> tuple[str, dict[str, Any]]:
        """Return method and parameters."""
        return "resources/read", {"uri": f"{self._prefix[source]}{name}{query}"}

    def content(self, result: Mapping[str, Any]) -> bytes:
        """Return the bytes in a result."""
        (item,) = result["contents"]
        return base64.b64decode(item["blob"]) if "blob" in item else str(item["text"]).encode()


class FileTools:
    """Asks a server without resources with the tools that come nearest; it works in the folder of the files."""

    def read(self, name: str, _: Source, __: str = "") -> tuple[str, dict[str, Any]]:
        """Return method and parameters."""
        tool = "read_media_file" if name.endswith(".bin") else "read_text_file"
        return "tools/call", {"name": tool, "arguments": {"path": name}}

    def content(self, result: Mapping[str, Any]) -> bytes:
        """Return the bytes in a result."""
        (item,) = result["content"]
        return base64.b64decode(item["resource"]["blob"]) if "resource" in item else str(item["text"]).encode()


class Configuration:
    """Asks a server whose one resource is an object of settings; one of them is the text."""

    def __init__(self, uri: str, key: str) -> None:
        self._uri, self._key = uri, key

    def read(self, _: str, __: Source, ___: str = "") -> tuple[str, dict[str, Any]]:
        """Return method and parameters."""
        return "resources/read", {"uri": self._uri}

    def content(self, result: Mapping[str, Any]) -> bytes:
        """Return the bytes in a result."""
        (item,) = result["contents"]
        return str(json.loads(item["text"])[self._key]).encode()
