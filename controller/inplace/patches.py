"""Makes the JSON Patch operations that prepare one pod for its deletion, and that take this back, for the pod as it
was just read. All are safe to repeat.

The order in which the containers of a pod get their new images: by the launch priority of OpenKruise.

A container with a priority has the environment variable KRUISE_CONTAINER_BARRIER, from the key `p_<priority>` of a
ConfigMap. Unlike OpenKruise, we write all labels and annotations with the first batch. So a container that reads a
changed label stays in its own batch, and sees all of them when it restarts. OpenKruise writes a label with the batch
of the container that reads it, and puts all readers of that label into one batch.

Makes the JSON Patch operations that update one pod in place, as it was just read. All are safe to repeat.

A resize is a write of its own, to another subresource: see `resize_patches`.

Makes the JSON Patch operations that resize one pod in place, and those before it, for the pod as just read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from controller.api import patch
from controller.api.containers import ContainerStatusView, ContainerView, ResourcesView
from controller.api.in_place import InPlaceState, Resize, Superseded, state_of
from controller.api.names import (
    CONTAINER_BARRIER,
    HASH_LABEL,
    IN_PLACE_STATE_ANNOTATION,
    IN_PLACE_STATE_LEGACY,
    IN_PLACE_UPDATE_READY,
    KRUISE_POD_READY,
    LIFECYCLE_STATE_LABEL,
    LIFECYCLE_TIMESTAMP_ANNOTATION,
    PREPARING_DELETE,
    START_IN_PLACE_UPDATE,
)
from controller.api.objects import JSON, JSONObject, as_bytes, fields_of, items_of, rfc3339
from controller.api.pod import PodView, unfinished_update_of
from controller.api.readiness_gates import closed, with_our_entry, without_our_entry
from controller.api.revision import Revision
from controller.inplace.change import InPlaceChange


def marking(pod: PodView, now: float, *, mark: bool) -> tuple[JSONObject, ...]:
    """Operations on the status that make the pod not ready if `mark` is set and it has the readiness gate; without
    `mark`, that take this back."""
    if not mark:
        return without_our_entry(pod.status.conditions or (), rfc3339(now))
    gates = {gate.condition_type for gate in pod.spec.readiness_gates or ()}
    return with_our_entry(pod.status.conditions or (), rfc3339(now)) if KRUISE_POD_READY in gates else ()


def preparing(pod: PodView, now: float) -> tuple[JSONObject, ...]:
    """Operations that write the state PreparingDelete and its time; none for a pod that is in this state already."""
    meta = pod.metadata
    if (meta.labels or {}).get(LIFECYCLE_STATE_LABEL) == PREPARING_DELETE:
        return ()
    return (
        *patch.merged("labels", {LIFECYCLE_STATE_LABEL: PREPARING_DELETE}, meta.labels),
        *patch.merged("annotations", {LIFECYCLE_TIMESTAMP_ANNOTATION: rfc3339(now)}, meta.annotations),
    )


def cancelling(pod: PodView, labels: Mapping[str, str]) -> tuple[JSONObject, ...]:
    """Operations that take the state back, and set `labels` again."""
    meta = pod.metadata
    if (meta.labels or {}).get(LIFECYCLE_STATE_LABEL) != PREPARING_DELETE:
        return ()
    return (
        *patch.merged("labels", {LIFECYCLE_STATE_LABEL: None, **labels}, meta.labels),
        *patch.merged("annotations", {LIFECYCLE_TIMESTAMP_ANNOTATION: None}, meta.annotations),
    )


def batches_of(containers: Sequence[JSONObject], changed: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """The containers in `changed`, in batches, highest launch priority first. Containers without a priority are in
    the first batch, and so are unknown names."""
    priorities = {str(one.get("name", "")): _priority(one) for one in containers}
    ordered = sorted({priority for priority in priorities.values() if priority is not None}, reverse=True)
    batches = [[name for name in changed if priorities.get(name) == priority] for priority in ordered]
    batches = [batch for batch in batches if batch]
    free = [name for name in changed if priorities.get(name) is None]
    if free:
        batches = [[*free, *batches[0]], *batches[1:]] if batches else [free]
    return tuple(tuple(sorted(batch)) for batch in batches)


def _priority(container: JSONObject) -> int | None:
    for variable in items_of(container.get("env")):
        if variable.get("name") == CONTAINER_BARRIER:
            key = str(fields_of(fields_of(variable.get("valueFrom")).get("configMapKeyRef")).get("key", ""))
            number = key.removeprefix("p_")
            return int(number) if number.removeprefix("-").isdecimal() and len(number) < 12 else None
    return None


_MOST_UNFINISHED = 5
"""Images that are noted for one container at most; a kubelet is never more than one or two updates behind."""


def draining(pod: PodView, now: float) -> tuple[JSONObject, ...]:
    """Operations that make the pod not ready before a container restarts; none without the readiness gate."""
    gates = {gate.condition_type for gate in pod.spec.readiness_gates or ()}
    if IN_PLACE_UPDATE_READY not in gates:
        return ()
    return closed(pod.status.conditions or (), IN_PLACE_UPDATE_READY, START_IN_PLACE_UPDATE, rfc3339(now))


def updating(pod: PodView, revision: Revision, change: InPlaceChange, now: float) -> tuple[JSONObject, ...]:
    """Operations that change labels, annotations, finalizers and the images of the first batch, and that note all
    this in the state annotation."""
    before = state_of(pod.metadata.annotations) or InPlaceState()
    images = {**_left_over(before, revision), **change.images}
    late, unsized = _left_undone(pod, before, now)
    left_labels, left_annotations = _left_metadata(before)
    batches = batches_of(_containers(revision), images)
    first = batches[0] if batches else ()
    waited_for = {name for name in late if name not in images}
    restarting = sorted({*first, *change.rereads, *waited_for})
    unwritten = before.container_resources if unsized else None
    resources = _merged_amounts(amounts_of(unwritten), amounts_of(before.next_container_resources), change.resources)
    state: dict[str, JSON] = {
        "revision": revision.hash,
        "updateTimestamp": rfc3339(now),
        "lastContainerStatuses": _as_it_was(pod, restarting, before, late, change.rereads),
        "updateImages": bool(images),
        "updateResources": bool(resources),
        "updateEnvFromMetadata": bool(change.rereads),
        "containerResources": resources,
        "generation": _generation(pod, {name: images[name] for name in first}) if resources else 0,
        "unfinishedImages": _unfinished(pod, before, late),
        "superseded": _superseded(pod, {name: images[name] for name in first}, Superseded(revision=_hash(pod))),
        **_rest({name: images[name] for batch in batches[1:] for name in batch}, first),
        "containerBatchesRecord": [_batch(restarting, now)],
    }
    labels = {**left_labels, **change.labels, HASH_LABEL: revision.hash}
    annotations = {**left_annotations, **change.annotations, IN_PLACE_STATE_ANNOTATION: encoded(state)}
    return (
        *patch.merged("labels", labels, pod.metadata.labels),
        *patch.merged("annotations", annotations, pod.metadata.annotations),
        *_finalizers(pod, change),
        *swapping(pod, {name: images[name] for name in first}),
    )


def continuing(pod: PodView, revision: Revision, now: float) -> tuple[JSONObject, ...]:
    """Operations for the next batch of containers; none if no batch waits. Resizes of earlier batches are done
    already, or somebody has resized those containers since."""
    known = pod.metadata.annotations or {}
    text, before = known.get(IN_PLACE_STATE_ANNOTATION) or known.get(IN_PLACE_STATE_LEGACY), state_of(known)
    if text is None or before is None:
        return ()
    images = before.next_container_images or {}
    resources = _merged_amounts(amounts_of(before.next_container_resources))
    batches = batches_of(_containers(revision), images)
    first = batches[0] if batches else ()
    late, _ = _left_undone(pod, before, now)
    told = fields_of(msgspec.json.decode(text))
    record = items_of(told.get("containerBatchesRecord"))
    state: dict[str, JSON] = {
        **{key: value for key, value in told.items() if not key.startswith(("next", "preCheck"))},
        "updateTimestamp": rfc3339(now),
        "lastContainerStatuses": _as_it_was(pod, first, before, late),
        "updateResources": bool(resources),
        "containerResources": resources,
        "generation": _generation(pod, {name: images[name] for name in first}) if resources else 0,
        "unfinishedImages": _unfinished(pod, before, late),
        "superseded": _superseded(pod, {name: images[name] for name in first}, before.superseded),
        **_rest({name: images[name] for batch in batches[1:] for name in batch}, first),
        "containerBatchesRecord": [*record, _batch(first, now)],
    }
    labels, annotations = _left_metadata(before)
    return (
        *patch.merged("labels", labels, pod.metadata.labels),
        *patch.merged(
            "annotations", {**annotations, IN_PLACE_STATE_ANNOTATION: encoded(state)}, pod.metadata.annotations
        ),
        *swapping(pod, {name: images[name] for name in first}),
    )


def _left_over(before: InPlaceState, revision: Revision) -> dict[str, str]:
    """Images that an earlier update has not written yet."""
    waiting = before.next_container_images or {}
    return {name: image for name, image in _images_of(revision).items() if name in waiting}


def _left_metadata(before: InPlaceState) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations that an earlier update has not written yet, as OpenKruise stores them."""
    parts = [fields_of(one) for one in fields_of(before.next_container_ref_metadata).values()]
    labels = {key: str(one) for part in parts for key, one in fields_of(part.get("labels")).items()}
    annotations = {key: str(one) for part in parts for key, one in fields_of(part.get("annotations")).items()}
    return labels, annotations


