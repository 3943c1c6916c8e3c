"""`skill://` over MCP: names, places, manifests, bytes, folders, what is broken and what is refused."""

import base64
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from carrel.app import config
from carrel.app.app import open_desk
from carrel.catalog.catalog import Catalog
from carrel.catalog.watcher import Watcher
from carrel.core.model import Skill
from carrel.core.provider import Project
from carrel.files import packaged_skills as packages
from carrel.providers.skills import Skills, found_skills
from carrel.server.server import Server
from carrel.testing.contract import ProviderContract
from tests.files.test_packaged_skills import install
from tests.support import schemas
from tests.support.schemas import LEGACY, MODERN, Conversation
from tests.support.workspaces import SECRET, fill

MAIN = "---\nname: {name}\ndescription: {about}\n---\n\n# {name}\n"


def main(name: str, about: str = "Lends books") -> str:
    return MAIN.format(name=name, about=about)


FILES: dict[str, str | bytes] = {
    ".claude/skills/lending/SKILL.md": main("lending"),
    ".claude/skills/lending/forms/card.md": "A card",
    ".claude/skills/lending/forms/eu/card é.md": "Eine Karte",
    ".claude/skills/lending/forms/bom.txt": b"\xef\xbb\xbfmarked",
    ".claude/skills/lending/forms/latin.txt": b"caf\xe9",
    ".claude/skills/lending/forms/wide.txt": "wide".encode("utf-16"),
    ".claude/skills/lending/empty.md": "",
    ".claude/skills/lending/.env": SECRET,
    ".claude/skills/lending/__pycache__/x.pyc": SECRET,
    ".agents/skills/lending/SKILL.md": main("lending", "Another"),
    ".agents/skills/sorting/SKILL.md": main("sorting", "Sorts"),
    "skills/group/binding/SKILL.md": main("binding", "Binds"),
    "outside.md": SECRET,
}


