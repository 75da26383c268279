"""Free loopback ports that stay free."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

LOWEST = 20_000
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")

_given: set[int] = set()
_claims: list[IO[bytes]] = []
"""The file of which this process has locked one byte for each of its ports. Closing it would let go of them all."""


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on, and that is given out once only while this process lives.

    Another run at the same time is given others: between this and the server's start, or while a server is down,
    nothing else keeps a port. It lies below the range that the kernel hands to outgoing connections: while a
    server is down, a client that keeps dialling a port of that range can be given the same port and end up
    talking to itself.
    """
    for _ in range(200):
        port = random.randrange(LOWEST, _first_ephemeral())
        if port in _given or not _claimed(port):
            continue
        _given.add(port)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no free port on 127.0.0.1")


def _claimed(port: int) -> bool:
    """Whether the port is this process's own now. The kernel lets go of it when the process ends, however it ends."""
    if not _claims:
        _claims.append(open(Path(tempfile.gettempdir(), f"kruise-ds-ports-{os.getuid()}"), "ab"))  # noqa: SIM115
    try:
        fcntl.lockf(_claims[0], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _first_ephemeral() -> int:
    try:
        first = int(EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError):
        return 32_768
    return first if first > LOWEST + 1000 else 32_768
