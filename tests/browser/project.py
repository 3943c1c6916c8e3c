"""A project with something of everything: what a person would look at in the explorer, and what would attack them."""

import os
import struct
import subprocess
import zlib
from pathlib import Path

from carrel.core.isotime import now_ms
from carrel.providers.scopes import changes
from carrel.providers.scopes.store import Store
from examples.sample import lay_out
from tests.support.sage_folder import git, put

LONG = "".join(f"def function_{number}() -> int:\n    return {number}\n\n\n" for number in range(1_500))
"""A file of 6,000 lines."""

MINIFIED = "".join(f"function f{number}(a,b){{return a+{number}*b}}" for number in range(6_000))
"""A file of one line, of 220 kB."""

GUIDE = """\
# Guide

## Where to begin

Read [the readme](../README.md), then [the view](../lib/forecast.dart) and [its second line](../lib/main.dart#L2).
The [tasks](scopes://tree/project-alpha), [nothing](missing.md), [this part](#where-to-begin), [a secret](../.env),
[the web](https://example.org/page), [a script](javascript:window.pwned='link').

![The logo](../assets/logo.png) ![Elsewhere](https://example.org/pixel.png)

| bed | wet |
| --- | --: |
| north | 41 |

- [x] done
- [ ] open

```python
def water(bed: str) -> None:
    print("watering", bed)
```
"""

DATA = '{"name": "desk", "beds": [{"bed": "north", "wet": 41.5}, {"bed": "south", "wet": 12}], "empty": {}}\n'

GARDEN = '''
from pathlib import Path

from carrel import Shelf

BEDS = {"north": 41.5, "south": 12.0}
shelf = Shelf("garden")


@shelf.resource("garden://beds/{bed}", entries=lambda: BEDS)
def bed(bed: str) -> dict:
    """One bed: name and moisture."""
    return {"bed": bed, "moisture": BEDS[bed]}


@shelf.resource("garden://diary", watch="diary.md")
def diary() -> str:
    """The diary."""
    return (Path(__file__).parent / "diary.md").read_text()
'''

FRIEND = '''
from carrel import Resource, Shelf

shelf = Shelf("friend")
EVIL = """{evil}"""


@shelf.resource("friend://letters/{{letter}}", entries=lambda: [Resource("friend://letters/first", EVIL, EVIL)])
def letter(letter: str) -> str:
    """A letter of a friend."""
    return "Dear desk, " + EVIL


@shelf.resource("friend://page", mime_type="text/html")
def page() -> str:
    """A page of a friend."""
    return "<h1>Hello</h1>" + EVIL
'''

SAMPLE_LOG = """\
2026-11-18T10:00:00Z INFO starting the server
2026-11-18T10:00:01Z DEBUG reading settings
2026-11-18T10:01:00Z WARNING the cache is cold
2026-11-18T10:02:00Z ERROR the lamp in the greenhouse is out
2026-11-18T10:05:00Z ERROR the lamp in the greenhouse is still out
2026-11-18T10:06:00Z INFO lamp replaced
"""

EVIL = (
    "<script>window.pwned='element'</script>"
    "<img src=x onerror=\"window.pwned='attribute'\">"
    "\"><svg onload=window.pwned='svg'>'><details open ontoggle=window.pwned='details'>"
    "</pre></code></textarea></title></style><script>window.pwned='closed'</script>"
    "<iframe srcdoc=\"<script>parent.pwned='frame'</script>\"></iframe>{{ 7 * 7 }}{% raw %}"
    "<a href=\"javascript:window.pwned='link'\">click</a><base href=//example.org><meta http-equiv=refresh content=0>"
)
"""What a page that trusts it would run."""

