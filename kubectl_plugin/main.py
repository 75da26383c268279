"""Entry points of the programs that kubectl runs: `kubectl-kruise_ds`, and `kubectl_complete-kruise_ds` for <TAB>."""

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
"""Cobra's directives: no file names; file names only; no file names and no blank, because `CONTAINER=` continues."""
DEADLINE = 5
"""Seconds until completion gives up, because lookups by the system's resolver cannot be cancelled."""


def main() -> None:
    """Runs the plugin, or completion for the first word `__complete`, as in scripts of `completion install`."""
    repair_streams()
    if sys.argv[1:2] == [COMPLETE]:
        del sys.argv[1]
        complete()
    else:
        app(prog_name=NAME, obj=Runner(Host()))


def complete() -> None:
    """Prints candidates as kubectl expects: lines `value<TAB>help`, then a directive. Exits with 0 within `DEADLINE`;
    on failure it offers nothing and keeps stderr empty."""
    repair_streams()
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


def repair_streams() -> None:
    """Opens missing streams, and escapes what cannot be encoded: a failure to print looks like a failed change."""
    sys.stdin = sys.stdin or null_stream("r")  # in this order: each opens with the lowest free descriptor, its own
    sys.stdout, sys.stderr = sys.stdout or null_stream("w"), sys.stderr or null_stream("w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def candidates(words: Sequence[str], host: Host) -> list[str]:
    """The completion lines for `words`, of which the last is being typed. Uses typer's protocol for fish, whose lines
    kubectl expects, too; typer splits its input like a shell. Verbs bypass typer, which is twice as fast."""
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