class Desk:
    """A project with skills, served."""

    def __init__(self, folder: Path, deny: tuple[str, ...] = ()) -> None:
        self.provider = Skills(Project(str(folder), {}, deny=deny))
        self.catalog = Catalog([self.provider])
        self.client = Conversation(Server(self.catalog, Watcher(self.catalog, 0.01)))

    def ask(self, method: str, version: str = MODERN, **params: object) -> Any:
        return self.client.ask(method, params, version=version)

    def bytes_of(self, uri: str) -> bytes:
        [item] = self.ask("resources/read", uri=uri)["contents"]
        return base64.b64decode(item["blob"]) if "blob" in item else item["text"].encode()

    def skill(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("skills/get", uri=f"skill://{name}/SKILL.md")
        skill: dict[str, Any] = found.get("skill", found)
        return skill

    def listed(self) -> dict[str, dict[str, Any]]:
        return {one["uri"]: one for one in self.ask("resources/list")["resources"]}

    def children(self, uri: str) -> list[str]:
        found = self.ask("resources/directory/read", uri=uri)["resources"]
        return [one["uri"] + "/" * (one.get("mimeType") == "inode/directory") for one in found]

    def problems(self) -> list[str]:
        found = self.provider.health()["problems"]
        assert isinstance(found, list)
        return found


@pytest.fixture(name="project")
def project_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(packages, "_answers", {})
    return fill(tmp_path / "project", FILES)


@pytest.fixture(name="desk")
def desk_of_project(project: Path) -> Iterator[Desk]:
    desk = Desk(project)
    yield desk
    desk.client.close()


class TestContract(ProviderContract):
    """The laws of every provider."""

    _turn = 0

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self._place = fill(tmp_path / "project", FILES)

    def provider(self) -> Skills:
        return Skills(Project(str(self._place), {}))

    def missing_uri(self) -> str:
        return "skill://lending/none.md"

    def variables(self) -> dict[str, str]:
        return {"path": "lending/SKILL.md"}

    def change(self, uri: str) -> None:
        if uri != "skill://lending/SKILL.md":
            raise NotImplementedError
        self._turn += 1
        fresh = self._place / "fresh.md"
        fresh.write_text(main("lending", f"Changed {self._turn} times"), encoding="utf-8")
        fresh.replace(self._place / ".claude/skills/lending/SKILL.md")

    def validate(self, message: bytes, version: str, method: str) -> None:
        schemas.check(message, version, method)


# Names and places


def test_a_skill_is_named_by_its_folder_and_a_second_of_one_name_by_its_place(desk: Desk) -> None:
    skills = {one["uri"]: one["_meta"]["dev.carrel/origin"] for one in desk.ask("skills/list")["skills"]}

    assert skills == {
        "skill://agents/lending/SKILL.md": ".agents/skills/lending",
        "skill://group/binding/SKILL.md": "skills/group/binding",
        "skill://lending/SKILL.md": ".claude/skills/lending",
        "skill://sorting/SKILL.md": ".agents/skills/sorting",
    }


def test_a_listed_skill_has_the_name_and_the_description_of_its_front_matter(desk: Desk) -> None:
    assert desk.listed()["skill://lending/SKILL.md"] == {
        "uri": "skill://lending/SKILL.md",
        "name": "lending",
        "description": "Lends books",
        "mimeType": "text/markdown",
        "size": len(main("lending")),
        "annotations": {"lastModified": "2026-07-14T12:00:00Z"},
        "_meta": {"dev.carrel/origin": ".claude/skills/lending"},
    }


def test_a_folder_that_links_lead_back_to_is_looked_into_once(project: Path, desk: Desk) -> None:
    folder = project / ".agents/skills/sorting/rules"
    fill(folder, {"first.md": "1"})
    (folder / "again").symlink_to(".")
    (folder.parent / "all").symlink_to("rules")

    names = [file["uri"] for file in desk.skill("sorting")["resources"]]
    assert names == ["skill://sorting/SKILL.md", "skill://sorting/rules/first.md"]


def test_a_skill_whose_names_fill_a_message_is_broken_and_the_others_are_listed(project: Path, desk: Desk) -> None:
    deep = project / ".agents/skills/sorting" / "/".join(["é" * 100] * 4)
    fill(deep, {f"{number}.md": "" for number in range(120)})

    listed = [one["uri"] for one in desk.ask("skills/list")["skills"]]
    assert "skill://sorting/SKILL.md" not in listed
    assert "skill://lending/SKILL.md" in listed
    assert any("the names of its files" in problem for problem in desk.problems())


def test_one_folder_that_two_places_link_to_is_one_skill(project: Path, desk: Desk) -> None:
    (project / "skills/sorting").symlink_to("../.agents/skills/sorting")

    assert [uri for uri in desk.listed() if "sorting" in uri] == ["skill://sorting/SKILL.md"]


def test_a_skill_named_like_a_place_keeps_its_own_files(tmp_path: Path) -> None:
    places = (".claude/skills/lending", ".claude/skills/agents", ".agents/skills/lending")
    desk = Desk(fill(tmp_path, {f"{place}/SKILL.md": main(place.rpartition("/")[2]) for place in places}))

    assert sorted(desk.listed()) == [
        "skill://agents-skills/lending/SKILL.md",
        "skill://agents/SKILL.md",
        "skill://lending/SKILL.md",
    ]


def test_a_skill_within_a_skill_is_a_file_of_it(project: Path, desk: Desk) -> None:
    fill(project, {".claude/skills/lending/examples/inner/SKILL.md": main("inner")})

    assert "skill://lending/examples/inner/SKILL.md" in [one["uri"] for one in desk.skill("lending")["resources"]]
    assert desk.skill("lending/examples/inner")["code"] == -32602


def test_skills_of_an_installed_package_say_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "site"
    skills = install(place)
    fill(skills, {"lending/SKILL.md": main("lending"), "lending/more.md": "More"})
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setattr(packages, "_answers", {})
    project = tmp_path / "plain"
    project.mkdir()
    desk = open_desk(config.load(str(project), {"HOME": str(tmp_path)}, ()))
    client = Conversation(desk.server)

    [skill] = client.ask("skills/list")["skills"]

    assert skill["uri"] == "skill://lending/SKILL.md"
    assert skill["_meta"] == {"dev.carrel/origin": "acme-tools"}
    assert [one["uri"] for one in skill["resources"]] == ["skill://lending/SKILL.md", "skill://lending/more.md"]
    assert client.ask("resources/read", {"uri": "skill://lending/more.md"})["contents"][0]["text"] == "More"
    assert "skill://lending/SKILL.md" in [one["uri"] for one in client.ask("resources/list")["resources"]]
    client.close()
    desk.close()


# Bytes


def test_every_file_reads_as_bytes_that_hash_to_its_digest(desk: Desk, project: Path) -> None:
    skill = desk.skill("lending")

    assert [one["uri"].removeprefix("skill://lending/") for one in skill["resources"]] == [
        "SKILL.md",
        "empty.md",
        "forms/bom.txt",
        "forms/card.md",
        "forms/eu/card%20%C3%A9.md",
        "forms/latin.txt",
        "forms/wide.txt",
    ]
    for file in skill["resources"]:
        data = desk.bytes_of(file["uri"])
        assert (file["digest"], file["size"]) == (f"sha256:{sha256(data).hexdigest()}", len(data)), file["uri"]
        assert desk.ask("resources/read", uri=file["uri"])["contents"][0]["_meta"]["dev.carrel/etag"] == file["digest"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("bom.txt", "text"), ("card.md", "text"), ("latin.txt", "blob"), ("wide.txt", "blob")],
)
def test_only_utf_8_is_sent_as_text(desk: Desk, name: str, kind: str) -> None:
    [item] = desk.ask("resources/read", uri=f"skill://lending/forms/{name}")["contents"]

    assert kind in item


