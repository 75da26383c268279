"""Cuts bytes that arrive in chunks of any size into lines. A watch sends one JSON document per line."""

from __future__ import annotations


class Lines:
    """Cuts chunks into lines of any length: an object may have megabytes, for which the `readline` of the HTTP
    library fails."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their line ends; empty lines are left out."""
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            self._rest.append(tail)
            return []
        if self._rest:
            head = b"".join((*self._rest, head))
            self._rest.clear()
        if tail:
            self._rest.append(tail)
        return [line for line in head.split(b"\n") if line]
