"""The input of a status block, and the shape of its lines: a label on the left, words behind it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from controller.api.daemonset import Phase
from kubectl_plugin.commands import command, for_cluster
from kubectl_plugin.paint import style
from kubectl_plugin.report.status.document import RolloutStatus
from kubectl_plugin.report.survey import Survey

LABELS: Final = 11
"""Columns for the labels."""
MOST_LINES: Final = 4
BUSY: Final = (Phase.PROGRESSING, Phase.STALLED, Phase.DEGRADED, Phase.PENDING)
"""Phases in which somebody waits for pods."""


@dataclass(frozen=True)
class StatusView:
    """One rollout at one moment, and the room to show it."""

    survey: Survey
    status: RolloutStatus
    width: int
    only_ascii: bool
    wide: bool = False
    """Whole image names and hashes; lines are never cut."""
    absence: str = ""
    """Why no controller seems to be active; empty if one is."""
    cluster_flags: tuple[str, ...] = ()
    """Flags that commands need to reach the same cluster."""

    def typed(self, command: str) -> str:
        return for_cluster(command, self.cluster_flags)

    def command(self, verb: str, *more: str) -> str:
        """The command to type for `verb` on this object."""
        return self.typed(command(verb, self.survey.snapshot.key, *more))

    def quoted(self, label: str, words: str, bad: str = "") -> Iterator[Text]:
        """The words of others, on up to `MOST_LINES` lines. `bad`: a pattern of what is coloured as an error."""
        room = max(self.width - LABELS - 2, 20)
        wrapped = textwrap.wrap(words, room, max_lines=MOST_LINES, placeholder=" …", break_on_hyphens=False)
        parts = [Text(part) for part in wrapped]
        if bad and parts:
            parts[0].highlight_regex(bad, style.BAD)
        return labelled(label, parts)


def line(label: str, words: str | Text) -> Text:
    """`  Fleet      22 of 24 available`; with an empty label it goes on with the line before."""
    return Text.assemble("  ", (label.ljust(LABELS), style.LABEL if label else ""), words)


def labelled(label: str, parts: Sequence[str | Text]) -> Iterator[Text]:
    """One line for each part, the label before the first."""
    for index, part in enumerate(parts):
        yield line("" if index else label, part)
