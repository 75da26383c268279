"""The DaemonSet after `kubectl apply` of a manifest, or with some settings changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.api.daemonset import DaemonSet
from controller.api.formats import IntOrPercent
from controller.api.objects import JSONObject, Value, fields_of
from kubectl_plugin.changes.edit import ROLLING, Draft, settings_of, with_operations
from kubectl_plugin.changes.images import set_images
from kubectl_plugin.rollout.images import change, images_of
from kubectl_plugin.rollout.snapshot import Snapshot


class TriedSettings(Value):
    """Settings to try; None keeps the live value."""

    partition: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None
    images: Mapping[str, str] = {}
    """By container name; `*` for all."""


def as_tried(snapshot: Snapshot, wish: TriedSettings) -> JSONObject:
    """The document with these settings. Raises CommandError for OnDelete and for unknown containers."""
    draft = Draft(snapshot.document)
    if wish.partition is not None:
        settings_of(snapshot, "plan another partition of")
        draft.set(wish.partition, *ROLLING, "partition")
    if wish.max_unavailable is not None:
        settings_of(snapshot, "plan another maxUnavailable of")
        draft.set(wish.max_unavailable, *ROLLING, "maxUnavailable")
    document = with_operations(snapshot.document, draft.operations)
    return with_operations(document, set_images(snapshot, wish.images, None).operations) if wish.images else document


def differences(live: DaemonSet, planned: DaemonSet) -> tuple[str, ...]:
    """In words, such as `partition 16 -> 0`, `image agent 1.9.0 -> 1.9.1`; empty if both roll out alike."""
    images, wanted = images_of(live.spec.template), images_of(planned.spec.template)
    other = [name for name in wanted if images.get(name, wanted[name]) != wanted[name]]
    found = [f"image {name} {' -> '.join(change(images[name], wanted[name]))}" for name in other]
    if not found and live.identity != planned.identity:
        found.append("another pod template")
    before, after = live.rolling_update, planned.rolling_update
    if (before is None) != (after is None):
        found.append("OnDelete -> RollingUpdate" if before is None else "RollingUpdate -> OnDelete")
    for field, name in _SETTINGS.items():
        old, new = getattr(before, field, None), getattr(after, field, None)
        if old != new and after is not None:
            found.append(f"{name} {_word(old)} -> {_word(new)}")
    if before is not None and after is not None and before.selector != after.selector:
        found.append("another rollingUpdate.selector")
    return tuple(found)


_SETTINGS: Final = {
    "partition": "partition",
    "max_unavailable": "maxUnavailable",
    "max_surge": "maxSurge",
    "paused": "paused",
    "rolling_update_type": "rollingUpdateType",
}


def _word(value: object) -> str:
    return "none" if value in (None, "") else str(value).lower() if isinstance(value, bool) else str(value)


def laid_over(live: JSONObject, manifest: JSONObject) -> JSONObject:
    """`live` with the values of `manifest`, like an apply without the server; lists are replaced whole."""
    merged = dict(live)
    for key, value in manifest.items():
        if value is None or key == "status":
            continue
        merged[key] = laid_over(fields_of(merged.get(key)), value) if isinstance(value, dict) else value
    return merged
