"""The terminal: data goes to stdout, everything else to stderr; how wide lines are, which colours and characters they
use.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from kubectl_plugin.errors import CommandError, UsageError
from kubectl_plugin.flags import GlobalFlags, Output
from kubectl_plugin.host import Host
from kubectl_plugin.units import ServerClock
from kubectl_plugin.wording import for_cluster, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from controller.api.objects import JSONObject

WIDEST = 200
"""Columns: wider terminals are not used to the full."""
NARROWEST = 40
LOG_WIDTH = 80
"""Columns where stdout is no terminal."""


class Terminal:
    """The terminal of one call. `interactive`: a person types at stdin and reads questions on stderr; stdout may be a
    file."""

    def __init__(self, flags: GlobalFlags, host: Host) -> None:
        self._in, self.out, self.err, self._environ = host.stdin, host.out, host.err, host.environ
        self._ticks = host.ticks
        self.answered = -math.inf
        """When the last question was answered, on the event loop's clock, which is `host.ticks`."""
        self.quiet, self.verbose = flags.quiet, flags.verbose
        self.cluster_flags = flags.of_cluster
        """Also added to commands that a hint tells a person to type."""
        self.clock = ServerClock(host.ticks, host.now())
        self.on_screen = self.out.isatty() and self._environ.get("TERM") != "dumb"
        """Whether stdout is a terminal on which lines can be redrawn."""
        self.interactive = self._in.isatty() and self.err.isatty()
        self.ascii = flags.ascii or not _speaks_utf8(self.out, self._environ)
        self.lost = ""
        """Why a part of the result could not be printed; set only after `outlive_the_reader`. Empty: nothing is
        missing."""
        self._outlives = False
        plain = flags.no_color or bool(self._environ.get("NO_COLOR"))
        self.colour = (self.on_screen or "FORCE_COLOR" in self._environ) and not plain

    def check_environment(self) -> None:
        """Raises UsageError for a COLUMNS that is no number."""
        if (asked := self._environ.get("COLUMNS")) and not _is_number(asked):
            raise UsageError(f'invalid COLUMNS "{asked}": use a number such as 120')

    @property
    def width(self) -> int:
        """Columns that lines are laid out for; at least `NARROWEST`, and a narrower window cuts the lines."""
        return max(NARROWEST, self.columns)

    @property
    def columns(self) -> int:
        """Columns of the terminal, asked each time because windows are resized."""
        asked = self._environ.get("COLUMNS", "")
        columns = int(asked) if _is_number(asked) else 0
        if not columns:
            columns = shutil.get_terminal_size((LOG_WIDTH, 24)).columns if self.out.isatty() else LOG_WIDTH
        return min(columns, WIDEST)

    @cached_property
    def console(self) -> Console:
        """rich's view of stdout: no markup, no highlighting, no wrapping unless a renderable asks for it."""
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
            _environ={name: value for name, value in self._environ.items() if name not in ("COLUMNS", "LINES")},
        )

    def now(self) -> float:
        """Seconds since 1970, by the server's clock. KRUISE_DS_NOW (RFC 3339) stops it, for reproducible output.

        Raises UsageError where that variable is no time.
        """
        frozen = self._environ.get("KRUISE_DS_NOW")
        if not frozen:
            return self.clock.now()
        try:
            return datetime.fromisoformat(frozen).timestamp()
        except ValueError:
            words = f'invalid KRUISE_DS_NOW "{frozen}": use a time such as 2025-11-20T12:04:10Z'
            raise UsageError(words) from None

    def outlive_the_reader(self) -> None:
        """From now on a failure to print is no error, because a change that has begun must be finished first.

        Before this call a reader that goes away ends the verb, as `head` should end one that only reads.
        """
        self._outlives = True

    def say(self, *lines: str) -> None:
        """Print lines of the result."""
        with self._printing():
            for line in lines:
                print(visible(line), file=self.out)

    def say_document(self, document: JSONObject, output: Output) -> None:
        """Print the whole result for a program."""
        from kubectl_plugin.printing import as_text  # it imports msgspec

        self.say(as_text(document, output, only_ascii=self.ascii))

    def show(self, renderable: RenderableType, *, whole: bool = False) -> None:
        """Print something of rich's, such as a Text. Lines that do not fit are cut, unless `whole`."""
        with self._printing():
            if whole:
                self.console.print(renderable, soft_wrap=True)
            else:
                self.console.print(renderable, no_wrap=True, overflow="ellipsis", crop=True)

    def flush(self) -> None:
        """Hand over what was printed so far.

        Raises BrokenPipeError when nobody reads it any more, and CommandError when it cannot be written, such as to a
        full disk; after `outlive_the_reader` neither.
        """
        with self._printing():
            self.out.flush()

    def detail(self, *lines: str) -> None:
        """Print lines that explain the result; not with -q."""
        if not self.quiet:
            self.say(*map(one_line, lines))

    def warn(self, text: str, *hints: str) -> None:
        self._print_to_stderr(one_line(f"warning: {text}"), *self._as_lines(hints))

    def warn_for_server(self, text: str) -> None:
        """Print a warning of the API server, as kubectl does."""
        self._print_to_stderr(one_line(f"Warning: {text}"))

    def note(self, text: str) -> None:
        """Print to stderr what is worth knowing but no reason to worry; not with -q."""
        if not self.quiet:
            self._print_to_stderr(one_line(f"note: {text}"))

    def fail(self, error: CommandError) -> None:
        self._print_to_stderr(one_line(f"{error.prefix}{error.message}"), *self._as_lines(error.hints))

    def trace(self, line: str) -> None:
        self._print_to_stderr(line)

    def ask(self, question: str) -> bool:
        """Whether a person answers yes; anything else, the end of the input included, is a no.

        Blocks the event loop. Ctrl-C ends it at once with KeyboardInterrupt.
        """
        try:
            with interruptible():
                self._print_to_stderr(f"{question} [y/N] ", end="")
                answer = self._in.readline()
            self.answered = self._ticks()
            return answer.strip().lower() in ("y", "yes")
        except KeyboardInterrupt:
            self._print_to_stderr("")
            raise

    @property
    def never_asks(self) -> bool:
        """Whether KRUISE_DS_PROMPT=never: changes are then made without a question."""
        return self._environ.get("KRUISE_DS_PROMPT") == "never"

    @property
    def may_ask(self) -> bool:
        """Whether a question may be asked: KRUISE_DS_PROMPT=never|always decides, else whether a person is at the
        terminal."""
        wanted = self._environ.get("KRUISE_DS_PROMPT", "")
        return self.interactive if wanted not in ("never", "always") else wanted == "always"

    def _as_lines(self, hints: tuple[str, ...]) -> Iterator[str]:
        return (one_line(f"  hint: {for_cluster(hint, self.cluster_flags)}") for hint in hints)

    def _print_to_stderr(self, *lines: str, end: str = "\n") -> None:
        """Print to stderr. That nobody reads it is no reason to stop."""
        try:
            for line in lines:
                print(visible(line), end=end, file=self.err, flush=True)
        except OSError:
            _lead_nowhere(self.err)

    @contextmanager
    def _printing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            _lead_nowhere(self.out)
            gone = isinstance(error, BrokenPipeError)
            reason = error.strerror or str(error)
            if not self._outlives and gone:
                raise
            if not self._outlives:
                raise CommandError(f"it could not be printed: {reason}") from error
            self.lost = self.lost or ("" if gone else reason)


def _lead_nowhere(stream: TextIO) -> None:
    """Drop what is in the stream's buffer and what is printed later; the end of the process would fail to flush it
    again."""
    try:
        with open(os.devnull, "wb") as sink:
            os.dup2(sink.fileno(), stream.fileno())
    except OSError:  # it is not backed by a file
        return


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside, Ctrl-C raises KeyboardInterrupt. asyncio would cancel a task, which a blocked loop never ends."""
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):  # ignored, as under nohup
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def one_line(text: str) -> str:
    """`text` without line breaks: a foreign one would begin a line that looks like one of ours."""
    return text.replace("\n", " ")


def _speaks_utf8(out: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether the stream, and the locale if one is set, can show more than ASCII."""
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "UTF-8"
    encoding = (out.encoding or "ascii").replace("-", "").lower()
    return "utf8" in locale.replace("-", "").lower() and encoding.startswith("utf")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
