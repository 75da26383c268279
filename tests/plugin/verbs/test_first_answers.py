"""The first answers that a verb waits with come from a load balancer, or fail for a moment: it goes on."""

from __future__ import annotations

import asyncio

import pytest

from controller.kube.request import Request, Response
from tests.beds.simulator.faults import Answer, Rule
from tests.beds.simulator.route import route
from tests.plugin.door import Door
from tests.plugin.scene import NAME, NAMESPACE, PACE, Scene, canary, healthy
from tests.plugin.verbs.few_nodes import KIND, acted

WATCH = ("status", NAME, "-n", NAMESPACE, "-w", "--timeout")
NEW = "agent=registry.example.com/agent:2.0.0"
CODES = pytest.mark.parametrize("status", [401, 403, 404])


class Balanced(Door):
    """A load balancer answers with a page of its own the first `times` requests like `asked`, such as `list pods`."""

    def __init__(self, door: Door, asked: str, status: int, times: int = 1) -> None:
        super().__init__(door.link.cluster)
        self.user, self.logs, self.link = door.user, door.logs, door.link
        self._asked, self._status, self.left = asked, status, times

    async def exchange(self, request: Request) -> Response:
        where = route(request)
        if f"{where.verb} {where.resource}" == self._asked and self.left:
            self.left -= 1
            return Response(status=self._status, body=b"<html>not here</html>")
        return await super().exchange(request)


def behind_a_balancer(scene: Scene, asked: str, status: int, times: int = 1) -> Balanced:
    scene.door = made = Balanced(scene.door, asked, status, times)
    return made


@CODES
@pytest.mark.parametrize("asked", [f"get {KIND}", "list nodes", "list pods"])
def test_a_watch_goes_on_behind_a_page_of_a_load_balancer(asked: str, status: int) -> None:
    with healthy() as scene:
        door = behind_a_balancer(scene, asked, status, times=2)  # of 401 the first is tried with fresh credentials
        ran = scene.run(*WATCH, "5m")
        assert (ran.code, door.left, "Healthy 24/24 updated" in ran.out) == (0, 0, True), ran
    assert "HTTP" in ran.err
    assert "; retrying\n" in ran.err


@CODES
def test_one_that_goes_on_ends_it_after_half_a_minute(status: int) -> None:
    with healthy() as scene:
        behind_a_balancer(scene, f"get {KIND}", status, times=1000)
        began = scene.now()
        assert scene.run(*WATCH, "5m").code == 1
        assert 30.0 <= scene.now() - began <= 33.0


def test_what_the_server_itself_refuses_ends_it_at_once() -> None:
    with healthy() as scene:
        scene.door.forbid("get", KIND)
        began = scene.now()
        assert scene.run(*WATCH, "5m").code == 1
        assert scene.now() - began < 1.0


@pytest.mark.parametrize("resource", ["nodes", "pods"])
@pytest.mark.parametrize("effect", [Answer(401), Answer(500), Answer(403, "Forbidden")], ids=lambda one: one.status)
def test_what_has_been_written_is_waited_for_though_the_first_look_fails(
    scene: Scene, resource: str, effect: Answer
) -> None:
    scene.nodes.behave("*", PACE)
    rule = Rule(effect, verb="list", resource=resource, nth=(2,))
    scene.door.link.faults.add(rule)
    ran = acted(scene, "set-image", NEW, "--wait", "--timeout", "1h")
    assert (ran.code, scene.door.link.faults.fired(rule)) == (0, 1), ran


def test_one_403_of_a_load_balancer_makes_no_watch_blind() -> None:
    with canary() as scene:
        behind_a_balancer(scene, "list pods", 403)
        ran = scene.run(*WATCH, "30s")
    assert (ran.code, "without the right to list pods" in ran.err) == (3, False), ran


def test_a_node_list_that_a_load_balancer_refuses_later_leaves_the_one_before() -> None:
    """It is listed again each minute."""

    async def refuses(_: Scene) -> None:
        await asyncio.sleep(30.0)
        door.left = 1

    with canary() as scene:
        door = behind_a_balancer(scene, "list nodes", 403, times=0)
        ran = scene.run(*WATCH, "100s", "-o", "json", meanwhile=refuses)
    assert (door.left, "nodes: forbidden" in ran.out + ran.err) == (0, False), ran
