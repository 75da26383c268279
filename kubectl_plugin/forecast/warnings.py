"""Warnings about this DaemonSet and its nodes before a rollout proceeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final, TypeAlias

from controller.api.formats import counted
from controller.api.names import RESIZE_GATE
from controller.api.objects import Value, fields_of, rfc3339
from controller.inplace.change import InPlaceChange, NotPossible, changes_to
from controller.planner.blockers import handlers, waits_for_hook
from controller.planner.conditions import some
from kubectl_plugin.changes.edit import Caution
from kubectl_plugin.forecast.forecast import Forecast
from kubectl_plugin.forecast.simulate import host_ports
from kubectl_plugin.rollout.gitops import caution_of
from kubectl_plugin.rollout.in_place import How, unasked_words
from kubectl_plugin.rollout.nodes import group_of
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.target import way_back
from kubectl_plugin.wording import command


class PreflightResult(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


class PlanCheck(Value):
    """One check. `name` is stable for programs; the text may change."""

    name: str
    result: PreflightResult
    text: str
    hints: tuple[str, ...] = ()


Question: TypeAlias = Callable[[Snapshot, Forecast], Iterator[Caution]]
"""Checks one thing and yields nothing if all is well."""


def warnings_of(snapshot: Snapshot, found: Forecast) -> tuple[PlanCheck, ...]:
    """`snapshot` has the DaemonSet that was forecast, live or tried."""
    return tuple(
        PlanCheck(name=name, result=PreflightResult.WARNING, text=caution.text, hints=caution.hints)
        for name, ask in QUESTIONS.items()
        for caution in ask(snapshot, found)
    )


def _urgent(snapshot: Snapshot, found: Forecast) -> Iterator[Caution]:
    nodes = [move.node for wave in found.waves for move in wave.moves if move.is_urgent]
    if nodes:
        pods, they = counted(len(nodes), "old pod", "is"), "it is" if len(nodes) == 1 else "they are"
        how = f"{they} replaced at once, whatever {found.start.budget.limit} says"
        yield Caution(text=f"{pods} not available: {how}: {some(nodes)}")


def _selector(snapshot: Snapshot, found: Forecast) -> Iterator[Caution]:
    rollout = found.start
    rolling = rollout.rolling_update
    if rolling is None or rolling.selector is None or not rollout.older:
        return
    if rollout.eligible and not any(node.selected for node in rollout.eligible):
        text = f"rollingUpdate.selector matches none of {counted(rollout.budget.desired, 'node')}: nothing is updated"
        yield Caution(text=text)


def _partition(snapshot: Snapshot, found: Forecast) -> Iterator[Caution]:
    """Also for a percentage that amounts to no node or all nodes."""
    rollout = found.start
    kept, desired = rollout.budget.partition, rollout.budget.desired
    asked = rollout.rolling_update.partition if rollout.rolling_update else None
    if not desired or not rollout.older or asked in (None, 0, "0%"):
        return
    if kept >= desired:
        nodes = counted(desired, "node")
        if isinstance(asked, str):
            words = f"{asked} of {nodes} = {kept} kept old"
        elif kept == desired:
            words = f"{kept} keeps the pods of all {nodes} OLD"
        else:
            words = f"{kept} keeps {counted(kept, 'pod')} OLD, but there are only {nodes}"
        hint = command("set-partition", snapshot.key, "--update", "30%", to="to update 30% of the nodes")
        yield Caution(text=f"partition {words}: nothing is updated", hints=(hint,))
    elif not kept:
        yield Caution(text=f"partition {asked} of {counted(desired, 'node')} = 0 kept old: every node is updated")


def _unplanned(snapshot: Snapshot, found: Forecast) -> Iterator[Caution]:
    rollout = found.start
    planned = {node.name for node in rollout.target}
    there = [node for node in rollout.eligible_in_order if node.current is not None]
    beyond = [node.name for node in there if node.name not in planned or not node.selected]
    if beyond and rollout.older:
        run = counted(len(beyond), "node", "has")
        yield Caution(
            text=f"{run} the new revision outside the plan and will not be moved back: {some(beyond)}",
            hints=way_back(snapshot),
        )


def _surge(snapshot: Snapshot, found: Forecast) -> Iterator[Caution]:
    if not found.start.surging:
        return
    spec = fields_of(snapshot.daemonset.spec.template.get("spec"))
    ports = sorted(host_ports(snapshot.daemonset.spec.template))
    if ports:
        listed = ", ".join(f"{port} ({container})" for port, container in ports)
        yield Caution(
            text=f"maxSurge with hostPort {listed}: two pods cannot share a port, the new one waits for ever"
        )
    elif spec.get("hostNetwork") is True:
        yield Caution(text="maxSurge with hostNetwork: for a while two pods share each node's ports")


def _in_place(snapshot: Snapshot, found: Forecast) -> Iterator[Caution]:
    """A forecast cannot know whether the controller's feature gate for resizes in place is on."""
    start = found.start
    moving = {move.node for wave in found.waves for move in wave.moves if move.how is How.RECREATE} | set(found.rest)
    if not start.in_place or not start.world.no_resize or not moving:
        return
    could = changes_to(start.world.daemonset, start.world.revisions, resizable=True)
    nodes = [
        node.name
        for node in start.outdated
        if node.name in moving
        and node.old is not None
        and isinstance(could.get(node.old.hash), InPlaceChange)
        and isinstance(start.world.changes.get(node.old.hash), NotPossible)
    ]
    if nodes:
        yield Caution(
            text=f"planned without the feature gate {RESIZE_GATE}: where the controller has it, cpu and memory change"
            f" in place on {counted(len(nodes), 'node')}: {some(nodes)}"
        )


