"""Makes the conditions of the status: what the rollout waits for, as a reason for programs and in words for
people.
"""

from __future__ import annotations

from controller.api.daemonset import Counts, DaemonSet, Phase
from controller.api.formats import joined
from controller.api.names import (
    AVAILABLE,
    DEGRADED,
    INVALID_ANNOTATION,
    INVALID_SPEC,
    LONGEST_PROGRESS_DEADLINE,
    PARTITION_REACHED,
    PODS_DO_NOT_LAST,
    PODS_UNAVAILABLE,
    PROGRESS_DEADLINE_ANNOTATION,
    PROGRESS_DEADLINE_EXCEEDED,
    PROGRESS_DEADLINE_SECONDS,
    PROGRESSING,
    ROLLOUT_COMPLETE,
    SELECTOR_REACHED,
    STALLED,
    TEMPLATE_REFUSED,
    WRITES_FAIL,
)
from controller.planner.blockers import Blocker
from controller.planner.explanation import Explainer, WaitReason, holding, some, unmatched_hook, wait_reason
from controller.planner.progress import Condition, Standing, phase_of, readiness
from controller.planner.rollout_state import RolloutState
from controller.planner.world import TemplateRefused

_SHOWN = 40
"""Characters of an unreadable value that are shown: enough to find it."""


def conditions_of(explainer: Explainer, counts: Counts, standing: Standing, phase: Phase) -> tuple[Condition, ...]:
    """All conditions. `standing` is what is known of the rollout, even while `phase` is Pending."""
    rollout, wait = explainer.rollout, wait_reason(explainer, standing)
    progressing = _progressing(explainer, counts, standing, wait)
    why = wait.reason if wait is not None else phase.value
    aside = unreadable_deadline(rollout.world.daemonset)
    return (
        progressing,
        _available(counts),
        _degraded(rollout),
        *readiness(
            phase,
            _sentence(explainer, counts, standing, phase, wait),
            why=progressing.reason if phase is Phase.STALLED else why,
            aside=Condition(type=STALLED, status="False", reason=INVALID_ANNOTATION, message=aside)
            if aside
            else None,
        ),
        *unmatched_hook(rollout),
    )


def refused_conditions(problem: str) -> tuple[Condition, ...]:
    """The conditions for a spec that cannot be used."""
    text = "nothing is done until it is fixed"
    return (
        Condition(type=PROGRESSING, status="False", reason=INVALID_SPEC, message=text),
        Condition(type=DEGRADED, status="True", reason=INVALID_SPEC, message=problem),
        *readiness(Phase.STALLED, problem, why=INVALID_SPEC),
    )


def _sentence(explainer: Explainer, counts: Counts, standing: Standing, phase: Phase, wait: WaitReason | None) -> str:
    """One sentence for people on how the rollout stands: what it waits for, and on how many nodes.

    It depends on the record, the counts and the revisions of nodes only, so it does not change because time passes.
    """
    rollout = explainer.rollout
    revision = f"an available pod of revision {rollout.revision.hash}"
    waiting, unavailable = standing.target - standing.done, counts.number_unavailable
    have = f"{standing.done} of {standing.desired} nodes have {revision}"
    lacking = f"{unavailable} of {standing.desired} nodes have no available pod"
    match phase:
        case Phase.HEALTHY:
            return joined(have, holding(explainer))
        case Phase.HELD:
            parts = [have, _held_by(explainer, counts, standing)[1], lacking if unavailable else ""]
        case Phase.PAUSED:
            parts = [f"paused with {standing.outdated} nodes left to update", lacking if unavailable else ""]
        case Phase.MANUAL:
            parts = [f"OnDelete: {standing.outdated} nodes wait for their old pod to be deleted"]
            parts += [lacking] if unavailable else []
        case Phase.STALLED:
            parts = [_refused(standing) if standing.refused else _stuck(rollout, wait)]
            parts += [unreadable_deadline(rollout.world.daemonset)]
        case Phase.DEGRADED if not waiting:
            parts = [lacking]
        case Phase.DEGRADED:
            parts = [f"{waiting} of {standing.target} nodes no longer have {revision}"]
        case Phase.PENDING | Phase.PROGRESSING | Phase.TERMINATING:
            generation = f"generation {rollout.world.daemonset.generation} is being processed"
            going = f"{standing.leaving} old pods leave nodes where no new one may start" if standing.leaving else ""
            waits = f"{waiting} of {standing.target} nodes still wait for {revision}" if waiting else ""
            parts = [waits, going] if waits or going else [generation]
            parts += [wait.text] if wait is not None else []
    return joined(*parts, _unadopted(rollout), staying_empty(rollout), holding(explainer))


def staying_empty(rollout: RolloutState) -> str:
    """How many nodes stay empty for now, and why; empty if none does."""
    if not rollout.unplaceable:
        return ""
    hashes = sorted({older.hash for older in rollout.unplaceable.values()})
    nodes = "1 node stays" if len(rollout.unplaceable) == 1 else f"{len(rollout.unplaceable)} nodes stay"
    revisions = f"revision {hashes[0]} does" if len(hashes) == 1 else f"revisions {some(hashes)} do"
    return f"{nodes} empty: {revisions} not run there"


def _unadopted(rollout: RolloutState) -> str:
    """On how many nodes a pod has to be adopted before they get one of the current revision; empty if on none."""
    orphans = {node for node, why in rollout.taken.items() if why is Blocker.ADOPTABLE}
    nodes = [node.name for node in rollout.eligible if node.name in orphans and node.current is None]
    if not nodes:
        return ""
    wait = "1 node waits" if len(nodes) == 1 else f"{len(nodes)} nodes wait"
    return f"{wait} until a pod without a controller is adopted or gone: {some(nodes)}"


