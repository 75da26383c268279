"""What the world must look like once nothing happens any more, worked out from the spec and the nodes alone."""

from __future__ import annotations

from collections.abc import Iterator

from tests.beds.api import Object
from tests.properties.rollout_facts import Pod
from tests.properties.rollout_scene import State


def missing(begun: State, now: State, status: Object) -> list[str]:
    """What is not as it should be, in words. `begun`: the world when the last move had been made."""
    return [*_places(now), *_surplus(now), *_pace(begun, now), *_status(now, status)]


def _places(now: State) -> Iterator[str]:
    """Which nodes have a pod."""
    for node in now.eligible:
        there = now.on(node)
        if not there and (may_wait(now) or now.may_stay_empty(node)):
            continue
        if len(there) != 1 or not now.available(there[0]):
            yield f"{node} should have one available pod, there is: {_names(there)}"
    for node in sorted({pod.node for pod in now.pods.values()} - {*now.eligible}):
        there = now.on(node)
        if node not in now.nodes or now.leaves(node):
            yield f"{node} should have no pod, there is: {_names(there)}"
        elif len(there) > 1 or not all(pod.live for pod in there):
            yield f"{node} may keep one live pod, there is: {_names(there)}"


def may_wait(now: State) -> bool:
    """Progressive creation: nodes that never had a pod go without one while the current revision has its quota."""
    return now.progressive and len(now.holders()) >= now.quota


def _surplus(now: State) -> Iterator[str]:
    """While surging: an old pod that may merely stay goes when enough others serve, whatever the partition."""
    staying = [node for node in now.nodes if not now.leaves(node)]
    serving = [node for node in staying if now.served(node)]
    leaving = [node for node in staying if node not in now.eligible and now.old(node) and not now.current(node)]
    leaving = [node for node in leaving if now.selected(node)]
    if now.max_surge and now.spec.rolling and not now.spec.paused and leaving and len(serving) > now.desired:
        yield f"old pods stay on {leaving}, {len(serving)} nodes serve where {now.desired} should"


def _pace(begun: State, now: State) -> Iterator[str]:
    """How many nodes have the current revision. Which of them gained it is judged at each creation."""
    holders = now.holders()
    old = [node for node in now.eligible if now.old(node) and node not in holders]
    if not now.older and old and not now.unstored:
        yield f"there is no older revision, but {old} have one"
    if not now.spec.rolling or not now.older or now.spec.paused:
        return
    waiting = [node for node in old if now.selected(node)]
    if waiting and len(holders) < now.quota:
        yield f"{waiting} wait for the update, {len(holders)} of {now.quota} have it"
    back = {node for node in holders if not begun.live(node) and now.spec.image in begun.promised(node)}
    if len(holders) > max(now.quota, len(begun.holders() | back)):
        yield f"{sorted(holders)} have the current revision, that is more than {now.quota}"


def _status(now: State, status: Object) -> Iterator[str]:
    having = [node for node in now.eligible if now.on(node)]
    serving = [node for node in having if now.served(node)]
    leftovers = {pod.node for pod in now.pods.values() if pod.node in now.nodes} - {*now.eligible}
    wanted = {
        "observedGeneration": now.spec.generation,
        "desiredNumberScheduled": now.desired,
        "currentNumberScheduled": len(having),
        "numberReady": len(serving),
        "numberAvailable": len(serving),
        "numberUnavailable": now.desired - len(serving),
        "updatedNumberScheduled": len(now.holders()),
        "numberMisscheduled": len(leftovers),
    }
    told = {field: status.get(field, 0) for field in wanted}
    if told != wanted:
        wrong = {field: told[field] for field in wanted if told[field] != wanted[field]}
        yield f"the status says {wrong}, there are { ({field: wanted[field] for field in wrong}) }"


def _names(pods: list[Pod]) -> str:
    return ", ".join(map(str, pods)) or "none"
