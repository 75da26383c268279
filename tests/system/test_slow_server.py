"""A server that answers late or never: what is not answered counts as done, and keeps no lost pod waiting."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from controller.kube.sender import CEILING
from controller.runtime.leader_election import LeadershipLost
from tests.beds.api import DAEMONSETS, LEASES, NAMESPACES, PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.metrics import elected, metric, scraped
from tests.beds.controller.opening import simulated
from tests.beds.controller.running import Controller
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, bare_pod, daemonset, image_of, is_ready, node_of, stays
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import (
    Answer,
    Effect,
    ErrorEvent,
    FaultPlan,
    Hang,
    LateRequest,
    LateWatch,
    LoseAnswer,
    LoseRequest,
    Rule,
    Warn,
)
from tests.beds.simulator.kinds import PODS as POD_KIND
from tests.beds.simulator.refusal import Refused
from tests.beds.simulator.transport import InProcess
from tests.beds.virtual_time import now
from tests.system.conftest import Open
from tests.system.replay import film

HOUR = 3600.0
SLOW = Behaviour(start=0.3, ready=0.2, terminate=0.3)
FIRST = Rule(verb="create", resource="pods", effect=Hang(), times=1)


@pytest.fixture
def opened() -> Open:
    """Each request takes a moment."""
    return lambda: simulated(latency=0.02)


@pytest.fixture
def bed(bed: Bed) -> Bed:
    bed.patience = HOUR
    return bed


async def lose(bed: Bed, node: str) -> None:
    await bed.api.delete(PODS, (await bed.pods())[node]["metadata"]["name"])


async def test_an_unanswered_create_delays_no_other_lost_pod(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=5)
    bed.simulator.link.faults.add(FIRST)
    await lose(bed, nodes[0])
    await asyncio.sleep(3.0)  # of virtual time
    began = now()
    await lose(bed, nodes[3])
    await bed.runs_on(*nodes[1:])
    assert now() - began < 4.0, "seconds; the first one hangs for 30"
    await bed.runs_on(*nodes)
    assert now() - began < 40.0
    await bed.settled()
    assert bed.journal.created == [nodes[3], nodes[0]], "and nothing was made twice"


async def test_an_unanswered_deletion_uses_budget_and_stops_nothing_else() -> None:
    """Done or not, its pod counts as unavailable: with two at a time the others go one by one."""
    stuck = Rule(verb="delete", resource="pods", effect=Hang(), times=1)
    async with simulated(latency=0.02, behaviour=SLOW) as bed:
        bed.patience = HOUR
        await bed.deploy(daemonset(rolling={"maxUnavailable": 2}), nodes=6)
        bed.simulator.link.faults.add(stuck)
        began = now()
        await bed.set_image(V2)
        least = 6

        def updated(pods: list[Object]) -> str:
            nonlocal least
            least = min(least, sum(is_ready(pod) for pod in pods))
            new = sum(pod["spec"]["containers"][0]["image"] == V2 and is_ready(pod) for pod in pods)
            return "" if new == 5 else f"{new} are updated"

        await bed.until(PODS, updated, "five are updated")
        assert now() - began < 25.0, "seconds; the deletion hangs for 30"
        assert least >= 5, "of 6 are ready: one place of two is taken by what may be gone"
        await bed.status(observed=2, updated=6, available=6)


async def test_what_is_refused_late_is_reported_and_held_back(bed: Bed) -> None:
    slow = Rule(verb="create", resource="pods", effect=Hang(seconds=10.0))
    await bed.add_nodes(2)
    bed.simulator.link.faults.add(slow)

    def admit(attempt: Attempt) -> None:
        if attempt.kind is POD_KIND and attempt.verb == "create":
            raise Refused(403, "Forbidden", "the policy webhook says no")

    bed.simulator.cluster.admission.append(admit)
    await bed.api.create(DAEMONSETS, daemonset())
    await bed.event("FailedCreate", "the policy webhook says no")
    degraded = await bed.condition("Degraded", "WritesFail")
    assert "the policy webhook says no" in degraded["message"]
    began = now()
    count = len(bed.journal.of("pods", "create", failed=True))
    await asyncio.sleep(600.0)  # of virtual time
    tried = len(bed.journal.of("pods", "create", failed=True)) - count
    assert 2 <= tried < 30, f"in {now() - began} s"


async def test_a_status_that_is_not_answered_delays_no_lost_pod() -> None:
    stuck = Rule(verb="patch", resource="daemonsets.apps.kruise.io/status", effect=Hang())
    async with simulated(latency=0.02, behaviour=SLOW) as bed:
        bed.patience = HOUR
        nodes = await bed.deploy(daemonset(), nodes=3)
        bed.simulator.link.faults.add(stuck)
        await lose(bed, nodes[0])
        await bed.runs_on(*nodes)
        for _ in range(3):
            began = now()
            await lose(bed, nodes[1])
            await bed.runs_on(*nodes)
            assert now() - began < 5.0, "seconds; the status hangs for 30"
            await asyncio.sleep(5.0)  # of virtual time
        assert 1 <= bed.simulator.link.faults.fired(stuck) <= 2, "one status write at a time"
        bed.simulator.link.faults.remove(stuck)
        await bed.set_image(V2)
        await bed.status(observed=2, updated=3, available=3)


LATE = Rule(verb="watch", resource="pods", effect=LateWatch(seconds=5))
DONE = Rule(verb="delete", resource="pods", nth=(1,), effect=LoseAnswer())
BLIND = Rule(verb="get", resource="pods", nth=(1,), effect=LoseRequest())


@pytest.mark.parametrize("again", [Answer(403), Answer(500), Answer(503)])
@pytest.mark.parametrize("blind", [(), (BLIND,)], ids=["it can look", "it cannot look"])
async def test_no_other_pod_goes_while_a_deletion_is_in_doubt(again: Answer, blind: tuple[Rule, ...]) -> None:
    refused = Rule(verb="delete", resource="pods", nth=(2, 3, 4), effect=again)
    async with simulated(LATE, DONE, refused, *blind, latency=0.02) as bed:
        bed.patience = 3600.0
        nodes = await bed.deploy(daemonset(), nodes=4)
        history = await film(bed)
        await bed.update(V2)
        await bed.runs_on(*nodes, image=V2)
        assert min(len(served) for served in await history.served()) == 3, "maxUnavailable is 1"


async def test_a_lost_answer_is_looked_up_once() -> None:
    """Also the third in a row, which counts as a failure unless the write was done."""
    lost = Rule(verb="delete", resource="pods", nth=(1, 2, 3), effect=LoseRequest())
    read = Rule(verb="get", resource="pods", effect=Warn("299 - read"))
    async with simulated(lost, read, latency=0.02) as bed:
        bed.patience = HOUR
        nodes = await bed.deploy(daemonset(), nodes=1)
        await bed.update(V2)
        await bed.runs_on(*nodes, image=V2)
        assert [bed.simulator.link.faults.fired(rule) for rule in (lost, read)] == [3, 3]


async def test_a_late_create_makes_no_second_new_pod() -> None:
    """While surging: a pod of the new revision is on its way when the server cannot be reached any more."""
    late = Rule(verb="create", resource="pods", nth=(5,), effect=LateRequest(seconds=5))
    away = Rule(verb="create", resource="pods", nth=tuple(range(5, 12)), effect=LoseRequest())
    async with simulated(late, away, latency=0.02) as bed:
        nodes = await bed.deploy(daemonset(rolling={"maxSurge": 1}), nodes=3)
        history = await film(bed)
        await bed.set_image(V2)
        while not bed.journal.of("pods", "create", failed=True):
            await bed.journal.news(bed.patience)
        await bed.api.delete(PODS, (await bed.pods())["node-2"]["metadata"]["name"])
        await bed.settled()
        await bed.runs_on(*nodes, image=V2)
        await bed.idle(10.0)
        assert await history.crowded(same_image=True) == []


EIGHT = 8
NOT_THE_DRY_RUN = tuple(range(2, 500))


RECREATE, SURGE = {"maxUnavailable": 1}, {"maxSurge": 1, "maxUnavailable": 0}


@pytest.mark.parametrize(
    ("rolling", "verb", "effect"),
    [
        (SURGE, "delete", Hang(seconds=9.0)),
        (SURGE, "delete", Hang()),
        (RECREATE, "delete", LateRequest(seconds=2)),
        (RECREATE, "delete", LateRequest(seconds=5)),
        (SURGE, "create", LateRequest(seconds=2)),
        (SURGE, "create", LateRequest(seconds=5)),
    ],
)
async def test_whatever_is_not_answered_keeps_the_limits(rolling: Object, verb: str, effect: Effect) -> None:
    async with simulated(latency=0.02, behaviour=SLOW) as bed:
        await bed.add_nodes(EIGHT)
        await bed.deploy(daemonset(rolling=rolling))
        which = NOT_THE_DRY_RUN if verb == "create" else ()
        bed.simulator.link.faults.add(Rule(verb=verb, resource="pods", nth=which, effect=effect))
        await bed.set_image(V2)
        for _ in range(600):
            await asyncio.sleep(0.1)  # of virtual time
            pods = [pod for pod in await bed.api.list(PODS) if stays(pod, "agent")]
            if rolling is SURGE:
                assert len(pods) <= EIGHT + 1
            else:
                assert sum(map(is_ready, pods)) >= EIGHT - 1


async def test_a_slow_adoption_kills_no_pod_and_makes_no_second_one(bed: Bed) -> None:
    """A takeover: every node runs an orphan, and the server takes 2.5 s for each patch."""
    bed.patience = 600.0
    nodes = await bed.add_nodes(20)
    for node in nodes:
        await bed.api.create(PODS, bare_pod(f"orphan-{node}", node))
    before = {pod["metadata"]["uid"] for pod in await bed.api.list(PODS)}
    bed.simulator.link.faults.add(Rule(verb="patch", resource="pods", effect=Hang(seconds=2.5)))
    await bed.api.create(DAEMONSETS, daemonset(rolling={"maxUnavailable": 1, "partition": 20}))
    await asyncio.sleep(60.0)  # of virtual time
    after = {pod["metadata"]["uid"] for pod in await bed.api.list(PODS)}
    assert not bed.journal.created, "every node has a pod already"
    assert after == before


async def test_while_surging_a_late_create_is_in_the_partitions_quota() -> None:
    async with simulated(latency=0.02, behaviour=SLOW) as bed:
        await bed.deploy(daemonset(rolling={"maxSurge": 1, "maxUnavailable": 0, "partition": "50%"}), nodes=3)
        late = Rule(verb="create", resource="pods", effect=Hang(seconds=12.0), nth=(3,))  # dry run, node-2, node-1
        faults = bed.simulator.link.faults
        faults.add(late)
        await bed.set_image(V2)
        while not faults.fired(late):  # virtual time
            await asyncio.sleep(0.1)  # of virtual time
        await asyncio.sleep(3.0)
        await bed.nodes.add("node-9")  # the quota stays: 2 of 3, 2 of 4
        await asyncio.sleep(60.0)
        pods = await bed.api.list(PODS)
        updated = [node_of(pod) for pod in pods if stays(pod, "agent") and image_of(pod) == V2]
        assert len(updated) <= 2, sorted(updated)


REJECTS = Behaviour(reject="OutOfcpu")


async def test_failed_pods_whose_deletion_hangs_do_not_pile_up() -> None:
    async with simulated(latency=0.02, behaviour=REJECTS) as bed:
        await bed.add_nodes(1)
        bed.simulator.link.faults.add(Rule(verb="delete", resource="pods", effect=Hang()))
        await bed.api.create(DAEMONSETS, daemonset())
        await asyncio.sleep(60.0)  # of virtual time
        assert len(await bed.api.list(PODS)) <= 2, "on one node, in a minute; the back-off allows 6 one after another"


STUCK = "stuck"
"""A namespace whose every request hangs: its webhook takes all and answers none."""
HANGS = Rule(verb="create,patch,delete,get", resource="*", namespace=STUCK, effect=Hang())
TOO_OLD = Rule(verb="watch", resource="pods", times=1, effect=ErrorEvent())
TWELVE = 12
LATENCY = 0.02
DRAIN = 20.0


async def deploy_beside(bed: Bed, count: int, *, listed: bool = True) -> None:
    """`agent` where all is well, and `count` others whose pods have all been lost since their namespace hangs.

    `listed`: a list shows them lost at once, so that all creates of a pass hang.
    """
    await bed.controller.stop()
    bed.controller.start(msgspec.structs.replace(bed.controller.settings, namespaces=()))
    bed.patience = 600.0
    await bed.add_nodes(TWELVE)
    await bed.deploy(daemonset())
    await bed.api.create(NAMESPACES, {"metadata": {"name": STUCK}})
    names = [f"stuck-{number}" for number in range(count)]
    for name in names:
        one = daemonset(name)
        await bed.api.create(DAEMONSETS, one | {"metadata": {**one["metadata"], "namespace": STUCK}})
    await all_run(bed, count)
    await bed.idle(60)
    bed.simulator.link.faults.add(HANGS)
    if listed:
        bed.simulator.link.faults.add(TOO_OLD)
    bed.simulator.link.drop_watches("pods")
    for pod in await bed.api.list(PODS, namespace=STUCK):
        await bed.api.delete(PODS, pod["metadata"]["name"], namespace=STUCK)


async def all_run(bed: Bed, count: int) -> None:
    def missing(found: list[Object]) -> str:
        return "" if len(found) == count * TWELVE else f"there are {len(found)} pods"

    await bed.until(PODS, missing, "all run", namespace=STUCK)


async def lose_a_pod(bed: Bed, node: str) -> float:
    """Returns after how many seconds the server has stored another one."""
    nodes = [f"node-{number}" for number in range(TWELVE)]
    name = (await bed.pods())[node]["metadata"]["name"]
    began = now()
    await bed.api.delete(PODS, name)
    await bed.runs_on(*nodes)
    return now() - began


@pytest.mark.parametrize("count", [3, 20])
async def test_requests_of_others_that_hang_keep_no_lost_pod_waiting(bed: Bed, count: int) -> None:
    await deploy_beside(bed, count)
    for wait in (3.0, 1.0, 10.0, 19.1, 30.2, 45.0):  # the watch is back; requests end after 30 s, and come again
        await asyncio.sleep(wait)
        assert await lose_a_pod(bed, "node-1") <= 1.0
    assert bed.simulator.link.faults.fired(HANGS) >= min(count * TWELVE, CEILING), "many of each"
    bed.simulator.link.faults.remove(HANGS)
    bed.patience = 3600.0
    await all_run(bed, count)


async def test_the_controller_ends_in_time_though_requests_hang(bed: Bed) -> None:
    await deploy_beside(bed, 9)
    await asyncio.sleep(3)
    began = now()
    await bed.controller.stop()
    assert now() - began <= DRAIN


async def test_a_cache_is_listed_again_though_requests_hang(bed: Bed) -> None:
    """In pages, which are requests like any other."""
    too_old = Rule(verb="watch", resource="pods", times=1, effect=ErrorEvent())
    bed.simulator.cluster.watch_list = False
    await deploy_beside(bed, 9, listed=False)
    await asyncio.sleep(3)
    link = bed.simulator.link
    link.faults.add(too_old)
    link.drop_watches("pods")
    assert await lose_a_pod(bed, "node-1") <= 5.0, "seconds; behind what hangs it would be 27"
    assert link.faults.fired(too_old), "the watch was too old"


async def test_a_leader_that_loses_its_lease_ends_at_once_though_requests_hang(bed: Bed) -> None:
    await deploy_beside(bed, 9)
    await asyncio.sleep(3)
    await bed.controller.kill()
    with pytest.raises(ExceptionGroup) as caught:
        await led_until_another_does(bed)
    assert caught.group_contains(LeadershipLost, depth=None)


async def led_until_another_does(bed: Bed) -> None:
    """A leader with nine passes that hang; another holder is written into its Lease."""
    began = 0.0
    link = InProcess(bed.simulator.cluster, faults=FaultPlan(HANGS))
    try:
        async with asyncio.TaskGroup() as tasks:
            leader = Controller(link, bed.api.namespace, tasks)
            leader.start(msgspec.structs.replace(elected(bed), namespaces=()))
            await scraped(bed, lambda: "" if in_hand(leader) == 9 else f"{in_hand(leader)} passes wait")
            (lease,) = await bed.api.list(LEASES)
            began = now()
            await bed.api.patch(LEASES, lease["metadata"]["name"], {"spec": {"holderIdentity": "another"}})
    finally:
        assert now() - began <= 3.0


def in_hand(controller: Controller) -> float:
    return metric(controller, "controller_runtime_active_workers")


async def test_creates_that_take_three_seconds_each_are_not_made_one_by_one(bed: Bed) -> None:
    bed.patience = 3600.0
    nodes = await bed.add_nodes(120)
    bed.simulator.link.faults.add(Rule(verb="create", resource="pods", effect=Hang(seconds=3.0)))
    began = now()
    await bed.api.create(DAEMONSETS, daemonset())
    await bed.runs_on(*nodes)
    assert now() - began < 60.0, "seconds; 7 batches of 1, 2, 4 … 64 make 21"


WAITS, SILENT = Hang(seconds=3.0), Hang()
REFUSED, BROKEN = Answer(403, reason="Forbidden"), Answer(500, reason="InternalError")


@pytest.mark.parametrize("effect", [WAITS, SILENT, REFUSED, BROKEN], ids=["slow", "silent", "refused", "broken"])
async def test_a_look_before_an_adoption_that_fails_keeps_no_lost_pod_waiting(bed: Bed, effect: Effect) -> None:
    bed.patience = 600.0
    nodes = await bed.deploy(daemonset(), nodes=3)
    rule = Rule(verb="get", resource="daemonsets.apps.kruise.io", effect=effect)
    bed.simulator.link.faults.add(rule)
    await bed.api.create(PODS, bare_pod("orphan", nodes[1]))
    await asyncio.sleep(5.0)  # of virtual time
    lost = (await bed.pods())[nodes[0]]["metadata"]
    began = now()
    await bed.api.delete(PODS, lost["name"])

    def missing(found: list[Object]) -> str:
        there = [pod for pod in found if stays(pod, "agent") and node_of(pod) == nodes[0]]
        return "" if any(pod["metadata"]["uid"] != lost["uid"] for pod in there) else "it is not back"

    await bed.until(PODS, missing, "the lost pod is back")
    assert now() - began < 10.0


async def test_an_adoption_without_effect_keeps_no_lost_pod_waiting(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=3)

    def admit(attempt: Attempt) -> None:
        if attempt.kind is POD_KIND and attempt.verb == "update" and attempt.name == "orphan":
            attempt.object["metadata"].pop("ownerReferences", None)

    bed.simulator.cluster.admission.append(admit)
    await bed.api.create(PODS, bare_pod("orphan", nodes[1]))
    await asyncio.sleep(5.0)  # of virtual time
    await bed.api.delete(PODS, (await bed.pods())[nodes[0]]["metadata"]["name"])
    await asyncio.sleep(60.0)
    assert bed.journal.created == [nodes[0]]
