"""`status -w`: shows what happens until each rollout has an ending, which becomes the exit code."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

from msgspec.structs import replace

from controller.api.daemonset import Phase
from controller.api.objects import Key
from kubectl_plugin.cluster import controller_lease
from kubectl_plugin.cluster.follow import Following, following
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.cluster.last_log_line import LastLogLines
from kubectl_plugin.cluster.retrying_reads import is_from_proxy, read_with_patience
from kubectl_plugin.cluster.upkeep import MIN_INTERVAL
from kubectl_plugin.commands import command
from kubectl_plugin.failures import CommandError, ExitCode, UsageError
from kubectl_plugin.flags import Output
from kubectl_plugin.options import StatusOptions as Asked
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.status.endings import (
    Awaited,
    Ending,
    changed_spec_ending,
    deleted_ending,
    ending_of,
    has_image,
    no_controller_ending,
    unfinished_ending,
    with_namespaces,
)
from kubectl_plugin.verbs.deadline import Deadline
from kubectl_plugin.verbs.status_look import Look, choose_objects, look_at, wanted_of
from kubectl_plugin.verbs.status_screens import Screen, status_screen

TICK: Final = 1.0
"""Seconds between two looks when nothing happens, because ages and deadlines depend on the time."""
REST: Final = 4.0
"""The pause between two reports, as a multiple of the time that one takes: large clusters are read less often."""
HINT: Final = 30.0
"""Seconds of Pending after which a hint asks whether the controller is running."""
UNATTENDED: Final = 60.0
"""Seconds of Pending after which the wait ends if no controller is running."""
ASK_EVERY: Final = 10.0


async def watch(invocation: Invocation, asked: Asked) -> int:
    """Returns the highest exit code of all objects."""
    if invocation.output not in (None, Output.JSON, Output.WIDE):
        raise UsageError(f"-w has no output format {invocation.output}: use json")
    deadline = Deadline(invocation, asked.timeout)
    async with deadline.enforced():
        read = partial(choose_objects, invocation, asked, complete=False)
        found, absent = await read_with_patience(read, invocation.terminal.note, is_from_proxy)
        if absent:
            raise absent[0]
        return await follow_up(invocation, asked, found, deadline) if found else print_endings(invocation, (), ())


async def follow_up(
    invocation: Invocation,
    asked: Asked,
    found: Sequence[Snapshot],
    deadline: Deadline,
    generations: Mapping[Key, int] | None = None,
) -> int:
    """Watch until each object has an ending; returns the highest exit code. `generations`: the spec to wait for, by
    object."""
    several = len({one.daemonset.namespace for one in found}) > 1
    with ExitStack() as scope:
        async with following(invocation, found) as follow:
            shown = status_screen(invocation, plain=asked.plain, several=several, scope=scope)
            keys = [one.daemonset.key for one in found]
            watch = _StatusWatch(invocation, asked, follow, shown, deadline=deadline, several=several)
            endings = await watch.run(keys, generations or {})
    return print_endings(invocation, endings, [key.namespace for key in keys])


def print_endings(invocation: Invocation, endings: Sequence[Ending], namespaces: Sequence[str]) -> int:
    """Print the endings; returns the highest exit code. No object at all is a failure."""
    for ending in with_namespaces(endings, namespaces):
        if ending.error is not None:
            invocation.terminal.fail(ending.error)
        if ending.warning:
            invocation.terminal.warn(ending.warning)
    if not endings:
        invocation.terminal.fail(CommandError("no Advanced DaemonSet was found"))
    return max((ending.code for ending in endings), default=ExitCode.FAILED)


class _StatusWatch:
    def __init__(
        self,
        invocation: Invocation,
        asked: Asked,
        follow: Following,
        shown: Screen,
        *,
        deadline: Deadline,
        several: bool,
    ) -> None:
        self._invocation, self._asked, self._follow, self._screen = invocation, asked, follow, shown
        self._deadline = deadline
        self._words = LastLogLines(invocation.session)
        self._met: set[Key] = set()
        """Objects that have had the image that is waited for."""
        self._presence = ControllerPresence(invocation, several=several)

    async def run(self, keys: Sequence[Key], generations: Mapping[Key, int]) -> list[Ending]:
        """Returns one ending for each key."""
        loop = asyncio.get_running_loop()
        asked = wanted_of(self._asked)
        wanted = [replace(asked, generation=generations.get(key, asked.generation)) for key in keys]
        while True:
            began = loop.time()
            looks = [None if one is None else await self._look(one) for one in self._follow.snapshots()]
            seen = [one for one in looks if one is not None]
            if any(one.survey is not None and one.survey.counts_differ for one in seen):
                self._follow.mark_nodes_stale()
            endings = [self._ending(key.name, one, want) for key, one, want in zip(keys, looks, wanted, strict=True)]
            late = self._deadline.seconds_left <= 0
            stuck = any(ending is not None and ending.code == ExitCode.STUCK for ending in endings)
            decided = all(ending is not None for ending in endings) or (self._asked.fail_fast and stuck)
            over = late or decided
            self._screen.show(seen, "" if over else self._follow.interruption, final=over)
            if over:
                return [ending or self._unfinished(one, late) for ending, one in zip(endings, looks, strict=True)]
            took = loop.time() - began
            pause = min(max(TICK, REST * took), self._deadline.seconds_left)
            await self._follow.changed(pause, apart=max(MIN_INTERVAL, REST * took))

    async def _look(self, snapshot: Snapshot) -> Look:
        return await look_at(
            self._invocation, self._asked, snapshot, words=self._words, presence=self._presence.absence
        )

    def _unfinished(self, one: Look | None, late: bool) -> Ending:
        assert one is not None, "what is gone has an ending"
        return unfinished_ending(one.brief, self._asked.timeout if late else "")

    def _ending(self, name: str, one: Look | None, wanted: Awaited) -> Ending | None:
        if one is None:
            return deleted_ending(name)
        pending = self._presence.pending_for(one.brief.daemonset.key, one.brief.phase)
        if pending >= UNATTENDED and one.absence:
            return no_controller_ending(name, one.absence)
        if has_image(one.brief, wanted):
            self._met.add(one.brief.daemonset.key)
        elif one.brief.daemonset.key in self._met:
            return changed_spec_ending(one.brief, Awaited())
        return ending_of(one.brief, wanted)


class ControllerPresence:
    """Whether a controller takes care of an object that is Pending. The server is asked at most every `ASK_EVERY`
    seconds."""

    def __init__(self, invocation: Invocation, *, several: bool) -> None:
        """`several`: names are printed with their namespaces."""
        self._invocation, self._several = invocation, several
        self._since: dict[Key, float] = {}
        self._hinted: set[Key] = set()
        self._absence = ""
        self._asked = -math.inf

    async def absence(self, now: float) -> str:
        """Why no controller seems to be active; empty when one is. `now`: seconds since 1970, by
        the server's clock."""
        moment = asyncio.get_running_loop().time()
        if moment - self._asked >= ASK_EVERY:
            self._absence = await controller_lease.why_no_controller(self._invocation.session, now) or ""
            self._asked = moment
        return self._absence

    def pending_for(self, key: Key, phase: Phase) -> float:
        """For how many seconds it has been Pending; 0 in another phase. After `HINT` seconds it prints the hint,
        once."""
        now = asyncio.get_running_loop().time()
        if phase is not Phase.PENDING:
            self._since.pop(key, None)
            return 0.0
        seconds = now - self._since.setdefault(key, now)
        if seconds >= HINT and key not in self._hinted and not self._invocation.terminal.on_screen:
            self._hinted.add(key)
            name = f"{key.namespace}/{key.name}" if self._several else key.name
            self._invocation.terminal.warn(
                f"{name} is Pending for {HINT:.0f}s: is the controller running?", command("doctor")
            )
        return seconds
