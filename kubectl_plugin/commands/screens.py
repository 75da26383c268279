"""What a verb keeps up to date while it waits: redrawn on a terminal, changed lines in a log, documents for a
program."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
from rich.text import Text

from controller.api.objects import JSONObject, Key, as_bytes, rfc3339
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.flags import Output
from kubectl_plugin.render.status import Detail, status_lines
from kubectl_plugin.render.tables import DIM, LiveBlock, clean
from kubectl_plugin.rollout.status import RolloutStatus
from kubectl_plugin.terminal import Terminal, as_line
from kubectl_plugin.wording import short_duration


@dataclass(frozen=True)
class Picture:
    table: Callable[[int | None], Text]
    """Draws the table for a width in columns, or uncut for None. The first line is the header."""
    footer: str
    rows: tuple[tuple[str, Hashable], ...]
    """Per row, its name and the values whose change adds a line to a log."""
    others: Mapping[str, str]
    """States of objects without a row, by name."""
    document: JSONObject


class _InPlace:
    def __init__(self, terminal: Terminal, live: LiveBlock) -> None:
        self._terminal, self._live = terminal, live

    def show(self, picture: Picture, interruption: str) -> None:
        width = self._terminal.width
        footer = Text(picture.footer)
        if interruption:
            footer.append(f"  ({interruption}; retrying)", "yellow")
        self._live.draw((picture.table(width), footer))


class _Notes:
    """Prints each interruption once until it ends, and once per object why its nodes cannot be listed."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal, self._interruption, self._unknown_nodes = terminal, "", set[str]()

    def note_interruption(self, interruption: str) -> None:
        if interruption and interruption != self._interruption:
            self._terminal.note(f"{interruption}; retrying")
        self._interruption = interruption

    def note_unknown_nodes(self, statuses: Sequence[RolloutStatus]) -> None:
        for nodes_unknown in (
            status.nodes_unknown for status in statuses if status.nodes_unknown not in ("", *self._unknown_nodes)
        ):
            self._unknown_nodes.add(nodes_unknown)
            self._terminal.note(nodes_unknown)


class _Rows:
    def __init__(self, terminal: Terminal, *, whole: bool) -> None:
        self._terminal, self._whole = terminal, whole
        self._notes = _Notes(terminal)
        self._shown: dict[str, Hashable] | None = None

    def show(self, picture: Picture, interruption: str) -> None:
        self._notes.note_interruption(interruption)
        header, *lines = picture.table(None if self._whole else self._terminal.width).split("\n")
        rows = dict(picture.rows)
        if self._shown is None:
            self._terminal.show(header, whole=self._whole)
            self._shown = {}
        for name in (name for name in self._shown if name not in rows):
            other = picture.others.get(name)
            self._terminal.say(f"{name}  {'gone' if other is None else f'now {other}'}")
        for line, (name, state) in zip(lines, picture.rows, strict=True):
            if self._shown.get(name) != state:
                self._terminal.show(line, whole=self._whole)
        self._shown = rows
        self._terminal.flush()


class _Documents:
    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._notes = _Notes(terminal)
        self._shown: tuple[tuple[str, Hashable], ...] | None = None

    def show(self, picture: Picture, interruption: str) -> None:
        self._notes.note_interruption(interruption)
        if picture.rows != self._shown:
            self._terminal.say(as_line(as_bytes(picture.document), only_ascii=self._terminal.ascii))
            self._terminal.flush()
        self._shown = picture.rows


TableScreen: TypeAlias = _InPlace | _Rows | _Documents
"""`interruption`: why the state may be out of date."""


def print_table(invocation: Invocation, picture: Picture, names: Iterable[str]) -> None:
    """`names`: what `-o name` prints instead."""
    terminal, whole = invocation.terminal, invocation.output is Output.WIDE
    if not invocation.answers_a_program(names, lambda: picture.document):
        if picture.rows:
            terminal.show(picture.table(None if whole else terminal.width), whole=whole)
        terminal.detail(picture.footer)


@contextmanager
def table_screen(invocation: Invocation) -> Iterator[TableScreen]:
    terminal = invocation.terminal
    if invocation.output is Output.JSON:
        yield _Documents(terminal)
    elif terminal.on_screen and invocation.output is None:
        with LiveBlock(terminal) as live:
            yield _InPlace(terminal, live)
    else:
        yield _Rows(terminal, whole=invocation.output is Output.WIDE)


HEARTBEAT: Final = 30.0
"""Seconds without output before a log gets a line: some CI systems end a silent job."""