def test_bytes_that_are_no_text_beyond_the_first_part_make_a_blob(project: Path, desk: Desk) -> None:
    data = b"x" * (found_skills.CHUNK - 1) + "é".encode() + b"y" * 100
    fill(project, {".claude/skills/lending/late.txt": data + b"\xff", ".claude/skills/lending/cut.txt": data})

    assert "text" in desk.ask("resources/read", uri="skill://lending/cut.txt")["contents"][0]
    assert desk.bytes_of("skill://lending/late.txt") == data + b"\xff"


def test_a_read_says_where_a_skill_comes_from(desk: Desk) -> None:
    [item] = desk.ask("resources/read", uri="skill://lending/forms/card.md")["contents"]

    assert item["_meta"]["dev.carrel/origin"] == ".claude/skills/lending"
    assert item["mimeType"] == "text/markdown"


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_the_manifest_is_the_same_by_list_and_by_get_in_both_eras(desk: Desk, version: str) -> None:
    listed = desk.ask("skills/list", version)["skills"]

    assert [desk.ask("skills/get", version, uri=one["uri"])["skill"] for one in listed] == listed


def test_a_changed_file_has_another_digest_at_once(project: Path, desk: Desk) -> None:
    before = desk.skill("lending")["resources"]
    (project / ".claude/skills/lending/forms/card.md").write_text("B card", encoding="utf-8")
    (project / ".claude/skills/lending/new.md").write_text("New", encoding="utf-8")

    after = desk.skill("lending")["resources"]

    changed = {one["uri"] for one in after if one not in before}
    assert changed == {"skill://lending/forms/card.md", "skill://lending/new.md"}


# Folders


def test_folders_of_skills_and_in_skills_are_read(desk: Desk) -> None:
    assert desk.children("skill://") == ["skill://agents/", "skill://group/", "skill://lending/", "skill://sorting/"]
    assert desk.children("skill://group") == ["skill://group/binding/"]
    assert desk.children("skill://lending/") == [
        "skill://lending/SKILL.md",
        "skill://lending/empty.md",
        "skill://lending/forms/",
    ]
    assert desk.children("skill://lending/forms/eu") == ["skill://lending/forms/eu/card%20%C3%A9.md"]


def test_a_read_of_a_folder_names_its_children(desk: Desk) -> None:
    for uri in ("skill://lending/forms", "skill://lending/forms/"):
        contents = desk.ask("resources/read", uri=uri)["contents"]
        assert [one["uri"] for one in contents if one["mimeType"] == "inode/directory"] == ["skill://lending/forms/eu"]


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("path", ["lending/SKILL.md", "none", "lending/none", "lending/.env", "lending/../sorting"])
def test_what_is_no_folder_of_a_skill_is_refused(desk: Desk, version: str, path: str) -> None:
    expected = -32803 if path.endswith(".env") else -32602
    assert desk.ask("resources/directory/read", version, uri=f"skill://{path}")["code"] == expected


# Broken and refused


