"""The state annotation of an update in place, in the format of OpenKruise.

Reads from a pod alone how its update in place stands: from its state annotation and its containers. Why so:
docs/design/kubelet.md#a-changed-image-in-a-running-pod.

A container is new if its id differs from that before the update. This does not prove which image it runs: the old
container may have crashed and restarted, or an earlier update may have been done late. If the status shows the image
name of the spec, that is proof. It may also show another name of the same image; then the container counts as new
only after some seconds (`_Proof`).
"""

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
from controller.api.formats import LONGEST_ITEM, at_least, canonical_quantity, truncated
from controller.api.names import IN_PLACE_STATE_ANNOTATION, IN_PLACE_STATE_LEGACY
from controller.api.objects import JSON, Value, View, epoch
from controller.api.readiness_gates import PodCondition


class ContainerBefore(View):
    """The status of a container before the update."""

    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str | None = msgspec.field(default=None, name="containerID")
    """The id of the container; None: not noted, as by the controller of OpenKruise."""
    restart_count: int = 0
    image: str = ""
    """The image name in the spec when this container was started; the node may report another name. Empty: not
    known."""


class PreCheck(View):
    containers_required_ready: tuple[str, ...] | None = None


class Superseded(View):
    """The revision and the images that the update has replaced."""

    revision: str = ""
    images: dict[str, str] = msgspec.field(default_factory=dict)
    """The former images of the containers that got another one."""


class InPlaceState(View):
    """The annotation. OpenKruise has neither the last four fields nor those of `ContainerBefore`, except
    `imageID`."""

    revision: str = ""
    update_timestamp: str | None = None
    last_container_statuses: dict[str, ContainerBefore] | None = None
    """The former status of the containers that restart."""
    update_resources: bool = False
    next_container_images: dict[str, str] | None = None
    next_container_ref_metadata: JSON = None
    next_container_resources: dict[str, ResourcesView] | None = None
    pre_check_before_next: PreCheck | None = None
    container_resources: dict[str, ResourcesView] | None = None
    """New resources by container."""
    generation: int = 0
    """The generation of the pod before the resize; 0: not noted. Later changes of cpu and memory are not ours."""
    unfinished_images: dict[str, tuple[str, ...]] | None = None
    """Images that earlier updates asked for and that did not run yet when this one began, by container."""
    superseded: Superseded = Superseded()

    @property
    def replaced(self) -> frozenset[str]:
        """The ids of the containers that the update ended."""
        before = (self.last_container_statuses or {}).values()
        return frozenset(filter(None, (one.container_id for one in before)))


def state_of(annotations: Mapping[str, str] | None) -> InPlaceState | None:
    """The state of a pod with these annotations; None: it has none, or none that can be read."""
    if not annotations:
        return None
    text = annotations.get(IN_PLACE_STATE_ANNOTATION) or annotations.get(IN_PLACE_STATE_LEGACY)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=InPlaceState)
    except (msgspec.DecodeError, RecursionError):
        return None


SETTLE_SECONDS = 10.0
"""Seconds after the update in which a new container with another image name may be the old one, restarted."""
OVERLAP_SECONDS = 600.0
"""Used instead of `SETTLE_SECONDS` while the kubelet may still complete an earlier update: the status then shows the
image of that update until the newest one is pulled."""
_LEAST = {"requests": "2m", "limits": "10m"}
"""The smallest amounts of cpu that a kernel can set. The status reports the amount that was set, not the one asked
for."""


class Resize(StrEnum):
    """The state of a resize that is not done."""

    PROPOSED = "not written yet"
    IN_PROGRESS = "the kubelet is resizing it"
    DEFERRED = "the node has no room for it now"
    INFEASIBLE = "the kubelet refuses it"


