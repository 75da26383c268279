"""What progressive rollouts promise, asked at the API server: `/docs/progressive-rollouts.md`.

- No more nodes hold the current revision than the recorded step allows, except those that had it when the spec was
  edited or the status was lost.
- A step follows the one before, which was approved where it must be, and had been reached for its soak without an
  interruption that the process was told of.
- No failure domain, and no number of domains, is shorter because of the update than allowed.
- What `oracle` says of checks.
- No node newly gets an aborted revision, and in the end none keeps one that goes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from tests.beds.simulator.kinds import DAEMONSETS, PODS
from tests.beds.simulator.store import HistoryEntry
from tests.simulation.chronicle import AGAIN, Chronicle
from tests.simulation.oracle import FRESH, Oracle
from tests.simulation.record import WHO, Listener
from tests.simulation.scene import Pod, Spec, State, is_ours, pod_of, share, spec_of

GRAIN = 1.5
"""Seconds: the times of a status are whole ones."""


@dataclass
class Course:
    """Follows the rollout at the server, which `server` (any chronicle) shows."""

    server: Chronicle
    oracle: Oracle
    held: set[str] = field(default_factory=set)
    """Nodes that held the current revision when the spec was edited, or the status was lost."""
    step_since: float = 0.0
    taken: set[str] = field(default_factory=set)
    """Nodes whose old pod went for the update, and that are not served again."""
    edited_at: float = 0.0
    interruptions: list[tuple[int, float]] = field(default_factory=list)
    """Version and time: a pod of the current revision was not available any more."""

    def __post_init__(self) -> None:
        for kind in (DAEMONSETS, PODS):
            self.server.cluster.store.watches[kind].append(Listener(kind, self._happened))

    def _happened(self, change: HistoryEntry) -> None:
        if change.after.kind is DAEMONSETS:
            new = spec_of(change.after.object)
            old = spec_of(change.before.object) if change.before else None
            if old is None or old.edited != new.edited or (old.record and not new.record):
                self._note_holders()
                self.edited_at = self.server.cluster.clock()
            if old is None or (old.revision, old.record.get("step")) != (new.revision, new.record.get("step")):
                self.step_since = self.server.cluster.clock()
        elif self.server.spec is not None and is_ours(change.after.object):
            self._pod(change)

    def server_restored(self) -> None:
        self.interruptions.clear()
        self.taken.clear()
        self.step_since = self.server.cluster.clock()
        self._note_holders()

    def _note_holders(self) -> None:
        now = self.server.now()
        self.held = {node for node in now.eligible if now.current(node) or now.had_current(node) is not False}

    def _pod(self, change: HistoryEntry) -> None:
        clock = self.server.cluster.clock()
        before = pod_of(change.before.object, None, clock) if change.before else None
        after = pod_of(change.after.object, before, clock)
        stands = change.type != "DELETED" and after.live and after.ready
        if stands:
            self.taken.discard(after.node)
        node, spec = self.server.nodes.get(after.node), self.server.spec
        if before is None or node is None or spec is None or node.unreachable:
            return
        was = before.live and before.ready and before.image == self.server.in_force(spec).image
        if was and not (stands and after.since == before.since):
            self.interruptions.append((change.version, clock))


def broken(change: HistoryEntry, server: Chronicle, course: Course) -> Iterator[str]:
    """Each law that this write of a process breaks. The chronicle does not have the write yet."""
    if server.predates_restore or server.spec is None:
        return
    if change.after.kind is DAEMONSETS:
        new = spec_of(change.after.object)
        yield from _step(new, server, course)
        yield from _abort(new, server, course)
        return
    if change.after.kind is not PODS or not is_ours(change.after.object):
        return
    told, before = server.told(), server.pods.get(change.after.uid)
    if not told.spec.progressive or told.spec.edited != server.spec.edited:
        return
    after = pod_of(change.after.object, before, told.at)
    ends = change.type == "DELETED" or after.terminating or (after.held and not after.drained)
    if after.live and not ends and told.is_current(after) and (before is None or before.image != after.image):
        yield from _gain(after, told, server, course)
    goes = before is not None and before.live and (ends or (before.ready and not after.ready))
    if before is not None and goes and not told.is_current(before):
        yield from _take(told.pods.get(before.uid, before), told, server, course)


def _gain(new: Pod, told: State, server: Chronicle, course: Course) -> Iterator[str]:
    """A node newly gets the current revision."""
    node, spec = new.node, told.spec
    assert server.spec is not None
    if node not in told.nodes or told.had_current(node) is not False or node in told.holders() or not spec.rolling:
        return
    hash_ = next((one for one, image in server.hashes.items() if image == spec.image), "")
    again = any(str(spec.notes.get(note, "")).startswith(hash_) for note in AGAIN)
    if (
        hash_
        and not again
        and {spec.record.get("abortedRevision"), server.spec.record.get("abortedRevision")} == {hash_}
    ):
        yield f"{node} gets {spec.image}, which was aborted"
    most, holders = _allowed(told, server.spec, hash_), told.holders() | {node}
    if most is not None and _is_checked(server):
        at, since = server.decision.at, max(course.edited_at, server.life_began)
        if course.oracle.fails_surely(WHO.get(), hash_, since, at):
            yield f"{node} gets {spec.image} while a check fails"
    if most is not None and not holders <= course.held and len(holders) > max(most, len(course.held)):
        yield f"{sorted(holders)} hold {spec.image}, the step allows {most}, {sorted(course.held)} had it"


def _allowed(told: State, now: Spec, hash_: str) -> int | None:
    """Nodes that may hold the current revision by the step that is recorded; None: all."""
    skipped = told.spec.notes.get(AGAIN[0]) == hash_
    if not now.steps or not told.older or skipped or not hash_ or now.record.get("stableRevision") == hash_:
        return None
    step = min(now.record.get("step") or 1, len(now.steps)) if now.revision == hash_ else 1
    chosen = told.holders() | {node for node in told.eligible if told.selected(node)}
    return max(share(one["nodes"], len(chosen), up=True) for one in now.steps[:step])


def _is_checked(server: Chronicle) -> bool:
    """Whether steps wait for Prometheus. Those that are over do not."""
    spec = server.told().spec
    return spec.checks and not (server.spec and server.spec.record.get("completionTime"))


def _unanswered(node: str, told: State, server: Chronicle, course: Course) -> Iterator[str]:
    hash_ = next((one for one, image in server.hashes.items() if image == told.spec.image), "")
    if server.spec is None or not _is_checked(server) or node in told.holders():
        return
    at = server.decision.at
    fresh = course.oracle.has_passed(WHO.get(), hash_, at - FRESH - GRAIN, at)
    if _allowed(told, server.spec, hash_) is not None and not fresh:
        yield f"{node} is taken without a recent answer by which the check passes"


def _abort(new: Spec, server: Chronicle, course: Course) -> Iterator[str]:
    """A status that is written may call a revision aborted."""
    before, after = server.spec.record if server.spec is not None else {}, new.record
    aborted = after.get("abortedRevision")
    if not aborted or before.get("abortedRevision") == aborted:
        return
    if str(after.get("abortedMessage", "")).startswith("check "):
        yield from course.oracle.abort(WHO.get(), aborted, server.decision.at)


def _take(old: Pod, told: State, server: Chronicle, course: Course) -> Iterator[str]:
    """The old pod of a node goes, or begins to change."""
    node, limits = old.node, told.spec.topology
    if node not in told.nodes or node not in told.eligible or told.leaves(node) or not told.served(node):
        return
    if told.max_surge or len(told.live(node)) > 1:
        return
    yield from _unanswered(node, told, server, course)
    zone = told.nodes[node].zone
    there = {one for one in told.eligible if told.nodes[one].zone == zone}
    if limits is not None and (most := limits.get("maxUnavailable")) is not None:
        short = there & told.down() | {node}
        if len(short) > share(most, len(there), up=True):
            yield f"{node} goes in {zone}, where {sorted(short)} are short then, of {len(there)}"
    if limits is not None and (most := limits.get("maxDomains")) is not None:
        ill = {one for one in told.holders() if told.served(one) is False and not told.nodes[one].unreachable}
        known = {*(told.spec.record.get("unavailableBefore") or ())}
        zones = {told.nodes[one].zone for one in (ill | course.taken) - known if one in told.eligible}
        if zone not in zones and len(zones) >= most:
            yield f"{node} goes in {zone}, and {sorted(zones)} are short because of the update already"
    course.taken.add(node)


def _step(new: Spec, server: Chronicle, course: Course) -> Iterator[str]:
    """A status is written."""
    old, told = server.spec, server.told().spec
    assert old is not None
    before, after = old.record.get("step"), new.record.get("step")
    if not before or not after or old.revision != new.revision or after <= before or old.edited != told.edited:
        return
    if after != before + 1:
        yield f"step {after} follows on step {before}"
    if told.notes.get(AGAIN[0]) == new.revision or before > len(told.steps):
        return
    done = told.steps[before - 1]
    if done.get("approval") == "Required" and told.notes.get("kruise-ds/approve") != f"{new.revision}/{before}":
        yield f"step {before} is over without approval"
    at, known = server.decision.at, server.decision.known.get(PODS.resource, 0)
    since = max([course.step_since, *(moment for version, moment in course.interruptions if version <= known)])
    soaked = since + seconds(done.get("soak") or "0s") - GRAIN
    if at < soaked:
        yield f"step {before} is over {at - since:.1f} s after it could be reached, {done}"
    if _is_checked(server) and not course.oracle.has_passed(WHO.get(), new.revision, soaked, at):
        yield f"step {before} is over, and no answer to a query after its soak says that the check passes"


def seconds(text: str) -> float:
    """Of a duration in seconds."""
    return timedelta(seconds=float(text.removesuffix("s"))).total_seconds()


def kept(server: Chronicle) -> Iterator[str]:
    """In the end: nodes that keep an aborted revision which goes back."""
    now, spec = server.now(), server.spec
    assert spec is not None
    if now.spec.image != spec.image:
        for node in now.eligible:
            if any(pod.image == spec.image for pod in now.live(node)):
                yield f"{node} keeps {spec.image}, which was aborted and goes back"
