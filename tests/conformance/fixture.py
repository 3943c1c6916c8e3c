"""What the conformance suite expects a server to have, on Carrel's own server and HTTP transport.

Resources, templates and tools come in as a provider does. What Carrel does not offer, prompts
and pictures in tool results, is added to the protocol here and only here.

    python -m tests.conformance.fixture PORT
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from carrel.catalog.catalog import Catalog
from carrel.core.errors import BadArgument, NotFound, ProtocolError
from carrel.core.model import Blob, Completion, Resource, Text, Tool, ToolResult
from carrel.core.provider import Call, Changes, Provider, Route
from carrel.protocol import eras, jsonrpc, methods, results
from carrel.protocol.eras import Era
from carrel.protocol.headers import MISSING_CAPABILITY
from carrel.server.dispatch import Dispatch, Job
from carrel.server.server import Server
from carrel.transports.http.app import App, bind, serve
from carrel.transports.http.guard import AcceptedNames, Guard

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
NOTHING: dict[str, object] = {"type": "object", "properties": {}}

Block = dict[str, object]


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _embedded(uri: str, mime_type: str, text: str) -> Block:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


IMAGE: Block = {"type": "image", "data": PNG, "mimeType": "image/png"}
AUDIO: Block = {"type": "audio", "data": WAV, "mimeType": "audio/wav"}
CONTENTS: Mapping[str, list[Block]] = {
    "test_simple_text": [_text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [AUDIO],
    "test_embedded_resource": [_embedded("test://embedded-resource", "text/plain", "An embedded resource.")],
    "test_multiple_content_types": [
        _text("Several kinds of content:"),
        IMAGE,
        _embedded("test://mixed-content-resource", "application/json", '{"test": "data"}'),
    ],
}
"""Tools that only give something back."""

OTHERS = (
    "test_error_handling",
    "test_tool_with_progress",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_logging_tool",
    "test_trigger_tool_change",
)
"""The fourth and fifth may ask or log; Carrel does neither, and the suite looks whether that is so."""

PROMPTS: Mapping[str, tuple[tuple[str, ...], Callable[[Mapping[str, str]], list[Block]]]] = {
    "test_simple_prompt": ((), lambda _: [_text("This is a simple prompt for testing.")]),
    "test_prompt_with_arguments": (
        ("arg1", "arg2"),
        lambda given: [_text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")],
    ),
    "test_prompt_with_embedded_resource": (
        ("resourceUri",),
        lambda given: [
            _embedded(given.get("resourceUri", "test://example-resource"), "text/plain", "Embedded for testing."),
            _text("Please process the embedded resource above."),
        ],
    ),
    "test_prompt_with_image": ((), lambda _: [IMAGE, _text("Please analyze the image above.")]),
}


class Fixtures(Provider):
    """The resources, templates and tools of the suite."""

    name = "fixtures"
    schemes = ("test",)

    def __init__(self) -> None:
        self._changes: Changes | None = None
        self._has_more = False

    def routes(self) -> Sequence[Route]:
        """Return what the suite reads."""
        return (
            Route("test://static-text", lambda: Text("This is a static text resource."), "static-text", "text/plain"),
            Route("test://static-binary", lambda: Blob(_decoded(PNG)), "static-binary", "image/png"),
            Route("test://watched-resource", lambda: Text("Watch me."), "watched", "text/plain"),
            Route("test://template/{id}/data", _read_data, "data", "application/json"),
        )

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the listed ones."""
        kinds = {"static-binary": "image/png", "static-text": "text/plain", "watched-resource": "text/plain"}
        for name, mime_type in kinds.items():
            if f"test://{name}" > after:
                yield Resource(f"test://{name}", name, "For the conformance suite", mime_type)

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        """Offer nothing in particular."""
        del template, variable, context
        return Completion((f"{value}1",), total=1, has_more=False)

    def watch(self, changes: Changes) -> Callable[[], None]:
        """Keep the object that takes reports of changes."""
        self._changes = changes
        return lambda: None

    def tools(self) -> Sequence[Tool]:
        """Return every tool."""
        return tuple(
            Tool(name, f"Fixture {name}", NOTHING) for name in (*CONTENTS, *OTHERS, *["one_more"] * self._has_more)
        )

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        """Run those whose results Carrel can say."""
        del arguments
        if name == "test_error_handling":
            return ToolResult(("This tool intentionally returns an error for testing",), is_error=True)
        if name == "test_tool_with_progress":
            for value in (0, 50, 100):
                call.progress(value, 100, f"Completed step {value} of 100")
        if name == "test_missing_capability":
            needed: dict[str, object] = {"requiredCapabilities": {"sampling": {}}}
            raise ProtocolError(MISSING_CAPABILITY, "Missing required client capability: sampling", data=needed)
        if name == "test_trigger_tool_change" and self._changes is not None:
            self._has_more = not self._has_more
            self._changes.list_changed()
        return ToolResult(("Done",))


