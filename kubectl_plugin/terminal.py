"""The terminal: results on stdout, everything else on stderr; line width, colours and characters."""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from kubectl_plugin.errors import CommandError, UsageError
from kubectl_plugin.flags import GlobalFlags, Output
from kubectl_plugin.host import Host, ServerClock
from kubectl_plugin.wording import INVISIBLE, for_cluster, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from controller.api.objects import JSONObject

WIDEST = 200
"""Maximum columns used, however wide the terminal."""
NARROWEST = 40
LOG_WIDTH = 80
"""Columns where stdout is not a terminal."""
_BEYOND_ASCII = re.compile(r"[^\x00-\x7e]")


class Terminal:
    """The terminal of one call. `interactive` means that stdin and stderr are terminals; stdout may be a file."""

    def __init__(self, flags: GlobalFlags, host: Host) -> None:
        self._in, self.out, self.err, self._environ = host.stdin, host.out, host.err, host.environ
        self._ticks = host.ticks
        self.answered = -math.inf
        """When the last prompt was answered, in `host.ticks` seconds."""
        self.quiet, self.verbose = flags.quiet, flags.verbose
        self.cluster_flags = flags.of_cluster
        """Added to commands in hints."""
        self.clock = ServerClock(host.ticks, host.now())
        self.on_screen = self.out.isatty() and self._environ.get("TERM") != "dumb"
        self.interactive = self._in.isatty() and self.err.isatty()
        self.ascii = flags.ascii or not _speaks_utf8(self.out, self._environ)
        self.lost = ""
        """Why part of the result could not be printed, once `ignore_broken_pipe` was called; else empty."""
        self._outlives = False
        plain = flags.no_color or bool(self._environ.get("NO_COLOR"))
        self.colour = (self.on_screen or "FORCE_COLOR" in self._environ) and not plain

    def check_environment(self) -> None:
        if (asked := self._environ.get("COLUMNS")) and not _is_number(asked):
            raise UsageError(f'invalid COLUMNS "{asked}": use a number such as 120')

    @property
    def width(self) -> int:
        """Columns of the layout, at least `NARROWEST`; a narrower window cuts the lines."""
        return max(NARROWEST, self.columns)

    @property
    def columns(self) -> int:
        """Columns of the terminal, read each time because windows are resized."""
        asked = self._environ.get("COLUMNS", "")
        columns = int(asked) if _is_number(asked) else 0
        if not columns:
            columns = shutil.get_terminal_size((LOG_WIDTH, 24)).columns if self.out.isatty() else LOG_WIDTH
        return min(columns, WIDEST)

    @cached_property
    def console(self) -> Console:
        """rich's stdout, without markup and highlighting; wraps only where a renderable requests it."""
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
        """Seconds since 1970 by the server's clock; KRUISE_DS_NOW (RFC 3339) freezes it. Raises UsageError."""
        frozen = self._environ.get("KRUISE_DS_NOW")
        if not frozen:
            return self.clock.now()
        try:
            return datetime.fromisoformat(frozen).timestamp()
        except ValueError:
            words = f'invalid KRUISE_DS_NOW "{frozen}": use a time such as 2025-11-20T12:04:10Z'
            raise UsageError(words) from None

    def ignore_broken_pipe(self) -> None:
        """Ignores failures to print from now on, because a change that has begun must be finished."""
        self._outlives = True

    def say(self, *lines: str) -> None:
        with self._printing():
            for line in lines:
                print(visible(line), file=self.out)

    def say_document(self, document: JSONObject, output: Output) -> None:
        self.say(as_text(document, output, only_ascii=self.ascii))

    def show(self, renderable: RenderableType, *, whole: bool = False) -> None:
        """Prints a rich renderable. Lines that do not fit are cut, unless `whole`."""
        with self._printing():
            if whole:
                self.console.print(renderable, soft_wrap=True)
            else:
                self.console.print(renderable, no_wrap=True, overflow="ellipsis", crop=True)

    def flush(self) -> None:
        """Before `ignore_broken_pipe`, raises BrokenPipeError for a closed stdout, else CommandError."""
        with self._printing():
            self.out.flush()

    def detail(self, *lines: str) -> None:
        if not self.quiet:
            self.say(*map(one_line, lines))

    def warn(self, text: str, *hints: str) -> None:
        self._print_to_stderr(one_line(f"warning: {text}"), *self._as_lines(hints))

    def warn_for_server(self, text: str) -> None:
        self._print_to_stderr(one_line(f"Warning: {text}"))

    def note(self, text: str) -> None:
        """Prints information that is not a warning; not with -q."""
        if not self.quiet:
            self._print_to_stderr(one_line(f"note: {text}"))

    def fail(self, error: CommandError) -> None:
        self._print_to_stderr(one_line(f"{error.prefix}{error.message}"), *self._as_lines(error.hints))

    def trace(self, line: str) -> None:
        self._print_to_stderr(line)

    def ask(self, question: str) -> bool:
        """Whether the user answers yes. Blocks the event loop; Ctrl-C raises KeyboardInterrupt at once."""
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
        return self._environ.get("KRUISE_DS_PROMPT") == "never"

    @property
    def may_ask(self) -> bool:
        """Whether prompting is allowed: by KRUISE_DS_PROMPT=never|always, else if the terminal is interactive."""
        wanted = self._environ.get("KRUISE_DS_PROMPT", "")
        return self.interactive if wanted not in ("never", "always") else wanted == "always"

    def _as_lines(self, hints: tuple[str, ...]) -> Iterator[str]:
        return (one_line(f"  hint: {for_cluster(hint, self.cluster_flags)}") for hint in hints)

    def _print_to_stderr(self, *lines: str, end: str = "\n") -> None:
        """A failure to write to stderr is ignored."""
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


