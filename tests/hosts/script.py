"""What a scripted model does: it calls tools in a given order, then answers. One form for every API."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """One request of a host to its model, in the words that all APIs share."""

    api: str
    tools: Mapping[str, str]
    """The tools that the model is shown: name and description."""
    hidden: frozenset[str]
    """Tools that are named but whose schema the model must first search for."""
    system: str
    texts: tuple[str, ...]
    """What the user, and the host in the user's name, wrote."""
    results: tuple[str, ...]
    """The answers of tools, in order."""
    body: Json = field(repr=False)

    def find_tool(self, name: str, server: str) -> str | None:
        """Return the host's own name of a tool, or `None`; `server` is empty for a tool of the host itself."""
        if not server:
            return name if name in self.tools else None
        ours = (tool for tool in self.tools if server in tool and tool.removesuffix(name)[-1:] in ("_", "-", "/"))
        return next(ours, name if name in self.tools else None)


Arguments = Json | Callable[[Turn], Json]


@dataclass(frozen=True)
class Call:
    """Call a tool of Carrel, or with `server=""` one of the host's own."""

    tool: str
    arguments: Arguments
    server: str = "carrel"
    again_while: str = ""
    """Call again while the answer has this text."""

    def arguments_for(self, turn: Turn) -> Json:
        """Return the arguments; a function makes them from the conversation so far."""
        return self.arguments(turn) if callable(self.arguments) else self.arguments


@dataclass(frozen=True)
class Say:
    """Answer in words. The host shows them and the conversation is over."""

    text: str


@dataclass(frozen=True)
class Called:
    """A call as it goes to the host: the host's name of the tool."""

    id: str
    tool: str
    arguments: Json


Step = Call | Say
Answer = Called | Say
