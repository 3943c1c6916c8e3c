"""One JSON text to one message, and back; what is wrong with the rest."""

import pytest
from msgspec import Raw

from carrel.core.errors import ProtocolError
from carrel.protocol import jsonrpc
from carrel.protocol.jsonrpc import ABSENT, Message

NOT_JSON = (-32700, "Parse error: not valid JSON", None)
NOT_UTF_8 = (-32700, "Parse error: not UTF-8", None)
BAD_ID = (-32600, "Invalid request: id must be a string or an integer", None)


def refusal(text: bytes) -> tuple[int, str, bytes | None]:
    with pytest.raises(ProtocolError) as caught:
        jsonrpc.decode(text)
    return caught.value.code, caught.value.message, caught.value.request_id


@pytest.mark.parametrize(
    ("spelled", "key"),
    [
        (b"1", 1),
        (b"0", 0),
        (b"-5", -5),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b'"a"', "a"),
        (b'""', ""),
        (b'"1"', "1"),
        (b'"\\u00e9\\n"', "é\n"),
        ('"é😀"'.encode(), "é😀"),
    ],
)
def test_a_request_keeps_its_id_as_it_was_spelled(spelled: bytes, key: int | str) -> None:
    text = b'{"jsonrpc":"2.0","id":' + spelled + b',"method":"x","params":{"a":1}}'

    assert jsonrpc.decode(text) == Message(spelled, key, "x", Raw(b'{"a":1}'))


def test_a_notification_has_no_id() -> None:
    assert jsonrpc.decode(b'{"jsonrpc":"2.0","method":"x"}') == Message(None, None, "x", ABSENT)


def test_unknown_members_of_a_message_are_ignored() -> None:
    text = b'{"extra":[{}],"jsonrpc":"2.0","id":1,"method":"x","more":null}'

    assert jsonrpc.decode(text) == Message(b"1", 1, "x", ABSENT)


@pytest.mark.parametrize(
    "text",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}',
        b'{"jsonrpc":"2.0","id":"a","error":{"code":1}}',
        b'{"jsonrpc":"2.0","error":{"code":1}}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":1}}',
    ],
)
def test_an_answer_is_told_from_a_request(text: bytes) -> None:
    assert jsonrpc.decode(text) is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\0",
        b"nonsense",
        b"{",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"',
        b'{"jsonrpc":"2.0","id":1,"method":"ping"} {}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping",}',
        b"{'jsonrpc':'2.0'}",
        b'{"jsonrpc":"2.0","id":1,"method":"a\nb"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\q"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"a\x01b"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\u12"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":01}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}',
        b'{"jsonrpc":"2.0","id":01,"method":"ping"}',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}',
    ],
)
def test_what_is_no_json_is_a_parse_error(text: bytes) -> None:
    assert refusal(text) == NOT_JSON


@pytest.mark.parametrize(
    "text",
    [
        b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"\\udfff"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\ud800"}}',
    ],
)
def test_a_lone_surrogate_is_a_parse_error(text: bytes) -> None:
    assert refusal(text) == NOT_JSON


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 100_000,
        b'{"jsonrpc":"2.0","id":' + b"[" * 100_000 + b"]" * 100_000 + b',"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_nesting_too_deep_is_a_parse_error(text: bytes) -> None:
    assert refusal(text) == NOT_JSON


@pytest.mark.parametrize(
    "text",
    [
        b"\xff",
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\xff"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\xed\xa0\x80"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\xc3"}}',
    ],
)
def test_what_is_not_utf_8_is_a_parse_error_wherever_it_stands(text: bytes) -> None:
    assert refusal(text) == NOT_UTF_8


@pytest.mark.parametrize("spelled", [b"null", b"true", b"false", b"1.0", b"1e3", b"[]", b"{}", b"[1]"])
def test_an_id_of_another_kind_is_an_invalid_request_without_id(spelled: bytes) -> None:
    assert refusal(b'{"jsonrpc":"2.0","id":' + spelled + b',"method":"ping"}') == BAD_ID


def test_an_id_of_more_digits_than_python_reads_is_an_invalid_request() -> None:
    assert refusal(b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"ping"}') == BAD_ID


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"1", "not an object"),
        (b'"ping"', "not an object"),
        (b"null", "not an object"),
        (b"[]", "a batch is not supported here"),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', "a batch is not supported here"),
        (b"{}", "jsonrpc must be 2.0"),
    ],
)
def test_what_is_no_request_is_refused_without_id(text: bytes, complaint: str) -> None:
    assert refusal(text) == (-32600, f"Invalid request: {complaint}", None)


