"""The tools: search, list, load, recall and, if allowed, save. A failure is a result with an error message."""

import re
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, Literal

from carrel.core.arguments import Arguments
from carrel.core.errors import ProviderError, echo
from carrel.core.model import ResourceLink, Tool, ToolResult
from carrel.core.provider import Project, ToolLevel
from carrel.providers.sage import arguments
from carrel.providers.sage.arguments import Given, Record, check
from carrel.providers.sage.code_links import ResolvedLink
from carrel.providers.sage.fields import BadFile
from carrel.providers.sage.memory import SageConflict, SageError, SageMemory
from carrel.providers.sage.names import checked, split_uri
from carrel.providers.sage.records import MARKS, Checkpoint, FailureRecord, KnowledgeItem, to_data
from carrel.providers.sage.rendering import MIME_TYPES, minute_of, percent, render_failure, render_knowledge, tokens
from carrel.providers.sage.saving import SageWriter, SavedItem

if TYPE_CHECKING:
    from carrel.providers.sage.search import SageSearch

RECALL_TOKENS: Final = 2_000

Data = dict[str, object]


class SageTool(Generic[Record]):
    """A tool: what clients see of it, its arguments and its method."""

    def __init__(
        self,
        name: str,
        title: str,
        record: type[Record],
        method: "Callable[[SageTools, Record], ToolResult]",
        *,
        writes: bool = False,
    ) -> None:
        self._arguments = Arguments(record)
        self._method = method
        # An id may have the name of its kind, and other arguments are ignored: the schema allows them.
        schema = {key: value for key, value in self._arguments.schema.items() if key != "additionalProperties"}
        self.tool = Tool(
            name,
            record.__doc__ or "",
            schema,
            title=title,
            read_only=not writes,
            destructive=name == "sage_write_system",
            idempotent=not writes,
            open_world=False,
        )

    def run(self, tools: "SageTools", given: Given) -> ToolResult:
        """Check the arguments and call the method; raise `SageError` if the call fails."""
        return self._method(tools, check(self._arguments, given))


