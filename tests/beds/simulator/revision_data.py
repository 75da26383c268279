"""The trap of ControllerRevision.data: the server keeps the bytes that were sent and compares them with its own.

A revision whose data is not compact, or has one of `<`, `>`, `&` as such, is stored and can never be updated: neither
renumbered nor adopted nor orphaned, and `kubectl delete --cascade=orphan` of its owner hangs.
"""

from __future__ import annotations

import msgspec

ESCAPED_BY_GO = (b"<", b">", b"&", "\u2028".encode(), "\u2029".encode())


class _Sent(msgspec.Struct):
    data: msgspec.Raw = msgspec.Raw(b"")


def is_as_written_by_go(body: bytes) -> bool:
    """Whether `data` in the body of a POST is what Go's encoding/json would write for it (key order is kept)."""
    data = bytes(msgspec.json.decode(body, type=_Sent).data)
    return data == msgspec.json.format(data, indent=-1) and not any(letter in data for letter in ESCAPED_BY_GO)
