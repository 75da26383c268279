"""What every verb gets to work with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from controller.api.objects import JSONObject
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.flags import Output
from kubectl_plugin.host import Host
from kubectl_plugin.terminal import Terminal


@dataclass(frozen=True)
class Invocation:
    """One call of a verb, once its session is open."""

    session: Session
    terminal: Terminal
    output: Output | None
    """The format after `-o`; None if a person reads the result."""
    host: Host
    namespace: str | None = None
    """The namespace after `-n`; `session.namespace` is the one to use."""
    began: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    """When the verb began, on the event loop's clock."""

    def answers_a_program(self, names: Iterable[str], document: Callable[[], JSONObject]) -> bool:
        """Print the `names` or the `document` where `-o` asks for either; returns whether it did."""
        if self.output is Output.NAME:
            self.terminal.say(*names)
        elif self.output in (Output.JSON, Output.YAML):
            self.terminal.say_document(document(), self.output)
        else:
            return False
        return True

    def note_unread(self, missing: Iterable[str]) -> None:
        """Print a note for each thing that could not be read, once."""
        for words in dict.fromkeys(missing):
            self.terminal.note(f"not everything could be read: {words}")
