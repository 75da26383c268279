"""A pass over a job that goes wrong, and a process that ends while it starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec
import pytest
from msgspec.structs import replace

from controller.api.image_pull_job import ImagePullJob, ImagePullJobStatus
from controller.api.objects import Key, rfc3339
from controller.imagepull.job_reconcile import PODS_LISTED_SECONDS, JobReconciler
from controller.imagepull.parts import STARTUP_SECONDS
from controller.imagepull.rollouts import RolloutJobs
from controller.imagepull.wanted import wanted_images
from controller.kube.decode import Seen
from controller.kube.requests import Response
from controller.observe.metrics import Metrics
from controller.planner.validation import compiled
from controller.reconcile.write_outcomes import TERMINATING_SECONDS
from controller.runtime.expectations import STALE_WARNING
from controller.runtime.pacing import PacedQueue, Pacer
from controller.runtime.store import Change
from controller.runtime.watch import Init
from controller.runtime.workers import SILENCE_SECONDS, STALE_RETRY_SECONDS, Outcome, RequeueAfter
from controller.runtime.workqueue import WorkItem
from controller.settings import FeatureGates, Settings
from controller.wiring import Parts
from tests.beds.scripted import Answer, Script, Slow, ok
from tests.beds.stores import fill
from tests.beds.virtual_time import now, virtual_time
from tests.beds.worlds import NOW, OURS, ds, node, pod, revision
from tests.unit.controller.imagepull.worlds import job
from tests.unit.controller.office import instrumentation_of
from tests.unit.controller.reconcile.passes import STATUS, Passes


def mistaken() -> NoReturn:
    raise KeyError("clock")


async def never() -> None:
    await asyncio.Event().wait()


class Jobs:
    """One job as the caches have it, and passes over it."""

    def __init__(self, passes: Passes, job: ImagePullJob, clock: Callable[[], float]) -> None:
        self.key, self.pacer, self.passes = job.key, Pacer[Key](), passes
        self.stored(job)
        self.metrics, self.relisted = Metrics(version="0"), list[tuple[str, float]]()
        observer = instrumentation_of(self.metrics, passes.caches, lambda kind: self.relisted.append((kind, now())))
        self.reconciler = JobReconciler(
            replace(passes.acting.dependencies, clock=clock, observer=observer),
            passes.caches,
            self.pacer,
            count_pulls=self.metrics.count_image_pulls(int, int),
            daemonset_queue=PacedQueue(),
        )

    async def __call__(self, *answers: Answer) -> Outcome:
        script = self.passes.acting.script
        script.answers[:] = answers
        script.requests.clear()
        return await self.once()

    async def once(self) -> Outcome:
        taken = WorkItem(key=self.key, reasons=(), queued_seconds=0.0)
        return await self.reconciler(taken, self.passes.woken.append)

    @property
    def bodies(self) -> list[Any]:
        """What was written in the last pass."""
        return [msgspec.json.decode(one.body) for one in self.passes.acting.script.requests if one.body]

    def stored(self, job: ImagePullJob) -> None:
        fill(self.passes.caches.jobs, [job])


@virtual_time
async def test_a_pass_that_cannot_decide_is_over_all_the_same() -> None:
    jobs = Jobs(Passes(), job(), mistaken)
    jobs.pacer.passed(jobs.key, 1.0, now())
    with pytest.raises(KeyError):
        await jobs()
    await asyncio.sleep(60)
    assert jobs.pacer.delay(jobs.key, "urgent", now()) == 0.0


LISTED = (
    b'{"metadata":{"resourceVersion":"15"},"items":[{"metadata":{"name":"x","uid":"x"},"spec":{"nodeName":"node-0"}},'
    b'{"metadata":{"name":"y","uid":"y","deletionTimestamp":"2027-01-15T08:00:00Z"},"spec":{"nodeName":"node-1"}}]}'
)
CREATED = ok(b'{"kind":"Pod","metadata":{"uid":"u-new","resourceVersion":"20"}}', 201)


@virtual_time
async def test_pods_that_end_have_no_part_in_a_job_and_an_older_list_will_do() -> None:
    jobs = Jobs(Passes(nodes=2), job(podSelector={}, parallelism=2), lambda: NOW + now())
    await jobs(ok(LISTED), CREATED, ok())
    assert jobs.passes.asked == ["GET pods", "POST pods", STATUS]
    await asyncio.sleep(PODS_LISTED_SECONDS)
    assert await jobs(Response(status=500)) == RequeueAfter(STALE_RETRY_SECONDS, "own writes not seen yet")
    assert jobs.passes.asked == ["GET pods"]
    await asyncio.sleep(STALE_WARNING + 0.1)
    await jobs(Response(status=500))
    assert jobs.relisted == [("pods", now())], "the puller has not been seen for long"


@virtual_time
async def test_no_puller_is_tried_again_soon_while_the_namespace_ends() -> None:
    ending = b'{"kind":"Status","reason":"Forbidden","details":{"causes":[{"reason":"NamespaceTerminating"}]}}'
    jobs = Jobs(Passes(nodes=1), job(), lambda: NOW + now())
    jobs.passes.acting.script.answers[:] = [Response(status=403, body=ending), *[ok()] * 9]
    for _ in range(5):
        await jobs.once()
        await asyncio.sleep(TERMINATING_SECONDS / 5 - 0.01)
    assert jobs.passes.asked.count("POST pods") == 1
    await asyncio.sleep(0.05)
    await jobs(CREATED, ok())
    assert "POST pods" in jobs.passes.asked


@virtual_time
async def test_writes_about_a_job_mean_that_very_job() -> None:
    over = ImagePullJobStatus(desired=1, failed=1, failed_nodes=("gone",), start_time=rfc3339(NOW))
    jobs = Jobs(
        Passes(nodes=0), replace(job(completionPolicy={"ttlSecondsAfterFinished": 60}), status=over), lambda: NOW
    )
    await jobs(ok())
    (operations,) = jobs.bodies
    assert operations[0] == {"op": "replace", "path": "/metadata/uid", "value": "j1"}
    assert {"op": "remove", "path": "/status/failedNodes"} in operations
    assert "/status/startTime" not in [one["path"] for one in operations], "it has not changed"
    ended = replace(over, completion_time=rfc3339(NOW - 60))
    jobs = Jobs(
        Passes(nodes=0), replace(job(completionPolicy={"ttlSecondsAfterFinished": 60}), status=ended), lambda: NOW
    )
    await jobs(ok())
    assert jobs.bodies[0]["preconditions"] == {"uid": "j1", "resourceVersion": "7"}


@virtual_time
async def test_a_status_that_a_restored_server_has_lost_is_written_again() -> None:
    lasting = job(completionPolicy={"type": "Never"})
    jobs = Jobs(Passes(nodes=0), lasting, lambda: NOW)
    await jobs(ok(b'{"metadata":{"name":"pull","uid":"j1","resourceVersion":"30"}}'))
    assert jobs.passes.asked == [STATUS]
    await asyncio.sleep(60)
    await jobs()
    assert jobs.passes.asked == [], "it is known, though the cache does not show it yet"
    writer = jobs.passes.caches.jobs.writers[""]
    writer.list_requested(now())
    for event in (Init(), Seen(key=lasting.key, version="7", obj=lasting)):
        writer.apply(event)
    for _ in writer.replace("12"):
        pass
    await jobs(ok())
    assert jobs.passes.asked == [STATUS]


@virtual_time
async def test_a_puller_created_while_pods_are_listed_is_not_lost() -> None:
    jobs = Jobs(Passes(nodes=1), job(podSelector={}), lambda: NOW + now())
    pods = ok(
        b'{"metadata":{"resourceVersion":"15"},"items":[{"metadata":{"name":"x","uid":"x","resourceVersion":"3"},'
        b'"spec":{"nodeName":"node-0"}}]}'
    )
    created = ok(b'{"kind":"Pod","metadata":{"uid":"u-new","resourceVersion":"20"}}', 201)
    jobs.passes.acting.script.answers[:] = [pods, Slow(SILENCE_SECONDS + 3, created)]
    async with asyncio.TaskGroup() as group:
        group.create_task(jobs.once())
        await asyncio.sleep(SILENCE_SECONDS + 0.1)
        assert jobs.passes.woken == ["not answered yet"]
        await jobs(ok())
        assert jobs.passes.asked == [STATUS]
        jobs.stored(replace(job(podSelector={"matchLabels": {"app": "web"}}), version="8"))
        assert await jobs(Slow(5.0, pods)) == RequeueAfter(STALE_RETRY_SECONDS, "own writes not seen yet")
        assert jobs.passes.asked == ["GET pods"]
        assert jobs.metrics.registry.get_sample_value("kruise_ds_image_pulls_total", {"result": "failed"}) == 0


@virtual_time
async def test_nothing_is_woken_after_a_start_that_failed() -> None:
    settings = Settings(gates=FeatureGates(pre_download=True))
    parts = Parts(settings, Script(), server="", refresh=None, clock=lambda: NOW)
    assert parts.pulls is not None
    waiting = ds(annotations={"kruise-ds/image-predownload-wait": "true"})
    parts.informers.caches.daemonsets.writers[""].apply(Seen(key=waiting.key, version="1", obj=waiting))
    with pytest.RaisesGroup(KeyError):
        async with parts.pulls.working(never):
            raise KeyError("lease")
    await asyncio.sleep(STARTUP_SECONDS + 1)
    assert (parts.queue.depth, len(parts.queue._timers)) == (0, 0)


@virtual_time
async def test_a_node_wakes_the_jobs_and_a_revision_the_rollout() -> None:
    settings = Settings(gates=FeatureGates(pre_download=True))
    parts = Parts(settings, Script(), server="", refresh=None, clock=lambda: NOW)
    pulls, caches = parts.pulls, parts.informers.caches
    assert pulls is not None
    fill(caches.jobs, [job()])
    fill(caches.daemonsets, [ds()])
    pulls.on_node(Change(key=Key("", "node-9"), old=None, new=node("node-9")))
    pulls.on_revision(Change(key=revision("v1").key, old=None, new=revision("v1")))
    await asyncio.sleep(60)
    assert (pulls.queue.depth, pulls.rollout_queue.depth) == (1, 1)


@virtual_time
async def test_a_list_of_other_pods_costs_a_rollout_no_job() -> None:
    """While the watch was cut, each pod was replaced by another one of the same revision."""
    daemonset = ds("v2")
    nodes, revisions = [f"node-{number}" for number in range(9)], [revision("v1"), revision("v2", number=2)]
    pods = [pod(node, "v1") for node in nodes]
    passes = Passes(daemonset, pods=pods, revisions=revisions)
    wanted = wanted_images(daemonset, compiled(daemonset), revisions, pods)
    assert wanted is not None
    ours = replace(job(), name=wanted.jobs[0].name, owner_uid=OURS, hash="v2")
    rollouts = RolloutJobs(
        passes.acting.dependencies,
        passes.caches,
        Jobs(passes, ours, lambda: NOW).reconciler,
        states=passes.states,
        daemonset_queue=PacedQueue(),
    )
    others = [replace(one, name=f"other-{one.name}", uid=f"other-{one.uid}") for one in pods]
    for _ in passes.pods_become(others, version=9):
        passes.acting.script.answers[:] = [ok()]
        await rollouts(WorkItem(daemonset.key, (), 0.0), passes.woken.append)
        assert [one.method for one in passes.acting.script.requests] == []
