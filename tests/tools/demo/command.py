"""The command line: what to run, and what each end of it is called."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Coroutine, Sequence

from controller.kube.errors import ConfigError
from tests.beds.control_plane import ProcessError, obtain
from tests.beds.control_plane.sources import Unavailable
from tests.tools.demo.playground import play
from tests.tools.demo.real import SetUpFailed, real_bed
from tests.tools.demo.show import show
from tests.tools.demo.simulated import simulated_bed
from tests.tools.demo.witness import Overdue

KNOWN = (Overdue, ProcessError, SetUpFailed, Unavailable, ConfigError, OSError)
"""What is printed in its own words, without a traceback."""
STDOUT_CLOSED = 128 + signal.SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0; 1 with the reason on stderr; 128 and the number of the signal that ended it."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.demo", description="The controller on 24 nodes.")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--real", action="store_true", help="on a real control plane")
    where.add_argument("--cluster", action="store_true", help="a real control plane for your own kubectl")
    parser.add_argument("--pace", type=float, default=1.0, help="0.1 is ten times as fast (default: 1, for people)")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds for each step (default: 60)")
    options = parser.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        try:
            stack.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, _raise_exit))
            return asyncio.run(_until_signalled(_job(options)))
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        except BaseException as error:
            return _code_for(_innermost(error))


def _job(options: argparse.Namespace) -> Coroutine[object, object, None]:
    """What was asked for. Binaries are looked for, and built, before there is an event loop to hold up."""
    if options.cluster:
        return play(obtain())
    if options.real:
        return show(real_bed(obtain()), options.pace, options.patience)
    return show(simulated_bed(), options.pace, options.patience)


async def _until_signalled(job: Coroutine[object, object, None]) -> int:
    """The exit code. A signal cancels the job, which then takes down what it has started."""
    loop, received = asyncio.get_running_loop(), list[signal.Signals]()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(job)

        def stop(number: signal.Signals) -> None:
            received.append(number)
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)
    return 128 + received[0] if received else 0


def _raise_exit(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _code_for(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more to be said at exit
        return STDOUT_CLOSED
    if isinstance(error, KNOWN):
        print(f"demo: {error}", file=sys.stderr)
        return 1
    raise error
