"""A repository that tries to run something on every occasion git knows, each leaving a mark of its own."""

from pathlib import Path

from tests.support.sage_folder import git, put

KNOWLEDGE = """\
version: 1
items:
- id: n
  file: global/n.md
  metadata: {{saved_at_commit: {commit}}}
  code_links: [{{chunk_id: 'a.py::a'}}, {{chunk_id: 'b.txt'}}]
"""


def lay_traps(project: Path, marks: Path) -> None:
    """Make a repository with a Sage folder; whatever runs in it touches a file in `marks`."""
    marks.mkdir(parents=True)
    git(project, "init", "-q", "-b", "main")
    put(project / "a.py", "def a(): ...\n")
    put(project / "b.txt", "b\n")
    put(project / ".gitattributes", "*.txt filter=trap diff=trap\n*.py ident\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "one")
    first = git(project, "rev-parse", "HEAD")
    put(project / "a.py", "def a(): return 1\n")
    git(project, "commit", "-qam", "two")
    put(project / "b.txt", "changed\n")  # so that a look at it must clean it
    lay_memory(project, "0" * 39 + "1")
    put(project / ".sage/knowledge/global/m.md", f"---\nid: m\n---\nsince {first}\n")
    _configure(project / ".git", marks)


def lay_memory(project: Path, commit: str) -> None:
    """Write a Sage folder whose knowledge was saved at a commit."""
    put(project / ".sage/knowledge/index.yaml", KNOWLEDGE.format(commit=commit))
    put(project / ".sage/knowledge/global/n.md", "---\nid: n\n---\nThe text.\n")
    put(project / ".sage/system/objective.md", "Ship it.\n")
    put(project / ".sage/failures/2026-01-01T00-00-00_f.md", "---\nid: f\napproach: a\nkeywords: [ship]\n---\n")


def lay_bare_trap(project: Path, marks: Path) -> Path:
    """Make a plain project with a bare repository as a folder, as a clone of a hostile repository has it."""
    marks.mkdir(parents=True)
    bare = project / "docs"
    bare.mkdir()
    git(bare, "init", "-q", "--bare", "-b", "main", ".")
    tree = git(bare, "hash-object", "-t", "tree", "-w", "/dev/null")
    git(bare, "update-ref", "HEAD", git(bare, "commit-tree", tree, "-m", "one"))
    _configure(bare, marks)
    put(bare / "carrel.toml", "[sage]\n")
    put(bare / "a.py", "def a(): ...\n")
    put(bare / "b.txt", "b\n")
    lay_memory(bare, "0" * 39 + "1")
    return bare


def _configure(repository: Path, marks: Path) -> None:
    for hook in ("pre-commit", "post-index-change", "post-checkout", "reference-transaction", "fsmonitor-watchman"):
        trap = put(repository / "hooks" / hook, f"#!/bin/sh\ntouch {marks}/hook-{hook}\n")
        trap.chmod(0o755)
    alternate = repository / "elsewhere"
    (alternate / "pack").mkdir(parents=True)
    put(repository / "objects/info/alternates", f"{alternate}\n")
    put(repository / "info/attributes", "*.py filter=trap\n")
    put(repository / "included", f'[filter "trap"]\n\tsmudge = touch {marks}/included\n')
    config = f"""
[include]
	path = included
[core]
	fsmonitor = "touch {marks}/fsmonitor; false"
	hooksPath = {repository / "hooks"}
	pager = "touch {marks}/pager;cat"
	editor = "touch {marks}/editor"
	sshCommand = "touch {marks}/ssh;false"
	askPass = "touch {marks}/askpass"
	gitProxy = "touch {marks}/proxy"
	alternateRefsCommand = "touch {marks}/alternates;:"
[filter "trap"]
	clean = "touch {marks}/clean; cat"
	smudge = "touch {marks}/smudge; cat"
	process = "touch {marks}/process"
	required = true
[diff "trap"]
	textconv = "touch {marks}/textconv; cat"
	command = "touch {marks}/diff"
[credential]
	helper = "!touch {marks}/credential"
[extensions]
	partialClone = origin
[remote "origin"]
	url = /nowhere/team/traps.git
	promisor = true
	partialclonefilter = blob:none
	uploadpack = "touch {marks}/uploadpack;:"
[submodule "sub"]
	active = true
	url = "ext::sh -c 'touch {marks}/submodule'"
	update = "!touch {marks}/submodule-update"
[protocol "ext"]
	allow = always
[gpg]
	program = "touch {marks}/gpg"
[alias]
	status = "!touch {marks}/alias"
"""
    file = repository / "config"
    text = file.read_text(encoding="utf-8").replace("repositoryformatversion = 0", "repositoryformatversion = 1")
    file.write_text(text + config, encoding="utf-8")


def marks_in(folder: Path) -> list[str]:
    """Return the marks that were left."""
    return sorted(mark.name for mark in folder.iterdir())
