"""Every section of a checkpoint in both forms, TOON's tables, code definitions, and values as they are written."""

from time import monotonic

import pytest

from carrel.providers.sage.code_links import ResolvedLink
from carrel.providers.sage.definitions import find_definition
from carrel.providers.sage.record_files import parse_checkpoint, parse_index
from carrel.providers.sage.records import (
    Checkpoint,
    CheckpointSource,
    CodeLink,
    CodeRef,
    DiffSummary,
    GitContext,
    KnowledgeItem,
    KnowledgeLink,
    Tension,
)
from carrel.providers.sage.rendering import Format, render_checkpoint, render_knowledge

pytestmark = pytest.mark.usefixtures("backend")

FULL = """\
---
id: 007
type: checkpoint
ts: 2026-02-15T10:12:00Z
trigger: no
confidence: '0.426'
action_goal: ship, it
action_type: ~
files_explored: [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12]
git_context: {branch: main, commit: 0123456789abcdef, dirty: yes, recent_commits: [0123456 One]}
diff_summary: {files_changed: [a, b, c, d, e, f], staged_files: [b], insertions: 3, deletions: x}
continues_from: before
related_knowledge: auth
unknown: [1]
---
# Question
# not a question

## Thesis

First.

```
## not a heading
```
\\## kept

## Key Evidence
- one
not an entry
- two

## Sources
- **a** (t): x, y — _supports_
- **b** (t): z
- **c** (t): v — _nuances_

## Tensions
- **a** vs **b**: n — _unresolved_
- **a** vs **c**: m — _resolved_

## Code References
- [+] `a.py:1-4`
  ```py
  ## hidden
  ```
- [!] `b.py`
- [x] no

## My Notes
Kept  as

it is.
"""
MARKDOWN = """\
# Research Context (Restored from Checkpoint)
*Checkpoint: 007*
*Saved: 2026-02-15 10:12 | Confidence: 43% | Continues: before*

## Core Question
Question

## Current Thesis
First.

```
## not a heading
```
## kept

## Key Evidence
- one
- two

## Key Sources
- [+] **a** (t): x, y
- [?] **b** (t): z
- [~] **c** (t): v

## Unresolved Tensions
- **a** vs **b**: n

## Action Context
**Goal**: ship, it

## Code References
- [+] `a.py:1-4`
- [!] `b.py`

## Files Explored
- `f1`
- `f2`
- `f3`
- `f4`
- `f5`
- `f6`
- `f7`
- `f8`
- `f9`
- `f10`
- _...and 2 more_

## Git Context
Branch: `main` @ `0123456789abcdef` (dirty)
Recent commits:
- 0123456 One

## Uncommitted Changes (at save time)
+3 -0 lines
- ○ `a`
- ● `b`
- ○ `c`
- ○ `d`
- ○ `e`
- _...and 1 more files_

## Related Knowledge
- sage://knowledge/auth

## My Notes
Kept  as

it is.

"""
TOON = """\
# Research Context
checkpoint: 007
saved: 2026-02-15 10:12 | confidence: 43%

## Question
Question

## Thesis
First.

```
## not a heading
```
## kept

## Evidence [2]
- one
- two

## Sources [3]
sources[3]{id,type,take,rel}:
  a,t,x; y,+
  b,t,z,?
  c,t,v,~

## Tensions [1]
- **a** vs **b**: n

## Action
goal: ship, it

## Code [2]
- [+] `a.py:1-4`
- [!] `b.py`

## Explored [12]
files[10]:
  f1
  f2
  f3
  f4
  f5
  f6
  f7
  f8
  f9
  f10
  ...+2 more

## Git
branch: main @ 0123456*

## Related [1]
- sage://knowledge/auth

## My Notes
Kept  as

it is.

"""


def test_every_section_in_both_forms() -> None:
    record = parse_checkpoint(FULL)

    assert render_checkpoint(record, "stem") == MARKDOWN
    assert render_checkpoint(record, "stem", "toon") == TOON


def test_toon_has_tables_from_three_on() -> None:
    record = Checkpoint(
        question="q",
        thesis="t",
        tensions=tuple(Tension(name, "b", "n\nm", "unresolved") for name in "xyz"),
        code_refs=(CodeRef("a,b", "1", "+"), CodeRef("c"), CodeRef("d", "2-3", "~")),
        files_changed=tuple("abcde"),
        sources=(CheckpointSource("s", "t", "u", "contradicts"),),
        git_context=GitContext("b", "c0ffee123"),
        diff_summary=DiffSummary(("a",)),
    )

    assert render_checkpoint(record, "stem", "toon").split("\n\n")[3:] == [
        "## Sources [1]\n- [-] **s** (t): u",
        "## Tensions [3]\ntensions[3]{a,b,nature}:\n  x,b,n m\n  y,b,n m\n  z,b,n m",
        "## Code [3]\nrefs[3]{file,lines,rel}:\n  a;b,1,+\n  c,-,?\n  d,2-3,~",
        "## Changed [5]\nfiles[5]:\n  a\n  b\n  c\n  d\n  e",
        "## Git\nbranch: b @ c0ffee1",
        "",
    ]


