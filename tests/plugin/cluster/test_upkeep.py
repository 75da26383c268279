"""How often something is read anew that cannot be watched for long."""

from __future__ import annotations

import asyncio

from controller.kube.errors import Gone
from kubectl_plugin.cluster.upkeep import Upkeep, Watched
from tests.beds.virtual_time import now, virtual_time


class Forgetful(Watched):
    """Each watch ends at once because its place is forgotten, until it has been read `times` times."""

    stale = False

    def __init__(self, times: int) -> None:
        self.reads: list[float] = []
        self._times = times

    async def refresh(self) -> None:
        self.reads.append(now())
        self.over = len(self.reads) >= self._times

    async def watch(self) -> None:
        await asyncio.sleep(0)
        raise Gone("watch", "pods", "too old", status=410)


@virtual_time
async def test_the_pauses_double_from_one_second_to_half_a_minute() -> None:
    watched = Forgetful(8)
    await Upkeep().keep(watched)
    assert watched.reads == [1, 3, 7, 15, 31, 61, 91, 121]
