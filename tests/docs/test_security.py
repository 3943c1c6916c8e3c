"""What `docs/security.md` promises and no other file proves."""

import ast
import hmac
import re
from pathlib import Path
from typing import Any

import pytest

import carrel
from carrel.catalog.access import Access
from carrel.cli import main
from carrel.transports.http import tokens
from carrel.transports.http.sessions import LegacySession
from carrel.transports.http.tokens import Keyring, TokenStore

HOSTILE = "\x1b]0;owned\x07\u202egnp.exe"


@pytest.fixture(name="project")
def make_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a home of its own."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return project


def test_every_token_is_compared_in_constant_time_whichever_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every known token is compared, by its hash, by the function that takes the same time for all."""
    compared: list[tuple[str, str]] = []
    real = hmac.compare_digest

    def compare(known: str, asked: str) -> bool:
        compared.append((known, asked))
        return real(known, asked)

    monkeypatch.setattr(tokens, "compare_digest", compare)
    store = TokenStore({"XDG_STATE_HOME": str(tmp_path)})
    added = [store.add(name, None) for name in ("first", "second", "third")]
    ring = Keyring(store, None)
    for asked in (*added, added[0][:-1], "", "x" * 10_000):
        compared.clear()
        ring.find(asked)
        assert len(compared) == 3
        assert {len(text) for pair in compared for text in pair} == {64}


def test_a_session_id_has_128_random_bits() -> None:
    ids = [int(_session_id(), 16) for _ in range(256)]

    assert len(set(ids)) == 256
    assert {len(_session_id()) for _ in range(9)} == {32}
    ones = [sum(number >> bit & 1 for number in ids) for bit in range(128)]
    assert all(64 < count < 192 for count in ones), "a bit that is nearly always the same is not random"


def _session_id() -> str:
    unused: Any = None
    return LegacySession(Access("somebody"), unused, unused, "2025-11-25").id


def test_trust_shows_hostile_names_as_the_file_could_spell_them(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spelled = "".join(f"\\u{ord(character):04x}" for character in HOSTILE)
    settings = f'[mounts."{spelled}"]\ncommand = ["sh", "{spelled}"]\n[commands."{spelled}"]\nargv = ["{spelled}"]\n'
    (project / "carrel.toml").write_text(settings, encoding="utf-8")

    assert main(["trust"]) == 0
    shown = capfd.readouterr().out
    assert not re.search("[\x1b\x07\u202e]", shown)
    assert f'  [mounts."{spelled[:6]}]0;owned' in shown
    assert shown.count("gnp.exe") == 4


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 50_000,
        "a = " + "{a = " * 50_000,
        "[server]\npage_size = " + "9" * 50_000,
        "[server]\npage_size = 0x" + "f" * 50_000,
        "[server]\npage_size = 1979-05-27",
        "a" + ".a" * 50_000 + " = 1",
        '["\\u001b]0;owned\\u0007"]\nx = 1',
        '[server]\n"\\u001b]0;owned\\u0007\\u202e" = 1',
        '[server]\nonly = ["\\u001b]0;owned\\u0007\\u202e"]',
    ],
    ids=["arrays", "tables", "digits", "hexadecimal", "date", "dots", "section", "key", "value"],
)
@pytest.mark.parametrize("file", ["carrel.toml", "pyproject.toml"])
def test_settings_that_nobody_could_have_meant_are_a_mistake_of_the_file(
    project: Path, capfd: pytest.CaptureFixture[str], text: str, file: str
) -> None:
    in_table = "# tool.carrel\n" + re.sub(r"^\[", "[tool.carrel.", text, flags=re.MULTILINE)
    (project / file).write_text(text if file == "carrel.toml" else in_table, encoding="utf-8")
    is_ours = file == "carrel.toml" or "tool.carrel." in in_table or len(text) > 1000

    assert main(["ls"]) == (2 if is_ours else 0)
    said = capfd.readouterr().err
    assert "bug" not in said
    assert not re.search("[\x1b\x07\u202e]", said)


@pytest.mark.slow
def test_nothing_in_carrel_starts_a_shell() -> None:
    """No call asks for a shell, and no function is called that always starts one."""
    texts = {file: file.read_text(encoding="utf-8") for file in Path(carrel.__file__).parent.rglob("*.py")}
    calls = [
        f"{file.name}: {ast.unparse(node)}"
        for file, text in texts.items()
        if re.search(r"\b(shell|system|popen|getoutput|getstatusoutput)\b", text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and (
            any(word.arg == "shell" for word in node.keywords)
            or ast.unparse(node.func) in ("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput")
        )
    ]
    assert calls == []
