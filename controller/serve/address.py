"""Where a server listens, as it is written on the command line."""

from __future__ import annotations

from controller.api.base import Value


class Address(Value):
    host: str
    """Empty: every interface."""
    port: int
    """0: any free one."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address | None:
    """`:8080`, `127.0.0.1:8080`, `[::1]:8080`, `localhost:0` (any free port); None for `0`, which means off.

    Raises ValueError with one line that says what was expected.
    """
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is no address: expected host:port, :port, or 0 to turn it off")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r} is no address: write an IPv6 address in brackets, [::1]:8080")
    return Address(host=host, port=int(port))
