"""A cluster of the simplest kind: plans are applied to the world as if by a slow API server.

A deleted pod is gone by the next pass, a created one is pending, and nothing becomes ready until the test says so.
Names and uids are checked: a create under a name that is taken fails the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.api.names import HASH_LABEL, LIFECYCLE_STATE_LABEL, PREPARING_DELETE
from controller.api.node import Node
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.planner import actions
from controller.planner.failure import effective_daemonset
from controller.planner.plan import Plan, plan
from controller.planner.revisions import placements_of
from controller.planner.status import Status
from controller.planner.validation import compiled
from controller.planner.world import Accepted, World, predecessor
from tests.beds.worlds import OURS, RESIZING, RESTARTING, WANTED, gated, pending, picture, revision, tag_of, words

PREPARED = {LIFECYCLE_STATE_LABEL: PREPARING_DELETE}


class ToyCluster:
    def __init__(self, world: World, *, dead: Iterable[str] = ()) -> None:
        self.world = world
        self.plan = Plan()
        self.dead = set(dead)
        """Nodes on which a deleted pod stays terminating, and from which nothing is heard."""

    # what the controller does

    def step(self) -> list[str]:
        """One pass: plan, apply; returns the actions in words."""
        self.plan = plan(self.effective)
        said = words(self.world, self.plan.actions)
        for action in self.plan.actions:
            self._apply(action)
        self._keep_status()
        return said

    @property
    def status(self) -> Status:
        """What the last pass wants there."""
        assert self.plan.status is not None
        return self.plan.status

    @property
    def effective(self) -> World:
        """The world as it is planned: perhaps with the template of the stable revision."""
        daemonset = effective_daemonset(self.world.daemonset, self.world.revisions)
        if not daemonset.rolled_back:
            return self.world
        return replace(self.world, daemonset=daemonset, rules=compiled(daemonset))

    def expect(self, *passes: str) -> None:
        """Each of `passes` is what one pass does: `"-node-4 v1, -node-3 v1"`; `""` is nothing."""
        for number, expected in enumerate(passes, start=1):
            before = self.world
            said = ", ".join(self.step())
            assert said == expected, (
                f"pass {number} of {len(passes)}: did {said!r}, expected {expected!r}\n{picture(before, self.plan)}"
            )

    def settle(self, rounds: int = 50) -> list[str]:
        """Passes until one does nothing; returns what all of them did."""
        done: list[str] = []
        for _ in range(rounds):
            said = self.step()
            if not said:
                return done
            done += said
        raise AssertionError(f"not quiet after {rounds} passes\n{picture(self.world, self.plan)}")

    def _apply(self, action: actions.Action) -> None:
        world = self.world
        match action:
            case actions.CreatePod():
                self._create(action)
            case actions.DeletePod():
                if action.node in self.dead:
                    self.change(action.pod.uid, terminating=True)
                else:
                    self.lose(action.pod.name)
            case actions.PrepareDelete():
                self.change(action.pod.uid, labels={**self.pod(action.pod.name).labels, **PREPARED})
            case actions.CancelDelete():
                pod = self.pod(action.pod.name)
                labels = {key: pod.labels[key] for key in pod.labels if key not in PREPARED}
                unmarked = tuple(
                    replace(one, open=not one.held_by_others, marked_not_ready=False) for one in pod.gates
                )
                self.change(pod.uid, labels=labels, gates=unmarked, ready=pod.ready_ignoring_hook, drained=False)
            case actions.ProbeTemplate():
                self.world = replace(world, verdicts={**world.verdicts, action.revision.hash: Accepted()})
            case actions.AdoptPod():
                orphan = next(one for one in world.orphans if one.uid == action.pod.uid)
                rest = tuple(one for one in world.orphans if one is not orphan)
                self.world = replace(world, orphans=rest, pods=(*world.pods, replace(orphan, owner_uid=OURS)))
            case actions.ReleasePod():
                stranger = self.pod(action.pod.name)
                rest = tuple(one for one in world.pods if one is not stranger)
                self.world = replace(world, pods=rest, orphans=(*world.orphans, replace(stranger, owner_uid="")))
            case actions.RelabelPod():
                labels = {**self.pod(action.pod.name).labels, HASH_LABEL: action.hash}
                self.change(action.pod.uid, labels=labels)
            case _ if isinstance(action, actions.InPlaceAction):
                self._apply_in_place(action)
            case _:
                self._apply_to_history(action)

    def _apply_in_place(self, action: actions.InPlaceAction) -> None:
        pod, uid = self.pod(action.pod.name), action.pod.uid
        closed = tuple(replace(one, open=False, draining=True, since=self.world.now) for one in pod.gates)
        match action:
            case actions.UpdateInPlace(change=change):
                assert pod.hash == action.before, f"{pod.name} is of {pod.hash}\n{picture(self.world, self.plan)}"
                self.change(uid, labels={**pod.labels, HASH_LABEL: action.revision.hash}, in_progress=None)
                if change.resources:
                    self.change(uid, in_progress=WANTED)
                if change.restarts:
                    self.change(uid, gates=closed, in_progress=RESTARTING, ready=False, ready_since=None)
            case actions.DrainPod():
                self.change(uid, gates=closed, ready=False, ready_since=None)
            case actions.ContinueInPlace():
                self.change(uid, in_progress=RESTARTING, ready=False, ready_since=None)
            case actions.ResizePod():
                self.change(uid, in_progress=RESIZING)
            case actions.OpenGates():
                opened = (replace(one, open=True, draining=False, present=True) for one in pod.gates)
                self.change(uid, gates=tuple(opened))

    def _apply_to_history(self, action: actions.RevisionAction) -> None:
        world = self.world
        match action:
            case actions.AdoptRevision():
                found = next(one for one in world.orphan_revisions if one.uid == action.revision.uid)
                rest = tuple(one for one in world.orphan_revisions if one is not found)
                self.world = replace(world, orphan_revisions=rest)
                self._store(replace(found, owner_uid=OURS, never_ran=action.never_ran))
            case actions.CreateRevision():
                assert action.name not in {one.name for one in world.revisions}, f"{action.name} is taken"
                pod_template = world.daemonset.spec.template
                stored = revision(tag_of(pod_template), action.number, of=pod_template)
                labels = {**stored.labels, HASH_LABEL: action.hash}
                uid = f"uid-{action.name}"
                self._store(replace(stored, name=action.name, uid=uid, labels=labels, never_ran=True))
            case actions.RenumberRevision():
                found = next(one for one in world.revisions if one.uid == action.revision.uid)
                rest = tuple(one for one in world.revisions if one is not found)
                found = replace(found, number=action.number)
                self.world = replace(world, revisions=(*rest, found))
            case actions.RecordRun():
                found = next(one for one in world.revisions if one.uid == action.revision.uid)
                rest = tuple(one for one in world.revisions if one is not found)
                self.world = replace(world, revisions=(*rest, replace(found, never_ran=False)))
            case actions.DeleteRevision():
                rest = tuple(one for one in world.revisions if one.uid != action.revision.uid)
                self.world = replace(world, revisions=rest)

    def _create(self, action: actions.CreatePod) -> None:
        names = {one.name for one in (*self.world.pods, *self.world.orphans)}
        assert action.name not in names, f"{action.name} is taken\n{picture(self.world, self.plan)}"
        uid = f"uid-created-{action.name}"
        created = pending(action.node, action.revision.hash, name=action.name, created=self.world.now)
        if self.world.daemonset.in_place:
            created = gated(created, open_=False, present=False)
        self.world = replace(self.world, pods=(*self.world.pods, replace(created, uid=uid)))

    def _store(self, stored: Revision) -> None:
        revisions = (*self.world.revisions, stored)
        self.world = replace(self.world, revisions=revisions, placements=placements_of(revisions, {}))

    def _keep_status(self) -> None:
        status = self.plan.status
        self.world = replace(self.world, unavailable_since=self.plan.unavailable_since)
        if status is None:
            return
        daemonset = self.world.daemonset
        before = daemonset.status or DaemonSetStatus()
        written = DaemonSetStatus(
            observed_generation=status.observed_generation or before.observed_generation,
            update_revision=status.revision_hash or before.update_revision,
            rollout=status.rollout,
        )
        self.world = replace(self.world, daemonset=replace(daemonset, status=written))

    # what the cluster does

    def pod(self, name: str) -> Pod:
        return next(one for one in self.world.pods if one.name == name)

    def on(self, node: str) -> list[str]:
        """Revisions of the pods on a node, a terminating one with a dagger; sorted."""
        tags = {one.hash: tag_of(one.template) for one in self.world.revisions}
        return sorted(
            tags.get(one.hash, one.hash) + ("†" if one.terminating else "")
            for one in self.world.pods
            if one.node == node
        )

    def revisions(self) -> dict[str, str]:
        """Node to the revisions of its pods: `{"node-0": "v1", "node-1": "v1 v2"}`."""
        return {node.name: " ".join(self.on(node.name)) for node in self.world.nodes}

    def change(self, uid: str, **fields: Any) -> None:
        pods = tuple(replace(one, **fields) if one.uid == uid else one for one in self.world.pods)
        self.world = replace(self.world, pods=pods)

    def change_where(self, which: Callable[[Pod], bool], **fields: Any) -> None:
        pods = tuple(replace(one, **fields) if which(one) else one for one in self.world.pods)
        self.world = replace(self.world, pods=pods)

    def lose(self, name: str) -> None:
        """The pod is gone, and the cluster remembers what it was."""
        gone = self.pod(name)
        rest = tuple(one for one in self.world.pods if one is not gone)
        seen = {
            **self.world.predecessors,
            gone.node: predecessor(gone),
        }
        self.world = replace(self.world, pods=rest, predecessors=seen)

    def ready(self, *nodes: str) -> None:
        """All live pods on these nodes (default: on all that are not dead) are bound, running and ready from now."""
        self.change_where(
            lambda one: (
                not (
                    one.terminating
                    or one.ended
                    or one.ready
                    or (one.in_progress is not None and one.in_progress.not_started)
                )
                and (not one.bound or all(gate.open for gate in one.gates))
                and one.node not in self.dead
                and (not nodes or one.node in nodes)
            ),
            bound=True,
            phase="Running",
            ready=True,
            ready_since=self.world.now,
        )
        self.change_where(lambda one: not all(gate.open for gate in one.gates), ready=False, ready_since=None)

    def pass_time(self, seconds: float) -> None:
        self.world = replace(self.world, now=self.world.now + seconds)

    # what users and admins do

    def edit(self, daemonset: DaemonSet) -> None:
        """Apply `daemonset`, and let the controller's pass over its history go by."""
        generation = self.world.daemonset.generation + 1
        daemonset = replace(daemonset, generation=generation, status=self.world.daemonset.status)
        self.world = replace(self.world, daemonset=daemonset, rules=compiled(daemonset))
        older = [one for one in self.world.revisions if one.identity != daemonset.identity]
        same = next((one for one in self.world.revisions if one.identity == daemonset.identity), None)
        number = max((one.number for one in older), default=0) + 1
        if same is None:
            self._store(revision(tag_of(daemonset.spec.template), number, of=daemonset.spec.template))
        elif older and same.number < number:
            self.world = replace(self.world, revisions=(*older, replace(same, number=number)))
        accepted = {one.hash: Accepted() for one in self.world.revisions}
        self.world = replace(self.world, verdicts={**accepted, **self.world.verdicts})

    def set_nodes(self, *nodes: Node) -> None:
        """Replace the nodes of these names, add those that are new."""
        kept = {one.name: one for one in self.world.nodes} | {one.name: one for one in nodes}
        self.world = replace(self.world, nodes=tuple(kept[name] for name in sorted(kept)))
