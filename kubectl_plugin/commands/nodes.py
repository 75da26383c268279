"""`nodes`: one row per node."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.follow import following
from kubectl_plugin.cluster.image_pulls import with_pulls
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.commands.table_watch import Picture, print_table, table_screen
from kubectl_plugin.errors import CommandError, UsageError
from kubectl_plugin.flags import Output
from kubectl_plugin.options import NodesOptions as Asked
from kubectl_plugin.render.listings import node_table
from kubectl_plugin.rollout.document import document
from kubectl_plugin.rollout.nodes import NodeRow
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.survey import Choice, Survey, check_group, choice_of, chosen_rows, footer, survey

TICK: Final = 5.0
"""Seconds after which ages are redrawn, even if nothing happened."""


async def nodes(invocation: Invocation, asked: Asked) -> int:
    """With `watch` it runs until it is interrupted, or the DaemonSet is deleted."""
    wanted = choice_of(asked.only, excluded=asked.excluded, group=asked.zone, sort=asked.sort)
    if asked.watch and invocation.output in (Output.YAML, Output.NAME):
        raise UsageError(f"-w has no output format {invocation.output}: use json or wide")
    snapshot = await reads.snapshot(invocation, asked.name, nodes=not asked.watch, pods=not asked.watch)
    if asked.watch:
        return await _watch(invocation, snapshot, wanted, asked.by)
    (snapshot,) = await with_pulls(invocation, [snapshot])
    surveyed = _survey_of(snapshot, asked.by)
    check_group(surveyed, wanted)
    picture = _picture(invocation, surveyed, wanted)
    print_table(invocation, picture, (f"node/{name}" for name, _ in picture.rows))
    if invocation.output in (None, Output.WIDE):
        invocation.note_unread(snapshot.unread_words)
    return 0


async def _watch(invocation: Invocation, first: Snapshot, wanted: Choice, by: str) -> int:
    checked = False
    async with following(invocation, [first]) as follow:
        with table_screen(invocation) as screen:
            while True:
                (snapshot,) = follow.snapshots()
                if snapshot is None:
                    raise CommandError(f'daemonsets.apps.kruise.io "{first.key.name}" was deleted')
                surveyed = _survey_of(snapshot, by)
                if not checked:
                    check_group(surveyed, wanted)
                    checked = True
                screen.show(_picture(invocation, surveyed, wanted), follow.interruption)
                await follow.changed(TICK)


def _survey_of(snapshot: Snapshot, by: str) -> Survey:
    """Raises CommandError where pods may not be read: all nodes would look as if they had none."""
    if not snapshot.pods_readable:
        namespace, name = snapshot.key
        raise CommandError(f"the nodes of {name} need the right to list pods in namespace {namespace}")
    return survey(snapshot, by)


def _picture(invocation: Invocation, surveyed: Survey, wanted: Choice) -> Picture:
    snapshot, only_ascii = surveyed.snapshot, invocation.terminal.ascii
    rows = chosen_rows(surveyed, wanted)
    return Picture(
        table=lambda width: node_table(rows, now=snapshot.now, width=width, only_ascii=only_ascii),
        footer=footer(surveyed, rows),
        others={row.node: row.state for row in surveyed.rows},
        rows=tuple((row.node, _news_of(row)) for row in rows),
        document=document(
            "NodeList", namespace=snapshot.key.namespace, name=snapshot.key.name, items=[row.document for row in rows]
        ),
    )


def _news_of(row: NodeRow) -> tuple[Hashable, ...]:
    """The values whose change is worth another line in a log."""
    return row.state, row.revision, row.pod and row.pod.pod.uid, row.trouble, row.image and row.image.stage