def test_knowledge_links_in_both_forms() -> None:
    item = KnowledgeItem("k", "global/k.md")
    links = [
        ResolvedLink(CodeLink("a.py::f", "example", "see"), "a.py", 3, "modified"),
        ResolvedLink(CodeLink("b.py"), "b.py", 0, "ok"),
        ResolvedLink(CodeLink("c.py::g", note="gone"), "c.py", 0, "not found"),
    ]

    head = "## k\n*Type: knowledge | Added: unknown | Status: active*\n\nText\n\n### Linked Code\n"
    assert render_knowledge(item, "Text", links) == (
        f"{head}- `a.py::f` (example): a.py:3, modified — see\n- `b.py` (related): b.py, ok\n"
        "- `c.py::g` (related): not found — gone\n"
    )
    toon = "# Knowledge [1] ~1tok\n\n## k\ntype: knowledge | added: unknown | status: active\n\nText\n\n### Code "
    assert render_knowledge(item, "Text", links, "toon") == (
        f"{toon}[3]\nlinks[3]{{chunk,line,status}}:\n  a.py::f,3,~\n  b.py,-,+\n  c.py::g,-,!\n"
    )
    assert render_knowledge(item, "Text", links[:2], "toon") == f"{toon}[2]\n- [~] `a.py::f:3`\n- [+] `b.py`\n"


def test_notes_on_links_to_other_knowledge_are_shown() -> None:
    links = (KnowledgeLink("other", "extends", "see there first"), KnowledgeLink("plain"))
    item = KnowledgeItem("k", "global/k.md", knowledge_links=links)
    lines = "- sage://knowledge/other (extends) — see there first\n- sage://knowledge/plain (related)\n"
    assert render_knowledge(item, "Text", []).endswith(f"### Linked Knowledge\n{lines}")
    assert render_knowledge(item, "Text", [], "toon").endswith(f"### Links [2]\n{lines}")
    [parsed] = parse_index("items: [{id: k, file: f, knowledge_links: [{target_id: o, note: n}]}]")
    assert parsed.knowledge_links == (KnowledgeLink("o", "related", "n"),)


@pytest.mark.parametrize("form", ["markdown", "toon"])
def test_a_recovery_checkpoint_has_one_question_and_a_plain_thesis(form: Format) -> None:
    text = """\
---
type: recovery
extracted_at: '2026-02-15T10:12:00'
core_question: From the front
confidence: 0.2
---

# Recovery Checkpoint

## Core Question
Why does the queue stall?

## Thesis
*Confidence: 75%*

The lock is held too long.

## Notes
As they are.
"""
    record = parse_checkpoint(text)
    assert (record.question, record.thesis) == ("Why does the queue stall?", "The lock is held too long.")
    assert record.confidence == 0.75
    shown = render_checkpoint(record, "stem", form)
    assert shown.count("Question\n") == 1
    assert "Recovery Checkpoint" not in shown
    assert "## Notes\nAs they are." in shown


@pytest.mark.parametrize(
    ("body", "question", "thesis"),
    [
        ("", "From the front", "T"),
        ("# Recovery Checkpoint\n", "From the front", "T"),
        ("# What now?\n\n## Current Thesis\nThis.\n", "What now?", "This."),
        ("## Question\nWhich?\n\n## Thesis\n**Confidence:** 0.5\nThat.\n", "Which?", "That."),
    ],
)
def test_the_front_matter_of_a_recovery_file_fills_in_for_its_body(body: str, question: str, thesis: str) -> None:
    front = "---\ntype: recovery\ncore_question: From the front\nthesis: T\n---\n\n"
    record = parse_checkpoint(front + body)
    assert (record.question, record.thesis) == (question, thesis)


def test_a_thesis_that_was_saved_on_purpose_may_begin_with_its_confidence() -> None:
    record = parse_checkpoint("---\nid: a\n---\n\n# Q\n\n## Thesis\n*Confidence: 10%* is low.\n")
    assert record.thesis == "*Confidence: 10%* is low."


