"""Places one pod on each node that should run it and none elsewhere, chooses the revision of an empty node, and
adopts or releases pods and revisions."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence

from controller.api.names import FAILED_DAEMON_POD, SUCCEEDED_DAEMON_POD
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.planner import actions, blockers
from controller.planner.actions import Action, DeleteReason, Note, StageResult, refusal_note
from controller.planner.blocker_texts import Blocker
from controller.planner.node_fit import Fit
from controller.planner.nodes import NodeInfo
from controller.planner.pod_template import hides_fields
from controller.planner.rolling_update import dry_run, new_pod, retire
from controller.planner.rollout_state import RolloutState
from controller.planner.world import BackoffKey, TemplateRefused, World


def place_pods(rollout: RolloutState) -> StageResult:
    """The stage that creates and deletes pods, at most `burst` of each, in ascending order of nodes."""
    needs, run = _Needs(rollout), Fit.RUN
    for node in rollout.nodes:
        if (len(node.pods) == 1 and node.fit is run and (node.current or node.old)) or not node.pods:
            continue  # nothing to delete; true for nearly every node
        if node.fit is None:
            for pod in node.pods:
                # the pod garbage collector of the cluster deletes bound ones
                if not pod.bound and not pod.terminating:
                    needs.delete(pod, DeleteReason.VANISHED)
        elif node.fit is Fit.LEAVE:
            for pod in node.pods:
                if not pod.terminating:
                    needs.leave(pod)
        else:
            _delete_ended(node, needs)
            _delete_excess(node, needs)
    burst = rollout.budget.burst
    creates, left_out = _creates(rollout, needs)
    updates_wait = bool(needs.deletes or creates) and rollout.rolling_update is not None and bool(rollout.outdated)
    if rollout.dry_run.must_dry_run and not rollout.eligible:
        needs.ask_about += [node.name for node in rollout.nodes]
    asked = _dry_run(rollout, needs.ask_about)
    wakes = [] if asked.wake_at is None else [asked.wake_at]
    if creates and blockers.has_failed(rollout.world):
        wakes.append(rollout.world.now + blockers.NEXT_RETRIES)  # a refused create ends the batches of this pass
    return StageResult(
        actions=(*needs.deletes[:burst], *creates, *asked.actions),
        notes=(*asked.notes, *needs.notes[:burst]),
        wake_at=min(wakes, default=None),
        more=left_out or len(needs.deletes) > burst or updates_wait,
        again=asked.again,
    )


class _Needs:
    def __init__(self, rollout: RolloutState) -> None:
        self.rollout = rollout
        self.deletes: list[actions.DeletePod | actions.PrepareDelete] = []
        self.notes: list[Note] = []
        self.ask_about: list[str] = []
        """Nodes that wait for a dry run of the current revision."""

    def delete(self, pod: Pod, why: DeleteReason) -> bool:
        """Returns False if something keeps the pod, such as a hook."""
        action = retire(pod, why, self.rollout)
        if action is not None:
            self.deletes.append(action)
        return action is not None

    def leave(self, pod: Pod) -> None:
        """Deletes a pod from a node that the current revision does not fit, after the dry run if one is due: the spec
        may have a misspelt field."""
        if pod.hash != self.rollout.revision.hash and self.rollout.dry_run.must_dry_run:
            self.ask_about.append(pod.node)
        else:
            self.delete(pod, DeleteReason.UNWANTED)


def _delete_ended(node: NodeInfo, needs: _Needs) -> None:
    for pod in node.ended:
        if blockers.removal_blocker(needs.rollout, pod) is Blocker.PODS_DO_NOT_LAST:
            continue
        failed = pod.phase != "Succeeded"
        if needs.delete(pod, DeleteReason.FAILED if failed else DeleteReason.SUCCEEDED):
            word = "failed" if failed else "succeeded"
            text = f"Found {word} daemon pod {pod.key} on node {node.name}, will try to delete it"
            reason = FAILED_DAEMON_POD if failed else SUCCEEDED_DAEMON_POD
            needs.notes.append(Note(warning=failed, reason=reason, message=text))


def _delete_excess(node: NodeInfo, needs: _Needs) -> None:
    """Deletes pods until one is left; while surging one of each kind, as long as the old one is needed."""
    for pod in node.live:
        if pod is not node.current and pod is not node.old:
            needs.delete(pod, DeleteReason.EXCESS)
    going = blockers.outgoing(needs.rollout, node)
    if going is not None:
        surged = going is node.old and needs.rollout.surging
        needs.delete(going, DeleteReason.SURGED if surged else DeleteReason.EXCESS)


def _dry_run(rollout: RolloutState, nodes: Sequence[str]) -> StageResult:
    """The dry run for one of these nodes; or a note if the last one found unknown fields."""
    if not nodes:
        return StageResult()
    if rollout.dry_run.refused_for_unknown_fields and isinstance(rollout.dry_run.verdict, TemplateRefused):
        return StageResult(notes=(refusal_note(rollout.dry_run.verdict),), wake_at=rollout.world.retry_dry_run_at)
    return dry_run(rollout, nodes[0], nodes)


def _creates(rollout: RolloutState, needs: _Needs) -> tuple[list[actions.CreatePod], bool]:
    """The creates for `fillable` nodes, except of revisions that await a dry run; and whether any are left out."""
    empty = fillable(rollout)
    if not empty:
        return [], False
    chosen = in_order(rollout, empty)
    found = refills(rollout, chosen)
    accepted = [(node, revision) for node, revision in found if isinstance(revision, Revision)]
    if rollout.dry_run.refused_for_unknown_fields or (
        rollout.dry_run.must_dry_run and hides_fields(rollout.revision.template)
    ):
        needs.ask_about += [node.name for node, revision in found if revision in (rollout.revision, Blocker.REFUSED)]
        accepted = [(node, revision) for node, revision in accepted if revision is not rollout.revision]
    burst = rollout.budget.burst
    left_out = len(chosen) < len(empty) or len(accepted) > burst
    return [new_pod(rollout, node, revision) for node, revision in accepted[:burst]], left_out


def fillable(rollout: RolloutState) -> list[NodeInfo]:
    """The nodes without a pod that may get one of some revision, ascending."""
    return [node for node in rollout.without_pod if blockers.creation_blocker(rollout, node) is None]


def in_order(rollout: RolloutState, empty: Sequence[NodeInfo]) -> list[NodeInfo]:
    """`empty` in the order of creation, without the nodes left for a later pass."""
    return blockers.others_first(rollout.world, empty, lambda node: BackoffKey("node", node.name), scattered=True)


def refills(rollout: RolloutState, empty: Sequence[NodeInfo]) -> list[tuple[NodeInfo, Revision | Blocker]]:
    """The revision for each of these `fillable` nodes, or what keeps it empty.

    It is the current revision if that is stored and the node may hold it, else that of `Fallback`. A node stays empty
    if the pods of its revision do not run there, or the server does not know all fields of it; with
    partitionedScaling, nodes that never had a pod wait for their turn."""
    refused = Blocker.REFUSED if rollout.dry_run.refused_for_unknown_fields else None
    if rollout.fills_with_current:
        return [(node, refused or rollout.revision) for node in empty]
    may_hold = rollout.holders
    waiting: Container[str] = ()
    if rollout.progressive:
        waiting, started = _in_turn(rollout, empty, may_hold)
        new = {node.name for node in empty if not (node.had_current or node.had_old)}
        may_hold = may_hold - new | started
    current, fallback, replaced = rollout.revision, rollout.fallback, rollout.fallback.replaces_current
    found: list[tuple[NodeInfo, Revision | Blocker]] = []
    for node in empty:
        if node.name in waiting:
            found.append((node, Blocker.SCALING))
            continue
        may = node.name in may_hold
        revision = current if may and not replaced else fallback.revision(node)
        if revision is current and refused:
            found.append((node, refused))
        elif fallback.accepts(node, revision):
            found.append((node, revision))
        else:
            found.append((node, Blocker.UNSTORED if may else Blocker.PLACEMENT))
    return found


def _in_turn(rollout: RolloutState, empty: Sequence[NodeInfo], may_hold: Container[str]) -> tuple[set[str], set[str]]:
    """The new nodes that wait because the partition is used up, and those that get the current revision.

    A node whose pod was lost while this process ran is not new; OpenKruise does not replace that pod while the
    partition is used up. Nodes kept by selector or pause do not count. Beyond the step, nodes get an older
    revision."""
    returning = [node for node in rollout.eligible if node.had_old and not node.live and node.name in may_hold]
    having = sum(1 for node in rollout.eligible if node.had_current) + len(returning)
    room, allowed = rollout.unpartitioned - having, rollout.allowed_nodes - having
    frozen = rollout.frozen
    waiting: set[str] = set()
    started: set[str] = set()
    for node in empty:
        if node.had_current or node.had_old:
            continue
        if room <= 0:
            waiting.add(node.name)
        elif not rollout.older or (node.selected and not frozen):
            room -= 1
            if len(started) < allowed:
                started.add(node.name)
    return waiting, started


def claim(rollout: RolloutState) -> StageResult:
    """The stage that adopts pods and revisions that match the selector, releases pods that no longer match, and
    deletes pods whose labels a webhook changed; at most `burst` in one pass. Terminating orphans are not adopted."""
    world = rollout.world
    unmatched = [pod for pod in rollout.unmatched if _may_write(world, pod.uid) and not pod.terminating]
    lost = [
        retire(pod, DeleteReason.STRAY, rollout) if pod.uid in world.strays else _release(pod, world.in_backoff)
        for pod in unmatched
    ]
    releases = [release for release in lost if release is not None]
    adopted = [
        actions.AdoptPod(pod=pod.ref, owners=pod.owner_index)
        for pod in rollout.adoptable
        if _may_write(world, pod.uid)
    ]
    histories = [
        _adopt(revision, world)
        for revision in world.orphan_revisions
        if not revision.terminating and world.rules.owns(revision.labels) and _may_write(world, revision.uid)
    ]
    wanted: tuple[Action, ...] = (
        *sorted(releases, key=lambda action: action.pod.name),
        *sorted(adopted, key=lambda action: action.pod.name),
        *sorted(histories, key=lambda action: action.revision.name),
    )
    claims = wanted[: rollout.budget.burst]
    creates = []
    if claims and rollout.revision.uid and all(isinstance(action, actions.AdoptPod) for action in claims):
        # otherwise a client that keeps removing owner references elsewhere would delay lost pods
        creates = [action for action in place_pods(rollout).actions if isinstance(action, actions.CreatePod)]
    return StageResult(actions=(*claims, *creates), more=bool(wanted))


def _may_write(world: World, uid: str) -> bool:
    return BackoffKey("object", uid) not in world.in_backoff


def _adopt(revision: Revision, world: World) -> actions.AdoptRevision:
    """The adoption of a revision, with a record if no pod has had it. Of several with one hash, pods have the
    first."""
    ran = any(pod.hash == revision.hash for pod in (*world.pods, *world.orphans))
    ran = ran and all(stored.hash != revision.hash for stored in world.revisions)
    return actions.AdoptRevision(
        revision=revision.ref, owners=revision.owner_index, annotated=revision.annotated, never_ran=not ran
    )


def _release(
    pod: Pod, in_backoff: Collection[BackoffKey]
) -> actions.CancelDelete | actions.OpenGates | actions.ReleasePod:
    """The next write that releases a pod. Its closed readiness gates are opened first, unless that is in back-off."""
    if not pod.ended:
        if pod.held_by_hook or pod.marked_not_ready:
            return actions.CancelDelete(pod=pod.ref)
        opening = actions.OpenGates(pod=pod.ref, gates=pod.gates_to_open)
        if pod.bound and opening.gates and opening.backoff_key not in in_backoff:
            return opening
    return actions.ReleasePod(pod=pod.ref, owner_index=pod.owner_index)
