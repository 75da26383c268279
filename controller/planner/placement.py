"""The stage that claims pods and revisions: adopts those that match the selector and have no controller, and releases
those that no longer match. Pods that a webhook has taken from us are deleted.

The stage that places pods: one daemon pod on each node that should run it, none where it must not run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from controller.api.names import FAILED_DAEMON_POD, SUCCEEDED_DAEMON_POD
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.planner.actions import (
    Action,
    AdoptPod,
    AdoptRevision,
    CancelDelete,
    CreatePod,
    DeletePod,
    DeleteReason,
    Note,
    OpenGates,
    PrepareDelete,
    ReleasePod,
    Step,
    refusal_note,
)
from controller.planner.blocker_checks import (
    NEXT_RETRIES,
    fillable,
    has_failed,
    in_order,
    outgoing,
    refills,
    removal_blocker,
)
from controller.planner.blockers import Blocker
from controller.planner.node_fit import Fit
from controller.planner.nodes import NodeInfo
from controller.planner.pod_template import hides_fields
from controller.planner.rolling_update import asked, new_pod, retire
from controller.planner.rollout_state import RolloutState
from controller.planner.world import BackoffKey, TemplateRefused, World


def claim(rollout: RolloutState) -> Step:
    """Adopt and release pods, adopt revisions, and create pods beside adoptions.

    At most `burst` of them in one pass. An orphan that is being deleted is never adopted. Before the first adoption,
    the DaemonSet itself is read from the server.
    """
    world = rollout.world
    unmatched = [pod for pod in rollout.unmatched if BackoffKey.of_object(pod.uid) not in world.in_backoff]
    lost = [
        retire(pod, DeleteReason.STRAY, rollout) if pod.uid in world.strays else _release(pod, world.in_backoff)
        for pod in unmatched
        if not pod.dying
    ]
    releases = [one for one in lost if one is not None]
    adopted = [
        AdoptPod(pod=pod.ref, owners=pod.owner_index)
        for pod in rollout.adoptable
        if BackoffKey.of_object(pod.uid) not in world.in_backoff
    ]
    histories = [
        _adopt(revision, world)
        for revision in world.orphan_revisions
        if not revision.dying
        and world.rules.owns(revision.labels)
        and BackoffKey.of_object(revision.uid) not in world.in_backoff
    ]
    actions: tuple[Action, ...] = (
        *sorted(releases, key=lambda one: one.pod.name),
        *sorted(adopted, key=lambda one: one.pod.name),
        *sorted(histories, key=lambda one: one.revision.name),
    )
    claims = actions[: rollout.budget.burst]
    return Step(actions=(*claims, *_creates_beside(rollout, claims)), more=bool(actions))


def _adopt(revision: Revision, world: World) -> AdoptRevision:
    """The adoption of a revision, with a record if no pod has it. A pod has the revision with its hash that was
    adopted or created first."""
    ran = any(pod.hash == revision.hash for pod in (*world.pods, *world.orphans))
    ran = ran and all(one.hash != revision.hash for one in world.revisions)
    return AdoptRevision(
        revision=revision.ref,
        owners=revision.owner_index,
        annotated=revision.annotated,
        never_ran=not ran,
    )


def _creates_beside(rollout: RolloutState, claims: tuple[Action, ...]) -> list[CreatePod]:
    """Creates that go together with adoptions: lost pods need not wait for adoptions on other nodes, however often
    somebody removes our owner reference there.

    Empty until the history is settled: before that, the revision of the new pods is not known.
    """
    if not (claims and rollout.revision.uid and all(isinstance(action, AdoptPod) for action in claims)):
        return []
    return [one for one in place_pods(rollout).actions if isinstance(one, CreatePod)]


def _release(pod: Pod, in_backoff: Collection[BackoffKey]) -> CancelDelete | OpenGates | ReleasePod:
    """The next step to release a pod. A readiness gate that we have closed is opened first, because nobody else will.
    If that write is held back, the pod is released nevertheless."""
    if not pod.ended:
        if pod.held_by_hook or pod.marked:
            return CancelDelete(pod=pod.ref)
        opening = OpenGates(pod=pod.ref, gates=pod.due_gates)
        if pod.bound and opening.gates and opening.backoff_key not in in_backoff:
            return opening
    return ReleasePod(pod=pod.ref, owner_index=pod.owner_index)


class _Needs:
    """Collects what the nodes that were looked at so far need."""

    def __init__(self, rollout: RolloutState) -> None:
        self.rollout = rollout
        self.deletes: list[DeletePod | PrepareDelete] = []
        self.notes: list[Note] = []
        self.wake_at: float | None = None
        self.ask_about: list[str] = []
        """Nodes that wait for the verdict on the current revision."""

    def delete(self, pod: Pod, why: DeleteReason) -> bool:
        """Delete the pod, or prepare that; returns False if something keeps it, such as a hook."""
        action = retire(pod, why, self.rollout)
        if action is not None:
            self.deletes.append(action)
        return action is not None

    def leave(self, pod: Pod) -> None:
        """Delete a pod from a node that the current revision leaves, unless the server has to be asked about that
        revision first: what it says of its nodes may be in a misspelt field."""
        if pod.hash != self.rollout.revision.hash and self.rollout.must_ask:
            self.ask_about.append(pod.node)
        else:
            self.delete(pod, DeleteReason.UNWANTED)

    def wake(self, moment: float) -> None:
        self.wake_at = moment if self.wake_at is None else min(self.wake_at, moment)


def place_pods(rollout: RolloutState) -> Step:
    """The stage. It creates in ascending order of nodes, and deletes; at most `burst` of each, the rest later."""
    needs, run = _Needs(rollout), Fit.RUN
    for node in rollout.nodes:
        if (len(node.pods) == 1 and node.fit is run and (node.current or node.old)) or not node.pods:
            continue  # nothing to delete; true for nearly every node
        if node.fit is None:
            for pod in node.pods:
                if not pod.bound and not pod.dying:  # the pod garbage collector of the cluster deletes bound ones
                    needs.delete(pod, DeleteReason.VANISHED)
        elif node.fit is Fit.LEAVE:
            for pod in node.pods:
                if not pod.dying:
                    needs.leave(pod)
        else:
            _replace_ended(node, needs)
            _settle_several(node, needs)
    burst = rollout.budget.burst
    creates, left_out = _creates(rollout, needs)
    updates_wait = bool(needs.deletes or creates) and rollout.rolling_update is not None and bool(rollout.outdated)
    if creates and has_failed(rollout.world):
        needs.wake(rollout.world.now + NEXT_RETRIES)  # a refused create ends the batches of this pass
    if rollout.must_ask and not rollout.eligible:
        needs.ask_about += [node.name for node in rollout.nodes]
    dry_run = _dry_run(rollout, needs.ask_about)
    return Step(
        actions=(*needs.deletes[:burst], *creates, *dry_run.actions),
        notes=(*dry_run.notes, *needs.notes[:burst]),
        wake_at=min((one for one in (needs.wake_at, dry_run.wake_at) if one is not None), default=None),
        more=left_out or len(needs.deletes) > burst or updates_wait,
        again=dry_run.again,
    )


def _dry_run(rollout: RolloutState, nodes: Sequence[str]) -> Step:
    """The dry run for one of these nodes, which wait for it; or the note that the last one found unknown fields, and
    when the next is due."""
    if not nodes:
        return Step()
    if rollout.refused_for_unknown_fields and isinstance(rollout.verdict, TemplateRefused):
        return Step(notes=(refusal_note(rollout.verdict),), wake_at=rollout.world.ask_at)
    return asked(rollout, nodes[0], nodes)


def _creates(rollout: RolloutState, needs: _Needs) -> tuple[list[CreatePod], bool]:
    """The creates for all `fillable` nodes, by `refills`; and whether nodes are left out by burst or `in_order`. None
    is of a revision that the server has to be asked about first."""
    empty = fillable(rollout)
    if not empty:
        return [], False
    chosen = in_order(rollout, empty)
    found = refills(rollout, chosen)
    accepted = [(node, revision) for node, revision in found if isinstance(revision, Revision)]
    if rollout.refused_for_unknown_fields or (rollout.must_ask and hides_fields(rollout.revision.template)):
        needs.ask_about += [node.name for node, one in found if one in (rollout.revision, Blocker.REFUSED)]
        accepted = [(node, revision) for node, revision in accepted if revision is not rollout.revision]
    burst = rollout.budget.burst
    left_out = len(chosen) < len(empty) or len(accepted) > burst
    return [new_pod(rollout, node, revision) for node, revision in accepted[:burst]], left_out


def _replace_ended(node: NodeInfo, needs: _Needs) -> None:
    """Delete pods that have ended, once the back-off of the node is over."""
    for pod in node.ended:
        if removal_blocker(needs.rollout, pod) is Blocker.BACK_OFF:
            continue
        succeeded = pod.phase == "Succeeded"
        reason, why = (
            (SUCCEEDED_DAEMON_POD, DeleteReason.SUCCEEDED) if succeeded else (FAILED_DAEMON_POD, DeleteReason.FAILED)
        )
        if needs.delete(pod, why):
            word = "failed" if why is DeleteReason.FAILED else "succeeded"
            text = f"Found {word} daemon pod {pod.key} on node {node.name}, will try to delete it"
            needs.notes.append(Note(warning=why is DeleteReason.FAILED, reason=reason, message=text))


def _settle_several(node: NodeInfo, needs: _Needs) -> None:
    """Delete pods until one is left; while surging one of each kind, until the old one is not needed any more."""
    current, old = node.current, node.old
    for pod in node.live:
        if pod is not current and pod is not old:
            needs.delete(pod, DeleteReason.EXCESS)
    going = outgoing(needs.rollout, node)
    if going is not None:
        needs.delete(going, DeleteReason.SURGED if going is old and needs.rollout.surging else DeleteReason.EXCESS)
