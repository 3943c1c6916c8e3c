"""The report for an issue holds no path, no name and no secret."""

import getpass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.doctor.checks import Finding
from carrel.doctor.report import render, without_private
from carrel.doctor.setup import Setup
from tests.support.doctor import Ward

TOKEN = "carrel_" + "a1B2" * 10


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("~/.config/carrel/config.toml: not valid", "<path>: not valid"),
        ("the file docs/plan.md is odd", "the file <path> is odd"),
        (f"got {TOKEN}", "got <secret>"),
        ("header Authorization: Bearer abcdefghijklmnop", "header Authorization: Bearer <secret>"),
        ("https://alice:pw@desk.example:8000/mcp?token=x fails", "https://<address> fails"),
        ("first entry workspace:///plans/takeover.md", "first entry workspace://<address>"),
        ("ask bob@example.com", "ask <mail>"),
        ("the variable is tops3cret here", "the variable is <secret> here"),
        ("no .claude/skills, .carrel/scopes.db, ~/.algocline", "no .claude/skills, .carrel/scopes.db, ~/.algocline"),
        (".sage/ and .carrel/logs are not writable", ".sage/ and .carrel/logs are not writable"),
        ("x/.carrel/scopes.db, .sage/knowledge/takeover.md", "<path>, <path>"),
        ("2 of 3 documents, 1.5 MB, modern: 2026-07-28", "2 of 3 documents, 1.5 MB, modern: 2026-07-28"),
    ],
)
def test_private_parts_of_a_text_are_replaced(ward: Ward, text: str, shown: str) -> None:
    ward.environment["MY_API_KEY"] = "tops3cret"

    assert without_private(text, ward.setup()) == shown


def test_the_values_of_a_mounts_headers_are_secret(ward: Ward) -> None:
    ward.write(ward.user_file, "[mounts.x]\nurl = 'https://desk.example'\nheaders = { X-Pass = 'open sesame' }\n")

    assert without_private("refused: open sesame", ward.setup()) == "refused: <secret>"


NAME = st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{3,12}", fullmatch=True)


@given(
    st.lists(NAME, min_size=2, max_size=5),
    st.sampled_from(
        ["{}: not valid", "cannot read {}", "'{}' is gone; run it again", "see ({}), please", "~{}", ".{}"]
    ),
)
def test_no_part_of_a_path_stays(names: list[str], sentence: str) -> None:
    private = [f"zq{name}" for name in names]
    text = sentence.format("/" + "/".join(private))

    shown = without_private(text, Setup({"HOME": "/home/somebody"}, named="/"))

    assert not [name for name in private if name in shown]
    assert "<path>" in shown


@given(st.text(alphabet=st.characters(codec="ascii", exclude_characters="\0"), min_size=8, max_size=40))
def test_no_value_of_a_secret_variable_stays(secret: str) -> None:
    setup = Setup({"HOME": "/home/somebody", "DESK_TOKEN": secret}, named="/")

    assert secret not in without_private(f"it said {secret} to me", setup)


def test_a_report_names_no_folder_of_the_machine(ward: Ward) -> None:
    ward.environment["USER"] = "alice"
    findings = [
        Finding("problem", f"{ward.project}/a b.md and {ward.home}: alice may not", "chmod", id="home"),
        Finding("ok", "", id="disk"),
        Finding("note", "the file is broken", host="zed", id="host-file"),
    ]

    report = render(ward.setup(), findings)

    assert "\n✗ home: <path> b.md and <path>: <name> may not\n" in report
    assert "\n! host-file (zed): the file is broken\n" in report
    assert "\n✓ disk\n" in report
    assert not {str(ward.project), str(ward.home), "alice", f"/{getpass.getuser()}/"} & set(report.split())
    assert str(ward.project.parent) not in report
