"""The documents at the front of the list, and the entry points that a manifest names."""

import json
from pathlib import Path

import pytest

from carrel.providers.workspace import front_documents
from tests.support.workspaces import Served, fill


def front(root: Path) -> list[str]:
    with Served(root) as served:
        return ["/".join(entry.segments) for _, entry in front_documents.find(served.workspace._listings[""])]


def test_documents_stand_in_the_order_in_which_a_newcomer_reads_them(tmp_path: Path) -> None:
    names = ["src/main.rs", "docs/index.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "Cargo.toml", "README.de.md"]
    fill(tmp_path, dict.fromkeys([*names, "README.md", "App.csproj", "src/other.rs", "cmd/tool/main.go"], ""))

    assert front(tmp_path) == [
        "README.de.md",
        "README.md",
        "App.csproj",
        "Cargo.toml",
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        "docs/index.md",
        "src/main.rs",
        "cmd/tool/main.go",
    ]


PYTHON = '[project]\nname = "x"\n[project.scripts]\nx = "tool.cli.app:main"\ny = "tool:run"\n'
MANIFESTS = {
    "scripts of Python in src": ({"pyproject.toml": PYTHON}, ["src/tool/cli/app.py", "src/tool/__init__.py"]),
    "scripts of Python beside the manifest": ({"pyproject.toml": PYTHON}, ["tool/cli/app.py", "tool/__init__.py"]),
    "main and bin of Node": (
        {"package.json": json.dumps({"main": "./dist/run", "bin": {"x": "scripts/x.js", "y": "tools"}})},
        ["dist/run.js", "scripts/x.js", "tools/index.js"],
    ),
    "one bin of Node": ({"package.json": '{"bin": "cli.mjs"}'}, ["cli.mjs"]),
    "binaries of Rust": (
        {"Cargo.toml": '[[bin]]\nname = "x"\npath = "tools/x.rs"\n[lib]\npath = "core/all.rs"\n'},
        ["core/all.rs", "tools/x.rs"],
    ),
    "an application of Dart": ({"pubspec.yaml": "name: garden\n"}, ["bin/garden.dart", "lib/main.dart"]),
    "a binary of PHP": ({"composer.json": '{"bin": ["bin/console"]}'}, ["bin/console"]),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_what_a_manifest_names_stands_after_the_documents(tmp_path: Path, kind: str) -> None:
    manifest, named = MANIFESTS[kind]
    fill(tmp_path, {**manifest, **dict.fromkeys(named, "x"), "README.md": "", "other/file.py": ""})

    shown = [name for name in front(tmp_path) if name != "README.md"]  # a Flutter project does not serve it
    assert shown[: len(manifest)] == [*manifest]
    assert sorted(shown[len(manifest) :]) == sorted(named)


@pytest.mark.parametrize(
    "path",
    [
        "../secret.js",
        "/etc/passwd",
        "a/../../secret.js",
        "link.js",
        "linked/secret.js",
        ".env",
        "id_rsa",
        "",
        ".",
        "a\0b",
    ],
)
def test_a_manifest_leads_to_nothing_outside_and_to_nothing_that_is_refused(tmp_path: Path, path: str) -> None:
    root = tmp_path / "project"
    fill(tmp_path, {"secret.js": "secret", "elsewhere/secret.js": "secret"})
    fill(root, {"package.json": json.dumps({"main": path, "bin": [path]}), ".env": "KEY=1", "id_rsa": "key"})
    (root / "link.js").symlink_to("../secret.js")
    (root / "linked").symlink_to("../elsewhere")

    assert front(root) == ["package.json"]


@pytest.mark.parametrize(
    "manifest",
    [
        {"package.json": "{"},
        {"package.json": "[1]"},
        {"package.json": '{"main": 7, "bin": [[]]}'},
        {"package.json": "[" * 50_000},
        {"package.json": '{"main": "index.xyz", "pad": "' + "x" * 200_000 + '"}'},
        {"package.json": b'{"main": "\xff"}'},
        {"pyproject.toml": "[project\nscripts"},
        {"pyproject.toml": "[project]\nscripts = 3\n"},
        {"pyproject.toml": '[project.scripts]\nx = 4\ny = ":"\nz = "a-b.c:d"\n'},
        {"pyproject.toml": f"{'a.' * 2_000}b = 1\n"},
        {"Cargo.toml": 'bin = "x"\nlib = 3\n'},
    ],
)
def test_a_broken_manifest_names_nothing(tmp_path: Path, manifest: dict[str, str | bytes]) -> None:
    fill(tmp_path, {**manifest, "index.xyz": ""})

    assert front(tmp_path) == list(manifest)


def test_a_manifest_names_a_bounded_number(tmp_path: Path) -> None:
    files = [f"tools/{number:02}.js" for number in range(40)]
    fill(tmp_path, {"package.json": json.dumps({"bin": {name: name for name in files}}), **dict.fromkeys(files, "x")})

    assert front(tmp_path) == ["package.json", *files[:8]]


def test_a_changed_manifest_names_other_files(tmp_path: Path) -> None:
    fill(tmp_path, {"package.json": '{"main": "one.js"}', "one.js": "", "two.js": ""})
    first = front(tmp_path)
    (tmp_path / "package.json").write_text('{"main": "two.js" }', encoding="utf-8")

    assert (first, front(tmp_path)) == (["package.json", "one.js"], ["package.json", "two.js"])
