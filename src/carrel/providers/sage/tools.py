"""The tools: searching, listing, recalling and, where allowed, saving. A failure is a result that says so."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from carrel.core.model import ResourceLink, Tool, ToolResult
from carrel.core.provider import Project, ToolLevel
from carrel.core.record import Value
from carrel.providers.sage import arguments, tool_schemas
from carrel.providers.sage.arguments import Arguments
from carrel.providers.sage.code_links import Resolved
from carrel.providers.sage.file_format import Broken
from carrel.providers.sage.item_names import SUBJECTS, checked, shown, split_uri
from carrel.providers.sage.lookup import failure_addresses
from carrel.providers.sage.memory import Memory, Refused
from carrel.providers.sage.records import RELEVANCES, Checkpoint, Failure, Knowledge
from carrel.providers.sage.rendering import (
    MIME_TYPES,
    Format,
    percent,
    render_failure,
    render_knowledge,
    saved,
    tokens,
)
from carrel.providers.sage.saving import Saved, Saving
from carrel.providers.sage.search import Searching

RECALL_TOKENS: Final = 2_000

Told = dict[str, Any]


class Tools:
    """What can be called on one memory."""

    def __init__(self, project: Project, memory: Memory, level: ToolLevel, search: Literal["auto", "bm25"]) -> None:
        self._memory = memory
        self.searching = Searching(memory, project.environment, search)
        self.saving = Saving(project, memory)
        reading: dict[str, Callable[[Arguments], ToolResult]] = {
            "sage_search_checkpoints": self.search_checkpoints,
            "sage_list_checkpoints": self.list_checkpoints,
            "sage_load_checkpoint": self.load_checkpoint,
            "sage_recall_knowledge": self.recall_knowledge,
            "sage_list_failures": self.list_failures,
        }
        writing: dict[str, Callable[[Arguments], ToolResult]] = {
            "sage_save_checkpoint": self.save_checkpoint,
            "sage_save_knowledge": self.save_knowledge,
            "sage_record_failure": self.record_failure,
            "sage_write_system": self.write_system,
        }
        self._calls = {} if level == "off" else reading if level == "read" else {**reading, **writing}

    def tools(self) -> Sequence[Tool]:
        """Give the tools there are at this level."""
        return [tool_schemas.BY_NAME[name] for name in self._calls]

    def call(self, name: str, given: Arguments) -> ToolResult:
        """Run one of them."""
        try:
            return self._calls[name](given)
        except Refused as refused:
            meta: Told = {"dev.carrel/error": refused.kind}
            if refused.candidates:
                meta["dev.carrel/candidates"] = list(refused.candidates)
            return ToolResult((refused.message,), is_error=True, meta=meta)

    def close(self) -> None:
        """Let go of the index."""
        self.searching.close()

    # Checkpoints

    def search_checkpoints(self, given: Arguments) -> ToolResult:
        limit = arguments.count(given, "limit", 5, 50)
        query = arguments.needed(given, "query", self._memory.limit)
        found = self.searching.search("checkpoint", query, limit)
        loaded = [(hit, self._memory.checkpoints.load_if_sound(hit.key)) for hit in found.hits]
        results = [{**_told_checkpoint(hit.key, one), "score": hit.score} for hit, one in loaded if one is not None]
        structured = {"engine": found.engine, "total": found.total, "results": [_ordered(one) for one in results]}
        if not results:
            return ToolResult(("No checkpoints found.",), structured)
        lines = [f"Found {found.total} checkpoints (search: {found.engine}). Top {len(results)}:"]
        for number, one in enumerate(results, 1):
            lines.append(f"{number}. {one['id']} [{one['score']:.3f}]")
            lines.append(f"   {_line(one['thesis'], 70)}")
            lines.append(f"   {percent(one['confidence'])} | {one['trigger']} | {saved(one['ts'])}")
        return self._result("\n".join(lines), structured, results)

    def list_checkpoints(self, given: Arguments) -> ToolResult:
        limit = arguments.count(given, "limit", 10, 200)
        skill = arguments.text(given, "skill")
        shelf = self._memory.checkpoints
        cards = [card for card in shelf.newest_first(shelf.examined().values()) if not card.reason]
        if skill:
            records = [(card.stem, shelf.load_if_sound(card.stem)) for card in cards]
            told = [_told_checkpoint(stem, one) for stem, one in records if one is not None and one.skill == skill]
            total, listed = len(told), told[:limit]
        else:
            records = [(card.stem, shelf.load_if_sound(card.stem)) for card in cards[:limit]]
            total, listed = len(cards), [_told_checkpoint(stem, one) for stem, one in records if one is not None]
        structured = {"total": total, "checkpoints": listed}
        if not listed:
            return ToolResult(("No checkpoints found.",), structured)
        lines = "".join(
            f"\n- {one['id']}: {_line(one['thesis'], 60)} ({percent(one['confidence'])}, {one['trigger']})"
            for one in listed
        )
        return self._result(f"## Checkpoints [{len(listed)}]{lines}", structured, listed)

    def load_checkpoint(self, given: Arguments) -> ToolResult:
        wanted = arguments.text(given, "format") if given.get("format") is not None else None
        asked, told = _checkpoint_in(arguments.item_id(given))
        served = self._memory.read("checkpoint", asked, told if wanted is None else wanted)
        record = served.record
        assert isinstance(record, Checkpoint)
        uri = f"sage://checkpoint/{served.address}"
        structured = {"id": served.address, "uri": uri, "checkpoint": _all_fields(record)}
        link = ResourceLink(uri, f"checkpoint/{served.address}", _line(record.question, 120), served.mime_type)
        return ToolResult((served.text, link), structured)

    # Knowledge

    def recall_knowledge(self, given: Arguments) -> ToolResult:
        limit = arguments.count(given, "limit", 3, 20)
        query = arguments.needed(given, "query", self._memory.limit)
        skill = arguments.text(given, "skill")
        form = self._memory.format(arguments.text(given, "format") if given.get("format") is not None else None)
        found = self.searching.search("knowledge", query, None)
        scores = {hit.key: hit.score for hit in found.hits}
        items = {key: one.item for key, one in self._memory.library.items().items()}
        always = [key for key, item in items.items() if item.always]
        ordered = dict.fromkeys((*sorted(always, key=lambda key: -scores.get(key, 0.0)), *scores))
        wanted = [items[key] for key in ordered if key in items and _is_recalled(items[key], skill)]
        recalled = [one for one in map(self._recall, wanted[:limit]) if one is not None]
        results = [one.told(scores.get(one.item.id, 0.0)) for one in recalled]
        structured = {"engine": found.engine, "total": len(wanted), "results": results}
        if not results:
            return ToolResult(("No knowledge found.",), structured)
        texts, spent, left_out = _within_budget(recalled, form)
        text = f"📚 Recalled Knowledge ({len(texts)} items, ~{spent} tokens):\n\n" + "\n".join(texts)
        if left_out:
            text += f"\nNot shown in full: {', '.join(left_out)}\n"
        return self._result(text, structured, results)

    def _recall(self, item: Knowledge) -> "Recalled | None":
        try:
            content, _ = self._memory.library.content(item)
        except Broken:
            return None
        return Recalled(item, content, tuple(self._memory.code.resolve(item)))

    # Failures

    def list_failures(self, given: Arguments) -> ToolResult:
        limit = arguments.count(given, "limit", 10, 200)
        query = arguments.text(given, "query")
        shelf = self._memory.failures
        cards = shelf.examined()
        addresses = failure_addresses(shelf, cards)
        structured: Told = {}
        if query.strip():
            found = self.searching.search("failure", query, limit)
            stems, total = [hit.key for hit in found.hits if hit.key in addresses], found.total
            structured["engine"] = found.engine
        else:
            good = [card.stem for card in shelf.newest_first(cards.values()) if not card.reason]
            stems, total = good[:limit], len(good)
        records = [(stem, shelf.load_if_sound(stem)) for stem in stems]
        told = [_told_failure(addresses[stem], one) for stem, one in records if one is not None]
        structured = {"total": total, "failures": told, **structured}
        if not told:
            return ToolResult(("No failures recorded.",), structured)
        form = self._memory.format(None)
        texts = [render_failure(one, stem, form) for stem, one in records if one is not None]
        return self._result(f"## Failures [{len(texts)}]\n\n" + "\n".join(texts), structured, told)

    # Saving

    def save_checkpoint(self, given: Arguments) -> ToolResult:
        record = arguments.checkpoint(given, self._memory.limit)
        done = self.saving.checkpoint(record, continues=given.get("continues_from") is None)
        return _saved(f"Checkpoint saved: {done.id}", done, MIME_TYPES["markdown"])

    def save_knowledge(self, given: Arguments) -> ToolResult:
        done = self.saving.knowledge(arguments.knowledge(given, self._memory.limit))
        return _saved(f"Knowledge saved: {done.id}", done, MIME_TYPES["markdown"])

    def record_failure(self, given: Arguments) -> ToolResult:
        done = self.saving.failure(arguments.failure(given, self._memory.limit))
        return _saved(f"Recorded failure: {done.id}", done, MIME_TYPES["markdown"])

    def write_system(self, given: Arguments) -> ToolResult:
        filename = arguments.text(given, "filename")
        if checked(filename) is None:
            raise Refused(f"Invalid {SUBJECTS['system']}: {shown(filename)}", "invalid")
        overwrite = arguments.flag(given, "overwrite", default=True)
        content = given.get("content")
        arguments.needed(given, "content", self._memory.limit)
        assert isinstance(content, str)
        done = self.saving.system(filename, content.replace("\0", ""), overwrite=overwrite)
        structured = {"uri": done.uri, "path": done.path}
        link = ResourceLink(done.uri, f"system/{done.id}", None, "text/markdown")
        return ToolResult((f"System file saved: {shown(filename)}", link), structured)

    def _result(self, text: str, structured: Told, items: Sequence[Told]) -> ToolResult:
        mime_type = MIME_TYPES[self._memory.format(None)]
        links = [ResourceLink(one["uri"], one["uri"].removeprefix("sage://"), None, mime_type) for one in items]
        return ToolResult((text, *links), structured)


class Recalled(Value, frozen=True):
    """A knowledge item that was found, read, with its links looked up."""

    item: Knowledge
    content: str
    links: tuple[Resolved, ...]

    @property
    def uri(self) -> str:
        """Its address."""
        return f"sage://knowledge/{self.item.id}"

    @property
    def parts(self) -> tuple[Knowledge, str, Sequence[Resolved]]:
        """What its text is made of."""
        return self.item, self.content, self.links

    def told(self, score: float) -> Told:
        """Give it as data."""
        item = self.item
        links = [
            {
                "chunk_id": one.link.chunk_id,
                "relation": one.link.relation,
                "note": one.link.note,
                "file": one.file,
                "line": one.line or None,
                "status": one.status,
            }
            for one in self.links
        ]
        return {
            "id": item.id,
            "uri": self.uri,
            "score": score,
            "type": item.type,
            "keywords": list(item.keywords),
            "source": item.source,
            "added": item.added,
            "status": item.status,
            "content": self.content,
            "code_links": links,
        }


_MENTION: Final = re.compile(r"@?(?:[\w-]+:)?(?=sage://)", re.IGNORECASE)


def _checkpoint_in(text: str) -> tuple[str, str | None]:
    """Return the id and the format that a checkpoint's URI names, also as it is mentioned; any other text is an id."""
    parts = split_uri(_MENTION.sub("", text.strip(), count=1))
    return (parts[1], parts[2]) if parts is not None and parts[0] == "checkpoint" else (text, None)


