"""The server's clock by what it says, and moments by both clocks."""

from __future__ import annotations

import asyncio
from email.utils import formatdate

from controller.runtime.clock import Instant, ServerClock
from tests.beds.virtual_time import virtual_time_from

NOW = 1_800_000_000.0


@virtual_time_from(50.0)
async def test_the_servers_clock_goes_on_from_its_last_word() -> None:
    clock = ServerClock()
    assert clock.ahead(NOW) == 0.0, "not known"
    clock.learn(formatdate(NOW + 90, usegmt=True))
    assert clock.ahead(NOW) == 90.0
    await asyncio.sleep(20.0)
    clock.learn("")
    assert clock.ahead(NOW + 20) == 90.0, "as long as both go on alike"
    assert clock.ahead(NOW + 200) == -90.0, "its own machine's was set"


def test_a_moment_is_the_same_by_both_clocks() -> None:
    now = Instant(wall=NOW, elapsed=50.0)
    assert (now.to_wall(60.0), now.to_elapsed(NOW + 10)) == (NOW + 10, 60.0)
    assert now.to_elapsed(now.to_wall(7.0)) == 7.0
