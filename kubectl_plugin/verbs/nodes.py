"""`nodes`: one row per node."""

from __future__ import annotations

from dataclasses import dataclass

from kubectl_plugin.cluster import reads
from kubectl_plugin.flags import Output
from kubectl_plugin.paint.document import as_text
from kubectl_plugin.paint.nodes import node_table
from kubectl_plugin.report.documents import node_list
from kubectl_plugin.report.node_choice import Choice, choice, chosen, footer
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.survey import survey
from kubectl_plugin.running import Invocation


@dataclass(frozen=True)
class Asked:
    """The command line."""

    name: str
    only: str
    excluded: bool
    zone: str | None
    by: str
    sort: str
    watch: bool


async def nodes(invocation: Invocation, asked: Asked) -> int:
    wanted = choice(asked.only, excluded=asked.excluded, group=asked.zone, sort=asked.sort)
    _print(invocation, await reads.snapshot(invocation, asked.name), wanted, asked.by)
    return 0


def _print(invocation: Invocation, snapshot: Snapshot, wanted: Choice, by: str) -> None:
    terminal, output = invocation.terminal, invocation.output
    surveyed = survey(snapshot, by)
    rows = chosen(surveyed, wanted)
    if output is Output.NAME:
        terminal.say(*(f"node/{row.node}" for row in rows))
        return
    if output in (Output.JSON, Output.YAML):
        terminal.say(as_text(node_list(*snapshot.key, rows), output))
        return
    whole = output is Output.WIDE
    if rows:
        width = None if whole else terminal.width
        terminal.show(node_table(rows, now=snapshot.now, width=width, only_ascii=terminal.ascii), whole=whole)
    terminal.detail(footer(surveyed, rows))
    for missing in snapshot.missing_rights:
        terminal.note(f"not everything could be read: {missing}")
