"""Search by meaning, with a model that lies in an installed package; the network is never asked.

The optional extra `carrel[semantic]` brings it. Where it is missing or does not load, search goes without.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final

from carrel.providers.sage.search_index import Hit, Index

log = logging.getLogger(__name__)

PACKAGE: Final = "wordllama"
LEAST_COSINE: Final = 0.2
"""Below this two texts have nothing to do with each other; without it, everything would be found."""

_MAX_CHARACTERS: Final = 4_000


def is_installed() -> bool:
    """Tell whether the extra is there; nothing is loaded for that."""
    return find_spec(PACKAGE) is not None


class Meaning:
    """The model and the vectors of one index."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._lock = Lock()
        self._model: Any = None
        self._has_failed = False
        self._held: dict[str, tuple[int, list[tuple[str, int]], Any]] = {}

    def load(self) -> bool:
        """Load the model, if it can be loaded; tell whether it is there."""
        with self._lock:
            if self._model is None and not self._has_failed:
                try:
                    self._model = _load()
                except (ImportError, OSError, ValueError, RuntimeError, AttributeError, KeyError, TypeError) as error:
                    self._has_failed = True
                    log.warning("the model for search by meaning does not load: %s", type(error).__name__)
            return self._model is not None

    def nearest(self, kind: str, query: str, limit: int) -> list[Hit]:
        """Give the items nearest in meaning, the nearest first."""
        import numpy

        with self._lock:
            keys, matrix = self._matrix(kind)
            if not keys:
                return []
            cosines = matrix @ self._embed([query])[0]
        hits = [
            Hit(keys[at][0], float(cosines[at]), keys[at][1])
            for at in numpy.argsort(-cosines)[:limit]
            if cosines[at] >= LEAST_COSINE
        ]
        return sorted(hits, key=lambda hit: (hit.score, hit.when, hit.key), reverse=True)

    def _matrix(self, kind: str) -> tuple[list[tuple[str, int]], Any]:
        import numpy

        new = self._index.texts(kind, only_new=True)
        if new:
            made = self._embed([text for _, text in new]).astype(numpy.float16)
            self._index.put_vectors((row, vector.tobytes()) for (row, _), vector in zip(new, made, strict=True))
        held = self._held.get(kind)
        if new or held is None or held[0] != self._index.generation:
            rows = self._index.vectors(kind)
            keys = [(key, when) for key, when, _ in rows]
            joined = b"".join(vector for _, _, vector in rows)
            matrix = numpy.frombuffer(joined, dtype=numpy.float16).reshape(len(rows), -1 if rows else 1)
            held = self._held[kind] = self._index.generation, keys, matrix.astype(numpy.float32)
        return held[1], held[2]

    def _embed(self, texts: list[str]) -> Any:
        return self._model.embed([text[:_MAX_CHARACTERS] or "-" for text in texts], norm=True)


@contextmanager
def _log_left_alone() -> Iterator[None]:
    """Undo what is done to the log of the whole process: the package sets it up when it is imported."""
    root = logging.getLogger()
    level, before = root.level, list(root.handlers)
    try:
        yield
    finally:
        root.setLevel(level)
        for one in [one for one in root.handlers if one not in before]:
            root.removeHandler(one)


def _load() -> Any:
    """Load the weights that lie in the package itself."""
    from pathlib import Path

    with warnings.catch_warnings(), _log_left_alone():
        warnings.simplefilter("ignore")
        import wordllama

        # Its own look-up misses the tokenizer it ships; told that its folder is the cache, it finds both.
        return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
