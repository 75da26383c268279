"""What an update in place writes, and a webhook or another controller takes back each time: it is told of, tried ever
more seldom, and goes on when they let it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.beds.api import Object
from tests.beds.controller.bed import Bed
from tests.beds.objects import V2
from tests.beds.pods import node_of
from tests.beds.simulator.cluster import Attempt
from tests.system.in_place import GATE
from tests.system.test_resize import container, deployed, small
from tests.system.webhook import judged

WORDS = "taken back by a webhook or by another controller"


@dataclass(frozen=True)
class Case:
    """A write that is taken back on one node, and the edit that it belongs to."""

    subresource: str
    take_back: Callable[[Object], None]
    template: Object
    grace: int = 0


def gate_stays(status: str) -> Callable[[Object], None]:
    def put_back(pod: Object) -> None:
        for one in pod["status"].get("conditions") or []:
            if one["type"] == GATE:
                one["status"] = status

    return put_back


def resources_stay(pod: Object) -> None:
    pod["spec"]["containers"][0]["resources"] = small()


BY_IMAGE: Object = {"spec": {"containers": [container(V2)]}}
CASES = {
    "the gate that is closed for a grace period": Case("status", gate_stays("True"), BY_IMAGE, grace=20),
    "the gate that is opened again": Case("status", gate_stays("False"), BY_IMAGE),
    "the resize": Case("resize", resources_stay, {"spec": {"containers": [container(resources=small(cpu="200m"))]}}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_it_is_told_of_and_not_fought(bed: Bed, case: Case) -> None:
    await deployed(bed, 2, annotations={"kruise-ds/in-place-grace-seconds": str(case.grace)} if case.grace else {})

    def put_back(attempt: Attempt) -> None:
        if (attempt.verb, attempt.subresource, node_of(attempt.object)) == ("update", case.subresource, "node-1"):
            case.take_back(attempt.object)

    with judged(bed, put_back):
        await bed.edit({"template": case.template})
        assert WORDS in (await bed.condition("Degraded", "WritesFail"))["message"]
        await asyncio.sleep(60)
        bed.journal.clear()
        await asyncio.sleep(300)
        assert len(bed.journal.writes) < 20, bed.journal
    bed.patience = 1200.0
    await bed.settled()
    await bed.condition("Degraded", "AsExpected")
