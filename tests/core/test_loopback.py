"""Which addresses are this machine's own."""

from urllib.parse import urlsplit

import pytest

from carrel.core.loopback import is_in_clear, is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.8.7", "::1", "0:0::1"])
def test_an_address_of_this_machine_is_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "localhost.evil", "127.0.0.1.evil", "127.1", "[::1]", "0.0.0.0", "10.0.0.1", "::", "::2", "Localhost"]
)
def test_any_other_is_not(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("url", "answer"),
    [
        ("https://example.org/mcp", False),
        ("http://example.org/mcp", True),
        ("http://LOCALHOST:8080/mcp", False),
        ("http://[::1]:8080/mcp", False),
        ("http://127.0.0.1@example.org/mcp", True),
        ("http:///mcp", True),
    ],
)
def test_plain_http_to_another_machine_is_in_clear(url: str, answer: bool) -> None:
    assert is_in_clear(urlsplit(url)) is answer
