"""Whatever an API server can store costs that object at most, and holds the event loop for no long turn."""

from __future__ import annotations

import asyncio
import gc
import json
from functools import partial

import hypothesis.strategies as st
from hypothesis import Phase, example, given, settings

from controller import app
from controller.observe.metrics import Metrics
from controller.settings import Settings
from controller.wiring import Parts
from tests.beds.controller.running import SHARED
from tests.beds.virtual_time import TimedLoop, clock, unit
from tests.properties.hostile_objects import LARGEST, Place, places, plain, with_value
from tests.properties.hostile_server import HostileServer
from tests.properties.size import every_day

ATTEMPTS = 3
"""What others do on the machine can only make a turn longer; what is long by itself is so each time."""
LONGEST = 60.0
"""Units of plain work that a turn may take: some tenths of a second, where the lease has fifteen seconds."""
NODES = 50
PLURALS = ("daemonsets", "controllerrevisions", "pods")
PLACES = tuple(places())


def at(path: str, shape: str) -> Place:
    return next(one for one in PLACES if (one[1], one[2]) == (path, shape))


async def told(server: HostileServer) -> tuple[Parts, dict[str, float]]:
    """A controller that has seen it all, and the sum of each metric that it exposes."""
    stop, settings = asyncio.Event(), Settings(leader_elect=False, metrics_address=None, health_address=None)
    async with asyncio.TaskGroup() as group:
        parts = Parts(settings, server, clock=clock)
        running = group.create_task(app.run(settings, parts, stop, SHARED), name="controller")
        await asyncio.sleep(5.0)
        assert not running.done(), "the controller has ended"
        metrics: Metrics = parts.metrics
        sums = {family.name: sum(one.value for one in family.samples) for family in metrics.families()}
        stop.set()
        await running
    return parts, sums


def _same(loop: TimedLoop) -> TimedLoop:
    return loop


@settings(every_day(8), phases=(Phase.explicit, Phase.generate))  # nothing gets clearer by being shrunk
@given(place=st.sampled_from(PLACES), size=st.sampled_from([1000, 30_000, LARGEST]))
@example(place=at("spec.template.unknown", "lists in lists"), size=LARGEST)
@example(place=at("data.spec.template.spec", "objects in objects"), size=LARGEST)
@example(place=at("data.spec.template.metadata.annotations", "as deep as a decoder goes"), size=LARGEST)
@example(place=at("spec.template.metadata.annotations", "a long text of quotes"), size=LARGEST)
@example(place=at("spec.template.spec.containers", "numbers"), size=LARGEST)
@example(place=at("spec.template.spec.containers.0.args", "control characters"), size=1000)
@example(place=at("data.spec.template.spec.priority", "many"), size=LARGEST)
@example(place=at("spec.template.spec.containers.0.resources.limits", "quantities"), size=LARGEST)
def test_what_a_server_can_store_costs_that_object_only(place: Place, size: int) -> None:
    plural, path, _, shape = place
    objects = {one: [json.dumps(plain(one, "calm")).encode()] for one in PLURALS}
    objects["nodes"] = [json.dumps(plain("nodes", f"node-{number}")).encode() for number in range(NODES)]
    if plural != "daemonsets":
        objects["daemonsets"].append(json.dumps(plain("daemonsets", "hostile")).encode())
    objects[plural].append(with_value(plain(plural, "hostile"), path, shape(size)))
    for loop in (TimedLoop() for _ in range(ATTEMPTS)):
        server = HostileServer(objects)
        gc.collect()  # in no turn: what is collected here are the objects of all tests that ran in this process
        gc.freeze()
        try:
            with asyncio.Runner(loop_factory=partial(_same, loop)) as runner:
                of_work = unit()
                parts, sums = runner.run(told(server))
                of_work = max(of_work, unit())
        finally:
            gc.unfreeze()
        if loop.longest <= LONGEST * of_work:
            break
    bad = [key.name for store in parts.informers.caches.stores.values() for key in store.malformed]
    assert not [name for name in bad if not name.startswith("hostile")], bad
    assert len(bad) <= 1
    assert any(one.endswith("/daemonsets/calm/status") for one in server.asked), "the others go on"
    assert sums["kruise_daemonset_metadata_generation"] >= 1, "nothing is told of those that can be read"
    assert sums["controller_runtime_reconcile_panics"] == 0, "a pass ended in an exception that nobody expected"
    assert loop.longest <= LONGEST * of_work, f"{loop.longest / of_work:.0f} units in one turn of {loop.whose}"
