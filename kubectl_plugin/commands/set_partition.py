"""`set-partition`: patches `rollingUpdate.partition`, and prints how many nodes that lets be updated."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec.structs import replace

from controller.api.formats import IntOrPercent
from kubectl_plugin.changes import partition as edits
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.commands.change_flow import carry_out, choose
from kubectl_plugin.commands.consent import PlannedChange
from kubectl_plugin.errors import UsageError
from kubectl_plugin.flags import int_or_percent
from kubectl_plugin.options import SetPartitionOptions as Asked
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.wording import command

PartitionOf = Callable[[Snapshot], IntOrPercent]
_VALUE = re.compile(r"[0-9]+%?")
"""With --update, such a word is a mistyped value, although it could be a name."""


async def set_partition(invocation: Invocation, asked: Asked) -> int:
    names, value = _names_and_partition(asked)
    found = await choose(invocation, asked, names)
    return await carry_out(
        invocation,
        found,
        lambda snapshot: _change_of(snapshot, value(snapshot), by_nodes=asked.update is not None),
        asked,
        verb="set-partition",
    )


def _names_and_partition(asked: Asked) -> tuple[tuple[str, ...], PartitionOf]:
    words, update = asked.words, asked.update
    if len(words) + (update is not None) < (1 if asked.by_selection else 2):
        raise UsageError(
            "which one, and how many pods stay old? use set-partition NAME VALUE",
            hints=(command("set-partition NAME --update 1", to="or in nodes to update"),),
        )
    if update is not None and words and _VALUE.fullmatch(words[-1]):
        raise UsageError("give VALUE or --update, not both")
    if update is not None:
        nodes = int_or_percent(update, "--update")
        return words, lambda snapshot: edits.partition_for_nodes(snapshot, nodes)
    pods = int_or_percent(words[-1], "partition")
    return words[:-1], lambda snapshot: pods


def _change_of(snapshot: Snapshot, value: IntOrPercent, *, by_nodes: bool) -> PlannedChange:
    edit = edits.set_partition(snapshot, value)
    if edit.operations and not by_nodes and (misread := edits.misread_caution(snapshot, value)):
        edit = replace(edit, warnings=(misread, *edit.warnings))
    return PlannedChange(snapshot, edit)
