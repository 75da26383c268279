"""Manifests at a URL, read as kubectl does, but only so many bytes and only for so long."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from aiohttp import ClientError, ClientSession

from controller.kube.connection import tls_context
from controller.kube.kubeconfig import is_http_url
from kubectl_plugin.cluster.proxies import proxy_for
from kubectl_plugin.failures import CommandError, UsageError

MOST_BYTES: Final = 16 * 1024 * 1024
SECONDS: Final = 30.0
"""Seconds for one manifest, all attempts included."""
ATTEMPTS: Final = 3
"""As kubectl makes them: after no answer, and after 5xx."""
PAUSE: Final = 1.0
"""Seconds between two attempts."""


def is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


async def downloaded(
    url: str, environ: Mapping[str, str], *, seconds: float = SECONDS, pause: float = PAUSE, most: int = MOST_BYTES
) -> str:
    """The text at `url`. Nothing of the kubeconfig is sent there. Raises CommandError where it cannot be read, and
    ConfigError for a proxy of `environ` that cannot be used."""
    if not is_http_url(url):
        raise UsageError(f'"{url}" is no URL')
    proxy, failed = proxy_for(url, environ), ""
    try:
        async with asyncio.timeout(seconds), ClientSession(trust_env=False) as session:
            for attempt in range(ATTEMPTS):
                if attempt:
                    await asyncio.sleep(pause)
                try:
                    return await _text(session, url, proxy, most)
                except _NoAnswer as error:
                    failed = str(error)
    except TimeoutError:
        failed = f"it takes more than {seconds:g} s"
    raise CommandError(f"cannot read {url}: {failed}")


class _NoAnswer(Exception):
    """Another attempt may succeed."""


async def _text(session: ClientSession, url: str, proxy: str, most: int) -> str:
    body = bytearray()
    try:
        async with session.get(url, proxy=proxy or None, ssl=tls_context()) as response:
            if response.status != 200:
                words = f"the server answers {response.status} {response.reason or ''}".rstrip()
                raise _NoAnswer(words) if response.status >= 500 else CommandError(f"cannot read {url}: {words}")
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > most:
                    raise CommandError(f"cannot read {url}: it has more than {most:,} bytes")
        return body.decode()
    except UnicodeDecodeError as error:
        raise CommandError(f"cannot read {url}: {error}") from error
    except (ClientError, OSError, ValueError) as error:
        raise _NoAnswer(" ".join(str(error).split()) or type(error).__name__) from error
