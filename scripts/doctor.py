"""The page about `carrel doctor`: a table of all checks, made from the checks themselves."""

from carrel.doctor.examination import CHECKS

INTRODUCTION = """\
# carrel doctor

Generated from the checks by `make docs`; a test fails when it is out of date.

```sh
carrel doctor                # examine this machine and this project
carrel doctor --fix          # offer to fix what was found; asks before each change
carrel doctor --fix --yes    # fix without asking
carrel doctor --json         # for programs
carrel doctor --report       # for an issue: without paths, names and secrets
```

Each finding is one line:

| begins with | means |
| --- | --- |
| `✓` | it works |
| `!` | you should know of it; what is served works |
| `✗` | something does not work; the exit code is 1 |

A line with `!` or `✗` ends with how to fix the fault, if that is known. Checks that found nothing share one line
for each subject. A check, a provider or a mount that hangs does not delay the others: each has its own deadline.

`--json` prints a list with an object for each finding: `id` of the check, `state` (`ok`, `note` or `problem`), `host`
(the host whose settings are at fault, or null), `message`, and `fix` (what to do, or null). Every check is in the list.

`--fix` asks before each change, so it needs a terminal; `--yes` answers for you. Trust is never given by `--yes`: a
project that you trust may start programs. After the changes everything is examined again, and the exit code is that of
the second examination. Broken files are renamed, to `NAME.broken`, and never deleted. A settings file is changed only
in the line at fault.

The doctor starts nothing that only a project's host settings name, since they may come from a stranger, and sends no
token to their addresses. Of a project's entries it tries only the very command that `carrel connect` would write here.

## Checks
"""

HEADINGS = {
    "installation": "The installation",
    "project": "Settings and the project",
    "providers": "Providers",
    "http": "HTTP and tokens",
    "index": "The search index",
    "system": "The system",
    "server": "The server, as a host sees it",
    "hosts": "Hosts",
}


def render() -> str:
    """Return the page."""
    parts = [INTRODUCTION]
    for subject, heading in HEADINGS.items():
        rows = [
            f"| `{one.id}` | {one.fault} | {one.fix} | {'yes' if one.repairs else ''} |"
            for one in CHECKS
            if one.subject == subject
        ]
        if rows:
            parts += [
                f"### {heading}\n",
                "| id | fault | how to fix it | `--fix` |",
                "| --- | --- | --- | --- |",
                *rows,
                "",
            ]
    return "\n".join(parts)
