"""`diff`: compares two revisions, or the live template and a file, side by side."""

from __future__ import annotations

from controller.api.names import UNKNOWN_FIELDS_ANNOTATION
from controller.api.objects import JSONObject, value_at
from kubectl_plugin.changes.edit import Draft
from kubectl_plugin.cluster import previews, reads
from kubectl_plugin.cluster.manifests import objects_in, text_of
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.errors import ExitCode, UsageError
from kubectl_plugin.options import DiffOptions as Asked
from kubectl_plugin.render.listings import comparison_text
from kubectl_plugin.rollout import history
from kubectl_plugin.rollout.history import (
    ComparedSide,
    called,
    file_side,
    live_side,
    need_revisions,
    other_revisions,
    revision_side,
    target_of,
)
from kubectl_plugin.rollout.snapshot import Snapshot


async def diff(invocation: Invocation, asked: Asked) -> int:
    most = 1 if asked.file else 2
    if len(asked.revisions) > most:
        instead = "one revision and a file" if asked.file else "two revisions"
        raise UsageError(f"no more than {instead} can be compared")
    objects = objects_in(await text_of(asked.file, invocation.host), called(asked.file)) if asked.file else []
    snapshot = await reads.snapshot(invocation, asked.name, reads.NO_NODES)
    old, new = _sides(snapshot, asked, objects)
    if asked.file:
        wanted = history.daemonset_among(objects, snapshot.key, called(asked.file))
        if words := await previews.unknown_fields(invocation.session, snapshot, _changes(snapshot, wanted)):
            invocation.terminal.warn(f"no pod would be created of {called(asked.file)}: {words}")
    found = history.compare(snapshot, old, new, show_values=asked.show_values)
    if invocation.output is not None:
        invocation.terminal.say_document(found.document(snapshot.key.namespace), invocation.output)
    else:
        drawn = comparison_text(found, now=snapshot.now, only_ascii=invocation.terminal.ascii)
        invocation.terminal.show(drawn, whole=True)
    invocation.note_unread(snapshot.unread_words)
    return ExitCode.DIFFERENT if asked.exit_code and found.changes else 0


def _changes(snapshot: Snapshot, wanted: JSONObject) -> tuple[JSONObject, ...]:
    """Operations that give the live object the template of `wanted` and its annotation for unknown fields."""
    draft = Draft(snapshot.document)
    draft.set(value_at(wanted, "spec", "template"), "spec", "template")
    if (allowed := value_at(wanted, "metadata", "annotations", UNKNOWN_FIELDS_ANNOTATION)) is not None:
        draft.set(allowed, "metadata", "annotations", UNKNOWN_FIELDS_ANNOTATION)
    return draft.operations


def _sides(snapshot: Snapshot, asked: Asked, objects: list[JSONObject]) -> tuple[ComparedSide, ComparedSide]:
    if asked.file:
        new = file_side(snapshot, asked.file, objects)
        return _side_of_revision(snapshot, asked.revisions[0]) if asked.revisions else live_side(snapshot), new
    old, *second = asked.revisions or (None,)
    return _side_of_revision(snapshot, old), _side_of_revision(snapshot, second[0]) if second else live_side(snapshot)


def _side_of_revision(snapshot: Snapshot, number: int | None) -> ComparedSide:
    """`number` None: the newest revision that differs from the live template."""
    need_revisions(snapshot)
    others = other_revisions(snapshot) if number is None else []
    return revision_side(snapshot, others[0] if others else target_of(snapshot, number))
