"""What a world and a plan look like on paper: short words for actions, and small tables for a failing test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from controller.api.pod import Pod
from controller.planner import actions
from controller.planner.plan import Plan, plan
from controller.planner.world import World
from tests.beds.worlds import tag_of


def words(world: World, chosen: Iterable[actions.Action]) -> list[str]:
    """`+node-4 v2` creates, `-node-4 v1` deletes, `~node-4 v1` prepares for that (with the pod's name where two there
    are of one revision)."""
    return [_word(world, action) for action in chosen]


def _word(world: World, action: actions.Action) -> str:
    match action:
        case actions.CreatePod():
            return f"+{action.node} {tag_of(action.revision.template)}"
        case actions.DeletePod() | actions.PrepareDelete() | actions.CancelDelete():
            return _word_of_end(world, action)
        case actions.ProbeTemplate():
            return f"probe {tag_of(action.revision.template)} on {action.node}"
        case actions.AdoptPod():
            return f"adopt {action.pod.name}"
        case actions.ReleasePod():
            return f"release {action.pod.name}"
        case actions.RelabelPod():
            return f"relabel {action.pod.name} {action.hash}"
        case actions.AdoptRevision():
            return f"adopt {action.revision.name}"
        case actions.CreateRevision():
            return f"store {tag_of(world.daemonset.spec.template)} as {action.number}"
        case actions.RenumberRevision():
            return f"renumber {action.revision.name} {action.number}"
        case actions.RecordRun():
            return f"ran {action.revision.name}"
        case actions.DeleteRevision():
            return f"forget {action.revision.name}"
        case _:
            return _word_in_place(action)


def _word_in_place(action: actions.InPlaceAction) -> str:
    match action:
        case actions.UpdateInPlace():
            return f"*{action.node} {tag_of(action.revision.template)}"
        case actions.DrainPod() | actions.ContinueInPlace() | actions.ResizePod():
            return f"{type(action).__name__} {action.node}"
        case actions.OpenGates():
            return f"open {action.pod.name}"
    assert_never(action)


def _word_of_end(world: World, action: actions.DeletePod | actions.PrepareDelete | actions.CancelDelete) -> str:
    match action:
        case actions.DeletePod():
            return f"-{_pod_of(world, action)}"
        case actions.PrepareDelete():
            return f"~{_pod_of(world, action)}"
        case actions.CancelDelete():
            return f"keep {action.pod.name}"


def _pod_of(world: World, action: actions.DeletePod | actions.PrepareDelete) -> str:
    hashes = {one.uid: one.hash for one in world.pods}
    tags = {one.hash: tag_of(one.template) for one in world.revisions}
    hash_ = hashes[action.pod.uid]
    twins = [one for one in world.pods if one.node == action.node and one.hash == hash_]
    word = f"{action.node} {tags.get(hash_, hash_)}"
    return word if len(twins) == 1 else f"{word} {action.pod.name}"


def picture(world: World, decided: Plan) -> str:
    """World and plan as two small tables."""
    daemonset = world.daemonset
    rolling = daemonset.rolling_update
    lines = [
        f"template {tag_of(daemonset.spec.template)}  fresh {world.fresh}  {rolling or 'OnDelete'}",
        "revisions " + ", ".join(f"{one.number}: {one.name}" for one in world.revisions),
        f"{'node':<10} {'fit':<6} {'selected':<9} pods",
    ]
    by_node: dict[str, list[Pod]] = {}
    for one in world.pods:
        by_node.setdefault(one.node, []).append(one)
    judged = world.rules.judged(world.nodes)
    for node, fit, selected in zip(judged.nodes, judged.fits, judged.selected, strict=True):
        pods = ", ".join(_pod(one, world.now) for one in by_node.pop(node.name, ()))
        taints = " ".join(f"[{one.key}:{one.effect}]" for one in node.taints)
        lines.append(f"{node.name:<10} {fit.name:<6} {selected!s:<9} {pods} {taints}")
    for name, gone in sorted(by_node.items()):
        lines.append(f"{name:<10} {'gone':<6} {'':<9} {', '.join(_pod(one, world.now) for one in gone)}")
    lines.append(f"plan  (look again at {decided.wake_at})")
    lines += [f"  {word}" for word in words(world, decided.actions)] or ["  nothing"]
    lines += [f"  note {note.reason}: {note.message}" for note in decided.notes]
    if decided.status is not None:
        lines.append(f"  {decided.status.counts}")
    return "\n".join(lines)


def _pod(pod: Pod, now: float) -> str:
    traits = [pod.name, pod.hash or "no hash"]
    traits += [pod.phase] if pod.ended or pod.phase == "Pending" else []
    traits += ["ready" if pod.ready_since is None else f"ready {now - pod.ready_since:.0f}s"] if pod.ready else []
    traits += ["terminating"] if pod.terminating else []
    traits += [] if pod.bound else ["unbound"]
    return "(" + " ".join(traits) + ")"


def check(world: World, *expected: str) -> Plan:
    """Plan, and compare with `expected`: every action in words, in order."""
    decided = plan(world)
    said = words(world, decided.actions)
    assert said == list(expected), f"planned {said}, expected {list(expected)}\n{picture(world, decided)}"
    return decided
