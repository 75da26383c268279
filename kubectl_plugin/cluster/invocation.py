"""What every verb works with."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from kubectl_plugin.cluster.session import Session
from kubectl_plugin.flags import Output
from kubectl_plugin.host import Host
from kubectl_plugin.terminal import Terminal


@dataclass(frozen=True)
class Invocation:
    """One call of a verb."""

    session: Session
    terminal: Terminal
    output: Output | None
    """What `-o` asked for."""
    host: Host
    namespace: str | None = None
    """What `-n` asked for."""
    began: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    """By the event loop."""

    def tell_missing(self, missing: Iterable[str]) -> None:
        """What could not be read, each once."""
        for words in dict.fromkeys(missing):
            self.terminal.note(f"not everything could be read: {words}")
