"""Start the server on a sample project and read from it with the official MCP client.

`make demo` runs this. Every line of output comes from the server. With `--svg FILE`, show a few steps and save them as
a picture.
"""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any, cast

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.subscriptions import ResourceUpdated
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from examples.sample import BUILD, lay_out

CARREL = str(Path(sys.executable).parent / "carrel")
ETAG, CONDITION = "dev.carrel/etag", "dev.carrel/if-none-match"
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

PICTURE = next((sys.argv[at + 1] for at, word in enumerate(sys.argv[:-1]) if word == "--svg"), None)

console = Console(
    width=100 if PICTURE or not sys.stdout.isatty() else None, record=PICTURE is not None, highlight=False
)


numbers = count(1)


def step(title: str) -> None:
    """Print the heading of a step."""
    number = next(numbers)
    if not PICTURE or number > 1:
        console.print()
    console.rule(f"[bold]{number}. {title}", align="left", style="cyan")


def server(project: Path) -> StdioServerParameters:
    """Return the command with which a host starts Carrel; the search index goes away with the sample."""
    cache = {"XDG_CACHE_HOME": str(project.parent / "cache")}
    return StdioServerParameters(command=CARREL, args=["serve", "--quiet", "--project", str(project)], env=cache)


async def show_opening(project: Path) -> None:
    """Connect in both eras of the protocol."""
    step("A host connects: both protocol eras, one server")
    for mode, era in (("auto", "modern, stateless"), ("legacy", "legacy, with a handshake")):
        began = perf_counter()
        async with Client(server(project), mode=mode) as client:
            took = (perf_counter() - began) * 1000
            name = client.server_info.name if client.server_info else "?"
            console.print(f"  {name} speaks [bold]{client.protocol_version}[/] ({era}); connected in {took:.0f} ms")


async def show_list(client: Client) -> None:
    """List the resources."""
    step("What the server has: resources/list")
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="dim")
    for heading in ("URI", "bytes", "type"):
        table.add_column(heading, justify="right" if heading == "bytes" else "left")
    entries = (await client.list_resources()).resources
    first = {str(entry.uri).partition(":")[0]: entry for entry in reversed(entries)}
    shown = [entry for entry in entries if not PICTURE or entry in first.values()]
    for entry in shown:
        table.add_row(f"[cyan]{entry.uri}[/]", "" if entry.size is None else str(entry.size), entry.mime_type or "")
    console.print(table)
    if PICTURE:
        console.print(f"  [dim]… and {len(entries) - len(shown)} more[/]")
    else:
        console.print("  [dim]README.md and .env are missing: the preset for Flutter projects excludes them.[/]")


async def show_guide(client: Client) -> None:
    """Read the guide."""
    step("What a model reads first: carrel://guide")
    text = text_of(await client.read_resource("carrel://guide"))
    console.print(Panel(Syntax("\n".join(text.splitlines()[:12]) + "\n…", "markdown", word_wrap=True), style="dim"))


async def show_search(client: Client) -> None:
    """Search files, memory and tasks at once."""
    step("One search over all of it: the tool search")
    for query in ("secure storage", "forecast"):
        console.print(f"[bold]{query}[/]")
        found = await client.call_tool("search", {"query": query, "limit": 3})
        for block in found.content:
            if block.type == "text":
                console.print(f"[dim]{escape(block.text)}[/]")


async def show_parts(client: Client) -> None:
    """Read a file whole, by lines, by bytes, and again with its ETag."""
    step("A file, and parts of it")
    whole = await client.read_resource("workspace:///lib/main.dart")
    console.print("[dim]workspace:///lib/main.dart?lines=5-8[/]")
    lines = await client.read_resource("workspace:///lib/main.dart?lines=5-8")
    console.print(Syntax(text_of(lines).rstrip(), "dart", line_numbers=True, start_line=5))
    part = await client.read_resource("workspace:///lib/forecast.dart?start=43&length=38")
    meta = meta_of(part)
    console.print("[dim]workspace:///lib/forecast.dart?start=43&length=38[/]")
    console.print(f"  {text_of(part)!r}")
    console.print(
        f"  bytes {meta['dev.carrel/start']} to {meta['dev.carrel/start'] + meta['dev.carrel/length']} ", end=""
    )
    console.print(f"of {meta['dev.carrel/total']}; next part: [cyan]{meta['dev.carrel/next']}[/]")
    etag = meta_of(whole)[ETAG]
    condition = cast("Any", {CONDITION: etag})
    again = await client.read_resource("workspace:///lib/main.dart", meta=condition)
    console.print(f"  asked again with its ETag {etag}: status {meta_of(again)['dev.carrel/status']}, no content sent")


