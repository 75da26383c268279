"""HTTP to addresses that exist inside a node only, through the node's wire."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from tests.beds.control_plane.probe import answer_to
from tests.beds.real_node.patience import LONG


async def fetch(
    wire: Path, host: str, port: int, path: str = "/", *, method: str = "GET", seconds: float = LONG
) -> tuple[int, str]:
    """Status and body; (0, reason) when there is no HTTP answer within `seconds`."""
    request = f"{method} {path} HTTP/1.0\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_unix_connection(wire)
            with contextlib.closing(writer):
                writer.write(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())
                await reader.readuntil(b"\r\n\r\n")
                return await answer_to(request, reader, writer)
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        return 0, str(error) or type(error).__name__
