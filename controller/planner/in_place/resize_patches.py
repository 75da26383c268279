"""Makes the JSON Patch operations that resize one pod in place, and those before it, for the pod as just read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from controller.api import patch
from controller.api.base import JSONObject, fields_of
from controller.api.container import ContainerView, ResourcesView
from controller.api.in_place import Resize
from controller.api.in_place_state import InPlaceState, state_of
from controller.api.pod import PodView
from controller.api.wellknown import IN_PLACE_STATE_ANNOTATION, IN_PLACE_STATE_LEGACY
from controller.planner.in_place.patches import amounts_of, encoded, underway_in


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
    underway = underway_in(pod, state)
    return underway is not None and underway.resize is Resize.WANTED


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
