"""What every verb works with."""

from __future__ import annotations

from dataclasses import dataclass

from kubectl_plugin.cluster.session import Session
from kubectl_plugin.flags import Output
from kubectl_plugin.terminal import Terminal


@dataclass(frozen=True)
class Invocation:
    """One call of a verb."""

    session: Session
    terminal: Terminal
    output: Output | None
    """What `-o` asked for."""

    @property
    def as_document(self) -> bool:
        """Whether stdout is for programs: then not a word beside the document."""
        return self.output in (Output.JSON, Output.YAML)
