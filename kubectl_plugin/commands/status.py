"""`status`: where a rollout is, why it waits, what to do. With -w, and for the --wait of the verbs that write, it
reports each change until every object has a result."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec.structs import replace
from rich.text import Text

from controller.api.daemonset import Phase
from controller.api.objects import JSONObject, Key
from kubectl_plugin.cluster import installation, reads
from kubectl_plugin.cluster.documents import is_from_proxy, last_log_line, side_by_side
from kubectl_plugin.cluster.follow import Following, following, with_pulls
from kubectl_plugin.cluster.session import Deadline, Invocation
from kubectl_plugin.cluster.watches import MIN_INTERVAL, read_with_patience
from kubectl_plugin.commands.screens import Screen, status_screen
from kubectl_plugin.errors import CommandError, ExitCode, UsageError
from kubectl_plugin.flags import Output
from kubectl_plugin.options import StatusOptions
from kubectl_plugin.render.status import status_lines
from kubectl_plugin.rollout import wait
from kubectl_plugin.rollout.document import document
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.status import RolloutStatus, Run, status_at
from kubectl_plugin.rollout.survey import NodeSurvey
from kubectl_plugin.rollout.wait import Awaited, WaitResult
from kubectl_plugin.wording import command, printed_name

REDRAW_SECONDS: Final = 1.0
"""Seconds between screens without events, as ages and deadlines depend on the time."""
REST: Final = 4.0
"""The pause between reports, as a multiple of the time one takes: large clusters are read less often."""
HINT_AFTER: Final = 30.0
"""Seconds of Pending before a hint asks whether the controller is running."""
ASK_EVERY: Final = 10.0


async def status(invocation: Invocation, options: StatusOptions) -> ExitCode:
    if options.watch:
        return await watch(invocation, options)
    found, missing = await choose_objects(invocation, options)
    reporter = Reporter(invocation, options)
    statuses = [await reporter.report(snapshot) for snapshot in await with_pulls(invocation, found)]
    if statuses or not missing:
        show(invocation, statuses, single=bool(options.names) and len(statuses) + len(missing) == 1)
    for absent in missing:
        invocation.terminal.fail(absent)
    code = ExitCode.DONE
    if options.exit_code:  # what waiting would end with; for what still moves, 3
        wanted = wanted_of(options)
        results = [wait.result_of(one, wanted) or wait.unfinished_result(one) for one in statuses]
        code = print_results(invocation, results, [one.daemonset.namespace for one in statuses])
    return max(code, ExitCode.FAILED) if missing else code


def show(invocation: Invocation, statuses: Sequence[RolloutStatus], *, single: bool) -> None:
    """`single`: one object was named, so its document is not in a list."""

    def whole() -> JSONObject:
        documents = [one.document.as_json for one in statuses]
        return documents[0] if single else document("RolloutStatusList", items=[*documents])

    names = (printed_name(one.daemonset.name) for one in statuses)
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
        terminal.show(Text("\n").join(lines), whole=wide and isinstance(one.survey, NodeSurvey))
        if one.nodes_unknown:
            terminal.warn(one.nodes_unknown)


async def choose_objects(
    invocation: Invocation, options: StatusOptions, parts: reads.Parts = reads.ALL
) -> tuple[tuple[Snapshot, ...], tuple[CommandError, ...]]:
    """Returns the objects of the command line, or all of the namespace, and an error per name that does not exist.
    Raises UsageError for several objects and a flag, such as --revision, for one."""
    keys: list[Key] | None = None
    if options.given:
        from kubectl_plugin.cluster import manifests

        read, _ = await manifests.read_manifests(options, invocation.host)
        keys = [Key(one.namespace or invocation.session.namespace, one.name) for one in read]
    elif options.names:
        keys = [reads.key_of(invocation, name) for name in options.names]
    absent: tuple[CommandError, ...] = ()
    if keys is None:
        found = await reads.snapshots(invocation, (), options, parts)
    else:
        found, absent = await reads.existing_snapshots(invocation, keys, parts)
    numbers = {"--revision": options.revision, "--generation": options.generation}
    several = len(found) + len(absent)
    for flag in (flag for flag, number in numbers.items() if number is not None and several > 1):
        raise UsageError(f"{flag} counts the changes of one DaemonSet, and these are {several}: name one")
    return found, absent


async def watch(invocation: Invocation, options: StatusOptions) -> ExitCode:
    if invocation.output not in (None, Output.JSON, Output.WIDE):
        raise UsageError(f"-w has no output format {invocation.output}: use json")
    deadline = Deadline(invocation, options)
    async with deadline.enforced():
        read = partial(choose_objects, invocation, options, reads.REVISIONS_ONLY)
        found, absent = await read_with_patience(read, invocation.terminal.note, is_from_proxy)
        if absent:
            raise absent[0]
        return await follow_up(invocation, options, found, deadline) if found else print_results(invocation, (), ())


def wanted_of(options: StatusOptions) -> Awaited:
    return Awaited(
        revision=options.revision,
        generation=options.generation,
        image=options.image,
        require_full=options.require_full,
        fail_fast=options.fail_fast,
    )


async def follow_up(
    invocation: Invocation,
    options: StatusOptions,
    found: Sequence[Snapshot],
    deadline: Deadline,
    generations: Mapping[Key, int] | None = None,
) -> ExitCode:
    """Watches until each object has a result; returns the highest exit code. `generations`: specs to wait for."""
    several = len({snapshot.daemonset.namespace for snapshot in found}) > 1
    keys = [snapshot.daemonset.key for snapshot in found]
    async with following(invocation, found) as follow:
        invocation.note_unread(follow.unread_words)
        with status_screen(invocation, plain=options.plain, several=several) as screen:
            watch = _StatusWatch(options, follow, screen, deadline, Reporter(invocation, options, several=several))
            results = await watch.run(keys, generations or {})
    return print_results(invocation, results, [key.namespace for key in keys])


def print_results(invocation: Invocation, results: Sequence[WaitResult], namespaces: Sequence[str]) -> ExitCode:
    """Returns the highest exit code; no object at all is a failure."""
    for result in wait.with_namespaces(results, namespaces):
        if result.error is not None:
            invocation.terminal.fail(result.error)
        if result.warning:
            invocation.terminal.warn(result.warning)
    if not results:
        invocation.terminal.fail(CommandError("no Advanced DaemonSet was found"))
    return max((result.code for result in results), default=ExitCode.FAILED)


@dataclass
class _StatusWatch:
    options: StatusOptions
    follow: Following
    screen: Screen
    deadline: Deadline
    reporter: Reporter
    met: set[Key] = field(default_factory=set)
    """Objects that have had the awaited image."""

    async def run(self, keys: Sequence[Key], generations: Mapping[Key, int]) -> list[WaitResult]:
        loop = asyncio.get_running_loop()
        awaited = wanted_of(self.options)
        wanted = [replace(awaited, generation=generations.get(key, awaited.generation)) for key in keys]
        while True:
            began = loop.time()
            found = [None if one is None else await self.reporter.report(one) for one in self.follow.snapshots()]
            seen = [status for status in found if status is not None]
            if any(isinstance(one.survey, NodeSurvey) and one.survey.counts_differ for one in seen):
                self.follow.mark_nodes_stale()
            results = [self._result(key.name, one, want) for key, one, want in zip(keys, found, wanted, strict=True)]
            late = self.deadline.seconds_left <= 0
            stuck = any(result is not None and result.code == ExitCode.STUCK for result in results)
            decided = all(result is not None for result in results) or (self.options.fail_fast and stuck)
            over = late or decided
            self.screen.show(seen, "" if over else self.follow.interruption, final=over)
            if over:
                return [result or self._unfinished(one, late) for result, one in zip(results, found, strict=True)]
            took = loop.time() - began
            pause = min(max(REDRAW_SECONDS, REST * took), self.deadline.seconds_left)
            await self.follow.changed(pause, apart=max(MIN_INTERVAL, REST * took))

    def _unfinished(self, status: RolloutStatus | None, late: bool) -> WaitResult:
        assert status is not None, "what is gone has a result"
        return wait.unfinished_result(status, self.options.timeout if late else "")

    def _result(self, name: str, status: RolloutStatus | None, wanted: Awaited) -> WaitResult | None:
        if status is None:
            return wait.deleted_result(name)
        pending = self.reporter.pending_for(status.daemonset.key, status.phase)
        if pending >= installation.CONTROLLER_SECONDS and status.absence:
            return wait.no_controller_result(name, status.absence)
        if wait.has_image(status, wanted):
            self.met.add(status.daemonset.key)
        elif status.daemonset.key in self.met:
            return wait.changed_spec_result(status, Awaited())
        return wait.result_of(status, wanted)


class Reporter:
    """Completes the status of a snapshot by what only the server knows. However often a report is made, it reads each
    log line once per run of a container, and asks for a controller at most every `ASK_EVERY` seconds."""

    def __init__(self, invocation: Invocation, options: StatusOptions, *, several: bool = False) -> None:
        """`several`: objects are named with their namespaces."""
        self._invocation, self._options, self._several = invocation, options, several
        self._logs: dict[Run, str] = {}
        self._pending_since: dict[Key, float] = {}
        self._hinted: set[Key] = set()
        self._absence = ""
        self._asked_at = -math.inf

    async def report(self, snapshot: Snapshot) -> RolloutStatus:
        status, logs = status_at(snapshot, self._options.by), None
        if runs := status.silent_runs:
            logs = await self._last_log_lines(runs) if self._options.logs else {}
        absence = await self._why_no_controller(snapshot.now) if status.phase is Phase.PENDING else ""
        return replace(status, logs=logs, absence=absence)

    async def _last_log_lines(self, runs: Sequence[Run]) -> dict[Run, str]:
        new, session = [run for run in runs if run not in self._logs], self._invocation.session
        lines = await side_by_side(*(last_log_line(session, pod, container) for pod, container, _ in new))
        known = self._logs | dict(zip(new, lines, strict=True))
        self._logs = {run: known[run] for run in runs}
        return self._logs

    async def _why_no_controller(self, now: float) -> str:
        """Empty if one seems active. `now`: seconds since 1970, server's clock."""
        moment = asyncio.get_running_loop().time()
        if moment - self._asked_at >= ASK_EVERY:
            self._absence = await installation.why_no_controller(self._invocation.session, now) or ""
            self._asked_at = moment
        return self._absence

    def pending_for(self, key: Key, phase: Phase) -> float:
        """Returns the seconds of Pending, 0 in other phases. Prints the hint once, after `HINT_AFTER` seconds."""
        now = asyncio.get_running_loop().time()
        if phase is not Phase.PENDING:
            self._pending_since.pop(key, None)
            return 0.0
        seconds = now - self._pending_since.setdefault(key, now)
        if seconds >= HINT_AFTER and key not in self._hinted and not self._invocation.terminal.on_screen:
            self._hinted.add(key)
            name = f"{key.namespace}/{key.name}" if self._several else key.name
            self._invocation.terminal.warn(
                f"{name} is Pending for {HINT_AFTER:.0f}s: is the controller running?", command("doctor")
            )
        return seconds
