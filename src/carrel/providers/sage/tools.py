"""The tools: search, list, load, recall and, if allowed, save. A failure is a result with an error message."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

from carrel.core.errors import echo
from carrel.core.model import ResourceLink, Tool, ToolResult
from carrel.core.provider import Project, ToolLevel
from carrel.core.record import Value
from carrel.providers.sage import arguments
from carrel.providers.sage.arguments import Given, check
from carrel.providers.sage.code_links import ResolvedLink
from carrel.providers.sage.fields import BadFile
from carrel.providers.sage.memory import SageError, SageMemory
from carrel.providers.sage.names import checked, split_uri
from carrel.providers.sage.records import MARKS, Checkpoint, FailureRecord, KnowledgeItem, to_data
from carrel.providers.sage.rendering import (
    MIME_TYPES,
    Format,
    minute_of,
    percent,
    render_failure,
    render_knowledge,
    tokens,
)
from carrel.providers.sage.saving import SageWriter, SavedItem
from carrel.providers.sage.search import SageSearch
from carrel.providers.sage.tool_schemas import TOOLS

RECALL_TOKENS: Final = 2_000

Data = dict[str, object]


class SageTools:
    """The tools of one memory."""

    def __init__(self, project: Project, memory: SageMemory, level: ToolLevel, search: Literal["auto", "bm25"]) -> None:
        self._memory = memory
        self.search = SageSearch(memory, project.environment, search)
        self.writer = SageWriter(project, memory)
        calls: dict[str, Callable[[Given], ToolResult]] = {
            "sage_search_checkpoints": self.search_checkpoints,
            "sage_list_checkpoints": self.list_checkpoints,
            "sage_load_checkpoint": self.load_checkpoint,
            "sage_recall_knowledge": self.recall_knowledge,
            "sage_list_failures": self.list_failures,
            "sage_save_checkpoint": self.save_checkpoint,
            "sage_save_knowledge": self.save_knowledge,
            "sage_record_failure": self.record_failure,
            "sage_write_system": self.write_system,
        }
        self._calls = {
            name: call
            for name, call in calls.items()
            if level == "write" or (level == "read" and TOOLS[name].read_only)
        }

    def tools(self) -> Sequence[Tool]:
        """Return the tools that are allowed."""
        return [TOOLS[name] for name in self._calls]

    def call(self, name: str, given: Given) -> ToolResult:
        """Call a tool."""
        try:
            return self._calls[name](given)
        except SageError as error:
            meta: Data = {"dev.carrel/error": error.kind}
            if error.candidates:
                meta["dev.carrel/candidates"] = list(error.candidates)
            return ToolResult((error.message,), is_error=True, meta=meta)

    def close(self) -> None:
        """Close the search index."""
        self.search.close()

    # Checkpoints

    def search_checkpoints(self, given: Given) -> ToolResult:
        asked = check(arguments.SEARCH_CHECKPOINTS, given)
        query = arguments.needed("query", asked.query, self._memory.limit)
        found = self.search.search("checkpoint", query, asked.limit)
        loaded = [(hit, self._memory.checkpoints.load_if_readable(hit.key)) for hit in found.hits]
        hits = [(hit, one) for hit, one in loaded if one is not None]
        results = [_checkpoint_data(hit.key, one, score=hit.score) for hit, one in hits]
        lines = [f"Found {found.total} checkpoints (search: {found.engine}). Top {len(hits)}:"]
        for number, (hit, one) in enumerate(hits, 1):
            lines.append(f"{number}. {hit.key} [{hit.score:.3f}]")
            lines.append(f"   {_line(one.thesis, 70)}")
            lines.append(f"   {percent(one.confidence)} | {one.trigger} | {minute_of(one.ts)}")
        data: Data = {"engine": found.engine, "total": found.total, "results": results}
        uris = [f"sage://checkpoint/{hit.key}" for hit, _ in hits]
        return self._result("\n".join(lines) if hits else "No checkpoints found.", data, uris)

    def list_checkpoints(self, given: Given) -> ToolResult:
        asked = check(arguments.LIST_CHECKPOINTS, given)
        limit, skill = asked.limit, arguments.clean(asked.skill)
        folder = self._memory.checkpoints
        stems = [file.stem for file, _ in folder.readable()]
        total = len(stems)
        records = [(stem, folder.load_if_readable(stem)) for stem in (stems if skill else stems[:limit])]
        listed = [(stem, one) for stem, one in records if one is not None and (not skill or one.skill == skill)]
        if skill:
            total, listed = len(listed), listed[:limit]
        lines = [f"## Checkpoints [{len(listed)}]"]
        lines += [
            f"- {stem}: {_line(one.thesis, 60)} ({percent(one.confidence)}, {one.trigger})" for stem, one in listed
        ]
        data: Data = {"total": total, "checkpoints": [_checkpoint_data(stem, one) for stem, one in listed]}
        uris = [f"sage://checkpoint/{stem}" for stem, _ in listed]
        return self._result("\n".join(lines) if listed else "No checkpoints found.", data, uris)

    def load_checkpoint(self, given: Given) -> ToolResult:
        asked = check(arguments.LOAD_CHECKPOINT, given)
        name, form = _split_checkpoint(arguments.clean(asked.id))
        item = self._memory.read("checkpoint", name, form if asked.format is None else asked.format)
        assert isinstance(item.record, Checkpoint)
        uri = f"sage://checkpoint/{item.address}"
        link = ResourceLink(uri, f"checkpoint/{item.address}", _line(item.record.question, 120), item.mime_type)
        data = {"id": item.address, "uri": uri, "checkpoint": _whole_checkpoint(item.record)}
        return ToolResult((item.text, link), data)

    # Knowledge

    def recall_knowledge(self, given: Given) -> ToolResult:
        asked = check(arguments.RECALL_KNOWLEDGE, given)
        query = arguments.needed("query", asked.query, self._memory.limit)
        limit, skill = asked.limit, arguments.clean(asked.skill)
        form = self._memory.format(asked.format)
        found = self.search.search("knowledge", query)
        scores = {hit.key: hit.score for hit in found.hits}
        items = {key: one.item for key, one in self._memory.knowledge.items().items()}
        always = sorted((key for key, item in items.items() if item.always), key=lambda key: -scores.get(key, 0.0))
        ordered = [items[key] for key in dict.fromkeys((*always, *scores)) if key in items]
        wanted = [one for one in ordered if not one.is_hidden and (not skill or not one.skills or skill in one.skills)]
        recalled = [recalled for item in wanted[:limit] for recalled in self._recall(item)]
        results = [one.data(scores.get(one.item.id, 0.0)) for one in recalled]
        data: Data = {"engine": found.engine, "total": len(wanted), "results": results}
        if not recalled:
            return self._result("No knowledge found.", data, ())
        texts, spent, left_out = _within_budget(recalled, form)
        text = f"📚 Recalled Knowledge ({len(texts)} items, ~{spent} tokens):\n\n" + "\n".join(texts)
        if left_out:
            text += f"\nNot shown in full: {', '.join(left_out)}\n"
        return self._result(text, data, [one.uri for one in recalled])

    def _recall(self, item: KnowledgeItem) -> "Iterable[RecalledItem]":
        try:
            content, _ = self._memory.knowledge.content(item)
        except BadFile:
            return ()
        return (RecalledItem(item, content, tuple(self._memory.code.resolve(item))),)

    # Failures

    def list_failures(self, given: Given) -> ToolResult:
        asked = check(arguments.LIST_FAILURES, given)
        limit, query = asked.limit, arguments.clean(asked.query)
        folder = self._memory.failures
        addresses = {file.stem: address for file, address in folder.listed()}
        engine: Data = {}
        if query.strip():
            found = self.search.search("failure", query, limit)
            stems, total = [hit.key for hit in found.hits if hit.key in addresses], found.total
            engine = {"engine": found.engine}
        else:
            every = [file.stem for file, _ in folder.readable()]
            stems, total = every[:limit], len(every)
        records = [(stem, folder.load_if_readable(stem)) for stem in stems]
        listed = [(stem, one) for stem, one in records if one is not None]
        failures = [_failure_data(addresses[stem], one) for stem, one in listed]
        data: Data = {"total": total, "failures": failures, **engine}
        form = self._memory.format(None)
        texts = [render_failure(one, stem, form) for stem, one in listed]
        text = f"## Failures [{len(texts)}]\n\n" + "\n".join(texts) if texts else "No failures recorded."
        return self._result(text, data, [f"sage://failure/{addresses[stem]}" for stem, _ in listed])

    # Saving

    def save_checkpoint(self, given: Given) -> ToolResult:
        record = arguments.checkpoint(given, self._memory.limit)
        saved = self.writer.save_checkpoint(record, continues=given.get("continues_from") is None)
        return _saved(f"Checkpoint saved: {saved.id}", saved)

    def save_knowledge(self, given: Given) -> ToolResult:
        saved = self.writer.save_knowledge(arguments.knowledge(given, self._memory.limit))
        return _saved(f"Knowledge saved: {saved.id}", saved)

    def record_failure(self, given: Given) -> ToolResult:
        saved = self.writer.save_failure(arguments.failure(given, self._memory.limit))
        return _saved(f"Recorded failure: {saved.id}", saved)

    def write_system(self, given: Given) -> ToolResult:
        asked = check(arguments.WRITE_SYSTEM, given)
        filename = arguments.clean(asked.filename)
        if checked(filename) is None:
            raise SageError(f"Invalid filename: {echo(filename)}", "invalid")
        arguments.needed("content", asked.content, self._memory.limit)
        content = asked.content.replace("\0", "")  # system files keep their line ends
        saved = self.writer.save_system_file(filename, content, overwrite=asked.overwrite)
        result = _saved(f"System file saved: {echo(filename)}", saved)
        return ToolResult(result.blocks, {"uri": saved.uri, "path": saved.path})

    def _result(self, text: str, data: Data, uris: Iterable[str]) -> ToolResult:
        mime_type = MIME_TYPES[self._memory.format(None)]
        links = [ResourceLink(uri, uri.removeprefix("sage://"), None, mime_type) for uri in uris]
        return ToolResult((text, *links), data)


def _saved(text: str, saved: SavedItem) -> ToolResult:
    link = ResourceLink(saved.uri, saved.uri.removeprefix("sage://"), None, MIME_TYPES["markdown"])
    return ToolResult((text, link), {"id": saved.id, "uri": saved.uri, "path": saved.path})


class RecalledItem(Value, frozen=True):
    """A knowledge item with its content and its resolved links."""

    item: KnowledgeItem
    content: str
    links: tuple[ResolvedLink, ...]

    @property
    def uri(self) -> str:
        """Its URI."""
        return f"sage://knowledge/{self.item.id}"

    def text(self, form: Format) -> str:
        """Return its text."""
        return render_knowledge(self.item, self.content, self.links, form)

    def data(self, score: float) -> Data:
        """Return its structured content."""
        item = self.item
        described = to_data(item, "type", "keywords", "source", "added", "status")
        links = [{**to_data(one.link), **to_data(one, "file", "line", "status")} for one in self.links]
        for link in links:
            link["line"] = link["line"] or None
        return {
            "id": item.id,
            "uri": self.uri,
            "score": score,
            **described,
            "content": self.content,
            "code_links": links,
        }


def _within_budget(recalled: Sequence[RecalledItem], form: Format) -> tuple[list[str], int, list[str]]:
    """Return the texts that fit, their tokens, and the URIs of the items that are not shown in full.

    An item that does not fit is skipped, so that smaller ones after it may fit; if none fits, the best is cut.
    """
    texts: list[str] = []
    left_out: list[str] = []
    left, spent = RECALL_TOKENS, 0
    for one in recalled:
        text = one.text(form)
        if tokens(text) > left:
            left_out.append(one.uri)
            continue
        texts.append(text)
        left -= tokens(text)
        spent += tokens(one.content)
    if not texts:
        return [recalled[0].text(form)[: RECALL_TOKENS * 4 - 2] + "…\n"], RECALL_TOKENS, left_out
    return texts, spent, left_out


_MENTION: Final = re.compile(r"@?(?:[\w-]+:)?(?=sage://)", re.IGNORECASE)


def _split_checkpoint(text: str) -> tuple[str, str | None]:
    """Return the id and the format in a checkpoint's URI or mention; any other text is an id."""
    parts = split_uri(_MENTION.sub("", text.strip(), count=1))
    return (parts[1], parts[2]) if parts is not None and parts[0] == "checkpoint" else (text, None)


def _line(text: str, length: int) -> str:
    return " ".join(text.split())[:length]


def _checkpoint_data(stem: str, one: Checkpoint, **score: float) -> Data:
    shown = to_data(one, "question", "thesis", "confidence", "trigger", "ts")
    return {"id": stem, "uri": f"sage://checkpoint/{stem}", **score, **shown}


def _failure_data(address: str, one: FailureRecord) -> Data:
    shown = to_data(one, "approach", "why_failed", "learned", "keywords", "related_to", "added")
    return {"id": address, "uri": f"sage://failure/{address}", **shown}


def _whole_checkpoint(one: Checkpoint) -> Data:
    """Return all fields of a checkpoint under the names of the save tool's parameters."""
    fields = to_data(one)
    fields["core_question"] = fields.pop("question")
    fields["unique_contributions"] = fields.pop("contributions")
    relevances = {mark: word for word, mark in MARKS.items()}
    fields["code_refs"] = [
        {"file": ref.file, "lines": ref.lines, "relevance": relevances.get(ref.mark, "other")} for ref in one.code_refs
    ]
    del fields["others"]
    fields["other_sections"] = dict(one.others)
    return fields
