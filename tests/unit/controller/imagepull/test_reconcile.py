"""A pass over a job that goes wrong, and a process that ends while it starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest
from msgspec.structs import replace

from controller.api.image_pull_job import ImagePullJob
from controller.api.meta import Key
from controller.api.puller import Puller
from controller.assembly import Parts
from controller.imagepull.assembly import STARTING_SECONDS
from controller.imagepull.caches import JobCaches
from controller.imagepull.reconcile import JobReconciler
from controller.instrumentation import Instrumentation
from controller.kube.decode import Seen
from controller.runtime.pacing import Pacer
from controller.runtime.pass_outcome import ANSWER_SECONDS, LOOK_AGAIN_SECONDS
from controller.runtime.watch import Init
from controller.runtime.workers import ComeBack, Outcome
from controller.runtime.workqueue import Taken
from controller.settings import FeatureGates, Settings
from controller.telemetry.metrics import Metrics
from tests.beds.scripted import Answer, Script, Slow, ok
from tests.beds.stores import open_store
from tests.beds.virtual_time import now, virtual_time
from tests.beds.worlds import NOW, ds
from tests.unit.controller.daemonset.passes import STATUS, Passes
from tests.unit.controller.imagepull.worlds import job, puller


def mistaken() -> NoReturn:
    raise KeyError("clock")


async def never() -> None:
    await asyncio.Event().wait()


class Jobs:
    """One job as the caches have it, and passes over it; `Passes` is the control of these."""

    def __init__(self, passes: Passes, job: ImagePullJob, clock: Callable[[], float]) -> None:
        self.key, self.pacer, self.passes = job.key, Pacer[Key](), passes
        (self._jobs, jobs), (self.pullers, pullers) = open_store(ImagePullJob), open_store(Puller)
        self.stored(job)
        self.attempts: list[str] = []
        known = passes.reconciler._caches
        self.reconciler = JobReconciler(
            passes.acting.dependencies.client,
            JobCaches(jobs, pullers, known),
            clock,
            self.pacer,
            Instrumentation(Metrics(version="0"), known, lambda: NOW),
            say=lambda about, note: None,
            attempted=self.attempts.append,
            on_progress=lambda about: None,
            relist=lambda: None,
        )

    async def __call__(self, *answers: Answer) -> Outcome:
        script = self.passes.acting.script
        script.answers[:] = answers
        script.requests.clear()
        return await self.reconciler(Taken(key=self.key, reasons=(), queued_seconds=0.0), self.passes)

    def stored(self, job: ImagePullJob) -> None:
        self._jobs.feed(Seen(key=job.key, version=job.version, obj=job))

    def list_is_half_taken_in(self, version: str) -> Iterator[object]:
        """There are no pullers; the second puller of another job is not yet taken in."""
        self.pullers.feed(Init())
        for node in ("a", "b"):
            other = puller(node, job="other", job_uid="j2")
            self.pullers.feed(Seen(key=Key(other.namespace, other.name), version="9", obj=other))
        steps = self.pullers.swap(version)
        next(steps)
        return steps


@virtual_time
async def test_a_pass_that_cannot_decide_is_over_all_the_same() -> None:
    jobs = Jobs(Passes(), job(), mistaken)
    jobs.pacer.passed(jobs.key, 1.0, now())
    with pytest.raises(KeyError):
        await jobs()
    await asyncio.sleep(60)
    assert jobs.pacer.delay(jobs.key, "urgent", now()) == 0.0


@virtual_time
async def test_a_puller_created_while_a_list_is_half_applied_is_not_lost() -> None:
    """The list is older than the puller: who misses it there tries the node again, with a second puller."""
    jobs = Jobs(Passes(nodes=3), job(), lambda: NOW + now())
    created = ok(b'{"kind":"Pod","metadata":{"uid":"u-new","resourceVersion":"20"}}', 201)
    await jobs(Slow(ANSWER_SECONDS + 3, created), ok())
    assert jobs.passes.asked == ["POST pods", STATUS]
    steps = jobs.list_is_half_taken_in("15")
    waiting = asyncio.ensure_future(jobs(ok(), ok()))
    await asyncio.sleep(4)  # until the create is answered
    for _ in steps:
        pass
    assert await waiting == ComeBack(LOOK_AGAIN_SECONDS, "own writes not seen yet")
    assert (jobs.passes.asked, jobs.attempts) == ([], [])


@virtual_time
async def test_a_puller_that_was_created_while_pods_are_listed_is_not_lost() -> None:
    jobs = Jobs(Passes(nodes=1), job(podSelector={}), lambda: NOW + now())
    pods = ok(
        b'{"metadata":{"resourceVersion":"15"},"items":[{"metadata":{"name":"x","uid":"x","resourceVersion":"3"},'
        b'"spec":{"nodeName":"node-0"}}]}'
    )
    created = ok(b'{"kind":"Pod","metadata":{"uid":"u-new","resourceVersion":"20"}}', 201)
    await jobs(pods, Slow(ANSWER_SECONDS + 3, created), ok())
    assert jobs.passes.asked == ["GET pods", "POST pods", STATUS]
    jobs.stored(replace(job(podSelector={"matchLabels": {"app": "web"}}), version="8"))
    assert await jobs(Slow(5.0, pods)) == ComeBack(LOOK_AGAIN_SECONDS, "own writes not seen yet")
    assert (jobs.passes.asked, jobs.attempts) == (["GET pods"], [])


@virtual_time
async def test_nothing_is_woken_after_a_start_that_failed() -> None:
    settings = Settings(gates=FeatureGates(pre_download=True))
    parts = Parts(settings, Script(), server="", refresh=None, clock=lambda: NOW)
    assert parts.pulls is not None
    waiting = ds(annotations={"kruise-ds/image-predownload-wait": "true"})
    parts.informers.daemonsets.writers[""].feed(Seen(key=waiting.key, version="1", obj=waiting))
    with pytest.RaisesGroup(KeyError):
        async with parts.pulls.working(never):
            raise KeyError("lease")
    await asyncio.sleep(STARTING_SECONDS + 1)
    assert (parts.queue.depth, parts.queue.later) == (0, 0)