class UpdateInProgress(Value):
    """The part of an update in place that is not done."""

    until: float
    """When it counts as finished without any proof (seconds since 1970); infinite: never."""
    restarting: tuple[str, ...] = ()
    """Containers that may not run yet what the spec asks for."""
    not_started: bool = False
    """Whether the status shows that one of these containers was not replaced at all yet."""
    resize: Resize | None = None
    problem: str = ""
    """The message of the kubelet about the resize."""
    has_next_batch: bool = False
    """Whether the containers of the next launch priority are to be updated, from `due` on."""
    due: float = 0.0
    """When they may be updated (seconds since 1970); before that, it is not certain that the containers with a higher
    launch priority run what the spec asks for."""
    waiting: tuple[str, ...] = ()
    """The containers of all launch priorities after the next one."""
    patience: float = SETTLE_SECONDS
    """Seconds from the update to `until` or `due`."""
    reverted_to: str = ""
    """The former revision hash of the pod, if somebody has put one of its images back and only its label is new."""

    @property
    def only_resizes(self) -> bool:
        """Whether only the resize is not done: all containers run the right image."""
        return self.resize is not None and not (self.restarting or self.has_next_batch or self.waiting)

    def is_pending(self, now: float) -> bool:
        """Whether it still waits for something. False if the time is too far in the future, because then it comes
        from a wrong clock."""
        return self.until == inf or self._is_to_come(self.until, now)

    def can_continue(self, now: float) -> bool:
        """Whether the containers of the next launch priority may be updated now."""
        return self.has_next_batch and not self._is_to_come(self.due, now)

    def _is_to_come(self, moment: float, now: float) -> bool:
        return now < moment <= now + 2 * self.patience


class _Proof(Enum):
    """How certain it is that a container runs what the spec asks for. The value: seconds after which it counts as
    running that."""

    NEW = 0.0
    LIKELY = SETTLE_SECONDS
    PERHAPS = OVERLAP_SECONDS
    NONE = inf


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
    """The part of an update that is not done; None: it is finished. `of` is the revision in the label of the pod,
    `generation` that of its spec. `observed`: whether the kubelet has seen this generation; None: not known."""
    shown = {one.name: one for one in statuses}
    wanted = {one.name: one for one in containers}
    if former := _former(state, of, wanted):
        return UpdateInProgress(until=inf, reverted_to=former)
    since = epoch(state.update_timestamp) or 0.0  # an unreadable time counts as long ago
    proofs = {
        name: _proof(state, name, shown.get(name), wanted[name].image, since, observed=observed)
        for name in state.last_container_statuses or {}
        if name in wanted
    }
    restarting = tuple(name for name, proof in proofs.items() if proof is not _Proof.NEW)
    resize, problem = _resize(state, wanted, shown, conditions, generation, observed=observed)
    waits = state.next_container_images or state.next_container_resources or state.next_container_ref_metadata
    if not (restarting or resize or waits):
        return None
    patience = max((proof.value for proof in proofs.values()), default=0.0)
    required = (state.pre_check_before_next and state.pre_check_before_next.containers_required_ready) or ()
    ready = all(name in shown and shown[name].ready for name in required if name in wanted)
    return UpdateInProgress(
        until=inf if resize is not None or waits else since + patience,
        patience=patience,
        restarting=restarting,
        not_started=_Proof.NONE in proofs.values(),
        resize=resize,
        problem=problem,
        has_next_batch=bool(waits) and patience < inf and resize is None and ready,
        due=since + patience if restarting else 0.0,
        waiting=tuple(sorted({**(state.next_container_images or {}), **(state.next_container_resources or {})})),
    )


def _former(state: InPlaceState, of: str, wanted: Mapping[str, ContainerView]) -> str:
    """The former revision, if somebody has put one of its images back; empty: nobody has, or it is not known because
    the controller of OpenKruise began the update."""
    before = state.superseded
    back = any(name in wanted and wanted[name].image == image for name, image in before.images.items())
    return before.revision if back and of == state.revision else ""