def unreadable_deadline(daemonset: DaemonSet) -> str:
    """The mistake in the annotation of the deadline, and what is used instead; empty if it can be read."""
    found = daemonset.unreadable_deadline
    if found is None:
        return ""
    shown = found if len(found) <= _SHOWN else f"{found[:_SHOWN]}…"
    return (
        f"annotation {PROGRESS_DEADLINE_ANNOTATION}: {shown!r} is not a whole number of seconds from 1 to "
        f"{LONGEST_PROGRESS_DEADLINE}, so {PROGRESS_DEADLINE_SECONDS} are used"
    )


def _progressing(explainer: Explainer, counts: Counts, standing: Standing, wait: WaitReason | None) -> Condition:
    rollout = explainer.rollout
    updated, desired = counts.updated_number_scheduled, counts.desired_number_scheduled
    status, reason, why = _how_it_stands(explainer, counts, standing, wait)
    text = f"{updated} of {desired} nodes have a pod of revision {rollout.revision.hash}"
    words = joined(text, why, _unadopted(rollout), staying_empty(rollout), holding(explainer))
    return Condition(type=PROGRESSING, status=status, reason=reason, message=words)


def _how_it_stands(
    explainer: Explainer, counts: Counts, standing: Standing, wait: WaitReason | None
) -> tuple[str, str, str]:
    """Status and reason of the condition Progressing, and what its message says beyond the progress."""
    match phase_of(standing):
        case Phase.MANUAL:
            return "True", "OnDelete", "delete pods to update"
        case Phase.PAUSED:
            return "Unknown", "Paused", "paused"
        case Phase.STALLED if standing.refused:
            return "False", TEMPLATE_REFUSED, _refused(standing)
        case Phase.STALLED:
            return "False", PROGRESS_DEADLINE_EXCEEDED, _stuck(explainer.rollout, wait)
        case Phase.HELD | Phase.DEGRADED if standing.kept:
            return "True", *_held_by(explainer, counts, standing)
        case Phase.HEALTHY | Phase.DEGRADED:
            return "True", ROLLOUT_COMPLETE, ""
        case Phase.PENDING | Phase.PROGRESSING | Phase.HELD | Phase.TERMINATING if wait is not None:
            return "True", wait.reason, wait.text
        case Phase.PENDING | Phase.PROGRESSING | Phase.HELD | Phase.TERMINATING:
            return "True", "Updating", _used_up(explainer.rollout)


def _refused(standing: Standing) -> str:
    return f"the server refuses pods of the new template: {standing.refused}"


def _stuck(rollout: RolloutState, wait: WaitReason | None) -> str:
    """The message of a stalled rollout. Nothing in it changes with time alone, because each change would be written
    to the status."""
    missing = [one.name for one in rollout.target if one.old is None and not one.current_available]
    beside = [one.name for one in rollout.target if one.paired]
    parts = [f"no progress for {rollout.world.daemonset.progress_deadline} seconds"]
    if missing or beside:
        parts.append(f"no new pod is available on {some(missing or beside)}")
    parts.append(wait.text if wait is not None else _used_up(rollout))
    return joined(*parts)


def _used_up(rollout: RolloutState) -> str:
    """Which limit the update waits for; empty if there is room."""
    if rollout.room:
        return ""
    who = "are in the middle of their surge" if rollout.surging else "count as unavailable"
    return f"{rollout.in_use} nodes {who}, {rollout.budget.limit} is {rollout.budget.most}"


def _held_by(explainer: Explainer, counts: Counts, standing: Standing) -> tuple[str, str]:
    """The reason and text that name what keeps nodes from the current revision."""
    rollout = explainer.rollout
    if keeper_of(rollout) is Blocker.SELECTOR:
        return SELECTOR_REACHED, f"rollingUpdate.selector leaves out {standing.kept} old ones"
    partition = f"partition {rollout.budget.partition}"
    waiting = counts.desired_number_scheduled - counts.current_number_scheduled
    if not rollout.progressive or not waiting:
        return PARTITION_REACHED, f"{partition} keeps the others on the old revision"
    return PARTITION_REACHED, f"{partition} with partitionedScaling leaves {waiting} without a pod"


def keeper_of(rollout: RolloutState) -> Blocker:
    """Whether to name partition or selector as what keeps nodes old: the partition, if as many nodes as it allows are
    in the target."""
    used_up = rollout.budget.partition and len(rollout.target) >= rollout.quota
    return Blocker.PARTITION if used_up else Blocker.SELECTOR


def _available(counts: Counts) -> Condition:
    missing, desired = counts.number_unavailable, counts.desired_number_scheduled
    if not missing:
        return Condition(
            type=AVAILABLE, status="True", reason="AllAvailable", message=f"{desired} of {desired} nodes are served"
        )
    text = f"{missing} of {desired} nodes have no available pod"
    return Condition(type=AVAILABLE, status="False", reason=PODS_UNAVAILABLE, message=text)


def _degraded(rollout: RolloutState) -> Condition:
    if isinstance(rollout.verdict, TemplateRefused):
        return Condition(type=DEGRADED, status="True", reason=TEMPLATE_REFUSED, message=rollout.verdict.words)
    write_failure = rollout.world.write_failure or rollout.world.unreadable
    if write_failure:
        return Condition(type=DEGRADED, status="True", reason=WRITES_FAIL, message=write_failure)
    if rollout.world.short_lived:
        nodes = some(sorted(rollout.world.short_lived))
        text = f"pods do not last on {nodes}: they end or are deleted, and each next one comes after a longer wait"
        return Condition(type=DEGRADED, status="True", reason=PODS_DO_NOT_LAST, message=text)
    return Condition(type=DEGRADED, status="False", reason="AsExpected", message="")
