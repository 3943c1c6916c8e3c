"""A place for one hostile repository: the project, what lies outside it, and what must never be seen.

Everything outside the project, and every secret inside it, holds the canary. A program that somebody manages to start
leaves a file in `marks`.
"""

import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

CARREL: Final = str(Path(sys.executable).with_name("carrel"))

CANARY: Final = "c4n4ry-5e9d0b"
"""Stands in every text, and in some names, that no answer and no log may show."""

ESCAPES: Final = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\u2066"
"""What a terminal would obey: a title, a cleared screen, a colour in eight bits, text that runs backwards."""


class Place:
    """The folders of one case."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.home = base / "home"
        self.outside = base / "outside"
        self.marks = base / "marks"
        self.root = base / "work" / "project"
        for folder in (self.home, self.outside, self.marks, self.root):
            folder.mkdir(parents=True)
        self.program = self.put(base / "program", f'#!/bin/sh\necho "$0 $*" > "{self.marks}/$$"\n')
        self.program.chmod(0o755)
        self._fill_outside()

    def put(self, path: Path | str, content: str | bytes) -> Path:
        """Write a file of the project, or anywhere else by its whole path, and the folders above it."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        self.remove(place)
        place.write_bytes(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)
        return place

    def link(self, path: str, target: Path | str) -> None:
        """Make a link in the project, to exactly this text; what was there is removed."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        self.remove(place)
        place.symlink_to(target)

    def remove(self, path: Path | str) -> None:
        """Remove a file, a link or a whole folder, if it is there."""
        place = self.root / path
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)

    def mark(self, name: str) -> str:
        """Return a shell command that leaves a mark."""
        return f"{self.program} {name}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a user who has just installed Carrel."""
        return {
            "HOME": str(self.home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "COLUMNS": "200",
            "XDG_RUNTIME_DIR": str(self.home / "runtime"),
        }

    def _fill_outside(self) -> None:
        """Put the canary where credentials and other projects usually are."""
        for name in (".ssh/id_rsa", ".docker/config.json", ".cargo/credentials.toml", ".aws/credentials", ".netrc"):
            self.put(self.home / name, f'{{"token": "{CANARY}"}}\n')
        for name in ("notes.md", "init.lua", "card.toml", "log.json", f"{CANARY}.md"):
            self.put(self.outside / name, f"# {CANARY}\n")
        self.put(self.outside / "package" / "init.lua", f'local M = {{}}\nM.meta = {{ name = "{CANARY}" }}\nreturn M\n')
        for folder in ("system", "checkpoints", "failures", "knowledge/global"):
            self.put(self.outside / ".sage" / folder / "stranger.md", f"---\nid: stranger\n---\n# {CANARY}\n")
        self.put(self.outside / ".sage/knowledge/index.yaml", knowledge_index("stranger", f", note: {CANARY}"))
        self.put(self.outside / ".carrel/logs/run/web_1.jsonl", run_log(CANARY))
        scopes_store(self.outside / ".carrel/scopes.db", CANARY)


def knowledge_index(name: str, extra: str = "") -> str:
    """Return an index with one item."""
    return (
        f"version: 1\nitems:\n- id: {name}\n  type: knowledge\n  file: global/{name}.md\n"
        "  triggers: {keywords: [auth], patterns: []}\n  scope: {skills: [], always: true}\n"
        f"  metadata: {{added: '2026-02-16', source: wiki, tokens: 9{extra}}}\n"
        "  code_links: [{chunk_id: 'src/main.py::main', relation: implements}]\n"
    )


def run_log(text: str, name: str = "web") -> str:
    """Return the log of a finished run."""
    return (
        f'{{"program":"{name}","ms":1760000000000}}\n'
        f'{{"seq":1,"ms":1760000000001,"stream":"out","text":"{text}"}}\n'
        '{"end":"exited","exit_code":0,"ms":1760000000002}\n'
    )


def scopes_store(path: Path, title: str) -> None:
    """Put a store with one scope, as `carrel scopes create` makes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_store(title))


@cache
def _store(title: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        command = [CARREL, "scopes", "create", title, "--alias", "first"]
        environment = {"HOME": folder, "PATH": "/usr/bin:/bin"}
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, timeout=60)
        path = Path(folder, ".carrel/scopes.db")
        plain = sqlite3.connect(path, isolation_level=None)
        plain.execute("PRAGMA journal_mode=DELETE")
        plain.close()
        return path.read_bytes()


def _sage(place: Place) -> None:
    place.put(".sage/system/objective.md", "# Ship the login page\n")
    place.put(".sage/checkpoints/2026-02-15T10-12-00_first.md", "---\nid: first\ntype: checkpoint\n---\n\n# Question\n")
    place.put(".sage/failures/2026-02-14T16-40-00_first.md", "---\nid: first\ntype: failure\n---\n\n## Learned\nx\n")
    place.put(".sage/knowledge/index.yaml", knowledge_index("first"))
    place.put(".sage/knowledge/global/first.md", "---\nid: first\n---\nSet the token.\n")


def _scopes(place: Place) -> None:
    scopes_store(place.root / ".carrel/scopes.db", "First task")


def _alc(place: Place) -> None:
    place.put("carrel.toml", '[alc]\nhome = "algo"\n')
    place.put("alc.toml", "")
    place.put("algo/packages/first/init.lua", 'local M = {}\nM.meta = { name = "first" }\nreturn M\n')
    place.put("algo/cards/first/first_m_1.toml", 'card_id = "first_m_1"\n[pkg]\nname = "first"\n')
    place.put("algo/cards/first/first_m_1.samples.jsonl", '{"case_idx": 0}\n')
    place.put("algo/scenarios/first.lua", "return {}\n")
    place.put("algo/evals/first_1745000000.json", "{}")
    place.put("algo/logs/s1.json", '{"session_id": "s1", "transcript": [{"query_id": "q1"}]}')


def _logs(place: Place) -> None:
    place.put(".carrel/logs/run/web_1.jsonl", run_log("ready"))
    place.put("pubspec.yaml", "name: app\n")


def _skills(place: Place) -> None:
    place.put(".claude/skills/first/SKILL.md", "---\nname: first\ndescription: Set the token\n---\n\n# First\n")
    place.put(".claude/skills/first/forms/card.md", "A card\n")
    place.put(".claude/skills/first/.env", f"token = {CANARY}\n")
    place.put("skills/second/SKILL.md", "---\nname: second\ndescription: The second\n---\n")


def _workspace(place: Place) -> None:
    place.put("README.md", "# A project\n")
    place.put("src/main.py", "def main() -> None: ...\n")
    for name in (".env", "deploy/id_rsa", "deploy/server.pem", ".ssh/config", ".git/config", ".git/notes.md"):
        place.put(name, f"token = {CANARY}\n")
    place.put(".git/HEAD", "ref: refs/heads/main\n")
    for name in ("objects", "refs/heads"):
        (place.root / ".git" / name).mkdir(parents=True)


def _git(place: Place) -> None:
    for name, content in _repository().items():
        place.put(f".git/{name}", content)


@cache
def _repository() -> dict[str, bytes]:
    """Return the files of a git folder in which secrets were committed, changed and removed."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        environment = {"HOME": folder, "PATH": "/usr/bin:/bin"}

        def git(*words: str) -> None:
            identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
            command = ["git", *identity, *words]
            subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, timeout=60)

        git("init", "-q", "-b", "main")
        for number in range(3):
            (place / "deploy").mkdir(exist_ok=True)
            (place / "src").mkdir(exist_ok=True)
            for name in (".env", "deploy/id_rsa", "deploy/server.pem"):
                (place / name).write_text(f"token = {CANARY} {number}\n", encoding="utf-8")
            (place / "README.md").write_text(f"# A project {number}\n", encoding="utf-8")
            (place / "src/main.py").write_text(f"def main() -> None: ...\n\n\nNUMBER = {number}\n", encoding="utf-8")
            git("add", "-A", "-f")
            git("commit", "-qm", f"Change {number}")
        git("rm", "-q", "-r", "--cached", "deploy", ".env")
        git("commit", "-qm", "Remove what was secret")
        git("tag", "v1", "HEAD~2")
        kept = [path for part in ("objects", "refs") for path in (place / ".git" / part).rglob("*") if path.is_file()]
        kept.append(place / ".git/index")
        return {str(path.relative_to(place / ".git")): path.read_bytes() for path in kept}


MATERIAL: Final[Mapping[str, Callable[[Place], None]]] = {
    "skills": _skills,
    "sage": _sage,
    "scopes": _scopes,
    "alc": _alc,
    "logs": _logs,
    "workspace": _workspace,
    "git": _git,
}
"""For each provider, a little of what it serves: a hostile repository is a usual one with something changed."""


def lay_out(base: Path) -> Place:
    """Make a project that calls for every provider."""
    place = Place(base)
    for fill in MATERIAL.values():
        fill(place)
    return place