def _is_recalled(item: Knowledge, skill: str) -> bool:
    return not item.is_hidden and (not skill or not item.skills or skill in item.skills)


def _within_budget(recalled: "Sequence[Recalled]", form: Format) -> tuple[list[str], int, list[str]]:
    """Return the texts that fit, their tokens, and the URIs of items that are not shown in full.

    An item that does not fit is passed over, so that those after it may; the best is cut if none fits.
    """
    texts: list[str] = []
    left_out: list[str] = []
    left, spent = RECALL_TOKENS, 0
    for one in recalled:
        text = render_knowledge(*one.parts, form)
        if tokens(text) > left:
            left_out.append(one.uri)
            continue
        texts.append(text)
        left -= tokens(text)
        spent += tokens(one.content)
    if not texts:
        best = render_knowledge(*recalled[0].parts, form)
        return [best[: RECALL_TOKENS * 4 - 2] + "…\n"], RECALL_TOKENS, left_out
    return texts, spent, left_out


def _line(text: str, length: int) -> str:
    return " ".join(text.split())[:length]


_ORDER: Final = ("id", "uri", "score", "question", "thesis", "confidence", "trigger", "ts")


def _ordered(told: Told) -> Told:
    return {key: told[key] for key in _ORDER}


def _told_checkpoint(stem: str, one: Checkpoint) -> Told:
    return {
        "id": stem,
        "uri": f"sage://checkpoint/{stem}",
        "question": one.question,
        "thesis": one.thesis,
        "confidence": one.confidence,
        "trigger": one.trigger,
        "ts": one.ts,
    }


