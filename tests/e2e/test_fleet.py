"""60 nodes, a tenth at a time: a good image in waves, and a bad one that stops at the limit and is taken back."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.api.meta import rfc3339
from tests.beds.api import EVENTS, Object
from tests.beds.audit import Asked, Audit
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.witness import Witness, witnessing
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.nodes import Behaviour
from tests.beds.pods import is_live, node_of, serves
from tests.e2e.conftest import ACCOUNT

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller")]

NODES = tuple(f"fleet-{number:03}" for number in range(60))
DESCENDING = NODES[::-1]
TENTH = 6
PATIENCE = 240.0
"""Seconds for what takes ten: the machine may be busy."""
GOOD, BETTER, BAD = "agent:good", "agent:better", "agent:bad"


@asynccontextmanager
async def deployed(bed: Workspace, **rolling: Any) -> AsyncIterator[Witness]:
    """The good image on all nodes; the bad one can never be pulled."""
    bed.nodes.behave("*", Behaviour(missing_images=("*:bad",)))
    await bed.workers(*NODES)
    demo = sample("ds.demo.yaml")
    demo["spec"]["updateStrategy"] = {"rollingUpdate": rolling}
    demo["spec"]["template"]["spec"]["containers"][0]["image"] = GOOD
    async with witnessing(bed.api) as witness:
        await bed.apply(demo)
        await bed.settled(len(NODES), seconds=PATIENCE)
        await witness.until(lambda: len(witness.ready) == len(NODES), "all first pods seen")
        yield witness


async def set_image(bed: Workspace, image: str) -> None:
    change = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}]
    await bed.kubectl("patch", "ads", "demo", "--type=json", f"-p={json.dumps(change)}")


def pods_with(witness: Witness, image: str) -> dict[str, str]:
    """The live pods with this image: node to uid."""
    live = {uid: pod for uid, pod in witness.now.items() if is_live(pod)}
    return {node_of(pod): uid for uid, pod in live.items() if pod["spec"]["containers"][0]["image"] == image}


def by_kind(requests: list[Asked]) -> Counter[str]:
    """How often each kind of write was asked for; `dry` before those that only ask."""
    writes = [one for one in requests if one.is_write or one.dry]
    return Counter(f"{'dry ' * one.dry}{one.verb} {one.resource}" for one in writes)


async def writes_nothing_but_its_status(bed: Workspace, plane: ControlPlane) -> None:
    """The spec is changed where it means nothing, so that one more pass over everything has to be made."""
    audit, begun = Audit(plane, ACCOUNT), rfc3339(time.time())
    await bed.kubectl("annotate", "nodes", *NODES[:3], *NODES[-3:], "looked=1")
    await bed.kubectl("patch", "ads", "demo", "--type=merge", '-p={"spec":{"revisionHistoryLimit":7}}')
    await bed.status()
    made = by_kind(await audit.until("patch daemonsets/status"))
    made.pop("create events", 0)  # of what happened before: they are sent one after another, and late if need be
    assert made.keys() == {"patch daemonsets/status"}, f"written: {dict(made)}"
    told = [one["message"] for one in await bed.api.list(EVENTS) if (one.get("firstTimestamp") or "") > begun]
    assert told == [], "nothing is told that happened since"


@pytest.mark.parametrize(
    ("rolling", "floor", "pairs"),
    [({"maxUnavailable": "10%"}, 54, 0), ({"maxSurge": "10%", "maxUnavailable": 0}, 60, TENTH)],
    ids=["maxUnavailable", "maxSurge"],
)
async def test_a_good_image_comes_in_waves_by_descending_name_and_each_pod_costs_two_writes(
    bed: Workspace, plane: ControlPlane, rolling: Object, floor: int, pairs: int
) -> None:
    async with deployed(bed, **rolling) as witness:
        witness.floor, witness.most_pairs = floor, pairs
        audit, begun = Audit(plane, ACCOUNT), time.monotonic()
        await set_image(bed, BETTER)
        await witness.until(lambda: pods_with(witness, BETTER).keys() == {*NODES}, "a new pod on each node", PATIENCE)
        await bed.settled(len(NODES))
        took = time.monotonic() - begun
    assert sorted(witness.ever.values()) == sorted(NODES * 2), "one old and one new pod for each node"
    new_pods = [*witness.ever.values()][len(NODES) :]
    for place, node in enumerate(new_pods if pairs else witness.retired.values()):
        away = abs(DESCENDING.index(node) - place)
        assert away < TENTH, f"{node} had its turn {away} places from where its name puts it"
    for last in ("create pods", "delete pods"):  # of them others hear before the log does
        await audit.until(last, len(NODES))
    made = by_kind(audit.requests())
    status, events = made.pop("patch daemonsets/status"), made.pop("create events", 0)
    once = {"create controllerrevisions": 1, "dry create pods": 1}
    assert made == {"delete pods": 60, "create pods": 60, **once}, dict(made)
    assert status <= 10 + took / 2, f"in {took:.0f} s: not one for each wave of deleted, made and ready pods"
    assert events <= 25
    assert [one for one in audit.requests() if one.code >= 400] == []


async def test_a_bad_image_stops_at_the_limit_and_going_back_replaces_only_what_it_took(
    bed: Workspace, plane: ControlPlane
) -> None:
    async with deployed(bed, maxUnavailable="10%") as witness:
        before = pods_with(witness, GOOD)
        witness.floor = len(NODES) - TENTH
        await set_image(bed, BAD)
        taken = set(DESCENDING[:TENTH])
        await witness.until(lambda: pods_with(witness, BAD).keys() == taken, "a bad pod on each of the last 20 nodes")
        said = await bed.progressing("maxUnavailable is 6")
        assert "6 nodes count as unavailable" in said["message"]
        await writes_nothing_but_its_status(bed, plane)
        healthy = {node: uid for node, uid in before.items() if node not in taken}
        assert pods_with(witness, GOOD) == healthy, "54 pods are the same as before"

        bad = set(pods_with(witness, BAD).values())
        retired = len(witness.retired)
        audit = Audit(plane, ACCOUNT)
        await set_image(bed, GOOD)
        await witness.until(lambda: len(witness.ready) == len(NODES), "all served again")
        await bed.settled(len(NODES))
        assert pods_with(witness, GOOD).items() >= healthy.items(), "the healthy ones are still the same"
        assert set([*witness.retired][retired:]) == bad, "exactly the bad ones went"
        assert len(witness.ever) == len(NODES) + 2 * TENTH
        made = by_kind(await audit.until("create pods", TENTH))
        assert (made["delete pods"], made["create pods"], made["dry create pods"]) == (TENTH, TENTH, 1)


async def test_a_bad_image_with_surge_leaves_every_old_pod_where_it_is(bed: Workspace, plane: ControlPlane) -> None:
    async with deployed(bed, maxSurge="10%", maxUnavailable=0) as witness:
        before = pods_with(witness, GOOD)
        witness.floor, witness.most_pairs = len(NODES), TENTH
        await set_image(bed, BAD)
        taken = set(DESCENDING[:TENTH])
        await witness.until(lambda: witness.pairs == taken, "a bad pod beside the good one on the last 6 nodes")
        await bed.status(numberAvailable=len(NODES), updatedNumberScheduled=0)
        await bed.progressing("maxSurge is 6")
        await writes_nothing_but_its_status(bed, plane)
        assert pods_with(witness, GOOD) == before
        assert not witness.retired, "no pod was told to go"
        assert not any(serves(pod) for pod in witness.now.values() if pod["metadata"]["uid"] not in before.values())

        await set_image(bed, GOOD)
        await bed.settled(len(NODES))
        await witness.until(lambda: not witness.pairs and len(witness.now) == len(NODES), "the bad pods are gone")
        assert pods_with(witness, GOOD) == before, "going back replaces no pod"
