"""`history`: lists the stored revisions, or shows one in full."""

from __future__ import annotations

from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.flags import Output
from kubectl_plugin.options import HistoryOptions
from kubectl_plugin.render.listings import history_table, revision_text
from kubectl_plugin.rollout.history import RevisionRow, history_document, need_revisions, revision_document, target_of
from kubectl_plugin.rollout.history import history as rows_of
from kubectl_plugin.rollout.snapshot import Snapshot


async def history(invocation: Invocation, asked: HistoryOptions) -> int:
    revision, show_values = asked.revision, asked.show_values
    snapshot = await reads.snapshot(invocation, asked.name, reads.NO_NODES)
    need_revisions(snapshot)
    rows = rows_of(snapshot, show_values=show_values)
    if revision is None:
        _print_all(invocation, snapshot, rows)
    else:
        wanted = target_of(snapshot, revision).revision
        row = next(row for row in rows if row.revision == wanted)
        _print_one(invocation, snapshot, row, show_values)
    invocation.note_unread(snapshot.unread_words)
    return 0


def _print_all(invocation: Invocation, snapshot: Snapshot, rows: tuple[RevisionRow, ...]) -> None:
    terminal, wide = invocation.terminal, invocation.output is Output.WIDE
    if invocation.answers_a_program(map(_printed_name, rows), lambda: history_document(*snapshot.key, rows)):
        return
    if not rows:
        terminal.note(f"{snapshot.key.name} has no revision yet: the controller has not handled it yet")
    else:
        width = None if wide else terminal.width
        shown = history_table(rows, now=snapshot.now, width=width, only_ascii=terminal.ascii, wide=wide)
        terminal.show(shown, whole=wide)


def _print_one(invocation: Invocation, snapshot: Snapshot, row: RevisionRow, show_values: bool) -> None:
    key, only_ascii = snapshot.key, invocation.terminal.ascii
    if not invocation.answers_a_program(
        (_printed_name(row),), lambda: revision_document(*key, row, show_values=show_values)
    ):
        text = revision_text(key.name, row, now=snapshot.now, only_ascii=only_ascii, show_values=show_values)
        invocation.terminal.show(text, whole=True)


def _printed_name(row: RevisionRow) -> str:
    return f"controllerrevision.apps/{row.revision.name}"
