"""The edits that steer a rollout: pause and resume; restart, an annotation of the template, as with `kubectl rollout
restart`; set-partition (how many pods stay old, or how many nodes may be updated); set-image, with a partition in the
same write; promote and retry, annotations that the controller obeys for one revision. And the settings that `plan`
tries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from controller.api import formats
from controller.api.daemonset import rollout_of
from controller.api.formats import IntOrPercent, counted, joined
from controller.api.names import APPROVE_ANNOTATION, RESTARTED_AT, RETRY_ANNOTATION, SKIP_STEPS_ANNOTATION
from controller.api.objects import JSON, JSONObject, Value, epoch, rfc3339, value_at
from controller.planner.explanation import Explainer, NodeState
from controller.planner.rollout_state import RolloutState
from kubectl_plugin.changes.edit import (
    ROLLING,
    Caution,
    Draft,
    Edit,
    Operation,
    cautions,
    edit_of,
    on_delete_caution,
    pause_caution,
    revision_of,
    rollout_after,
    settings_of,
    with_operations,
)
from kubectl_plugin.errors import CommandError, Refused, UsageError
from kubectl_plugin.rollout.diff import object_change_lines
from kubectl_plugin.rollout.reasons import checks_words
from kubectl_plugin.rollout.snapshot import Snapshot, short_image
from kubectl_plugin.rollout.survey import is_observed
from kubectl_plugin.rollout.target import way_back
from kubectl_plugin.wording import between, command, new_nodes


def pause(snapshot: Snapshot) -> Edit:
    """Needs no pods or nodes; see `what_stops`. Raises Refused for OnDelete."""
    if settings_of(snapshot, "pause").paused:
        return Edit(result="already paused")
    draft = Draft(snapshot.document)
    draft.set(True, *ROLLING, "paused")
    return Edit(result="paused", operations=draft.operations, warnings=cautions(snapshot))


def resume(snapshot: Snapshot) -> Edit:
    """Raises Refused for OnDelete."""
    if not settings_of(snapshot, "resume").paused:
        return Edit(result="not paused")
    draft = Draft(snapshot.document)
    draft.set(False, *ROLLING, "paused")
    return edit_of(snapshot, draft, "resumed")


def what_stops(snapshot: Snapshot, operations: tuple[Operation, ...] = ()) -> tuple[str, ...]:
    """The nodes that the pause stops once `operations` are written; empty if pods or nodes are unreadable."""
    rollout = rollout_after(snapshot, operations)
    if rollout is None:
        return ()
    revision, desired = revision_of(snapshot, rollout), rollout.budget.desired
    updated = sum(node.current is not None for node in rollout.eligible)
    on_it = f"{counted(updated, 'node', 'is', of=desired)} on {revision}"
    if updated == desired:
        return (f"{on_it}; a later one is not rolled out before resume",)
    return (f"{on_it}; no more will be updated", f"not stopped: {', '.join(_nodes_going_on(snapshot, rollout))}")


def _nodes_going_on(snapshot: Snapshot, rollout: RolloutState) -> Iterator[str]:
    if updating := _nodes_in(NodeState.UPDATING, rollout):
        yield f"{between(updating)} (already updating)"
    yield "lost pods (they come back as they were)"
    if rollout.older and not rollout.progressive and rollout.frozen:
        older = f"revision {rollout.older[0].number}" if snapshot.revisions_readable else "an older revision"
        yield f"new nodes (they get {older})"
    else:
        yield "new nodes"


def restart(snapshot: Snapshot) -> Edit:
    """Uses the snapshot's time in whole seconds, so that two calls within a second are one restart. Partition,
    selector and budget apply as in any update."""
    draft = Draft(snapshot.document)
    draft.set(rfc3339(snapshot.now), "spec", "template", "metadata", "annotations", RESTARTED_AT)
    if not draft.operations:
        return Edit(result="already restarted")
    warnings = (on_delete_caution(snapshot), pause_caution(snapshot), _abort_caution(snapshot))
    return edit_of(snapshot, draft, "restarted", *warnings)


def _abort_caution(snapshot: Snapshot) -> Caution | None:
    """The spec keeps the aborted template, also once no node has it any more."""
    if rollout_of(snapshot.daemonset.status).aborted_revision is None:
        return None
    return Caution(
        text=f"the rollout of {snapshot.key.name} was aborted: a restart rolls the same template out once more",
        hints=(command("rollback", snapshot.key, to="to go back to the stable one first"),),
    )


def set_partition(snapshot: Snapshot, value: IntOrPercent, *, of_nodes: bool = False) -> Edit:
    """Keeps the pods of `value` nodes old or, with `of_nodes`, lets `value` nodes be updated. Raises Refused for
    OnDelete, and as `partition_for_nodes`."""
    present = settings_of(snapshot, "set the partition of").partition or 0
    before = rollout_after(snapshot)
    desired = _desired(snapshot, before)
    wanted = partition_for_nodes(snapshot, value, desired) if of_nodes else value
    if wanted == present:
        new = "" if desired is None else f" ({new_nodes(wanted, desired)})"
        return Edit(result=f"already at partition {wanted}{new}")
    draft = Draft(snapshot.document)
    draft.set(wanted, *ROLLING, "partition")
    after = rollout_after(snapshot, draft.operations)
    details, warnings = outcome(snapshot, before, after) if before and after else ((), ())
    misread = None if of_nodes else misread_caution(snapshot, wanted, desired)
    return Edit(
        result=f"partition {present} -> {wanted}",
        operations=draft.operations,
        details=details,
        warnings=(*([misread] if misread else []), *cautions(snapshot, *warnings)),
    )


def partition_for_nodes(snapshot: Snapshot, updated: IntOrPercent, desired: int | None) -> IntOrPercent:
    """The partition that lets `updated` of the `desired` nodes be updated. Raises Refused for a number if the count
    of nodes is unknown or 0: computed from 0 nodes, it would allow all nodes that join later."""
    if isinstance(updated, str):
        return f"{100 - int(updated.removesuffix('%'))}%"
    if not desired:
        why = "" if desired is None else ": no node is eligible now"
        raise Refused(
            f"it is not known how many nodes should run {snapshot.key.name}{why}",
            "set-partition takes the partition itself: the number of pods that stay old",
        )
    return max(desired - updated, 0)


def partition_of(snapshot: Snapshot) -> IntOrPercent:
    rolling = snapshot.daemonset.rolling_update
    return (rolling.partition if rolling is not None else None) or 0


def keeps_fewer(one: IntOrPercent, other: IntOrPercent, desired: int | None) -> bool:
    """Whether partition `one` keeps fewer old pods than `other`; if `desired` is unknown, whether it may."""
    if desired is None and isinstance(one, str) != isinstance(other, str):
        return other not in (0, "0%")
    fewer, more = (formats.scaled(each, desired or 100, round_up=False) for each in (one, other))
    return fewer < more


def desired_of(snapshot: Snapshot) -> int | None:
    """How many nodes should run a pod; without the right to list nodes, the controller's count for this spec."""
    return _desired(snapshot, rollout_after(snapshot) if snapshot.nodes is not None else None)


