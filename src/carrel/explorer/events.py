"""The event stream of pages: a message for each change of the URIs that a page shows.

    GET /-/events?uri=workspace:///a&uri=logs://run/b

Each event is `{"uri": …}`. It is the mechanism of subscriptions: what the caller may not read is not watched.
"""

import asyncio
from functools import partial
from typing import Final

from carrel.core.errors import BadArgument
from carrel.core.uri import pairs
from carrel.protocol import jsonrpc
from carrel.server.server import Server
from carrel.transports.http.app import App
from carrel.transports.http.asgi import Request
from carrel.transports.http.sse import Outbox, expiring, stream

_MOST: Final = 32


def watched(query: bytes) -> list[str]:
    """Return the URIs that are to be watched; raise BadArgument if there are none, or too many."""
    try:
        uris = [value for name, value in pairs(query.decode()) if name == "uri"]
    except UnicodeDecodeError:
        raise BadArgument("The query is not UTF-8", data={"parameter": "uri"}) from None
    if not uris or len(uris) > _MOST:
        raise BadArgument(f"Name the URIs to watch, as in /-/events?uri=…, at most {_MOST} of them")
    return uris


async def answer(request: Request, server: Server, app: App, uris: list[str]) -> None:
    """Send an event for each change until the client leaves, or its token or cookie is not valid any more."""
    if request.method == "HEAD":
        await request.reply(200, b"", (b"content-type", b"text/event-stream"))
        return
    with app.threads.streaming(request.access) as may_stream:
        if not may_stream:
            await request.refuse(429, "Too many streams are open: close one first", (b"retry-after", b"1"))
            return
        outbox = Outbox()

        def notify(uri: str) -> None:
            outbox.put(jsonrpc.plain({"uri": uri}))

        subscribe = partial(server.watcher.subscribe, notify, uris)
        subscription = await app.threads.call(request.access, subscribe, lambda late: late.close(), owner="events")
        app.outboxes.add(outbox)
        gone = asyncio.ensure_future(request.until_gone())
        gone.add_done_callback(lambda _: outbox.finish())
        try:
            subscription.start()
            with expiring(request, outbox):
                await stream(request, outbox, lambda: gone.done() or app.is_shut_out(request))
        finally:
            app.outboxes.discard(outbox)
            gone.cancel()
            subscription.close()
