"""A small scene for verbs that change something: four nodes, revision 1 everywhere; and who gets in between."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controller.kube.requests import JSON_PATCH, Request, Response
from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.simulator.route import route
from tests.plugin.kept import story
from tests.plugin.playing import Meanwhile, Ran, Scene
from tests.plugin.scene import (
    MINUTE,
    PACE,
    daemonset_named,
    join,
    manifest,
    rolling,
    template,
)
from tests.plugin.users_machine import UserTransport

NODES = ("a-01", "a-02", "a-03", "a-04")
HOME = ("-n", "observability")
KIND = "daemonsets.apps.kruise.io"
PAUSED = "daemonset.apps.kruise.io/node-agent paused\n"
"""What `pause` prints."""
LAST_ACTION = "kruise-ds/last-action"

ends_it = pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
"""The test gets the signal, and the code that the verb ends with."""


@story
def few_nodes(scene: Scene, /, *others: str, **limits: Any) -> None:
    """`node-agent`, and further DaemonSets with the names `others`, in namespace `observability`."""
    scene.do(join(scene, NODES))
    for name in ("node-agent", *others):
        scene.do(scene.api.create(DAEMONSETS, daemonset_named(name, **limits)))
        scene.do(scene.until(lambda one: (one.get("status") or {}).get("numberAvailable") == len(NODES), name))


@story
def moving(scene: Scene, /) -> None:
    """Revision 2 goes to two of them: a-04 has it for a minute, the new pod of a-03 does not get ready."""
    few_nodes.play(scene)
    scene.nodes.behave("*", PACE)
    scene.nodes.behave("a-03", replace(PACE, ready=None))
    scene.do(scene.edit({"spec": {"template": template("1.9.0"), **rolling(partition=2)}}))
    scene.pass_time(100.0)


async def few_recover(scene: Scene) -> None:
    """Of `moving`: the pod that does not get ready does so after 20 seconds."""
    await asyncio.sleep(20.0)
    scene.nodes.behave("a-03", PACE)


@story
def unreachable(scene: Scene, /, silent: int) -> None:
    """Revision 2, which tolerates everything, goes to all that can be reached, since an hour. So many cannot."""
    few_nodes.play(scene)
    for name in NODES[:silent]:
        scene.do(scene.nodes.lose(name))
    made = template("1.9.0")
    made["spec"]["tolerations"] = [{"operator": "Exists"}]
    scene.do(scene.edit({"spec": {"template": made, **rolling(maxUnavailable=2)}}))
    scene.pass_time(3600.0)


@story
def unserved(scene: Scene, /) -> None:
    """Revision 1 is everywhere, and since a minute no pod is ready."""
    few_nodes.play(scene)
    scene.do(stop_serving(scene, *NODES))
    scene.pass_time(60.0)


async def stop_serving(scene: Scene, *names: str) -> None:
    """The pods of these nodes are not ready, and do not get so again."""
    for pod in await scene.api.list(PODS):
        if (name := pod["spec"]["nodeName"]) in names:
            if (was := scene.nodes.behaviour_of(name)) is not None:
                scene.nodes.behave(name, replace(was, ready=None))
            await scene.nodes.ready(pod, value=False)


@story
def at_half(scene: Scene, /) -> None:
    """Revision 2 has been on two of them for 18 minutes, which completes the second of four steps."""
    moving.play(scene)
    scene.nodes.behave("a-03", PACE)
    scene.pass_time(18 * MINUTE + 30.0)


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


class Between(UserTransport):
    """`step` happens before those of the user's requests like `asked` whose numbers, from 1 on, are in `which`."""

    def __init__(
        self, door: UserTransport, step: Callable[[], Awaitable[Any]], asked: str, which: Collection[int]
    ) -> None:
        super().__init__(door.link.cluster)
        self.user, self.logs, self.link = door.user, door.logs, door.link
        self._step, self._asked, self._which, self._met = step, asked, which, 0

    async def exchange(self, request: Request) -> Response:
        where = route(request)
        if f"{where.verb} {where.resource}" == self._asked:
            self._met += 1
            if self._met in self._which:
                await self._step()
        return await super().exchange(request)


def get_between(scene: Scene, step: Callable[[], Awaitable[Any]], times: int = 1) -> None:
    """Before each of the first `times` patches of the user."""
    scene.door = Between(scene.door, step, f"patch {KIND}", range(1, times + 1))


def before_request(scene: Scene, asked: str, number: int, step: Callable[[], Awaitable[Any]]) -> None:
    """Before the user's request of that number like `asked`, such as `list pods`."""
    scene.door = Between(scene.door, step, asked, (number,))


def acted(scene: Scene, *words: str, **options: Any) -> Ran:
    """Run a verb on `node-agent`."""
    return scene.run(words[0], "node-agent", *words[1:], *HOME, **options)


def signalled(number: signal.Signals, after: float) -> Meanwhile:
    """The verb gets the signal after so many seconds."""

    async def send(_: Scene) -> None:
        await asyncio.sleep(after)
        assert callable(signal.getsignal(number)), "this process would die of it"
        signal.raise_signal(number)

    return send


def images(scene: Scene) -> dict[str, str]:
    """By node."""
    pods = scene.do(scene.api.list(PODS))
    return {pod["spec"]["nodeName"]: pod["spec"]["containers"][0]["image"].rpartition(":")[2] for pod in pods}


def fresh(name: str = "fresh", **rolling: Any) -> Object:
    """Of a DaemonSet that there is not yet."""
    found = manifest("2.0.0", name=name, **rolling)
    found["spec"]["selector"] = {"matchLabels": {"app": name}}
    found["spec"]["template"]["metadata"]["labels"] = {"app": name}
    return found


def writes(scene: Scene) -> list[str]:
    """What was sent that is no dry run."""
    sent = scene.door.link.writes(KIND)
    return [one.route.verb for one in sent if ("dryRun", "All") not in one.request.query]


def exists(scene: Scene, name: str) -> bool:
    return any(one["metadata"]["name"] == name for one in scene.do(scene.api.list(DAEMONSETS)))
