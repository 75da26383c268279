"""What admission did to a pod at its creation, and what webhooks and others take back of an update in place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.beds.api import EVENTS, PODS, STRATEGIC_MERGE_PATCH, Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.objects import V1, V2, condition, image_of, node_of
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import Answer, Rule
from tests.beds.simulator.kinds import PODS as POD_KIND
from tests.beds.simulator.refusal import forbidden
from tests.system.admission import judged, mutated
from tests.system.both import both_beds
from tests.system.in_place import GATE, container, deployed, edit, in_place, is_open, restarts, runs, small

MIRROR = "mirror.example.com/"


def of_containers(change: Callable[[Object], None], *writes: str) -> Callable[[Attempt], None]:
    """A webhook that changes each container in these writes: "create", "update" or "resize"."""

    def judge(attempt: Attempt) -> None:
        write = "resize" if attempt.subresource == "resize" else attempt.verb
        if write in writes and attempt.subresource in ("", "resize"):
            for one in attempt.object["spec"]["containers"]:
                change(one)

    return judge


def move(one: Object) -> None:
    one["image"] = MIRROR + one["image"].removeprefix(MIRROR)


def recommend(one: Object) -> None:
    """As a vertical autoscaler does."""
    one["resources"]["requests"]["cpu"] = "300m"


async def not_in_place(bed: Bed) -> str:
    """The event that says why pods are replaced; empty: there is none."""
    events = [one for one in await bed.api.list(EVENTS) if one["reason"] == "InPlaceUpdateNotPossible"]
    return str(events[0]["message"]) if events else ""


async def updated(bed: Bed) -> tuple[dict[str, str], dict[str, Object]]:
    """Two nodes are updated to V2, in place if possible: the uids of the pods before, and the pods after."""
    await bed.deploy(in_place(most=2), nodes=2)
    before = uids(await bed.pods())
    await bed.set_image(V2)
    await bed.settled()
    return before, await bed.pods()


IMAGE, CPU = "/spec/containers/0/image", "/spec/containers/0/resources/requests/cpu"
OF_SPEC = "object.spec.containers[0]"


@asynccontextmanager
async def moving(bed: Bed, *writes: str) -> AsyncIterator[None]:
    """Images are moved to the mirror in these writes, by a webhook or by a policy of the real server."""
    if bed.simulation is not None:
        bed.patience = 600.0
        with judged(bed, of_containers(move, *writes)):
            yield
        return
    patch = f'[JSONPatch{{op: "replace", path: "{IMAGE}", value: "{MIRROR}" + {OF_SPEC}.image}}]'
    asked = [(verb.upper(), "pods") for verb in writes]
    async with mutated(bed, patch, f'!{OF_SPEC}.image.startsWith("{MIRROR}")', *asked):
        yield


@asynccontextmanager
async def recommending(bed: Bed, *writes: str) -> AsyncIterator[None]:
    """A cpu of 300m is put into pods in these writes, by a webhook or by a policy of the real server."""
    if bed.simulation is not None:
        bed.patience = 600.0
        with judged(bed, of_containers(recommend, *writes)):
            yield
        return
    patch = f'[JSONPatch{{op: "add", path: "{CPU}", value: "300m"}}]'
    asked = [("CREATE", "pods") if verb == "create" else ("UPDATE", "pods/resize") for verb in writes]
    async with mutated(bed, patch, f"has({OF_SPEC}.resources.requests)", *asked):
        yield


@both_beds
@pytest.mark.parametrize("writes", [("create",), ("create", "update")], ids=["at creation only", "at updates too"])
async def test_an_update_in_place_does_not_undo_an_image_that_was_moved(bed: Bed, writes: tuple[str, ...]) -> None:
    async with moving(bed, *writes):
        before, pods = await updated(bed)
    in_place = "update" in writes
    assert {image_of(pod) for pod in pods.values()} == {MIRROR + V2}
    assert (uids(pods) == before) is in_place
    if in_place:
        assert await not_in_place(bed) == ""
    else:
        await bed.event("InPlaceUpdateNotPossible", "changes their image at creation")


@both_beds
@pytest.mark.parametrize("writes", [("create",), ("create", "resize")], ids=["at creation only", "at resizes too"])
async def test_an_update_in_place_does_not_undo_a_recommendation(bed: Bed, writes: tuple[str, ...]) -> None:
    async with recommending(bed, *writes):
        await deployed(bed, 2)
        before = uids(await bed.pods())
        await edit(bed, resources=small(cpu="200m", memory="128Mi"))
        await bed.settled()
        await bed.idle()
        pods = await bed.pods()
    found = [pod["spec"]["containers"][0]["resources"]["requests"] for pod in pods.values()]
    assert found == 2 * [{"cpu": "300m", "memory": "128Mi"}]
    in_place = "resize" in writes
    assert (uids(pods) == before) is in_place
    if in_place:
        assert await not_in_place(bed) == ""
    else:
        await bed.event("InPlaceUpdateNotPossible", "changes their cpu or memory at creation")
    await bed.condition("Degraded", "AsExpected")


@pytest.mark.parametrize("status", [403, 422], ids=["forbidden", "invalid"])
async def test_what_is_refused_of_a_changed_pod_takes_a_new_one_if_its_values_do(bed: Bed, status: int) -> None:
    """403 is about the node or a policy, which a new pod meets too."""
    reason = {403: "Forbidden", 422: "Invalid"}[status]
    refused = Rule(verb="patch", resource="pods/resize", effect=Answer(status=status, reason=reason))
    with judged(bed, of_containers(recommend, "create")):
        await deployed(bed, 1)
        before = uids(await bed.pods())
        bed.simulator.link.faults.add(refused)
        await edit(bed, resources=small(cpu="200m"))
        if status == 403:
            await bed.event("ResizeRefused", "")
            assert uids(await bed.pods()) == before
        else:
            bed.patience = 600.0
            await bed.settled()
            assert "at creation" in await not_in_place(bed)


async def test_where_a_webhook_knows_no_dry_run_a_new_pod_is_made(bed: Bed) -> None:
    words = 'admission webhook "policy.example.com" does not support dry run'
    unknown = Answer(status=400, reason="BadRequest", message=words)
    with judged(bed, of_containers(move, "create")):
        await bed.deploy(in_place(), nodes=1)
        bed.simulator.link.faults.add(Rule(verb="patch", resource="pods", effect=unknown))
        await bed.set_image(V2)
        bed.patience = 600.0
        await bed.settled()
    assert "refuses to update what came of that in place" in await not_in_place(bed)


def refuse_others(attempt: Attempt) -> None:
    """A policy: at updates only images of the mirror."""
    if attempt.verb == "update" and not attempt.subresource:
        for one in attempt.object["spec"]["containers"]:
            if not one["image"].startswith(MIRROR):
                raise forbidden(POD_KIND, attempt.object["metadata"]["name"], "only images of the mirror")


def rename(one: Object) -> None:
    one["name"] = "renamed"


@pytest.mark.parametrize(
    ("at_creation", "policy", "why"),
    [
        (move, refuse_others, "refuses to update what came of that in place"),
        (rename, lambda _: None, "renamed or removed a container"),
    ],
    ids=["a policy refuses the new image", "the container has another name"],
)
async def test_where_an_update_in_place_cannot_reach_a_container_the_pod_is_replaced(
    bed: Bed, at_creation: Callable[[Object], None], policy: Callable[[Attempt], None], why: str
) -> None:
    bed.patience = 600.0
    with judged(bed, of_containers(at_creation, "create")), judged(bed, policy):
        before, pods = await updated(bed)
    assert {image_of(pod).removeprefix(MIRROR) for pod in pods.values()} == {V2}
    assert set(uids(pods).values()).isdisjoint(before.values())
    assert why in await not_in_place(bed)


WORDS = "taken back by a webhook or by another controller"


@dataclass(frozen=True)
class Case:
    """A write that is taken back on one node, and the edit that it belongs to."""

    subresource: str
    take_back: Callable[[Object, Object], None]
    """The pod as it would be stored, and as it was before the edit."""
    template: Object
    grace: int = 0
    most: int = 20
    """Writes in five minutes."""


def gate_stays(status: str) -> Callable[[Object, Object], None]:
    def put_back(pod: Object, before: Object) -> None:
        for one in pod["status"].get("conditions") or []:
            if one["type"] == GATE:
                one["status"] = status

    return put_back


def resources_stay(pod: Object, before: Object) -> None:
    pod["spec"]["containers"][0]["resources"] = small()


def labels_stay(pod: Object, before: Object) -> None:
    pod["metadata"]["labels"] = dict(before["metadata"]["labels"])


BY_IMAGE: Object = {"spec": {"containers": [container(V2)]}}
CASES = {
    "the gate that is closed for a grace period": Case("status", gate_stays("True"), BY_IMAGE, grace=20),
    "the gate that is opened again": Case("status", gate_stays("False"), BY_IMAGE),
    "the label of the revision": Case("", labels_stay, BY_IMAGE, most=40),
    "the resize": Case("resize", resources_stay, {"spec": {"containers": [container(resources=small(cpu="200m"))]}}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_it_is_reported_and_not_fought(bed: Bed, case: Case) -> None:
    await deployed(bed, 2, annotations={"kruise-ds/in-place-grace-seconds": str(case.grace)} if case.grace else {})
    before = (await bed.pods())["node-1"]

    def put_back(attempt: Attempt) -> None:
        if (attempt.verb, attempt.subresource, node_of(attempt.object)) == ("update", case.subresource, "node-1"):
            case.take_back(attempt.object, before)

    with judged(bed, put_back):
        await bed.edit({"template": case.template})
        assert WORDS in (await bed.condition("Degraded", "WritesFail"))["message"]
        await asyncio.sleep(60)
        bed.journal.clear()
        await asyncio.sleep(300)
        assert len(bed.journal.writes) < case.most, bed.journal
    bed.patience = 1200.0
    await bed.settled()
    await bed.condition("Degraded", "AsExpected")


def put_back(name: str, image: str, *, node: str = "node-1") -> Callable[[Attempt], None]:
    """An image of one container on one node, in whatever is written to the pod."""

    def judge(attempt: Attempt) -> None:
        if attempt.verb == "update" and not attempt.subresource and node_of(attempt.object) == node:
            for container in attempt.object["spec"]["containers"]:
                if container["name"] == name:
                    container["image"] = image

    return judge


async def test_an_image_put_back_leaves_a_serving_old_pod_and_no_completion(
    bed: Bed,
) -> None:
    await bed.deploy(in_place(), nodes=2)
    with judged(bed, put_back("agent", V1)):
        await bed.set_image(V2)
        assert WORDS in (await bed.condition("Degraded", "WritesFail"))["message"]
        await asyncio.sleep(60)
        pods = await bed.pods()
        assert runs(pods["node-0"], V2), "the other node is updated all the same"
        assert (is_open(pods["node-1"]), condition(pods["node-1"], "Ready")["status"]) == (True, "True")
        await bed.status(updated=1, available=2)
        bed.journal.clear()
        await asyncio.sleep(300)
        assert len(bed.journal.writes) < 40, bed.journal
    bed.patience = 1200.0
    await bed.settled()
    await bed.condition("Degraded", "AsExpected")
    assert [(runs(pod, V2), restarts(pod)) for pod in (await bed.pods()).values()] == [(True, 1)] * 2


async def test_a_pod_that_another_client_gave_the_image_before_is_not_waited_for(bed: Bed) -> None:
    """Its kubelet has nothing to do then."""
    await bed.deploy(in_place(), nodes=2)
    name = (await bed.pods())["node-1"]["metadata"]["name"]
    await bed.api.patch(
        PODS,
        name,
        {"spec": {"containers": [{"name": "agent", "image": V2}]}},
        content_type=STRATEGIC_MERGE_PATCH,
    )
    await bed.until(PODS, lambda pods: "" if any(runs(pod, V2) for pod in pods) else "nobody runs it", "V2 by hand")
    await bed.update(V2)
    assert [restarts(pod) for pod in (await bed.pods()).values()] == [1, 1]
