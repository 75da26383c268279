"""Work that would never end: others undo what we write, or write it too, or pods do not last. In virtual time."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import deepcopy

import pytest

from controller.api.objects import FIELD_MANAGER, rfc3339
from tests.beds.api import DAEMONSETS, PODS, REVISIONS, Object, Refusal, Resource
from tests.beds.controller.bed import Bed
from tests.beds.controller.journal import Journal, Recording
from tests.beds.controller.opening import simulated
from tests.beds.controller.running import Controller
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, V3, bare_pod, condition, controller_of, daemonset, node_of
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import Answer, FaultPlan, LateWatch, LoseAnswer, Rule
from tests.beds.simulator.transport import InProcess
from tests.beds.virtual_time import clock
from tests.system.admission import judged
from tests.system.in_place import in_place
from tests.system.monitor import monitoring
from tests.system.pre_delete import HOOK, hooked, prepared, release

HASH = "controller-revision-hash"
HOUR = 3600.0
MINUTES = 600.0
AT_FIRST, LATER = 80, 20
"""Writes to one object, or creates on one node, in the first `MINUTES` and in the next: ever fewer."""


@pytest.fixture
def bed(bed: Bed) -> Bed:
    bed.patience = HOUR
    return bed


def most_written(bed: Bed) -> tuple[object, int]:
    """The object, or the node of new pods, with the most writes of the controller, and their number."""
    counted: Counter[object] = Counter()
    for write in bed.journal.work:
        if write.verb == "create" and write.resource == "pods":
            counted["new pods on", write.node] += 1
        else:
            counted[write.verb, write.resource, write.name] += 1
    return max(counted.items(), key=lambda one: one[1], default=(None, 0))


async def it_costs_ever_less(bed: Bed) -> None:
    for most in (AT_FIRST, LATER):
        await asyncio.sleep(MINUTES)
        what, count = most_written(bed)
        assert count <= most, what
        bed.journal.clear()


async def degraded(bed: Bed, *words: str) -> None:
    def lacks(found: list[Object]) -> str:
        said = condition(found[0], "Degraded")
        text = f"{said.get('status')} {said.get('reason')} {said.get('message')}"
        return "" if all(word in text for word in ("True", *words)) else text

    await bed.until(DAEMONSETS, lacks, f"Degraded says {words}")


# pods that are not ours, or of no revision, as soon as they are made


def rename(labels: dict[str, str]) -> None:
    labels["app"] = "renamed"


def strip(labels: dict[str, str]) -> None:
    labels.pop(HASH, None)


def rehash(labels: dict[str, str]) -> None:
    labels[HASH] = "of-a-policy"


@pytest.mark.parametrize(
    ("change", "words", "left"),
    [
        (rename, "spec.selector does not match", 0),
        (strip, f"removes or changes its label {HASH}", 1),
        (rehash, f"removes or changes its label {HASH}", 1),
    ],
)
async def test_pods_that_a_webhook_relabels_at_creation_count_as_failed_creates(
    bed: Bed, change: Callable[[dict[str, str]], None], words: str, left: int
) -> None:
    def judge(attempt: Attempt) -> None:
        if attempt.verb == "create":
            change(attempt.object["metadata"]["labels"])

    await bed.add_nodes(1)
    with judged(bed, judge):
        await bed.api.create(DAEMONSETS, daemonset())
        await degraded(bed, words)
        await it_costs_ever_less(bed)
        await asyncio.sleep(MINUTES / 2)  # the cause is named as long as it lasts
        said = condition((await bed.api.list(DAEMONSETS))[0], "Degraded")
        assert words in said["message"], said
        assert len(await bed.api.list(PODS)) == left, "no strays are left, and a pod of ours serves"
    await bed.runs_on("node-0")


HELD_DELETES = Rule(verb="delete", resource="pods", effect=Answer(403, "Forbidden", "no deletions today"))
LOST_CREATES = Rule(verb="create", resource="pods", effect=LoseAnswer())


@pytest.mark.parametrize("held", [HELD_DELETES, LOST_CREATES, "finalizer"], ids=["403", "lost answers", "finalizer"])
async def test_a_stray_keeps_its_node_until_it_is_gone(bed: Bed, held: Rule | str) -> None:
    """However it is kept: no second pod is made beside it, and none is left without a controller."""

    def judge(attempt: Attempt) -> None:
        if attempt.verb == "create":
            rename(attempt.object["metadata"]["labels"])
            if held == "finalizer":
                attempt.object["metadata"]["finalizers"] = ["example.com/hold"]

    await bed.add_nodes(1)
    if isinstance(held, Rule):
        bed.simulator.link.faults.add(held)
    with judged(bed, judge):
        await bed.api.create(DAEMONSETS, daemonset())
        await it_costs_ever_less(bed)
        pods = await bed.api.list(PODS)
    assert [bool(controller_of(pod)) for pod in pods] in ([], [True]), [pod["metadata"] for pod in pods]
    if isinstance(held, Rule):
        bed.simulator.link.faults.remove(held)
    for pod in pods if held == "finalizer" else ():
        await bed.api.patch(PODS, pod["metadata"]["name"], {"metadata": {"finalizers": None}})
    await bed.runs_on("node-0")
    assert len(await bed.api.list(PODS)) == 1


def rename_at_update(attempt: Attempt) -> None:
    if attempt.verb == "update" and not attempt.subresource:
        rename(attempt.object["metadata"]["labels"])


async def test_pods_that_an_update_in_place_takes_from_us_are_replaced(bed: Bed) -> None:
    """A webhook relabels at each update: none of them runs on beside its successor."""

    await bed.deploy(in_place(), nodes=2)
    with judged(bed, rename_at_update):
        await bed.set_image(V2)
        await bed.settled()
        await it_costs_ever_less(bed)
    await bed.runs_on("node-0", "node-1", image=V2)
    assert len(await bed.api.list(PODS)) == 2


async def test_pods_that_a_preparation_takes_from_us_do_not_run_on(bed: Bed) -> None:
    """The same for the preDelete hook, which still decides when each of them goes."""

    await bed.deploy(hooked(), nodes=1)
    with judged(bed, rename_at_update):
        await bed.set_image(V2)
        [old] = (await prepared(bed, "node-0")).values()
        await it_costs_ever_less(bed)
        [kept] = await bed.api.list(PODS)
        assert kept["metadata"]["uid"] == old["metadata"]["uid"]
        await release(bed, kept)
        await bed.runs_on("node-0", image=V2)
    assert len(await bed.api.list(PODS)) == 1


async def test_a_new_template_whose_pods_lose_their_labels_replaces_no_old_pod(bed: Bed) -> None:
    await bed.deploy(daemonset(), nodes=3)
    before = {pod["metadata"]["uid"] for pod in (await bed.pods()).values()}

    def judge(attempt: Attempt) -> None:
        if attempt.verb == "create":
            strip(attempt.object["metadata"]["labels"])

    with judged(bed, judge):
        await bed.set_image(V2)
        await degraded(bed, "TemplateRefused", HASH)
        assert {pod["metadata"]["uid"] for pod in (await bed.pods()).values()} == before


# pods that do not last


@pytest.mark.parametrize("end", ["Succeeded", "Failed", "deleted"])
async def test_pods_that_do_not_last_come_back_ever_later(bed: Bed, end: str) -> None:
    await bed.deploy(daemonset(), nodes=2)
    ending = asyncio.create_task(_end_pods(bed, "node-1", end))
    await degraded(bed, "PodsDoNotLast", "node-1")
    await it_costs_ever_less(bed)
    ending.cancel()
    await bed.runs_on("node-0", "node-1")

    def lacks(found: list[Object]) -> str:
        said = condition(found[0], "Degraded")
        return "" if said["status"] == "False" else str(said)

    await bed.until(DAEMONSETS, lacks, "Degraded ends once the pod has lasted")


async def _end_pods(bed: Bed, node: str, end: str) -> None:
    """A second after each new pod of the node, it ends."""
    while True:
        for pod in await bed.api.list(PODS):
            name = pod["metadata"]["name"]
            if node_of(pod) != node or "deletionTimestamp" in pod["metadata"]:
                continue
            if end == "deleted":
                await bed.api.delete(PODS, name, options={"gracePeriodSeconds": 0})
            elif pod.get("status", {}).get("phase") != end:
                await bed.api.patch(PODS, name, {"status": {"phase": end}}, sub="status")
        await asyncio.sleep(1.0)


async def test_pods_that_another_controller_restores_are_deleted_ever_less_often(bed: Bed) -> None:
    """Each has another uid, so that no deletion repeats one."""
    await bed.deploy(daemonset(), nodes=2)
    known = {pod["metadata"]["name"]: deepcopy(pod) for pod in await bed.api.list(PODS)}

    async def restore() -> None:
        while True:
            await asyncio.sleep(0.5)
            there = {pod["metadata"]["name"] for pod in await bed.api.list(PODS)}
            for name in known.keys() - there:
                meta = {key: known[name]["metadata"][key] for key in ("name", "labels", "ownerReferences")}
                await bed.api.create(PODS, {**known[name], "metadata": meta, "status": {}})

    other = asyncio.create_task(restore())
    await bed.set_image(V2)
    for most in (AT_FIRST, LATER):
        bed.journal.clear()
        await asyncio.sleep(MINUTES)
        deleted = Counter(bed.journal.deleted)
        assert max(deleted.values(), default=0) <= most, deleted
    other.cancel()


async def test_pods_that_another_controller_creates_do_not_pile_up(bed: Bed) -> None:
    """Unlike pods that are restored, these come whether or not any is deleted."""
    await bed.deploy(daemonset(), nodes=1)

    async def create() -> None:
        for number in itertools.count():
            await asyncio.sleep(5)
            await bed.api.create(PODS, bare_pod(f"extra-{number}", "node-0"))

    other = asyncio.create_task(create())
    for _ in range(2):
        await asyncio.sleep(MINUTES)
        assert len(await bed.api.list(PODS)) <= 20
    other.cancel()
    await bed.runs_on("node-0")


# writes that are taken back


class TakesBack:
    """Another controller: whatever ours writes to a pod or a revision is a moment later as it was before."""

    def __init__(self, bed: Bed) -> None:
        self.bed, self.known = bed, dict[str, Object]()

    async def run(self) -> None:
        seen = len(self.bed.journal.work)
        while True:
            written = {(write.resource, write.name) for write in self.bed.journal.work[seen:] if write.status < 300}
            seen = len(self.bed.journal.work)
            for resource, plural in ((PODS, "pods"), (REVISIONS, "controllerrevisions.apps")):
                for found in await self.bed.api.list(resource):
                    name = found["metadata"]["name"]
                    if (plural, name) not in written and (f"{plural}/status", name) not in written:
                        self.known[found["metadata"]["uid"]] = deepcopy(found)
                    else:
                        await self._restore(resource, found, self.known.get(found["metadata"]["uid"]))
            await asyncio.sleep(0.2 if len(self.bed.journal.work) > seen else 0.5)

    async def _restore(self, resource: Resource, found: Object, before: Object | None) -> None:
        with suppress(Refusal):
            if before is None:
                if resource is REVISIONS:
                    await self.bed.api.delete(REVISIONS, found["metadata"]["name"])
                return
            meta = {**before["metadata"], "resourceVersion": found["metadata"]["resourceVersion"]}
            stored = await self.bed.api.replace(resource, {**before, "metadata": meta})
            if before.get("status"):
                meta = stored["metadata"]
                await self.bed.api.replace(resource, {**before, "metadata": meta}, sub="status")


async def _update(bed: Bed) -> None:
    await bed.set_image(V2)


async def _roll_back(bed: Bed) -> None:
    await bed.set_image(V1)


async def _relabel(bed: Bed) -> None:
    pod = (await bed.pods())["node-0"]["metadata"]["name"]
    await bed.api.patch(PODS, pod, {"metadata": {"labels": {"app": "kept-for-a-look"}}})


async def _orphan(bed: Bed) -> None:
    await bed.api.delete(PODS, (await bed.pods())["node-0"]["metadata"]["name"])
    await bed.api.create(PODS, bare_pod("orphan", "node-0"))


async def _drop_revision(bed: Bed) -> None:
    await bed.api.delete(REVISIONS, (await bed.revisions())[-1]["metadata"]["name"])


GRACE = {"kruise-ds/in-place-grace-seconds": "2"}
UNREADY: Object = {**HOOK, "markPodNotReady": True}


@pytest.mark.parametrize(
    ("made", "edits"),
    [
        pytest.param(daemonset(), [_update], id="create a revision"),
        pytest.param(daemonset(), [_update, _roll_back], id="renumber a revision"),
        pytest.param(daemonset(), [_drop_revision], id="a revision that is deleted"),
        pytest.param(daemonset(), [_relabel], id="release"),
        pytest.param(daemonset(), [_orphan], id="adopt"),
        pytest.param(hooked(), [_update], id="prepare a deletion"),
        pytest.param(hooked(hook=UNREADY), [_update, _roll_back], id="prepare, cancel and open gates"),
        pytest.param(in_place(), [_update], id="update in place"),
        pytest.param(in_place(annotations=GRACE), [_update, _roll_back], id="drain and update in place"),
    ],
)
async def test_what_another_controller_takes_back_is_written_ever_less_often(
    bed: Bed, made: Object, edits: list[Callable[[Bed], Awaitable[None]]]
) -> None:
    await bed.deploy(deepcopy(made), nodes=2)
    other = asyncio.create_task(TakesBack(bed).run())
    await asyncio.sleep(1.0)
    for edit in edits:
        await edit(bed)
        await it_costs_ever_less(bed)
    other.cancel()


SLOW = Behaviour(start=0.5, ready=0.5, terminate=0.5)


def _writer(manager: str, seconds: float) -> Object:
    fields: Object = {"f:status": {"f:numberReady": {}}}
    return {
        "manager": manager,
        "subresource": "status",
        "operation": "Update",
        "time": rfc3339(clock() + seconds),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


async def they_write(bed: Bed) -> float:
    """What the real server notes of a write by OpenKruise's manager, now, and the write. Returns when it was."""
    ours, theirs = _writer(FIELD_MANAGER, -1), _writer("kruise-manager", 0)
    for writers in ([ours], [ours, theirs]):
        await bed.api.patch(DAEMONSETS, "agent", {"metadata": {"managedFields": writers}})
    await bed.api.patch(DAEMONSETS, "agent", {"status": {"numberReady": 1}}, sub="status")
    return asyncio.get_running_loop().time()


