"""The two programs that kubectl finds: `kubectl-kruise_ds`, and `kubectl_complete-kruise_ds` for <TAB>."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kubectl_plugin.candidates import FILES
from kubectl_plugin.cli import NAME, app, verbs
from kubectl_plugin.host import Host, null_stream
from kubectl_plugin.runner import Runner, imported_function

VARIABLE = "_KRUISE_DS_COMPLETE"
COMPLETE = "__complete"
NO_FILES, SHELL_DECIDES, NO_BLANK = ":4", ":0", ":6"
"""What kubectl is told last: file names are no candidates; only file names are; as the first, and no blank follows,
because the word goes on, as after `CONTAINER=`."""
DEADLINE = 5
"""Seconds after which completion ends whatever it waits for. The reads have a limit of their own, but nothing cancels
the system's resolver of names."""


def main() -> None:
    """`kubectl kruise-ds ARGS…`. Ends the process with one of the exit codes in the README.

    When the first word is `__complete` it acts as the other program: where only one file could be installed, a small
    second one calls it so (`completion install`).
    """
    mend_streams()
    if sys.argv[1:2] == [COMPLETE]:
        del sys.argv[1]
        complete()
    else:
        app(prog_name=NAME, obj=Runner(Host()))


def complete() -> None:
    """`kubectl_complete-kruise_ds ARGS… WORD`: print the candidates for WORD as kubectl wants them, one
    `value<TAB>help` per line, and last a directive that tells the shell whether to offer file names too.

    Always exits with 0, and within `DEADLINE`. If anything fails, nothing is offered and nothing is printed to
    stderr: no candidates are better than wrong ones.
    """
    mend_streams()
    out = sys.stdout

    def give_up(*_: object) -> None:
        print(NO_FILES, file=out, flush=True)
        os._exit(0)

    if hasattr(signal, "alarm"):  # on Windows there is none
        signal.signal(signal.SIGALRM, give_up)
        signal.alarm(DEADLINE)
    lines = candidates(sys.argv[1:], Host(err=io.StringIO()))  # no terminal: an exec plugin may neither print nor ask
    if hasattr(signal, "alarm"):
        signal.alarm(0)
    print(*lines, sep="\n")


def mend_streams() -> None:
    """Make sure that all three streams exist and that both outputs accept every character, as an escape if need be.

    Otherwise a result that cannot be printed would look like a change that was not made.
    """
    sys.stdin = sys.stdin or null_stream("r")  # in this order: each opens with the lowest free descriptor, its own
    sys.stdout, sys.stderr = sys.stdout or null_stream("w"), sys.stderr or null_stream("w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def candidates(words: Sequence[str], host: Host) -> list[str]:
    """The lines for `words`; the last word is the one being typed, and may be empty.

    typer is asked in its dialect for the shell fish, whose lines are also what kubectl wants. The words are quoted,
    because typer splits them like a shell. Verbs are completed without typer, which is twice as fast.
    """
    if len(words) == 1 and not words[0].startswith("-"):
        return [*verbs(words[0]), NO_FILES]
    os.environ |= {
        VARIABLE: "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": shlex.join([NAME, *words]),
    }
    found = io.StringIO()

    def look_up(what: str) -> Callable[..., Any]:
        return partial(imported_function(f"candidate_lookups.{what}"), host)

    with contextlib.redirect_stdout(found), contextlib.redirect_stderr(io.StringIO()):
        try:
            app(args=[], prog_name=NAME, complete_var=VARIABLE, obj=look_up)
        except SystemExit:
            pass
        except (Exception, KeyboardInterrupt):  # a half-typed line may be anything
            return [NO_FILES]
        finally:
            del os.environ[VARIABLE]
    lines = [line for line in found.getvalue().splitlines() if line.strip()]
    if any(line.endswith(FILES) for line in lines):
        return [SHELL_DECIDES]
    return [*lines, NO_BLANK if lines and lines[0].partition("\t")[0].endswith("=") else NO_FILES]
