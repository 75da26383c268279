"""Free loopback ports that stay free."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

LOWEST = 20_000
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")

_given: set[int] = set()
_claims: list[int] = []
"""The file of which this process has locked one byte for each of its ports. Closing it would let go of them all."""


def free_port(draw: Callable[[int, int], int] = random.randrange, ephemeral: Path = EPHEMERAL) -> int:
    """A TCP port of 127.0.0.1 that nobody listens on, and that is given out once only while this process lives.

    Another run at the same time is given others: between this and the server's start, or while a server is down,
    nothing else keeps a port. It lies below the range that the kernel hands to outgoing connections: while a
    server is down, a client that keeps dialling a port of that range can be given the same port and end up
    talking to itself. `ephemeral`: the file that names that range.
    """
    for _ in range(200):
        port = draw(LOWEST, _first_ephemeral(ephemeral))
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
        path = Path(tempfile.gettempdir(), f"kruise-ds-ports-{os.getuid()}")
        _claims.append(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666))
    try:
        fcntl.lockf(_claims[0], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _first_ephemeral(ephemeral: Path) -> int:
    try:
        first = int(ephemeral.read_text().split()[0])
    except (OSError, ValueError):
        return 32_768
    return first if first > LOWEST + 1000 else 32_768