EVIL_TITLE = "<script>window.pwned='title'</script><img src=x onerror=\"window.pwned='title'\">{{ 7 * 7 }}"
EVIL_NAMES = (
    "<img src=x onerror=window.pwned='name'>.txt",
    "\" onmouseover=window.pwned='quote' x=\".md",
    "<script>window.pwned='name'<",
    "javascript:window.pwned=1",
    "{{ 7 * 7 }}.txt",
    "a b#c?d%41&e;f+g.txt",
    "größe – ☀ 今日.txt",
    "'; window.pwned='apostrophe'; '.py",
)
EVIL_FILES = {
    "evil/text.txt": EVIL,
    "evil/code.py": f'evil = """{EVIL}"""\n',
    "evil/words.md": f"# {EVIL}\n\n{EVIL}\n\n[x](javascript:window.pwned='md') ![x](x'onerror=window.pwned=1)\n\n"
    f"```html\n{EVIL}\n```\n\n<div onclick=window.pwned=1>x</div>\n\n[a]: javascript:window.pwned=1\n[a]\n\n"
    "[data](data:text/html,<script>window.pwned=1</script>) <http://example.org/<script>>\n",
    "evil/page.html": f"<!doctype html><title>x</title><script>window.pwned='page'</script>{EVIL}",
    "evil/page.xhtml": "<html xmlns='http://www.w3.org/1999/xhtml'><script>window.pwned='xhtml'</script></html>",
    "evil/drawing.svg": "<svg xmlns='http://www.w3.org/2000/svg' onload='window.pwned=1' width='9' height='9'>"
    "<script>window.pwned='svg'</script><image href='https://example.org/pixel.png'/></svg>",
    "evil/data.json": '{"<img src=x onerror=window.pwned=1>": "</script><script>window.pwned=2</script>"}',
    "evil/run-log.txt": f"2026-11-18T10:00:00Z ERROR {EVIL}\n\x1b[31m{EVIL}\x1b[0m\n",
    "evil/table.csv": f'a,b\n"{EVIL.replace(chr(34), chr(34) * 2)}",2\n',
    "evil/worker.js": "window.pwned = 'worker'\n",
}


def png(across: int = 64, down: int = 32) -> bytes:
    """Return a picture: a PNG of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", across, down, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\x20\x80\x60" * across) * down
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def lay_out_everything(project: Path) -> None:
    """Write a project with files, history, tasks, memory and packages."""
    lay_out(project)
    put(project / "carrel.toml", '[alc]\nhome = ".algocline"\n\n[workspace]\npreset = "all"\n')
    put(project / "lib/long.py", LONG)
    put(project / "web/app.min.js", MINIFIED)
    put(project / "docs/guide.md", GUIDE)
    put(project / "data/beds.json", DATA)
    put(project / "server.log.txt", SAMPLE_LOG)
    put(project / "deep/er/and/deeper/down.txt", "down here\n")
    put(project / "empty.txt", "")
    (project / "assets").mkdir()
    (project / "assets/logo.png").write_bytes(png())
    (project / "assets/blob.bin").write_bytes(bytes(range(256)) * 8)
    lay_history(project)
    lay_attacks(project)


def lay_history(project: Path) -> None:
    """Return the project three commits and a change that is not committed."""
    git(project, "init", "-q", "-b", "main")
    for day, (name, text) in enumerate(
        [("", ""), ("NOTES.md", "# Notes\n\nOne.\n"), ("NOTES.md", "# Notes\n\nTwo.\n")]
    ):
        if name:
            put(project / name, text)
        at = f"2026-01-{day + 10:02}T12:00:00Z"
        git(project, "add", "-A")
        variables = {**os.environ, "GIT_COMMITTER_DATE": at, "GIT_AUTHOR_DATE": at}
        author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        message = ["The desk", "Begin notes", f"Go on with notes {EVIL}"][day]
        subprocess.run(["git", *author, "commit", "-qm", message], cwd=project, check=True, env=variables)
    put(project / "NOTES.md", "# Notes\n\nTwo.\n\nAnd three.\n")


def lay_attacks(project: Path) -> None:
    """Write what would run scripts in a page that trusts it."""
    for name, text in EVIL_FILES.items():
        put(project / name, text)
    for name in EVIL_NAMES:
        put(project / "evil/names" / name, f"{name}\n")
    store = Store(str(project / ".carrel/scopes.db"))
    with store.writing() as connection:
        changes.create(connection, now_ms(), title=EVIL_TITLE, alias="evil", status="TODO", parent=None)
    store.close()
    put(
        project / ".sage/failures/2026-02-15T16-40-00_evil.md",
        f"---\nid: evil\ntype: failure\napproach: evil\nkeywords: [evil]\nadded: '2026-02-14T16:40:00'\n"
        f"project: x\n---\n\n## Why it failed\n{EVIL}\n\n## Learned\n{EVIL}\n",
    )
