"""The progress and phase of a rollout, and the stable revision for rollbacks, all kept in `status.rollout`. Times
there change only with counts or the phase, so that the status is never written only because time has passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf

from msgspec.structs import replace

from controller.api.daemonset import CheckRecord, CheckState, DaemonSetStatus, Phase, Rollout, rollout_of
from controller.api.formats import truncated
from controller.api.objects import Value, epoch, rfc3339
from controller.api.pod import Pod
from controller.api.template_identity import without_restart
from controller.planner.blockers import update_blocker
from controller.planner.checks import is_unanswered, recorded
from controller.planner.failure import retry_of
from controller.planner.limits import StepProgress
from controller.planner.node_fit import Fit
from controller.planner.nodes import NodeInfo
from controller.planner.revisions import of_template
from controller.planner.rollout_state import RolloutState
from controller.planner.world import TemplateRefused, World

STABLE_AFTER_SECONDS = 30.0
"""For so long, or for minReadySeconds if that is longer, a pod must be ready to prove its revision."""


class Standing(Value):
    """Everything that the phase depends on. Numbers count eligible nodes."""

    terminating: bool = False
    observed: bool = True
    """Whether the controller has acted on the newest generation."""
    on_delete: bool = False
    paused: bool = False
    refused: str = ""
    """Why the spec or its template is refused; empty if neither is."""
    desired: int = 0
    target: int = 0
    """Nodes that may hold the current revision, or could if the rollout were not paused."""
    updated: int = 0
    """Nodes with a pod of the current revision, available or not."""
    done: int = 0
    """Nodes of the target with an available pod of the current revision and no old pod beside it."""
    left_out: int = 0
    """Unreachable nodes of the target that are not done and not waited for."""
    aborted: str = ""
    """Why the rollout is aborted; empty if it is not."""
    aborted_revision: str = ""
    """The hash of the aborted revision."""
    rolled_back: bool = False
    """Whether nodes that have the aborted revision get the stable one, which is the current one meanwhile."""
    retry_requested: bool = False
    """Whether `kruise-ds/retry` has a new value for the aborted revision."""
    retry_asked: str | None = None
    """The value of the annotation `kruise-ds/retry` for this revision; None if it has none."""
    began: float | None = None
    """When the rollout began if its status is lost (seconds since 1970); None for now."""
    step_progress: StepProgress | None = None
    """The progress through the steps, as of this pass; None without steps."""
    checks: tuple[CheckRecord, ...] = ()
    """The checks of the step that do not pass."""
    awaits_answers: bool = False
    """Whether the rollout waits only for an answer to a check."""
    available: int = 0
    """Nodes with an available pod, and those that are left out."""
    left_to_update: int = 0
    """Nodes of the target that are left to update: with only an old pod, or kept empty by a pause."""
    surplus_pods: int = 0
    """Old pods that are deleted from nodes where no new one may start."""
    held_nodes: int = 0
    """Nodes outside the target without a pod of the current revision."""
    completed: bool = False
    """Whether all target nodes have been done, and none has become outdated since."""
    unreachable_only: tuple[str, ...] = ()
    """The unreachable nodes in update order, if the rollout waits only for them; else empty."""
    overdue: bool = False
    """Whether it would be Progressing, but has made no progress for longer than the deadline."""


def phase_of(standing: Standing) -> Phase:
    """The first phase that applies; those that wait for a user come first."""
    if standing.terminating:
        return Phase.TERMINATING
    if not standing.observed:
        return Phase.PENDING
    if standing.left_to_update and standing.on_delete:
        return Phase.MANUAL
    if standing.aborted and not standing.on_delete:
        return Phase.ABORTED
    progress = standing.step_progress
    if standing.paused and (
        standing.left_to_update or standing.surplus_pods or (progress is not None and not progress.is_complete)
    ):
        return Phase.PAUSED
    if standing.refused or standing.overdue:
        return Phase.STALLED
    if standing.left_to_update or not standing.completed:
        if progress is None or standing.left_to_update or not (progress.is_soaking or progress.awaits_approval):
            return Phase.PROGRESSING
        return Phase.SOAKING if progress.is_soaking else Phase.AWAITING_APPROVAL
    if standing.done + standing.left_out < standing.target:
        return Phase.DEGRADED
    if standing.held_nodes:
        return Phase.HELD  # even if kept old pods are not available: the rollout did not wait for them
    return Phase.HEALTHY if standing.available >= standing.desired else Phase.DEGRADED


CLOCK_RUNS = (Phase.PROGRESSING, Phase.STALLED)
"""Phases in which the progress deadline counts."""


def standing_of(rollout: RolloutState, *, observed: bool) -> Standing:
    """The standing as far as the pods show it; `advance` adds `completed` and `overdue`."""
    without = available = left_to_update = done = waiting = kept = left = 0
    run, unplaceable, left_out = Fit.RUN, rollout.unplaceable, rollout.left_out
    for node in rollout.nodes:
        if node.fit is run:
            without += node.current is None
            available += node.current_available or node.old_available or node.name in left_out
        else:
            kept += bool(node.pods)
    for node in rollout.target:
        waiting += node.current is None
        if node.current_available and node.old is None:
            done += 1
        elif node.name in left_out:
            left += 1
        elif node.current is None:
            left_to_update += node.old is not None or node.name in unplaceable
    daemonset, rolling = rollout.world.daemonset, rollout.rolling_update
    progress = rollout.step_progress and _after_pass(rollout, rollout.step_progress)
    return Standing(
        terminating=daemonset.terminating,
        observed=observed,
        on_delete=rolling is None,
        paused=rolling is not None and rolling.paused,
        refused=_refusal(rollout, outdated=bool(left_to_update), wants_pods=bool(waiting or kept)),
        desired=rollout.budget.desired,
        target=len(rollout.target),
        updated=rollout.budget.desired - without,
        done=done,
        left_out=left,
        aborted=(rollout.record.aborted_message or "") if daemonset.rolled_back else rollout.abort,
        aborted_revision=daemonset.rolled_back or rollout.revision.hash,
        rolled_back=bool(daemonset.rolled_back),
        retry_requested=rollout.retry_requested,
        retry_asked=retry_of(daemonset, rollout.revision.hash),
        began=rollout.began_before,
        step_progress=progress,
        checks=recorded(rollout.checks),
        awaits_answers=_awaits_answers(rollout),
        available=available,
        left_to_update=left_to_update,
        surplus_pods=len(rollout.surplus),
        held_nodes=without - waiting,
        unreachable_only=tuple(_only_unreachable_nodes(rollout, progress)),
    )


def _refusal(rollout: RolloutState, *, outdated: bool, wants_pods: bool) -> str:
    """Why the server refuses the template, if that keeps a pod from being created or replaced."""
    verdict = rollout.dry_run.verdict
    if not isinstance(verdict, TemplateRefused):
        return ""
    is_kept = outdated or (verdict.unknown_fields and (wants_pods or not rollout.eligible))
    return verdict.message if is_kept else ""


def _awaits_answers(rollout: RolloutState) -> bool:
    held = rollout.held_by_check
    if held is None or held.state is CheckState.FAILING or rollout.surplus:
        return False
    nodes = (node for node in rollout.target if node.name not in rollout.left_out)
    return all(node.only_old or (node.current_available and node.old is None) for node in nodes)


def _after_pass(rollout: RolloutState, progress: StepProgress) -> StepProgress:
    """The progress through the steps after this pass. An unreachable node is not done; one that is left out is,
    unless no other node is done. While a check fails, no step is reached."""
    done, aside, reachable, unavailable, latest = 0, 0, 0, False, 0.0
    left_out = rollout.left_out
    for node in rollout.eligible:
        pod, alone = node.current, node.current_available and node.old is None and not node.unreachable
        done += alone
        if node.name in left_out:
            aside += pod is not None
            continue
        reachable += alone or node.selected
        unavailable = unavailable or not (alone or (pod is None and not node.had_current))
        if alone and pod is not None and pod.ready_since is not None:
            latest = max(latest, _ready_at(rollout.world, pod, pod.ready_since))
    done = done + aside if done else 0
    failing = any(check.state is CheckState.FAILING for check in rollout.checks)
    progress = progress.after_pass(
        done=done, reachable=reachable + aside, unavailable=unavailable or failing, latest=latest
    )
    return replace(progress, unchecked=any(not check.passes_from(progress.checked_from) for check in rollout.checks))


def _only_unreachable_nodes(rollout: RolloutState, progress: StepProgress | None) -> list[str]:
    """The nodes of `Standing.unreachable_only`.

    - Empty if a reachable node keeps the rollout from being done: its new pod fails, or is not ready on a ready node.
    - A reachable node without a pod of the current revision does not, while unreachable nodes use up the budget.
    - If the target is done but the step is not reached, the unreachable nodes beyond the target, or else those left
      out."""
    left = [node for node in rollout.target if node.old is not None or not node.current_available]
    left = [node for node in left if node.name not in rollout.left_out]
    if not left and progress is not None and not (progress.is_reached or progress.finished):
        having = [node for node in rollout.eligible if node.current is not None and node.name not in rollout.left_out]
        left = [node for node in having if node.unreachable or node.paired or not node.current_available]
        left = left or [node for node in rollout.target if node.name in rollout.left_out]
    awaited = {node.name for node in left if _awaits_contact(node)}
    reachable = [node for node in left if node.name not in awaited]
    if rollout.surplus:
        return []
    if reachable:
        users = set(rollout.mid_surge if rollout.surging else rollout.unavailable_nodes)
        silent = {node.name for node in rollout.nodes if node.name in users and _awaits_contact(node)}
        waits_for_them = not rollout.room and len(users - silent) < rollout.budget.most
        waits_for_them = waits_for_them or rollout.too_many_unreachable
        far, domains = [node for node in rollout.nodes if node.name in silent], rollout.domains
        for node in reachable:
            held = waits_for_them or (domains is not None and domains.is_held_by(node, far))
            if not (held and node.only_old and node.old_ready and update_blocker(rollout, node) is None):
                return []
        awaited |= silent
    return [node.name for node in rollout.in_update_order if node.name in awaited] if awaited else []


def _awaits_contact(node: NodeInfo) -> bool:
    """Whether the node is unreachable, or not ready without an available pod. A current pod rules out the latter: as
    with a network plugin, it may be what makes the node not ready."""
    if node.object is None or not node.object.not_ready:
        return False
    if node.current is not None and node.current.problem is not None:
        return False
    return node.unreachable or (node.current is None and not (node.available or node.ended))


def advance(
    before: DaemonSetStatus | None, standing: Standing, *, revision_hash: str, deadline: float, now: float
) -> Rollout:
    """The next `status.rollout`; `now` is in seconds since 1970. A Progressing rollout is Stalled `deadline` seconds
    after its last progress: a new revision or target, more nodes than ever done or with their new pod, or a return
    from another phase. The deadline does not count while only unreachable nodes are awaited."""
    stamp = rfc3339(now)
    last = _last_record(before, standing, revision_hash, stamp)
    if standing.retry_requested:
        standing = replace(standing, aborted="")
    checks = () if standing.aborted else standing.checks
    answered = is_unanswered(last.checks or ()) and not is_unanswered(checks)
    aborted = (standing.aborted_revision, truncated(standing.aborted)) if standing.aborted else (None, None)
    last = replace(last, aborted_revision=aborted[0], aborted_message=aborted[1], checks=checks or None)
    last, done = _with_step(last, standing)
    awaits = bool(standing.unreachable_only)
    completed = last.completion_time or (stamp if done else None)
    # otherwise the step ended only because there were too few nodes
    begun = standing.left_out >= standing.target or last.most_done or standing.done
    record = replace(
        last,
        completion_time=completed if begun and not standing.left_to_update else None,
        target=standing.target,
        done=standing.done,
        most_done=max(last.most_done, standing.done),
        most_updated=max(last.most_updated, standing.updated),
    )
    phase = phase_of(replace(standing, completed=record.completion_time is not None))
    marks = (record.target, record.most_done, record.most_updated)
    advanced = marks != (last.target, last.most_done, last.most_updated)
    if awaits:
        record = replace(record, nodes_unreachable_since=last.nodes_unreachable_since or stamp)
    elif last.nodes_unreachable_since:
        record = _resumed(record, last, now)
    if advanced or answered or last.last_progress_time is None or _starts_clock(last, phase, deadline):
        record = replace(record, last_progress_time=stamp)
    if phase is Phase.PROGRESSING and not (awaits or standing.awaits_answers) and now >= due_at(record, deadline):
        phase = Phase.STALLED
    progress = standing.step_progress
    ended = 0.0 if progress is None or progress.is_soaking else (epoch(progress.reached_time) or 0.0) + progress.soak
    return _in_phase(record, phase, rfc3339(max(now, ended)))  # a soak is recorded by the later one of two clocks


def _last_record(before: DaemonSetStatus | None, standing: Standing, revision_hash: str, stamp: str) -> Rollout:
    """The record of this rollout; a new one for another revision or another try."""
    last = rollout_of(before)
    if before is None or before.update_revision != revision_hash or not last.start_time or standing.retry_requested:
        return Rollout(
            phase=last.phase,
            last_transition_time=last.last_transition_time,
            start_time=stamp if standing.began is None else rfc3339(standing.began),
            stable_revision=last.stable_revision,
            previous_stable_revision=last.previous_stable_revision,
            retried=last.retried if standing.rolled_back else standing.retry_asked,
        )
    if last.aborted_revision is None and standing.retry_asked is not None:
        return replace(last, retried=standing.retry_asked)  # the annotation was there before the abort
    return last


def _with_step(last: Rollout, standing: Standing) -> tuple[Rollout, bool]:
    """The record with its step, and whether the rollout is complete."""
    progress = standing.step_progress
    done = standing.done + standing.left_out >= standing.target and not standing.surplus_pods
    if progress is None:
        over = last.completion_time is not None
        return (last if over else replace(last, step=None, steps=None, step_reached_time=None)), done
    last = _at_step(last, progress, paused=standing.paused)
    kept = not progress.is_reached and (
        standing.target < progress.needed or not progress.needed
    )  # fewer by partition or selector
    if progress.is_complete or kept:
        return last, done
    return replace(last, completion_time=None), False


def _resumed(record: Rollout, last: Rollout, now: float) -> Rollout:
    """The record after a wait for unreachable nodes only: the deadline goes on from where it paused."""
    paused = max(now - (epoch(last.nodes_unreachable_since) or now), 0.0)
    ran_since = [last.last_progress_time, last.last_transition_time if last.phase == Phase.DEGRADED else None]
    progress = min(max(epoch(time) or 0.0 for time in ran_since) + paused, now)
    return replace(record, nodes_unreachable_since=None, last_progress_time=rfc3339(progress))


def _at_step(last: Rollout, progress: StepProgress, *, paused: bool) -> Rollout:
    """The record with the step that holds from the next pass on."""
    if progress.is_over and not paused and progress.step < progress.count:
        return replace(last, step=progress.step + 1, steps=progress.count, step_reached_time=None)
    return replace(last, step=progress.step, steps=progress.count, step_reached_time=progress.reached_time)


def halted(before: DaemonSetStatus | None, now: float) -> Rollout:
    """The `status.rollout` while the spec is unusable: unchanged, but Stalled."""
    last, stamp = rollout_of(before), rfc3339(now)
    begun = replace(last, last_progress_time=stamp) if last.phase not in CLOCK_RUNS else last
    return _in_phase(begun, Phase.STALLED, stamp)


def due_at(record: Rollout, deadline: float) -> float:
    """When a Progressing rollout becomes Stalled without further progress (seconds since 1970)."""
    return (epoch(record.last_progress_time) or 0.0) + deadline


def _starts_clock(last: Rollout, phase: Phase, deadline: float) -> bool:
    """Whether the deadline starts now: the phase is new in `CLOCK_RUNS`, or was Stalled for another reason."""
    if phase not in CLOCK_RUNS or last.phase not in CLOCK_RUNS:
        return phase in CLOCK_RUNS
    refused = last.phase == Phase.STALLED and (epoch(last.last_transition_time) or 0.0) < due_at(last, deadline)
    return phase is Phase.PROGRESSING and refused


def _in_phase(record: Rollout, phase: Phase, stamp: str) -> Rollout:
    if record.phase == phase:
        return record
    return replace(record, phase=phase.value, last_transition_time=stamp)


def with_stable(rollout: RolloutState, record: Rollout, *, observed: bool) -> tuple[Rollout, float | None]:
    """The record with the stable revision and the one before it, and when another becomes stable by waiting (seconds
    since 1970).

    - Incomplete data changes nothing: own writes not seen yet, or a pod that cannot be decoded.
    - A restart makes no other revision.
    - The first revision is recorded as the one before until it is stable.
    - After a rollback there is none before, because that would be the abandoned one.
    - Both are given up once most nodes have an older revision that was never complete."""
    current = rollout.revision
    twins = {
        revision.hash for revision in of_template(rollout.world.daemonset, rollout.history)
    }  # about to be deleted
    known, former = (
        current.hash if hash_ in twins else hash_
        for hash_ in (record.stable_revision, record.previous_stable_revision)
    )
    record = replace(record, stable_revision=known, previous_stable_revision=former)
    if known == current.hash or rollout.world.unreadable or rollout.abort:
        return record, None
    complete_since, on_most_nodes = _proof(rollout)
    if known is not None and any(hash_ != known for hash_ in on_most_nodes):
        return replace(record, stable_revision=None, previous_stable_revision=None), None
    moment = complete_since + STABLE_AFTER_SECONDS
    if (
        moment == inf
        or not (observed and current.uid)
        or (rollout.step_progress is not None and not record.completion_time)
    ):
        return record, None
    if moment > rollout.world.now:
        first = known is None and former is None and not rollout.history
        return replace(record, previous_stable_revision=current.hash if first else former), moment
    stored = {revision.hash: without_restart(revision.template) for revision in (current, *rollout.history)}
    content = stored[current.hash]
    if known is None or stored.get(known) != content:
        former = None if former is not None and stored.get(former) == content else known
    return replace(record, stable_revision=current.hash, previous_stable_revision=former), None


def _ready_at(world: World, pod: Pod, since: float) -> float:
    """When a pod became Ready (seconds since 1970): `since`, converted to the clock of this process, or when it saw
    the pod Ready, if that is earlier."""
    return min(since + world.server_offset.behind, world.ready_seen.get(pod.uid, inf))


def _proof(rollout: RolloutState) -> tuple[float, Sequence[str]]:
    """Since when all reachable nodes have an available pod of the current revision (seconds since 1970); inf: they do
    not, or at least half of the nodes are unreachable. And the hashes of older revisions that are on more than three
    quarters of the nodes and were never complete, because some nodes are kept old or a pod never got ready: only a
    user can decide whether such a revision was good. Of two pods on a node the old one counts."""
    world, latest = rollout.world, rollout.world.now - STABLE_AFTER_SECONDS
    reached, moments, older = 0, list[float](), list[str]()
    for node in rollout.eligible:
        if node.unreachable:
            continue
        reached += 1
        old, pod = node.old is not None, node.current if node.old is None else node.old
        if pod is None or not (node.old_available if old else node.current_available) or pod.ready_since is None:
            continue
        since = _ready_at(world, pod, pod.ready_since)
        if not old:
            moments.append(since)
        elif since <= latest:
            older.append(pod.hash)
    desired = rollout.budget.desired
    complete = len(moments) == reached > desired / 2
    most = [hash_ for hash_, count in Counter(older).items() if count > 0.75 * desired]
    return max(moments) if complete else inf, most