BROKEN: dict[str, tuple[str | bytes, str]] = {
    "plain": ("# No front matter\n", "it does not begin with front matter between two lines ---"),
    "yaml": ("---\nname: [\n---\n", "its front matter is not valid YAML (line 3)"),
    "other": (main("another"), "its name is another, but its folder is other"),
    "nameless": ("---\ndescription: d\n---\n", "its front matter has no name"),
    "latin": (b"---\nname: latin\ndescription: caf\xe9\n---\n", "it is not UTF-8"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_skill_is_shown_with_the_reason_and_can_be_read(tmp_path: Path, name: str) -> None:
    text, reason = BROKEN[name]
    desk = Desk(fill(tmp_path, {f"skills/{name}/SKILL.md": text, "skills/good/SKILL.md": main("good")}))
    uri = f"skill://{name}/SKILL.md"

    assert [one["uri"] for one in desk.ask("skills/list")["skills"]] == ["skill://good/SKILL.md"]
    assert desk.skill(name)["code"] == -32602
    assert list(desk.listed()) == ["skill://good/SKILL.md", uri]
    assert desk.listed()[uri]["description"] == f"Not a usable skill: {reason}"
    assert desk.problems() == [f"skills/{name}/SKILL.md is not a usable skill: {reason}"]
    assert desk.bytes_of(uri) == (text if isinstance(text, bytes) else text.encode())


def test_the_guide_and_health_name_a_broken_skill(tmp_path: Path) -> None:
    project = fill(tmp_path / "project", {"skills/yaml/SKILL.md": BROKEN["yaml"][0]})
    desk = open_desk(config.load(str(project), {"HOME": str(tmp_path)}, ()))
    client = Conversation(desk.server)

    for uri in ("carrel://guide", "carrel://health"):
        text = client.ask("resources/read", {"uri": uri})["contents"][0]["text"]
        assert "skills/yaml/SKILL.md is not a usable skill: its front matter is not valid YAML (line 3)" in text
    client.close()
    desk.close()


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({f"f/{n}.md": "x" for n in range(512)}, "it has more than 512 files"),
        ({"large.bin": b"x" * 16_777_216}, "its files have 16777265 bytes together; 16777216 are allowed"),
    ],
)
def test_a_skill_that_is_too_large_for_hosts_is_broken(
    tmp_path: Path, files: dict[str, str | bytes], reason: str
) -> None:
    every = {"SKILL.md": main("large", "x" * 6), **files}
    desk = Desk(fill(tmp_path, {f"skills/large/{name}": data for name, data in every.items()}))

    assert desk.ask("skills/list")["skills"] == []
    assert desk.listed()["skill://large/SKILL.md"]["description"] == f"Not a usable skill: {reason}"


@pytest.mark.slow
def test_a_skill_with_very_many_folders_is_broken(tmp_path: Path) -> None:
    desk = Desk(fill(tmp_path, {"skills/wide/SKILL.md": main("wide")}))
    for number in range(found_skills.MAX_LOOKS):
        (tmp_path / f"skills/wide/{number}").mkdir()

    assert desk.ask("skills/list")["skills"] == []
    assert desk.listed()["skill://wide/SKILL.md"]["description"] == (
        "Not a usable skill: it has more than 2048 files, folders and links"
    )


@pytest.mark.parametrize(
    ("limit", "most", "reason"),
    [
        (
            "MAX_ALL_LOOKS",
            5,
            "all skills together have more than 5 files, folders and links; this one was not looked at",
        ),
        ("MAX_ALL_SIZE", 130, "all skills together have more than 130 bytes; this one was not looked at"),
        (
            "MAX_ALL_NAMES",
            22,
            "the names of the files of all skills together have more than 22 characters; this one was not looked at",
        ),
    ],
)
def test_the_skills_after_a_limit_for_all_of_them_are_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, reason: str
) -> None:
    files = {f"skills/s{n}/{name}": text for n in range(4) for name, text in (("SKILL.md", main(f"s{n}")), ("a", "b"))}
    desk = Desk(fill(tmp_path, files))
    monkeypatch.setattr(found_skills, limit, most)

    listed = desk.listed()

    assert [skill["uri"] for skill in desk.ask("skills/list")["skills"]] == [
        "skill://s0/SKILL.md",
        "skill://s1/SKILL.md",
    ]
    for number in (2, 3):
        assert listed[f"skill://s{number}/SKILL.md"]["description"] == f"Not a usable skill: {reason}"


