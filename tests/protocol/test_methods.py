"""Which error a request gets, and in which order things are checked; which wire error each of ours becomes."""

import json
from typing import Any

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.errors import ProtocolError
from carrel.protocol import eras, jsonrpc, methods
from carrel.protocol.eras import Era
from carrel.server.server import Server
from tests.support.memory_provider import PROVIDER_WORDS, Memory
from tests.support.schemas import LEGACY, MODERN, Conversation, check

SERVED = {era: eras.served(era, completes=True, calls=True) for era in Era}
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
GOOD = {VERSION: MODERN, CAPABILITIES: {}}
SURROGATE = "\ud800"
"""Python spells it as an escape that no decoder may take."""


@pytest.fixture
def client() -> Conversation:
    return Conversation(Server(Catalog([Memory()])))


def said(client: Conversation, message: object) -> Any:
    """Return the error that a message, however wrong, is answered with."""
    answer = client.say(json.dumps(message).encode())
    assert answer is not None
    return check(answer, MODERN, None)


def request(method: str, params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 9, "method": method, "params": params}


# The order of the checks. Each message has every later fault as well; the first one answers.

UNKNOWN_LEVEL = {LOG_LEVEL: "loud"}
IN_ORDER: dict[str, tuple[object, int, str]] = {
    "parse": ({**request("nope", {"uri": SURROGATE}), "jsonrpc": "1.0"}, -32700, "Parse error: not valid JSON"),
    "shape": (
        {**request("nope", {"_meta": {VERSION: "v9"}}), "jsonrpc": "1.0"},
        -32600,
        "Invalid request: jsonrpc must be 2.0",
    ),
    "no _meta": (
        request("subscriptions/listen", {"notifications": 5}),
        -32602,
        f"Missing or malformed in params._meta: {VERSION}",
    ),
    "no version": (
        request("subscriptions/listen", {"_meta": {CAPABILITIES: {}}, "notifications": 5}),
        -32602,
        f"Missing or malformed in params._meta: {VERSION}",
    ),
    "no capabilities": (
        request("nope", {"_meta": {VERSION: "v9", **UNKNOWN_LEVEL}}),
        -32602,
        f"Missing or malformed in params._meta: {CAPABILITIES}",
    ),
    "capabilities of another kind": (
        request("nope", {"_meta": {VERSION: "v9", CAPABILITIES: []}}),
        -32602,
        f"Missing or malformed in params._meta: {CAPABILITIES}",
    ),
    "version": (
        request("nope", {"_meta": {VERSION: "v9", CAPABILITIES: {}, **UNKNOWN_LEVEL}, "uri": 5}),
        -32022,
        "Unsupported protocol version",
    ),
    "version, of a method that exists": (
        request("resources/read", {"_meta": {VERSION: "v9", CAPABILITIES: {}}, "uri": 5}),
        -32022,
        "Unsupported protocol version",
    ),
    "method": (request("nope", {"_meta": {**GOOD, **UNKNOWN_LEVEL}, "uri": 5}), -32601, "Method not found: nope"),
    "method of the other era": (
        request("resources/subscribe", {"_meta": {**GOOD, **UNKNOWN_LEVEL}, "uri": 5}),
        -32601,
        "Method not found: resources/subscribe",
    ),
    "params": (request("resources/read", {"_meta": GOOD, "uri": 5}), -32602, "Invalid parameter: uri"),
    "log level": (
        request("resources/read", {"_meta": {**GOOD, **UNKNOWN_LEVEL}, "uri": "test:///plain"}),
        -32602,
        f"Invalid parameter: {LOG_LEVEL}",
    ),
}


@pytest.mark.parametrize(("message", "code", "text"), IN_ORDER.values(), ids=IN_ORDER.keys())
def test_the_first_fault_answers(client: Conversation, message: object, code: int, text: str) -> None:
    error = said(client, message)["error"]

    assert (error["code"], error["message"]) == (code, text)


@pytest.mark.parametrize(
    ("message", "request_id"),
    [
        (IN_ORDER["parse"][0], None),
        *[(message, 9) for name, (message, _, _) in IN_ORDER.items() if name != "parse"],
        ({**request("ping", {}), "id": True}, None),
        ({**request("ping", {}), "id": None}, None),
        ({**request("nope", {}), "id": "a"}, "a"),
    ],
)
def test_an_error_repeats_the_id_or_leaves_the_key_out(
    client: Conversation, message: object, request_id: object
) -> None:
    answer = said(client, message)

    assert ("id" in answer, answer.get("id")) == (request_id is not None, request_id)