def _desired(snapshot: Snapshot, rollout: RolloutState | None) -> int | None:
    daemonset, status = snapshot.daemonset, snapshot.daemonset.status
    if snapshot.nodes is not None and rollout is not None:
        return rollout.budget.desired
    counted = status is not None and status.observed_generation >= daemonset.generation
    return status.desired_number_scheduled if status is not None and counted else None


def misread_caution(snapshot: Snapshot, value: IntOrPercent, desired: int | None) -> Caution | None:
    """A caution if the partition lets none of the `desired` nodes be updated, which is rarely intended."""
    if not desired or (kept := formats.scaled(value, desired, round_up=False)) < desired:
        return None
    pods = value if isinstance(value, int) else kept
    there = "but" if pods > desired else "and"
    only = f"{'is' if desired == 1 else 'are'} only {counted(desired, 'node')}"
    instead = command("set-partition", snapshot.key, "0", to="to update all nodes")
    if desired < pods <= 100:
        instead = command("set-partition", snapshot.key, "--update", f"{pods}%", to=f"to update {pods}% of the nodes")
    return Caution(
        text=f"partition {value} keeps {counted(pods, 'pod')} OLD, {there} there {only}: nothing will be updated",
        hints=(instead, command("pause", snapshot.key, to="to stop updates")),
    )