class SageTools:
    """The tools of one memory."""

    def __init__(self, project: Project, memory: SageMemory, level: ToolLevel, search: Literal["auto", "bm25"]) -> None:
        self._memory = memory
        allowed = [] if level == "off" else [one for one in TOOLS if level == "write" or one.tool.read_only]
        self._allowed = {one.tool.name: one for one in allowed}
        self._environment, self._wanted = project.environment, search
        self._search: SageSearch | None = None
        self._opening = Lock()
        self.writer = SageWriter(project, memory)

    def tools(self) -> Sequence[Tool]:
        """Return the tools that are allowed."""
        return [one.tool for one in self._allowed.values()]

    def call(self, name: str, given: Given) -> ToolResult:
        """Call a tool; a failure is a result."""
        try:
            return self.run(name, given)
        except ProviderError as error:
            return ToolResult((error.message,), is_error=True, meta={"dev.carrel/error": error.word})
        except SageConflict as error:
            return _conflict(error)
        except SageError as error:
            meta: Data = {"dev.carrel/error": error.kind}
            if error.candidates:
                meta["dev.carrel/candidates"] = list(error.candidates)
            return ToolResult((error.message,), is_error=True, meta=meta)

    def run(self, name: str, given: Given) -> ToolResult:
        """Call a tool; raise `SageError` if the call fails."""
        self._memory.refresh()
        return self._allowed[name].run(self, given)

    def close(self) -> None:
        """Close the search index."""
        if self._search is not None:
            self._search.close()

    @property
    def search(self) -> "SageSearch":
        """The search, opened when it is first used."""
        from carrel.providers.sage.search import SageSearch  # its engine takes long to import

        with self._opening:
            if self._search is None:
                self._search = SageSearch(self._memory, self._environment, self._wanted)
            return self._search

    # Checkpoints

    def search_checkpoints(self, asked: arguments.SearchCheckpoints) -> ToolResult:
        query = arguments.needed("query", asked.query, self._memory.limit)
        found = self.search.search("checkpoint", query, asked.limit)
        scores = {hit.key: hit.score for hit in found.hits}
        results = []
        lines = []
        for number, (stem, one) in enumerate(self._memory.checkpoints.load_readable(scores), 1):
            results.append(_checkpoint_data(stem, one, score=scores[stem]))
            lines.append(f"{number}. {stem} [{scores[stem]:.3f}]")
            lines.append(f"   {_line(one.thesis, 70)}")
            lines.append(f"   {percent(one.confidence)} | {one.trigger} | {minute_of(one.ts)}")
        head = f"Found {found.total} checkpoints (search: {found.engine}). Top {len(results)}:"
        text = "\n".join((head, *lines)) if results else "No checkpoints found."
        return self._result(text, results, {"engine": found.engine, "total": found.total, "results": results})

    def list_checkpoints(self, asked: arguments.ListCheckpoints) -> ToolResult:
        limit, skill = asked.limit, arguments.clean(asked.skill)
        folder = self._memory.checkpoints
        stems = [file.stem for file, _ in folder.readable()]
        total = len(stems)
        listed = list(folder.load_readable(stems if skill else stems[:limit]))
        if skill:
            of_skill = [(stem, one) for stem, one in listed if one.skill == skill]
            total, listed = len(of_skill), of_skill[:limit]
        lines = [
            f"- {stem}: {_line(one.thesis, 60)} ({percent(one.confidence)}, {one.trigger})" for stem, one in listed
        ]
        text = "\n".join((f"## Checkpoints [{len(listed)}]", *lines)) if listed else "No checkpoints found."
        rows = [_checkpoint_data(stem, one) for stem, one in listed]
        return self._result(text, rows, {"total": total, "checkpoints": rows})

    def load_checkpoint(self, asked: arguments.LoadCheckpoint) -> ToolResult:
        name, form = _split_checkpoint(arguments.clean(asked.id))
        item = self._memory.read("checkpoint", name, form if asked.format is None else asked.format)
        assert isinstance(item.record, Checkpoint)
        uri = f"sage://checkpoint/{item.address}"
        link = ResourceLink(uri, f"checkpoint/{item.address}", _line(item.record.question, 120), item.mime_type)
        data = {"id": item.address, "uri": uri, "checkpoint": _whole_checkpoint(item.record)}
        return ToolResult((item.text, link), data)

    # Knowledge

    def recall_knowledge(self, asked: arguments.RecallKnowledge) -> ToolResult:
        query = arguments.needed("query", asked.query, self._memory.limit)
        skill = arguments.clean(asked.skill)
        form = self._memory.format(asked.format)
        found = self.search.search("knowledge", query)
        scores = {hit.key: hit.score for hit in found.hits}
        items = {key: one.item for key, one in self._memory.knowledge.items().items()}
        always = sorted((key for key, item in items.items() if item.always), key=lambda key: -scores.get(key, 0.0))
        ordered = [items[key] for key in dict.fromkeys((*always, *scores)) if key in items]
        wanted = [one for one in ordered if not one.is_hidden and (not skill or not one.skills or skill in one.skills)]
        results: list[Data] = []
        texts = []
        for item in wanted[: asked.limit]:
            try:
                content, _ = self._memory.knowledge.content(item)
            except BadFile:
                continue
            links = self._memory.code.resolve(item)
            results.append(_knowledge_data(item, content, links, scores.get(item.id, 0.0)))
            texts.append(render_knowledge(item, content, links, form))
        text = _within_budget(results, texts) if results else "No knowledge found."
        return self._result(text, results, {"engine": found.engine, "total": len(wanted), "results": results})

    # Failures

    def list_failures(self, asked: arguments.ListFailures) -> ToolResult:
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
        listed = list(folder.load_readable(stems))
        failures = [_failure_data(addresses[stem], one) for stem, one in listed]
        form = self._memory.format(None)
        texts = [render_failure(one, stem, form) for stem, one in listed]
        text = f"## Failures [{len(texts)}]\n\n" + "\n".join(texts) if texts else "No failures recorded."
        return self._result(text, failures, {"total": total, "failures": failures, **engine})

    # Saving

    def save_checkpoint(self, asked: arguments.SaveCheckpoint) -> ToolResult:
        record = arguments.checkpoint(asked, self._memory.limit)
        saved = self.writer.save_checkpoint(record, continues=asked.continues_from is None, if_match=asked.if_match)
        return _saved(f"Checkpoint saved: {saved.id}", saved)

    def save_knowledge(self, asked: arguments.SaveKnowledge) -> ToolResult:
        saved = self.writer.save_knowledge(arguments.knowledge(asked, self._memory.limit))
        return _saved(f"Knowledge saved: {saved.id}", saved)

    def record_failure(self, asked: arguments.RecordFailure) -> ToolResult:
        saved = self.writer.save_failure(arguments.failure(asked, self._memory.limit), if_match=asked.if_match)
        return _saved(f"Recorded failure: {saved.id}", saved)

    def write_system(self, asked: arguments.WriteSystemFile) -> ToolResult:
        filename = arguments.clean(asked.filename)
        if checked(filename) is None:
            raise SageError(f"Invalid filename: {echo(filename)}", "invalid")
        arguments.needed("content", asked.content, self._memory.limit)
        content = asked.content.replace("\0", "")  # system files keep their line ends
        saved = self.writer.save_system_file(filename, content, overwrite=asked.overwrite, if_match=asked.if_match)
        return _saved(f"System file saved: {echo(filename)}", saved, "uri", "path")

    def _result(self, text: str, rows: Sequence[Data], data: Data) -> ToolResult:
        """Return a result with a link for each row."""
        mime_type = MIME_TYPES[self._memory.format(None)]
        return ToolResult((text, *(_link(str(row["uri"]), mime_type) for row in rows)), data)


