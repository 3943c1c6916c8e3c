"""The deny-list that always wins, with every look-alike; and names that are not served at all."""

import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.workspaces import SECRET, Served, fill

DENIED = """
.env .ENV .env.local .Env.Production x.pem X.PEM .pem a.key a.p12 a.pfx a.jks a.keystore a.kdbx a.ppk
id_rsa id_rsa.pub ID_RSA_old id_dsa id_ecdsa_sk id_ed25519 credentials credentials.json Credentials.yaml
credentials.h.in
.npmrc .yarnrc .yarnrc.yml .pypirc .netrc _netrc .pgpass .my.cnf .htpasswd .git-credentials key.properties
terraform.tfstate terraform.tfstate.backup x.tfvars credentials.tfstate.py
.git .hg .svn .ssh .gnupg .aws .azure .kube .carrel .sage .GIT .Ssh
""".split()
LOOK_ALIKES = [
    "\uff0eenv",
    "\u2024env",
    ".\uff45\uff4e\uff56",
    ".e\u200bnv",
    ".e\u00adnv",
    "\u200e.env",
    ".env\ufeff",
    ".env\ufe0f",
    ".en\U000e0101v",
    ".env\u180b",
    ".\u2062git",
    ".\u210ait",
    ".\U0001d4f0\U0001d4f2\U0001d4fd",
    "id_r\u017fa",
    "\u24d8d_rsa",
    "x.\uff30\uff25\uff2d",
    "x\u2024pem",
    "server.\u212aey",
    "\ufb00.pem",
    "credent\u2060ials.json",
    "credentials.p\u200dy.json",
    "terraform.tf\ufb06ate",
    "\U000e0001.env",
]
NOT_DENIED = """
env env.local env.dart pem x.pemx keys key.dart id_rs xid_rsa.md.md credentials.dart credentials.py CREDENTIALS.GO
credentials.test.ts mycredentials.json npmrc netrc key.properties.md tfstate x.tfvarsx git .gitx .github ssh
.environment
""".split()


def test_the_deny_list_knows_every_name_and_its_look_alikes(tmp_path: Path) -> None:
    names = [*DENIED, *LOOK_ALIKES]
    fill(tmp_path, {f"{folder}{name}": SECRET for name in names for folder in ("", "sub/")})
    paths = [f"{folder}{name}" for name in names for folder in ("", "sub/", "nope/")]
    with Served(tmp_path, preset="all", hidden="show", ignored="show", allow=["*", ".*", "**/*"]) as served:
        assert {path: served.outcome(f"workspace:///{path}") for path in paths} == dict.fromkeys(paths, "DENIED deny")
        assert served.uris() == []


def test_the_deny_list_leaves_other_names_alone(tmp_path: Path) -> None:
    fill(tmp_path, dict.fromkeys(NOT_DENIED, "fine"))
    with Served(tmp_path, preset="all", hidden="show") as served:
        outcomes = {name: served.outcome(f"workspace:///{name}") for name in NOT_DENIED}

    assert outcomes == dict.fromkeys(NOT_DENIED, "fine")


@pytest.mark.parametrize("folder", [".git", ".SSH", ".\uff47it", ".aws", ".sage", ".carrel"])
def test_all_below_a_denied_folder_is_denied(tmp_path: Path, folder: str) -> None:
    fill(tmp_path, {f"{folder}/deep/er/x.dart": SECRET})
    with Served(tmp_path, preset="all", hidden="show", allow=["**"]) as served:
        paths = [folder, f"{folder}/", f"{folder}/deep", f"{folder}/deep/er/x.dart", f"{folder}/nope"]

        assert {served.outcome(f"workspace:///{path}") for path in paths} == {"DENIED deny"}
        assert served.outcome("workspace:///") == "folder"
        assert (served.uris(), served.completions("")) == ([], [])


@pytest.mark.parametrize("name", ["secret.txt", "SECRET.TXT", "\uff53ecret.txt", "se\u200bcret.txt", "sub/secret.txt"])
def test_what_the_operator_denies_has_look_alikes_too(tmp_path: Path, name: str) -> None:
    fill(tmp_path, {name: SECRET})
    with Served(tmp_path, preset="all", deny=["Secret.txt"]) as served:
        assert served.outcome(f"workspace:///{name}") == "DENIED deny"


