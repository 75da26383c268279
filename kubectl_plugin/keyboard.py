"""A line from a person, and Ctrl-C instead of one."""

from __future__ import annotations

import io
import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


@contextmanager
def interruptible() -> Iterator[None]:
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


def typed_line(stream: TextIO) -> str:
    """The next line of `stream`; blocks. Inside `interruptible` Ctrl-C ends it, however soon it comes.

    A signal that arrives just before the blocking read starts would be noticed only after it, with the next key: on a
    terminal both are waited for together. Elsewhere nobody presses keys, and `stream` may hold more lines than one.
    """
    terminal = _descriptor(stream)
    if terminal is not None and stream.isatty() and os.name == "posix":
        _until_typed(terminal)
    return stream.readline()


def _descriptor(stream: TextIO) -> int | None:
    """None for a stream that only looks like a file, such as one in memory."""
    try:
        return stream.fileno()
    except io.UnsupportedOperation:
        return None


def _until_typed(terminal: int) -> None:
    """Signals meanwhile are passed on to whoever else waits to be told of them."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        others = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        try:
            while terminal not in select.select([terminal, ours.fileno()], [], [])[0]:
                numbers = ours.recv(64)
                if others >= 0:
                    os.write(others, numbers)
        finally:
            signal.set_wakeup_fd(others)