def as_text(document: JSONObject, output: Output, *, only_ascii: bool = False) -> str:
    """`document` without managedFields and final line break. `only_ascii` escapes other characters within strings."""
    import msgspec  # not needed for --help

    from controller.api.objects import as_bytes, items_of

    shown = _without_managed_fields(document)
    if shown.get("kind") == "List":
        shown["items"] = [_without_managed_fields(item) for item in items_of(shown.get("items"))]
    if output is Output.YAML:
        from kubectl_plugin.kubectl_yaml import yaml_text

        text = yaml_text(shown, only_ascii=only_ascii)
        return yaml_text(shown, only_ascii=True) if INVISIBLE.search(text) else text
    return as_line(msgspec.json.format(as_bytes(shown), indent=4), only_ascii=only_ascii)


def as_line(encoded: bytes, *, only_ascii: bool) -> str:
    """JSON for stdout, with invisible characters escaped; the document stays the same."""
    return (_BEYOND_ASCII if only_ascii else INVISIBLE).sub(_escaped, encoded.decode())


def _without_managed_fields(document: JSONObject) -> JSONObject:
    shown = dict(document)
    if isinstance(meta := shown.get("metadata"), dict):
        shown["metadata"] = {key: value for key, value in meta.items() if key != "managedFields"}
    return shown


def _escaped(found: re.Match[str]) -> str:
    """JSON escapes a character beyond U+FFFF as two surrogates."""
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _lead_nowhere(stream: TextIO) -> None:
    """Discards buffered and later output; otherwise the flush at exit would fail again."""
    try:
        with open(os.devnull, "wb") as sink:
            os.dup2(sink.fileno(), stream.fileno())
    except OSError:  # it is not backed by a file
        return


@contextmanager
def interruptible() -> Iterator[None]:
    """Lets Ctrl-C raise KeyboardInterrupt: asyncio would cancel a task, which a blocked loop never runs."""
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
    """Replaces line breaks, so that foreign text cannot imitate a line of the plugin."""
    return text.replace("\n", " ")


def _speaks_utf8(out: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether the encoding, and the locale if set, support more than ASCII."""
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "UTF-8"
    encoding = (out.encoding or "ascii").replace("-", "").lower()
    return "utf8" in locale.replace("-", "").lower() and encoding.startswith("utf")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