def test_an_unknown_version_is_told_what_there_is(client: Conversation) -> None:
    message = request("server/discover", {"_meta": {VERSION: "v999.0.0", CAPABILITIES: {}}})

    assert said(client, message)["error"] == {
        "code": -32022,
        "message": "Unsupported protocol version",
        "data": {"supported": [MODERN], "requested": "v999.0.0", "dev.carrel/error": "invalid"},
    }


def test_a_version_of_megabytes_is_not_sent_back_whole(client: Conversation) -> None:
    message = request("server/discover", {"_meta": {VERSION: "v" * 1_000_000, CAPABILITIES: {}}})

    assert said(client, message)["error"]["data"]["requested"] == "v" * 200 + "…"


@pytest.mark.parametrize("method", ["server/discover", "subscriptions/listen"])
@pytest.mark.parametrize("params", [{}, {"_meta": {}}, {"_meta": None}, {"_meta": 5}, [], None, 5, "x"])
def test_what_is_modern_by_its_name_needs_its_meta(client: Conversation, method: str, params: object) -> None:
    error = said(client, request(method, params))["error"]

    assert error == {
        "code": -32602,
        "message": f"Missing or malformed in params._meta: {VERSION}",
        "data": {"parameter": VERSION, "dev.carrel/error": "invalid"},
    }


def test_discover_without_params_is_told_what_is_missing(client: Conversation) -> None:
    error = said(client, {"jsonrpc": "2.0", "id": 1, "method": "server/discover"})["error"]

    assert (error["code"], error["data"]["parameter"]) == (-32602, VERSION)


# Which era


@pytest.mark.parametrize(
    ("method", "meta", "era"),
    [
        ("server/discover", {}, Era.MODERN),
        ("subscriptions/listen", {}, Era.MODERN),
        ("initialize", {}, Era.LEGACY),
        ("initialize", {VERSION: MODERN}, Era.LEGACY),
        ("resources/list", {}, Era.LEGACY),
        ("resources/list", {CAPABILITIES: {}}, Era.LEGACY),
        ("resources/list", {VERSION: MODERN}, Era.MODERN),
        ("resources/list", {VERSION: LEGACY}, Era.MODERN),
        ("resources/list", {VERSION: 5}, Era.MODERN),
        ("nope", {VERSION: "x"}, Era.MODERN),
        ("nope", {}, Era.LEGACY),
    ],
)
def test_the_era_is_decided_by_the_method_or_the_meta(method: str, meta: dict[str, object], era: Era) -> None:
    message = jsonrpc.decode(json.dumps(request(method, {"_meta": meta})).encode())

    assert isinstance(message, jsonrpc.Message)
    assert methods.era_of(message) == era


@pytest.mark.parametrize("params", ["[]", "5", "null", '"x"', '{"_meta":[]}', '{"_meta":null}'])
def test_a_message_without_a_readable_meta_is_legacy(params: str) -> None:
    message = jsonrpc.decode(b'{"jsonrpc":"2.0","id":1,"method":"x","params":' + params.encode() + b"}")

    assert isinstance(message, jsonrpc.Message)
    assert methods.era_of(message) == Era.LEGACY


# Parameters


WRONG: list[tuple[str, object, str]] = [
    ("resources/read", {}, "uri"),
    ("resources/read", {"uri": None}, "uri"),
    ("resources/read", {"uri": 5}, "uri"),
    ("resources/read", [], "params"),
    ("resources/list", {"cursor": 5}, "cursor"),
    ("resources/templates/list", {"cursor": []}, "cursor"),
    ("tools/list", {"cursor": True}, "cursor"),
    ("completion/complete", {"argument": {"name": "id", "value": ""}}, "ref"),
    ("completion/complete", {"ref": {"type": "ref/resource"}}, "argument"),
    ("completion/complete", {"ref": 5, "argument": {"name": "id", "value": ""}}, "ref"),
    ("completion/complete", {"ref": {"type": "ref/resource", "uri": 5}, "argument": {}}, "ref.uri"),
    ("completion/complete", {"ref": {"type": "ref/resource"}, "argument": {"name": "id"}}, "value"),
    (
        "completion/complete",
        {"ref": {"type": "r"}, "argument": {"name": "", "value": ""}, "context": {"arguments": {"a": 5}}},
        "context.arguments[...]",
    ),
    ("tools/call", {}, "name"),
    ("tools/call", {"name": 5}, "name"),
    ("tools/call", {"name": "echo", "arguments": []}, "arguments"),
    ("resources/list", {"_meta": {"progressToken": 1.5}}, "progressToken"),
    ("resources/list", {"_meta": {"progressToken": True}}, "progressToken"),
]


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize(("method", "params", "parameter"), WRONG)
def test_a_wrong_parameter_is_named(
    client: Conversation, method: str, params: Any, parameter: str, version: str
) -> None:
    if version == MODERN:
        if not isinstance(params, dict):
            return
        params = {**params, "_meta": {**GOOD, **params.get("_meta", {})}}

    assert said(client, request(method, params))["error"] == {
        "code": -32602,
        "message": f"Invalid parameter: {parameter}",
        "data": {"name": "MCP_INVALID_PARAMS", "parameter": parameter, "dev.carrel/error": "invalid"},
    }


