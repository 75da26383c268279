"""Warns a person who interrupts the plugin in the middle of a change of what may have been done."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from kubectl_plugin.terminal import Terminal


@contextmanager
def warn_if_interrupted(terminal: Terminal, what: str, *hints: str) -> Iterator[None]:
    """Warn `interrupted{what}` when Ctrl-C, `--timeout` or SIGTERM ends the block. SIGTERM, which otherwise ends the
    process at once, cancels the task instead.

    Never ask a question inside: it blocks the event loop, and SIGTERM would have to wait for its answer.
    """
    task = asyncio.current_task()
    assert task is not None
    loop, unheeded = task.get_loop(), signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if unheeded:
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    except asyncio.CancelledError:
        terminal.warn(f"interrupted{what}", *hints)
        raise
    finally:
        if unheeded:
            loop.remove_signal_handler(signal.SIGTERM)
