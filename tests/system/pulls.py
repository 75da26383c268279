"""What tests of ImagePullJobs share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from controller.settings import FeatureGates
from tests.beds.api import IMAGE_PULL_JOBS, PODS, Object
from tests.beds.controller.bed import Bed, named
from tests.beds.controller.opening import simulated
from tests.beds.simulator.faults import Rule

IMAGE = "registry.example.com/agent:v2"


@asynccontextmanager
async def pulling(*faults: Rule) -> AsyncIterator[Bed]:
    """A bed with a controller that carries out jobs, on the simulator, where each request takes a moment."""
    async with simulated(*faults, latency=0.02) as bed:
        await bed.controller.stop()
        restart(bed)
        bed.patience = 36_000.0
        yield bed


def restart(bed: Bed) -> None:
    bed.controller.start(replace(bed.controller.settings, gates=FeatureGates(pre_download=True)))


def job(name: str = "pull", **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"image": IMAGE, "completionPolicy": {}, **spec}}


def status_of(found: list[Object], name: str = "pull") -> Object:
    there: Object = named(found, name).get("status") or {}
    return there


def counts(status: Object) -> tuple[int, ...]:
    """Desired, active, succeeded, failed."""
    return tuple(int(status.get(name, -1)) for name in ("desired", "active", "succeeded", "failed"))


async def reads(bed: Bed, *wanted: int, name: str = "pull") -> Object:
    """Wait until the job counts so, and return its status."""

    def missing(found: list[Object]) -> str:
        there = status_of(found, name)
        return "" if counts(there) == wanted else f"the status is {there}"

    return status_of(await bed.until(IMAGE_PULL_JOBS, missing, f"{name} counts {wanted}"), name)


async def over(bed: Bed, name: str = "pull") -> Object:
    """Wait until the job is over and its last puller gone; return its status."""

    def missing(found: list[Object]) -> str:
        there = status_of(found, name)
        return "" if there.get("completionTime") else f"the status is {there}"

    found = status_of(await bed.until(IMAGE_PULL_JOBS, missing, f"{name} is over"), name)
    await no_pods(bed)
    return found


async def no_pods(bed: Bed) -> None:
    def missing(found: list[Object]) -> str:
        return f"there are {[one['metadata']['name'] for one in found]}" if found else ""

    await bed.until(PODS, missing, "no pod is left")
