"""The images of the tests, and a registry that containerd pulls them from, slow or broken, image by image."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web

from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.control_plane.processes import free_port
from tests.beds.oci import MANIFEST, Image, image, layer, write_archive
from tests.beds.real_node.documents import PAUSE

HOST = "registry.test"


class Images:
    """Made of one program, read once."""

    def __init__(self, agent: Path) -> None:
        self._layer = layer({"agent": agent.read_bytes()})

    def agent(self, version: str, *layers: bytes, **environment: str) -> Image:
        """Serves its version and environment on port 8080, and /ready; agent/main.go has what can be asked of it.

        `layers` are more of them, for an image that takes long to pull.
        """
        variables = {"VERSION": version, **environment}
        return image(
            [self._layer, *layers],
            Entrypoint=["/agent"],
            Env=[f"{name}={value}" for name, value in variables.items()],
            User="65532:65532",
        )

    def versions(self) -> dict[str, Image]:
        """What tests roll out, by name in the registry."""
        return {f"agent:{version}": self.agent(version) for version in ("v1", "v2", "v3")}

    def pause(self, folder: Path) -> Path:
        """The archive that every node needs before its first pod."""
        return write_archive(folder / "pause.tar", {PAUSE: image([self._layer], Entrypoint=["/agent", "pause"])})


PIECE = 16 * 1024
LOG_IN = {"WWW-Authenticate": 'Basic realm="tests"'}


@dataclass(frozen=True, slots=True)
class Manners:
    """How an image is served: after `delay` seconds, with `rate` bytes a second; a `status` but 200 refuses it.

    `login`: `name:password`, without which no client is served.
    """

    status: int = 200
    delay: float = 0.0
    rate: float = 0.0
    login: str = ""

    def admits(self, request: web.Request) -> bool:
        asked = f"Basic {base64.b64encode(self.login.encode()).decode()}"
        return not self.login or request.headers.get("Authorization") == asked


class Registry:
    """`async with Registry() as registry:` serves what is put into it, at `address` on the machine."""

    def __init__(self) -> None:
        self.address = f"{LOOPBACK}:{free_port()}"
        self.pulls: Counter[str] = Counter()
        """How often each image's manifest was asked for by tag, such as `agent:v1`."""
        self._images: dict[str, Image] = {}
        self._manners: dict[str, Manners] = {}
        pages = web.Application()
        pages.router.add_get("/v2/", _is_there)
        pages.router.add_get("/v2/{name:.+}/manifests/{reference}", self._manifest)
        pages.router.add_get("/v2/{name:.+}/blobs/{digest}", self._blob)
        self._runner = web.AppRunner(pages, access_log=None, shutdown_timeout=0)

    def put(self, name: str, image: Image, manners: Manners = Manners()) -> None:
        """Under a name without host, such as `agent:v1`."""
        self._images[name], self._manners[name] = image, manners

    def behave(self, name: str, manners: Manners) -> None:
        """From the next request on, also of an image that is not there."""
        self._manners[name] = manners

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        host, port = self.address.split(":")
        await web.TCPSite(self._runner, host, int(port)).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _manifest(self, request: web.Request) -> web.Response:
        name, reference = request.match_info["name"], request.match_info["reference"]
        tag = f"{name}:{reference}" if ":" not in reference else self._with(name, reference)
        manners = self._manners.get(tag, Manners())
        if request.method == "GET" or ":" not in reference:
            self.pulls[tag] += ":" not in reference
        await asyncio.sleep(manners.delay)
        if not manners.admits(request):
            return web.Response(status=401, headers=LOG_IN)
        image = self._images.get(tag)
        if manners.status != 200 or image is None:
            return web.Response(status=manners.status if manners.status != 200 else 404)
        headers = {"Docker-Content-Digest": image.digest}
        return web.Response(body=image.manifest, content_type=MANIFEST, headers=headers)

    async def _blob(self, request: web.Request) -> web.StreamResponse:
        digest = request.match_info["digest"]
        tag = self._with(request.match_info["name"], digest)
        if not tag:
            return web.Response(status=404)
        blob, manners = self._images[tag].blobs[digest], self._manners[tag]
        if not manners.admits(request):
            return web.Response(status=401, headers=LOG_IN)
        answer = web.StreamResponse(headers={"Content-Length": str(len(blob))})
        await answer.prepare(request)
        for start in range(0, len(blob), PIECE):
            piece = blob[start : start + PIECE]
            await answer.write(piece)
            if manners.rate:
                await asyncio.sleep(len(piece) / manners.rate)
        return answer

    def _with(self, name: str, digest: str) -> str:
        """The tag of an image that has this blob, empty when there is none; of several the one that was put last."""
        tags = [tag for tag, one in self._images.items() if tag.rpartition(":")[0] == name and digest in one.blobs]
        return tags[-1] if tags else ""


async def _is_there(_: web.Request) -> web.Response:
    return web.Response()
