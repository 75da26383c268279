"""What every verb works with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from controller.api.base import JSONObject
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

    def answers_a_program(self, names: Iterable[str], document: Callable[[], JSONObject]) -> bool:
        """Whether `-o` asks for the `names` or the `document`, which are then said; else a person reads it."""
        if self.output is Output.NAME:
            self.terminal.say(*names)
        elif self.output in (Output.JSON, Output.YAML):
            self.terminal.say_document(document(), self.output)
        else:
            return False
        return True

    def tell_missing(self, missing: Iterable[str]) -> None:
        """What could not be read, each once."""
        for words in dict.fromkeys(missing):
            self.terminal.note(f"not everything could be read: {words}")
