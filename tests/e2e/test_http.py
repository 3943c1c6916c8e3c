"""Real clients over HTTP, in both eras: the official SDK, the Inspector, curl, and Carrel's own command line."""

import asyncio
import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from httpx2 import AsyncClient
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.types import ResourceTemplateReference

from carrel.client import client as carrel_client
from tests.e2e.http_desk import HttpDesk, serving

NODE_BIN = Path(__file__).resolve().parents[2] / ".node/node_modules/.bin"
MAIN = "workspace:///lib/main.dart"
TEMPLATE = "workspace:///{+path}{?start,length,lines,outline}"
MODES = ("auto", "legacy")


@pytest.fixture(name="desk")
def http_desk(carrel: str, project: Path) -> Iterator[HttpDesk]:
    with serving(carrel, project) as desk:
        yield desk


def ask(desk: HttpDesk, mode: str, talk: Callable[[Client], Awaitable[None]], **options: Any) -> None:
    """Talk with the official client."""

    async def run() -> None:
        async with AsyncClient(headers=desk.headers) as http:
            transport = streamable_http_client(desk.url, http_client=http)
            async with Client(transport, mode=mode, read_timeout_seconds=30, **options) as client:
                await talk(client)

    asyncio.run(run())


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_official_client_reads_everything_that_is_listed(desk: HttpDesk, mode: str, version: str) -> None:
    async def talk(client: Client) -> None:
        assert client.protocol_version == version
        listed = (await client.list_resources()).resources
        assert [str(entry.uri) for entry in listed][:3] == ["carrel://guide", "carrel://catalog", "carrel://health"]
        assert MAIN in [str(entry.uri) for entry in listed]
        for entry in listed:
            contents = (await client.read_resource(str(entry.uri))).contents
            assert [(str(item.uri), item.mime_type) for item in contents] == [(str(entry.uri), entry.mime_type)]

    ask(desk, mode, talk)


@pytest.mark.parametrize("mode", MODES)
def test_the_official_client_completes_and_calls(desk: HttpDesk, project: Path, mode: str) -> None:
    async def talk(client: Client) -> None:
        templates = (await client.list_resource_templates()).resource_templates
        assert TEMPLATE in [one.uri_template for one in templates]
        reference = ResourceTemplateReference(type="ref/resource", uri=TEMPLATE)
        completed = await client.complete(reference, {"name": "path", "value": "lib/f"})
        assert completed.completion.values == ["lib/forecast.dart"]
        result = await client.call_tool("read_resource", {"uri": "workspace:///pubspec.yaml"})
        text = (project / "pubspec.yaml").read_text(encoding="utf-8")
        assert [getattr(block, "text", None) for block in result.content] == [text]

    ask(desk, mode, talk)


@pytest.mark.parametrize(("mode", "code"), [("auto", -32602), ("legacy", -32002)])
def test_what_is_missing_has_the_code_of_its_era(desk: HttpDesk, mode: str, code: int) -> None:
    async def talk(client: Client) -> None:
        with pytest.raises(MCPError) as caught:
            await client.read_resource("workspace:///lib/missing.dart")
        assert caught.value.error.code == code

    ask(desk, mode, talk)


