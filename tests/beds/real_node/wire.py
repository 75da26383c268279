"""What joins nodes to the machine: `python -I wire.py node …` for each, one `python -I wire.py exchange FOLDER`.

A node's wire listens inside the node's network, and passes what it gets on to ports of the machine; and it takes
HTTP CONNECT requests on a Unix socket of the machine, and passes those on to addresses inside. Stopped by SIGSTOP it
is a cut cable: connections stay, and nobody answers. The exchange is what the API server reaches all nodes through:
it hands each CONNECT to the wire of the node that has the address, or whose pods have it.
"""

import argparse
import asyncio
import contextlib
import ctypes
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

CLONE_NEWNET = 0x40000000
CHUNK = 64 * 1024


class Inside:
    """The network of one process, which outlives that process as long as this is there."""

    def __init__(self, pid: int) -> None:
        self._here = os.open("/proc/self/ns/net", os.O_RDONLY)
        self._there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        self._setns = ctypes.CDLL(None, use_errno=True).setns

    def socket(self) -> socket.socket:
        """A socket that belongs in there, for any user."""
        with self._entered():
            made = socket.socket()
        made.setblocking(False)
        return made

    @contextlib.contextmanager
    def _entered(self) -> Iterator[None]:
        self._enter(self._there)
        try:
            yield
        finally:
            self._enter(self._here)

    def _enter(self, network: int) -> None:
        if self._setns(network, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


async def serve_node(pid: int, path: Path, relays: list[str]) -> None:
    """`relays` are pairs such as `10.96.0.1:443=127.0.0.1:6443`: inside, and on the machine."""
    inside = Inside(pid)

    async def connect_inside(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = (await head_of(reader))[0]
        connection = inside.socket()
        await asyncio.get_running_loop().sock_connect(connection, (host, port))
        other = await asyncio.open_connection(sock=connection)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await join((reader, writer), other)

    for relay in relays:
        here, there = (address(part) for part in relay.split("="))
        listening = inside.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(here)
        await asyncio.start_server(guarded(passes_on_to(*there)), sock=listening)
    server = await asyncio.start_unix_server(guarded(connect_inside), path)
    await server.serve_forever()


async def serve_exchange(folder: Path) -> None:
    """Listens on `exchange.sock` in `folder`, where the wires' sockets are, named by the nodes' addresses and by the
    first three numbers of their pods'."""

    async def hand_over(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (host, _), head = await head_of(reader)
        names = (f"{host}.sock", f"{host.rpartition('.')[0]}.sock")
        path = next(folder / name for name in names if (folder / name).exists())
        other = await asyncio.open_unix_connection(path)
        other[1].write(head)
        await join((reader, writer), other)

    server = await asyncio.start_unix_server(guarded(hand_over), folder / "exchange.sock")
    await server.serve_forever()


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def passes_on_to(host: str, port: int) -> Handler:
    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await join((reader, writer), await asyncio.open_connection(host, port))

    return pass_on


def guarded(handle: Handler) -> Handler:
    """Whatever goes wrong with a connection ends that one only."""

    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError):
            await handle(reader, writer)
        writer.close()

    return handled


async def head_of(reader: asyncio.StreamReader) -> tuple[tuple[str, int], bytes]:
    """Where a CONNECT wants to go, and all of its head."""
    head = await reader.readuntil(b"\r\n\r\n")
    return address(head.split()[1].decode()), head


async def join(one: Stream, other: Stream) -> None:
    """Until both directions have ended."""
    await asyncio.gather(pump(one[0], other[1]), pump(other[0], one[1]))
    other[1].close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
        return
    writer.transport.abort()


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    kinds = parser.add_subparsers(dest="kind", required=True)
    node = kinds.add_parser("node")
    node.add_argument("pid", type=int)
    node.add_argument("path", type=Path)
    node.add_argument("relays", nargs="*")
    kinds.add_parser("exchange").add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.kind == "node":
        asyncio.run(serve_node(options.pid, options.path, options.relays))
    else:
        asyncio.run(serve_exchange(options.folder))
