"""The bench's own requests: a plain client, so that no measured code measures itself."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import aiohttp
import msgspec

from tests.beds.control_plane import ControlPlane, User

JSON: TypeAlias = dict[str, Any]
T = TypeVar("T")
IN_FLIGHT = 50
MERGE_PATCH = "application/merge-patch+json"


class Api:
    """One user's requests; raises `aiohttp.ClientResponseError` for every answer that is not a success."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def get(self, path: str) -> JSON:
        return await self._send("GET", path)

    async def create(self, path: str, body: JSON) -> JSON:
        return await self._send("POST", path, body)

    async def accepts(self, path: str, body: JSON) -> bool:
        """Whether that can be created."""
        try:
            await self.create(path, body)
        except aiohttp.ClientResponseError:
            return False
        return True

    async def merge(self, path: str, body: JSON) -> JSON:
        return await self._send("PATCH", path, body, MERGE_PATCH)

    async def delete(self, path: str, **options: object) -> None:
        """Delete one object, or a collection; one that is not there is fine. `options`: of DeleteOptions."""
        try:
            await self._send("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})
        except aiohttp.ClientResponseError as error:
            if error.status != 404:
                raise

    async def create_all(self, path: str, bodies: Iterable[JSON]) -> None:
        """Create many objects."""
        await in_lanes(lambda body: self.create(path, body), bodies)

    async def delete_all(self, paths: Iterable[str], **options: object) -> None:
        await in_lanes(lambda path: self.delete(path, **options), paths)

    async def lines(self, path: str) -> AsyncIterator[list[bytes]]:
        """The lines of a watch, in bunches, until the caller is cancelled or the server closes."""
        rest = b""
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(self._url + path, timeout=timeout) as response:
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                yield lines

    async def _send(self, method: str, path: str, body: JSON | None = None, kind: str = "application/json") -> JSON:
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": kind}
        async with self._session.request(method, self._url + path, data=data, headers=headers) as response:
            decoded: JSON = msgspec.json.decode(await response.read())
            if response.status >= 400:
                raise aiohttp.ClientResponseError(
                    response.request_info, (), status=response.status, message=str(decoded.get("message"))
                )
            return decoded


async def in_lanes(send: Callable[[T], Awaitable[object]], each: Iterable[T]) -> None:
    """`IN_FLIGHT` at a time."""
    left = iter(each)

    async def lane() -> None:
        for one in left:
            await send(one)

    async with asyncio.TaskGroup() as lanes:
        for _ in range(IN_FLIGHT):
            lanes.create_task(lane())


@asynccontextmanager
async def api_for(plane: ControlPlane, user: User) -> AsyncIterator[Api]:
    connector = aiohttp.TCPConnector(limit=0, ssl=ssl.create_default_context(cafile=plane.ca_path))
    headers = {"Authorization": f"Bearer {user.token}", "Accept-Encoding": "identity"}
    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as session:
        yield Api(session, plane.url)
