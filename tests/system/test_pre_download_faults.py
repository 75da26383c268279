"""Rollouts whose images go ahead, when jobs or pullers cannot be had: nobody waits in silence (virtual time)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.beds.api import Object
from tests.beds.controller.bed import Bed
from tests.beds.objects import V1, V2, V3, daemonset
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.refusal import Refused

IN_PLACE = {"rollingUpdateType": "InPlaceIfPossible"}
WORDS = "the policy says no"


@contextmanager
def refused(bed: Bed, kind: str, among: Callable[[Object], bool]) -> Iterator[None]:
    """While the block runs objects like these are not created."""

    def admit(attempt: Attempt) -> None:
        if (attempt.kind.plural, attempt.verb) == (kind, "create") and among(attempt.object):
            raise Refused(403, "Forbidden", WORDS)

    admission = bed.simulator.cluster.admission
    admission.append(admit)
    yield
    admission.remove(admit)


def two(first: str, second: str) -> Object:
    """A template with two containers."""
    containers = [{"name": "agent", "image": first}, {"name": "helper", "image": second}]
    return {"template": {"spec": {"containers": containers}}}


async def deployed(bed: Bed, edit: Object) -> list[str]:
    """Three nodes, updated in place from now on."""
    nodes = await bed.add_nodes(3)
    await bed.deploy(daemonset(rolling=IN_PLACE))
    await bed.edit(edit)
    await bed.settled()
    return nodes


async def test_a_job_that_is_refused_keeps_no_other_image_back(pulls: Bed) -> None:
    nodes = await deployed(pulls, two(V1, V1))
    with refused(pulls, "imagepulljobs", lambda job: job["spec"]["image"] == V2):
        await pulls.edit(two(V2, V3))
        await pulls.event("CreatedImagePullJob", V3)
        began = pulls.clock()
        await pulls.runs_on(*nodes, image=V2)
    assert pulls.clock() - began < 60, "nobody waits for the one that cannot be made"
