"""The three screens of `status -w`: a block that is redrawn, lines for a log, documents for a program."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final, TypeAlias

import msgspec
from rich.text import Text

from controller.api.objects import rfc3339
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.durations import short_duration
from kubectl_plugin.flags import Output
from kubectl_plugin.paint.live import LiveBlock
from kubectl_plugin.paint.status_block import Detail
from kubectl_plugin.paint.style import DIM
from kubectl_plugin.paint.table import clean
from kubectl_plugin.printing import as_line
from kubectl_plugin.terminal import Terminal
from kubectl_plugin.verbs.status_look import Look, painted_lines
from kubectl_plugin.verbs.table_watch import Interruptions

HEARTBEAT: Final = 30.0
"""Seconds without output after which a log gets a line all the same: some CI systems end a silent job."""


class _Obstacles:
    """Prints once for each object why its nodes cannot be listed."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal, self._said = terminal, set[str]()

    def tell_once(self, looks: Sequence[Look]) -> None:
        for look in looks:
            if look.blocker and look.blocker not in self._said:
                self._said.add(look.blocker)
                self._terminal.note(look.blocker)


class MilestoneLines:
    """One line for each milestone, and after `HEARTBEAT` a line that nothing has changed."""

    def __init__(self, invocation: Invocation, *, several: bool) -> None:
        self._terminal, self._several = invocation.terminal, several
        self._said: dict[str, tuple[str, float, float]] = {}
        """By name of the object: its last milestone, when that was reached, and when a line was last printed."""
        self._interruptions = Interruptions(self._terminal)
        self._obstacles = _Obstacles(self._terminal)

    def show(self, looks: Sequence[Look], interruption: str, *, final: bool) -> None:
        self._interruptions.tell_once(interruption)
        self._obstacles.tell_once(looks)
        for look in looks:
            self._tell(look)

    def _tell(self, look: Look) -> None:
        now, status, moment = look.brief.snapshot.now, look.status, asyncio.get_running_loop().time()
        name = f"{status.namespace}/{status.name}" if self._several else status.name
        reached = look.brief.milestone
        before, since, last = self._said.get(name, ("", moment, moment))
        if reached != before:
            self._say(now, f"{name} {look.brief.line}")
            self._said[name] = (reached, moment, moment)
        elif moment - last >= HEARTBEAT:
            told = ": ".join(filter(None, (look.brief.progress, look.brief.why)))
            self._say(now, f"{name} {told} (no change for {short_duration(moment - since)})")
            self._said[name] = (before, since, moment)

    def _say(self, now: float, line: str) -> None:
        self._terminal.detail(f"{time_of_day(now)} {line}")
        self._terminal.flush()


class StatusDocuments:
    """One JSON object per line whenever something has changed, and at least every `HEARTBEAT` seconds."""

    def __init__(self, invocation: Invocation) -> None:
        self._terminal = invocation.terminal
        self._obstacles = _Obstacles(self._terminal)
        self._said: dict[tuple[str, str], tuple[bytes, float]] = {}

    def show(self, looks: Sequence[Look], interruption: str, *, final: bool) -> None:
        self._obstacles.tell_once(looks)
        for look in looks:
            now, key = asyncio.get_running_loop().time(), (look.status.namespace, look.status.name)
            line = msgspec.json.encode(look.status)
            before, last = self._said.get(key, (b"", now))
            if line != before or now - last >= HEARTBEAT:
                self._terminal.say(as_line(line, only_ascii=self._terminal.ascii))
                self._terminal.flush()
                self._said[key] = (line, now)


class LiveScreen:
    """One block below the other, redrawn in place."""

    def __init__(self, invocation: Invocation, scope: ExitStack) -> None:
        self._invocation = invocation
        self._live = scope.enter_context(LiveBlock(invocation.terminal))

    def show(self, looks: Sequence[Look], interruption: str, *, final: bool) -> None:
        """The last block is printed whole, however long: it may scroll."""
        lines, terminal = self._lines(looks, Detail.ALL), self._invocation.terminal
        if not final:
            header = Text(f"{time_of_day(terminal.now())}  watching, Ctrl-C to stop", DIM)
            if interruption:
                header.append(f"  ({interruption}; retrying)", "yellow")
            shapes = (self._lines(looks, detail) for detail in sorted(Detail, reverse=True))
            room = terminal.console.height - 3
            lines = [header, *next((shape for shape in shapes if len(shape) <= room), lines)]
        self._live.draw(lines)

    def _lines(self, looks: Sequence[Look], detail: Detail) -> list[Text]:
        lines: list[Text] = []
        for index, look in enumerate(looks):
            lines += [Text("")] if index and detail is not Detail.HEADLINE else []
            lines += painted_lines(self._invocation, look, detail)
            if look.blocker and detail is not Detail.HEADLINE:
                lines.append(clean(look.blocker, self._invocation.terminal.ascii))
        return lines


Screen: TypeAlias = MilestoneLines | StatusDocuments | LiveScreen
"""`show` shows the present state. `interruption`: why it may be out of date. `final`: it is the last call."""


def status_screen(invocation: Invocation, *, plain: bool, several: bool, scope: ExitStack) -> Screen:
    """The screen that suits stdout; `scope` closes it. `several`: names are printed with their namespaces."""
    terminal = invocation.terminal
    if invocation.output is Output.JSON:
        return StatusDocuments(invocation)
    if plain or terminal.quiet or not terminal.on_screen:
        return MilestoneLines(invocation, several=several)
    return LiveScreen(invocation, scope)


def time_of_day(now: float) -> str:
    """The time of day in UTC, such as `12:04:10Z`. `now`: seconds since 1970."""
    return rfc3339(now)[11:]