def _proof(
    state: InPlaceState,
    name: str,
    status: ContainerStatusView | None,
    wanted: str,
    since: float,
    *,
    observed: bool | None,
) -> _Proof:
    before = (state.last_container_statuses or {})[name]
    overlapped = (state.unfinished_images or {}).get(name, ())
    running = status.state.running if status is not None and status.state is not None else None
    if status is None or running is None:
        return _Proof.NONE
    digest, runs = digest_of(wanted), digest_of(status.image_id)
    named = same_image(status.image, wanted) or bool(digest and digest == runs)
    if before.container_id is None:
        new = status.image_id != before.image_id or (epoch(running.started_at) or 0.0) >= since
    else:
        new = status.container_id != before.container_id
    if not new:
        if before.container_id is None and named:
            return _Proof.LIKELY  # the clock of the node may be behind
        # the spec named this image before, or names it again before the kubelet acted on the image in between
        asked = before.image == wanted  # another name of the same image restarts it too
        kept = (asked or (overlapped and named)) and observed is not False
        return (_Proof.NEW if observed and (overlapped or named) else _Proof.LIKELY) if kept else _Proof.NONE
    if named or (before.image_id not in ("", status.image_id) and not overlapped):
        return _Proof.NEW
    again = status.restart_count >= before.restart_count + 2
    if runs and any(digest_of(one) == runs for one in overlapped) and (digest or not again):
        return _Proof.NONE  # its digest is that of an image of an earlier update, done late
    if any(same_image(status.image, one) for one in overlapped) and not again:
        return _Proof.NONE  # its name is that of an image of an earlier update, done late
    return _Proof.PERHAPS if overlapped and not again else _Proof.LIKELY


def _resize(
    state: InPlaceState,
    wanted: Mapping[str, ContainerView],
    shown: Mapping[str, ContainerStatusView],
    conditions: Sequence[PodCondition],
    generation: int,
    *,
    observed: bool | None,
) -> tuple[Resize | None, str]:
    if state.container_resources is not None:
        asked = {name: one for name, one in state.container_resources.items() if name in wanted}
    elif state.update_resources:
        asked = {name: one.resources for name, one in wanted.items() if one.resources is not None}
    else:
        return None, ""
    spec = {name: one.resources for name, one in wanted.items()}
    if any(not _covers(spec[name], one) for name, one in asked.items()):
        # a single write since then was not ours, or the spec would be as asked for; of two, one may have been ours
        return (None if 0 < state.generation < generation - 1 else Resize.PROPOSED), ""
    real = {name: shown[name].resources for name in asked if name in shown}
    if all(name in real and _is_given(real[name], one, observed=observed) for name, one in asked.items()):
        return None, ""
    if observed is False:
        return Resize.IN_PROGRESS, ""  # its report is about an earlier generation
    for one in conditions:
        if one.status != "True" or one.type not in ("PodResizePending", "PodResizeInProgress"):
            continue
        words = truncated(one.message or one.reason, LONGEST_ITEM)
        if one.reason == "Deferred":
            return Resize.DEFERRED, words
        if one.reason in ("Infeasible", "Error"):
            return Resize.INFEASIBLE, words
    return Resize.IN_PROGRESS, ""


def _is_given(have: ResourcesView | None, asked: ResourcesView, *, observed: bool | None) -> bool:
    """Whether the container has these resources. If the kubelet has seen the newest spec and reports no resources, it
    never will, and it counts as having them."""
    return (have is None and bool(observed)) or _covers(have, asked, real=True)


def _covers(have: ResourcesView | None, asked: ResourcesView, *, real: bool = False) -> bool:
    """Whether `have` has the cpu and memory in `asked`. `real`: a node gives it, which has a minimum."""
    have = have or ResourcesView()
    return all(
        _given(asked_for, kind, name, real=real) == _given(there or {}, kind, name, real=real)
        for kind, asked_for, there in (
            ("limits", asked.limits or {}, have.limits),
            ("requests", asked.requests or {}, have.requests),
        )
        for name in asked_for
        if name in ("cpu", "memory")
    )


def _given(amounts: Amounts, kind: str, name: str, *, real: bool) -> str:
    amount = amounts.get(name)
    if amount is None:
        return ""
    return at_least(amount, _LEAST[kind]) if real and name == "cpu" else canonical_quantity(amount)
