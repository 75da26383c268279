"""The conditions of the status: what a rollout waits for, as a reason for programs and as a sentence for users.

Ready, Reconciling and Stalled follow kstatus, for `kubectl wait`, Flux, Helm and Argo CD
(https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md). All three always exist, so that
`Reconciling=False` can be waited for: the rollout has ended, successfully or not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from controller.api import names
from controller.api.daemonset import CheckState, Counts, DaemonSet, Phase
from controller.api.formats import counted, joined, listed
from controller.api.names import AVAILABLE, DEGRADED, HOOK_UNMATCHED, PROGRESSING, READY, RECONCILING, STALLED
from controller.api.objects import Value, epoch, rfc3339
from controller.planner.blocker_texts import Blocker, WaitReason
from controller.planner.blockers import handlers, resize_deferral, resize_refusal
from controller.planner.checks import words_of
from controller.planner.explanation import Explainer
from controller.planner.progress import Standing, phase_of
from controller.planner.rollout_state import RolloutState
from controller.planner.world import TemplateRefused, Unpullable

WAITS_FOR: Final = "waits for "


class Condition(Value):
    """A condition without its times, which depend on the previous one."""

    type: str
    status: str
    reason: str
    message: str


class Wait(Value):
    reason: WaitReason
    text: str


_SHOWN: Final = 40
"""Characters of an unreadable value that are shown."""


class _Words:
    """The texts of a status, of which each phase shows some. A text does not change with time alone."""

    def __init__(self, explainer: Explainer, counts: Counts, standing: Standing, wait: Wait | None) -> None:
        self.counts, self.standing, self.wait = counts, standing, wait
        self.rollout = explainer.rollout
        self.revision = f"an available pod of revision {self.rollout.revision.hash}"
        self.step, self.checks = step_message(self.rollout, standing), checks_message(standing)
        self.left_out, self.hook = _left_out(self.rollout), hook_message(explainer)

    @property
    def have(self) -> str:
        standing, having = self.standing, self.standing.done
        if standing.updated > having:  # nodes beyond the target keep the revision, too
            having = sum(node.current_available and node.old is None for node in self.rollout.eligible)
        return f"{counted(having, 'node', 'has', of=standing.desired)} {self.revision}"

    @property
    def lacking(self) -> str:
        unavailable = self.counts.number_unavailable
        return (
            f"{counted(unavailable, 'node', 'has', of=self.standing.desired)} no available pod" if unavailable else ""
        )

    @cached_property
    def aside(self) -> str:
        """The nodes and pods that the rollout skips, and why."""
        return joined(self.left_out, _unadopted(self.rollout), unplaceable_message(self.rollout), self.hook)

    @cached_property
    def aborted(self) -> str:
        standing = self.standing
        back = f"nodes get revision {self.rollout.revision.hash} back" if standing.rolled_back else ""
        return joined(f"revision {standing.aborted_revision} was aborted: {standing.aborted}", back)

    @property
    def going(self) -> str:
        """What the rollout does now."""
        standing, waiting = self.standing, self.standing.target - self.standing.done
        waits = (
            f"{counted(waiting, 'node', 'still waits', of=standing.target)} for {self.revision}" if waiting else ""
        )
        surplus = f"{counted(standing.surplus_pods, 'old pod', 'leaves')} for good: no new one may start there"
        now = joined(waits, surplus if standing.surplus_pods else "")
        return now or f"generation {self.rollout.world.daemonset.generation} is being processed"

    @property
    def going_reason(self) -> str:
        return self.wait.reason if self.wait is not None else limit_in_use(self.rollout) or WaitReason.UPDATING

    @property
    def waits(self) -> str:
        return self.wait.text if self.wait is not None else ""

    @property
    def degraded(self) -> str:
        standing, waiting = self.standing, self.standing.target - self.standing.done
        lost = f"{counted(waiting, 'node', 'no longer has', of=standing.target)} {self.revision}"
        return lost if waiting else self.lacking

    @cached_property
    def stalled(self) -> str:
        if self.standing.refused:
            return f"the server refuses pods of the new template: {self.standing.refused}"
        rollout = self.rollout
        due = (*rollout.target, *[node for node in rollout.eligible if node.current is not None])
        missing = dict.fromkeys(node.name for node in due if node.old is None and not node.current_available)
        beside = [node.name for node in rollout.target if node.paired and not node.current_available]
        parts = [f"no progress for {rollout.world.daemonset.progress_deadline} seconds"]
        if missing or beside:
            parts.append(f"no new pod is available on {some(missing or beside)}")
        return joined(*parts, self.waits or _used_up(rollout))

    @cached_property
    def held(self) -> tuple[str, str]:
        """What keeps the other nodes old, as a reason and a text."""
        rollout, counts = self.rollout, self.counts
        if keeper_of(rollout) is Blocker.SELECTOR:
            kept = f"{self.standing.held_nodes} old ones"
            return WaitReason.SELECTOR, Blocker.SELECTOR.text.of_planned.format(who=kept)
        if keeper_of(rollout) is Blocker.STEP and rollout.step_progress is not None:
            allowed = counted(rollout.step_progress.allowed, "node")
            return WaitReason.STEP, f"the last step allows {allowed} and keeps the others on the old revision"
        partition = f"partition {rollout.budget.partition}"
        waiting = counts.desired_number_scheduled - counts.current_number_scheduled
        if not rollout.progressive or not waiting:
            return WaitReason.PARTITION, f"{partition} keeps the others on the old revision"
        return WaitReason.PARTITION, f"{partition} with partitionedScaling leaves {waiting} without a pod"


class PhaseWords(NamedTuple):
    """The conditions of a phase."""

    true: str
    """The one of Ready, Reconciling and Stalled that is True; empty if none is."""
    sentence: Callable[[_Words], str]
    """The message of Ready and of that one."""
    progressing: str
    """The status of the condition Progressing."""
    reason: Callable[[_Words], str]
    why: Callable[[_Words], str]
    """The text that its message adds to the counts."""


_GOING = PhaseWords(
    true=RECONCILING,
    sentence=lambda it: joined(it.going, it.step, it.waits, it.aside),
    progressing="True",
    reason=lambda it: it.going_reason,
    why=lambda it: it.waits or _used_up(it.rollout),
)
_AT_STEP = PhaseWords(
    true=READY,
    sentence=lambda it: joined(it.have, it.step, it.checks, it.lacking, it.aside),
    progressing="Unknown",
    reason=lambda it: WaitReason.APPROVAL,
    why=lambda it: joined(it.step, it.checks),
)
PHASES: Final[Mapping[Phase, PhaseWords]] = {
    Phase.PENDING: _GOING,
    Phase.PROGRESSING: _GOING,
    Phase.TERMINATING: _GOING._replace(true=""),
    Phase.AWAITING_APPROVAL: _AT_STEP,
    Phase.SOAKING: _AT_STEP._replace(
        true=RECONCILING,
        progressing="True",
        reason=lambda it: WaitReason.CHECK_UNANSWERED if it.checks else WaitReason.SOAKING,
    ),
    Phase.PAUSED: PhaseWords(
        true=READY,
        sentence=lambda it: joined(
            f"paused with {counted(it.standing.left_to_update, 'node')} left to update",
            it.checks,
            it.lacking,
            it.aside,
        ),
        progressing="Unknown",
        reason=lambda it: WaitReason.PAUSED,
        why=lambda it: "paused",
    ),
    Phase.MANUAL: PhaseWords(
        true=READY,
        sentence=lambda it: joined(
            f"OnDelete: {counted(it.standing.left_to_update, 'node', 'waits')} for the old pod to be deleted",
            it.lacking,
            it.aside,
        ),
        progressing="True",
        reason=lambda it: WaitReason.ON_DELETE,
        why=lambda it: "delete pods to update",
    ),
    Phase.ABORTED: PhaseWords(
        true=STALLED,
        sentence=lambda it: joined(it.aborted, it.have, it.lacking, it.aside),
        progressing="False",
        reason=lambda it: WaitReason.ABORTED,
        why=lambda it: it.aborted,
    ),
    Phase.STALLED: PhaseWords(
        true=STALLED,
        sentence=lambda it: joined(it.stalled, unreadable_deadline(it.rollout.world.daemonset), it.aside),
        progressing="False",
        reason=lambda it: WaitReason.TEMPLATE_REFUSED if it.standing.refused else names.PROGRESS_DEADLINE_EXCEEDED,
        why=lambda it: it.stalled,
    ),
    Phase.HELD: PhaseWords(
        true=READY,
        sentence=lambda it: joined(it.have, it.held[1], it.lacking, it.aside),
        progressing="True",
        reason=lambda it: it.held[0],
        why=lambda it: it.held[1],
    ),
    Phase.DEGRADED: PhaseWords(
        true="",
        sentence=lambda it: joined(it.degraded, it.aside),
        progressing="True",
        reason=lambda it: it.held[0] if it.standing.held_nodes else names.ROLLOUT_COMPLETE,
        why=lambda it: it.held[1] if it.standing.held_nodes else "",
    ),
    Phase.HEALTHY: PhaseWords(
        true=READY,
        sentence=lambda it: joined(it.have, it.left_out, it.hook),
        progressing="True",
        reason=lambda it: names.ROLLOUT_COMPLETE,
        why=lambda it: "",
    ),
}
"""AwaitingApproval, Held, Paused and Manual are Ready, because time alone ends none of them. In Degraded the rollout
is complete, but pods are missing."""


def conditions_of(explainer: Explainer, counts: Counts, standing: Standing, phase: Phase) -> tuple[Condition, ...]:
    """`standing` is what is known of the rollout, even while `phase` is Pending."""
    rollout, wait = explainer.rollout, wait_of(explainer, standing)
    words, known = _Words(explainer, counts, standing, wait), PHASES[phase_of(standing)]
    updated = counted(counts.updated_number_scheduled, "node", "has", of=counts.desired_number_scheduled)
    text = joined(f"{updated} a pod of revision {rollout.revision.hash}", known.why(words), words.aside)
    reason = known.reason(words)
    why = wait.reason if wait is not None else phase.value
    return (
        Condition(type=PROGRESSING, status=known.progressing, reason=reason, message=text),
        _available(counts),
        _degraded(rollout),
        *_readiness(
            phase,
            PHASES[phase].sentence(words),
            why=reason if phase in (Phase.STALLED, Phase.ABORTED) else why,
            deadline=unreadable_deadline(rollout.world.daemonset),
        ),
        *_unmatched_hook(rollout),
    )


def refused_conditions(problem: str) -> tuple[Condition, ...]:
    text = "nothing is done until it is fixed"
    return (
        Condition(type=PROGRESSING, status="False", reason=names.INVALID_SPEC, message=text),
        Condition(type=DEGRADED, status="True", reason=names.INVALID_SPEC, message=problem),
        *_readiness(Phase.STALLED, problem, why=names.INVALID_SPEC),
    )


def _readiness(phase: Phase, message: str, *, why: str, deadline: str = "") -> tuple[Condition, ...]:
    """Ready, Reconciling and Stalled. `why` is the reason to wait, `deadline` what is wrong with its annotation."""
    true = PHASES[phase].true
    busy = (why, message) if true == RECONCILING else (phase.value, "")
    stalled = (names.INVALID_ANNOTATION if deadline else names.AS_EXPECTED, deadline)
    if true == STALLED:
        stalled = (why, message)
    return (
        Condition(type=READY, status=str(true == READY), reason=phase.value, message=message),
        Condition(type=RECONCILING, status=str(true == RECONCILING), reason=busy[0], message=busy[1]),
        Condition(type=STALLED, status=str(true == STALLED), reason=stalled[0], message=stalled[1]),
    )


def step_message(rollout: RolloutState, standing: Standing) -> str:
    """The progress through the steps as a text; empty without steps. It does not change with time alone."""
    progress = standing.step_progress
    if progress is None or progress.finished:
        return ""
    at = f"step {progress.step} of {progress.count}"
    if not progress.is_reached:
        return f"{at} allows {counted(progress.allowed, 'node')}"
    if progress.is_soaking:
        return f"{at} soaks until {rfc3339((epoch(progress.reached_time) or 0.0) + progress.soak)}"
    if not progress.unapproved:
        return ""
    return f"{at} has to be approved: annotation {names.APPROVE_ANNOTATION}={rollout.revision.hash}/{progress.step}"


def checks_message(standing: Standing) -> str:
    """The checks that do not pass, and why."""
    return joined(*map(words_of, standing.checks))


def _left_out(rollout: RolloutState) -> str:
    """How many unreachable nodes are left out, or that there are too many of them."""
    if rollout.too_many_unreachable:
        many = counted(sum(node.unreachable for node in rollout.eligible), "node", "is")
        return f"{many} unreachable, and unreachableNodes.leaveOut is {rollout.budget.leave_out}"
    return f"{counted(len(rollout.left_out), 'unreachable node', 'is')} left out" if rollout.left_out else ""


def unplaceable_message(rollout: RolloutState) -> str:
    """How many nodes are `unplaceable`, and why; empty if none are."""
    if not rollout.unplaceable:
        return ""
    hashes = sorted({older.hash for older in rollout.unplaceable.values()})
    revisions = f"revision {hashes[0]} does" if len(hashes) == 1 else f"revisions {some(hashes)} do"
    return f"{counted(len(rollout.unplaceable), 'node', 'stays')} empty: {revisions} not run there"


def _unadopted(rollout: RolloutState) -> str:
    """The nodes where a pod must be adopted before they get one of the current revision; empty if there are none."""
    orphans = {node for node, why in rollout.blocked_nodes.items() if why is Blocker.ADOPTABLE}
    if not orphans:
        return ""
    nodes = [node.name for node in rollout.eligible if node.name in orphans and node.current is None]
    if not nodes:
        return ""
    return (
        f"{counted(len(nodes), 'node', 'waits')} until a pod without a controller is adopted or gone: {some(nodes)}"
    )


def unreadable_deadline(daemonset: DaemonSet) -> str:
    """The mistake in the annotation of the progress deadline, and the default used instead; empty if there is
    none."""
    found = daemonset.invalid(names.PROGRESS_DEADLINE_ANNOTATION)
    if found is None:
        return ""
    shown = found if len(found) <= _SHOWN else f"{found[:_SHOWN]}…"
    return (
        f"annotation {names.PROGRESS_DEADLINE_ANNOTATION}: {shown!r} is not a whole number of seconds from 1 to "
        f"{names.LONGEST_PROGRESS_DEADLINE}, so {names.PROGRESS_DEADLINE_SECONDS} are used"
    )


def limit_in_use(rollout: RolloutState) -> WaitReason | None:
    """The limit that is used up while nodes are left to update; None: there is room, or nothing is left."""
    if rollout.room or not rollout.outdated:
        return None
    return rollout.budget.limit_reason


def _used_up(rollout: RolloutState) -> str:
    if rollout.room:
        return ""
    who = counted(rollout.in_use, "node", "is" if rollout.surging else "counts")
    how = "in the middle of a surge" if rollout.surging else "as unavailable"
    return f"{who} {how}, {rollout.budget.limit} is {rollout.budget.most}"


def keeper_of(rollout: RolloutState) -> Blocker:
    """What keeps nodes old: step or partition if the target is as large as it allows, else the selector."""
    used_up = len(rollout.target) >= rollout.allowed_nodes
    if used_up and rollout.is_limited_by_step:
        return Blocker.STEP
    return Blocker.PARTITION if used_up and rollout.budget.partition else Blocker.SELECTOR


def _available(counts: Counts) -> Condition:
    missing, desired = counts.number_unavailable, counts.desired_number_scheduled
    if not missing:
        text = f"{counted(desired, 'node', 'is', of=desired)} served"
        return Condition(type=AVAILABLE, status="True", reason=names.ALL_AVAILABLE, message=text)
    text = f"{counted(missing, 'node', 'has', of=desired)} no available pod"
    return Condition(type=AVAILABLE, status="False", reason=names.PODS_UNAVAILABLE, message=text)


def _degraded(rollout: RolloutState) -> Condition:
    if isinstance(rollout.dry_run.verdict, TemplateRefused):
        return Condition(
            type=DEGRADED, status="True", reason=WaitReason.TEMPLATE_REFUSED, message=rollout.dry_run.verdict.message
        )
    write_failure = rollout.world.write_failure or rollout.world.unreadable
    if write_failure:
        return Condition(type=DEGRADED, status="True", reason=names.WRITES_FAIL, message=write_failure)
    if rollout.world.short_lived:
        nodes = some(sorted(rollout.world.short_lived))
        text = f"pods do not last on {nodes}: they end or are deleted, and each next one comes after a longer wait"
        return Condition(type=DEGRADED, status="True", reason=names.PODS_DO_NOT_LAST, message=text)
    return Condition(type=DEGRADED, status="False", reason=names.AS_EXPECTED, message="")


def wait_of(explainer: Explainer, standing: Standing) -> Wait | None:
    """Why the nodes to update wait, if not for a pod or the budget; None if the rollout goes on."""
    rollout = explainer.rollout
    if standing.unreachable_only:
        many = rollout.too_many_unreachable
        reason = WaitReason.TOO_MANY_UNREACHABLE if many else WaitReason.UNREACHABLE
        return Wait(reason=reason, text=unreachable_message(standing.unreachable_only))
    if standing.checks and (check := rollout.held_by_check) is not None:
        fails = check.state is CheckState.FAILING
        reason = WaitReason.CHECK_FAILING if fails else WaitReason.CHECK_UNANSWERED
        return Wait(reason=reason, text=checks_message(standing))
    held = {pod.node for pod in explainer.held_by_hook}
    kept = [node for node in rollout.nodes if node.name in held] if held else []
    if Blocker.HOOK in explainer.waiting or any(explainer.blocker(node) is Blocker.HOOK for node in kept):
        return Wait(reason=WaitReason.HOOK, text=hook_message(explainer))
    return (_stuck_in_place(rollout) if rollout.in_place else None) or _all_wait(explainer)


def unreachable_message(nodes: Collection[str]) -> str:
    """Such as `waits for 3 unreachable nodes: node-2, node-1, node-0`."""
    return f"{WAITS_FOR}{counted(len(nodes), 'unreachable node')}: {some(nodes)}"


_ALL_WAIT: Final = (Blocker.UNPULLED, Blocker.UNANSWERED, Blocker.PULLING, Blocker.UNREACHABLE, Blocker.DOMAIN)
"""Blockers that only the cluster or other nodes remove. The first one found gives the reason."""


def _all_wait(explainer: Explainer) -> Wait | None:
    """The wait if every node left to update has one of `_ALL_WAIT`, and not all of them are unreachable."""
    rollout, waiting = explainer.rollout, explainer.waiting
    found = [(blocker, waiting[blocker]) for blocker in _ALL_WAIT if blocker in waiting]
    if {blocker for blocker, _ in found} <= {Blocker.UNREACHABLE}:
        return None
    if sum(len(nodes) for _, nodes in found) < len(rollout.outdated):
        return None
    parts = []
    for blocker, nodes in found:
        first = rollout.world.unpulled.get(nodes[0].name)
        why = f": {first.why}" if blocker is Blocker.UNPULLED and isinstance(first, Unpullable) else ""
        parts.append(f"{blocker.text.all_wait} {some(node.name for node in nodes)}{why}")
    reason = found[0][0].text.reason
    return None if reason is None else Wait(reason=reason, text=joined(*parts))


def _stuck_in_place(rollout: RolloutState) -> Wait | None:
    """The wait for updates in place that cannot finish."""
    updated = [node.current for node in rollout.nodes if node.current is not None and not node.current_available]
    pods = [pod for pod in updated if pod.in_progress is not None]
    for reason, text, problem in (
        (
            WaitReason.RESIZE_REFUSED,
            "the resize of pods is refused on",
            lambda pod: resize_refusal(rollout.world, pod),
        ),
        (WaitReason.RESIZE_DEFERRED, "the resize of pods is deferred on", resize_deferral),
        (WaitReason.NOT_STARTING, "containers do not start again on", lambda pod: pod.problem or ""),
    ):
        found = {pod.node: why for pod in pods if (why := problem(pod))}
        if found:
            return Wait(reason=reason, text=f"{text} {some(found)}: {next(iter(found.values()))}")
    return None


def hook_message(explainer: Explainer) -> str:
    """The pods that the preDelete hook holds, by what and since when; empty if none."""
    pods, hook = explainer.held_by_hook, explainer.rollout.world.daemonset.pre_delete
    if not pods:
        return ""
    held_by = listed(dict.fromkeys(handler for pod in pods for handler in handlers(pod, hook)), separator=" and ")
    since = min((pod.held_since for pod in pods if pod.held_since is not None), default=None)
    when = "" if since is None else f" since {rfc3339(since)}"
    return f"the preDelete hook holds {some(pod.name for pod in pods)} by {held_by}{when}"


def _unmatched_hook(rollout: RolloutState) -> tuple[Condition, ...]:
    """A warning while no live pod has a label or finalizer of the preDelete hook."""
    hook = rollout.world.daemonset.pre_delete
    if hook is None:
        return ()
    live = [pod for node in rollout.nodes for pod in node.live]
    if all(pod.held_by_hook for pod in live) or any(handlers(pod, hook) for pod in live):
        return ()
    labels = [f"label {key}={value}" for key, value in (hook.labels_handler or {}).items()]
    finalizers = [f"finalizer {finalizer}" for finalizer in sorted(hook.finalizers_handler or ())]
    text = (
        f"no pod has {listed([*labels, *finalizers], separator=' or ')}: the preDelete hook holds none of them back"
    )
    return (Condition(type=HOOK_UNMATCHED, status="True", reason=names.NO_POD_MATCHES, message=text),)


def some(given: Iterable[str]) -> str:
    """The first three names, and how many more follow."""
    known = list(given)
    shown = ", ".join(known[:3])
    return f"{shown} and {len(known) - 3} more" if len(known) > 3 else shown