def _left_undone(pod: PodView, before: InPlaceState, now: float) -> tuple[Collection[str], bool]:
    """Containers that may not run yet what the last update asked for, including those of later batches; and whether a
    resize is not done yet."""
    late = (before.unfinished_images or {}).keys() & (before.next_container_images or {}).keys()
    in_progress = unfinished_update_of(pod, before)
    if in_progress is None or not in_progress.is_pending(now):
        return late, False
    return {*in_progress.restarting, *late}, in_progress.resize is not None


def _generation(pod: PodView, images: Mapping[str, str]) -> int:
    """The generation of the pod after these images are written; 0 if the server does not count it."""
    before = pod.metadata.generation
    changes = any(images.get(one.name, one.image) != one.image for one in pod.spec.containers or ())
    return before + changes if before else 0


def _unfinished(pod: PodView, before: InPlaceState, late: Collection[str]) -> JSONObject:
    """Images that earlier updates asked for and no container runs yet, by container. The kubelet may still start each
    of them."""
    earlier = before.unfinished_images or {}
    return {
        one.name: list[JSON](dict.fromkeys((*earlier.get(one.name, ()), one.image)))[-_MOST_UNFINISHED:]
        for one in pod.spec.containers or ()
        if one.name in late
    }


def _as_it_was(
    pod: PodView,
    names: Collection[str],
    before: InPlaceState,
    late: Collection[str],
    rereads: Collection[str] = (),
) -> JSONObject:
    shown = {one.name: one for one in pod.status.container_statuses or ()}
    asked = {one.name: one.image for one in (pod.spec.containers or ())}
    earlier = before.last_container_statuses or {}
    for name in late:
        same = name in earlier and name in shown and earlier[name].container_id == shown[name].container_id
        asked[name] = earlier[name].image if same else ""
    asked |= {name: "" for name in rereads if name not in late}  # restarts although its image does not change
    known = {name: shown.get(name, ContainerStatusView()) for name in names}
    return {
        name: {
            "imageID": one.image_id,
            "containerID": one.container_id,
            "restartCount": one.restart_count,
            "image": asked.get(name, ""),
        }
        for name, one in known.items()
    }


