"""`set-partition` patches `rollingUpdate.partition`, and prints how many nodes that lets be updated; `set-image`
patches images of containers, with --hold-at the partition too. A dry run shows what is admitted."""

from __future__ import annotations

import re
from collections.abc import Mapping

from controller.api.formats import IntOrPercent
from kubectl_plugin.changes import settings as edits
from kubectl_plugin.changes.settings import TriedSettings, as_tried, parse_images, set_images
from kubectl_plugin.cluster.previews import daemonset_in, with_admission
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.commands.change_flow import carry_out, choose
from kubectl_plugin.commands.consent import PlannedChange
from kubectl_plugin.errors import CommandError, ExitCode, UsageError
from kubectl_plugin.flags import int_or_percent
from kubectl_plugin.options import SetImageOptions, SetPartitionOptions
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.wording import command

_VALUE = re.compile(r"[0-9]+%?")
"""With --update, such a word is a mistyped value, although it could be a name."""


async def set_partition(invocation: Invocation, options: SetPartitionOptions) -> ExitCode:
    names, value = _names_and_value(options)

    def change_of(snapshot: Snapshot) -> PlannedChange:
        return PlannedChange(snapshot, edits.set_partition(snapshot, value, of_nodes=options.update is not None))

    found = await choose(invocation, options, names)
    return await carry_out(invocation, found, change_of, options, verb="set-partition")


def _names_and_value(options: SetPartitionOptions) -> tuple[tuple[str, ...], IntOrPercent]:
    """The value is the last word, or that of --update. Raises UsageError."""
    words, update = options.words, options.update
    if len(words) + (update is not None) < (1 if options.by_selection else 2):
        raise UsageError(
            "which one, and how many pods stay old? use set-partition NAME VALUE",
            hints=(command("set-partition NAME --update 1", to="or in nodes to update"),),
        )
    if update is None:
        return words[:-1], int_or_percent(words[-1], "partition")
    if words and _VALUE.fullmatch(words[-1]):
        raise UsageError("give VALUE or --update, not both")
    return words, int_or_percent(update, "--update")


async def set_image(invocation: Invocation, options: SetImageOptions) -> ExitCode:
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
