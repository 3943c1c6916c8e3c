"""The section `[search]`."""

from carrel.core.provider import Ceiling, FractionalCeiling, Section


class SearchSettings(Section, frozen=True):
    """What search may use. A project that is not trusted cannot raise the limits."""

    enabled: bool = True
    """Whether there is a search at all."""
    max_index_mb: Ceiling = Ceiling(1_024)
    """Size of the index on disk; what does not fit is not found by its content."""
    max_documents: Ceiling = Ceiling(500_000)
    """Number of documents in the index."""
    answer_s: FractionalCeiling = FractionalCeiling(1.0)
    """How long an answer takes at most; what could not be searched by then is reported."""
    build_s: FractionalCeiling = FractionalCeiling(3_600.0)
    """How long a server works on the index in all."""

    def __post_init__(self) -> None:
        self.check(1, 1_000_000, "max_index_mb")
        self.check(1, 10_000_000, "max_documents")
        self.check(0.05, 60, "answer_s")
        self.check(0, 1_000_000, "build_s")
