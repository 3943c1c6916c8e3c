"""Every resource by its path: types, conditions, ranges, errors, and paths that try to be something else."""

import json
import threading
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.model import Reading, Stored, Text
from carrel.core.provider import FractionalCeiling, Project
from carrel.providers.guide import Guide
from carrel.providers.workspace import Workspace
from carrel.search.lazy import LazySearch
from carrel.search.search import Search
from carrel.search.settings import SearchSettings
from carrel.server.server import Server
from carrel.transports.http.app import App
from carrel.transports.http.plain import CHUNK
from tests.support.http_asking import OPEN, application, get
from tests.support.memory_provider import NOON_MS, PNG, SAMPLE, Gated, Kept, Memory, Shelf
from tests.support.waiting import PATIENCE_S


@pytest.fixture(name="app")
def memory_app() -> App:
    return application(Memory(), Shelf("shelf", {"a": "text"}))


@pytest.fixture(name="files")
def files_app(tmp_path: Path) -> App:
    project = tmp_path / "project"
    (project / "lib").mkdir(parents=True)
    (project / "lib" / "main.dart").write_text("void main() {}\n", "utf-8")
    (project / "a b%.txt").write_text("odd name\n", "utf-8")
    (project / "page.html").write_text("<script>alert(1)</script>", "utf-8")
    (project / "data.bin").write_bytes(bytes(range(256)))
    (project / "big.txt").write_bytes(b"0123456789" * (CHUNK // 4))
    (tmp_path / "secret.txt").write_text("secret", "utf-8")
    return application(Workspace(Project(str(project), {})))


def test_a_resource_is_read_by_its_path(app: App) -> None:
    reply = get(app, "/test/a-guide")

    assert (reply.status, reply.body) == (200, b"# Guide\n")
    assert reply.headers == {
        "content-type": "text/markdown; charset=utf-8",
        "accept-ranges": "bytes",
        "cache-control": "private, no-cache",
        "x-content-type-options": "nosniff",
        "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'",
        "cross-origin-resource-policy": "same-origin",
        "vary": "Accept",
        "etag": '"g1"',
        "last-modified": formatdate(NOON_MS // 1000, usegmt=True),
        "content-length": "8",
    }


@pytest.mark.parametrize(
    ("target", "kind", "body"),
    [
        ("/test/plain", "text/plain; charset=utf-8", SAMPLE.encode()),
        ("/test/pixel", "image/png", PNG),
        ("/test/stored/utf-16le", "text/plain; charset=utf-16le", SAMPLE.encode("utf-16le")),
        ("/test/stored/iso-8859-1", "text/plain; charset=iso-8859-1", "aé\n".encode("iso-8859-1")),
        ("/test/stored/binary", "image/png", PNG),
        ("/test/query/x?tail=3", "text/plain; charset=utf-8", b"x 3 -"),
        ("/TEST/plain", "text/plain; charset=utf-8", SAMPLE.encode()),
        ("/-/read?uri=test:///plain", "text/plain; charset=utf-8", SAMPLE.encode()),
        ("/-/read?uri=test%3A%2F%2F%2Fquery%2Fa%3Ftail%3D1", "text/plain; charset=utf-8", b"a 1 -"),
        ("/test/plain?start=1&length=2", "text/plain; charset=utf-8", "é".encode()),
        ("/test/part/1?start=3&length=3", "text/plain; charset=utf-8", "€".encode()),
    ],
)
def test_the_body_is_what_is_stored_and_the_type_says_how(app: App, target: str, kind: str, body: bytes) -> None:
    reply = get(app, target)

    assert (reply.status, reply.headers["content-type"], reply.body) == (200, kind, body)


def test_a_header_names_no_encoding_but_that_of_the_body(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text", "utf-8")
    (tmp_path / "pixel.png").write_bytes(PNG)
    app = application(Workspace(Project(str(tmp_path), {}), allow=["*.png"]))
    text, binary = get(app, "/workspace/a.md"), get(app, "/workspace/pixel.png")

    assert (text.body, binary.body) == (b"text", PNG)
    assert {**text.headers, **binary.headers}.keys().isdisjoint({"carrel-encoding", "content-encoding"})
    assert [one.headers["carrel-uri"] for one in (text, binary)] == ["workspace:///a.md", "workspace:///pixel.png"]


def test_a_path_without_a_scheme_is_answered_with_where_resources_are(app: App) -> None:
    reply = get(app, "/README.md")

    assert reply.status == 400
    assert reply.json["error"] == (
        "Unknown scheme: readme.md://; a resource is at /{scheme}/…, such as /workspace/README.md"
    )


def test_a_scheme_with_an_authority_has_it_in_its_path() -> None:
    app = application(Guide(application(Memory())._server.catalog))

    assert get(app, "/carrel/guide").headers["content-type"] == "text/markdown; charset=utf-8"


@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (253_402_300_800_000, "Fri, 31 Dec 9999 23:59:59 GMT"),
        (10**20, "Fri, 31 Dec 9999 23:59:59 GMT"),
        (-(10**14), "Mon, 01 Jan 0001 00:00:00 GMT"),
    ],
)
def test_a_time_that_no_header_can_say_becomes_the_nearest(monkeypatch: pytest.MonkeyPatch, ms: int, told: str) -> None:
    monkeypatch.setattr("tests.support.memory_provider.NOON_MS", ms)
    reply = get(application(Memory()), "/test/a-guide")

    assert (reply.status, reply.body, reply.headers["last-modified"]) == (200, b"# Guide\n", told)


def test_head_says_the_same_without_the_body(app: App) -> None:
    whole, head = get(app, "/test/plain"), get(app, "/test/plain", method="HEAD")

    assert (head.status, head.headers, head.body) == (200, whole.headers, b"")


@pytest.mark.parametrize("condition", ['"g1"', 'W/"g1"', '"x", "g1"', '"g1"\n"x"', "*"])
def test_what_is_unchanged_is_not_sent(app: App, condition: str) -> None:
    reply = get(app, "/test/a-guide", {"if-none-match": condition})

    assert (reply.status, reply.body, reply.headers["etag"]) == (304, b"", '"g1"')


def test_a_condition_that_does_not_hold_gets_everything(app: App) -> None:
    assert get(app, "/test/a-guide", {"if-none-match": '"g2"'}).status == 200
    assert get(app, "/test/note/none", {"if-none-match": "*"}).status == 404


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [("bytes=0-1", 0, 2), ("bytes=2-3", 2, 4), ("bytes=4-", 4, 12), ("bytes=-5", 7, 12), ("bytes=0-99", 0, 12)],
)
def test_a_range_is_raw_bytes(app: App, asked: str, start: int, end: int) -> None:
    reply = get(app, "/test/plain", {"range": asked})

    assert (reply.status, reply.body) == (206, SAMPLE.encode()[start:end])
    assert reply.headers["content-range"] == f"bytes {start}-{end - 1}/12"


@pytest.mark.parametrize("asked", ["bytes=12-", "bytes=99-100", "bytes=-0"])
def test_a_range_past_the_end_cannot_be_had(app: App, asked: str) -> None:
    reply = get(app, "/test/plain", {"range": asked})

    assert (reply.status, reply.headers["content-range"]) == (416, "bytes */12")
    assert (reply.headers["content-type"], list(reply.json)) == ("application/json", ["error"])


@pytest.mark.parametrize("asked", ["bytes=0-1", "bytes=99-"])
def test_only_what_is_sent_is_cut(app: App, asked: str) -> None:
    whole, head = get(app, "/test/plain"), get(app, "/test/plain", {"range": asked}, "HEAD")

    assert (head.status, head.headers, head.body) == (200, whole.headers, b"")


@pytest.mark.parametrize("asked", ["bytes=5-2", "bytes=a-b", "lines=1-2", "bytes=0-1,4-5", "bytes=-", "bytes"])
def test_a_range_that_means_nothing_is_not_one(app: App, asked: str) -> None:
    assert get(app, "/test/plain", {"range": asked}).status == 200


def test_a_range_of_what_changed_meanwhile_is_the_whole(app: App) -> None:
    etag = get(app, "/test/plain").headers["etag"]

    assert get(app, "/test/plain", {"range": "bytes=0-1", "if-range": etag}).status == 206
    assert get(app, "/test/plain", {"range": "bytes=0-1", "if-range": '"other"'}).status == 200


@pytest.mark.parametrize(
    ("kind", "status", "name"),
    [
        ("not_found", 404, "MCP_NOT_FOUND"),
        ("denied", 403, "MCP_PERMISSION_DENIED"),
        ("bad_argument", 400, "MCP_INVALID_PARAMS"),
        ("too_large", 413, "MCP_TOO_LARGE"),
        ("failed", 500, None),
        ("unreadable", 422, None),
        ("bad_result", 502, None),
        ("timeout", 504, None),
        ("busy", 503, None),
        ("unavailable", 503, None),
        ("nobody planned this", 500, None),
    ],
)
def test_each_error_is_json_with_its_status(app: App, kind: str, status: int, name: str | None) -> None:
    reply = get(app, f"/test/error/{kind.replace(' ', '%20')}")

    assert (reply.status, reply.json.get("name")) == (status, name)
    assert "secret" not in reply.body.decode()
    assert reply.headers["content-type"] == "application/json"


def test_an_error_sent_as_content_keeps_its_text(app: App) -> None:
    reply = get(app, "/test/error/content")

    assert (reply.status, reply.json) == (404, {"error": "No such note; try 000"})
    assert reply.headers["content-type"] == "application/json"
    assert "etag" not in reply.headers


def test_a_folder_tells_its_children(app: App) -> None:
    reply = get(app, "/test/tree/")

    assert reply.status == 200
    assert [item["uri"] for item in reply.json["contents"]] == ["test:///tree/one", "test:///tree/two"]


def test_a_provider_that_waits_is_read_elsewhere() -> None:
    assert get(application(Gated("gated", {"a": "text"})), "/gated/a").body == b"text"


def test_what_asks_those_who_may_wait_is_read_elsewhere_too() -> None:
    readers = set()

    class Asking(Shelf):
        speed = "as_others"

        def read(self, path: str) -> Reading | Text:
            readers.add(threading.current_thread())
            return super().read(path)

    assert get(application(Asking("asking", {"a": "text"}), Gated()), "/asking/a").body == b"text"
    assert threading.current_thread() not in readers
    assert get(application(Asking("asking", {"a": "text"})), "/asking/a").body == b"text"
    assert threading.current_thread() in readers


def test_a_provider_that_takes_longer_than_others_may() -> None:
    class Late(Gated):
        deadline_s = PATIENCE_S

    late = Late()
    threading.Timer(0.2, late.open_gate).start()

    assert get(application(late, deadline_s=0.05), "/gated/gate/1").body == b"through gate/1"


def test_what_may_wait_is_never_read_by_the_thread_that_serves_everybody() -> None:
    readers = set()

    class Slow(Kept):
        def read(self, start: int, length: int) -> bytes:
            readers.add(threading.current_thread())
            return super().read(start, length)

    class Blocking(Shelf):
        speed = "blocking"

        def read(self, path: str) -> Reading:
            return Reading((Stored(Slow(b"x" * int(path)), "utf-8", "text/plain"),))

    app = application(Blocking("slow"))

    assert get(app, "/slow/10").body == b"x" * 10
    assert get(app, f"/slow/{2 * CHUNK}").body == b"x" * 2 * CHUNK
    assert threading.current_thread() not in readers


def test_only_reading_is_offered(app: App) -> None:
    reply = get(app, "/test/plain", method="DELETE")

    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")


def test_a_large_file_is_sent_whole_and_in_parts(files: App) -> None:
    whole = get(files, "/workspace/big.txt")

    assert whole.body == b"0123456789" * (CHUNK // 4)
    assert get(files, "/workspace/big.txt", {"range": f"bytes={CHUNK + 5}-"}).body == whole.body[CHUNK + 5 :]
    assert get(files, "/workspace/big.txt", method="HEAD").headers["content-length"] == str(len(whole.body))


def test_a_name_is_decoded_exactly_once(files: App) -> None:
    assert get(files, "/workspace/a%20b%25.txt").body == b"odd name\n"
    assert get(files, "/workspace/a%2520b%2525.txt").status == 404


def test_a_page_of_the_project_is_never_a_page_of_ours(files: App) -> None:
    headers = get(files, "/workspace/page.html").headers

    assert headers["content-security-policy"].startswith("sandbox; default-src 'none';")
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "target",
    [
        "/workspace/../secret.txt",
        "/workspace/%2e%2e/secret.txt",
        "/workspace/%2E%2E%2Fsecret.txt",
        "/workspace/lib/../../secret.txt",
        "/workspace//../secret.txt",
        "/workspace//secret.txt",
        "/workspace/..%5csecret.txt",
        "/workspace/..;/secret.txt",
        "/workspace/lib%2f..%2f..%2fsecret.txt",
        "/workspace/%00",
        "/workspace/lib/main.dart%00.txt",
        "/workspace/%ff",
        "/workspace/%",
        "/workspace/lib/main.dart#x",
        "/-/read?uri=workspace:///../secret.txt",
        "/-/read?uri=workspace:///%252e%252e/secret.txt",
        "/-/read?uri=file:///etc/passwd",
        "/-/read?uri=/etc/passwd",
        "/-/read?uri=a&uri=b",
        "/-/read",
        "/%2e%2e/secret.txt",
        "/../secret.txt",
        "//secret.txt",
        "/",
        "/file/etc/passwd",
        "/%77orkspace%2f..%2fsecret.txt",
    ],
)
def test_no_path_leads_out(files: App, target: str) -> None:
    reply = get(files, target)

    assert reply.status in (400, 403, 404)
    assert list(json.loads(reply.body)) in (["error"], ["error", "name"])
    assert b"secret\n" not in reply.body
    assert b"/project" not in reply.body


@pytest.mark.parametrize("target", ["/", "//x", "/-", "/-/nothing"])
def test_an_address_of_nothing_is_told_where_things_are(app: App, target: str) -> None:
    reply = get(app, target)

    assert reply.status == 404
    assert "MCP is at /mcp" in reply.json["error"]


def test_what_the_server_says_of_itself(app: App) -> None:
    assert get(app, "/-/health").json["status"] == "ok"
    assert [one["name"] for one in get(app, "/-/providers").json] == ["memory", "shelf"]
    limits = get(app, "/-/limits").json
    assert (limits["max_message_bytes"], limits["page_size"]) == (2 * 1024 * 1024, 1000)
    assert get(app, "/-/health", method="POST").status == 405


@pytest.fixture(name="searching")
def searching_app(tmp_path: Path) -> Iterator[App]:
    (tmp_path / "lend.py").write_text("def lend_book(reader):\n    return reader\n", "utf-8")
    (tmp_path / "notes.md").write_text("# Lend a book\n", "utf-8")
    catalog = Catalog([Workspace(Project(str(tmp_path), {}))])
    patient = SearchSettings(answer_s=FractionalCeiling(60.0))
    search = LazySearch(lambda: Search(catalog, None, patient))
    yield App(Server(catalog, search=search), OPEN)
    search.close()
    catalog.close()


def test_a_search_answers_json_with_the_parameters_of_the_resource(searching: App) -> None:
    reply = get(searching, "/-/search?q=lend+book&limit=1")
    found = json.loads(reply.body)

    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert found["next"] == "carrel://search?q=lend%20book&limit=1&after=1"
    assert [hit["uri"].startswith("workspace:///") for hit in found["hits"]] == [True]


@pytest.mark.parametrize(
    ("target", "status", "said"),
    [
        ("/-/search", 400, "query"),
        ("/-/search?q=x&in=logz", 400, "Unknown scheme: logz"),
        ("/-/search?query=x", 400, "known: q, in, limit, budget, after"),
        ("/-/search?q=%ff", 400, "not UTF-8"),
    ],
)
def test_a_bad_search_is_refused_with_what_is_known(searching: App, target: str, status: int, said: str) -> None:
    reply = get(searching, target)

    assert reply.status == status
    assert said in json.loads(reply.body)["error"]


def test_a_search_is_asked_for_with_get(searching: App) -> None:
    assert get(searching, "/-/search?q=x", method="POST").status == 405


def test_without_a_search_its_place_says_so(app: App) -> None:
    reply = get(app, "/-/search?q=x")

    assert (reply.status, "turned off" in json.loads(reply.body)["error"]) == (404, True)
