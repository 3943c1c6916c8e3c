"""The contents of Sage's files as values. Missing text is empty."""

from collections.abc import Callable
from typing import Final, Literal, TypeVar, get_args

from carrel.core.record import Value
from carrel.providers.sage.fields import Fields

MARKS: Final = {"supports": "+", "contradicts": "-", "context": "~", "stale": "!"}
"""Marks for the relevance of a code reference; `?` stands for any other."""

RECOVERY: Final = "recovery"
HIDDEN_STATUSES: Final = ("deprecated", "archived")
KnowledgeType = Literal["knowledge", "preference", "todo", "reference"]
LinkRelation = Literal["implements", "example", "related", "deprecated_by"]
TYPES: Final = get_args(KnowledgeType)


class CheckpointSource(Value, frozen=True):
    """A source that a checkpoint is based on."""

    id: str
    type: str = ""
    take: str = ""
    relation: str = ""


class Tension(Value, frozen=True):
    """Two sources that disagree."""

    a: str
    b: str
    nature: str = ""
    resolution: str = ""


class Contribution(Value, frozen=True):
    """A finding that is new in this research."""

    type: str
    content: str


class CodeRef(Value, frozen=True):
    """A place in the code, with a mark for its relevance to the thesis."""

    file: str
    lines: str = ""
    mark: str = "?"

    @property
    def bullet(self) -> str:
        """The list line that is both stored and shown."""
        return f"- [{self.mark}] `{self.file}:{self.lines}`" if self.lines else f"- [{self.mark}] `{self.file}`"


class GitContext(Value, frozen=True):
    """The state of the repository when a checkpoint was saved; `dirty` is None if unknown."""

    branch: str = ""
    commit: str = ""
    dirty: bool | None = None
    recent_commits: tuple[str, ...] = ()


class DiffSummary(Value, frozen=True):
    """The uncommitted changes when a checkpoint was saved."""

    files_changed: tuple[str, ...] = ()
    staged_files: tuple[str, ...] = ()
    insertions: int = 0
    deletions: int = 0


class Checkpoint(Value, frozen=True):
    """A state of research: first the fields of the front matter, in their order, then the sections.

    `others` are the sections that Carrel does not know; they are shown unchanged.
    """

    id: str = ""
    type: str = "checkpoint"
    ts: str = ""
    trigger: str = ""
    confidence: float = 0.0
    skill: str = ""
    project: str = ""
    parent_checkpoint: str = ""
    message_count: int = 0
    token_estimate: int = 0
    action_goal: str = ""
    action_type: str = ""
    template: str = ""
    files_explored: tuple[str, ...] = ()
    files_changed: tuple[str, ...] = ()
    git_context: GitContext | None = None
    diff_summary: DiffSummary | None = None
    continues_from: str = ""
    related_knowledge: tuple[str, ...] = ()
    question: str = ""
    thesis: str = ""
    key_evidence: tuple[str, ...] = ()
    reasoning_trace: str = ""
    open_questions: tuple[str, ...] = ()
    sources: tuple[CheckpointSource, ...] = ()
    tensions: tuple[Tension, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    code_refs: tuple[CodeRef, ...] = ()
    others: tuple[tuple[str, str], ...] = ()

    @property
    def is_recovery(self) -> bool:
        """Whether it was recovered automatically, not saved on purpose."""
        return self.type == RECOVERY


class CodeLink(Value, frozen=True):
    """A link from a knowledge item to code."""

    chunk_id: str
    relation: str = "related"
    note: str = ""


class KnowledgeLink(Value, frozen=True):
    """A link from a knowledge item to another."""

    target_id: str
    relation: str = "related"
    note: str = ""


class KnowledgeItem(Value, frozen=True):
    """An entry of the knowledge index; its content is in a separate file."""

    id: str
    file: str
    type: str = "knowledge"
    keywords: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    always: bool = False
    added: str = ""
    source: str = ""
    status: str = ""
    saved_at_commit: str = ""
    code_links: tuple[CodeLink, ...] = ()
    knowledge_links: tuple[KnowledgeLink, ...] = ()

    @property
    def is_hidden(self) -> bool:
        """Whether it is outdated: recall leaves it out, a read still serves it."""
        return self.status in HIDDEN_STATUSES


class FailureRecord(Value, frozen=True):
    """An approach that was tried and did not work."""

    id: str = ""
    approach: str = ""
    why_failed: str = ""
    learned: str = ""
    keywords: tuple[str, ...] = ()
    related_to: tuple[str, ...] = ()
    added: str = ""
    project: str = ""


_READERS: Final[dict[object, Callable[[Fields, str], object]]] = {
    str: Fields.text,
    int: Fields.count,
    float: Fields.share,
    bool: lambda fields, name: bool(fields.flag(name)),
    bool | None: Fields.flag,
    tuple[str, ...]: Fields.texts,
}

Kind = TypeVar("Kind", bound=Value)


def from_fields(kind: type[Kind], fields: Fields, **known: object) -> Kind:
    """Return a record with the fields of the same names, each read by its type; `known` values come first."""
    readers = {name: _READERS.get(annotation) for name, annotation in kind.__annotations__.items()}
    return kind(**{name: read(fields, name) for name, read in readers.items() if read and name not in known}, **known)


def to_data(record: Value, *names: str) -> dict[str, object]:
    """Return the named fields of a record, or all of them, as plain values."""
    return {name: _plain(getattr(record, name)) for name in names or record.__struct_fields__}


def _plain(value: object) -> object:
    if isinstance(value, Value):
        return to_data(value)
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
