"""JSON Patch operations for a running pod as just read: update in place, resize, steps before deletion. Repeatable.

Images are written in batches by OpenKruise launch priority: the variable KRUISE_CONTAINER_BARRIER, from the ConfigMap
key `p_<priority>`. Unlike in OpenKruise, the first batch has all labels and annotations, so that a restarting
container reads all new ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from controller.api import names, patch
from controller.api.containers import ContainerStatusView, ResourcesView
from controller.api.in_place import InPlaceState, Resize, Superseded, state_of, state_text
from controller.api.objects import JSON, JSONObject, as_bytes, fields_of, items_of, rfc3339
from controller.api.pod import PodView, unfinished_update_of
from controller.api.readiness_gates import closed, with_our_entry, without_our_entry
from controller.api.revision import Revision
from controller.inplace.change import Amount, InPlaceChange, amounts_in, by_container

_MOST_UNFINISHED = 5
"""Images recorded per container; a kubelet is at most one or two updates behind."""


def draining(pod: PodView, now: float) -> tuple[JSONObject, ...]:
    """Operations to make the pod not ready before a container restarts; none without the readiness gate."""
    if not _has_gate(pod, names.IN_PLACE_UPDATE_READY):
        return ()
    conditions = pod.status.conditions or ()
    return closed(conditions, names.IN_PLACE_UPDATE_READY, names.START_IN_PLACE_UPDATE, rfc3339(now))


def updating(pod: PodView, revision: Revision, change: InPlaceChange, now: float) -> tuple[JSONObject, ...]:
    """Operations to write metadata, finalizers and images of the first batch, and to record them in the state."""
    before = state_of(pod.metadata.annotations) or InPlaceState()
    unwritten = before.next_container_images or {}
    left = {
        str(container["name"]): str(container.get("image", ""))
        for container in _containers(revision)
        if container.get("name") in unwritten
    }
    images = {**left, **change.images}
    late, unsized = _unfinished_parts(pod, before, now)
    sizes = {
        **(amounts_of(before.container_resources) if unsized else {}),
        **amounts_of(before.next_container_resources),
        **amounts_in(change.resources),
    }
    written, state = _batch(
        pod,
        revision,
        images,
        sizes,
        msgspec.structs.replace(before, superseded=Superseded(revision=_hash(pod))),
        late,
        now,
        rereads=change.rereads,
        awaited={name for name in late if name not in images},
    )
    state |= {"revision": revision.hash, "updateImages": bool(images), "updateEnvFromMetadata": bool(change.rereads)}
    state["restartCounts"] = _restart_counts(pod, [*late, *images, *change.rereads, *{name for name, *_ in sizes}])
    left_labels, left_annotations = _unwritten_metadata(before)
    labels = {**left_labels, **change.labels, names.HASH_LABEL: revision.hash}
    return (
        *_metadata(pod, labels, {**left_annotations, **change.annotations}, state),
        *_finalizers(pod, change),
        *set_images(pod, written),
    )


def continuing(pod: PodView, revision: Revision, now: float) -> tuple[JSONObject, ...]:
    """Operations for the next batch, if any. Earlier resizes are done, or reverted by another client."""
    before, known = state_of(pod.metadata.annotations), _recorded(pod)
    if before is None or not known:
        return ()
    images, late = before.next_container_images or {}, _unfinished_parts(pod, before, now)[0]
    written, state = _batch(pod, revision, images, amounts_of(before.next_container_resources), before, late, now)
    batches: list[JSON] = [*items_of(known.get("containerBatchesRecord")), *items_of(state["containerBatchesRecord"])]
    kept = {key: value for key, value in known.items() if not key.startswith(("next", "preCheck"))}
    labels, annotations = _unwritten_metadata(before)
    return (
        *_metadata(pod, labels, annotations, {**kept, **state, "containerBatchesRecord": batches}),
        *set_images(pod, written),
    )


def resizing(pod: PodView) -> tuple[JSONObject, ...]:
    """Operations for `pods/resize` with the resources in the state annotation that are not written yet."""
    state = state_of(pod.metadata.annotations)
    if state is None or not _is_to_be_resized(pod, state):
        return ()
    return resize_operations(pod, by_container(amounts_of(state.container_resources)))


def resize_operations(pod: PodView, resources: Mapping[str, JSONObject]) -> tuple[JSONObject, ...]:
    found: list[JSONObject] = []
    for index, container in enumerate(pod.spec.containers or ()):
        path, have = ("spec", "containers", str(index), "resources"), container.resources
        if have is None:
            found += [patch.add(resources[container.name], *path)] if container.name in resources else []
            continue
        for kind, amounts in resources.get(container.name, {}).items():
            if (have.limits if kind == "limits" else have.requests) is None:
                found.append(patch.add(amounts, *path, kind))
            else:
                found += [patch.add(amount, *path, kind, key) for key, amount in fields_of(amounts).items()]
    return tuple(found)


def is_resized_by_restart(pod: PodView) -> bool:
    """Whether the operations of `resizing` restart a container."""
    state = state_of(pod.metadata.annotations)
    asked, have = amounts_of(state.container_resources if state is not None else None), pod_amounts(pod)
    restarting = {
        (container.name, policy.resource_name)
        for container in pod.spec.containers or ()
        for policy in container.resize_policy or ()
        if policy.restart_policy == "RestartContainer"
    }
    return any((where[0], where[2]) in restarting and have.get(where) != amount for where, amount in asked.items())


def updating_generation(pod: PodView) -> tuple[JSONObject, ...]:
    """Operations to record the generation after another client changed the spec: otherwise that change would be taken
    for our resize."""
    generation, state = pod.metadata.generation, state_of(pod.metadata.annotations)
    if state is None or not 0 < state.generation < generation or not _is_to_be_resized(pod, state):
        return ()
    return _metadata(pod, {}, {}, {**_recorded(pod), "generation": generation})


def marking(pod: PodView, now: float, *, mark: bool) -> tuple[JSONObject, ...]:
    """Status operations that make a pod with the readiness gate not ready for its deletion, or revert that."""
    conditions, stamp = pod.status.conditions or (), rfc3339(now)
    if not mark:
        return without_our_entry(conditions, stamp)
    return with_our_entry(conditions, stamp) if _has_gate(pod, names.KRUISE_POD_READY) else ()


def preparing(pod: PodView, now: float) -> tuple[JSONObject, ...]:
    """Operations to write the state PreparingDelete and its time; none if the pod has it."""
    meta = pod.metadata
    if (meta.labels or {}).get(names.LIFECYCLE_STATE_LABEL) == names.PREPARING_DELETE:
        return ()
    return (
        *patch.merged("labels", {names.LIFECYCLE_STATE_LABEL: names.PREPARING_DELETE}, meta.labels),
        *patch.merged("annotations", {names.LIFECYCLE_TIMESTAMP_ANNOTATION: rfc3339(now)}, meta.annotations),
    )


def cancelling(pod: PodView, labels: Mapping[str, str]) -> tuple[JSONObject, ...]:
    """Operations to remove the state PreparingDelete and set `labels`; none if the pod does not have it."""
    meta = pod.metadata
    if (meta.labels or {}).get(names.LIFECYCLE_STATE_LABEL) != names.PREPARING_DELETE:
        return ()
    return (
        *patch.merged("labels", {names.LIFECYCLE_STATE_LABEL: None, **labels}, meta.labels),
        *patch.merged("annotations", {names.LIFECYCLE_TIMESTAMP_ANNOTATION: None}, meta.annotations),
    )


def batches_of(containers: Sequence[JSONObject], changed: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """`changed` in batches, highest priority first. The first includes names without a priority and unknown names."""
    priorities = {str(container.get("name", "")): _priority(container) for container in containers}
    batches: dict[int, list[str]] = {}
    for name in changed:
        if (priority := priorities.get(name)) is not None:
            batches.setdefault(priority, []).append(name)
    free = [name for name in changed if priorities.get(name) is None]
    first, *later = [batches[priority] for priority in sorted(batches, reverse=True)] or [[]]
    return tuple(tuple(sorted(batch)) for batch in ([*free, *first], *later) if batch)


def _priority(container: JSONObject) -> int | None:
    for variable in items_of(container.get("env")):
        if variable.get("name") == names.CONTAINER_BARRIER:
            key = str(fields_of(fields_of(variable.get("valueFrom")).get("configMapKeyRef")).get("key", ""))
            number = key.removeprefix("p_")
            return int(number) if number.removeprefix("-").isdecimal() and len(number) < 12 else None
    return None


def _batch(
    pod: PodView,
    revision: Revision,
    images: Mapping[str, str],
    resources: Mapping[Amount, JSON],
    before: InPlaceState,
    late: Collection[str],
    now: float,
    *,
    rereads: Collection[str] = (),
    awaited: Collection[str] = (),
) -> tuple[dict[str, str], dict[str, JSON]]:
    """Images of the first batch, and its state. `awaited` containers still have to restart for an earlier update."""
    first, *later = batches_of(_containers(revision), images) or ((),)
    written = {name: images[name] for name in first}
    restarting = sorted({*first, *rereads, *awaited})
    state: dict[str, JSON] = {
        "updateTimestamp": rfc3339(now),
        "lastContainerStatuses": _last_statuses(pod, restarting, before, late, rereads),
        "updateResources": bool(resources),
        "containerResources": dict[str, JSON](by_container(resources)),
        "generation": _generation_with(pod, written) if resources else 0,
        "unfinishedImages": _unfinished_images(pod, before, late),
        "superseded": _superseded(pod, written, before.superseded),
        "containerBatchesRecord": [{"timestamp": rfc3339(now), "containers": list[JSON](restarting)}],
    }
    if later:
        state["nextContainerImages"] = {name: images[name] for batch in later for name in batch}
        state["preCheckBeforeNext"] = {"containersRequiredReady": list[JSON](first)}
    return written, state


def _metadata(
    pod: PodView, labels: Mapping[str, str | None], annotations: Mapping[str, str | None], state: Mapping[str, JSON]
) -> tuple[JSONObject, ...]:
    """Operations to write labels, annotations and the state, without empty fields, as in OpenKruise."""
    always = ("revision", "updateTimestamp", "lastContainerStatuses")
    text = as_bytes({key: value for key, value in state.items() if value or key in always}).decode()
    return (
        *patch.merged("labels", labels, pod.metadata.labels),
        *patch.merged(
            "annotations", {**annotations, names.IN_PLACE_STATE_ANNOTATION: text}, pod.metadata.annotations
        ),
    )


def _recorded(pod: PodView) -> JSONObject:
    text = state_text(pod.metadata.annotations or {})
    return fields_of(msgspec.json.decode(text)) if text is not None else {}


def _unwritten_metadata(before: InPlaceState) -> tuple[dict[str, str], dict[str, str]]:
    parts = [fields_of(part) for part in fields_of(before.next_container_ref_metadata).values()]
    labels = {key: str(value) for part in parts for key, value in fields_of(part.get("labels")).items()}
    annotations = {key: str(value) for part in parts for key, value in fields_of(part.get("annotations")).items()}
    return labels, annotations


def _unfinished_parts(pod: PodView, before: InPlaceState, now: float) -> tuple[Collection[str], bool]:
    """Containers that may not run what the last update asked for, and whether a resize is unfinished."""
    late = (before.unfinished_images or {}).keys() & (before.next_container_images or {}).keys()
    in_progress = unfinished_update_of(pod, before)
    if in_progress is None or not in_progress.is_pending(now):
        return late, False
    return {*in_progress.restarting, *late}, in_progress.resize is not None


def _is_to_be_resized(pod: PodView, state: InPlaceState) -> bool:
    in_progress = unfinished_update_of(pod, state)
    return in_progress is not None and in_progress.resize is Resize.PROPOSED


def _generation_with(pod: PodView, images: Mapping[str, str]) -> int:
    """The pod's generation after these images are written; 0 if the server does not count generations."""
    before = pod.metadata.generation
    changes = any(
        images.get(container.name, container.image) != container.image for container in pod.spec.containers or ()
    )
    return before + changes if before else 0


