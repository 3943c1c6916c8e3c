"""The official conformance suite: every required scenario of both eras against the fixture app, some on the product."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
SUITE_S = 300.0

WITHOUT_FIXTURES = {
    "2025-11-25": (
        "server-initialize",
        "ping",
        "tools-list",
        "resources-list",
        "dns-rebinding-protection",
        "server-session-lifecycle",
    ),
    "2026-07-28": (
        "tools-list",
        "resources-list",
        "sep-2164-resource-not-found",
        "dns-rebinding-protection",
        "http-header-validation",
    ),
}
"""Scenarios that need nothing a desk of plain files does not have."""


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[str]:
    """Run a server that says its port first; yield its address."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                port = re.search(r"^(\d+)$|listening on \S+:(\d+)/mcp", line)
                if port:
                    yield f"http://localhost:{port[1] or port[2]}/mcp"
                    break
            else:
                raise AssertionError("the server said no port")
        finally:
            process.terminate()


def judge(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the suite."""
    suite = shutil.which("conformance")
    if suite is None:
        pytest.skip("the conformance suite is not installed; `make conformance` fetches it")
    return subprocess.run([suite, "server", *arguments], capture_output=True, text=True, timeout=SUITE_S, check=False)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_fixture_app_passes_all_that_a_revision_requires(revision: str) -> None:
    baseline = HERE / f"expected-failures-{revision}.yml"
    with running([sys.executable, "-m", "tests.conformance.fixture", "0"], CHECKOUT) as url:
        judged = judge("--url", url, "--requirements", revision, "--expected-failures", str(baseline))

    assert judged.returncode == 0, judged.stdout[-4000:] + judged.stderr[-2000:]


@pytest.mark.parametrize(
    ("revision", "scenario"), [(revision, name) for revision, names in WITHOUT_FIXTURES.items() for name in names]
)
def test_the_product_passes_what_needs_no_fixtures(tmp_path: Path, revision: str, scenario: str) -> None:
    (tmp_path / "note.txt").write_text("A note.\n", "utf-8")
    carrel = str(Path(sys.executable).parent / "carrel")
    with running([carrel, "serve", "--http", "0", "--no-token"], tmp_path) as url:
        judged = judge("--url", url, "--scenario", scenario, "--spec-version", revision)

    assert judged.returncode == 0, judged.stdout[-4000:] + judged.stderr[-2000:]


SKILL_FILES = {
    ".claude/skills/lending/SKILL.md": "---\nname: lending\ndescription: Lends books\n---\n\nSee forms/.\n",
    ".claude/skills/lending/forms/card.md": "A card\n",
    ".agents/skills/sorting/SKILL.md": "---\nname: sorting\ndescription: Sorts books\n---\n",
    "skills/binding/SKILL.md": "---\nname: binding\ndescription: Binds books\nsince: 2026-01-02\n---\n",
    "skills/binding/covers/red.md": "Red\n",
}
SKILL_CHECKS = {"sep-2640-skills-enumeration": 32, "sep-2640-skills-manifest": 6, "sep-2640-skills-directory": 7}
"""How many checks each scenario of the skills extension has, the validation of the messages included."""

ONLY_MODERN = {"sep-2640-skills-list-cache-attributes", "sep-2640-skills-get-cache-attributes"}
"""Checks of cache hints, which the legacy era does not have."""


@pytest.mark.parametrize("scenario", SKILL_CHECKS)
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_product_passes_every_check_of_the_skills_extension(tmp_path: Path, revision: str, scenario: str) -> None:
    for name, text in SKILL_FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    carrel = str(Path(sys.executable).parent / "carrel")
    with running([carrel, "serve", "--http", "0", "--no-token"], tmp_path) as url:
        judged = judge("--url", url, "--scenario", scenario, "--spec-version", revision, "--force", "--verbose")

    # The suite skips what is not declared, and exits with 0: so every check is counted.
    checks = re.search(r"^\[\n.*?^\]$", judged.stdout, re.DOTALL | re.MULTILINE)
    statuses = {check["id"]: check["status"] for check in json.loads(checks[0])} if checks else {}
    left_out = ONLY_MODERN & set(statuses) if revision == "2025-11-25" else set()
    assert judged.returncode == 0, judged.stdout[-4000:] + judged.stderr[-2000:]
    assert {name for name, status in statuses.items() if status != "SUCCESS"} == left_out
    assert len(statuses) == SKILL_CHECKS[scenario]
    counted = SKILL_CHECKS[scenario] - len(left_out)
    assert f"Passed: {counted}/{counted}, 0 failed, 0 warnings" in judged.stdout


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_expected_failure_has_its_reason(revision: str) -> None:
    lines = (HERE / f"expected-failures-{revision}.yml").read_text("utf-8").splitlines()

    assert [line for line in lines if line.startswith("  - ") and " # " not in line] == []
