"""Search over everything that is served, as a resource and as a tool.

carrel://search{?q,in,limit,budget,after}   a page of hits
"""

from collections.abc import Mapping, Sequence

from carrel.core.arguments import InvalidArguments
from carrel.core.errors import ProviderError, RequestError
from carrel.core.hosts import ALWAYS_LOADED, answer_length
from carrel.core.model import Text, Tool, ToolResult
from carrel.core.provider import Call, Provider, Route
from carrel.search.lazy import LazySearch


class SearchFace(Provider):
    """The resource `carrel://search` and the tool `search`."""

    name = "search"
    schemes = ("carrel",)
    summary = "Search over everything that is served."

    def __init__(self, search: LazySearch, *, has_tool: bool = True, part_chars: int = 0) -> None:
        """Answers of the tool have at most `part_chars` characters; 0 means what the host takes."""
        self._search = search
        self._part_chars = part_chars
        self.has_tools = has_tool

    def routes(self) -> Sequence[Route]:
        route = Route(
            "carrel://search{?q,in,limit,budget,after}",
            self.read_search,
            name="search",
            title="Search",
            description="Find files, logs, tasks, memory and anything else that is served, best first",
            mime_type="text/plain",
            example="q=parse config",
        )
        return (route,)

    def read_search(self, **given: str) -> Text:
        from carrel.search import rendering, requests  # not before the first search

        asked = requests.from_query(tuple(given.items()))
        answer = self._search.opened().search(asked.request())
        text, following = rendering.as_text(answer, asked)
        return Text(text, meta={"dev.carrel/next": following} if following else None)

    def tools(self) -> Sequence[Tool]:
        from carrel.search import requests  # not at the start

        description = (
            "Search this project: files, logs, memory, tasks and everything else served here. "
            "Returns the best hits with a URI for read_resource, the matching lines and the cost in tokens."
        )
        return (
            Tool(
                "search",
                description,
                requests.ARGUMENTS.schema,
                title="Search",
                read_only=True,
                idempotent=True,
                open_world=False,
                public=True,
                meta=ALWAYS_LOADED,
            ),
        )

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        from carrel.search import rendering, requests  # not before the first search

        del name
        try:
            asked = requests.ARGUMENTS.check(arguments)
            answer = self._search.opened().search(asked.request(), call.progress)
        except InvalidArguments as error:
            return error.result("budget")  # of a tool too it is -32602
        except (RequestError, ProviderError) as error:
            return ToolResult((error.message,), is_error=True, meta={"dev.carrel/error": error.word})
        text, following = rendering.as_text(answer, asked, room=self._part_chars or answer_length(call.client))
        return ToolResult((text,), meta={"dev.carrel/next": following} if following else None)

    def instructions(self) -> str:
        """Return the text that makes models search before they read."""
        if self.has_tools:
            return "To find anything here in one call, use the tool `search`; read only the lines that its hits name."
        return "To find anything here in one read, read carrel://search?q=WORDS."

    def health(self) -> Mapping[str, object]:
        """Return the size, age and coverage of the index."""
        return self._search.opened().facts()

    def close(self) -> None:
        """Stop building the index, and close it."""
        self._search.close()