@pytest.mark.parametrize(
    ("text", "complaint", "spelled"),
    [
        (b'{"id":1,"method":"ping"}', "jsonrpc must be 2.0", b"1"),
        (b'{"jsonrpc":"1.0","id":"a","method":"ping"}', "jsonrpc must be 2.0", b'"a"'),
        (b'{"jsonrpc":2.0,"id":1,"method":"ping"}', "jsonrpc must be 2.0", b"1"),
        (b'{"jsonrpc":"2.0","id":1}', "method must be a string", b"1"),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', "method must be a string", b"1"),
        (b'{"jsonrpc":"2.0","id":1,"method":null}', "method must be a string", b"1"),
        (b'{"jsonrpc":"2.0","id":true,"method":7}', "method must be a string", None),
        (b'{"jsonrpc":"2.0","id":null}', "method must be a string", None),
        (b'{"jsonrpc":"1.0","id":' + b"9" * 40 + b"}", "jsonrpc must be 2.0", b"9" * 40),
    ],
)
def test_a_broken_request_is_refused_with_its_id(text: bytes, complaint: str, spelled: bytes | None) -> None:
    assert refusal(text) == (-32600, f"Invalid request: {complaint}", spelled)


def test_an_answer_with_an_id_of_another_kind_is_refused() -> None:
    complaint = "Invalid response: id must be a string or an integer"

    assert refusal(b'{"jsonrpc":"2.0","id":true,"result":{}}') == (-32600, complaint, None)


def test_a_batch_is_split_into_texts() -> None:
    assert jsonrpc.decode_batch(b' [ {"a": 1} ,2, [3] ] ') == [b'{"a": 1}', b"2", b"[3]"]


@pytest.mark.parametrize("text", [b"[1,]", b"[" * 100_000, b'["\\ud800"]'])
def test_a_batch_that_is_no_json_is_a_parse_error(text: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        jsonrpc.decode_batch(text)

    assert (caught.value.code, caught.value.message, caught.value.request_id) == NOT_JSON


@pytest.mark.parametrize(
    ("head", "spelled"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"xxx', b"7"),
        (b'{"id" : "a\\"b" , "method', b'"a\\"b"'),
        (b'{"id":-1}', b"-1"),
        (b'{"method":"id","id":3,', b"3"),
        (b'{"params":{"id":5,"uri":"x"},"id":6,', b"6"),
        (b'{"params":[{"id":5}],"text":"{[\\"id\\":4","id":6,', b"6"),
        (b'{"method":"tools/call","params":{"arguments":{"id":5,"text":"xxx', None),
        (b'{"method":"tools/call","params":{"name":"id', None),
        (b'{"id":12', None),
        (b'{"id":"ab', None),
        (b'{"id":007,"method"', None),
        (b'{"id":1.5,"method"', None),
        (b'{"id":true,"method"', None),
        (b'{"id":null,"method"', None),
        (b'{"id":"\\ud800","method"', None),
        (b'{"id":"\xff","method"', None),
        (b'{"id":' + b"9" * 5_000 + b",", None),
        (b'[{"id":1,"method":"x"},', None),
        (b"xxxx", None),
        (b"", None),
    ],
)
def test_the_id_of_an_over_long_message_is_its_own_or_none(head: bytes, spelled: bytes | None) -> None:
    assert jsonrpc.find_id(head) == spelled


def test_an_answer_repeats_the_id_as_spelled() -> None:
    assert jsonrpc.answer(b'"\\u0061"', {"a": 1}) == b'{"id":"\\u0061","result":{"a":1},"jsonrpc":"2.0"}'


def test_an_error_without_an_id_leaves_the_key_out() -> None:
    assert jsonrpc.failure(None, -32700, "No") == b'{"error":{"code":-32700,"message":"No"},"jsonrpc":"2.0"}'


def test_an_error_carries_its_data() -> None:
    assert jsonrpc.failure(b"1", -32602, "No", {"uri": "a:b"}) == (
        b'{"error":{"code":-32602,"message":"No","data":{"uri":"a:b"}},"id":1,"jsonrpc":"2.0"}'
    )


def test_a_notification_and_a_request_are_spelled() -> None:
    assert jsonrpc.notification("x", {"a": 1}) == b'{"method":"x","params":{"a":1},"jsonrpc":"2.0"}'
    assert jsonrpc.request(5, "x", {}) == b'{"id":5,"method":"x","params":{},"jsonrpc":"2.0"}'


def test_what_is_encoded_is_decoded_again() -> None:
    assert jsonrpc.decode(jsonrpc.request(5, "x", {"é": "\n"})) == Message(b"5", 5, "x", Raw('{"é":"\\n"}'.encode()))
    assert jsonrpc.decode(jsonrpc.answer(b'"a"', [])) is None