@pytest.mark.slow
@pytest.mark.parametrize(("attack", "count"), [("links", 230), ("yaml", 0), ("names", 16)])
def test_hundreds_of_hostile_skills_are_listed_in_time(tmp_path: Path, attack: str, count: int) -> None:
    for number in range(400):
        skill = tmp_path / f"skills/s{number}"
        skill.mkdir(parents=True)
        rows = "".join(f"k{key}: {key}\n" for key in range(4_800)) if attack == "yaml" else ""
        (skill / "SKILL.md").write_text(f"---\nname: s{number}\ndescription: d\n{rows}---\n", encoding="utf-8")
        for link in range(70 if attack == "links" else 0):
            (skill / f"l{link}").symlink_to("." if link % 2 else "..")
        if attack == "names":
            fill(skill / "/".join(["\u4e2d" * 28] * 13), {f"{file}": "" for file in range(20)})
    desk = Desk(tmp_path)

    begun = process_time()
    listed = desk.ask("skills/list")["skills"]

    assert len(listed) == count
    assert process_time() - begun < 4.0  # 0.9 on a usual machine, 9 to 16 before there were limits


@pytest.mark.slow
def test_skills_are_looked_for_once_for_a_list_that_must_be_cut(tmp_path: Path) -> None:
    class Counted(Skills):
        looks = 0

        def skills(self) -> Sequence[Skill]:
            self.looks += 1
            return super().skills()

    rows = "".join(f'k{key}: "{"x" * 60}"\n' for key in range(200))
    names = [f"s{number:03}" for number in range(200)]
    fill(tmp_path, {f"skills/{name}/SKILL.md": f"---\nname: {name}\ndescription: d\n{rows}---\n" for name in names})
    provider = Counted(Project(str(tmp_path), {}))
    catalog = Catalog([provider])
    client = Conversation(Server(catalog, Watcher(catalog, 0.01)))

    first = client.ask("skills/list", {}, version=MODERN)
    assert provider.looks == 1
    assert len(first["skills"]) < len(names)
    rest = client.ask("skills/list", {"cursor": first["nextCursor"]}, version=MODERN)
    client.close()

    assert [one["uri"] for one in first["skills"] + rest["skills"]] == [f"skill://{name}/SKILL.md" for name in names]


def test_denied_files_and_links_that_leave_are_neither_in_the_manifest_nor_readable(project: Path) -> None:
    skill = project / ".claude/skills/lending"
    links = {"out.md": "../../../outside.md", "abs.md": str(project / "outside.md"), "up": "../../..", "dot.md": ".env"}
    for name, target in links.items():
        (skill / name).symlink_to(target)
    (skill / "in.md").symlink_to("forms/card.md")
    fill(project, {".claude/skills/lending/notes.private": SECRET})
    desk = Desk(project, deny=("*.private",))

    uris = [one["uri"] for one in desk.skill("lending")["resources"]]

    assert "skill://lending/in.md" in uris
    for name in (*links, "notes.private", ".env", "__pycache__/x.pyc"):
        uri = f"skill://lending/{name}"
        assert not [one for one in uris if one.startswith(uri)], name
        assert f"skill://lending/{name}" not in desk.children("skill://lending")
        answer = desk.ask("resources/read", uri=uri)
        assert answer["code"] in (-32602, -32803), name
        assert SECRET not in json.dumps(answer)


