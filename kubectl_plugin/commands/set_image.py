"""`set-image`: patches images of containers, with --hold-at the partition too; a dry run shows what is admitted."""

from __future__ import annotations

from collections.abc import Mapping

from kubectl_plugin.changes.images import TriedSettings, as_tried, parse_images, set_images
from kubectl_plugin.cluster.previews import daemonset_in, with_admission
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.commands.change_flow import carry_out, choose
from kubectl_plugin.commands.consent import PlannedChange
from kubectl_plugin.errors import CommandError, UsageError
from kubectl_plugin.flags import int_or_percent
from kubectl_plugin.options import SetImageOptions
from kubectl_plugin.rollout.snapshot import Snapshot


async def set_image(invocation: Invocation, options: SetImageOptions) -> int:
    images = parse_images([word for word in options.words if "=" in word])
    if not images:
        raise UsageError("which image? use set-image NAME CONTAINER=IMAGE, or *=IMAGE")
    hold_at = int_or_percent(options.hold_at, "--hold-at") if options.hold_at is not None else None
    chosen = await choose(invocation, options, tuple(word for word in options.words if "=" not in word))
    found = [await _with_admission(invocation, snapshot, images) for snapshot in chosen]
    return await carry_out(
        invocation, found, lambda one: PlannedChange(one, set_images(one, images, hold_at)), options, verb="set-image"
    )


async def _with_admission(invocation: Invocation, snapshot: Snapshot, images: Mapping[str, str]) -> Snapshot:
    try:
        return await with_admission(
            invocation, snapshot, daemonset_in(as_tried(snapshot, TriedSettings(images=images)))
        )
    except CommandError:
        return snapshot  # its own change says why it is refused
