"""The two programs that kubectl finds: `kubectl-kruise_ds`, and `kubectl_complete-kruise_ds` for <TAB>."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from collections.abc import Sequence

from kubectl_plugin.candidates import FILES
from kubectl_plugin.entries import imported
from kubectl_plugin.host import Host, nowhere
from kubectl_plugin.program import NAME, app, verbs
from kubectl_plugin.running import Runner

VARIABLE = "_KRUISE_DS_COMPLETE"
COMPLETE = "__complete"
NO_FILES, SHELL_DECIDES = ":4", ":0"


def main() -> None:
    """`kubectl kruise-ds ARGS…`. Ends the process with one of the exit codes in the README.

    With `__complete` as its first word it is the other program: where only one file can be installed, the second one
    calls it so (`completion install`).
    """
    mend_streams()
    if sys.argv[1:2] == [COMPLETE]:
        del sys.argv[1]
        complete()
    else:
        app(prog_name=NAME, obj=Runner(Host()))


def complete() -> None:
    """`kubectl_complete-kruise_ds ARGS… WORD`: the candidates for WORD as kubectl wants them, `value<TAB>help` a line
    and last a directive for the shell: whether file names may be offered as well. Always ends with 0.

    Says nothing rather than something wrong: whatever fails leaves an empty list and not a word on stderr.
    """
    mend_streams()
    for line in candidates(sys.argv[1:]):
        print(line)


def mend_streams() -> None:
    """All three are there, and those for output take every character: as an escape, where they have none for it.

    A result that cannot be printed would look like a change that was not made.
    """
    sys.stdin = sys.stdin or nowhere("r")  # in this order: each gets the lowest number that is free, its own
    sys.stdout, sys.stderr = sys.stdout or nowhere("w"), sys.stderr or nowhere("w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def candidates(words: Sequence[str]) -> list[str]:
    """The lines for `words`, of which the last is being typed (empty where nothing of it is).

    They come from typer in the form that it speaks with the shell fish, which is kubectl's as well. The words are
    quoted, since typer takes them apart like a shell. A verb is found without it, because that is twice as fast.
    """
    if len(words) == 1 and not words[0].startswith("-"):
        return [*verbs(words[0]), NO_FILES]
    os.environ |= {
        VARIABLE: "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": shlex.join([NAME, *words]),
    }
    found = io.StringIO()
    with contextlib.redirect_stdout(found), contextlib.redirect_stderr(io.StringIO()):
        try:
            app(args=[], prog_name=NAME, complete_var=VARIABLE, obj=imported)
        except SystemExit:
            pass
        except Exception:  # a half-typed line may be anything
            return [NO_FILES]
        finally:
            del os.environ[VARIABLE]
    lines = [line for line in found.getvalue().splitlines() if line.strip()]
    return [SHELL_DECIDES] if any(line.endswith(FILES) for line in lines) else [*lines, NO_FILES]
