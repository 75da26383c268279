"""A controller that ends, in whatever way, one that stands by, and one that begins: none of it changes anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from controller import app
from controller.api.names import LEASE_NAME
from controller.runtime.leader_election import (
    LEASE_DURATION,
    RENEW_DEADLINE,
    RETRY_PERIOD,
    WATCHDOG_SECONDS,
    Watchdog,
)
from controller.wiring import Parts
from tests.beds import api
from tests.beds.api import CONFIGMAPS, DAEMONSETS, PODS
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.metrics import elected, filled, metric, scraped
from tests.beds.controller.opening import simulated
from tests.beds.controller.running import Controller
from tests.beds.controller.waves import UNREADY, all_ready, both, wave
from tests.beds.nodes import INSTANT
from tests.beds.objects import V1, V2, daemonset
from tests.beds.simulator.faults import FaultPlan, LateWatch, LoseAnswer, Rule
from tests.beds.simulator.store import Backup
from tests.beds.simulator.transport import InProcess, ServedRequest
from tests.beds.virtual_time import clock, now
from tests.system.both import both_beds
from tests.system.monitor import monitoring
from tests.system.replay import film


@both_beds
async def test_a_restart_of_the_controller_writes_nothing(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=4)
    before = uids(await bed.pods())
    await bed.controller.stop()
    bed.controller.start()
    await bed.api.create(DAEMONSETS, daemonset("proof", pod={"nodeSelector": {"no": "such-node"}}))
    await bed.settled("proof")
    await bed.idle()
    assert uids(await bed.pods()) == before
    assert {write.name for write in bed.journal.work if write.name.startswith("agent")} == set()


@pytest.mark.parametrize("writes", [1, 3, 5, 8])
async def test_a_controller_cut_off_in_mid_update_is_carried_on(bed: Bed, writes: int) -> None:
    nodes = await bed.deploy(daemonset(rolling={"maxUnavailable": 2}), nodes=4)
    history = await film(bed)
    await bed.set_image(V2)
    while len(bed.journal.work) < writes:
        assert await bed.journal.news(bed.patience), str(bed.journal)
    await bed.controller.kill()
    bed.controller.start()
    await bed.settled()
    await bed.runs_on(*nodes, image=V2)
    assert await history.crowded() == []
    assert min(len(served) for served in await history.served()) >= 2
    everybody = {pod["metadata"]["uid"] for state in await history.states() for pod in state}
    assert len(everybody) == 2 * len(nodes), "each replaced once"


LEASES = "leases.coordination.k8s.io"
HOUR = 3600.0


def whole_lists(link: InProcess) -> list[str]:
    """What was read from its beginning, as a list or as a stream, since `seen` was cleared."""
    streamed = ("sendInitialEvents", "true")
    return [str(one.route) for one in link.seen if one.route.verb == "list" or streamed in one.request.query]


async def test_in_a_quiet_hour_neither_leader_nor_follower_lists_again() -> None:
    async with simulated() as bed, asyncio.TaskGroup() as tasks:
        bed.patience = 10_000.0
        await bed.deploy(daemonset(), nodes=2)
        await bed.controller.stop()
        bed.controller.start(elected(bed))
        await asyncio.sleep(60)  # half a minute after its end, a rollout is recorded as the stable one
        link = InProcess(bed.simulator.cluster)
        follower = Controller(link, bed.api.namespace, tasks, clock=clock)
        follower.start(elected(bed))
        await asyncio.sleep(10)
        assert [one for one in link.seen if one.route.verb == "watch" and one.route.resource == LEASES], (
            "it stands by"
        )
        assert len(whole_lists(link)) == 4, "one of each kind at its start"

        leader = bed.simulator.link
        for one in (link, leader):
            one.seen.clear()
        await asyncio.sleep(HOUR)
        assert whole_lists(link) == []
        assert whole_lists(leader) == []
        assert link.writes() == [], "and a follower writes nothing"
        assert {one.route.resource for one in leader.writes()} == {LEASES}
        await follower.stop()


class Held(Watchdog):
    """Never expires; keeps until when it was extended, in the loop's time, and whether it watched then."""

    def __init__(self) -> None:
        self.until: list[tuple[float, bool]] = []
        self.watches = False

    def extend(self, seconds: float) -> None:
        self.until.append((now() + seconds, self.watches))

    @contextmanager
    def running(self) -> Iterator[None]:
        self.watches = True
        yield
        self.watches = False


def renewals(link: InProcess) -> list[ServedRequest]:
    return [one for one in link.writes(LEASES) if 200 <= one.status < 300]


async def test_a_leaders_watchdog_expires_before_its_lease() -> None:
    """A loop that is blocked renews nothing and holds nothing: it ends after its own deadline, before others lead."""
    latency, watchdog, stop = 0.4, Held(), asyncio.Event()
    async with simulated() as bed, asyncio.TaskGroup() as tasks:
        await bed.controller.stop()
        await bed.api.create(api.LEASES, {"metadata": {"name": LEASE_NAME}})  # so that it leads at once
        link = InProcess(bed.simulator.cluster, latency=latency)
        options = app.ProcessOptions(measures_lag=False, freezes_garbage=False, watchdog=watchdog)
        running = tasks.create_task(app.run(elected(bed), Parts(elected(bed), link, clock=clock), stop, options))
        await asyncio.sleep(60)
        assert watchdog.watches, "while it leads"
        sent = [one.at - latency for one in renewals(link)]
        assert len(sent) > 20
        assert len(watchdog.until) == len(sent)
        for began, (until, _) in zip(sent, watchdog.until, strict=True):
            assert began + RENEW_DEADLINE < until < began + LEASE_DURATION
            assert until == pytest.approx(began + WATCHDOG_SECONDS), "counted from its request"
        assert all(watched for _, watched in watchdog.until[1:])
        held = len(watchdog.until)
        unanswered = Rule(verb="patch", resource=LEASES, effect=LoseAnswer())
        link.faults.add(unanswered)
        await asyncio.sleep(RETRY_PERIOD * 2)
        assert len(watchdog.until) == held, "a renewal that is not answered is none"
        link.faults.remove(unanswered)
        await asyncio.sleep(RETRY_PERIOD * 2)
        stop.set()
        await running
        assert not watchdog.watches


