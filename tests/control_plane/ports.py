"""Free loopback ports that stay free."""

from __future__ import annotations

import random
import socket
from pathlib import Path

LOWEST = 20_000
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on.

    It lies below the range that the kernel hands to outgoing connections: while a server is down, a client
    that keeps dialling a port of that range can be given the same port and end up talking to itself.
    """
    for _ in range(200):
        port = random.randrange(LOWEST, _first_ephemeral())
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no free port on 127.0.0.1")


def _first_ephemeral() -> int:
    try:
        first = int(EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError):
        return 32_768
    return first if first > LOWEST + 1000 else 32_768
