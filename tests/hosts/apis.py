"""The APIs that hosts speak to models: how each spells a request, and how it streams an answer."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from tests.hosts.script import Answer, Called, Json, Say, Turn

Event = tuple[str, Json]
"""The name of a server-sent event, or nothing, and its data."""


def as_text(content: Any) -> str:
    """Return the text in a message's content, which is a string or a list of blocks."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        return "\n".join(as_text(block) for block in content)
    if isinstance(content, dict):
        for key in ("text", "content", "output", "parts", "error"):
            if key in content:
                return as_text(content[key])
    return json.dumps(content, ensure_ascii=False)


def spell_events(events: Iterable[Event]) -> bytes:
    """Return server-sent events."""
    named = ((f"event: {name}\n" if name else "", json.dumps(data)) for name, data in events)
    return "".join(f"{head}data: {data}\n\n" for head, data in named).encode()


class Anthropic:
    """Messages, as Claude Code sends them."""

    paths = ("/v1/messages",)

    def parse(self, body: Json) -> Turn:
        """Read a request."""
        tools = [tool for tool in body.get("tools", []) if "input_schema" in tool]
        blocks = [(message["role"], block) for message in body["messages"] for block in _blocks(message["content"])]
        found = [
            part["tool_name"]
            for _, block in blocks
            for part in _blocks(block.get("content", []))
            if "tool_name" in part
        ]
        hidden = frozenset(tool["name"] for tool in tools if tool.get("defer_loading")) - set(found)
        return Turn(
            api="anthropic",
            tools={tool["name"]: tool.get("description", "") for tool in tools if tool["name"] not in hidden},
            hidden=hidden,
            system="\n".join(
                [as_text(body.get("system")), *(as_text(block) for role, block in blocks if role == "system")]
            ),
            texts=tuple(as_text(block) for role, block in blocks if role == "user" and block["type"] == "text"),
            results=tuple(as_text(block["content"]) for _, block in blocks if block["type"] == "tool_result"),
            body=body,
        )

    def spell(self, answer: Answer, body: Json) -> Iterator[Event]:
        """Yield an answer as a stream."""
        message = self.spell_whole(answer, body)
        start = {**message, "content": [], "stop_reason": None}
        yield "message_start", {"type": "message_start", "message": start}
        block = message["content"][0]
        empty, delta = _opened(block)
        yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": empty}
        yield "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": 0}
        end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        yield "message_delta", {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}}
        yield "message_stop", {"type": "message_stop"}

    def spell_whole(self, answer: Answer, body: Json) -> Json:
        """Return an answer as one message."""
        if isinstance(answer, Called):
            block = {"type": "tool_use", "id": f"toolu_{answer.id}", "name": answer.tool, "input": answer.arguments}
        else:
            block = {"type": "text", "text": answer.text}
        return {
            "id": "msg_scripted",
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": [block],
            "stop_reason": "tool_use" if isinstance(answer, Called) else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }


def _blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _opened(block: Json) -> tuple[Json, Json]:
    if block["type"] == "text":
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}


SEARCH_FOR_TOOLS = "tool_search"
RUN_CODE = "functions/exec"
RESULTS = ("function_call_output", "tool_search_output", "custom_tool_call_output")


class Responses:
    """OpenAI's responses, as Codex sends them. A tool of a server stands in the server's namespace."""

    paths = ("/v1/responses",)

    def parse(self, body: Json) -> Turn:
        """Read a request."""
        items = body["input"]
        found = [tool for item in items for tool in item.get("tools", ())]  # by the host's search for tools
        tools = dict(_named([*body.get("tools", []), *found]))
        told = [as_text(item.get("content")) for item in items if item.get("role") in ("developer", "system")]
        told += [tool.get("description", "") for tool in body.get("tools", []) if tool["type"] == "namespace"]
        return Turn(
            api="responses",
            tools=tools,
            hidden=frozenset(),
            system="\n".join([body.get("instructions") or "", *told]),
            texts=tuple(as_text(item["content"]) for item in items if item.get("role") == "user"),
            results=tuple(as_text(item.get("output", item)) for item in items if item.get("type") in RESULTS),
            body=body,
        )

    def spell(self, answer: Answer, body: Json) -> Iterator[Event]:
        """Yield an answer as a stream."""
        response: Json = {"id": "resp_scripted", "object": "response", "model": body.get("model"), "output": []}
        yield "response.created", {"type": "response.created", "response": {**response, "status": "in_progress"}}
        item = _response_item(answer)
        added = {"type": "response.output_item.added", "output_index": 0, "item": item}
        yield "response.output_item.added", added
        yield "response.output_item.done", {**added, "type": "response.output_item.done"}
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        done = {**response, "status": "completed", "output": [item], "usage": usage}
        yield "response.completed", {"type": "response.completed", "response": done}

    def spell_whole(self, answer: Answer, body: Json) -> Json:
        """Return an answer as one message."""
        *_, (_, last) = self.spell(answer, body)
        response: Json = last["response"]
        return response