async def show_folder(client: Client) -> None:
    """Read a folder."""
    step("A folder is a resource too")
    for item in (await client.read_resource("workspace:///")).contents:
        console.print(f"  [cyan]{item.uri}[/]  [dim]{getattr(item, 'text', '') or 'folder'}[/]")


async def show_refusals(client: Client) -> None:
    """Read URIs that are refused."""
    step("Refused reads and their errors")
    for uri in ("workspace:///.env", "workspace:///../etc/passwd", "workspace:///lib/missing.dart"):
        try:
            await client.read_resource(uri)
        except MCPError as error:
            console.print(f"  [red]{error.error.code}[/] {error.error.message}")


async def show_change(client: Client, project: Path) -> None:
    """Subscribe to a file, change it, and get the notification."""
    step("Subscribers are notified of changes")
    uri = "workspace:///lib/forecast.dart"
    async with client.listen(resource_subscriptions=[uri]) as changes:
        console.print(f"  listening to [cyan]{uri}[/] …")
        path = project / "lib/forecast.dart"
        path.write_text(path.read_text(encoding="utf-8").replace("−4 °C", "+21 °C"), encoding="utf-8")
        began = perf_counter()
        async for change in changes:
            assert isinstance(change, ResourceUpdated)
            took = (perf_counter() - began) * 1000
            console.print(f"  notified after {took:.0f} ms: [cyan]{change.uri}[/] changed")
            break
    fresh = await client.read_resource(f"{uri}?lines=10", cache_mode="refresh")
    console.print(f"  it now reads: {text_of(fresh).strip()}")


async def show_scopes(client: Client, project: Path) -> None:
    """Show a hierarchy of tasks, change it on the command line, and get the notification."""
    step("Projects, epics and tasks: scopes://tree/project-alpha?depth=2")
    uri = "scopes://tree/project-alpha?depth=2"
    console.print(text_of(await client.read_resource(uri)), markup=False, highlight=False)
    async with client.listen(resource_subscriptions=[uri]) as changes:
        command = [CARREL, "scopes", "--project", str(project), "status", "task-1", "done"]
        ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
        console.print(f"  [dim]carrel scopes status task-1 done[/]  {ran.stdout.strip()}")
        async for change in changes:
            assert isinstance(change, ResourceUpdated)
            console.print(f"  notified: [cyan]{change.uri}[/] changed")
            break


async def show_algocline(client: Client) -> None:
    """Read the metadata of a Lua package, rows of a samples file and the newest round of a log."""
    step("Packages, Cards and logs of algocline")
    for uri in (
        "alc://packages/sketch/meta",
        "alc://cards/sketch_demo_1/samples?offset=1",
        "alc://logs/s-demo?limit=1",
        "alc://eval/not-an-eval",
    ):
        console.print(f"  [cyan]{uri}[/]")
        try:
            found = json.loads(text_of(await client.read_resource(uri)))
            # With spaces, so that lines break between words.
            console.print(Syntax(json.dumps(found, ensure_ascii=False), "json", word_wrap=True))
        except MCPError as error:
            console.print(f"  [red]{error.error.code}[/] {error.error.message}")


async def show_memory(client: Client) -> None:
    """Search the project's memory, then read an item."""
    step("Memory: search with a tool, read by mention")
    found = await client.call_tool("sage_search_checkpoints", {"query": "jwt auth"})
    for block in found.content:
        if block.type == "text":
            console.print(f"[dim]{block.text}[/]", markup=True)
    uri = "sage://checkpoint/jwt-research-2026-02-15"
    console.print(f"  [bold]you:[/] Based on @carrel:[cyan]{uri}[/], where do tokens go?")
    text = text_of(await client.read_resource(uri))
    console.print(Panel(Syntax(text.rstrip(), "markdown", word_wrap=True), style="dim"))
    console.print("  Do not make the same mistake, see @carrel:[cyan]sage://failure/jwt-localstorage[/]")
    console.print(Syntax(text_of(await client.read_resource("sage://failure/jwt-localstorage")).rstrip(), "markdown"))


