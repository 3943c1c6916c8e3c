"""A peer: the official SDK's low-level server.

    python bench/peers/sdk_lowlevel.py FOLDER ENTRIES PORT

Written as the SDK's own documentation writes such a server, in the fastest way it offers: the list is made of the
SDK's values beforehand, files are read where the call arrives, HTTP is stateless and answers with JSON. The SDK has
neither conditional reads nor ranges; an author can add both by hand, as here.
"""

from base64 import b64encode

import anyio
from mcp.server import Server, ServerRequestContext
from mcp_types import (
    BlobResourceContents,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from bench.peers.served import (
    BLOB_TYPE,
    CONDITION,
    ETAG,
    PAGE,
    STATUS,
    TEMPLATES,
    TEXT_TYPE,
    Folder,
    Options,
    entries,
    options,
)

Context = ServerRequestContext[object]


def build(given: Options) -> Server[object]:
    """Make the server."""
    folder = Folder(given.folder)
    listed = [
        Resource(uri=uri, name=name, description=description, mime_type=TEXT_TYPE)
        for uri, name, description in entries(given.entries)
    ]
    templates = [ResourceTemplate(uri_template=template, name=template.split("/")[2]) for template in TEMPLATES]

    async def list_resources(_: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        start = int(params.cursor) if params and params.cursor else 0
        end = start + PAGE
        return ListResourcesResult(resources=listed[start:end], next_cursor=str(end) if end < len(listed) else None)

    async def list_templates(_: Context, __: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=templates)

    async def read_resource(_: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        condition = (params.meta or {}).get(CONDITION)
        meta = None
        if condition is not None:
            meta = {ETAG: folder.etag(params.uri)}
            if condition == meta[ETAG]:
                unchanged = TextResourceContents(
                    uri=params.uri, mime_type=TEXT_TYPE, text="", _meta={**meta, STATUS: 304}
                )
                return ReadResourceResult(contents=[unchanged])
        data = folder.read(params.uri)
        if isinstance(data, str):
            text = TextResourceContents(uri=params.uri, mime_type=TEXT_TYPE, text=data, _meta=meta)
            return ReadResourceResult(contents=[text])
        blob = BlobResourceContents(uri=params.uri, mime_type=BLOB_TYPE, blob=b64encode(data).decode(), _meta=meta)
        return ReadResourceResult(contents=[blob])

    return Server(
        "sdk-lowlevel",
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


async def serve_stdio(server: Server[object]) -> None:
    """Serve on the standard streams until they end."""
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


def main() -> None:
    """Serve until input ends, or on the port until the process is ended."""
    given = options()
    server = build(given)
    if not given.port:
        anyio.run(serve_stdio, server)
        return
    import uvicorn

    app = server.streamable_http_app(json_response=True, stateless_http=True)
    uvicorn.run(app, port=given.port, log_config=None, access_log=False)


if __name__ == "__main__":
    main()