def _unfinished_images(pod: PodView, before: InPlaceState, late: Collection[str]) -> JSONObject:
    """Images of earlier updates, by container, that no container runs yet. The kubelet may still start any."""
    earlier = before.unfinished_images or {}
    return {
        container.name: list[JSON](dict.fromkeys((*earlier.get(container.name, ()), container.image)))[
            -_MOST_UNFINISHED:
        ]
        for container in pod.spec.containers or ()
        if container.name in late
    }


def _last_statuses(
    pod: PodView, containers: Collection[str], before: InPlaceState, late: Collection[str], rereads: Collection[str]
) -> JSONObject:
    shown = {status.name: status for status in pod.status.container_statuses or ()}
    asked = {container.name: container.image for container in pod.spec.containers or ()}
    earlier = before.last_container_statuses or {}
    for name in late:
        same = name in earlier and name in shown and earlier[name].container_id == shown[name].container_id
        asked[name] = earlier[name].image if same else ""
    asked |= {name: "" for name in rereads if name not in late}  # restarts although its image does not change
    return {
        name: {
            "imageID": status.image_id,
            "containerID": status.container_id,
            "restartCount": status.restart_count,
            "image": asked.get(name, ""),
        }
        for name, status in ((name, shown.get(name, ContainerStatusView())) for name in containers)
    }