def _admission(snapshot: Snapshot, found: Forecast) -> Iterator[Caution]:
    yield from (Caution(text=words) for words in unasked_words(snapshot))


def _hook(snapshot: Snapshot, found: Forecast) -> Iterator[Caution]:
    hook = snapshot.daemonset.pre_delete
    held = [node.name for node in found.start.outdated if node.old is not None and handlers(node.old, hook)]
    if held:
        each = "the old pod of 1 node" if len(held) == 1 else f"the old pods of {counted(len(held), 'node')}"
        hints = ["the plan assumes that the hook releases each at once: a pod goes when what it names is removed"]
        for pod in [node.old for node in found.start.outdated if node.old is not None]:
            if waits_for_hook(found.start, pod):
                since = f" since {rfc3339(pod.held_since)}" if pod.held_since is not None else ""
                hints.append(f"{pod.node}: {pod.name} waits{since} for {' and '.join(handlers(pod, hook))} to go")
        yield Caution(text=f"the preDelete hook holds {each}: {some(held)}", hints=tuple(hints))


def _not_ready(snapshot: Snapshot, found: Forecast) -> Iterator[Caution]:
    rollout = found.start
    silent = {node.name for node in rollout.world.nodes if node.not_ready}
    using = [node for node in rollout.unavailable_nodes if node in silent]
    if using and rollout.rolling_update is not None and not rollout.surging:
        verb, use = ("is", "uses") if len(using) == 1 else ("are", "use")
        limit = rollout.budget.max_unavailable
        yield Caution(
            text=f"{counted(len(using), 'node')} {verb} not ready and {use} {len(using)} of maxUnavailable {limit}:"
            f" {some(using)}"
        )


def _one_zone(snapshot: Snapshot, found: Forecast) -> Iterator[Caution]:
    """Only where no `order` says so."""
    rollout = found.start
    ordered = rollout.rolling_update is not None and rollout.rolling_update.order
    if snapshot.nodes is None or not rollout.older or not found.changes or ordered:
        return
    zones = {node.name: group_of(node, "zone") for node in rollout.world.nodes}
    targets = {zones[node.name] for node in rollout.target}
    all_zones = {zones[node.name] for node in rollout.eligible}
    if len(targets) == 1 and len(all_zones) > 1 and len(rollout.target) > 1:
        nodes = counted(len(rollout.target), "target node", "is")
        yield Caution(text=f"all {nodes} in {next(iter(targets))} (order is by node name, highest first)")


def _managed(snapshot: Snapshot, found: Forecast) -> Iterator[Caution]:
    if text := caution_of(snapshot.key.name, snapshot.document, snapshot.owners):
        yield Caution(text=text)


QUESTIONS: Final[dict[str, Question]] = {
    "OldPodsNotAvailable": _urgent,
    "SelectorMatchesNoNode": _selector,
    "Partition": _partition,
    "UpdatedOutsideThePlan": _unplanned,
    "SurgeSharesPorts": _surge,
    "ResizedInPlace": _in_place,
    "ChangedByAdmission": _admission,
    "PreDeleteHook": _hook,
    "NodesNotReady": _not_ready,
    "OneZone": _one_zone,
    "ManagedElsewhere": _managed,
}
"""All warnings by name, in print order."""
