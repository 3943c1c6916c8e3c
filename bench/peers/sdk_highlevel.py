"""A peer: the official SDK's high-level server.

    python bench/peers/sdk_highlevel.py FOLDER ENTRIES PORT

Written as the SDK's own documentation writes such a server, in the fastest way it offers: what is in memory is its
`TextResource` or `BinaryResource`, files are read by an async function, so that no thread is asked.
"""

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resources import BinaryResource, TextResource

from bench.peers.served import (
    BLOB_TYPE,
    FILES,
    MEMORY,
    OTHERS,
    SIZES,
    TEMPLATES,
    TEXT_TYPE,
    Folder,
    Options,
    entries,
    options,
)


def build(given: Options) -> MCPServer:
    """Make the server."""
    server = MCPServer("sdk-highlevel", log_level="ERROR")
    folder = Folder(given.folder)
    for uri, name, description in entries(given.entries):
        server.add_resource(TextResource(uri=uri, name=name, description=description, mime_type=TEXT_TYPE, text=""))
    for name in list(SIZES)[:-1] if given.entries else ():
        data = folder.read(MEMORY + name)
        if isinstance(data, str):
            server.add_resource(TextResource(uri=MEMORY + name, name=name, mime_type=TEXT_TYPE, text=data))
        else:
            server.add_resource(BinaryResource(uri=MEMORY + name, name=name, mime_type=BLOB_TYPE, data=data))

    @server.resource(TEMPLATES[1], mime_type=TEXT_TYPE)
    async def files(name: str, start: str = "", length: str = "") -> str | bytes:
        return folder.read(f"{FILES}{name}?start={start}&length={length}" if start else FILES + name)

    async def nothing(name: str) -> str:
        return name

    for template in (TEMPLATES[0], *OTHERS):
        server.resource(template, mime_type=TEXT_TYPE)(nothing)
    return server


if __name__ == "__main__":
    asked = options()
    if asked.port:
        import uvicorn

        app = build(asked).streamable_http_app(json_response=True, stateless_http=True)
        uvicorn.run(app, port=asked.port, log_config=None, access_log=False)
    else:
        build(asked).run("stdio")
