"""The robustness matrix and other faults that a simulator can script, in virtual time.

Whatever happens on the way: never two live pods on a node, never fewer served nodes than allowed, and it ends well.
"""

from __future__ import annotations

import pytest

from tests.beds.api import DAEMONSETS, PODS
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.opening import simulated
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, controller_of, daemonset
from tests.beds.simulator.faults import (
    Answer,
    CloseWatch,
    CutLine,
    Effect,
    ErrorEvent,
    Hang,
    LateWatch,
    LoseAnswer,
    LoseRequest,
    NoConnection,
    Rule,
    StaleList,
)
from tests.system.replay import film

STATUS = "daemonsets.apps.kruise.io/status"
DAEMONSET = "daemonsets.apps.kruise.io"
REVISIONS = "controllerrevisions.apps"
LATENCY = 0.02
SLOW = Behaviour(start=0.3, ready=0.2, terminate=0.3)


WRITES = {
    "create": Rule(verb="create", resource="pods", nth=(2, 3, 5), effect=LoseAnswer()),
    "create, answered by a proxy": Rule(verb="create", resource="pods", nth=(1, 4), effect=LoseAnswer(status=504)),
    "create, not arrived": Rule(verb="create", resource="pods", nth=(1, 4), effect=LoseRequest()),
    "create, no answer for long": Rule(verb="create", resource="pods", nth=(2,), effect=Hang(done=True)),
    "create, timed out by the server": Rule(verb="create", resource="pods", nth=(2,), effect=Answer(504)),
    "delete": Rule(verb="delete", resource="pods", nth=(1, 3), effect=LoseAnswer()),
    "delete, conflict": Rule(verb="delete", resource="pods", nth=(1, 2), effect=Answer(409)),
    "delete, 500": Rule(verb="delete", resource="pods", nth=(1, 3), effect=Answer(500)),
    "status": Rule(verb="patch", resource=STATUS, nth=(1, 3), effect=LoseAnswer()),
    "status, conflict": Rule(verb="patch", resource=STATUS, nth=(1, 2), effect=Answer(409)),
    "status, 500": Rule(verb="patch", resource=STATUS, nth=(1, 2, 4), effect=Answer(500)),
    "revision": Rule(verb="create", resource=REVISIONS, nth=(1,), effect=LoseAnswer()),
    "revision, 500": Rule(verb="create", resource=REVISIONS, nth=(1, 2), effect=Answer(500)),
    "busy, creates": Rule(verb="create", resource="pods", nth=(1, 4, 5), effect=Answer(429, retry_after=2)),
    "busy, deletes": Rule(verb="delete", resource="pods", nth=(1, 3), effect=Answer(429, retry_after=1)),
    "busy, everything": Rule(verb="*", resource="*", percentage=20, times=30, effect=Answer(429, retry_after=1)),
    "no server for some requests": Rule(verb="*", resource="*", percentage=20, times=30, effect=NoConnection()),
    "no events": Rule(verb="create", resource="events", effect=Answer(403, reason="Forbidden")),
}

WATCHES = {
    "closed after a few events": Rule(verb="watch", resource="*", times=8, effect=CloseWatch(events=3)),
    "broken off": Rule(verb="watch", resource="*", times=8, effect=CloseWatch(events=3, reset=True)),
    "cut in the middle of a line": Rule(verb="watch", resource="*", times=8, effect=CutLine(events=3)),
    "too old": Rule(verb="watch", resource="*", times=8, effect=ErrorEvent(events=3)),
    "too old at once": Rule(verb="watch", resource="*", times=4, effect=Answer(410)),
    "a server error in the stream": Rule(
        verb="watch", resource="*", times=8, effect=ErrorEvent(events=2, status=500, reason="InternalError")
    ),
    "not answered": Rule(verb="watch", resource="pods", times=2, effect=Hang(seconds=600)),
    "late nodes": Rule(verb="watch", resource="nodes", effect=LateWatch(seconds=4)),
    "late daemonsets": Rule(verb="watch", resource=DAEMONSET, effect=LateWatch(seconds=4)),
    "late revisions": Rule(verb="watch", resource=REVISIONS, effect=LateWatch(seconds=4)),
}


