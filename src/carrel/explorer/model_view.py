"""The page with the model's view: the message of a client, and the exact answer of the server."""

import json

from carrel.core.tokens import estimate_tokens
from carrel.explorer import exact
from carrel.explorer.addresses import Addresses, address_about
from carrel.explorer.leaves import Leaf
from carrel.explorer.rendering.markup import visible_json
from carrel.server.server import Server


def leaf(server: Server, addresses: Addresses, uri: str) -> Leaf:
    """Return the answer of the protocol to a read of a URI; an error is an answer too."""
    answered = exact.answer(server, uri)
    answer = json.loads(answered)
    text = answered.decode("utf-8", "replace")
    is_whole = len(text) <= exact.MAX_SHOWN
    view = {
        "uri": uri,
        "question": visible_json(json.dumps(exact.question(uri), ensure_ascii=False)),
        "answer": visible_json(text if is_whole else text[: exact.MAX_SHOWN]),
        "is_whole": is_whole,
        "length": len(answered),
        "tokens": estimate_tokens(text[: exact.MAX_SHOWN]),
        "address": addresses.page(uri),
        "crumbs": [],
    }
    as_json, as_md = (address_about("model", uri, twin) for twin in (".json", ".md"))
    return Leaf("model", "As the model sees it", answer, as_json, as_md, view)