def outcome(
    snapshot: Snapshot, before: RolloutState, after: RolloutState
) -> tuple[tuple[str, ...], tuple[Caution, ...]]:
    """What the change from `before` to `after` lets happen, and what to be careful about."""
    revision, desired, allowed = revision_of(snapshot, after), after.budget.desired, after.allowed_nodes
    updated = sum(node.current is not None for node in after.eligible)
    run = f"{counted(updated, 'node', 'runs', of=desired)} {revision}"
    if updated == desired:
        return (f"{run}; the next one may go to {allowed} of them",), ()
    if updated > allowed and allowed < before.allowed_nodes:
        words = f"no more than {counted(allowed, 'node', of=desired)} may"
        return (words,), (_raised_caution(snapshot, updated, revision),)
    if updated > allowed:
        return (f"{run} already, and no more may",), ()
    could = {node.name for node in before.target}
    more = [node.name for node in after.target if node.only_old and node.name not in could]
    gained = f" ({len(more)} more: {between(more)})" if more else ""
    lines = [f"up to {counted(allowed, 'node', of=desired)} may now run {revision}{gained}"]
    if after.world.daemonset.paused:
        lines.append("it is paused: no node is updated before resume")
    return tuple(lines), _failing_caution(before, revision)


def _raised_caution(snapshot: Snapshot, updated: int, revision: str) -> Caution:
    already, back = counted(updated, "node", "already runs"), "it" if updated == 1 else "them"
    return Caution(
        text=f"{already} {revision}; raising the partition does not move {back} back", hints=way_back(snapshot)
    )


def _failing_caution(rollout: RolloutState, revision: str) -> tuple[Caution, ...]:
    nodes = _nodes_in(NodeState.FAILING, rollout)
    if not nodes:
        return ()
    verb = "is" if len(nodes) == 1 else "are"
    return (Caution(text=f"{between(nodes)} {verb} failing on {revision}"),)


def _nodes_in(state: NodeState, rollout: RolloutState) -> list[str]:
    explainer = Explainer(rollout)
    return [node.name for node in rollout.in_update_order if explainer.explain(node).state is state]


ALL_CONTAINERS: Final = "*"
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
    if ALL_CONTAINERS in images and len(images) > 1:
        raise UsageError("*=IMAGE means all containers already: leave the others out")
    return images


def set_images(snapshot: Snapshot, images: Mapping[str, str], hold_at: IntOrPercent | None) -> Edit:
    """`hold_at` is the partition to set in the same write, so that no node starts early; ignored for OnDelete. Raises
    CommandError if a container does not exist, or if there are none."""
    places = dict(images_by_container(snapshot.document))
    if not places:
        raise CommandError(f"{snapshot.key.name} has no containers: there is no image to set")
    unknown = [name for name in images if name != ALL_CONTAINERS and name not in places]
    if unknown:
        raise _no_such_container(snapshot, places, unknown[0])
    draft = Draft(snapshot.document)
    for name, path in places.items():
        image = images.get(name) or images.get(ALL_CONTAINERS)
        if image is not None:
            draft.set(image, *path, "image")
    results = ["image updated"] if draft.operations else []
    rolling = snapshot.daemonset.rolling_update
    if hold_at is not None and rolling is not None and (rolling.partition or 0) != hold_at:
        draft.set(hold_at, *ROLLING, "partition")
        results.append(f"partition {rolling.partition or 0} -> {hold_at}")
    if not draft.operations:
        wanted = ", ".join(dict.fromkeys(short_image(image) for image in images.values()))
        return Edit(result=f"already on {wanted}")
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


