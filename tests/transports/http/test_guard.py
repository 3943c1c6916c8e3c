"""Who is accepted over HTTP: names, origins, tokens, scopes; and that a refusal does not reveal what exists."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from carrel.catalog.access import Access, current_access
from carrel.cli.serve_http import parse_address
from carrel.core.errors import ConfigError, ProviderError
from carrel.providers.guide import Guide
from carrel.providers.mirror import Mirror
from carrel.server.server import Server
from carrel.transports.http.app import App
from carrel.transports.http.guard import AcceptedNames, Guard
from carrel.transports.http.tokens import Keyring, TokenStore
from tests.support.http_asking import (
    INITIALIZE,
    JSON,
    Reply,
    application,
    ask,
    asking,
    get,
    legacy,
    modern,
    modern_headers,
    post,
    run,
)
from tests.support.memory_provider import Eventful, Memory, Shelf

ROUTES = (
    "/mcp",
    "/shelf/a",
    "/-/limits",
    "/-/providers",
    "/-/read?uri=x",
    "/.well-known/oauth-protected-resource",
    "/",
)


class Tokens:
    """The access of each token."""

    def find(self, token: str) -> Access | None:
        """Return the access of a token."""
        known = {
            "all": Access("all"),
            "some": Access("some", frozenset({"shelf:read", "carrel:read"})),
            "tools": Access("tools", frozenset({"test:tools"})),
            "writer": Access("writer", frozenset({"*:write"})),
            "nothing": Access("nothing", frozenset()),
        }
        return known.get(token)


class Issuer:
    """An authorization server in this process."""

    issuer = "https://login.example"
    audience = "https://desk.example/mcp"
    asked = 0

    def known(self, token: str) -> Access | None:
        """Remember nobody."""
        del token
        return None

    def verify(self, token: str) -> Access | None:
        """Return the access of the one valid token."""
        self.asked += 1
        return Access("jwt ann", frozenset({"shelf:read"})) if token == "good.jwt.token" else None


def bearer(token: str) -> dict[str, str]:
    """Return the header of a token."""
    return {"authorization": f"Bearer {token}"}


@pytest.fixture(name="app")
def guarded_app() -> App:
    app = application(Shelf("shelf", {"a": "text"}), Memory(), guard=Guard(AcceptedNames(is_loopback=True), Tokens()))
    catalog = app._server.catalog
    catalog.mount(Guide(catalog), Mirror(catalog))
    return App(Server(catalog), Guard(AcceptedNames(is_loopback=True), Tokens()))


# Names and origins


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil", "", "localhost@evil", "a b"]
)
def test_a_name_that_is_not_ours_is_refused_everywhere(app: App, route: str, host: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        assert get(app, route, {"host": host, **bearer("all")}, method).status == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]", "[::1]:9999", "LOCALHOST:80"])
def test_loopback_names_are_ours_with_any_port(app: App, host: str) -> None:
    assert get(app, "/-/health", {"host": host, **bearer("all")}).status == 200


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://localhost.evil",
        "http://localhost@evil",
        "file://",
        "localhost",
        "http://",
    ],
)
def test_a_page_from_elsewhere_is_refused_everywhere(app: App, route: str, origin: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        reply = get(app, route, {"origin": origin, **bearer("all")}, method)
        assert reply.status == 403
        assert "access-control-allow-origin" not in reply.headers


def test_pages_of_this_machine_may_ask(app: App) -> None:
    for origin in ("http://localhost:3000", "http://127.0.0.1", "https://[::1]:8443"):
        assert get(app, "/-/health", {"origin": origin, **bearer("all")}).status == 200


def test_a_page_that_embeds_us_is_refused(app: App) -> None:
    assert get(app, "/shelf/a", {"sec-fetch-site": "cross-site", **bearer("all")}).status == 403
    assert get(app, "/shelf/a", {"sec-fetch-site": "none", **bearer("all")}).status == 200


def test_elsewhere_only_listed_names_and_origins_count() -> None:
    doors = AcceptedNames(
        is_loopback=False, hosts=frozenset({"desk.example"}), origins=frozenset({"https://app.example"})
    )
    app = application(Shelf("shelf", {"a": "text"}), guard=Guard(doors))

    assert get(app, "/shelf/a").status == 421
    assert get(app, "/shelf/a", {"host": "desk.example:8443"}).status == 200
    assert get(app, "/shelf/a", {"host": "desk.example", "origin": "https://app.example"}).status == 200
    assert get(app, "/shelf/a", {"host": "desk.example", "origin": "http://app.example"}).status == 403
    assert get(app, "/shelf/a", {"host": "desk.example", "origin": "http://localhost"}).status == 403


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "headers",
    [
        {"host": "localhost\nevil.example"},
        {"host": "evil.example\nlocalhost"},
        {"host": "localhost\nlocalhost"},
        {"origin": "http://evil.example\nhttp://localhost"},
        {"authorization": "Bearer all\nBearer some"},
        {"content-type": "application/json; charset=utf-8\napplication/json"},
        {"mcp-session-id": "a\nb"},
        {"sec-fetch-site": "cross-site\nnone"},
    ],
)
def test_a_header_that_says_two_things_is_refused(app: App, route: str, headers: Mapping[str, str]) -> None:
    reply = get(app, route, {**bearer("all"), **headers})

    assert (reply.status, list(reply.json)) == (400, ["error"])


def test_a_header_that_says_the_same_twice_says_it(app: App) -> None:
    twice = {"content-type": "application/json\napplication/json", "origin": "http://localhost\nhttp://localhost"}

    assert post(app, legacy("ping"), {**JSON, **bearer("all"), **twice}).status == 200
    assert post(app, legacy("ping"), {**JSON, **bearer("all"), "origin": "null\nnull"}).status == 403


# Tokens


@pytest.mark.parametrize("route", [route for route in ROUTES if not route.startswith("/.well-known")])
@pytest.mark.parametrize("headers", [{}, bearer("wrong"), {"authorization": "Basic all"}])
def test_without_a_token_nothing_is_reported(app: App, route: str, headers: Mapping[str, str]) -> None:
    reply = get(app, f"{route}{'&' if '?' in route else '?'}access_token=all", headers)

    assert reply.status == 401
    assert reply.headers["www-authenticate"].startswith('Bearer realm="carrel"')


@pytest.mark.parametrize("route", ["/-/health", "/-/ready"])
@pytest.mark.parametrize("headers", [{}, {"host": "10.0.0.5:8000"}, bearer("wrong")])
def test_a_balancer_learns_without_a_token_that_the_server_runs_and_nothing_else(
    app: App, route: str, headers: Mapping[str, str]
) -> None:
    reply = get(app, route, headers)

    assert (reply.status, reply.json) == (200, {"status": "ok"})


def test_a_server_that_ends_is_not_ready(app: App) -> None:
    app.end()

    assert get(app, "/-/ready").status == 503
    assert get(app, "/-/ready", method="POST").status == 405


def test_a_caller_without_a_token_reads_how_to_send_and_make_one(app: App) -> None:
    reply = get(app, "/workspace/a.txt")

    assert json.loads(reply.body)["error"] == (
        "A token is needed, in the header `Authorization: Bearer TOKEN`; `carrel token add NAME` makes one where the "
        "server runs"
    )


@pytest.mark.parametrize("given", ["Bearer", "bearer ", "Bearer all some", "Bearer all\nBearer all"])
def test_a_token_that_is_none_is_no_request(app: App, given: str) -> None:
    reply = get(app, "/-/limits", {"authorization": given})

    assert (reply.status, list(reply.json)) == (400, ["error"])
    assert reply.headers["www-authenticate"] == 'Bearer realm="carrel", error="invalid_request"'


@pytest.mark.parametrize(
    ("audience", "url"),
    [
        ("https://desk.example/team/mcp", "https://desk.example/.well-known/oauth-protected-resource/team/mcp"),
        ("https://desk.example/a%20b/", "https://desk.example/.well-known/oauth-protected-resource/a%20b"),
        ("https://desk.example", "https://desk.example/.well-known/oauth-protected-resource"),
        ("https://desk.example/?x=y", "https://desk.example/.well-known/oauth-protected-resource?x=y"),
        ("our desk", "http://127.0.0.1:8000/.well-known/oauth-protected-resource/mcp"),
    ],
)
def test_the_metadata_is_where_it_is_said_to_be(audience: str, url: str) -> None:
    issuer = Issuer()
    issuer.audience = audience
    app = application(Shelf("shelf", {"a": "text"}), guard=Guard(AcceptedNames(is_loopback=True), Tokens(), issuer))

    refused = get(app, "/shelf/a").headers["www-authenticate"]
    assert f'resource_metadata="{url}"' in refused
    target = "/" + url.split("/", 3)[3]
    assert get(app, target).json["resource"] == audience
    assert get(app, target.partition("?")[0] + "/").json["resource"] == audience
    assert get(app, "/.well-known/oauth-protected-resource/other").status == 401


def test_tokens_that_are_being_verified_have_a_common_limit() -> None:
    askers: list[str] = []

    class Noticing(Issuer):
        def verify(self, token: str) -> Access | None:
            askers.append(current_access().name)
            return super().verify(token)

    app = application(Shelf("shelf", {"a": "text"}), guard=Guard(AcceptedNames(is_loopback=True), Tokens(), Noticing()))

    assert get(app, "/shelf/a", bearer("good.jwt.token")).status == 200
    assert askers == ["tokens"]


def test_when_too_many_tokens_wait_one_may_come_again() -> None:
    class Busy(Issuer):
        def verify(self, token: str) -> Access | None:
            raise ProviderError(f"Server is busy: {len(token)}", word="busy")

    app = application(Shelf("shelf", {"a": "text"}), guard=Guard(AcceptedNames(is_loopback=True), Tokens(), Busy()))
    reply = get(app, "/shelf/a", bearer("a.b.c"))

    assert (reply.status, reply.headers["retry-after"]) == (503, "1")


def test_who_lacks_a_scope_is_told_where_to_get_it() -> None:
    app = application(Shelf("shelf", {"a": "text"}), guard=Guard(AcceptedNames(is_loopback=True), Tokens(), Issuer()))
    where = "https://desk.example/.well-known/oauth-protected-resource/mcp"

    for reply in (get(app, "/shelf/a", bearer("nothing")), read(app, "shelf:///a", "nothing")):
        assert reply.status == 403
        assert reply.headers["www-authenticate"] == (
            f'Bearer error="insufficient_scope", scope="shelf:read", resource_metadata="{where}"'
        )


def test_the_metadata_names_the_authorization_server() -> None:
    guard = Guard(AcceptedNames(is_loopback=True), Tokens(), Issuer())
    app = application(Shelf("shelf", {"a": "text"}), guard=guard)

    for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
        told = get(app, path)
        assert (told.status, told.json["resource"], told.json["authorization_servers"]) == (
            200,
            "https://desk.example/mcp",
            ["https://login.example"],
        )
        assert told.json["scopes_supported"] == ["shelf:read"]
    refused = get(app, "/shelf/a", bearer("bad.jwt.token"))
    assert refused.status == 401
    assert refused.headers["www-authenticate"] == (
        'Bearer realm="carrel", error="invalid_token", '
        'resource_metadata="https://desk.example/.well-known/oauth-protected-resource/mcp", scope="*:read"'
    )
    assert get(app, "/shelf/a", bearer("good.jwt.token")).status == 200


def test_without_an_issuer_there_is_no_metadata(app: App) -> None:
    assert get(app, "/.well-known/oauth-protected-resource").status == 404


# Scopes


def read(app: App, uri: str, token: str) -> Reply:
    """Read over MCP."""
    headers = {**modern_headers("resources/read", uri), **bearer(token)}
    return post(app, modern("resources/read", {"uri": uri}), headers)


def test_what_a_token_may_not_read_is_refused_alike_whether_it_exists(app: App) -> None:
    assert get(app, "/shelf/a", bearer("some")).status == 200
    there, nowhere = get(app, "/test/plain", bearer("some")), get(app, "/test/nothing", bearer("some"))
    unknown = get(app, "/other/x", bearer("some"))
    assert [reply.status for reply in (there, nowhere, unknown)] == [403, 403, 403]
    assert there.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="test:read"'
    assert there.json["name"] == "MCP_PERMISSION_DENIED"

    assert read(app, "shelf:///a", "some").status == 200
    refused = [read(app, uri, "some") for uri in ("test:///plain", "test:///nothing", "TEST:///plain")]
    assert [(one.status, one.json["error"]["code"]) for one in refused] == [(403, -32803)] * 3
    assert refused[0].headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="test:read"'


def result(app: App, method: str, token: str, params: Mapping[str, object] | None = None, name: str = "") -> Any:
    """Ask over MCP, and return the result."""
    headers = {**modern_headers(method, name or None), **bearer(token)}
    return post(app, modern(method, params), headers).json.get("result")


def test_lists_and_templates_show_only_what_a_token_may_read(app: App) -> None:
    uris = [entry["uri"] for entry in result(app, "resources/list", "some")["resources"]]
    assert uris == ["carrel://guide", "carrel://catalog", "carrel://health", "shelf:///a"]
    templates = [one["uriTemplate"] for one in result(app, "resources/templates/list", "some")["resourceTemplates"]]
    assert templates == ["shelf:///{+path}"]
    assert result(app, "resources/list", "nothing")["resources"] == []


def test_the_guide_tells_of_nothing_else(app: App) -> None:
    for name in ("guide", "catalog", "health"):
        told = get(app, f"/carrel/{name}", bearer("some")).body.decode()
        assert "test:" not in told
        assert "memory" not in told
    assert "test:///" in get(app, "/carrel/guide", bearer("all")).body.decode()
    assert [one["name"] for one in get(app, "/-/providers", bearer("some")).json] == ["shelf", "guide"]


def test_the_mirror_reads_for_current_access(app: App) -> None:
    def call(uri: str) -> Any:
        params = {"name": "read_resource", "arguments": {"uri": uri}}
        return result(app, "tools/call", "some", params, "read_resource")

    assert call("shelf:///a")["content"][0]["text"] == "text"
    assert call("test:///plain")["isError"] is True
    listed = result(app, "tools/call", "some", {"name": "list_resources"}, "list_resources")
    assert "test:" not in listed["content"][0]["text"]


def test_tools_need_their_scope_and_are_unknown_without(app: App) -> None:
    def names(token: str) -> list[str]:
        return [tool["name"] for tool in result(app, "tools/list", token)["tools"]]

    mirror = ["list_resources", "read_resource"]
    assert names("some") == mirror
    assert names("tools") == ["count", "link", *mirror]
    assert names("writer") == ["echo", "wait", "fail", "break", *mirror]
    headers = {**modern_headers("tools/call", "echo"), **bearer("tools")}
    refused = post(app, modern("tools/call", {"name": "echo"}), headers)
    assert (refused.status, refused.json["error"]["message"]) == (200, "Unknown tool: echo")


def test_completion_is_reading(app: App) -> None:
    params = {"ref": {"type": "ref/resource", "uri": "test:///note/{id}"}, "argument": {"name": "id", "value": "0"}}
    headers = {**modern_headers("completion/complete"), **bearer("some")}

    assert post(app, modern("completion/complete", params), headers).status == 403
    assert len(result(app, "completion/complete", "all", params)["completion"]["values"]) == 100


def test_completions_are_counted_per_caller_not_per_connection(app: App) -> None:
    params = {"ref": {"type": "ref/resource", "uri": "test:///note/{id}"}, "argument": {"name": "id", "value": "0"}}

    async def talk() -> None:
        headers = {**modern_headers("completion/complete"), **bearer("all")}
        for _ in range(400):
            reply = await ask(app, "POST", "/mcp", headers, modern("completion/complete", params))
            if "error" in reply.json:
                assert reply.json["error"]["data"]["dev.carrel/error"] == "busy"
                return
        raise AssertionError("nobody was slowed down")

    run(talk)


def test_a_subscription_leaves_out_what_may_not_be_read_and_what_is_not_there_alike() -> None:
    one, two = Eventful("shelf", {"a": "1"}), Eventful("other", {"a": "1"})
    app = application(one, two, guard=Guard(AcceptedNames(is_loopback=True), Tokens()))

    async def talk() -> None:
        wanted = {"resourceSubscriptions": ["shelf:///a", "other:///a", "nobody:///a"]}
        headers = {**modern_headers("subscriptions/listen"), **bearer("some")}
        body = modern("subscriptions/listen", {"notifications": wanted})
        async with asking(app, "POST", "/mcp", headers, body) as exchange:
            told = await exchange.message()
            assert told["params"]["notifications"] == {"resourceSubscriptions": ["shelf:///a"]}
        opened = await ask(app, "POST", "/mcp", {**JSON, **bearer("some")}, legacy("initialize", INITIALIZE))
        session = {**JSON, **bearer("some"), "mcp-session-id": opened.headers["mcp-session-id"]}
        refused = await ask(app, "POST", "/mcp", session, legacy("resources/subscribe", {"uri": "other:///a"}))
        assert (refused.status, refused.json["error"]["code"]) == (403, -32803)
        # A session works only for the caller who opened it.
        stolen = {**session, **bearer("all")}
        assert (await ask(app, "POST", "/mcp", stolen, legacy("ping"))).status == 404
        assert (await ask(app, "DELETE", "/mcp", stolen)).status == 404
        assert (await ask(app, "POST", "/mcp", session, legacy("ping"))).status == 200
        app.end()

    run(talk)


def test_a_stream_ends_with_its_token() -> None:
    class Brief:
        def find(self, token: str) -> Access | None:
            del token
            return Access("brief", None, expires_at=0.0)

    app = application(Eventful("e", {"a": "1"}), guard=Guard(AcceptedNames(is_loopback=True), Brief()))

    async def talk() -> None:
        headers = {**modern_headers("subscriptions/listen"), **bearer("x")}
        body = modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["e:///a"]}})
        async with asking(app, "POST", "/mcp", headers, body) as exchange:
            assert await exchange.message() is None

    run(talk)


# The user's tokens


def test_the_local_token_is_made_once_and_is_the_users_alone(tmp_path: Path) -> None:
    store = TokenStore({"XDG_STATE_HOME": str(tmp_path)})
    token, is_new = store.local()

    assert (is_new, store.local()) == (True, (token, False))
    assert Path(store.local_path).stat().st_mode & 0o777 == 0o600
    Path(store.local_path).chmod(0o644)
    store.local()
    assert Path(store.local_path).stat().st_mode & 0o777 == 0o600
    assert Keyring(store, token).find(token) == Access("local")


def test_added_tokens_are_kept_as_hashes_and_count_until_revoked(tmp_path: Path) -> None:
    store = TokenStore({"XDG_STATE_HOME": str(tmp_path)})
    token = store.add("ci", frozenset({"workspace:read"}))
    ring = Keyring(store, None)

    kept = (tmp_path / "carrel" / "tokens.json").read_text("utf-8")
    assert token not in kept
    assert (tmp_path / "carrel" / "tokens.json").stat().st_mode & 0o777 == 0o600
    assert ring.find(token) == Access("token ci", frozenset({"workspace:read"}))
    assert ring.find(token[:-1]) is None
    assert ring.find("") is None
    assert store.revoke("ci") is True
    ring._looked_at = float("-inf")
    assert ring.find(token) is None
    assert store.revoke("ci") is False


def test_a_name_is_given_once(tmp_path: Path) -> None:
    store = TokenStore({"XDG_STATE_HOME": str(tmp_path)})
    store.add("ci", None)

    with pytest.raises(ConfigError, match="already"):
        store.add("ci", None)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8000", ("127.0.0.1", 8000)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::1]:2", ("::1", 2)),
        ("localhost:3", ("127.0.0.1", 3)),
    ],
)
def test_an_address_is_read(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "x", "70000", "example.org:80", "127.0.0.1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--http"):
        parse_address(text)


def test_nothing_of_a_request_is_left_behind(app: App) -> None:
    asyncio.run(ask(app, "GET", "/shelf/a", bearer("some")))

    assert json.loads(get(app, "/-/health", bearer("all")).body)["streams"] == 0
