"""A window of a terminal and a shell in it, as a person has them: what is seen there, and what is typed."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import signal
import struct
import termios
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

PATIENCE = 60.0
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Window:
    """Made by `window`."""

    def __init__(self, screen: int, process: asyncio.subprocess.Process) -> None:
        self._screen, self._process, self._seen = screen, process, b""
        self._news = asyncio.Event()

    @property
    def seen(self) -> str:
        """All that was written, without colours and movements of the cursor."""
        return _CONTROL.sub("", self._seen.decode(errors="replace")).replace("\r\n", "\n").replace("\r", "\n")

    async def until(self, words: str, times: int = 1) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while self.seen.count(words) < times and self._process.returncode is None:
                    self._news.clear()
                    await self._news.wait()
        finally:
            assert self.seen.count(words) >= times, f"seen is not {words!r} but {self.seen!r}"

    def type(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    async def ended(self) -> int:
        """With this code."""
        async with asyncio.timeout(PATIENCE):
            code = await self._process.wait()
        self.read()
        return code

    def read(self) -> None:
        """What is there to be read now."""
        with suppress(BlockingIOError):
            while more := os.read(self._screen, 65_536):
                self._seen += more
        self._news.set()


@asynccontextmanager
async def window(script: str, environ: Mapping[str, str], *, columns: int = 80) -> AsyncIterator[Window]:
    """bash with `script` is at the terminal; it is gone afterwards."""
    screen, inside = pty.openpty()
    os.set_blocking(screen, False)
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    here = os.ttyname(inside)  # the first process that opens it in a session of its own gets Ctrl-C from there
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # or else who is started ignores it, under nohup
    try:
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", f"exec <{here} >{here} 2>{here}\n{script}"),
            env={"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environ},
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    found = Window(screen, process)
    loop = asyncio.get_running_loop()
    loop.add_reader(screen, found.read)
    try:
        yield found
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        loop.remove_reader(screen)
        os.close(screen)
        os.close(inside)