def _named(tools: list[Json]) -> Iterator[tuple[str, str]]:
    """Yield names and descriptions; a tool of a server stands below the name of its namespace."""
    for tool in tools:
        if tool["type"] == "namespace":
            yield from ((f"{tool['name']}/{name}", about) for name, about in _named(tool["tools"]))
        else:
            yield str(tool.get("name", tool["type"])), str(tool.get("description", ""))


def _response_item(answer: Answer) -> Json:
    if isinstance(answer, Say):
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        return {"type": "message", "id": "msg_scripted", "role": "assistant", "status": "completed", "content": content}
    call = {"id": f"fc_{answer.id}", "call_id": f"call_{answer.id}", "status": "completed"}
    if answer.tool == SEARCH_FOR_TOOLS:
        return {**call, "type": "tool_search_call", "execution": "client", "arguments": answer.arguments}
    if answer.tool == RUN_CODE:
        return {**call, "type": "custom_tool_call", "name": "exec", "input": answer.arguments["code"]}
    space, _, name = answer.tool.rpartition("/")
    function = {**call, "type": "function_call", "name": name, "arguments": json.dumps(answer.arguments)}
    return {**function, "namespace": space} if space else function


class Chat:
    """OpenAI's chat completions, which most hosts speak to models of other makers."""

    paths = ("/v1/chat/completions",)

    def parse(self, body: Json) -> Turn:
        """Read a request."""
        tools = [tool["function"] for tool in body.get("tools") or [] if "function" in tool]
        said = [(message["role"], as_text(message.get("content"))) for message in body["messages"]]
        return Turn(
            api="chat",
            tools={tool["name"]: tool.get("description", "") for tool in tools},
            hidden=frozenset(),
            system="\n".join(text for role, text in said if role in ("system", "developer")),
            texts=tuple(text for role, text in said if role == "user"),
            results=tuple(text for role, text in said if role == "tool"),
            body=body,
        )

    def spell(self, answer: Answer, body: Json) -> Iterator[Event]:
        """Yield an answer as a stream."""
        whole = self.spell_whole(answer, body)
        choice = whole["choices"][0]
        chunk = {**whole, "object": "chat.completion.chunk"}
        usage = chunk.pop("usage")  # only the last chunk has it; Continue drops what comes with it
        delta = choice["message"]
        for index, call in enumerate(delta.get("tool_calls", ())):
            call["index"] = index
        yield "", {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        yield "", {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
        yield "", {**chunk, "choices": [], "usage": usage}

    def spell_whole(self, answer: Answer, body: Json) -> Json:
        """Return an answer as one message."""
        message: Json = {"role": "assistant", "content": answer.text if isinstance(answer, Say) else None}
        if isinstance(answer, Called):
            function = {"name": answer.tool, "arguments": json.dumps(answer.arguments)}
            message["tool_calls"] = [{"id": f"call_{answer.id}", "type": "function", "function": function}]
        reason = "tool_calls" if isinstance(answer, Called) else "stop"
        return {
            "id": "chatcmpl-scripted",
            "object": "chat.completion",
            "created": 1,
            "model": body.get("model"),
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }


class Gemini:
    """Google's `generateContent`, as Gemini CLI sends it."""

    paths = (":streamGenerateContent", ":generateContent")

    def parse(self, body: Json) -> Turn:
        """Read a request."""
        declared = [tool for group in body.get("tools", []) for tool in group.get("functionDeclarations", [])]
        parts = [(content.get("role"), part) for content in body["contents"] for part in content.get("parts", [])]
        return Turn(
            api="gemini",
            tools={tool["name"]: tool.get("description", "") for tool in declared},
            hidden=frozenset(),
            system=as_text(body.get("systemInstruction")),
            texts=tuple(part["text"] for role, part in parts if role == "user" and "text" in part),
            results=tuple(
                as_text(part["functionResponse"]["response"]) for _, part in parts if "functionResponse" in part
            ),
            body=body,
        )

    def spell(self, answer: Answer, body: Json) -> Iterator[Event]:
        """Yield an answer as a stream."""
        yield "", self.spell_whole(answer, body)

    def spell_whole(self, answer: Answer, body: Json) -> Json:
        """Return an answer as one message."""
        del body
        if isinstance(answer, Called):
            part: Json = {"functionCall": {"id": answer.id, "name": answer.tool, "args": answer.arguments}}
        else:
            part = {"text": answer.text}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        candidate = {"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [part]}}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}


Api = Anthropic | Responses | Chat | Gemini
APIS: tuple[Api, ...] = (Anthropic(), Responses(), Chat(), Gemini())
