"""Search by meaning, with a model from an installed package; the network is never used.

The optional extra `carrel[semantic]` installs it. Without it, or if it does not load, search uses words only.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final

from carrel.search.records import RecordHit, RecordIndex, best_first

log = logging.getLogger(__name__)

PACKAGE: Final = "wordllama"
LEAST_COSINE: Final = 0.15
"""Below this, two texts are unrelated; without it, every record would be found."""

_MAX_CHARACTERS: Final = 4_000


def is_installed() -> bool:
    """Return whether the extra is installed, without loading it."""
    return find_spec(PACKAGE) is not None


class Embeddings:
    """The model, and the vectors of one index."""

    def __init__(self, index: RecordIndex) -> None:
        self._index = index
        self._lock = Lock()
        self._model: Any = None
        self._has_failed = False
        self._cache: dict[str, tuple[tuple[int, ...], list[tuple[str, int]], Any]] = {}

    def load(self) -> bool:
        """Load the model if necessary; return whether it is loaded."""
        with self._lock:
            if self._model is None and not self._has_failed:
                try:
                    self._model = _load()
                except (ImportError, OSError, ValueError, RuntimeError, AttributeError, KeyError, TypeError) as error:
                    self._has_failed = True
                    log.warning("the model for search by meaning does not load: %s", type(error).__name__)
            return self._model is not None

    def nearest(self, kind: str, query: str, limit: int) -> list[RecordHit]:
        """Return the records nearest in meaning, the nearest first."""
        import numpy

        with self._lock:
            keys, matrix = self._matrix(kind)
            if not keys:
                return []
            cosines = matrix @ self._embed([query])[0]
        near = [at for at in numpy.argsort(-cosines)[:limit] if cosines[at] >= LEAST_COSINE]
        return best_first(RecordHit(keys[at][0], float(cosines[at]), keys[at][1]) for at in near)

    def _matrix(self, kind: str) -> tuple[list[tuple[str, int]], Any]:
        """Return key and time of every record, and the matrix of their vectors."""
        import numpy

        new = self._index.texts_without_vector(kind)
        if new:
            made = self._embed([text for _, text in new]).astype(numpy.float16)
            self._index.put_vectors((row, vector.tobytes()) for (row, _), vector in zip(new, made, strict=True))
        cached = self._cache.get(kind)
        state = self._index.opened().state()
        if new or cached is None or cached[0] != state:
            rows = self._index.vectors(kind)
            keys = [(key, when) for key, when, _ in rows]
            joined = b"".join(vector for _, _, vector in rows)
            matrix = numpy.frombuffer(joined, dtype=numpy.float16).reshape(len(rows), -1 if rows else 1)
            cached = self._cache[kind] = state, keys, matrix.astype(numpy.float32)
        return cached[1], cached[2]

    def _embed(self, texts: list[str]) -> Any:
        return self._model.embed([text[:_MAX_CHARACTERS] or "-" for text in texts], norm=True)


@contextmanager
def _log_unchanged() -> Iterator[None]:
    """Restore the root logger, which the package configures when it is imported."""
    root = logging.getLogger()
    level, before = root.level, list(root.handlers)
    try:
        yield
    finally:
        root.setLevel(level)
        for handler in [handler for handler in root.handlers if handler not in before]:
            root.removeHandler(handler)


def _load() -> Any:
    """Load the weights that the package contains."""
    from pathlib import Path

    with warnings.catch_warnings(), _log_unchanged():
        warnings.simplefilter("ignore")
        import wordllama

        # The package does not find the tokenizer in its own folder unless that is given as the cache.
        return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
