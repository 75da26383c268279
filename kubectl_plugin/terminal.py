"""Where words go: data to stdout, the rest to stderr; and how wide, in which colours and characters."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final, TextIO

from kubectl_plugin.clock import ServerClock
from kubectl_plugin.failures import CommandError, UsageError
from kubectl_plugin.flags import Global, Output, for_cluster
from kubectl_plugin.host import Host

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from controller.api.base import JSONObject

WIDEST = 200
"""Columns beyond which nothing gets wider."""
NARROWEST = 40
LOG_WIDTH = 80
"""Columns where there is no terminal to ask."""
_BIDIRECTIONAL: Final = (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_CONTROLS: Final = {
    code: " " for code in (*range(0x20), *range(0x7F, 0xA0), *_BIDIRECTIONAL) if chr(code) not in "\n\t"
}
"""What a terminal would obey. Texts come from the server too, where anybody may have written them."""


class Terminal:
    """Its streams. `interactive`: a person types at one and reads questions on stderr; stdout may go elsewhere."""

    def __init__(self, flags: Global, host: Host) -> None:
        self._in, self.out, self.err, self._environ = host.stdin, host.out, host.err, host.environ
        self.quiet, self.verbose = flags.quiet, flags.verbose
        self.cluster_flags = flags.of_cluster
        """Also of commands that somebody is told to type."""
        self.clock = ServerClock(host.ticks, host.now())
        self.on_screen = self.out.isatty() and self._environ.get("TERM") != "dumb"
        """Whether stdout is a terminal that can be drawn on."""
        self.interactive = self._in.isatty() and self.err.isatty()
        self.ascii = flags.ascii or not _speaks_utf8(self.out, self._environ)
        self.lost = ""
        """Why something of the result could not be printed, after `outlive_the_reader`."""
        self._outlives = False
        plain = flags.no_color or bool(self._environ.get("NO_COLOR"))
        self.colour = (self.on_screen or "FORCE_COLOR" in self._environ) and not plain

    @property
    def width(self) -> int:
        """In columns: what lines are laid out for, though a narrower window cuts them."""
        return max(NARROWEST, self.columns)

    @property
    def columns(self) -> int:
        """Asked anew each time, because windows are resized."""
        asked = self._environ.get("COLUMNS", "")
        if asked.isdigit() and int(asked):
            columns = int(asked)
        else:
            columns = shutil.get_terminal_size((LOG_WIDTH, 24)).columns if self.out.isatty() else LOG_WIDTH
        return min(columns, WIDEST)

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
            _environ=self._environ,
        )

    def now(self) -> float:
        """Seconds since 1970, by the server; KRUISE_DS_NOW (RFC 3339) stops the clock, for reproducible output."""
        frozen = self._environ.get("KRUISE_DS_NOW")
        if not frozen:
            return self.clock.now()
        try:
            return datetime.fromisoformat(frozen).timestamp()
        except ValueError:
            words = f'invalid KRUISE_DS_NOW "{frozen}": use a time such as 2025-11-20T12:04:10Z'
            raise UsageError(words) from None

    def outlive_the_reader(self) -> None:
        """From now on a result that cannot be printed is no error: what was begun is to be finished first.

        Without it a reader that goes away ends the verb, as `head` should end one that only looks.
        """
        self._outlives = True

    def say(self, *lines: str) -> None:
        """Lines of the result."""
        with self._printing():
            for line in lines:
                print(line.translate(_CONTROLS), file=self.out)

    def say_document(self, document: JSONObject, output: Output) -> None:
        """The whole result, for a program."""
        from kubectl_plugin.printing import as_text  # brings msgspec

        self.say(as_text(document, output, only_ascii=self.ascii))

    def show(self, renderable: RenderableType, *, whole: bool = False) -> None:
        """Something of rich's: a Text, a Group. Lines that do not fit are cut, unless it is to be `whole`."""
        with self._printing():
            if whole:
                self.console.print(renderable, soft_wrap=True)
            else:
                self.console.print(renderable, no_wrap=True, overflow="ellipsis", crop=True)

    def flush(self) -> None:
        """What was printed is now on its way, or it is known why not.

        Raises BrokenPipeError when nobody reads it, and CommandError when there is no room for it; after
        `outlive_the_reader` neither.
        """
        with self._printing():
            self.out.flush()

    def detail(self, *lines: str) -> None:
        """Lines that explain the result; not with -q."""
        if not self.quiet:
            self.say(*map(one_line, lines))

    def warn(self, text: str, *hints: str) -> None:
        self._tell(one_line(f"warning: {text}"), *self._as_lines(hints))

    def note(self, text: str) -> None:
        """Something worth knowing that is no reason to worry."""
        if not self.quiet:
            self._tell(one_line(f"note: {text}"))

    def fail(self, error: CommandError) -> None:
        self._tell(one_line(f"{error.prefix}{error.message}"), *self._as_lines(error.hints))

    def trace(self, line: str) -> None:
        self._tell(line)

    def ask(self, question: str) -> bool:
        """Whether the answer is yes. No is what everything else means, an end of input too.

        Blocks the event loop, and ends at once with Ctrl-C (KeyboardInterrupt).
        """
        try:
            with _interruptible():
                self._tell(f"{question} [y/N] ", end="")
                return self._in.readline().strip().lower() in ("y", "yes")
        except KeyboardInterrupt:
            self._tell("")
            raise

    @property
    def never_asks(self) -> bool:
        """Because somebody said so: then it goes ahead."""
        return self._environ.get("KRUISE_DS_PROMPT") == "never"

    @property
    def may_ask(self) -> bool:
        """KRUISE_DS_PROMPT=never|always decides; else whether somebody is there."""
        wanted = self._environ.get("KRUISE_DS_PROMPT", "")
        return self.interactive if wanted not in ("never", "always") else wanted == "always"

    def _as_lines(self, hints: tuple[str, ...]) -> Iterator[str]:
        return (one_line(f"  hint: {for_cluster(hint, self.cluster_flags)}") for hint in hints)

    def _tell(self, *lines: str, end: str = "\n") -> None:
        """To stderr. Nobody there to read it is no reason to stop."""
        try:
            for line in lines:
                print(line.translate(_CONTROLS), end=end, file=self.err, flush=True)
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
    """What is still in its buffer and what comes is dropped, or the end of the process would fail at it again."""
    try:
        with open(os.devnull, "wb") as sink:
            os.dup2(sink.fileno(), stream.fileno())
    except OSError:  # no file behind it
        return


@contextmanager
def _interruptible() -> Iterator[None]:
    """Here Ctrl-C raises KeyboardInterrupt. asyncio would cancel a task, and the blocked loop would never do it."""
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):  # it is ignored, as under nohup
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def one_line(text: str) -> str:
    """A foreign line break would begin a line that looks like one of ours."""
    return text.replace("\n", " ")


def _speaks_utf8(out: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether the locale, where one is set, and the stream can show more than ASCII."""
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "UTF-8"
    encoding = (out.encoding or "ascii").replace("-", "").lower()
    return "utf8" in locale.replace("-", "").lower() and encoding.startswith("utf")
