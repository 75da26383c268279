"""Judges whether an update in place would undo what admission did to a pod at its creation.

Webhooks and policies that mutate pods at creation often ignore later writes, so the template's values would replace
theirs: values that differ from the pod's own revision. Dry runs show what admission does to new values.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from controller.api.in_place import Resize, state_of
from controller.api.objects import FIELD_MANAGER, JSON, JSONObject, Value, value_at
from controller.api.pod import ManagedPodView, PodView, unfinished_update_of
from controller.api.revision import Revision
from controller.inplace.change import Amount, InPlaceChange, amounts_in, by_container, canonical_amount
from controller.inplace.patches import pod_amounts, set_images, updating

IMAGE_UNDONE = "admission changes their image at creation, and would not change the new one"
RESOURCES_UNDONE = "admission changes their cpu or memory at creation, and would not change the new amounts"
CONTAINER_MISSING = "admission renamed or removed a container at creation that would get a new image"
UPDATE_REFUSED = "admission changed them at creation, and the server refuses to update what came of that in place"


class ByAdmission(Value):
    """The values set by admission among those that an update in place changes. False if there are none."""

    images: Mapping[str, str] = {}
    amounts: frozenset[Amount] = frozenset()
    missing: frozenset[str] = frozenset()
    """Containers that the pod does not have."""

    def __bool__(self) -> bool:
        return bool(self.images or self.amounts or self.missing)


def by_admission(
    pod: ManagedPodView, change: InPlaceChange, mutated_images: frozenset[str] = frozenset()
) -> ByAdmission:
    """The pod's values that differ from those of its revision and from the new ones, except values that an earlier
    update has not written yet and resizes by another client. An image counts too if its new one is in
    `mutated_images`, which admission replaces in new pods."""
    state = state_of(pod.metadata.annotations)
    waiting = (state.next_container_images if state is not None else None) or {}
    has, unsized, sized = _images(pod), _unsized(pod), _canonical(pod_amounts(pod))
    asked, before = _canonical(amounts_in(change.resources)), _canonical(amounts_in(change.old_resources))
    return ByAdmission(
        images={
            name: has[name]
            for name, image in change.old_images.items()
            if name in has
            and has[name] != change.images[name]
            and (change.images[name] in mutated_images or (has[name] != image and name not in waiting))
        },
        amounts=frozenset(
            where
            for where, amount in asked.items()
            if where[0] in has
            and where[0] not in unsized
            and sized.get(where, "") not in (amount, before.get(where, ""))
            and not _is_resized_by_others(pod, where)
        ),
        missing=frozenset({*change.images, *change.resources} - has.keys()),
    )


def updating_all_images(
    pod: PodView, revision: Revision, change: InPlaceChange, now: float
) -> tuple[JSONObject, ...]:
    """Operations for a dry run of the update with all images at once, regardless of launch priority."""
    return (*updating(pod, revision, change, now), *set_images(pod, change.images))


def image_undone(found: ByAdmission, change: InPlaceChange, shown: PodView) -> str:
    """Why the new images would undo admission; empty if they would not. They do if `shown`, the pod after a dry run
    of `updating_all_images`, has the new or the old image."""
    after = _images(shown)
    undone = any(after.get(name) in (image, change.images[name]) for name, image in found.images.items())
    return IMAGE_UNDONE if undone else ""


def amount_undone(found: ByAdmission, change: InPlaceChange, shown: PodView) -> str:
    """Like `image_undone` for the resize. Admission may keep an amount, as it need not depend on the template."""
    after, asked = _canonical(pod_amounts(shown)), _canonical(amounts_in(change.resources))
    return RESOURCES_UNDONE if any(after.get(where, "") == asked[where] for where in found.amounts) else ""


def as_admitted(change: InPlaceChange, shown: PodView) -> InPlaceChange:
    """The change with the amounts that admission sets in a dry run; a resize to others would never be done."""
    after = pod_amounts(shown)
    amounts = {where: after.get(where, amount) for where, amount in amounts_in(change.resources).items()}
    return replace(change, resources=by_container(amounts))


def _images(pod: PodView) -> dict[str, str]:
    return {container.name: container.image for container in pod.spec.containers or ()}


def _canonical(amounts: Mapping[Amount, JSON]) -> dict[Amount, str]:
    return {where: canonical_amount(amount) for where, amount in amounts.items()}


def _unsized(pod: PodView) -> frozenset[str]:
    """Containers whose resize by an earlier update is not written yet."""
    state = state_of(pod.metadata.annotations)
    if state is None:
        return frozenset()
    in_progress = unfinished_update_of(pod, state)
    proposed = in_progress is not None and in_progress.resize is Resize.PROPOSED
    unwritten = state.container_resources if proposed else None
    return frozenset({**(unwritten or {}), **(state.next_container_resources or {})})


def _is_resized_by_others(pod: ManagedPodView, amount: Amount) -> bool:
    name, kind, key = amount
    path = ("f:spec", "f:containers", f'k:{{"name":"{name}"}}', "f:resources", f"f:{kind}", f"f:{key}")
    entries = pod.metadata.managed_fields or ()
    theirs = [
        entry.fields_v1 for entry in entries if entry.subresource == "resize" and entry.manager != FIELD_MANAGER
    ]
    return any(value_at(fields, *path) is not None for fields in theirs)