WRITTEN = ("pods", "controllerrevisions.apps", "daemonsets.apps.kruise.io")


async def test_a_successor_whose_watch_lags_lists_again_before_it_writes(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=4)
    await bed.controller.stop()
    bed.nodes.behave("*", UNREADY)
    late = InProcess(
        bed.simulator.cluster, faults=FaultPlan(Rule(verb="watch", resource="pods", effect=LateWatch(seconds=1.0)))
    )
    async with monitoring(bed, most_unavailable=1), asyncio.TaskGroup() as tasks:
        successor = Controller(late, bed.api.namespace, tasks)
        bed.controller.start(elected(bed))
        await leads(bed)
        successor.start(elected(bed))
        await filled(bed, successor)
        await bed.set_image(V2)
        await wave(bed, both(3))
        await bed.controller.stop()
        bed.nodes.behave("*", INSTANT)
        await all_ready(bed)
        await bed.runs_on(*nodes, image=V2)
        await successor.stop()
    story = [what for one in late.seen if (what := told(one))]
    led = story.index("leads")
    first_write = next(place for place, what in enumerate(story) if what.startswith("writes"))
    for resource in WRITTEN:
        assert f"lists {resource}" in story[led:first_write], f"{resource}: {story}"


async def leads(bed: Bed) -> None:
    def missing() -> str:
        return "" if metric(bed.controller, "leader_election_master_status") else "it does not lead"

    await scraped(bed, missing)


def told(seen: ServedRequest) -> str:
    """What matters of a request here."""
    verb, resource = seen.route.verb, seen.route.resource
    if resource.startswith("leases"):
        return "leads" if verb == "patch" else ""
    if verb == "watch":
        return f"lists {resource}" if ("sendInitialEvents", "true") in seen.request.query else ""
    return f"writes {resource}" if verb in ("create", "patch", "delete") else ""


NODES = tuple(f"node-{number}" for number in range(4))
LATE = Rule(verb="watch", resource="pods", effect=LateWatch(seconds=3))
SOON = 120.0
"""Seconds until the watches have found out; then nothing keeps the controller."""


@asynccontextmanager
async def deployed(*faults: Rule) -> AsyncIterator[Bed]:
    """A DaemonSet that runs on four nodes."""
    async with simulated(*faults, latency=0.02) as bed:
        bed.patience = 600.0
        await bed.add_nodes(len(NODES))
        await bed.deploy(daemonset())
        yield bed


async def much_happens(bed: Bed) -> None:
    """So that no version of before is reached again."""
    for number in range(500):
        await bed.api.create(CONFIGMAPS, {"metadata": {"name": f"something-{number}"}})


def restore(bed: Bed, backup: Backup) -> None:
    bed.simulator.link.drop_watches()  # what was on its way is lost
    bed.simulator.cluster.store.restore(backup)


async def test_a_status_of_before_is_forgotten() -> None:
    async with deployed() as bed:
        backup = bed.simulator.cluster.store.backup()
        await much_happens(bed)
        await bed.update(V2)
        await bed.idle(10)
        restore(bed, backup)
        await asyncio.sleep(SOON)
        await bed.runs_on(*NODES, image=V1)
        bed.journal.clear()
        await bed.update(V2)
        await bed.runs_on(*NODES, image=V2)
        assert bed.journal.failed == [], "a status that refers to what never was is refused"
        assert bed.simulator.cluster.store.version < backup.version + 500, "no version of before was reached"


async def test_writes_that_never_were_are_not_waited_for() -> None:
    async with deployed(LATE) as bed:
        lost = (await bed.pods())["node-1"]["metadata"]["name"]
        await bed.api.delete(PODS, lost)
        backup = bed.simulator.cluster.store.backup()
        await much_happens(bed)
        await bed.runs_on(*NODES)
        await asyncio.sleep(0.1)
        restore(bed, backup)
        began = now()
        await bed.runs_on(*NODES)
        assert now() - began <= SOON
        assert bed.simulator.cluster.store.version < backup.version + 500, "no version of before was reached"


async def test_a_deletion_that_never_was_is_not_waited_for() -> None:
    async with deployed(LATE) as bed:
        await bed.set_image(V2)
        backup = bed.simulator.cluster.store.backup()
        await much_happens(bed)
        await bed.until(PODS, lambda found: "" if len(found) < 4 else "nothing is deleted", "one is deleted")
        restore(bed, backup)
        began = now()
        await bed.runs_on(*NODES, image=V2)
        assert now() - began <= SOON
        assert bed.simulator.cluster.store.version < backup.version + 500, "no version of before was reached"