@pytest.mark.parametrize("name", ["start", "length"])
@pytest.mark.parametrize("value", [-1, 1.5, 1.0, "10", True, [], {}])
def test_a_range_that_is_no_whole_number_is_named_with_its_uri(client: Conversation, name: str, value: object) -> None:
    told = {"name": "MCP_INVALID_PARAMS", "parameter": name, "uri": "test:///plain", "dev.carrel/error": "invalid"}

    assert said(client, request("resources/read", {"uri": "test:///plain", name: value}))["error"] == {
        "code": -32602,
        "message": f"Invalid parameter: {name}={json.dumps(value)} (expected a whole number, 0 or more)",
        "data": told,
    }


@pytest.mark.parametrize("value", [None, 5, True, [], ["a"], {}])
def test_a_condition_that_is_no_string_is_named(client: Conversation, value: object) -> None:
    params = {"uri": "test:///plain", "_meta": {"dev.carrel/if-none-match": value}}

    assert said(client, request("resources/read", params))["error"]["data"] == {
        "error": "Invalid parameter: dev.carrel/if-none-match",
        "status": 400,
        "name": "MCP_INVALID_PARAMS",
        "parameter": "dev.carrel/if-none-match",
        "uri": "test:///plain",
        "dev.carrel/error": "invalid",
    }


@pytest.mark.parametrize("level", [*sorted(eras.LOG_LEVELS)])
def test_a_known_log_level_changes_nothing(client: Conversation, level: str) -> None:
    params = {"uri": "test:///plain", "_meta": {LOG_LEVEL: level}}

    assert client.ask("resources/read", params) == client.ask("resources/read", {"uri": "test:///plain"})


def test_more_uris_than_a_subscription_holds_are_refused(client: Conversation) -> None:
    wanted = {"resourceSubscriptions": ["test:///plain"] * 1_025}

    error = client.ask("subscriptions/listen", {"notifications": wanted})

    assert (error["code"], error["data"]["parameter"]) == (-32602, "notifications.resourceSubscriptions")


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_unknown_extra_parameters_break_nothing(client: Conversation, version: str) -> None:
    extra = {"limit": 5, "é": [{}], "_meta": {"com.example/x": 1, "traceparent": "00-x", "baggage": "a=b"}}

    for method, params in (
        ("resources/list", {}),
        ("resources/read", {"uri": "test:///plain"}),
        ("resources/templates/list", {}),
        ("tools/list", {}),
    ):
        plain = client.ask(method, params, version=version)
        assert client.ask(method, {**params, **extra}, version=version) == plain


@pytest.mark.parametrize(
    ("params", "key"),
    [
        ('{"requestId":5}', 5),
        ('{"requestId":"a","reason":"late"}', "a"),
        ('{"requestId":true}', None),
        ('{"requestId":null}', None),
        ('{"requestId":1.5}', None),
        ("{}", None),
        ("[]", None),
        ("5", None),
    ],
)
def test_a_cancellation_names_a_request_or_none(params: str, key: int | str | None) -> None:
    message = jsonrpc.decode(f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}'.encode())

    assert isinstance(message, jsonrpc.Message)
    assert methods.cancelled_key(message) == key


def test_params_are_typed() -> None:
    message = jsonrpc.decode(
        json.dumps(
            request("resources/read", {"uri": "a:b", "start": 5, "_meta": {**GOOD, "progressToken": 7}})
        ).encode()
    )
    assert isinstance(message, jsonrpc.Message)

    call = methods.parse(message, SERVED)

    assert call == methods.ParsedCall(
        b"9",
        9,
        "resources/read",
        Era.MODERN,
        methods.Read(uri="a:b", start=5, meta=methods.Meta(version=MODERN, capabilities={}, progress_token=7)),
    )


