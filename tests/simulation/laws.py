"""What no write of the controller may break: its invariants, asked at the API server, write by write.

Strict always, whatever faults are in force, by what the server holds:
- never two live pods of one image on a node, never three live pods at all;
- every write carries a precondition, and no plan is made by a process that has not seen all writes of its own that
  were answered; the counts of a status add up;
- no more creates or deletes of pods in one pass than burstReplicas.

Strict by what the controller had been told when it made the plan, and by what it has written itself since; without a
fault on its watches that is what the server holds (`Chronicle`):
- a pod that the preDelete hook matches is not deleted; what is prepared for that counts as deleted for all that
  follows;
- a node whose pods do not last waits out its back-off;
- no pod is created before the process has asked to store its revision;
- a pod is created only on a free node where one should run, or beside an old one while surging;
- by its hand no more than maxUnavailable nodes are without an available pod, and no more than maxSurge nodes
  have two, other than those whose old pod did not serve;
- the update moves selected nodes within `desired - partition`, by name descending, and none while paused or OnDelete;
  a created pod is of the revision that its node may hold: beyond the quota it comes back as it was, and an older one
  comes only where its own placement lets it run.

Lenient: a write that was not answered, and which a late watch does not show either, has not happened for the
controller (`UNANSWERED_COUNTS`); and where the answer hangs on what a restarted controller cannot know (which pod was
on a node before, since when a pod with a clock ahead is ready), both answers are right.

`missing`: what the world must look like once nothing happens any more, worked out from the spec and the nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from controller.api.names import IN_PLACE_UPDATE_READY
from tests.beds.api import Object
from tests.beds.objects import condition
from tests.beds.simulator.kinds import DAEMONSETS, PODS
from tests.beds.simulator.store import HistoryEntry
from tests.simulation.chronicle import Chronicle
from tests.simulation.scene import Pod, State, is_ours, pod_of
from tests.simulation.wear import Create


def broken(change: HistoryEntry, server: Chronicle) -> Iterator[str]:
    """Each law that this write of the controller breaks, in words. The chronicle does not have the write yet."""
    if server.predates_restore:
        return  # no process can know that, and its preconditions are all that there is
    told, basis = server.told(), server.basis()
    if change.after.kind is PODS and server.decision.blind:
        yield f"it acts, and has not seen its own writes {sorted(server.decision.blind)}"
    if change.after.kind is DAEMONSETS:
        yield from _status(change.after.object)
    elif change.after.kind is PODS and is_ours(change.after.object):
        before = server.pods.get(change.after.uid)
        after = pod_of(change.after.object, before, told.at)
        if change.before is not None and before is not None and before.image != after.image:
            yield from _undrained(change.before.object)
        if before is None:
            server.decision.written_since.append("create")
            yield from crowd(after, server)
            yield from _unstored(after, told, server)
            yield from _burst("create", told, server)
            yield from _creation(after, told, basis, server)
            yield from _back_off(after, told, server)
            if after.node in told.nodes:
                uid = told.nodes[after.node].uid
                made = Create(change.version, told.spec.generation, uid, after.uid, server.cluster.clock())
                server.wear.creates.append(made)
        elif before.live and (change.type == "DELETED" or after.terminating):
            server.decision.written_since.append("delete")
            yield from _burst("delete", told, server)
            yield from _unhooked(told.pods.get(before.uid, before), told)
            yield from _deletion(told.pods.get(before.uid, before), told, basis)
            _sent_away(before.node, told, server)
        elif before.live and after.held and not before.held:
            server.decision.written_since.append("delete")
            yield from _burst("delete", told, server)
            yield from _deletion(told.pods.get(before.uid, before), told, basis)
        elif before.live and after.live and before.ready and not after.ready:
            server.decision.written_since.append("update")
            yield from _burst("update", told, server)
            yield from _for_the_update(told.pods.get(before.uid, before), told, basis)
        elif before.ended and not before.terminating and (change.type == "DELETED" or after.terminating):
            server.decision.written_since.append("delete")
            yield from _burst("delete", told, server)
            yield from _unhooked(told.pods.get(before.uid, before), told)
            yield from _back_off(before, told, server)


def _undrained(pod: Object) -> Iterator[str]:
    """Its image changes in place, so that a container restarts."""
    gates = {gate["conditionType"] for gate in pod["spec"].get("readinessGates") or []}
    if IN_PLACE_UPDATE_READY in gates and condition(pod, IN_PLACE_UPDATE_READY).get("status") == "True":
        yield f"{pod['metadata']['name']} restarts in place, and its readiness gate is open"


def _unhooked(pod: Pod, told: State) -> Iterator[str]:
    if told.spec.hook and pod.guarded:
        yield f"{pod.name} of {pod.node} is deleted past its preDelete hook"


CLOCK_GRAIN = 0.001
"""Seconds: two kinds of time, one of them counted from 1970, do not agree to the last digit."""


def _back_off(pod: Pod, told: State, server: Chronicle) -> Iterator[str]:
    """The deletion of a pod that ended, or a new pod. Where none may be it goes at once."""
    node = pod.node
    if node not in told.nodes or told.leaves(node):
        return
    moment = server.wear.until(told.spec.generation, told.nodes[node].uid, server.answered)
    if told.at < moment - CLOCK_GRAIN:
        what = "goes" if pod.ended else "is created"
        yield f"{pod.name} of {node} {what} {moment - told.at:.1f} s before the back-off of its node is over"


def _sent_away(node: str, told: State, server: Chronicle) -> None:
    """A pod goes. Because of a taint that is no failure of its node."""
    if node in told.nodes and told.leaves(node):
        server.wear.sent_away(told.nodes[node].uid)


def _status(daemonset: Object) -> Iterator[str]:
    status, generation = daemonset.get("status") or {}, daemonset["metadata"]["generation"]
    desired, current = status.get("desiredNumberScheduled", 0), status.get("currentNumberScheduled", 0)
    if desired != status.get("numberAvailable", 0) + status.get("numberUnavailable", 0):
        yield f"desired is not available + unavailable: {status}"
    if not status.get("updatedNumberScheduled", 0) <= current <= desired:
        yield f"not updated <= current <= desired: {status}"
    if status.get("observedGeneration", 0) > generation:
        yield f"observed {status['observedGeneration']} of generation {generation}"


def crowd(new: Pod, server: Chronicle) -> Iterator[str]:
    """By the server itself, at any time."""
    there = [pod for pod in server.pods.values() if pod.node == new.node and pod.live]
    if len(there) > 1:
        yield f"a third live pod on {new.node}, beside {_names(there)}"
    if any(pod.image == new.image for pod in there):
        yield f"a second live pod of the same image on {new.node}, beside {_names(there)}"


def _unstored(new: Pod, told: State, server: Chronicle) -> Iterator[str]:
    if told.is_current(new) and told.stored is False and server.last_to_store < told.spec.generation:
        yield f"{new.name} is created before the process has asked to store its revision"


def _burst(verb: str, told: State, server: Chronicle) -> Iterator[str]:
    if server.decision.written_since.count(verb) > told.burst:
        yield f"burst: more than {told.burst} of {dict(Counter(server.decision.written_since))} in one pass"


def _creation(new: Pod, told: State, basis: State, server: Chronicle) -> Iterator[str]:
    node = new.node
    if node not in told.eligible:
        yield f"a pod is created on {node}, where none should run"
        return
    live = told.live(node)
    waiting = [pod for pod in told.on(node) if pod.phase == "Failed" and not pod.terminating]
    if any(not live or told.is_current(pod) for pod in waiting):
        yield f"a pod is created on {node}, where {_names(waiting)} waits out its back-off"
    if live:
        yield from _beside(new, live, told, server)
    elif not told.max_surge and [pod for pod in told.on(node) if not (pod.terminating and pod.ended)]:
        yield f"a pod is created on {node} although {_names(told.on(node))} is not gone"
    if not told.is_current(new) and new.image in basis.perhaps_older:
        return
    had_one = basis.had_one(node)
    if told.spec.progressive:
        return
    if had_one or not told.progressive:
        yield from _revision(new, basis)
    elif had_one is False:
        yield from _step_by_step(new, told, basis)


def _revision(new: Pod, basis: State) -> Iterator[str]:
    node, current = new.node, basis.is_current(new)
    allowed = basis.may_get_current(node)
    if current and allowed is False and new.image not in basis.promised(node):
        yield f"a pod of the current revision on {node}, which may not hold it"
    if not current and (not basis.older or allowed):
        yield f"a pod of an older revision on {node}, which may hold the current one"
    if not current and basis.older:
        yield from _promised(new, basis)


def _promised(new: Pod, basis: State) -> Iterator[str]:
    """Of an older revision."""
    promised = basis.promised(new.node)
    if new.image not in promised:
        yield f"{new.image} on {new.node} is not what should come there, that is {sorted(promised)}"
    if not basis.runs(new.image, new.node):
        yield f"{new.image} does not run on {new.node}, by its own placement"


def _step_by_step(new: Pod, told: State, basis: State) -> Iterator[str]:
    """Progressive creation: the first pod of a node."""
    node = new.node
    if len(told.holders() - {node}) >= told.quota:
        yield f"{node} gets its first pod although {sorted(told.holders())} of {told.quota} have the current one"
    frozen = basis.incomplete() if told.spec.paused else False
    excluded = bool(told.older) and (not told.selected(node) or bool(frozen))
    if not told.is_current(new):
        yield from _promised(new, basis)
    if told.older and not told.stored:
        excluded, frozen = True, told.stored
    if frozen is not None and told.is_current(new) is excluded:
        yield f"selector and pause {'exclude' if excluded else 'admit'} {node}, but its first pod is {new.image}"


def _beside(new: Pod, live: list[Pod], told: State, server: Chronicle) -> Iterator[str]:
    """A second pod on a node."""
    node, spec = new.node, told.spec
    if not told.max_surge:
        yield f"a second pod on {node} without surge, beside {_names(live)}"
    if not told.is_current(new) or any(map(told.is_current, live)):
        yield f"beside {_names(live)} on {node} a pod that is no successor"
    if spec.paused or not spec.rolling:
        yield f"the update goes on on {node} although it is paused or OnDelete"
    if told.nodes[node].unreachable:
        yield f"an update on {node}, which is unreachable"
    if not any(told.available(pod) for pod in live):
        server.beside_the_sick.add(new.uid)
        return
    pairs = {one: told.current(one) for one in told.eligible if told.old(one)}
    counted = {one for one, pods in pairs.items() if any(pod.uid not in server.beside_the_sick for pod in pods)}
    if len(counted | {node}) > told.max_surge:
        yield f"with {node} beside {sorted(counted)} more than {told.max_surge} nodes have two pods"


def _deletion(pod: Pod, told: State, basis: State) -> Iterator[str]:
    node = pod.node
    if node not in told.nodes:
        if pod.bound:
            yield f"{pod.name} on the vanished {node} is bound: it is the pod garbage collector's"
        return
    if told.leaves(node) or not pod.live:
        return
    others = [one for one in told.live(node) if one.uid != pod.uid]
    same = [one for one in others if told.is_current(one) == told.is_current(pod)]
    if same and all(one.held for one in same):  # they are on their way out already
        if not pod.ready and any(one.drained for one in same):
            return  # that one is ready but for its preparation, and may stay instead
        others, same = [one for one in others if one not in same], []
    if same:
        if told.available(pod) and told.served(node) and not any(told.available(one) is not False for one in others):
            yield f"of two pods on {node} the one that serves was deleted, {_names(others)} stays"
    elif others:
        yield from _of_a_pair(pod, others[0], told)
    else:
        yield from _for_the_update(pod, told, basis)


def _of_a_pair(pod: Pod, other: Pod, told: State) -> Iterator[str]:
    """An old and a current pod on one node: one goes."""
    node, goes = pod.node, told.available(pod)
    stays = told.available(other)
    if told.nodes[node].unreachable:
        yield f"one of two pods on {node} goes, which is unreachable"
    if told.is_current(pod):
        if node not in told.eligible and not pod.bound:
            return  # a taint came before the scheduler did: it could start nowhere
        if told.max_surge:
            yield f"the new pod of {node} goes while surging, beside {_names([other])}"
        elif goes or (stays is False and not other.ready and not other.drained):
            yield f"of two pods on {node} the current one goes although the old one is no better"
    elif told.max_surge:
        if pod.ready and stays is False:
            yield f"the old pod of {node} goes before its partner is available"
    elif goes and stays is False:
        yield f"of two pods on {node} the one that serves was deleted, {_names([other])} stays"


def _for_the_update(pod: Pod, told: State, basis: State) -> Iterator[str]:
    """The only live pod of a node that may keep it."""
    node, spec = pod.node, told.spec
    if node in told.nodes and told.leaves(node):
        return
    if told.is_current(pod):
        yield f"{pod.name} on {node} is current, and nothing is wrong with it"
        return
    if spec.paused or not spec.rolling:
        yield f"{pod.name} on {node} goes although the update is paused or OnDelete"
    if told.nodes[node].unreachable:
        yield f"an update on {node}, which is unreachable"
    if told.max_surge:
        yield from _surplus(pod, told)
        return
    if node not in told.eligible:
        yield f"{pod.name} may stay on {node}, and no other would come"
        return
    if basis.may_hold_current(node) is False:
        yield f"{node} may not hold the current revision, and its old pod goes"
    down = told.down()
    if told.available(pod) and len({*down, node}) > told.max_unavailable:
        yield f"{node} goes beside {sorted(down)}, maxUnavailable is {told.max_unavailable}"


def _surplus(pod: Pod, told: State) -> Iterator[str]:
    """While surging a lone pod goes only from a node that may merely keep it, when enough others serve."""
    if pod.node in told.eligible:
        yield f"the only pod of {pod.node} goes while surging"
    elif told.available(pod):
        serving = [one for one in told.nodes if told.served(one) is not False]
        if len(serving) <= told.desired:
            yield f"{pod.name} may stay on {pod.node}, and {len(serving)} serve where {told.desired} should"


def _names(pods: list[Pod]) -> str:
    return ", ".join(map(str, pods)) or "none"


def missing(begun: State, now: State, status: Object) -> list[str]:
    """What is not as it should be, in words. `begun`: the world when the last move had been made."""
    return [*_places(now), *_old_pods(now), *_pace(begun, now), *counts(now, status)]


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


def _old_pods(now: State) -> Iterator[str]:
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


def counts(now: State, status: Object) -> Iterator[str]:
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
