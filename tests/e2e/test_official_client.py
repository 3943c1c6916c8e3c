"""The official Python SDK's client against the installed `carrel serve`, in both eras."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import groupby
from pathlib import Path

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.subscriptions import ResourceUpdated
from mcp.types import ResourceTemplateReference

TEMPLATE = "workspace:///{+path}{?start,length,lines,outline}"
MODES = ("auto", "legacy")


def ask(carrel: str, project: Path, mode: str, talk: Callable[[Client], Awaitable[None]]) -> None:
    """Start the server as a host does, and talk to it."""

    async def run() -> None:
        parameters = StdioServerParameters(command=carrel, args=["serve", "--quiet"], cwd=project)
        async with Client(parameters, mode=mode, read_timeout_seconds=30) as client:
            await talk(client)

    asyncio.run(run())


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_client_agrees_on_its_version_and_sees_what_is_declared(
    carrel: str, project: Path, mode: str, version: str
) -> None:
    async def talk(client: Client) -> None:
        capabilities = client.server_capabilities
        assert capabilities is not None
        assert client.protocol_version == version
        assert client.server_info is not None
        assert client.server_info.name == "carrel"
        assert capabilities.resources is not None
        assert capabilities.resources.subscribe is True
        assert capabilities.completions is not None
        assert client.instructions is not None
        assert "carrel://guide" in client.instructions

    ask(carrel, project, mode, talk)


@pytest.mark.parametrize("mode", MODES)
def test_everything_listed_can_be_read(carrel: str, project: Path, mode: str) -> None:
    async def talk(client: Client) -> None:
        listed = (await client.list_resources()).resources
        uris = [str(entry.uri) for entry in listed]
        assert uris[:3] == ["carrel://guide", "carrel://catalog", "carrel://health"]
        # First the documents a newcomer opens, last the other files.
        assert [scheme for scheme, _ in groupby(uri.partition("://")[0] for uri in uris[3:])] == [
            "workspace",
            "sage",
            "scopes",
            "alc",
            "workspace",
        ]
        assert sorted(uri for uri in uris if uri.startswith("workspace:")) == [
            "workspace:///analysis_options.yaml",
            "workspace:///android/app/build.gradle.kts",
            "workspace:///ios/Runner/AppDelegate.swift",
            "workspace:///lib/forecast.dart",
            "workspace:///lib/main.dart",
            "workspace:///pubspec.yaml",
            "workspace:///test/forecast_test.dart",
        ]
        for entry in listed:
            contents = (await client.read_resource(str(entry.uri))).contents
            assert [(str(item.uri), item.mime_type) for item in contents] == [(str(entry.uri), entry.mime_type)]

    ask(carrel, project, mode, talk)


@pytest.mark.parametrize("mode", MODES)
def test_a_file_arrives_byte_for_byte(carrel: str, project: Path, mode: str) -> None:
    async def talk(client: Client) -> None:
        result = await client.read_resource("workspace:///lib/main.dart")
        assert getattr(result.contents[0], "text", None) == (project / "lib/main.dart").read_text(encoding="utf-8")

    ask(carrel, project, mode, talk)


@pytest.mark.parametrize("mode", MODES)
def test_templates_are_listed_and_completed(carrel: str, project: Path, mode: str) -> None:
    async def talk(client: Client) -> None:
        templates = (await client.list_resource_templates()).resource_templates
        assert TEMPLATE in [template.uri_template for template in templates]
        completed = await client.complete(
            ResourceTemplateReference(type="ref/resource", uri=TEMPLATE), {"name": "path", "value": "lib/f"}
        )
        assert completed.completion.values == ["lib/forecast.dart"]

    ask(carrel, project, mode, talk)


@pytest.mark.parametrize(("mode", "code"), [("auto", -32602), ("legacy", -32002)])
def test_what_is_missing_has_the_code_of_its_era(carrel: str, project: Path, mode: str, code: int) -> None:
    async def talk(client: Client) -> None:
        with pytest.raises(MCPError) as caught:
            await client.read_resource("workspace:///lib/missing.dart")
        assert caught.value.error.code == code
        assert caught.value.error.message.startswith("Resource not found: workspace:///lib/missing.dart; did you mean ")

    ask(carrel, project, mode, talk)


@pytest.mark.parametrize("mode", MODES)
def test_the_mirror_reads_for_hosts_that_know_only_tools(carrel: str, project: Path, mode: str) -> None:
    async def talk(client: Client) -> None:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools][-2:] == ["list_resources", "read_resource"]
        result = await client.call_tool("read_resource", {"uri": "workspace:///pubspec.yaml"})
        assert [getattr(block, "text", None) for block in result.content] == [
            (project / "pubspec.yaml").read_text(encoding="utf-8")
        ]

    ask(carrel, project, mode, talk)


def test_a_modern_listener_hears_of_a_change(carrel: str, project: Path) -> None:
    async def talk(client: Client) -> None:
        uri = "workspace:///lib/main.dart"
        async with client.listen(resource_subscriptions=[uri]) as changes:
            (project / "lib/main.dart").write_text("void main() {}\n", encoding="utf-8")
            async for change in changes:
                assert change == ResourceUpdated(uri=uri)
                break

    ask(carrel, project, "auto", talk)


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
def test_a_legacy_subscriber_hears_of_a_change(carrel: str, project: Path) -> None:
    uri = "workspace:///lib/main.dart"
    heard: list[str] = []

    async def run() -> None:
        told = asyncio.Event()

        async def take(message: object) -> None:
            if getattr(message, "method", "") == "notifications/resources/updated":
                heard.append(str(message.params.uri))  # type: ignore[attr-defined]
                told.set()

        parameters = StdioServerParameters(command=carrel, args=["serve", "--quiet"], cwd=project)
        async with Client(parameters, mode="legacy", message_handler=take) as client:
            await client.subscribe_resource(uri)
            (project / "lib/main.dart").write_text("void main() {}\n", encoding="utf-8")
            async with asyncio.timeout(10):
                await told.wait()

    asyncio.run(run())

    assert heard == [uri]


@pytest.mark.parametrize("mode", MODES)
def test_the_hierarchy_of_tasks_is_read_completed_and_called(carrel: str, project: Path, mode: str) -> None:
    async def talk(client: Client) -> None:
        uri = "scopes://tree/project-alpha?depth=2"
        shown = (await client.read_resource(uri)).contents[0]
        assert (str(shown.uri), getattr(shown, "text", "").splitlines()[-1]) == (
            uri,
            "    └── task-3 (Design UI) [TODO]",
        )
        completed = await client.complete(
            ResourceTemplateReference(type="ref/resource", uri="scopes://scope/{alias}"),
            {"name": "alias", "value": "feat"},
        )
        assert completed.completion.values == ["feature-x", "feature-y"]
        called = await client.call_tool("aliases.resolve", {"alias": "TASK-1"})
        assert called.structured_content == {
            "alias": "task-1",
            "canonicalAlias": "task-1",
            "title": "Implement API",
            "status": "TODO",
        }

    ask(carrel, project, mode, talk)
