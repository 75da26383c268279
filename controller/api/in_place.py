"""The in-place update state, in OpenKruise's annotation format, and which part of the update is unfinished. A
container is new if its id has changed. Its image is confirmed if the status shows the image name of the spec; with
another name of the image, it may be the old container, restarted, or that of an earlier update that finished late,
and counts as new only after some seconds (`_Confidence`; docs/design/kubelet.md#a-changed-image-in-a-running-pod)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, StrEnum
from math import inf

import msgspec

from controller.api.containers import (
    Amounts,
    ContainerStatusView,
    ContainerView,
    ResourcesView,
    digest_of,
    same_image,
)
from controller.api.formats import LONGEST_ITEM, at_least, truncated
from controller.api.names import IN_PLACE_STATE_ANNOTATION, IN_PLACE_STATE_LEGACY
from controller.api.objects import JSON, Value, View, epoch
from controller.api.readiness_gates import PodCondition


class ContainerBefore(View):
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str | None = msgspec.field(default=None, name="containerID")
    """None if not recorded, as by OpenKruise."""
    restart_count: int = 0
    image: str = ""
    """The image in the spec when it started; the node may report another name. Empty if not known."""


class PreCheck(View):
    containers_required_ready: tuple[str, ...] | None = None


class Superseded(View):
    revision: str = ""
    images: dict[str, str] = msgspec.field(default_factory=dict)


class InPlaceState(View):
    """The annotation. OpenKruise lacks the last five fields, and those of `ContainerBefore` except `imageID`."""

    revision: str = ""
    update_timestamp: str | None = None
    last_container_statuses: dict[str, ContainerBefore] | None = None
    """Of the containers that restart, before the update."""
    update_resources: bool = False
    next_container_images: dict[str, str] | None = None
    next_container_ref_metadata: JSON = None
    next_container_resources: dict[str, ResourcesView] | None = None
    pre_check_before_next: PreCheck | None = None
    container_resources: dict[str, ResourcesView] | None = None
    generation: int = 0
    """metadata.generation of the pod before the resize, to detect later changes by others; 0 if not recorded."""
    unfinished_images: dict[str, tuple[str, ...]] | None = None
    """By container: images of earlier updates that were not running yet when this one began."""
    superseded: Superseded = Superseded()
    restart_counts: dict[str, int] | None = None
    """The restart count of each container after the update, with the restart that it causes."""

    @property
    def replaced(self) -> frozenset[str]:
        before = (self.last_container_statuses or {}).values()
        return frozenset(filter(None, (status.container_id for status in before)))


def state_of(annotations: Mapping[str, str] | None) -> InPlaceState | None:
    """The state of a pod with these annotations; None if there is none, or it cannot be read."""
    text = state_text(annotations or {})
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=InPlaceState)
    except (msgspec.DecodeError, RecursionError):
        return None


def state_text(annotations: Mapping[str, str]) -> str | None:
    return annotations.get(IN_PLACE_STATE_ANNOTATION) or annotations.get(IN_PLACE_STATE_LEGACY)


SETTLE_SECONDS = 10.0
"""How long a new container with another image name may be the old one, restarted."""
OVERLAP_SECONDS = 600.0
"""The same while an earlier update may still finish, whose image the status then shows until the newest is pulled."""


class Resize(StrEnum):
    """The state of an unfinished resize, from the conditions of the pod."""

    PROPOSED = "not written yet"
    IN_PROGRESS = "the kubelet is resizing it"
    DEFERRED = "the node has no room for it now"
    INFEASIBLE = "the kubelet refuses it"


class UpdateInProgress(Value):
    """The unfinished part of an in-place update."""

    until: float
    """When it counts as done without confirmation (seconds since 1970); infinity means never."""
    restarting: tuple[str, ...] = ()
    """Containers that may not run yet what the spec asks for."""
    not_started: bool = False
    """The status shows that one of `restarting` has not been replaced yet."""
    resize: Resize | None = None
    problem: str = ""
    has_next_batch: bool = False
    """From `due` on, the containers of the next launch priority are to be updated."""
    due: float = 0.0
    """In seconds since 1970."""
    waiting: tuple[str, ...] = ()
    """Containers of later launch priorities."""
    settling: float = SETTLE_SECONDS
    """Seconds from the update to `until` or `due`."""
    reverted_to: str = ""
    """The former revision hash if one of its images was restored, so that only the revision label is new."""

    @property
    def only_resizes(self) -> bool:
        return self.resize is not None and not (self.restarting or self.has_next_batch or self.waiting)

    def is_pending(self, now: float) -> bool:
        """Whether it is unfinished. An `until` too far ahead was set by a wrong clock and does not count."""
        return self.until == inf or self._is_to_come(self.until, now)

    def can_continue(self, now: float) -> bool:
        return self.has_next_batch and not self._is_to_come(self.due, now)

    def _is_to_come(self, moment: float, now: float) -> bool:
        return now < moment <= now + 2 * self.settling


class _Confidence(Enum):
    """Seconds after which a container counts as running what the spec asks for."""

    CONFIRMED = 0.0
    LIKELY = SETTLE_SECONDS
    UNCERTAIN = OVERLAP_SECONDS
    NOT_STARTED = inf


def unfinished_update(
    state: InPlaceState,
    containers: Iterable[ContainerView],
    statuses: Iterable[ContainerStatusView],
    conditions: Sequence[PodCondition],
    *,
    of: str,
    generation: int,
    observed: bool | None,
) -> UpdateInProgress | None:
    """Returns None if the update is done. `of` is the revision label of the pod, `generation` its
    metadata.generation, and `observed` whether the kubelet has seen that generation (None if not known)."""
    shown = {status.name: status for status in statuses}
    wanted = {container.name: container for container in containers}
    former = state.superseded
    is_reverted = any(name in wanted and wanted[name].image == image for name, image in former.images.items())
    if of == state.revision and former.revision and is_reverted:
        return UpdateInProgress(until=inf, reverted_to=former.revision)
    since = epoch(state.update_timestamp) or 0.0  # an unreadable time counts as long ago
    found = {
        name: _confidence(state, name, shown.get(name), wanted[name].image, since, observed=observed)
        for name in state.last_container_statuses or {}
        if name in wanted
    }
    restarting = tuple(name for name, confidence in found.items() if confidence is not _Confidence.CONFIRMED)
    resize, problem = _resize(state, wanted, shown, conditions, generation, observed=observed)
    waits = state.next_container_images or state.next_container_resources or state.next_container_ref_metadata
    if not (restarting or resize or waits):
        return None
    settling = max((confidence.value for confidence in found.values()), default=0.0)
    required = (state.pre_check_before_next or PreCheck()).containers_required_ready or ()
    ready = all(name in shown and shown[name].ready for name in required if name in wanted)
    return UpdateInProgress(
        until=inf if resize is not None or waits else since + settling,
        settling=settling,
        restarting=restarting,
        not_started=_Confidence.NOT_STARTED in found.values(),
        resize=resize,
        problem=problem,
        has_next_batch=bool(waits) and settling < inf and resize is None and ready,
        due=since + settling if restarting else 0.0,
        waiting=tuple(sorted({**(state.next_container_images or {}), **(state.next_container_resources or {})})),
    )


def _confidence(
    state: InPlaceState,
    name: str,
    status: ContainerStatusView | None,
    wanted: str,
    since: float,
    *,
    observed: bool | None,
) -> _Confidence:
    running = status.running if status is not None else None
    if status is None or running is None:
        return _Confidence.NOT_STARTED
    before = (state.last_container_statuses or {})[name]
    overlapped = (state.unfinished_images or {}).get(name, ())
    digest, runs = digest_of(wanted), digest_of(status.image_id)
    named = same_image(status.image, wanted) or bool(digest and digest == runs)
    if before.container_id is None:
        is_new = status.image_id != before.image_id or (epoch(running.started_at) or 0.0) >= since
    else:
        is_new = status.container_id != before.container_id
    if not is_new:
        if before.container_id is None and named:
            return _Confidence.LIKELY  # the clock of the node may be behind
        # the spec named this image before, or names it again before the kubelet acted on the image in between
        asked = before.image == wanted  # another name of the same image restarts it too
        if observed is False or not (asked or (overlapped and named)):
            return _Confidence.NOT_STARTED
        return _Confidence.CONFIRMED if observed and (overlapped or named) else _Confidence.LIKELY
    if named or (before.image_id not in ("", status.image_id) and not overlapped):
        return _Confidence.CONFIRMED
    if not overlapped:
        return _Confidence.LIKELY
    again = status.restart_count >= before.restart_count + 2
    if runs and any(digest_of(image) == runs for image in overlapped) and (digest or not again):
        return _Confidence.NOT_STARTED  # it has the digest of an earlier update, done late
    if any(same_image(status.image, image) for image in overlapped) and not again:
        return _Confidence.NOT_STARTED  # it has the image name of an earlier update, done late
    return _Confidence.LIKELY if again else _Confidence.UNCERTAIN


def _resize(
    state: InPlaceState,
    wanted: Mapping[str, ContainerView],
    shown: Mapping[str, ContainerStatusView],
    conditions: Sequence[PodCondition],
    generation: int,
    *,
    observed: bool | None,
) -> tuple[Resize | None, str]:
    if state.container_resources is None and not state.update_resources:
        return None, ""
    spec = {name: container.resources for name, container in wanted.items()}
    asked = spec if state.container_resources is None else state.container_resources
    asked = {name: requirements for name, requirements in asked.items() if name in spec and requirements is not None}
    if not all(_covers(spec[name], requirements) for name, requirements in asked.items()):
        # a single write since then is not our resize, which the spec would show; of two, one may be
        return (None if 0 < state.generation < generation - 1 else Resize.PROPOSED), ""
    if all(
        name in shown and _is_actuated(shown[name], requirements, observed=observed)
        for name, requirements in asked.items()
    ):
        return None, ""
    pending = ("PodResizePending", "PodResizeInProgress")
    # while `observed` is False, the report is about an earlier generation
    for condition in (
        condition
        for condition in conditions
        if observed is not False and condition.status == "True" and condition.type in pending
    ):
        message = truncated(condition.message or condition.reason, LONGEST_ITEM)
        if condition.reason == "Deferred":
            return Resize.DEFERRED, message
        if condition.reason in ("Infeasible", "Error"):
            return Resize.INFEASIBLE, message
    return Resize.IN_PROGRESS, ""


_LEAST_CPU = {"requests": "2m", "limits": "10m"}
"""The least that a kernel can set; the status reports the amount set, not the one requested."""


def _is_actuated(status: ContainerStatusView, asked: ResourcesView, *, observed: bool | None) -> bool:
    """Whether the container has these resources. A kubelet that saw the newest spec but reports none never will."""
    if status.resources is None and observed:
        return True
    return _covers(status.resources, asked, actual=True)


def _covers(have: ResourcesView | None, asked: ResourcesView, *, actual: bool = False) -> bool:
    """Whether `have` has the cpu and memory of `asked`. `actual` amounts are from a node, which has a minimum."""

    def amount(kind: str, amounts: Amounts, name: str) -> str:
        if name not in amounts:
            return ""
        least = _LEAST_CPU[kind] if actual and name == "cpu" else "0"
        return at_least(amounts[name], least)

    have = have or ResourcesView()
    return all(
        amount(kind, wanted or {}, name) == amount(kind, there or {}, name)
        for kind, wanted, there in (
            ("limits", asked.limits, have.limits),
            ("requests", asked.requests, have.requests),
        )
        for name in wanted or ()
        if name in ("cpu", "memory")
    )