async def deploy_and_update(bed: Bed) -> None:
    """The whole life of a DaemonSet on four nodes, watched for safety all the time."""
    bed.patience = 3600.0
    nodes = await bed.add_nodes(4)
    history = await film(bed)
    await bed.api.create(DAEMONSETS, daemonset(rolling={"maxUnavailable": 2}))
    await bed.settled()
    await bed.runs_on(*nodes)
    await bed.idle(60)
    first = {pod["metadata"]["uid"] for state in await history.states() for pod in state}
    assert len(first) == 4, "one pod for each node, whatever happened"

    history = await film(bed)
    await bed.update(V2)
    await bed.runs_on(*nodes, image=V2)
    await bed.idle(60)
    assert await history.crowded() == []
    assert min(len(served) for served in await history.served()) >= 2, "maxUnavailable is 2"
    everybody = {pod["metadata"]["uid"] for state in await history.states() for pod in state}
    assert len(everybody) == 8, "each pod was replaced once"
    written = len(bed.journal.writes)
    await bed.idle(600)
    assert bed.journal.writes[written:] == [], "and then it is quiet"


@pytest.mark.parametrize("fault", [*WRITES, *WATCHES])
async def test_whatever_fails_on_the_way(fault: str) -> None:
    async with simulated((WRITES | WATCHES)[fault], latency=LATENCY, behaviour=SLOW) as bed:
        await deploy_and_update(bed)


@pytest.mark.parametrize("resource", ["pods", REVISIONS, DAEMONSET, "nodes"])
async def test_a_late_watch_makes_nothing_be_written_twice(resource: str) -> None:
    """Nothing is decided from a cache that has not seen our own writes: no create or delete is ever refused."""
    late = Rule(verb="watch", resource=resource, effect=LateWatch(seconds=3))
    async with simulated(late, latency=LATENCY, behaviour=SLOW) as bed:
        await deploy_and_update(bed)
    assert bed.journal.failed == []
    assert sorted(bed.journal.deleted) == ["node-0", "node-1", "node-2", "node-3"]
    assert len(bed.journal.created) == 8


@pytest.mark.parametrize(
    "effect", [Answer(409), Answer(500), Answer(429, retry_after=1), LoseAnswer(), LoseRequest()]
)
async def test_adoption_and_release_that_fail_are_tried_again(effect: Effect) -> None:
    fault = Rule(verb="patch", resource="pods", nth=(1, 3), effect=effect)
    async with simulated(fault, latency=LATENCY, behaviour=SLOW) as bed:
        bed.patience = 600.0
        nodes = await bed.deploy(daemonset(), nodes=3)
        before = await bed.pods()
        await bed.api.delete(DAEMONSETS, "agent", options={"propagationPolicy": "Orphan"})
        await bed.deploy(daemonset())
        assert uids(await bed.runs_on(*nodes)) == uids(before)

        released = before["node-1"]["metadata"]["name"]
        await bed.api.patch(PODS, released, {"metadata": {"labels": {"app": "other"}}})
        await bed.idle(60)
        assert not controller_of(await bed.api.get(PODS, released))
        assert {node for node, uid in uids(await bed.runs_on(*nodes)).items() if uid != uids(before)[node]} == {
            "node-1"
        }


async def test_a_controller_started_on_an_old_list_does_nothing_twice() -> None:
    stale = Rule(verb="list", resource="*", times=4, effect=StaleList(seconds=5))
    async with simulated(latency=LATENCY) as bed:
        bed.patience = 600.0
        bed.simulator.cluster.watch_list = False
        nodes = await bed.deploy(daemonset(), nodes=4)
        before = uids(await bed.pods())
        await bed.controller.kill()
        bed.simulator.link.faults.add(stale)
        bed.controller.start()
        await bed.idle(30)
        assert uids(await bed.runs_on(*nodes)) == before
        assert bed.journal.of("pods") == []


async def test_a_server_that_is_away_for_a_while_is_waited_for() -> None:
    async with simulated(latency=LATENCY) as bed:
        bed.patience = 600.0
        nodes = await bed.deploy(daemonset(), nodes=4)
        before = uids(await bed.pods())
        link = bed.simulator.link
        link.up = False
        link.drop_watches()
        gone = (await bed.pods())["node-2"]
        await bed.api.delete(PODS, gone["metadata"]["name"])
        await bed.idle(20)
        link.up = True
        after = uids(await bed.runs_on(*nodes))
        await bed.idle(10)
        assert {node for node in nodes if after[node] != before[node]} == {"node-2"}
        assert bed.journal.created == ["node-2"]