TOOLS: Final = (
    SageTool(
        "sage_search_checkpoints", "Search checkpoints", arguments.SearchCheckpoints, SageTools.search_checkpoints
    ),
    SageTool("sage_list_checkpoints", "List checkpoints", arguments.ListCheckpoints, SageTools.list_checkpoints),
    SageTool("sage_load_checkpoint", "Load a checkpoint", arguments.LoadCheckpoint, SageTools.load_checkpoint),
    SageTool("sage_recall_knowledge", "Recall knowledge", arguments.RecallKnowledge, SageTools.recall_knowledge),
    SageTool("sage_list_failures", "List failures", arguments.ListFailures, SageTools.list_failures),
    SageTool(
        "sage_save_checkpoint", "Save a checkpoint", arguments.SaveCheckpoint, SageTools.save_checkpoint, writes=True
    ),
    SageTool("sage_save_knowledge", "Save knowledge", arguments.SaveKnowledge, SageTools.save_knowledge, writes=True),
    SageTool("sage_record_failure", "Record a failure", arguments.RecordFailure, SageTools.record_failure, writes=True),
    SageTool(
        "sage_write_system", "Write a system file", arguments.WriteSystemFile, SageTools.write_system, writes=True
    ),
)


def _link(uri: str, mime_type: str) -> ResourceLink:
    return ResourceLink(uri, uri.removeprefix("sage://"), None, mime_type)


def _saved(text: str, saved: SavedItem, *names: str) -> ToolResult:
    """Return the result of a save, with the named fields of the item, or all of them."""
    return ToolResult((text, _link(saved.uri, MIME_TYPES["markdown"])), to_data(saved, *names))


def _conflict(error: SageConflict) -> ToolResult:
    """Return the result of a call that wrote nothing, because the item is another version, with both ETags."""
    data = {"error": error.message, "code": error.kind, "status": 409, "ifMatch": error.given, "etag": error.current}
    meta = {"dev.carrel/error": error.kind, "dev.carrel/if-match": error.given, "dev.carrel/etag": error.current}
    return ToolResult((error.message,), data, is_error=True, meta=meta)


def _within_budget(results: Sequence[Data], texts: Sequence[str]) -> str:
    """Return the text of a recall.

    An item that does not fit is skipped, so that smaller ones after it may fit; if none fits, the best is cut.
    """
    shown: list[str] = []
    left_out: list[str] = []
    left, spent = RECALL_TOKENS, 0
    for result, text in zip(results, texts, strict=True):
        if tokens(text) > left:
            left_out.append(str(result["uri"]))
            continue
        shown.append(text)
        left -= tokens(text)
        spent += tokens(str(result["content"]))
    if not shown:
        shown, spent = [texts[0][: RECALL_TOKENS * 4 - 2] + "…\n"], RECALL_TOKENS
    rest = f"\nNot shown in full: {', '.join(left_out)}\n" if left_out else ""
    return f"📚 Recalled Knowledge ({len(shown)} items, ~{spent} tokens):\n\n" + "\n".join(shown) + rest


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


def _knowledge_data(item: KnowledgeItem, content: str, links: Sequence[ResolvedLink], score: float) -> Data:
    shown = to_data(item, "type", "keywords", "source", "added", "status")
    code = [{**to_data(one.link), "file": one.file, "line": one.line or None, "status": one.status} for one in links]
    uri = f"sage://knowledge/{item.id}"
    return {"id": item.id, "uri": uri, "score": score, **shown, "content": content, "code_links": code}


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
