"""How a leader ends, as data and one function each. Every function returns once the standby may act."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.beds.control_plane import User
from tests.beds.installed.process import PATIENCE
from tests.tools.failover.pair import LEADER, STANDBY, Pair

CLEAN, CRASH = 3.0, 20.0
"""Seconds in which a standby must have the Lease."""
APART = 17.0
"""Seconds for which a standby is cut off: more than a Lease lasts."""


@dataclass(frozen=True)
class Way:
    """`end` ends the leader and returns the moment (seconds since 1970) from which its successor is timed."""

    name: str
    end: Callable[[Pair], Awaitable[float]]
    limit: float
    code: int
    """What the leader exits with."""
    afterwards: Callable[[Pair], Awaitable[None]] | None = None
    """What happens to the old leader once it has a successor."""
    proxies: tuple[User, ...] = ()
    pace: float = 0.8
    """Seconds that a node needs for its new pod."""
    share: int = 1
    """How many of ten rounds end like this."""


async def _stop(pair: Pair) -> float:
    moment = time.time()
    pair.leader.process.signal(signal.SIGTERM)
    return moment


async def _kill(pair: Pair) -> float:
    moment = time.time()
    await pair.leader.killed()
    return moment


async def _freeze(pair: Pair) -> float:
    moment = time.time()
    pair.leader.process.signal(signal.SIGSTOP)
    return moment


async def _thaw(pair: Pair) -> None:
    pair.leader.process.signal(signal.SIGCONT)


async def _refuse(pair: Pair) -> float:
    assert pair.leaders_proxy is not None
    moment = time.time()
    await pair.leaders_proxy.shut()
    return moment


async def _silence(pair: Pair) -> float:
    assert pair.leaders_proxy is not None
    moment = time.time()
    pair.leaders_proxy.fall_silent()
    return moment


async def _heal(pair: Pair) -> None:
    assert pair.leaders_proxy is not None
    await pair.leaders_proxy.open()


async def _standby_apart(pair: Pair) -> float:
    """The standby is cut off for longer than a Lease lasts and must not take it; then the leader is stopped."""
    assert pair.standbys_proxy is not None
    pair.standbys_proxy.fall_silent()
    await asyncio.sleep(APART)  # this is how long it is cut off
    assert not pair.standby.is_leader, "a standby that hears nothing takes nothing"
    heard = len(pair.standby.said("standing by"))
    await pair.standbys_proxy.open()
    await pair.standby.until(lambda: len(pair.standby.said("standing by")) > heard, "stands by again", PATIENCE)
    return await _stop(pair)


WAYS = (
    Way("SIGTERM", _stop, CLEAN, 0, share=2),
    Way("SIGKILL", _kill, CRASH, -signal.SIGKILL, share=2),
    Way("SIGSTOP, SIGCONT", _freeze, CRASH, 1, afterwards=_thaw, share=2),
    Way("leader refused", _refuse, CRASH, 1, afterwards=_heal, proxies=(LEADER,), share=1),
    Way("leader in silence", _silence, CRASH, 1, afterwards=_heal, proxies=(LEADER,), share=2),
    Way("standby in silence", _standby_apart, CLEAN, 0, proxies=(STANDBY,), pace=10.0, share=1),
)
