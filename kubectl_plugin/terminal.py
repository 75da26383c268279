"""Where words go: data to stdout, the rest to stderr; and how wide, in which colours and characters."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.flags import Global

if TYPE_CHECKING:
    from rich.console import Console

WIDEST = 200
"""Columns beyond which nothing gets wider."""
NARROWEST = 40
LOG_WIDTH = 80
"""Columns where there is no terminal to ask."""


class Terminal:
    """One pair of streams. `interactive`: a person sits at both ends and can be asked."""

    def __init__(
        self,
        flags: Global,
        *,
        stdin: TextIO | None = None,
        out: TextIO | None = None,
        err: TextIO | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """The streams are the process's own unless given."""
        self._in, self.out, self.err = stdin or sys.stdin, out or sys.stdout, err or sys.stderr
        self.environ = environ
        self.quiet, self.verbose = flags.quiet, flags.verbose
        self.on_screen = self.out.isatty() and environ.get("TERM") != "dumb"
        """Whether stdout is a terminal that can be drawn on."""
        self.interactive = self._in.isatty() and self.out.isatty()
        self.ascii = flags.ascii or not _speaks_utf8(self.out, environ)
        self.colour = (self.on_screen or "FORCE_COLOR" in environ) and not (flags.no_color or environ.get("NO_COLOR"))

    @property
    def width(self) -> int:
        """In columns; asked anew each time, because windows are resized."""
        asked = self.environ.get("COLUMNS", "")
        if asked.isdigit() and int(asked):
            columns = int(asked)
        else:
            columns = shutil.get_terminal_size((LOG_WIDTH, 24)).columns if self.out.isatty() else LOG_WIDTH
        return max(NARROWEST, min(columns, WIDEST))

    @cached_property
    def console(self) -> Console:
        """rich's view of stdout: no markup, no highlighting, nothing wraps unless a renderable asks for it."""
        from rich.console import Console

        return Console(
            file=self.out,
            width=self.width,
            force_terminal=self.on_screen,
            color_system="standard" if self.colour else None,
            no_color=not self.colour,
            markup=False,
            highlight=False,
            emoji=False,
            legacy_windows=False,
        )

    def now(self) -> float:
        """Seconds since 1970; KRUISE_DS_NOW (RFC 3339) stops the clock, for reproducible output."""
        frozen = self.environ.get("KRUISE_DS_NOW")
        if not frozen:
            return time.time()
        try:
            return datetime.fromisoformat(frozen).timestamp()
        except ValueError:
            words = f'invalid KRUISE_DS_NOW "{frozen}": use a time such as 2025-11-20T12:04:10Z'
            raise CommandError(words, exit_code=ExitCode.USAGE) from None

    def say(self, *lines: str) -> None:
        """Lines of the result."""
        for line in lines:
            print(line, file=self.out)

    def show(self, renderable: Any, *, whole: bool = False) -> None:
        """Something of rich's: a Text, a Group. Lines that do not fit are cut, unless it is to be `whole`."""
        if whole:
            self.console.print(renderable, soft_wrap=True)
        else:
            self.console.print(renderable, no_wrap=True, overflow="ellipsis", crop=True)

    def detail(self, *lines: str) -> None:
        """Lines that explain the result; not with -q."""
        if not self.quiet:
            self.say(*lines)

    def warn(self, text: str, *hints: str) -> None:
        print(f"warning: {text}", file=self.err)
        self._hint(hints)

    def note(self, text: str) -> None:
        """Something worth knowing that is no reason to worry."""
        if not self.quiet:
            print(f"note: {text}", file=self.err)

    def fail(self, error: CommandError) -> None:
        print(f"{error.prefix}{error.message}", file=self.err)
        self._hint(error.hints)

    def trace(self, line: str) -> None:
        print(line, file=self.err)

    def ask(self, question: str) -> bool:
        """Whether the answer is yes. No is what everything else means, an end of input too."""
        print(f"{question} [y/N] ", end="", file=self.err, flush=True)
        return self._in.readline().strip().lower() in ("y", "yes")

    @property
    def may_ask(self) -> bool:
        """KRUISE_DS_PROMPT=never|always decides; else whether somebody is there."""
        wanted = self.environ.get("KRUISE_DS_PROMPT", "")
        return self.interactive if wanted not in ("never", "always") else wanted == "always"

    def _hint(self, hints: tuple[str, ...]) -> None:
        for hint in hints:
            print(f"  hint: {hint}", file=self.err)


def _speaks_utf8(out: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether the locale, where one is set, and the stream can show more than ASCII."""
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "UTF-8"
    encoding = (out.encoding or "ascii").replace("-", "").lower()
    return "utf8" in locale.replace("-", "").lower() and encoding.startswith("utf")