def _told_failure(address: str, one: Failure) -> Told:
    return {
        "id": address,
        "uri": f"sage://failure/{address}",
        "approach": one.approach,
        "why_failed": one.why_failed,
        "learned": one.learned,
        "keywords": list(one.keywords),
        "related_to": list(one.related_to),
        "added": one.added,
    }


def _plain(value: object) -> object:
    if isinstance(value, Value):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _all_fields(one: Checkpoint) -> Told:
    """Give a checkpoint as data, under the names it is saved with."""
    fields: Told = {name: _plain(getattr(one, name)) for name in one.__struct_fields__}
    fields["core_question"] = fields.pop("question")
    fields["unique_contributions"] = fields.pop("contributions")
    fields["code_refs"] = [
        {"file": ref.file, "lines": ref.lines, "relevance": RELEVANCES.get(ref.mark, "other")} for ref in one.code_refs
    ]
    fields["other_sections"] = dict(fields.pop("others"))
    return fields


def _saved(text: str, done: Saved, mime_type: str) -> ToolResult:
    structured: Mapping[str, str] = {"id": done.id, "uri": done.uri, "path": done.path}
    link = ResourceLink(done.uri, done.uri.removeprefix("sage://"), None, mime_type)
    return ToolResult((text, link), dict(structured))