class FixtureDispatch(Dispatch):
    """Carrel's answers, and those of the suite's prompts and pictures."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog)
        self.by_method = {
            **self.by_method,
            "tools/call": self.call_fixture,
            "prompts/list": self.list_prompts,
            "prompts/get": self.get_prompt,
            "logging/setLevel": lambda job: jsonrpc.answer(job.call.id, {}),
        }
        self.declared = {**self.declared, "prompts": {}}
        added = frozenset({"prompts/list", "prompts/get"})
        self._served = {era: known | added for era, known in self._served.items()}
        self._served[Era.LEGACY] |= {"logging/setLevel"}

    def call_fixture(self, job: Job) -> bytes:
        """Return pictures and the like as they are; all else is Carrel's."""
        blocks = CONTENTS.get(job.call.params.name)
        if blocks is None:
            return self.call_tool(job)
        return jsonrpc.answer(job.call.id, _finished({"content": blocks}, job))

    def complete(self, job: Job) -> bytes:
        """Complete prompts with nothing."""
        if job.call.params.ref.type == "ref/prompt":
            return jsonrpc.answer(job.call.id, results.completion_result(Completion((), 0, False), job.call.era))
        return super().complete(job)

    def list_prompts(self, job: Job) -> bytes:
        """List them."""
        prompts = [
            {
                "name": name,
                "description": f"Fixture {name}",
                "arguments": [{"name": argument, "description": argument, "required": True} for argument in arguments],
            }
            for name, (arguments, _) in PROMPTS.items()
        ]
        return jsonrpc.answer(job.call.id, _finished({"prompts": prompts}, job, ttlMs=1000, cacheScope="private"))

    def get_prompt(self, job: Job) -> bytes:
        """Return one."""
        name = job.call.params.name
        if name not in PROMPTS:
            raise BadArgument(f"Unknown prompt: {name}")
        blocks = PROMPTS[name][1](job.call.params.arguments)
        return jsonrpc.answer(
            job.call.id, _finished({"messages": [{"role": "user", "content": block} for block in blocks]}, job)
        )


class FixtureServer(Server):
    """Carrel's server with the suite's methods declared and served as well."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog)
        self.dispatch = FixtureDispatch(catalog)


def _finished(result: dict[str, Any], job: Job, **hints: object) -> dict[str, Any]:
    if job.call.era is Era.LEGACY:
        return result
    return {**result, **hints, "resultType": "complete", "_meta": {eras.SERVER_INFO_KEY: results.SERVER_INFO}}


def _decoded(text: str) -> bytes:
    from base64 import b64decode

    return b64decode(text)


def _read_data(id: str) -> Text:  # noqa: A002 the template's variable is named so
    if not id:
        raise NotFound("test://template//data")
    return Text(f'{{"id": "{id}", "templateTest": true, "data": "Data for ID: {id}"}}')


def _teach_the_protocol() -> None:
    """Make the parser accept the suite's methods."""
    decoders: Any = methods._DECODERS
    decoders["prompts/list"] = msgspec.json.Decoder(methods.ListParams).decode
    decoders["prompts/get"] = msgspec.json.Decoder(methods.CallTool).decode
    decoders["logging/setLevel"] = msgspec.json.Decoder(methods.Params).decode


def main(port: int) -> None:
    """Serve the fixtures on loopback, without a token, until told to stop."""
    _teach_the_protocol()
    listening = bind("127.0.0.1", port)
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    serve(App(FixtureServer(Catalog([Fixtures()])), Guard(AcceptedNames(is_loopback=True))), listening)


if __name__ == "__main__":
    main(int(sys.argv[1]))
