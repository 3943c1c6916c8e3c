"""What the files of a Sage folder hold, as values. Missing text is empty."""

from typing import Final

from carrel.core.record import Value

MARKS: Final = {"supports": "+", "contradicts": "-", "context": "~", "stale": "!"}
"""How a code reference's relevance is written; anything else is `?`."""

RELEVANCES: Final = {mark: word for word, mark in MARKS.items()}
RECOVERY: Final = "recovery"
HIDDEN_STATUSES: Final = ("deprecated", "archived")
TYPES: Final = ("knowledge", "preference", "todo", "reference")
LINK_RELATIONS: Final = ("implements", "example", "related", "deprecated_by")


class Source(Value, frozen=True):
    """Something a checkpoint rests on."""

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
    """Something only this research found."""

    type: str
    content: str


class CodeRef(Value, frozen=True):
    """A place in the code, with the mark of what it says about the thesis."""

    file: str
    lines: str = ""
    mark: str = "?"

    @property
    def bullet(self) -> str:
        """Give it as a line of a list, kept and shown alike."""
        return f"- [{self.mark}] `{self.file}:{self.lines}`" if self.lines else f"- [{self.mark}] `{self.file}`"


class GitContext(Value, frozen=True):
    """Where the project stood when a checkpoint was saved; `dirty` is None where that was not known."""

    branch: str = ""
    commit: str = ""
    dirty: bool | None = None
    recent_commits: tuple[str, ...] = ()


class DiffSummary(Value, frozen=True):
    """What was not committed when a checkpoint was saved."""

    files_changed: tuple[str, ...] = ()
    staged_files: tuple[str, ...] = ()
    insertions: int = 0
    deletions: int = 0


class Checkpoint(Value, frozen=True):
    """A state of research. `others` are sections Carrel does not know, shown as they are."""

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
    sources: tuple[Source, ...] = ()
    tensions: tuple[Tension, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    code_refs: tuple[CodeRef, ...] = ()
    others: tuple[tuple[str, str], ...] = ()

    @property
    def is_recovery(self) -> bool:
        """Whether it was salvaged and not saved on purpose."""
        return self.type == RECOVERY


class CodeLink(Value, frozen=True):
    """A piece of code a knowledge item is about."""

    chunk_id: str
    relation: str = "related"
    note: str = ""


class KnowledgeLink(Value, frozen=True):
    """Another knowledge item."""

    target_id: str
    relation: str = "related"
    note: str = ""


class Knowledge(Value, frozen=True):
    """An entry of the knowledge index; its content is a file of its own."""

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
        """Whether it is no longer held for true; it is served all the same."""
        return self.status in HIDDEN_STATUSES


class Failure(Value, frozen=True):
    """Something that was tried and did not work."""

    id: str = ""
    approach: str = ""
    why_failed: str = ""
    learned: str = ""
    keywords: tuple[str, ...] = ()
    related_to: tuple[str, ...] = ()
    added: str = ""
    project: str = ""


Record = Checkpoint | Failure