def test_a_method_that_is_not_served_is_unknown() -> None:
    message = jsonrpc.decode(json.dumps(request("tools/list", {})).encode())
    assert isinstance(message, jsonrpc.Message)

    with pytest.raises(ProtocolError) as caught:
        methods.parse(message, {era: eras.served(era, completes=True, calls=False) for era in Era})

    assert (caught.value.code, caught.value.message) == (-32601, "Method not found: tools/list")


# Which wire error each of ours becomes

BROKEN = "It broke"
INVALID = {"dev.carrel/error": "invalid", "name": "MCP_INVALID_PARAMS"}
ABSENT = {"dev.carrel/error": "not_found", "name": "MCP_NOT_FOUND"}
DENIED = {"dev.carrel/error": "denied", "name": "MCP_PERMISSION_DENIED", "reason": "outside"}
LARGE = {"dev.carrel/error": "too_large", "name": "MCP_TOO_LARGE", "size": 9, "limit": 8, "suggested": "test:///big/8"}
ERRORS: dict[str, tuple[int, int, str, dict[str, object]]] = {
    "not_found": (-32602, -32002, "Resource not found: test:///error/not_found", {**ABSENT}),
    "not_found_named": (-32602, -32002, "No such note", {**ABSENT, "name": "NO_SUCH_NOTE"}),
    "denied": (-32803, -32803, "Access denied", {**DENIED}),
    "bad_argument": (-32602, -32602, "tail must be a number", {**INVALID, "parameter": "tail"}),
    "own_code": (-31_000, -31_000, "As its page says", {**INVALID}),
    "too_large": (-32802, -32802, "Too large", {**LARGE}),
    **{word: (-32603, -32603, BROKEN, {"dev.carrel/error": word}) for word in PROVIDER_WORDS},
    "whatever": (-32603, -32603, "Internal error", {"dev.carrel/error": "internal"}),
    "surrogate": (-32603, -32603, "Internal error", {"dev.carrel/error": "internal"}),
}


@pytest.mark.parametrize(("kind", "row"), ERRORS.items(), ids=ERRORS.keys())
def test_each_error_has_its_code_word_and_uri_in_both_eras(
    client: Conversation, kind: str, row: tuple[int, int, str, dict[str, object]]
) -> None:
    modern, legacy, message, data = row
    uri = f"test:///error/{kind}"

    for version, code in ((MODERN, modern), (LEGACY, legacy)):
        assert client.ask("resources/read", {"uri": uri}, version=version) == {
            "code": code,
            "message": message,
            "data": {**data, "uri": uri},
        }


@pytest.mark.parametrize(
    "uri", ["test:///note/none?start=1", "TEST:///note/none", "test:///nowhere?length=5", "test:///query/a?start=1&x=2"]
)
def test_an_error_names_the_uri_as_it_was_asked_for(client: Conversation, uri: str) -> None:
    for version in (MODERN, LEGACY):
        assert client.ask("resources/read", {"uri": uri}, version=version)["data"]["uri"] == uri


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize(
    ("method", "params", "data"),
    [
        ("resources/read", {"uri": ""}, {"parameter": "uri", "uri": ""}),
        ("resources/read", {"uri": "plain"}, {"parameter": "uri", "uri": "plain"}),
        ("resources/read", {"uri": "other:///x"}, {"name": "MCP_NOT_FOUND", "uri": "other:///x"}),
        ("resources/read", {"uri": "test:///a%"}, {"parameter": "uri", "uri": "test:///a%"}),
        ("resources/read", {"uri": "test:///\0"}, {"parameter": "uri", "uri": "test:///\0"}),
        (
            "resources/read",
            {"uri": "test:///" + "x" * 9_000},
            {"parameter": "uri", "uri": "test:///" + "x" * 192 + "…"},
        ),
        ("resources/list", {"cursor": "foreign"}, {"parameter": "cursor"}),
        ("resources/templates/list", {"cursor": "foreign"}, {"parameter": "cursor"}),
        ("tools/list", {"cursor": "foreign"}, {"parameter": "cursor"}),
        ("tools/call", {"name": "nope"}, {"parameter": "name"}),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": "x:"}, "argument": {"name": "id", "value": ""}},
            {"parameter": "ref"},
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "id", "value": ""}},
            {"parameter": "ref"},
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": "test:///note/{id}"}, "argument": {"name": "x", "value": ""}},
            {"parameter": "argument"},
        ),
    ],
)
def test_what_cannot_be_meant_is_invalid_in_both_eras(
    client: Conversation, method: str, params: dict[str, object], data: dict[str, object], version: str
) -> None:
    error = client.ask(method, params, version=version)

    assert (error["code"], error["data"]) == (-32602, {**INVALID, **data})