@pytest.mark.parametrize(
    ("file", "text", "symbol", "line"),
    [
        ("a.py", "# def foo is old\ndef foo(): ...\n", "foo", 2),
        ("a.py", '"""\nclass Foo does this:\n"""\nclass Foo:\n', "Foo", 4),
        ("a.py", "x = 1  # def foo\n", "foo", 0),
        ("a.py", "x = '# no comment'; y = 1\ndef y(): ...\n", "y", 2),
        ("a.js", "// function foo() {\nfunction foo() {}\n", "foo", 2),
        ("A.java", "/*\n * class Foo {\n */\nclass Foo {\n", "Foo", 4),
        ("a.lua", "-- function open\nlocal function open()\n", "open", 2),
        ("a.lua", "--[[\nfunction open()\n]]\nfunction M.open(a)\n", "open", 4),
        ("notes", "# def foo\n// def foo\ndef foo\n", "foo", 3),
        ("a.rb", "class A\n  def self.build(a)\n", "A.build", 2),
        ("a.rb", "  def valid?\n", "valid?", 1),
        ("a.c", "static int\nadd(int a,\n    int b)\n{\n", "add", 2),
        ("a.c", "int add(int, int);\n\nint add(int a, int b)\n{\n", "add", 3),
        ("a.h", "int add(int a, int b);\n", "add", 1),
        ("a.c", "struct point;\nvoid f(struct point *p);\nstruct point {\n", "point", 3),
        ("a.h", "typedef struct {\n  int x;\n} point_t;\n", "point_t", 3),
        ("a.h", "typedef int (*handler)(int);\ntypedef unsigned long size;\n", "size", 2),
        ("a.h", "#define MAX_LEN 10\n", "MAX_LEN", 1),
        ("a.c", "char *name_of(struct x *p)\n{\n", "name_of", 1),
        ("a.c", "  return add(1);\n", "add", 0),
        ("a.cpp", "Foo::Foo(int a) : x(a) {\n", "Foo", 1),
        ("a.cpp", "int Foo::bar() const\n{\n", "bar", 1),
        ("A.java", "  private final Map<String, Integer> counts = new HashMap<>();\n", "counts", 1),
        (
            "A.java",
            "  public List<String> names(\n      String a,\n      int b)\n      throws IOException {\n",
            "names",
            1,
        ),
        ("A.java", "interface X {\n  String name();\n", "name", 2),
        ("A.java", "  foo(1);\n  x.foo(2);\n  new foo();\n", "foo", 0),
        ("a.kt", "fun String.shout(): String = this\n", "shout", 1),
        ("a.sh", "foo() {\n", "foo", 1),
        ("a.lua", "local x = M.open == 1\nM.open = function(a)\n", "M.open", 2),
        ("a.js", "exports.build = () => 1\n", "build", 1),
        ("a.js", "  open: function () {\n", "open", 1),
        ("A.java", "  this.size = size;\n  private int size;\n", "size", 2),
        ("a.dart", "Widget build(BuildContext context) => Text('x');\n", "build", 1),
        ("a.lua", "  until open(x) == 3\n", "open", 0),
        ("a.rb", "  expect open(x) == 3\n", "open", 0),
    ],
)
def test_a_definition_is_found_in_its_language_and_not_in_a_comment(
    file: str, text: str, symbol: str, line: int
) -> None:
    assert find_definition(text, symbol, file) == line


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        '\\"' * 300_000 + "foo(",
        ("a " * 480 + "foo\n") * 500,
        "/*" * 300_000 + "foo",
        ("a*" * 480 + "foo\n") * 500,
        ("foo(" * 200 + "\n") * 500,
        ("@a " * 300 + "foo\n") * 500,
    ],
    ids=["quotes", "words", "comments", "stars", "calls", "annotations"],
)
@pytest.mark.parametrize("file", ["a.c", "a.py", "a.lua", "a.txt"])
def test_no_text_makes_the_search_for_a_definition_long(file: str, text: str) -> None:
    started = monotonic()
    find_definition(text, "foo", file)
    assert monotonic() - started < 10  # a second at most here; a search that tries again and again takes hours


@pytest.mark.parametrize(
    ("text", "symbol", "line"),
    [
        ("x\ndef f(): ...\n", "f", 2),
        ("x\nasync def f(): ...\n", "Class.f", 2),
        ("func (s *Server) Run() error {\n", "Server.Run", 1),
        ("f(1)\nexport const f = () => 1\n", "f", 2),
        ("fn main() {}\n", "main", 1),
        ("if LIMIT == 3:\nLIMIT: int = 3\n", "LIMIT", 2),
        ("x := 1\n", "x", 1),
        ("run(1)\nif (run()) {\n  void run(int a) {\n", "run", 3),
        ("return f() {\ndef g(): f()\n", "f", 0),
        ("define f\nundef f\n", "f", 0),
        ("f = 1\ndef f(): ...\n", "f", 2),
        ("class Foobar:\n", "Foo", 0),
        ("", "f", 0),
        ("f == 1\n", "f", 0),
    ],
)
def test_a_line_that_defines_is_found_in_the_page_s_order(text: str, symbol: str, line: int) -> None:
    assert find_definition(text, symbol) == line
