"""`pause`, `resume`, `restart`, `set-image`: one edit of each chosen object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from controller.api.objects import JSONObject
from kubectl_plugin.changes import pausing
from kubectl_plugin.changes import pausing as edits
from kubectl_plugin.changes.images import parse_images, set_images
from kubectl_plugin.cluster.documents import side_by_side
from kubectl_plugin.cluster.installation import who_am_i
from kubectl_plugin.cluster.previews import daemonset_in, with_admission
from kubectl_plugin.cluster.reads import HURRY, completed
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.commands.change_flow import (
    EditOfOne,
    carry_out,
    choose,
    note_failed_reads,
    will_ask,
    with_question,
)
from kubectl_plugin.errors import CommandError, UsageError
from kubectl_plugin.forecast.what_if import TriedSettings, as_tried
from kubectl_plugin.options import PauseOptions, RestartOptions, ResumeOptions, SetImageOptions
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.units import int_or_percent


async def pause(invocation: Invocation, asked: PauseOptions) -> int:
    """Writes one object without a prompt and before other reads: pausing is urgent, and `resume` undoes it."""

    async def whole(documents: Sequence[JSONObject]) -> tuple[Snapshot, ...]:
        found = await completed(invocation, documents, within=HURRY)
        note_failed_reads(invocation, found)
        return found

    async def what_stops(paused: Sequence[JSONObject]) -> list[tuple[str, ...]]:
        return [pausing.what_stops(one) for one in await whole(paused)]

    def change_of(snapshot: Snapshot) -> EditOfOne:
        edit = pausing.pause(snapshot)
        told = pausing.what_stops(snapshot, edit.operations) if shown and edit.operations else ()
        return EditOfOne(snapshot, replace(edit, details=told))

    by, found = await side_by_side(who_am_i(invocation.session), choose(invocation, asked, asked.names, alone=True))
    shown = len(found) > 1 and will_ask(invocation, asked)
    if shown:
        found = await whole([one.document for one in found])
    later = None if shown else what_stops
    return await carry_out(invocation, found, change_of, asked, verb="pause", by=by, told_later=later)


async def resume(invocation: Invocation, asked: ResumeOptions) -> int:
    found = await choose(invocation, asked, asked.names, within=HURRY)
    return await carry_out(invocation, found, lambda one: EditOfOne(one, pausing.resume(one)), asked, verb="resume")


async def restart(invocation: Invocation, asked: RestartOptions) -> int:
    """The nodes to be updated are shown in the prompt; without one, under the result."""
    found = await choose(invocation, asked, asked.names)
    changes = {one.key: EditOfOne(one, edits.restart(one), ask="Continue?") for one in found}
    if will_ask(invocation, asked) and len(found) == 1:
        changes = {key: with_question(change, f"Restart {key.name}?") for key, change in changes.items()}
    return await carry_out(invocation, found, lambda one: changes[one.key], asked, verb="restart")


async def set_image(invocation: Invocation, asked: SetImageOptions) -> int:
    images = parse_images([word for word in asked.words if "=" in word])
    if not images:
        raise UsageError("which image? use set-image NAME CONTAINER=IMAGE, or *=IMAGE")
    hold_at = int_or_percent(asked.hold_at, "--hold-at") if asked.hold_at is not None else None
    chosen = await choose(invocation, asked, tuple(word for word in asked.words if "=" not in word))
    found = [await _with_admission(invocation, one, images) for one in chosen]
    return await carry_out(
        invocation, found, lambda one: EditOfOne(one, set_images(one, images, hold_at)), asked, verb="set-image"
    )


async def _with_admission(invocation: Invocation, snapshot: Snapshot, images: Mapping[str, str]) -> Snapshot:
    try:
        return await with_admission(
            invocation, snapshot, daemonset_in(as_tried(snapshot, TriedSettings(images=images)))
        )
    except CommandError:
        return snapshot  # its own change says why it is refused