def test_a_folder_with_the_name_of_a_denied_file_is_a_folder(tmp_path: Path) -> None:
    fill(tmp_path, {"x.pem/a.dart": "a", ".env/b.dart": "b"})
    with Served(tmp_path, preset="all", hidden="unlisted") as served:
        assert served.uris() == ["x.pem/a.dart"]
        assert served.outcome("workspace:///.env/b.dart") == "b"
        assert served.children("workspace:///") == ["workspace:///x.pem/"]


@pytest.fixture
def loose(tmp_path: Path) -> Iterator[Served]:
    fill(tmp_path, {"ok.md": "ok"})
    with Served(tmp_path, preset="all", hidden="show", ignored="show") as served:
        yield served


@pytest.mark.parametrize("name", [b"caf\xe9.md", b"a\\b.md", b"\xff", b"x\xc3\x28.md"])
def test_names_that_are_not_utf_8_or_hold_a_backslash_are_not_served(
    loose: Served, tmp_path: Path, name: bytes
) -> None:
    fill(tmp_path, {os.fsdecode(name): SECRET})
    (tmp_path / "link.md").symlink_to(os.fsdecode(name))

    assert loose.uris() == ["ok.md"]
    assert loose.children("workspace:///") == ["workspace:///ok.md"]
    assert loose.completions("") == ["ok.md"]
    assert loose.outcome("workspace:///link.md") == "NOTFOUND"


def test_names_match_byte_for_byte(loose: Served, tmp_path: Path) -> None:
    composed = unicodedata.normalize("NFC", "é.md")
    fill(tmp_path, {composed: "composed"})

    assert loose.outcome(f"workspace:///{composed}") == "composed"
    assert loose.outcome(f"workspace:///{unicodedata.normalize('NFD', composed)}") == "NOTFOUND"
    assert loose.outcome("workspace:///OK.md") == "NOTFOUND"


# Links

TARGETS = {
    ".env": "deny",
    ".ssh/id": "deny",
    ".git/config": "deny",
    "secret.txt": "deny",
    ".hidden.md": "hidden",
    "build/x.md": "ignored",
    "picture.bin": "type",
}


def answers_for_links(root: Path, target: str) -> dict[str, bytes]:
    """Serve links that lead to a target in several ways; return the bytes of each answer."""
    links = {"link.md": target, "chain.md": "link.md", "deep/link.md": f"../{target}", "way.md": f"deep/../{target}"}
    folder, slash, name = target.rpartition("/")
    if slash:
        links["folder"] = folder
    for link, place in links.items():
        (root / link).parent.mkdir(parents=True, exist_ok=True)
        (root / link).symlink_to(place)
    asked = [*(link for link in links if link != "folder"), *([f"folder/{name}"] if slash else [])]
    with Served(root, preset="code", deny=["secret.txt"]) as served:
        assert not [uri for uri in served.uris() if uri != "ok.md"]
        return {link: served.bytes_of(f"workspace:///{link}") for link in asked}


@pytest.mark.parametrize("target", TARGETS)
def test_a_link_to_what_is_refused_gets_the_same_bytes_whether_or_not_it_is_there(tmp_path: Path, target: str) -> None:
    there = fill(tmp_path / "there", {"ok.md": "ok", ".gitignore": "build/\n", target: b"\0" + SECRET.encode()})
    gone = fill(tmp_path / "gone", {"ok.md": "ok", ".gitignore": "build/\n"})
    locked = fill(tmp_path / "locked", {"ok.md": "ok", ".gitignore": "build/\n"})
    (locked / target).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(locked / target)

    answers = answers_for_links(there, target)

    if TARGETS[target] != "type":  # that one is decided by the content, so it must be there
        assert answers_for_links(gone, target) == answers
        assert answers_for_links(locked, target) == answers
    assert all(b"Access denied" in answer and SECRET.encode() not in answer for answer in answers.values())


def test_a_link_that_leads_through_a_denied_folder_is_refused(tmp_path: Path) -> None:
    there = fill(tmp_path / "there", {"ok.md": "ok", ".ssh/": ""})
    gone = fill(tmp_path / "gone", {"ok.md": "ok"})
    answers = []
    for root in (there, gone):
        (root / "link.md").symlink_to(".ssh/../ok.md")
        with Served(root, preset="code") as served:
            answers.append(served.bytes_of("workspace:///link.md"))

    assert answers[0] == answers[1]
    assert b"Access denied" in answers[0]