class MilestoneLines:
    """Prints a line per milestone, and after `HEARTBEAT` one that nothing has changed."""

    def __init__(self, invocation: Invocation, *, several: bool) -> None:
        self._terminal, self._several = invocation.terminal, several
        self._shown: dict[str, tuple[str, float, float]] = {}
        """By name of the object: last milestone, when it was reached, and when a line was last printed."""
        self._notes = _Notes(self._terminal)

    def show(self, statuses: Sequence[RolloutStatus], interruption: str, *, final: bool) -> None:
        self._notes.note_interruption(interruption)
        self._notes.note_unknown_nodes(statuses)
        for status in statuses:
            self._print(status)

    def _print(self, status: RolloutStatus) -> None:
        now, daemonset, moment = status.snapshot.now, status.daemonset, asyncio.get_running_loop().time()
        name = f"{daemonset.namespace}/{daemonset.name}" if self._several else daemonset.name
        reached = status.milestone
        before, since, last = self._shown.get(name, ("", moment, moment))
        if reached != before:
            self._say(now, f"{name} {status.line}")
            self._shown[name] = (reached, moment, moment)
        elif moment - last >= HEARTBEAT:
            words = ": ".join(filter(None, (status.progress, status.why)))
            self._say(now, f"{name} {words} (no change for {short_duration(moment - since)})")
            self._shown[name] = (before, since, moment)

    def _say(self, now: float, line: str) -> None:
        self._terminal.detail(f"{time_of_day(now)} {line}")
        self._terminal.flush()


class StatusDocuments:
    """Prints a JSON line per change, and at least every `HEARTBEAT` seconds."""

    def __init__(self, invocation: Invocation) -> None:
        self._terminal = invocation.terminal
        self._notes = _Notes(self._terminal)
        self._shown: dict[Key, tuple[bytes, float]] = {}

    def show(self, statuses: Sequence[RolloutStatus], interruption: str, *, final: bool) -> None:
        self._notes.note_interruption(interruption)
        self._notes.note_unknown_nodes(statuses)
        for status in statuses:
            now, key = asyncio.get_running_loop().time(), status.daemonset.key
            line = msgspec.json.encode(status.document)
            before, last = self._shown.get(key, (b"", now))
            if line != before or now - last >= HEARTBEAT:
                self._terminal.say(as_line(line, only_ascii=self._terminal.ascii))
                self._terminal.flush()
                self._shown[key] = (line, now)


class LiveScreen:
    def __init__(self, invocation: Invocation, live: LiveBlock) -> None:
        self._invocation, self._live = invocation, live

    def show(self, statuses: Sequence[RolloutStatus], interruption: str, *, final: bool) -> None:
        """The last block is printed whole and may scroll."""
        lines, terminal = self._lines(statuses, Detail.ALL), self._invocation.terminal
        if not final:
            header = Text(f"{time_of_day(terminal.now())}  watching, Ctrl-C to stop", DIM)
            if interruption:
                header.append(f"  ({interruption}; retrying)", "yellow")
            shapes = (self._lines(statuses, detail) for detail in sorted(Detail, reverse=True))
            room = terminal.console.height - 3
            lines = [header, *next((shape for shape in shapes if len(shape) <= room), lines)]
        self._live.draw(lines)

    def _lines(self, statuses: Sequence[RolloutStatus], detail: Detail) -> list[Text]:
        terminal, wide = self._invocation.terminal, self._invocation.output is Output.WIDE
        lines: list[Text] = []
        for index, status in enumerate(statuses):
            lines += [Text("")] if index and detail is not Detail.HEADLINE else []
            lines += status_lines(status, terminal, wide=wide, detail=detail)
            if status.nodes_unknown and detail is not Detail.HEADLINE:
                lines.append(clean(status.nodes_unknown, terminal.ascii))
        return lines


Screen: TypeAlias = MilestoneLines | StatusDocuments | LiveScreen
"""`interruption`: why the state may be out of date. `final`: this is the last call."""


@contextmanager
def status_screen(invocation: Invocation, *, plain: bool, several: bool) -> Iterator[Screen]:
    """`several`: names are printed with their namespaces."""
    terminal = invocation.terminal
    if invocation.output is Output.JSON:
        yield StatusDocuments(invocation)
    elif plain or terminal.quiet or not terminal.on_screen:
        yield MilestoneLines(invocation, several=several)
    else:
        with LiveBlock(terminal) as live:
            yield LiveScreen(invocation, live)


def time_of_day(now: float) -> str:
    """UTC, such as `12:04:10Z`. `now`: seconds since 1970."""
    return rfc3339(now)[11:]
