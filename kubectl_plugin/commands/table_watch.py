"""Tables, printed once or kept up to date: redrawn on a terminal, changed rows in a log, documents for a program."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from rich.text import Text

from controller.api.objects import JSONObject, as_bytes
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.flags import Output
from kubectl_plugin.printing import as_line
from kubectl_plugin.render.tables import LiveBlock
from kubectl_plugin.terminal import Terminal


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


class Interruptions:
    """Prints each interruption once, to stderr."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal, self._said = terminal, ""

    def tell_once(self, interruption: str) -> None:
        if interruption and interruption != self._said:
            self._terminal.note(f"{interruption}; retrying")
        self._said = interruption


class _Rows:
    def __init__(self, terminal: Terminal, *, whole: bool) -> None:
        self._terminal, self._whole = terminal, whole
        self._interruptions = Interruptions(terminal)
        self._said: dict[str, Hashable] | None = None

    def show(self, picture: Picture, interruption: str) -> None:
        self._interruptions.tell_once(interruption)
        header, *lines = picture.table(None if self._whole else self._terminal.width).split("\n")
        rows = dict(picture.rows)
        if self._said is None:
            self._terminal.show(header, whole=self._whole)
            self._said = {}
        for name in (name for name in self._said if name not in rows):
            other = picture.others.get(name)
            self._terminal.say(f"{name}  {'gone' if other is None else f'now {other}'}")
        for line, (name, state) in zip(lines, picture.rows, strict=True):
            if self._said.get(name) != state:
                self._terminal.show(line, whole=self._whole)
        self._said = rows
        self._terminal.flush()


class _Documents:
    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._interruptions = Interruptions(terminal)
        self._said: tuple[tuple[str, Hashable], ...] | None = None

    def show(self, picture: Picture, interruption: str) -> None:
        self._interruptions.tell_once(interruption)
        if picture.rows != self._said:
            self._terminal.say(as_line(as_bytes(picture.document), only_ascii=self._terminal.ascii))
            self._terminal.flush()
        self._said = picture.rows


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
