"""The section `[search]`."""

from carrel.core.provider import Ceiling, FractionalCeiling, Section


class SearchSettings(Section, frozen=True):
    """The limits of search. A project that is not trusted cannot raise them."""

    enabled: bool = True
    """Whether there is a search at all."""
    max_index_mb: Ceiling = Ceiling(1_024)
    """Maximum size of the index on disk; documents that do not fit are not found by their content."""
    max_documents: Ceiling = Ceiling(500_000)
    """Number of documents in the index."""
    answer_s: FractionalCeiling = FractionalCeiling(1.0)
    """Maximum time for an answer, which says how much was searched."""
    build_s: FractionalCeiling = FractionalCeiling(3_600.0)
    """Maximum time in total that a server spends on building the index."""

    def __post_init__(self) -> None:
        self.check(1, 1_000_000, "max_index_mb")
        self.check(1, 10_000_000, "max_documents")
        self.check(0.05, 60, "answer_s")
        self.check(0, 1_000_000, "build_s")
