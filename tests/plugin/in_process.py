"""The program itself, run inside a test, on a host of the test's choice."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any, Final, TextIO

from kubectl_plugin.flags import GlobalFlags
from kubectl_plugin.host import Host
from kubectl_plugin.runner import Entry, Runner

OURS: Final = frozenset({"FORCE_COLOR", "NO_COLOR", "KRUISE_DS_NOW", "KRUISE_DS_PROMPT"})
"""Variables of the environment that must not come from the user who runs the tests."""


class Typed(Runner):
    """What verbs were called with; none runs."""

    def __init__(self) -> None:
        super().__init__(Host())
        self.asked: list[tuple[GlobalFlags, Any]] = []

    def run(self, flags: GlobalFlags, _: Entry, asked: Any) -> None:
        self.asked.append((flags, asked))


@dataclass(frozen=True)
class Ran:
    """How a verb ended, and what it wrote."""

    code: int
    out: str
    err: str


def surroundings(**more: str) -> dict[str, str]:
    """The environment of the tests with `more`."""
    return {name: value for name, value in os.environ.items() if name not in OURS} | more


def call(
    words: list[str],
    *,
    terminal: bool = False,
    typed: str | Callable[[], str] = "",
    elsewhere: Collection[str] = (),
    environ: Mapping[str, str] | None = None,
    out: TextIO | None = None,
    host: Callable[..., Host] = Host,
) -> Ran:
    """`kubectl kruise-ds WORDS`; on a `terminal` a person types `typed`, or what it returns for a line. Of `stdin`,
    `stdout` and `stderr` those that lead `elsewhere` are no terminals. `out`: stdout itself, of which nothing is read
    then. `host` is made with the environment and the streams.
    """
    from kubectl_plugin.main import app
    from kubectl_plugin.runner import Runner
    from kubectl_plugin.wording import COMMAND

    names = ("stdin", "stdout", "stderr")
    given, read, err = (Stream(terminal=terminal and name not in elsewhere, typed=typed) for name in names)
    given.write("" if callable(typed) else typed)
    given.seek(0)
    here = host(surroundings() if environ is None else environ, stdin=given, out=out or read, err=err)
    code = 0
    with redirect_stdout(out or read), redirect_stderr(err):  # where typer writes help and wrong usage
        try:
            app(words, prog_name=COMMAND, obj=Runner(here))
        except SystemExit as end:
            code = int(end.code or 0)
    return Ran(code, read.text(), err.text())


class Stream(io.TextIOWrapper):
    def __init__(self, *, terminal: bool, typed: str | Callable[[], str] = "") -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="\n", write_through=True)
        self._terminal, self._typed = terminal, typed

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]  # as in typeshed: text, not bytes
        return self._typed() if callable(self._typed) else super().readline(size)

    def isatty(self) -> bool:
        return self._terminal

    def text(self) -> str:
        self.seek(0)
        return self.read()
