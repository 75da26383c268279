"""`status`: where a rollout is, why it waits, what to do; with -w, until it is done, stuck or held."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec.structs import replace
from rich.text import Text

from controller.api.daemonset import Phase
from controller.api.objects import JSONObject, Key
from kubectl_plugin.cluster import installation, reads
from kubectl_plugin.cluster.follow import Following, LastLogLines, following, with_pulls
from kubectl_plugin.cluster.session import Deadline, Invocation
from kubectl_plugin.cluster.watches import MIN_INTERVAL, is_from_proxy, read_with_patience
from kubectl_plugin.commands.screens import Screen, status_screen
from kubectl_plugin.errors import CommandError, ExitCode, UsageError
from kubectl_plugin.flags import Output
from kubectl_plugin.options import StatusOptions as Asked
from kubectl_plugin.render.status import status_lines
from kubectl_plugin.rollout.document import document
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.status import RolloutStatus, status_at
from kubectl_plugin.rollout.wait import (
    Awaited,
    WaitResult,
    changed_spec_result,
    deleted_result,
    has_image,
    no_controller_result,
    result_of,
    unfinished_result,
    with_namespaces,
)
from kubectl_plugin.units import seconds_of
from kubectl_plugin.wording import command


async def status(invocation: Invocation, asked: Asked) -> int:
    if asked.watch:
        return await watch(invocation, asked)
    _refuse_flags_of_watching(asked)
    found, missing = await choose_objects(invocation, asked)
    seen = await with_pulls(invocation, found)
    statuses = [await rollout_status(invocation, asked, snapshot) for snapshot in seen]
    if statuses or not missing:
        show(invocation, statuses, single=bool(asked.names) and len(statuses) + len(missing) == 1)
    for absent in missing:
        invocation.terminal.fail(absent)
    code = 0
    if asked.exit_code:  # what waiting would end with; for what still moves, 3
        results = [result_of(one, wanted_of(asked)) or unfinished_result(one) for one in statuses]
        code = print_results(invocation, results, [one.daemonset.namespace for one in statuses])
    return max(code, ExitCode.FAILED) if missing else code


def _refuse_flags_of_watching(asked: Asked) -> None:
    """Raises UsageError for flags that would have no effect without -w."""
    given = {"--timeout": bool(seconds_of(asked.timeout, "--timeout")), "--plain": asked.plain}
    for flag in (flag for flag, is_given in given.items() if is_given):
        raise UsageError(f"{flag} is for -w: without it nothing is waited for")
    wanted, anything = wanted_of(asked), Awaited()
    for name in () if asked.exit_code else Awaited.__struct_fields__:
        if getattr(wanted, name) != getattr(anything, name):
            raise UsageError(f"--{name.replace('_', '-')} is for -w or --exit-code")


def show(invocation: Invocation, statuses: Sequence[RolloutStatus], *, single: bool) -> None:
    """`single`: one object was named, so its document is not in a list."""

    def whole() -> JSONObject:
        documents = [one.document.as_json for one in statuses]
        return documents[0] if single else document("RolloutStatusList", items=[*documents])

    names = (f"daemonset.apps.kruise.io/{one.daemonset.name}" for one in statuses)
    if not invocation.answers_a_program(names, whole):
        _print(invocation, statuses)
    invocation.note_unread(missing for one in statuses for missing in one.snapshot.unread_words)


def _print(invocation: Invocation, statuses: Sequence[RolloutStatus]) -> None:
    terminal = invocation.terminal
    if not statuses:
        terminal.note(f"no Advanced DaemonSets in namespace {invocation.session.namespace}")
    for index, one in enumerate(statuses):
        terminal.say(*([""] if index else []))
        wide = invocation.output is Output.WIDE
        lines = status_lines(one, terminal, wide=wide)
        terminal.show(Text("\n").join(lines), whole=wide and one.survey.by_nodes is not None)
        if one.blocker:
            terminal.warn(one.blocker)


def wanted_of(asked: Asked) -> Awaited:
    return Awaited(**{name: getattr(asked, name) for name in Awaited.__struct_fields__})


async def choose_objects(
    invocation: Invocation, asked: Asked, parts: reads.Parts = reads.ALL
) -> tuple[tuple[Snapshot, ...], tuple[CommandError, ...]]:
    """Returns the objects of the command line, or all of the namespace, and an error per name that does not exist.
    Raises UsageError for several objects and a flag, such as --revision, for one."""
    keys: list[Key] | None = None
    if asked.given:
        if asked.names or asked.selector or asked.all_namespaces:
            raise UsageError("give names, -l and -A, or -f and -k, not both")
        from kubectl_plugin.cluster import manifests

        read, _ = await manifests.read_manifests(asked, invocation.host)
        keys = [Key(one.namespace or invocation.session.namespace, one.name) for one in read]
    elif asked.names and not (asked.selector or asked.all_namespaces):
        keys = [reads.key_of(invocation, name) for name in asked.names]
    absent: tuple[CommandError, ...] = ()
    if keys is None:
        found = await reads.snapshots(invocation, asked.names, asked, parts)
    else:
        found, absent = await reads.existing_snapshots(invocation, keys, parts)
    numbers = {"--revision": asked.revision, "--generation": asked.generation}
    several = len(found) + len(absent)
    for flag in (flag for flag, number in numbers.items() if number is not None and several > 1):
        raise UsageError(f"{flag} counts the changes of one DaemonSet, and these are {several}: name one")
    return found, absent


async def rollout_status(
    invocation: Invocation,
    asked: Asked,
    snapshot: Snapshot,
    *,
    words: LastLogLines | None = None,
    presence: Callable[[float], Awaitable[str | None]] | None = None,
) -> RolloutStatus:
    """`words` keeps log lines between calls. `presence` says why no controller is active; None: ask the server."""
    status, logs = status_at(snapshot, asked.by), None
    if runs := status.silent_runs:
        logs = await (words or LastLogLines(invocation.session)).of(runs) if asked.logs else {}
    ask = presence or partial(installation.why_no_controller, invocation.session)
    absence = await ask(snapshot.now) if status.phase is Phase.PENDING else None
    return replace(status, logs=logs, absence=absence or "")


TICK: Final = 1.0
"""Seconds between screens without events, as ages and deadlines depend on the time."""
REST: Final = 4.0
"""The pause between reports, as a multiple of the time one takes: large clusters are read less often."""
HINT: Final = 30.0
"""Seconds of Pending before a hint asks whether the controller is running."""
UNATTENDED: Final = 60.0
"""Seconds of Pending before the wait ends if no controller is running."""
ASK_EVERY: Final = 10.0


async def watch(invocation: Invocation, asked: Asked) -> int:
    if invocation.output not in (None, Output.JSON, Output.WIDE):
        raise UsageError(f"-w has no output format {invocation.output}: use json")
    deadline = Deadline(invocation, asked.timeout)
    async with deadline.enforced():
        read = partial(choose_objects, invocation, asked, reads.REVISIONS_ONLY)
        found, absent = await read_with_patience(read, invocation.terminal.note, is_from_proxy)
        if absent:
            raise absent[0]
        return await follow_up(invocation, asked, found, deadline) if found else print_results(invocation, (), ())


async def follow_up(
    invocation: Invocation,
    asked: Asked,
    found: Sequence[Snapshot],
    deadline: Deadline,
    generations: Mapping[Key, int] | None = None,
) -> int:
    """Watches until each object has a result; returns the highest exit code. `generations`: specs to wait for."""
    several = len({one.daemonset.namespace for one in found}) > 1
    keys = [one.daemonset.key for one in found]
    async with following(invocation, found) as follow:
        with status_screen(invocation, plain=asked.plain, several=several) as screen:
            presence, words = ControllerPresence(invocation, several=several), LastLogLines(invocation.session)
            watch = _StatusWatch(invocation, asked, follow, screen, deadline, presence, words)
            results = await watch.run(keys, generations or {})
    return print_results(invocation, results, [key.namespace for key in keys])


def print_results(invocation: Invocation, results: Sequence[WaitResult], namespaces: Sequence[str]) -> int:
    """Returns the highest exit code; no object at all is a failure."""
    for result in with_namespaces(results, namespaces):
        if result.error is not None:
            invocation.terminal.fail(result.error)
        if result.warning:
            invocation.terminal.warn(result.warning)
    if not results:
        invocation.terminal.fail(CommandError("no Advanced DaemonSet was found"))
    return max((result.code for result in results), default=ExitCode.FAILED)


@dataclass
class _StatusWatch:
    invocation: Invocation
    asked: Asked
    follow: Following
    screen: Screen
    deadline: Deadline
    presence: ControllerPresence
    words: LastLogLines
    met: set[Key] = field(default_factory=set)
    """Objects that have had the awaited image."""

    async def run(self, keys: Sequence[Key], generations: Mapping[Key, int]) -> list[WaitResult]:
        loop = asyncio.get_running_loop()
        asked = wanted_of(self.asked)
        wanted = [replace(asked, generation=generations.get(key, asked.generation)) for key in keys]
        while True:
            began = loop.time()
            found = [None if one is None else await self._report(one) for one in self.follow.snapshots()]
            seen = [one for one in found if one is not None]
            if any(one.survey.counts_differ for one in seen):
                self.follow.mark_nodes_stale()
            results = [self._result(key.name, one, want) for key, one, want in zip(keys, found, wanted, strict=True)]
            late = self.deadline.seconds_left <= 0
            stuck = any(result is not None and result.code == ExitCode.STUCK for result in results)
            decided = all(result is not None for result in results) or (self.asked.fail_fast and stuck)
            over = late or decided
            self.screen.show(seen, "" if over else self.follow.interruption, final=over)
            if over:
                return [result or self._unfinished(one, late) for result, one in zip(results, found, strict=True)]
            took = loop.time() - began
            pause = min(max(TICK, REST * took), self.deadline.seconds_left)
            await self.follow.changed(pause, apart=max(MIN_INTERVAL, REST * took))

    async def _report(self, snapshot: Snapshot) -> RolloutStatus:
        return await rollout_status(
            self.invocation, self.asked, snapshot, words=self.words, presence=self.presence.absence
        )

    def _unfinished(self, one: RolloutStatus | None, late: bool) -> WaitResult:
        assert one is not None, "what is gone has a result"
        return unfinished_result(one, self.asked.timeout if late else "")

    def _result(self, name: str, one: RolloutStatus | None, wanted: Awaited) -> WaitResult | None:
        if one is None:
            return deleted_result(name)
        pending = self.presence.pending_for(one.daemonset.key, one.phase)
        if pending >= UNATTENDED and one.absence:
            return no_controller_result(name, one.absence)
        if has_image(one, wanted):
            self.met.add(one.daemonset.key)
        elif one.daemonset.key in self.met:
            return changed_spec_result(one, Awaited())
        return result_of(one, wanted)


class ControllerPresence:
    """Whether a controller handles a Pending object. Asks the server at most every `ASK_EVERY` seconds."""

    def __init__(self, invocation: Invocation, *, several: bool) -> None:
        self._invocation, self._several = invocation, several
        self._since: dict[Key, float] = {}
        self._hinted: set[Key] = set()
        self._absence = ""
        self._asked = -math.inf

    async def absence(self, now: float) -> str:
        """Returns why no controller seems active, or an empty text. `now`: seconds since 1970, server's clock."""
        moment = asyncio.get_running_loop().time()
        if moment - self._asked >= ASK_EVERY:
            self._absence = await installation.why_no_controller(self._invocation.session, now) or ""
            self._asked = moment
        return self._absence

    def pending_for(self, key: Key, phase: Phase) -> float:
        """Returns the seconds of Pending, 0 in other phases. Prints the hint once, after `HINT` seconds."""
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
