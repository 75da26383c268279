"""Addresses as options have them."""

from __future__ import annotations

import pytest

from controller.settings import Address, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":8080", "", 8080),
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("0.0.0.0:65535", "0.0.0.0", 65535),
        ("localhost:81", "localhost", 81),
        ("[::1]:8080", "::1", 8080),
        (":0", "", 0),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    address = parse_address(text)
    assert address == Address(host=host, port=port)
    assert str(address) == text


def test_zero_is_off() -> None:
    assert parse_address("0") is None


@pytest.mark.parametrize("text", ["", "8080", "localhost", ":", ":x", ":70000", ":-1", "::1:8080", ":²"])
def test_what_is_no_address_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected host:port|in brackets") as caught:
        parse_address(text)
    assert "\n" not in str(caught.value)