def _restart_counts(pod: PodView, restarting: Sequence[str]) -> JSONObject:
    """A container named twice still has to restart for an earlier update too."""
    shown = {status.name: status.restart_count for status in pod.status.container_statuses or ()}
    return {
        container.name: shown.get(container.name, 0) + restarting.count(container.name)
        for container in pod.spec.containers or ()
    }


def _superseded(pod: PodView, images: Mapping[str, str], before: Superseded) -> JSONObject:
    containers = pod.spec.containers or ()
    changed = {
        container.name: container.image
        for container in containers
        if images.get(container.name, container.image) != container.image
    }
    found: JSONObject = {"revision": before.revision, "images": {**before.images, **changed}}
    return {key: value for key, value in found.items() if value}


def _finalizers(pod: PodView, change: InPlaceChange) -> Iterable[JSONObject]:
    have = pod.metadata.finalizers or ()
    kept = [finalizer for finalizer in have if finalizer not in change.removed_finalizers]
    wanted = [*kept, *(finalizer for finalizer in change.added_finalizers if finalizer not in kept)]
    return [] if wanted == list(have) else [patch.add(list[JSON](wanted), "metadata", "finalizers")]


def set_images(pod: PodView, images: Mapping[str, str]) -> list[JSONObject]:
    return [
        patch.add(images[container.name], "spec", "containers", str(index), "image")
        for index, container in enumerate(pod.spec.containers or ())
        if container.name in images
    ]


def amounts_of(resources: Mapping[str, ResourcesView | None] | None) -> dict[Amount, JSON]:
    return {
        (name, kind, key): amount
        for name, requirements in (resources or {}).items()
        if requirements is not None
        for kind, amounts in (("limits", requirements.limits), ("requests", requirements.requests))
        for key, amount in (amounts or {}).items()
    }


def pod_amounts(pod: PodView) -> dict[Amount, JSON]:
    return amounts_of({container.name: container.resources for container in pod.spec.containers or ()})


def _has_gate(pod: PodView, type_: str) -> bool:
    return any(gate.condition_type == type_ for gate in pod.spec.readiness_gates or ())


def _hash(pod: PodView) -> str:
    return (pod.metadata.labels or {}).get(names.HASH_LABEL, "")


def _containers(revision: Revision) -> list[JSONObject]:
    return items_of(fields_of(revision.template.get("spec")).get("containers"))
