"""Judges whether an update in place would undo what admission did to a pod at its creation.

A webhook or a policy that changes pods when they are created often leaves later writes alone: the values of the
template would then take the place of its own. A pod has such values where it does not have those of its own revision.
Dry runs of the writes show what admission makes of the new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec.structs import replace

from controller.api.containers import ResourcesView
from controller.api.in_place import Resize, state_of
from controller.api.objects import OURS, JSONObject, Value, fields_of, value_at
from controller.api.pod import ManagedPodView, PodView, unfinished_update_of
from controller.api.revision import Revision
from controller.inplace.change import InPlaceChange, amount_of
from controller.inplace.patches import amounts_of, swapping, updating

IMAGE_UNDONE = "admission changes their image at creation, and would not change the new one"
RESOURCES_UNDONE = "admission changes their cpu or memory at creation, and would not change the new amounts"
CONTAINER_MISSING = "admission renamed or removed a container at creation that would get a new image"
UPDATE_REFUSED = "admission changed them at creation, and the server refuses to update what came of that in place"

Amount: TypeAlias = tuple[str, str, str]
"""One amount of a container: its name, `limits` or `requests`, and the resource."""


class ByAdmission(Value):
    """What the pod has of admission, of that which an update in place changes. Without any of it `bool` is False."""

    images: Mapping[str, str] = {}
    """Images by container."""
    amounts: frozenset[Amount] = frozenset()
    missing: frozenset[str] = frozenset()
    """Containers that the pod does not have."""

    def __bool__(self) -> bool:
        return bool(self.images or self.amounts or self.missing)


def by_admission(pod: ManagedPodView, change: InPlaceChange, moved: frozenset[str] = frozenset()) -> ByAdmission:
    """The values of the pod that are neither those of its own revision nor the new ones. Those that an earlier update
    has still to write, and amounts that somebody has resized since, are not of admission. Images that get one of
    `moved` are: whatever the pod has, admission changes the new one in a pod that is created now."""
    state = state_of(pod.metadata.annotations)
    waiting = (state.next_container_images if state is not None else None) or {}
    has, unsized, sized = _images(pod), _unsized(pod), _amounts_in(pod)
    asked, before = _amounts(change.resources), _amounts(change.old_resources)
    return ByAdmission(
        images={
            name: has[name]
            for name, image in change.old_images.items()
            if name in has
            and has[name] != change.images[name]
            and (change.images[name] in moved or (has[name] != image and name not in waiting))
        },
        amounts=frozenset(
            one
            for one, amount in asked.items()
            if one[0] in has
            and one[0] not in unsized
            and sized.get(one, "") not in (amount, before.get(one, ""))
            and not _is_resized_by_others(pod, one)
        ),
        missing=frozenset({*change.images, *change.resources} - has.keys()),
    )


def swapping_all(pod: PodView, revision: Revision, change: InPlaceChange, now: float) -> tuple[JSONObject, ...]:
    """Operations for a dry run of the update that writes all images at once, whatever their launch priority."""
    return (*updating(pod, revision, change, now), *swapping(pod, change.images))


def image_undone(found: ByAdmission, change: InPlaceChange, shown: PodView) -> str:
    """Why the new images would undo what admission did; empty: they would not. `shown`: the pod after a dry run of
    `swapping_all`. An image is undone if admission leaves the new one as it is, or puts the old one back."""
    after = _images(shown)
    undone = any(after.get(name) in (image, change.images[name]) for name, image in found.images.items())
    return IMAGE_UNDONE if undone else ""


def amount_undone(found: ByAdmission, change: InPlaceChange, shown: PodView) -> str:
    """The same of the amounts. `shown`: the pod after a dry run of the resize. An amount that stays is no harm: what
    admission recommends need not depend on the template."""
    after, asked = _amounts_in(shown), _amounts(change.resources)
    return RESOURCES_UNDONE if any(after.get(one, "") == asked[one] for one in found.amounts) else ""


def as_admitted(change: InPlaceChange, shown: PodView) -> InPlaceChange:
    """The change with the amounts that admission makes of its own, by a dry run of the resize. Otherwise the resize
    would never be done: admission changes it each time."""
    after = amounts_of({one.name: one.resources or ResourcesView() for one in shown.spec.containers or ()})
    resources = {
        name: {
            kind: {key: fields_of(fields_of(after.get(name)).get(kind)).get(key, amount) for key, amount in asked}
            for kind, asked in ((kind, fields_of(amounts).items()) for kind, amounts in kinds.items())
        }
        for name, kinds in change.resources.items()
    }
    return replace(change, resources=resources)


def _images(pod: PodView) -> dict[str, str]:
    return {one.name: one.image for one in pod.spec.containers or ()}


def _amounts(resources: Mapping[str, JSONObject]) -> dict[Amount, str]:
    return {
        (name, kind, key): amount_of(fields_of(amounts), key)
        for name, kinds in resources.items()
        for kind, amounts in kinds.items()
        for key in fields_of(amounts)
    }


def _amounts_in(pod: PodView) -> dict[Amount, str]:
    return _amounts(amounts_of({one.name: one.resources or ResourcesView() for one in pod.spec.containers or ()}))


def _unsized(pod: PodView) -> frozenset[str]:
    """Containers whose resize by an earlier update is not written yet."""
    state = state_of(pod.metadata.annotations)
    if state is None:
        return frozenset()
    in_progress = unfinished_update_of(pod, state)
    unwritten = (
        state.container_resources if in_progress is not None and in_progress.resize is Resize.PROPOSED else None
    )
    return frozenset({**(unwritten or {}), **(state.next_container_resources or {})})


def _is_resized_by_others(pod: ManagedPodView, amount: Amount) -> bool:
    name, kind, key = amount
    path = ("f:spec", "f:containers", f'k:{{"name":"{name}"}}', "f:resources", f"f:{kind}", f"f:{key}")
    entries = pod.metadata.managed_fields or ()
    theirs = [one.fields_v1 for one in entries if one.subresource == "resize" and one.manager != OURS]
    return any(value_at(fields, *path) is not None for fields in theirs)