def test_a_skill_that_is_a_link_out_of_the_project_is_named_and_not_served(project: Path, tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere", {"far/SKILL.md": main("far"), "near/SKILL.md": SECRET})
    (project / "skills/far").symlink_to(tmp_path / "elsewhere/far")
    (project / "skills/near").mkdir()
    (project / "skills/near/SKILL.md").symlink_to(tmp_path / "elsewhere/near/SKILL.md")
    desk = Desk(project)

    assert not [uri for uri in desk.listed() if "far" in uri or "near" in uri]
    assert desk.problems() == [
        "skills/far is a link that leaves the project; it is not followed",
        "skills/near/SKILL.md is a link that leaves its folder; it is not read",
    ]


def test_special_files_are_no_part_of_a_skill(project: Path, desk: Desk) -> None:
    os.mkfifo(project / ".claude/skills/lending/pipe.md")
    os.mkfifo(project / "skills/group/binding/x")
    (project / "skills/pipe").mkdir()
    os.mkfifo(project / "skills/pipe/SKILL.md")

    assert "skill://lending/pipe.md" not in [one["uri"] for one in desk.skill("lending")["resources"]]
    assert desk.ask("resources/read", uri="skill://lending/pipe.md")["code"] == -32803
    assert desk.problems() == ["skills/pipe/SKILL.md cannot be read"]


@pytest.mark.parametrize("place", ["skills", ".claude/skills/lending", "skills/group/binding"])
def test_a_folder_that_may_not_be_read_is_named(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setattr(packages, "_answers", {})
    with tempfile.TemporaryDirectory(prefix="carrel-test-") as folder:
        Path(folder).chmod(0o755)
        refused = fill(Path(folder), FILES) / place
        refused.chmod(0)
        was = os.geteuid()
        try:
            os.seteuid(was or 65_534)  # root may read it all the same
            problems = Desk(Path(folder)).problems()
        finally:
            os.seteuid(was)
            refused.chmod(0o755)

    assert problems == [f"{place} cannot be read: permission denied"]


# Changes, completion, search


def test_a_changed_file_and_a_new_skill_are_reported(project: Path, desk: Desk) -> None:
    client = desk.client
    client.open(LEGACY)
    client.ask("resources/subscribe", {"uri": "skill://lending/forms/card.md"}, version=LEGACY)
    fill(project, {"fresh.md": "Another card"})
    (project / "fresh.md").replace(project / ".claude/skills/lending/forms/card.md")
    updated = client.told(LEGACY, "notifications/resources/updated")
    fill(project, {"skills/new/SKILL.md": main("new")})
    changed = client.told(LEGACY, "notifications/resources/list_changed")

    assert updated["params"]["uri"] == "skill://lending/forms/card.md"
    assert changed["method"] == "notifications/resources/list_changed"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", ["agents/", "group/", "lending/", "sorting/"]),
        ("le", ["lending/"]),
        ("lending/", ["lending/SKILL.md", "lending/empty.md", "lending/forms/"]),
        ("lending/forms/eu/", ["lending/forms/eu/card é.md"]),
        ("none/", []),
    ],
)
def test_paths_are_completed(desk: Desk, typed: str, offered: list[str]) -> None:
    assert list(desk.provider.complete("skill://{+path}", "path", typed, {}).values) == offered


def test_search_finds_every_file_of_a_skill(desk: Desk) -> None:
    uris = [document.uri for document in desk.provider.documents()]

    assert "skill://lending/forms/eu/card%20%C3%A9.md" in uris
    assert not [uri for uri in uris if ".env" in uri or "pycache" in uri]


def test_hosts_may_change_the_case_of_the_first_name(desk: Desk) -> None:
    assert desk.bytes_of("skill://Lending/SKILL.md") == main("lending").encode()


def test_a_prefix_lists_every_file_below_it_in_pages(desk: Desk) -> None:
    desk.catalog.page_size = 2
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        asked = {"_meta": {"dev.carrel/prefix": "skill://lending/"}, **cursor}
        page = desk.client.ask("resources/list", asked)
        found += [one["uri"].removeprefix("skill://lending/") for one in page["resources"]]
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}

    assert found == [
        "SKILL.md",
        "empty.md",
        "forms/bom.txt",
        "forms/card.md",
        "forms/eu/card%20%C3%A9.md",
        "forms/latin.txt",
        "forms/wide.txt",
    ]


@pytest.mark.parametrize(
    ("query", "text"),
    [("lines=2-2", "name: lending\n"), ("start=0&length=3", "---"), ("start=4&length=4", "name")],
)
def test_a_part_of_a_file_is_read(desk: Desk, query: str, text: str) -> None:
    [item] = desk.ask("resources/read", uri=f"skill://lending/SKILL.md?{query}")["contents"]

    assert item["text"] == text


def test_the_outline_of_a_skill_has_all_its_files(desk: Desk) -> None:
    [item] = desk.ask("resources/read", uri="skill://lending?outline")["contents"]

    assert "card.md" in item["text"]


def test_fly_s_numbered_lists_have_no_skills(desk: Desk) -> None:
    for asked in ({"pageSize": 5}, {"directory": "lib"}):
        assert desk.ask("resources/list", **asked)["items"] == []


def test_a_file_that_no_skill_may_have_is_not_read_at_all(project: Path, desk: Desk) -> None:
    fill(project, {".claude/skills/lending/huge.bin": b"", "skills/huge/SKILL.md": main("huge")})
    for path in (".claude/skills/lending/huge.bin", "skills/huge/SKILL.md"):
        os.truncate(project / path, 1 << 40)

    assert desk.ask("resources/read", uri="skill://lending/huge.bin")["code"] == -32802
    assert "skill://lending/huge.bin" not in desk.children("skill://lending")
    assert "skill://huge/SKILL.md" not in desk.listed()
    lending, huge = desk.problems()
    assert lending.startswith(".claude/skills/lending/SKILL.md is not a usable skill: its files have 1099511627")
    assert huge == "skills/huge/SKILL.md has 1099511627776 bytes; it is not read"