def approval(snapshot: Snapshot) -> Edit:
    """Approves the present step. Raises Refused if the rollout does not go by steps, or has not reached the step: an
    approval says that someone has looked at its nodes."""
    rolling, live = settings_of(snapshot, "promote"), _live_revision(snapshot)
    record = rollout_of(snapshot.daemonset.status)
    if not rolling.steps:
        raise Refused(
            f"{snapshot.key.name} has no steps: updateStrategy.rollingUpdate.steps is not set",
            command("explain ads.spec.updateStrategy.rollingUpdate.steps", to="shows how", program="kubectl"),
            command("set-partition", snapshot.key, "--update", "N", to="to let N nodes update"),
            command("promote", snapshot.key, "--full", to="to update all nodes"),
        )
    if record.aborted_revision is not None:
        raise Refused(
            f"the rollout of {snapshot.key.name} was aborted: there is nothing to approve",
            command("retry", snapshot.key, to="to try it again"),
            command("promote", snapshot.key, "--full", to="to update all nodes in spite of failures"),
        )
    if record.step is None or record.step > len(rolling.steps):
        return Edit(result="needs no approval: this rollout does not go by steps")
    if record.is_past(len(rolling.steps)):
        return Edit(result="needs no approval: the last step is over")
    present, at = rolling.steps[record.step - 1], f"step {record.step} of {len(rolling.steps)}"
    if present.approval != "Required":
        return Edit(result=f"needs no approval: {at} ends by itself")
    reached = epoch(record.step_reached_time)
    if reached is None:
        updated = f"{counted(record.done, 'node', of=record.target)} updated"
        raise Refused(
            joined(f"{at} of {snapshot.key.name} is not finished: {updated}", checks_words(snapshot.daemonset)),
            command("status", snapshot.key, "--watch", to="to see when it is"),
        )
    draft = Draft(snapshot.document)
    draft.set(f"{live}/{record.step}", "metadata", "annotations", APPROVE_ANNOTATION)
    if not draft.operations:
        return Edit(result=f"already promoted: {at} is approved")
    soaks = present.soak and reached + present.soak_seconds > snapshot.now
    details = (f"the next step begins when its soak of {present.soak} is over",) if soaks else ()
    if rolling.paused:
        details = ("it is paused: no node is updated before resume",)
    return Edit(result=f"promoted: {at} is approved", operations=draft.operations, details=details)


def full_promotion(snapshot: Snapshot) -> Edit:
    """Lets all nodes get the current revision: without steps, in spite of failures, and without partition. Raises
    Refused for OnDelete."""
    rolling, draft = settings_of(snapshot, "promote"), Draft(snapshot.document)
    if rolling.steps or rolling.on_failure is not None:
        live, record = _live_revision(snapshot), rollout_of(snapshot.daemonset.status)
        if record.step is not None or record.aborted_revision is not None:
            draft.set(live, "metadata", "annotations", SKIP_STEPS_ANNOTATION)
    if rolling.partition not in (None, 0, "0%"):
        draft.set(0, *ROLLING, "partition")
    if not draft.operations:
        return Edit(result="already promoted fully")
    before, after = rollout_after(snapshot), rollout_after(snapshot, draft.operations)
    details, warnings = outcome(snapshot, before, after) if before and after else ((), ())
    return Edit(result="promoted fully", operations=draft.operations, details=details, warnings=warnings)


def another_try(snapshot: Snapshot) -> Edit:
    """Its steps have to be approved anew. Raises Refused if the rollout was not aborted."""
    live, record = _live_revision(snapshot), rollout_of(snapshot.daemonset.status)
    if record.aborted_revision is None:
        raise Refused(
            f"the rollout of {snapshot.key.name} was not aborted: there is nothing to try again",
            command("status", snapshot.key),
        )
    draft = Draft(snapshot.document)
    draft.set(_next_value(live, record.retried), "metadata", "annotations", RETRY_ANNOTATION)
    if not draft.operations:
        return Edit(result="retry is already requested")
    draft.drop("metadata", "annotations", APPROVE_ANNOTATION)
    return Edit(result="tried again, from the first step", operations=draft.operations)


def _next_value(revision: str, obeyed: str | None) -> str:
    """The controller obeys each value once: `REVISION`, then `REVISION/2`."""
    if obeyed is None or obeyed.partition("/")[0] != revision:
        return revision
    number = obeyed.partition("/")[2]
    return f"{revision}/{int(number) + 1 if number.isdecimal() else 2}"


def _live_revision(snapshot: Snapshot) -> str:
    """The hash of the revision that the spec asks for, which an abort may have taken back. Raises CommandError (exit
    code 6) if it is not known yet."""
    daemonset = snapshot.daemonset
    status = daemonset.status
    live = (rollout_of(status).aborted_revision or status.update_revision) if status is not None else ""
    if not live or not is_observed(daemonset):
        raise Refused(
            f"the controller has not acted on the newest change of {snapshot.key.name} yet",
            command("status", snapshot.key),
        )
    return live