def _superseded(pod: PodView, images: Mapping[str, str], before: Superseded) -> JSONObject:
    """The images that were superseded `before`, and those that these images supersede."""
    changed = {
        one.name: one.image for one in pod.spec.containers or () if images.get(one.name, one.image) != one.image
    }
    known: JSONObject = {**before.images, **changed}
    found: JSONObject = {"revision": before.revision, "images": known}
    return {key: one for key, one in found.items() if one}


def _hash(pod: PodView) -> str:
    return (pod.metadata.labels or {}).get(HASH_LABEL, "")


def _rest(images: Mapping[str, str], first: Collection[str]) -> dict[str, JSON]:
    """The part of the state that waits until the first batch is done."""
    if not images:
        return {}
    return {
        "nextContainerImages": dict(images),
        "preCheckBeforeNext": {"containersRequiredReady": list[JSON](sorted(first))},
    }


def _batch(names: Collection[str], now: float) -> JSONObject:
    return {"timestamp": rfc3339(now), "containers": list[JSON](sorted(names))}


def encoded(state: Mapping[str, JSON]) -> str:
    """The state as JSON. Empty fields are left out, as OpenKruise does."""
    always = ("revision", "updateTimestamp", "lastContainerStatuses")
    return as_bytes({key: one for key, one in state.items() if one or key in always}).decode()


def _finalizers(pod: PodView, change: InPlaceChange) -> Iterable[JSONObject]:
    have = pod.metadata.finalizers or ()
    kept = [one for one in have if one not in change.removed_finalizers]
    wanted = [*kept, *(one for one in change.added_finalizers if one not in kept)]
    return [] if wanted == list(have) else [patch.add(list[JSON](wanted), "metadata", "finalizers")]


