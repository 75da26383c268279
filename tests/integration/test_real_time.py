"""A virtual clock that is set to follow the real one does."""

from __future__ import annotations

import asyncio
import time

from tests.beds.virtual_time import follow_real_time, virtual_time


@virtual_time
async def test_from_a_moment_on_no_second_is_left_out() -> None:
    await asyncio.sleep(86_400)
    follow_real_time()
    began = time.monotonic()
    await asyncio.sleep(0.05)
    assert time.monotonic() - began >= 0.05
    assert 86_400 < asyncio.get_running_loop().time() < 86_400 + 3600, "it goes on from where it was"
