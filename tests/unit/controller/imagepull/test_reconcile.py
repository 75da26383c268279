"""A pass over a job that goes wrong, and a process that ends while it starts."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import pytest

from controller.api.image_pull_job import ImagePullJob
from controller.api.meta import Key
from controller.api.puller import Puller
from controller.assembly import Parts
from controller.imagepull.assembly import STARTING_SECONDS
from controller.imagepull.caches import JobCaches
from controller.imagepull.reconcile import JobReconciler
from controller.informers import Informers
from controller.instrumentation import Instrumentation
from controller.kube.decode import Seen
from controller.runtime.pacing import Pacer
from controller.runtime.workqueue import Taken
from controller.settings import FeatureGates, Settings
from controller.telemetry.metrics import Metrics
from tests.beds.scripted import Script
from tests.beds.stores import open_store
from tests.beds.virtual_time import now, virtual_time
from tests.beds.worlds import NOW, ds
from tests.unit.controller.daemonset.passes import Passes
from tests.unit.controller.imagepull.worlds import job


def mistaken() -> NoReturn:
    raise KeyError("clock")


async def never() -> None:
    await asyncio.Event().wait()


@virtual_time
async def test_a_pass_that_cannot_decide_is_over_all_the_same() -> None:
    passes, known, pacer = Passes(), Informers(()).caches, Pacer[Key]()
    (writer, jobs), (_, pullers) = open_store(ImagePullJob), open_store(Puller)
    writer.feed(Seen(key=job().key, version="7", obj=job()))
    reconciler = JobReconciler(
        passes.acting.dependencies.client,
        JobCaches(jobs, pullers, known),
        mistaken,
        pacer,
        Instrumentation(Metrics(version="0"), known, lambda: NOW),
        say=lambda about, note: None,
        attempted=lambda result: None,
        on_progress=lambda about: None,
        relist=lambda: None,
    )
    pacer.passed(job().key, 1.0, now())
    with pytest.raises(KeyError):
        await reconciler(Taken(key=job().key, reasons=(), queued_seconds=0.0), passes)
    await asyncio.sleep(60)
    assert pacer.delay(job().key, "urgent", now()) == 0.0


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
