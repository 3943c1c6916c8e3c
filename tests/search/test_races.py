"""An edit that was made before a search is found by it, and nothing is found that is no more."""

import os
import random
import time
from pathlib import Path

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.provider import FractionalCeiling, Project
from carrel.providers.workspace import Workspace
from carrel.search.answers import SearchRequest
from carrel.search.search import Search
from carrel.search.settings import SearchSettings


class Tree:
    """A folder whose files hold one word each, and a search over it."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.random = random.Random(seed)
        self.words: dict[str, str] = {}
        self.number = 0
        self.catalog = Catalog((Workspace(Project(str(root), {"HOME": str(root)})),))
        settings = SearchSettings(answer_s=FractionalCeiling(60.0))  # a busy machine may not stop a search half way
        self.search = Search(self.catalog, str(root.parent / f"index{seed}"), settings)

    def new_word(self) -> str:
        """Return a word that no file ever held; all have the same length."""
        self.number += 1
        return "".join("abcdefghij"[int(digit)] for digit in f"{self.number:08d}") + "zq"

    def find(self, word: str) -> set[str]:
        """Return the names of the files that a search finds for a word."""
        answer = self.search.search(SearchRequest(word, limit=100))
        assert not answer.coverage.is_partial
        for hit in answer.hits:
            assert any(word in line.text for line in hit.lines), "a hit shows what it was found for"
        return {hit.base.removeprefix("workspace:///") for hit in answer.hits}

    # Edits: each returns the words that may be found nowhere any more

    def write(self) -> list[str]:
        """Write a new file, or overwrite one in place."""
        name = f"{self.random.choice(['', 'a/', 'a/b/', 'c/'])}{self.random.randrange(40)}.txt"
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        gone = self.words.get(name)
        self.words[name] = self.new_word()
        path.write_text(f"{self.words[name]}\n")
        return [gone] if gone else []

    def replace(self) -> list[str]:
        """Replace a file by another one, in one step, with the same size and time."""
        if not self.words:
            return []
        name = self.random.choice(sorted(self.words))
        path, gone = self.root / name, self.words[name]
        before = path.stat()
        self.words[name] = self.new_word()
        beside = path.with_name("beside.tmp")
        beside.write_text(f"{self.words[name]}\n")
        os.utime(beside, ns=(before.st_atime_ns, before.st_mtime_ns))
        beside.replace(path)
        return [gone]

    def delete(self) -> list[str]:
        """Delete a file."""
        if not self.words:
            return []
        name = self.random.choice(sorted(self.words))
        (self.root / name).unlink()
        return [self.words.pop(name)]

    def rename_folder(self) -> list[str]:
        """Rename a folder with all it holds, then move its files to another one, over files that are there."""
        if not (self.root / "a").is_dir():
            return []
        other = self.root / "a2"
        if other.exists():
            return []
        (self.root / "a").rename(other)
        self.words = {(f"a2/{name[2:]}" if name.startswith("a/") else name): word for name, word in self.words.items()}
        (self.root / "a2").rename(self.root / "a3")
        self.words = {(f"a3/{name[3:]}" if name.startswith("a2/") else name): word for name, word in self.words.items()}
        gone = []
        for name in [name for name in self.words if name.startswith("a3/")]:
            back = f"c/moved-{self.random.randrange(40)}.txt"
            (self.root / "c").mkdir(exist_ok=True)
            (self.root / name).rename(self.root / back)
            gone += [self.words[back]] if back in self.words else []
            self.words[back] = self.words.pop(name)
        (self.root / "a3" / "b").rmdir() if (self.root / "a3" / "b").exists() else None
        (self.root / "a3").rmdir()
        return gone

    def ignore(self) -> list[str]:
        """Have all files of a folder ignored, look, and have them served again."""
        rules = self.root / "c" / ".gitignore"
        inside = {name: word for name, word in self.words.items() if name.startswith("c/")}
        if not inside:
            return []
        rules.write_text("*.txt\n")
        for word in list(inside.values())[:3]:
            assert self.find(word) == set()
        rules.unlink()
        return []

    def step(self) -> None:
        """Edit something, then search for what it left and for what it took away."""
        edits = [self.write] * 6 + [self.replace] * 6 + [self.delete, self.rename_folder, self.ignore]
        gone = self.random.choice(edits)()
        names = sorted(self.words)
        for name in ([names[-1], self.random.choice(names)]) if names else []:
            assert self.find(self.words[name]) == {name}
        for word in gone:
            assert self.find(word) == set()


def race(root: Path, steps: int, seed: int) -> None:
    """Edit and search, so many times."""
    (root / "tree").mkdir()
    tree = Tree(root / "tree", seed)
    try:
        for _ in range(steps):
            tree.step()
    finally:
        tree.search.close()
        tree.catalog.close()


@pytest.mark.slow
def test_an_edit_is_found_at_once_and_what_is_gone_is_not(tmp_path: Path) -> None:
    race(tmp_path, 60, 1)


@pytest.mark.slow
@pytest.mark.parametrize("quarter", range(4))
def test_ten_thousand_edits_are_found_at_once_and_nothing_is_found_that_is_gone(tmp_path: Path, quarter: int) -> None:
    race(tmp_path, 2_500, int(time.time()) + quarter)


@pytest.mark.slow
def test_the_last_word_written_to_one_file_is_found_each_time(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    tree = Tree(tmp_path / "tree", 2)
    path, before = tmp_path / "tree" / "one.txt", ""
    for _ in range(200):
        word = tree.new_word()
        path.write_text(f"{word}\n")
        assert tree.find(word) == {"one.txt"}
        if before:
            assert tree.find(before) == set()
        before = word
    tree.search.close()