async def show_log(client: Client, project: Path) -> None:
    """Run a build in a terminal, and follow its log as an assistant."""
    step("The output of a build in a terminal: carrel run")
    command = (CARREL, "run", "--kind", "build", "--name", "web", "--", "sh", "-c", BUILD)
    console.print("[dim]$ carrel run --kind build --name web -- …[/]")
    nowhere = asyncio.subprocess.DEVNULL
    build = await asyncio.create_subprocess_exec(*command, cwd=project, stdout=nowhere, stderr=nowhere)
    uri = ""
    while not uri:
        listed = (await client.list_resources(cache_mode="refresh")).resources
        uri = next((str(entry.uri) for entry in listed if str(entry.uri).startswith("logs://build/web_")), "")
    cursor, state = 0, "running"
    while state == "running":
        part = await client.read_resource(f"{uri}?since={cursor}&format=full", cache_mode="refresh")
        cursor, state = meta_of(part)["dev.carrel/cursor"], meta_of(part)["dev.carrel/state"]
        for line in text_of(part).splitlines():
            console.print(f"  [dim]{line[:24]}[/] {escape(line[25:])}", highlight=False)
        await asyncio.sleep(0.2)
    await build.wait()
    console.print(f"  [cyan]{uri}[/] stays, {cursor} entries, {state}")


STATION = """
from carrel import Resource
from carrel.providers.objects import Contents, TextContent

class Station:
    def capabilities(self): return ["resources"]
    def resources(self): return [Resource("station://roof/now", "now", "What the roof measures", "text/plain")]
    def resource_read(self, uri, arguments): return Contents([TextContent(uri, "", "Tromsø roof: -4.2 °C")])
"""


async def show_doors(project: Path) -> None:
    """Serve a Python object and another MCP server too."""
    step("More sources: a Python object and another MCP server")
    (project / "station.py").write_text(STATION, encoding="utf-8")
    other = project.parent / "other_desk"
    (other / "docs").mkdir(parents=True)
    (other / "docs/notes.md").write_text("# Notes of another desk\n", encoding="utf-8")
    mount = f"mounts.other.command={CARREL},serve,--quiet,--only,workspace,--project,{other}"
    flags = ["--object", "station:Station", "--set", mount]
    parameters = StdioServerParameters(command=CARREL, args=["serve", "--quiet", "--project", str(project), *flags])
    async with Client(parameters) as client:
        for entry in (await client.list_resources()).resources:
            if str(entry.uri).startswith(("station:", "other+workspace:")):
                text = text_of(await client.read_resource(str(entry.uri)))
                console.print(f"  [cyan]{entry.uri}[/]  [dim]{text.strip()}[/]")


def text_of(result: Any) -> str:
    """Return the text of a read."""
    return str(result.contents[0].text)


def meta_of(result: Any) -> dict[str, Any]:
    """Return the `_meta` of the first item of a read."""
    return dict(result.contents[0].meta or {})


async def show_everything(project: Path) -> None:
    """Show every step."""
    console.print(
        Panel("[bold]Carrel[/] serves a sample Flutter project, and the official MCP client reads it", expand=False)
    )
    await show_opening(project)
    async with Client(server(project)) as client:
        await show_list(client)
        await show_guide(client)
        await show_search(client)
        await show_parts(client)
        await show_folder(client)
        await show_refusals(client)
        await show_change(client, project)
        await show_scopes(client, project)
        await show_algocline(client)
        await show_memory(client)
        await show_log(client, project)
    await show_doors(project)
    console.print()
    console.print(
        r"Try it on a project of yours: [bold]pipx install '.\[outline]'[/], then [bold]carrel[/] in its folder"
    )


async def show_some(project: Path) -> None:
    """Show the steps that fit into one picture."""
    await show_opening(project)
    async with Client(server(project)) as client:
        await show_list(client)
        await show_parts(client)
        await show_scopes(client, project)
        await show_log(client, project)
    console.print()  # without it the last line's underscores are cut off


def keep_picture(path: str) -> None:
    """Save the output as a picture that loads no fonts from the network."""
    drawn = console.export_svg(title="make demo", unique_id="demo")
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL).replace("Fira Code, monospace", FONTS)
    Path(path).write_text(drawn, encoding="utf-8")


def main() -> None:
    """Run the demonstration on a temporary sample project."""
    with tempfile.TemporaryDirectory(prefix="carrel-demo-") as folder:
        project = Path(folder) / "weather_desk"
        lay_out(project)
        asyncio.run(show_some(project) if PICTURE else show_everything(project))
    if PICTURE:
        keep_picture(PICTURE)


if __name__ == "__main__":
    main()