def test_a_modern_listener_hears_of_a_change(desk: HttpDesk, project: Path) -> None:
    async def talk(client: Client) -> None:
        async with client.listen(resource_subscriptions=[MAIN]) as changes:
            (project / "lib/main.dart").write_text("void main() {}\n", encoding="utf-8")
            async for change in changes:
                assert change == ResourceUpdated(uri=MAIN)
                break

    ask(desk, "auto", talk)


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
def test_a_legacy_subscriber_hears_of_a_change(desk: HttpDesk, project: Path) -> None:
    heard: list[object] = []
    told = asyncio.Event()

    async def take(message: object) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            heard.append(str(getattr(message, "params", None)))
            told.set()

    async def talk(client: Client) -> None:
        await client.subscribe_resource(MAIN)
        (project / "lib/main.dart").write_text("void main() {}\n", encoding="utf-8")
        async with asyncio.timeout(10):
            await told.wait()

    ask(desk, "legacy", talk, message_handler=take)

    assert len(heard) == 1
    assert MAIN in str(heard[0])


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_the_inspector_lists_and_reads(desk: HttpDesk, tmp_path: Path, era: str) -> None:
    def inspect(*arguments: str) -> Any:
        environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{NODE_BIN}{os.pathsep}{os.environ['PATH']}"}
        command = [str(NODE_BIN / "mcp-inspector"), "--cli", desk.url, "--transport", "http", "--protocol-era", era]
        authorization = ["--header", f"Authorization: Bearer {desk.token}"]
        ran = subprocess.run(
            [*command, *authorization, *arguments, "--format", "json", "-q"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=environment,
        )
        assert ran.returncode == 0, ran.stderr
        printed = json.loads(ran.stdout)
        return printed.get("result", printed)

    assert inspect("--method", "resources/list")["resources"][0]["uri"] == "carrel://guide"
    assert (
        "name: weather_desk"
        in inspect("--method", "resources/read", "--uri", "workspace:///pubspec.yaml")["contents"][0]["text"]
    )


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_official_typescript_client_lists_and_reads(
    desk: HttpDesk, project: Path, tmp_path: Path, mode: str, version: str
) -> None:
    # Beside its packages, where Node looks for them.
    script = Path(
        shutil.copy(Path(__file__).parent / "typescript_client.mjs", NODE_BIN.parents[1] / f"{tmp_path.name}.mjs")
    )
    try:
        ran = subprocess.run(
            [str(NODE_BIN / "node"), str(script), desk.url, desk.token, mode, MAIN],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        script.unlink()

    with carrel_client.Client.at(desk.url, headers=desk.headers) as client:
        listed, templates = len(list(client.resources())), len(client.templates())
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told == {
        "version": version,
        "listed": listed,
        "templates": templates,
        "text": (project / "lib/main.dart").read_text("utf-8"),
        # It has one code for both eras, whatever came over the wire.
        "failure": -32602,
    }


def curl(*arguments: str) -> tuple[int, str]:
    """Run curl; return the status and the body."""
    tool = shutil.which("curl")
    if tool is None:
        pytest.skip("curl is not installed")
    command = [tool, "-s", "--max-time", "20", "-w", "\n%{http_code}", *arguments]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout
    body, _, status = printed.rpartition("\n")
    return int(status), body


def test_curl_reads_a_file_and_a_part_of_it(desk: HttpDesk, project: Path) -> None:
    token = ("-H", f"Authorization: Bearer {desk.token}")
    text = (project / "lib/main.dart").read_text("utf-8")

    assert curl(f"{desk.origin}/workspace/lib/main.dart", *token) == (200, text)
    assert curl(f"{desk.origin}/workspace/lib/main.dart", *token, "-r", "0-3") == (206, text[:4])
    assert curl(f"{desk.origin}/workspace/lib/main.dart")[0] == 401
    assert curl("--path-as-is", f"{desk.origin}/workspace/../../etc/passwd", *token)[0] in (400, 403, 404)
    assert curl(f"{desk.origin}/workspace/lib/main.dart", *token, "-H", "Host: evil.example")[0] == 421
    assert curl(f"{desk.origin}/workspace/lib/main.dart", *token, "-H", "Origin: https://evil.example")[0] == 403


def test_our_own_command_line_asks_over_http(desk: HttpDesk, carrel: str, project: Path) -> None:
    ran = subprocess.run(
        [carrel, "cat", MAIN, "--server", desk.url],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "CARREL_TOKEN": desk.token},
    )

    assert (ran.returncode, ran.stdout) == (0, (project / "lib/main.dart").read_text("utf-8"))


def test_without_a_token_only_loopback_is_served(carrel: str, project: Path) -> None:
    with (
        serving(carrel, project, "--no-token") as desk,
        urllib.request.urlopen(f"{desk.origin}/workspace/pubspec.yaml", timeout=20) as answer,
    ):
        assert answer.read() == (project / "pubspec.yaml").read_bytes()

    def refused(*flags: str) -> tuple[int, str]:
        environment = {**os.environ, "XDG_STATE_HOME": str(project.parent / "empty")}
        command = [carrel, "serve", "--project", str(project), *flags]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=environment)
        return ran.returncode, ran.stderr

    assert refused("--http", "0.0.0.0:0", "--no-token")[0] == 2
    code, told = refused("--http", "0.0.0.0:0", "--set", "http.hosts=desk.example")
    assert (code, "carrel token add" in told) == (2, True)
    assert "http.hosts" in refused("--http", "0.0.0.0:0")[1]
    assert refused("--no-token")[0] == 2


def test_a_project_file_cannot_open_the_doors(carrel: str, project: Path) -> None:
    (project / "carrel.toml").write_text(
        '[http]\nhosts = ["evil.example"]\norigins = ["https://evil.example"]\n', "utf-8"
    )
    with serving(carrel, project, "--no-token") as desk:
        assert curl(f"{desk.origin}/-/limits", "-H", "Host: evil.example")[0] == 421
        assert curl(f"{desk.origin}/-/limits", "-H", "Origin: https://evil.example")[0] == 403


def test_a_token_is_added_used_within_its_scope_and_revoked(desk: HttpDesk, carrel: str, project: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(project.parent / "state")}

    def token(*arguments: str) -> str:
        command = [carrel, "token", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()

    made = token("add", "ci", "--scope", "workspace:read")
    header = ("-H", f"Authorization: Bearer {made}")
    assert token("list") == "ci\tworkspace:read"

    def settles_at(path: str, status: int) -> bool:
        return any(curl(f"{desk.origin}{path}", *header)[0] == status for _ in range(300))

    assert settles_at("/workspace/pubspec.yaml", 200)
    assert curl(f"{desk.origin}/carrel/guide", *header)[0] == 403
    token("revoke", "ci")
    assert settles_at("/workspace/pubspec.yaml", 401)
