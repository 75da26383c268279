"""A small scene for verbs that change something: four nodes, revision 1 everywhere; and who gets in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from controller.kube.request import JSON_PATCH, Request, Response, Stream
from tests.beds.api import DAEMONSETS, Object
from tests.plugin.door import Door
from tests.plugin.kept import story
from tests.plugin.playing import Ran, Scene
from tests.plugin.scene import daemonset_named, join

NODES = ("a-01", "a-02", "a-03", "a-04")
HOME = ("-n", "observability")
KIND = "daemonsets.apps.kruise.io"


@story
def few_nodes(scene: Scene, /, *others: str, **rolling: Any) -> None:
    """`node-agent`, and further DaemonSets with the names `others`, in namespace `observability`."""
    scene.do(join(scene, NODES))
    for name in ("node-agent", *others):
        scene.do(scene.api.create(DAEMONSETS, daemonset_named(name, **rolling)))
        scene.do(scene.until(lambda one: (one.get("status") or {}).get("numberAvailable") == len(NODES), name))


def stored(scene: Scene, name: str = "node-agent") -> Object:
    return scene.do(scene.api.get(DAEMONSETS, name))


def rolling_of(document: Object) -> Object:
    settings: Object = document["spec"]["updateStrategy"].get("rollingUpdate") or {}
    return settings


def paused_ones(scene: Scene) -> list[str]:
    """Names of the DaemonSets that are paused."""
    found = scene.do(scene.api.list(DAEMONSETS))
    return sorted(one["metadata"]["name"] for one in found if rolling_of(one).get("paused"))


def patches(scene: Scene) -> list[list[Object]]:
    """What the user's PATCH requests on DaemonSets said, in their order, refused ones too."""
    sent = [seen for seen in scene.door.link.writes(KIND) if seen.route.verb == "patch"]
    assert len(sent) == len(scene.door.link.writes(KIND)), "a DaemonSet was written by other means than a patch"
    assert all(seen.request.content_type == JSON_PATCH for seen in sent)
    return [msgspec.json.decode(seen.request.body) for seen in sent]


def queries(scene: Scene) -> list[dict[str, str]]:
    """Of the same requests."""
    return [dict(seen.request.query) for seen in scene.door.link.writes(KIND)]


class Between(Door):
    """Before each of the first `times` patches of the user, `step` happens."""

    def __init__(self, door: Door, step: Callable[[], Awaitable[Any]], times: int) -> None:
        self.user, self.logs, self.link = door.user, door.logs, door.link
        self._step, self._left = step, times

    async def exchange(self, request: Request) -> Response:
        if request.method == "PATCH" and self._left:
            self._left -= 1
            await self._step()
        return await super().exchange(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with super().stream(request) as stream:
            yield stream


def get_between(scene: Scene, step: Callable[[], Awaitable[Any]], times: int = 1) -> None:
    scene.door = Between(scene.door, step, times)


def acted(scene: Scene, *words: str, **options: Any) -> Ran:
    """Run a verb on `node-agent`."""
    return scene.run(words[0], "node-agent", *words[1:], *HOME, **options)
