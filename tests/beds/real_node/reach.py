"""HTTP to addresses that exist inside a node only, through the node's wire."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from tests.beds.real_node.patience import LONG


async def fetch(
    wire: Path, host: str, port: int, path: str = "/", *, method: str = "GET", seconds: float = LONG
) -> tuple[int, str]:
    """Status and body; (0, reason) when there is no HTTP answer within `seconds`."""
    request = f"{method} {path} HTTP/1.0\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_unix_connection(wire)
            try:
                writer.write(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())
                await reader.readuntil(b"\r\n\r\n")
                writer.write(request.encode())
                answer = (await reader.read()).decode(errors="replace")
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        return 0, str(error) or type(error).__name__
    head, _, body = answer.partition("\r\n\r\n")
    words = head.split(maxsplit=2)
    return (int(words[1]), body) if len(words) > 1 and words[1].isdigit() else (0, "not HTTP")
