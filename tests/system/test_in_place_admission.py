"""What admission did to a pod at its creation: an update in place either does it again, or a new pod is made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.beds.api import EVENTS, Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.objects import V2, image_of
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import Answer, Rule
from tests.beds.simulator.kinds import PODS as POD_KIND
from tests.beds.simulator.refusal import forbidden
from tests.system.admission import judged, mutated
from tests.system.both import both_beds
from tests.system.in_place import container, cpu_of, deployed, edit, in_place, small

MIRROR = "mirror.example.com/"
LIMITED = {"limits": {"cpu": "1", "memory": "1Gi"}}


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


def asked_before(bed: Bed) -> list[str]:
    """What was asked by a dry run of a write to a pod that exists."""
    probes = [write for write in bed.journal.writes if write.verb == "probe" and isinstance(write.body, list)]
    return [f"{write.node} {write.resource}" for write in probes]


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


async def test_an_image_that_changes_alone_undoes_no_recommendation(bed: Bed) -> None:
    with judged(bed, of_containers(recommend, "create")):
        await deployed(bed, 2)
        before = uids(await bed.pods())
        await edit(bed, image=V2)
        await bed.settled()
        pods = await bed.pods()
    assert uids(pods) == before
    assert {cpu_of(pod) for pod in pods.values()} == {"300m"}
    assert asked_before(bed) == []


@pytest.mark.parametrize(
    ("template", "added", "wanted"),
    [
        (LIMITED, {}, {"limits": {"cpu": "2", "memory": "1Gi"}}),
        ({"requests": {"cpu": "100m"}}, {"cpu": "1"}, {"requests": {"cpu": "200m"}}),
    ],
    ids=["requests that the server fills in", "limits that a LimitRange fills in"],
)
async def test_what_is_filled_in_for_the_template_is_not_asked_about(
    bed: Bed, template: Object, added: Object, wanted: Object
) -> None:
    def fill_in(one: Object) -> None:
        one["resources"]["limits"] = added | one["resources"].get("limits", {})

    with judged(bed, of_containers(fill_in, "create")):
        await deployed(bed, 2, resources=template)
        before = uids(await bed.pods())
        await edit(bed, resources=wanted)
        await bed.settled()
        pods = await bed.pods()
    assert uids(pods) == before
    amount = {key: one["cpu"] for key, one in wanted.items()}
    for pod in pods.values():
        found = pod["spec"]["containers"][0]["resources"]
        assert {key: found[key]["cpu"] for key in amount} == amount
    assert asked_before(bed) == []


@pytest.mark.parametrize("status", [403, 422], ids=["forbidden", "invalid"])
async def test_what_the_server_refuses_of_a_changed_pod_takes_a_new_one_if_its_values_do(
    bed: Bed, status: int
) -> None:
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


async def test_where_admission_changed_nothing_nothing_is_asked_before(bed: Bed) -> None:
    await deployed(bed, 2)
    await edit(bed, image=V2, resources=small(cpu="200m"))
    await bed.settled()
    assert asked_before(bed) == []
    assert container(V2, small(cpu="200m"))["resources"]["requests"]["cpu"] == cpu_of((await bed.pods())["node-0"])


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