async def pause_after(bed: Bed, image: str) -> int:
    """They write, another client sets the image: the seconds until the first thing that we do."""
    written = await they_write(bed)
    bed.journal.clear()
    await bed.update(image)
    return round(min(write.at for write in bed.journal.writes if write.resource != "events") - written)


async def test_nothing_is_written_for_a_minute_and_the_next_time_for_two(bed: Bed) -> None:
    bed.patience = 10_000.0
    await bed.deploy(daemonset(), nodes=3)
    assert await pause_after(bed, V2) == 60
    assert await pause_after(bed, V3) == 120
    await bed.event("ForeignStatusWrite", "'kruise-manager'")


@pytest.mark.parametrize("late", [0.0, 1.0, 3.0])
async def test_two_installations_keep_the_limits_together_and_come_to_rest(late: float) -> None:
    """They write by the same name, so neither leaves the DaemonSet to the other; they want the same, in one order."""
    async with simulated(latency=0.02, behaviour=SLOW) as bed, asyncio.TaskGroup() as tasks:
        bed.patience = 10_000.0
        nodes = await bed.deploy(daemonset(rolling={"maxUnavailable": 2}), nodes=6)
        faults = FaultPlan(Rule(verb="watch", effect=LateWatch(seconds=late)))
        others = Recording(InProcess(bed.simulator.cluster, latency=0.03, faults=faults), Journal())
        second = Controller(others, bed.api.namespace, tasks, clock=bed.clock)
        second.start()
        async with monitoring(bed, most_unavailable=2):
            for image in (V2, V3):
                await bed.set_image(image)
                await bed.runs_on(*nodes, image=image)
                await bed.settled()
        await bed.idle(60.0)
        written = bed.simulator.cluster.store.version
        await bed.idle(3600.0)
        assert bed.simulator.cluster.store.version == written
        await second.stop()
