"""`list`: Advanced DaemonSets, one line each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NoReturn

import msgspec
from msgspec.structs import replace

from controller.api.daemonset import Phase
from controller.api.formats import counted
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.documents import for_each, unless_forbidden
from kubectl_plugin.cluster.reads import VERSIONS
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.cluster.watches import ReadAgain, State, WatchedObjects, WatchSet
from kubectl_plugin.commands.screens import Picture, print_table, table_screen
from kubectl_plugin.errors import ExitCode, UsageError
from kubectl_plugin.flags import Output, SelectorOptions
from kubectl_plugin.options import ListOptions
from kubectl_plugin.render.listings import overview
from kubectl_plugin.rollout.document import OverviewLine, document
from kubectl_plugin.rollout.reasons import failure_words
from kubectl_plugin.rollout.snapshot import Snapshot, Unread
from kubectl_plugin.rollout.status import RolloutStatus
from kubectl_plugin.rollout.survey import UnreadableSpecError, phase_in, record_of, survey, survey_of_status
from kubectl_plugin.wording import printed_name

UNSETTLED: Final = (Phase.PROGRESSING, Phase.STALLED, Phase.DEGRADED)
"""Phases in which the pods may say more than the status."""
EVERY: Final = 2.0
"""Seconds with -w between redraws, and between reads while a DaemonSet changes or is in an unsettled phase: its
pods may be too many to watch."""
QUIET: Final = 30.0
"""Seconds with -w between reads while no DaemonSet changes and none is in an unsettled phase."""

_WORD: Final = re.compile(r"\B(?=[A-Z])")


@dataclass(frozen=True)
class _Found:
    lines: tuple[OverviewLine, ...]
    wanted: frozenset[str]
    unreadable: frozenset[str]
    """Forbidden reads, in words."""

    @property
    def shown(self) -> tuple[OverviewLine, ...]:
        return tuple(line for line in self.lines if line.phase in self.wanted)


async def list_(invocation: Invocation, options: ListOptions) -> ExitCode:
    """Reads pods only in UNSETTLED phases, where the status does not say why. Raises UsageError for `watch` with -o
    yaml or name, and ApiError."""
    wanted = phases_named(options.phases)
    if options.watch and invocation.output in (Output.YAML, Output.NAME):
        raise UsageError(f"-w has no output format {invocation.output}: use json or wide")
    found = await _look(invocation, options, wanted)
    invocation.note_unread(sorted(found.unreadable))
    if options.watch:
        await _watch(invocation, options, found)
    _print(invocation, options, found)
    return ExitCode.DONE


async def _watch(invocation: Invocation, options: SelectorOptions, found: _Found) -> NoReturn:
    """Retries failed reads and watches with backoff. Polls if watching is forbidden. Raises ApiError."""
    table = _Table(invocation, options, found)
    with table_screen(invocation) as screen:
        async with table.keeping(table.looking, table.changes):
            while True:
                screen.show(_picture(invocation, options, table.found), table.interruption)
                await table.changed(EVERY)


class _Table(WatchSet):
    """Reads the DaemonSets again when a watch reports a new version."""

    def __init__(self, invocation: Invocation, options: SelectorOptions, found: _Found) -> None:
        super().__init__()
        self._invocation, self._options = invocation, options
        self.looking = ReadAgain(
            self._look, every=EVERY, bunch=EVERY, state=State.CURRENT
        )  # `found` is of this moment
        chosen = reads.selection_of(invocation, options)
        self.changes = WatchedObjects(invocation.session.client, VERSIONS, *chosen, self.looking.mark_stale)
        self._see(found)

    async def _look(self) -> None:
        self._see(await _look(self._invocation, self._options, self.found.wanted))
        self._news.set()

    def _see(self, found: _Found) -> None:
        self.found = found
        self.looking.every = EVERY if any(line.phase in UNSETTLED for line in found.lines) else QUIET


async def _look(invocation: Invocation, options: SelectorOptions, wanted: frozenset[str]) -> _Found:
    found = await reads.snapshots(invocation, (), options, reads.REVISIONS_ONLY)
    whole = await for_each(found, lambda one: _with_pods(invocation, one))
    return _Found(
        lines=tuple(_line(one) for one in whole),
        wanted=wanted,
        unreadable=frozenset(missing for one in whole for missing in one.unread_words),
    )


async def _with_pods(invocation: Invocation, snapshot: Snapshot) -> Snapshot:
    """Adds the pods in UNSETTLED phases, unless listing them is forbidden."""
    if phase_in(record_of(snapshot.daemonset)) not in UNSETTLED:
        return snapshot
    pods = await unless_forbidden(reads.pods_of(invocation, snapshot.daemonset))
    if pods is None:
        return replace(snapshot, unread=(*snapshot.unread, Unread(what="pods")))
    return replace(snapshot, pods=pods)


def _line(snapshot: Snapshot) -> OverviewLine:
    """The counts of the status, which knows the nodes, and why from the pods where they were read."""
    line = RolloutStatus(survey=survey_of_status(snapshot)).overview
    if not snapshot.pods:
        return line
    with suppress(UnreadableSpecError):
        return replace(line, why=failure_words(survey(snapshot)))
    return line


def _picture(invocation: Invocation, options: SelectorOptions, found: _Found) -> Picture:
    terminal, now, lines = invocation.terminal, invocation.terminal.now(), found.shown
    return Picture(
        table=lambda width: overview(
            lines, now=now, width=width, only_ascii=terminal.ascii, namespaces=options.all_namespaces
        ),
        footer=tally(lines),
        rows=tuple((_named(line, options), line) for line in lines),
        others={_named(line, options): line.phase for line in found.lines},
        document=document("RolloutList", items=[msgspec.to_builtins(line) for line in lines]),
    )


def _named(line: OverviewLine, options: SelectorOptions) -> str:
    return f"{line.namespace}/{line.name}" if options.all_namespaces else line.name


def _print(invocation: Invocation, options: SelectorOptions, found: _Found) -> None:
    lines = found.shown
    if lines or invocation.output not in (None, Output.WIDE):
        names = (printed_name(line.name) for line in lines)
        print_table(invocation, _picture(invocation, options, found), names)
    else:
        where = "" if options.all_namespaces else f" in {invocation.session.namespace} namespace"
        invocation.terminal.note(f"No resources found{where}.")


def tally(lines: Sequence[OverviewLine]) -> str:
    """Such as `3 objects: 1 progressing, 1 held, 1 healthy`, worst phase first."""
    phases = Counter(line.phase for line in lines)
    order = (Phase.ABORTED, Phase.STALLED, Phase.DEGRADED, Phase.PROGRESSING, Phase.SOAKING, Phase.PENDING)
    waiting = (Phase.TERMINATING, Phase.AWAITING_APPROVAL, Phase.PAUSED, Phase.MANUAL, Phase.HELD, Phase.HEALTHY)
    parts = [f"{phases[phase]} {_WORD.sub(' ', phase).lower()}" for phase in (*order, *waiting) if phases[phase]]
    return f"{counted(len(lines), 'object')}: {', '.join(parts)}"


def phases_named(texts: Iterable[str]) -> frozenset[Phase]:
    """Accepts any case and commas; no names mean all phases. Raises UsageError for an unknown name."""
    known = {phase.lower(): phase for phase in Phase}
    wanted = [word for text in texts for word in text.lower().split(",") if word]
    for word in wanted:
        if word not in known:
            raise UsageError(f'invalid --phase "{word}": use {", ".join(Phase)}')
    return frozenset(known[word] for word in wanted) or frozenset(Phase)
