"""What a host and Carrel said to each other, from the records of `wiretap`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.hosts.script import Json
from tests.hosts.wiretap import FROM_HOST


@dataclass(frozen=True)
class Message:
    """A message between a host and a server."""

    from_host: bool
    content: Json

    @property
    def method(self) -> str:
        """The method of a request or notification; empty for an answer."""
        method: str = self.content.get("method", "")
        return method


class Wire:
    """The records below a home, read again at each look."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "wire"

    def messages(self) -> list[Message]:
        """Return all messages, those of each server in order."""
        return [message for record in sorted(self._folder.glob("*.jsonl")) for message in _read(record)]

    def methods(self) -> list[str]:
        """Return the methods that the host used, in order of their first use."""
        return list(dict.fromkeys(one.method for one in self.messages() if one.from_host and one.method))

    def requests(self, method: str) -> list[Json]:
        """Return the parameters of the host's requests of a method."""
        asked = (one.content for one in self.messages() if one.from_host and one.method == method)
        return [content.get("params", {}) for content in asked]

    def answers(self, method: str) -> list[Json]:
        """Return the server's answers to a method, in the order of the requests."""
        found = []
        for record in sorted(self._folder.glob("*.jsonl")):
            messages = list(_read(record))
            by_id = {one.content["id"]: one.content for one in messages if not one.from_host and "id" in one.content}
            asked = [one.content["id"] for one in messages if one.from_host and one.method == method]
            found += [by_id[number] for number in asked if number in by_id]
        return found

    def sent(self, method: str) -> int:
        """Return how many notifications of a method the server sent."""
        return sum(one.method == method for one in self.messages() if not one.from_host)


def _read(record: Path) -> Iterator[Message]:
    for line in record.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):  # the last line may still be written
            yield Message(line[:1] == FROM_HOST, json.loads(line[1:]))
