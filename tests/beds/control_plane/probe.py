"""The smallest HTTP client that can ask a starting server whether it is there."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path
from urllib.parse import urlsplit


async def get(
    url: str, *, token: str = "", certificates: Path | None = None, seconds: float = 5.0
) -> tuple[int, str]:
    """One GET; (status, body), or (0, reason) when there is no HTTP answer within `seconds`.

    An https server is verified against `certificates`; without them it is not, which is only good for a
    process that we have just started and that signs for itself.
    """
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    request = f"GET {target} HTTP/1.0\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n"
    try:
        async with asyncio.timeout(seconds):
            tls = _tls(certificates) if parts.scheme == "https" else None
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=tls)
            return await answer_to(request, reader, writer)
    except (OSError, TimeoutError) as error:
        return 0, str(error) or type(error).__name__


async def answer_to(request: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, str]:
    """(status, body), or (0, reason) when that is no HTTP. The connection ends with it."""
    try:
        writer.write(request.encode())
        answer = (await reader.read()).decode(errors="replace")
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    words = head.split(maxsplit=2)
    return (int(words[1]), body) if len(words) > 1 and words[1].isdigit() else (0, "not HTTP")


def _tls(certificates: Path | None) -> ssl.SSLContext:
    if certificates is not None:
        return ssl.create_default_context(cafile=certificates)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without the machine's authorities, which take 20 ms to read
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
