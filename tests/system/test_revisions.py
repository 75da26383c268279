"""The history of the template."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from tests.beds.api import DAEMONSETS, PODS, REVISIONS, Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.objects import V1, V2, V3, V4, controller_of, daemonset, on_delete
from tests.system.both import both_beds

HASH = "controller-revision-hash"


def numbers(count: int, *wanted: int) -> Callable[[list[Object]], str]:
    def missing(found: list[Object]) -> str:
        there = sorted(one["revision"] for one in found)
        return "" if len(there) == count and (not wanted or there == list(wanted)) else f"revisions {there}"

    return missing


@both_beds
async def test_history_is_trimmed_to_its_limit_but_not_what_is_needed(bed: Bed) -> None:
    await bed.deploy(on_delete(revisionHistoryLimit=2), nodes=2)
    for number in range(2, 7):
        await bed.set_image(f"registry.example/agent:v{number}")
        await bed.seen()
        if number == 2:
            await bed.api.delete(PODS, (await bed.pods())["node-1"]["metadata"]["name"])
            await bed.runs_on("node-0", "node-1")
        if number == 3:
            await bed.api.delete(PODS, (await bed.pods())["node-0"]["metadata"]["name"])
            await bed.runs_on("node-0", "node-1")
    await bed.until(REVISIONS, numbers(4, 1, 2, 3, 6), "the stable one, those of pods, and the current one")
    await bed.edit({"revisionHistoryLimit": 0})
    await bed.seen()
    await bed.idle()
    assert [one["revision"] for one in await bed.revisions()] == [1, 2, 3, 6]
    deleted = [write.name for write in bed.journal.of("controllerrevisions.apps", "delete")]
    assert len(deleted) == len(set(deleted)) == 2


@both_beds
async def test_going_back_gives_the_old_revision_a_new_number(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=2)
    (first,) = await bed.revisions()
    await bed.update(V2)
    await bed.update(V1)
    await bed.until(REVISIONS, numbers(2, 2, 3), "no new revision")
    newest = (await bed.revisions())[-1]
    assert newest["metadata"]["uid"] == first["metadata"]["uid"]
    pods = await bed.runs_on(*nodes, image=V1)
    assert {pod["metadata"]["labels"][HASH] for pod in pods.values()} == {first["metadata"]["labels"][HASH]}


@both_beds
async def test_a_taken_name_counts_a_collision_and_the_update_goes_on(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=2)
    one = await bed.daemonset()
    (first,) = await bed.revisions()
    await bed.update(V2)
    wanted = (await bed.revisions())[-1]["metadata"]["name"]

    # the same again for a twin of this DaemonSet, whose second revision's name somebody has taken
    await bed.controller.stop()
    await bed.set_image(V1)
    for revision in await bed.revisions():
        await bed.api.delete(REVISIONS, revision["metadata"]["name"])
    await bed.api.create(
        REVISIONS,
        {
            "metadata": {"name": wanted, "labels": {"app": "somebody"}},
            "data": {"spec": {"template": {"spec": {"containers": []}, "$patch": "replace"}}},
            "revision": 1,
        },
    )
    bed.controller.start()
    await bed.settled()
    await bed.idle()
    bed.journal.clear()
    await bed.set_image(V2)
    await bed.status(collisions=1, updated=2, available=2)
    await bed.runs_on(*nodes, image=V2)
    assert one["status"].get("collisionCount") is None
    current = (await bed.daemonset())["status"]["updateRevision"]
    assert current not in (wanted.removeprefix("agent-"), first["metadata"]["labels"][HASH])
    assert not controller_of(await bed.api.get(REVISIONS, wanted)), "what is not ours is left alone"
    refused = bed.journal.of("controllerrevisions.apps", failed=True)
    assert [(write.name, write.status) for write in refused if write.status == 409] == [(wanted, 409)]


async def test_of_several_equal_revisions_the_newest_stays_without_restarts(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=2)
    before = uids(await bed.pods())
    (first,) = await bed.revisions()
    await bed.controller.stop()
    for number in (2, 3):
        labels = {**first["metadata"]["labels"], HASH: f"twin{number}"}
        references = first["metadata"]["ownerReferences"]
        metadata = {"name": f"agent-twin{number}", "labels": labels, "ownerReferences": references}
        await bed.api.create(REVISIONS, {"metadata": metadata, "data": first["data"], "revision": number})
    bed.controller.start()
    await bed.until(REVISIONS, numbers(1, 3), "twin3 alone")
    pods = await bed.runs_on(*nodes)
    assert uids(pods) == before
    assert {pod["metadata"]["labels"][HASH] for pod in pods.values()} == {"twin3"}
    await bed.idle()
    order = [(write.verb, write.resource.partition(".")[0]) for write in bed.journal.writes]
    first_delete = order.index(("delete", "controllerrevisions"))
    assert [step for step in order[first_delete:] if step == ("patch", "pods")] == [], "relabelled before"


async def test_edits_one_after_another_end_at_the_last_one(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=3)
    for image in (V2, V3, V4):
        await bed.set_image(image)
    await bed.settled()
    await bed.runs_on(*nodes, image=V4)
    found = [one["revision"] for one in await bed.revisions()]
    assert all(before < after for before, after in pairwise(found))
    assert set(bed.journal.deleted) == set(nodes)


@both_beds
async def test_the_stable_revision_outlasts_the_controller_and_is_never_guessed(bed: Bed) -> None:
    await bed.deploy(daemonset(revisionHistoryLimit=0), nodes=3)
    (first,) = await bed.revisions()
    good = first["metadata"]["labels"][HASH]

    async def stable() -> str | None:
        found: str | None = (await bed.daemonset())["status"]["rollout"].get("stableRevision")
        return found

    async def becomes_stable(wanted: str) -> None:
        def missing(found: list[Object]) -> str:
            known = found[0]["status"]["rollout"].get("stableRevision")
            return "" if known == wanted else f"it is {known}"

        await bed.until(DAEMONSETS, missing, f"{wanted} is stable")

    async def rolled_out(image: str, partition: int) -> str | None:
        """The stable revision after that, while the partition keeps so many nodes old."""
        await bed.edit({"updateStrategy": {"rollingUpdate": {"partition": partition}}})
        await bed.set_image(image)
        await bed.seen()
        await bed.status(desired=3, updated=3 - partition, available=3)
        await bed.idle()
        return await stable()

    await becomes_stable(good)
    assert await rolled_out(V2, 2) == good
    await bed.controller.kill()
    bed.controller.start()
    assert await rolled_out(V3, 1) == good
    await bed.controller.stop()
    await bed.api.patch(DAEMONSETS, "agent", {"status": {"rollout": None}}, sub="status")
    bed.controller.start()
    assert await rolled_out(V4, 1) is None, "it was lost, and nothing is complete"
    await rolled_out(V2, 0)
    newest = (await bed.daemonset())["status"]["updateRevision"]
    assert newest != good
    await becomes_stable(newest)
