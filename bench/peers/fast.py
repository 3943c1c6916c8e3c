"""A peer: FastMCP.

    python bench/peers/fast.py FOLDER ENTRIES PORT

Written as its own documentation writes such a server, in the fastest way it offers: what is in memory is its
`TextResource` or `BinaryResource`, files are read by an async function, so that no thread is asked.
"""

from fastmcp import FastMCP
from fastmcp.resources import BinaryResource, TextResource

from bench.peers.served import (
    BLOB_TYPE,
    FILES,
    MEMORY,
    OTHERS,
    PAGE,
    SIZES,
    TEMPLATES,
    TEXT_TYPE,
    Folder,
    Options,
    entries,
    options,
)


def build(given: Options) -> FastMCP:
    """Make the server."""
    server = FastMCP("fastmcp", list_page_size=PAGE + len(SIZES))
    folder = Folder(given.folder)
    for uri, name, description in entries(given.entries):
        server.add_resource(TextResource(uri=uri, name=name, description=description, mime_type=TEXT_TYPE, text=""))
    for name in list(SIZES)[:-1] if given.entries else ():
        data = folder.read(MEMORY + name)
        if isinstance(data, str):
            server.add_resource(TextResource(uri=MEMORY + name, name=name, mime_type=TEXT_TYPE, text=data))
        else:
            server.add_resource(BinaryResource(uri=MEMORY + name, name=name, mime_type=BLOB_TYPE, data=data))

    async def files(name: str, start: str = "", length: str = "") -> str | bytes:
        return folder.read(f"{FILES}{name}?start={start}&length={length}" if start else FILES + name)

    async def nothing(name: str) -> str:
        return name

    server.resource(TEMPLATES[1], mime_type=TEXT_TYPE)(files)
    for template in (TEMPLATES[0], *OTHERS):
        server.resource(template, mime_type=TEXT_TYPE)(nothing)
    return server


if __name__ == "__main__":
    asked = options()
    if asked.port:
        import uvicorn

        app = build(asked).http_app(path="/mcp", json_response=True, stateless_http=True)
        uvicorn.run(app, port=asked.port, log_config=None, access_log=False)
    else:
        build(asked).run("stdio", show_banner=False)