def swapping(pod: PodView, images: Mapping[str, str]) -> Iterable[JSONObject]:
    """Operations that give these containers their images."""
    return [
        patch.add(images[container.name], "spec", "containers", str(index), "image")
        for index, container in enumerate(pod.spec.containers or ())
        if container.name in images
    ]


def _merged_amounts(*parts: Mapping[str, JSONObject]) -> dict[str, JSON]:
    """Resources merged from all parts. A later part wins; what it does not mention stays: it may not be written
    yet."""
    found: dict[str, JSON] = {}
    for part in parts:
        for name, kinds in part.items():
            have = fields_of(found.get(name))
            more = {kind: {**fields_of(have.get(kind)), **fields_of(amounts)} for kind, amounts in kinds.items()}
            found[name] = {**have, **more}
    return found


def amounts_of(resources: Mapping[str, ResourcesView] | None) -> dict[str, JSONObject]:
    """The resources as JSON, by container, without empty ones."""
    found: dict[str, JSONObject] = {}
    for name, one in (resources or {}).items():
        kinds = {"limits": one.limits, "requests": one.requests}
        found[name] = {kind: dict[str, JSON](amounts) for kind, amounts in kinds.items() if amounts}
    return found


def _containers(revision: Revision) -> list[JSONObject]:
    return items_of(fields_of(revision.template.get("spec")).get("containers"))


def _images_of(revision: Revision) -> dict[str, str]:
    return {str(one.get("name", "")): str(one.get("image", "")) for one in _containers(revision)}


def resizing(pod: PodView) -> tuple[JSONObject, ...]:
    """Operations for `pods/resize`: the resources in the state annotation that are not written to the pod yet."""
    state = state_of(pod.metadata.annotations)
    if state is None or not _is_to_be_resized(pod, state):
        return ()
    return asking(pod, amounts_of(state.container_resources))


def asking(pod: PodView, asked: Mapping[str, JSONObject]) -> tuple[JSONObject, ...]:
    """Operations for `pods/resize` that give these containers their amounts."""
    return tuple(
        operation
        for index, container in enumerate(pod.spec.containers or ())
        if container.name in asked
        for operation in _amounts(index, asked[container.name], container.resources)
    )


def is_resized_by_restart(pod: PodView) -> bool:
    """Whether the operations of `resizing` restart a container."""
    state = state_of(pod.metadata.annotations)
    asked = amounts_of(state.container_resources if state is not None else None)
    return any(
        _ends(container, asked[container.name]) for container in pod.spec.containers or () if container.name in asked
    )


def counting(pod: PodView) -> tuple[JSONObject, ...]:
    """Operations that set the generation in the state to that of the pod, if somebody else has changed its spec since
    our update; otherwise that change would be taken for our resize. No operations if nobody has."""
    known, generation = pod.metadata.annotations or {}, pod.metadata.generation
    state = state_of(known)
    if state is None or not 0 < state.generation < generation or not _is_to_be_resized(pod, state):
        return ()
    text = known.get(IN_PLACE_STATE_ANNOTATION) or known[IN_PLACE_STATE_LEGACY]
    renewed = encoded({**fields_of(msgspec.json.decode(text)), "generation": generation})
    return tuple(patch.merged("annotations", {IN_PLACE_STATE_ANNOTATION: renewed}, known))


def _ends(container: ContainerView, asked: JSONObject) -> bool:
    policies = container.resize_policy or ()
    restarting = {one.resource_name for one in policies if one.restart_policy == "RestartContainer"}
    have = amounts_of({container.name: container.resources or ResourcesView()})[container.name]
    return any(
        key in restarting and fields_of(have.get(kind)).get(key) != amount
        for kind, amounts in asked.items()
        for key, amount in fields_of(amounts).items()
    )


def _is_to_be_resized(pod: PodView, state: InPlaceState) -> bool:
    in_progress = unfinished_update_of(pod, state)
    return in_progress is not None and in_progress.resize is Resize.PROPOSED


def _amounts(index: int, asked: JSONObject, have: ResourcesView | None) -> Iterable[JSONObject]:
    path = ("spec", "containers", str(index), "resources")
    if have is None:
        yield patch.add(asked, *path)
        return
    for kind, amounts in asked.items():
        if (have.limits if kind == "limits" else have.requests) is None:
            yield patch.add(amounts, *path, kind)
        else:
            yield from (patch.add(amount, *path, kind, key) for key, amount in fields_of(amounts).items())
