"""minReadySeconds in virtual time: the controller wakes up by itself, at the very moment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from controller.api.objects import epoch
from tests.beds.api import Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.journal import Write
from tests.beds.controller.opening import simulated
from tests.beds.controller.waves import UNREADY, layout, live
from tests.beds.objects import V2, condition, daemonset, image_of, node_of
from tests.beds.virtual_time import START, clock
from tests.system.monitor import monitoring

HOUR = 3600
LIMITS = [{"maxUnavailable": 1}, {"maxSurge": 1}]


@asynccontextmanager
async def begun(rolling: Object, wait: int, *, skew: float = 0.0) -> AsyncIterator[Bed]:
    """Two nodes with v1; node-1 has its pod of v2, which is not ready yet. Everybody waits for that."""
    async with simulated(skew=skew) as bed:
        bed.patience = 30.0 * HOUR
        await bed.deploy(daemonset(minReadySeconds=wait, rolling=rolling), nodes=2)
        bed.nodes.behave("*", UNREADY)
        await bed.set_image(V2)
        await bed.idle(60)
        bed.journal.clear()
        yield bed


async def ready(bed: Bed) -> float:
    """The new pod gets ready. Returns the moment that its time stamp tells, in seconds since 1970."""
    pod = await bed.nodes.ready(next(pod for pod in await live(bed) if image_of(pod) == V2))
    assert node_of(pod) == "node-1"
    moment = epoch(condition(pod, "Ready")["lastTransitionTime"])
    assert moment is not None
    return moment


def first_deletion(bed: Bed) -> Write:
    return bed.journal.of("pods", "delete")[0]


@pytest.mark.parametrize("rolling", LIMITS)
async def test_the_next_pod_goes_at_the_very_moment(rolling: Object) -> None:
    async with begun(rolling, HOUR) as bed, monitoring(bed, most_unavailable=1):
        since = await ready(bed)
        await bed.idle(HOUR + 60)
        gone = first_deletion(bed)
        assert gone.node == ("node-1" if "maxSurge" in rolling else "node-0")
        assert 0 < START + gone.at - (since + HOUR) < 0.1


@pytest.mark.parametrize("rolling", LIMITS)
async def test_nothing_is_written_meanwhile(rolling: Object) -> None:
    async with begun(rolling, HOUR) as bed:
        await ready(bed)
        await bed.idle(60)
        bed.journal.clear()
        await bed.idle(HOUR - 120)
        assert bed.journal.work == []


@pytest.mark.parametrize("rolling", LIMITS)
async def test_a_pod_that_loses_its_readiness_begins_anew(rolling: Object) -> None:
    async with begun(rolling, HOUR) as bed:
        await ready(bed)
        await bed.idle(HOUR - 60)
        lame = next(pod for pod in await live(bed) if image_of(pod) == V2)
        await bed.nodes.ready(lame, value=False)
        await bed.idle(60)
        since = await ready(bed)
        await bed.idle(HOUR + 60)
        assert 0 < START + first_deletion(bed).at - (since + HOUR) < 0.1


@pytest.mark.parametrize("rolling", LIMITS)
async def test_a_wait_that_is_shortened_ends_now(rolling: Object) -> None:
    async with begun(rolling, 24 * HOUR) as bed:
        await ready(bed)
        await bed.idle(HOUR)
        bed.journal.clear()
        edited = clock()
        await bed.edit({"minReadySeconds": 60})
        await bed.idle(60)
        assert 0 <= START + first_deletion(bed).at - edited < 1


@pytest.mark.parametrize("rolling", LIMITS)
async def test_a_node_whose_clock_is_an_hour_ahead_costs_no_hour(rolling: Object) -> None:
    """A time stamp of the future counts from when the controller saw it."""
    async with begun(rolling, 60, skew=-float(HOUR)) as bed:
        seen = clock()
        assert await ready(bed) - (clock() - HOUR) >= HOUR - 1, "by the controller's clock it lies in the future"
        await bed.idle(600)
        assert 0 < START + first_deletion(bed).at - (seen + 60) < 1
        bed.nodes.behave("*", None)
        await bed.settled()
        assert await layout(bed) == "v2 v2"


@pytest.mark.parametrize("rolling", LIMITS)
async def test_a_restarted_controller_waits_for_the_rest(rolling: Object) -> None:
    async with begun(rolling, HOUR) as bed:
        since = await ready(bed)
        await bed.idle(HOUR / 2)
        await bed.controller.kill()
        bed.controller.start()
        await bed.idle(HOUR)
        assert 0 < START + first_deletion(bed).at - (since + HOUR) < 0.1
