"""`history` lists the stored revisions, or shows one in full; `diff` compares two of them, or the live template and a
file."""

from __future__ import annotations

from controller.api.names import UNKNOWN_FIELDS_ANNOTATION
from controller.api.objects import JSONObject, value_at
from kubectl_plugin.changes.edit import Draft, Operation
from kubectl_plugin.cluster import previews, reads
from kubectl_plugin.cluster.manifests import objects_in, text_at
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.errors import ExitCode, UsageError
from kubectl_plugin.flags import Output
from kubectl_plugin.options import DiffOptions, HistoryOptions
from kubectl_plugin.render.listings import comparison_text, history_table, revision_text
from kubectl_plugin.rollout import history as revisions
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.target import other_revisions, target_of


async def history(invocation: Invocation, options: HistoryOptions) -> ExitCode:
    revision, show_values = options.revision, options.show_values
    snapshot = await reads.snapshot(invocation, options.name, reads.NO_NODES)
    revisions.need_revisions(snapshot)
    rows = revisions.history(snapshot, show_values=show_values)
    if revision is None:
        _print_all(invocation, snapshot, rows)
    else:
        wanted = target_of(snapshot, revision).revision
        row = next(row for row in rows if row.revision == wanted)
        _print_one(invocation, snapshot, row, show_values)
    invocation.note_unread(snapshot.unread_words)
    return ExitCode.DONE


def _print_all(invocation: Invocation, snapshot: Snapshot, rows: tuple[revisions.RevisionRow, ...]) -> None:
    terminal, wide = invocation.terminal, invocation.output is Output.WIDE
    if invocation.answers_a_program(
        map(_printed_name, rows), lambda: revisions.history_document(*snapshot.key, rows)
    ):
        return
    if not rows:
        terminal.note(f"{snapshot.key.name} has no revision yet: the controller has not handled it yet")
    else:
        width = None if wide else terminal.width
        shown = history_table(rows, now=snapshot.now, width=width, only_ascii=terminal.ascii, wide=wide)
        terminal.show(shown, whole=wide)


def _print_one(invocation: Invocation, snapshot: Snapshot, row: revisions.RevisionRow, show_values: bool) -> None:
    key, only_ascii = snapshot.key, invocation.terminal.ascii
    if not invocation.answers_a_program(
        (_printed_name(row),), lambda: revisions.revision_document(*key, row, show_values=show_values)
    ):
        text = revision_text(key.name, row, now=snapshot.now, only_ascii=only_ascii, show_values=show_values)
        invocation.terminal.show(text, whole=True)


def _printed_name(row: revisions.RevisionRow) -> str:
    return f"controllerrevision.apps/{row.revision.name}"


async def diff(invocation: Invocation, options: DiffOptions) -> ExitCode:
    most = 1 if options.file else 2
    if len(options.revisions) > most:
        instead = "one revision and a file" if options.file else "two revisions"
        raise UsageError(f"no more than {instead} can be compared")
    objects = (
        objects_in(await text_at(options.file, invocation.host), revisions.called(options.file))
        if options.file
        else []
    )
    snapshot = await reads.snapshot(invocation, options.name, reads.NO_NODES)
    old, new = _sides(snapshot, options, objects)
    if options.file:
        wanted = revisions.daemonset_among(objects, snapshot.key, revisions.called(options.file))
        if words := await previews.unknown_fields(invocation.session, snapshot, _changes(snapshot, wanted)):
            invocation.terminal.warn(f"no pod would be created of {revisions.called(options.file)}: {words}")
    found = revisions.compare(snapshot, old, new, show_values=options.show_values)
    if invocation.output is not None:
        invocation.terminal.say_document(found.document(snapshot.key.namespace), invocation.output)
    else:
        drawn = comparison_text(found, now=snapshot.now, only_ascii=invocation.terminal.ascii)
        invocation.terminal.show(drawn, whole=True)
    invocation.note_unread(snapshot.unread_words)
    return ExitCode.DIFFERENT if options.exit_code and found.changes else ExitCode.DONE


def _changes(snapshot: Snapshot, wanted: JSONObject) -> tuple[Operation, ...]:
    """Operations that give the live object the template of `wanted` and its annotation for unknown fields."""
    draft = Draft(snapshot.document)
    draft.set(value_at(wanted, "spec", "template"), "spec", "template")
    if (allowed := value_at(wanted, "metadata", "annotations", UNKNOWN_FIELDS_ANNOTATION)) is not None:
        draft.set(allowed, "metadata", "annotations", UNKNOWN_FIELDS_ANNOTATION)
    return draft.operations


def _sides(
    snapshot: Snapshot, options: DiffOptions, objects: list[JSONObject]
) -> tuple[revisions.ComparedSide, revisions.ComparedSide]:
    if options.file:
        new = revisions.file_side(snapshot, options.file, objects)
        return _side_of_revision(snapshot, options.revisions[0]) if options.revisions else revisions.live_side(
            snapshot
        ), new
    old, *second = options.revisions or (None,)
    return _side_of_revision(snapshot, old), _side_of_revision(
        snapshot, second[0]
    ) if second else revisions.live_side(snapshot)


def _side_of_revision(snapshot: Snapshot, number: int | None) -> revisions.ComparedSide:
    """`number` None: the newest revision that differs from the live template."""
    revisions.need_revisions(snapshot)
    others = other_revisions(snapshot) if number is None else []
    return revisions.revision_side(snapshot, others[0] if others else target_of(snapshot, number))
