"""Sets images of containers and init containers, as `kubectl set image` does, and a partition in the same write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from controller.api.formats import IntOrPercent
from controller.api.objects import JSON, JSONObject, Value, value_at
from kubectl_plugin.changes.edit import (
    ROLLING,
    Caution,
    Draft,
    Edit,
    edit_of,
    on_delete_caution,
    pause_caution,
    settings_of,
    with_operations,
)
from kubectl_plugin.errors import CommandError, UsageError
from kubectl_plugin.rollout.diff import object_change_lines
from kubectl_plugin.rollout.snapshot import Snapshot, short_image

EVERY: Final = "*"
_FIELDS: Final = ("initContainers", "containers")


def parse_images(words: Sequence[str]) -> dict[str, str]:
    """Images by container, from `agent=agent:1.9.1`; `*=IMAGE` stands alone, for all. Raises UsageError."""
    images: dict[str, str] = {}
    for word in words:
        container, _, image = word.partition("=")
        if not container or not image or image != image.strip() or " " in image:
            raise UsageError(f'invalid image "{word}": use CONTAINER=IMAGE, or *=IMAGE')
        if images.get(container, image) != image:
            raise UsageError(f"two images for container {container}")
        images[container] = image
    if EVERY in images and len(images) > 1:
        raise UsageError("*=IMAGE means all containers already: leave the others out")
    return images


def set_images(snapshot: Snapshot, images: Mapping[str, str], hold_at: IntOrPercent | None) -> Edit:
    """`hold_at` is the partition to set in the same write, so that no node starts early; ignored for OnDelete. Raises
    CommandError if a container does not exist, or if there are none."""
    places = dict(images_by_container(snapshot.document))
    if not places:
        raise CommandError(f"{snapshot.key.name} has no containers: there is no image to set")
    unknown = [name for name in images if name != EVERY and name not in places]
    if unknown:
        raise _no_such_container(snapshot, places, unknown[0])
    draft = Draft(snapshot.document)
    for name, path in places.items():
        image = images.get(name) or images.get(EVERY)
        if image is not None:
            draft.set(image, *path, "image")
    results = ["image updated"] if draft.operations else []
    rolling = snapshot.daemonset.rolling_update
    if hold_at is not None and rolling is not None and (rolling.partition or 0) != hold_at:
        draft.set(hold_at, *ROLLING, "partition")
        results.append(f"partition {rolling.partition or 0} -> {hold_at}")
    if not draft.operations:
        wanted = ", ".join(dict.fromkeys(short_image(image) for image in images.values()))
        return Edit(result=f"already on {wanted}", operations=())
    cautions = unused_hold_caution(snapshot, hold_at), pause_caution(snapshot)
    lines = object_change_lines(snapshot.document, draft.document)
    return edit_of(snapshot, draft, ", ".join(results), *cautions, details=lines)


def images_by_container(document: JSON) -> Iterator[tuple[str, tuple[str, ...]]]:
    for field in _FIELDS:
        containers = value_at(document, "spec", "template", "spec", field)
        for index, one in enumerate(containers if isinstance(containers, list) else ()):
            if isinstance(one, dict) and isinstance(one.get("name"), str):
                yield str(one["name"]), ("spec", "template", "spec", field, str(index))


def _no_such_container(snapshot: Snapshot, places: Mapping[str, tuple[str, ...]], name: str) -> CommandError:
    init, ones = (", ".join(one for one, path in places.items() if path[3] == field) for field in _FIELDS)
    more = f"; init containers: {init}" if init else ""
    return CommandError(f'{snapshot.key.name} has no container "{name}"; it has: {ones}{more}')


def unused_hold_caution(snapshot: Snapshot, hold_at: IntOrPercent | None) -> Caution | None:
    caution = on_delete_caution(snapshot)
    if caution is None or hold_at is None:
        return caution
    return Caution(text=f"{caution.text}; --hold-at changes nothing", hints=caution.hints)


class TriedSettings(Value):
    """Settings to try; None keeps the live value."""

    partition: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None
    images: Mapping[str, str] = {}
    """By container name; `*` for all."""


def as_tried(snapshot: Snapshot, settings: TriedSettings) -> JSONObject:
    """The document with these settings. Raises CommandError for OnDelete and for unknown containers."""
    draft = Draft(snapshot.document)
    if settings.partition is not None:
        settings_of(snapshot, "plan another partition of")
        draft.set(settings.partition, *ROLLING, "partition")
    if settings.max_unavailable is not None:
        settings_of(snapshot, "plan another maxUnavailable of")
        draft.set(settings.max_unavailable, *ROLLING, "maxUnavailable")
    document = with_operations(snapshot.document, draft.operations)
    return (
        with_operations(document, set_images(snapshot, settings.images, None).operations)
        if settings.images
        else document
    )
