"""A new leader plans nothing before it has seen what its predecessor wrote: its own watches may lie behind."""

from __future__ import annotations

import asyncio

from tests.beds.controller.bed import Bed
from tests.beds.controller.metrics import elected, filled, metric, scraped
from tests.beds.controller.running import Controller
from tests.beds.controller.waves import UNREADY, all_ready, both, wave
from tests.beds.nodes import INSTANT
from tests.beds.objects import V2, daemonset
from tests.beds.simulator.faults import FaultPlan, LateWatch, Rule
from tests.beds.simulator.transport import InProcess, ServedRequest
from tests.system.monitor import monitoring

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
