"""Which commit is checked out, and under which branch."""

import re
from typing import Final

from carrel.files.sandbox import SandboxError
from carrel.git.discovery import GitFolder, read_text
from carrel.git.objects import Id, Unknown

_MAX_REF: Final = 4_096
_MAX_PACKED: Final = 32 * 1_048_576
_MAX_STEPS: Final = 5
_SYMBOLIC: Final = "ref: "
_NAME: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def read_head(folder: GitFolder) -> tuple[str, Id]:
    """Return the branch (`HEAD` where none is checked out) and the commit; raise `Unknown` if there is none."""
    text = read_text(folder.own, ("HEAD",), _MAX_REF).strip()
    branch = text.removeprefix(_SYMBOLIC).strip().removeprefix("refs/heads/") if text.startswith(_SYMBOLIC) else "HEAD"
    for _ in range(_MAX_STEPS):
        if not text.startswith(_SYMBOLIC):
            if not _NAME.fullmatch(text):
                raise Unknown("not a commit")
            return branch, text.encode()
        text = _read_ref(folder, text.removeprefix(_SYMBOLIC).strip())
    raise Unknown("too many symbolic refs")


def _read_ref(folder: GitFolder, name: str) -> str:
    segments = tuple(name.split("/"))
    if segments[0] != "refs" or any(part in ("", ".", "..") or part.startswith(".") for part in segments):
        raise Unknown("not the name of a ref")
    try:
        return read_text(folder.shared, segments, _MAX_REF).strip()
    except SandboxError:
        return _read_packed(folder, name)


def _read_packed(folder: GitFolder, name: str) -> str:
    line = re.compile(rf"^({_NAME.pattern}) {re.escape(name)}$".encode(errors="surrogateescape"), re.MULTILINE)
    with folder.shared.open(("packed-refs",)) as opened:
        found = None if opened.is_folder else line.search(opened.read(0, _MAX_PACKED))
    if found is None:
        raise Unknown("no such ref")
    return found[1].decode()
