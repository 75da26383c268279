"""When a rollout is aborted (`rollingUpdate.onFailure`): too many updated nodes stay without an available pod, a
container of an updated pod keeps restarting, or a check (`rollingUpdate.checks`) fails for too long.

The abort is recorded in the status, and lasts until the template changes or `kruise-ds/retry` is set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf

from msgspec.structs import replace

from controller.api import formats
from controller.api.daemonset import DaemonSet, OnFailure, Rollout, rollout_of
from controller.api.formats import counted, listed
from controller.api.names import RETRY_ANNOTATION, SKIP_STEPS_ANNOTATION
from controller.api.objects import Value
from controller.api.revision import Revision
from controller.planner.checks import CheckNow
from controller.planner.nodes import NodeInfo
from controller.planner.revisions import stored_current

DEFAULT_AFTER = "300s"
"""How long an updated node may be without an available pod."""
_LONGEST_SUFFIX = 32


class Failure(Value):
    why: str = ""
    """What failed, with node, pod and cause; empty if nothing did."""
    due: float = inf
    """When the rollout fails if nothing changes (seconds since 1970)."""
    unavailable_since: Mapping[str, float] | None = None
    """Since when updated nodes have had no available pod, by name; None if not determined: the next pass then takes
    the times from the pods."""


def failure_of(
    limits: OnFailure,
    nodes: Iterable[NodeInfo],
    *,
    began: float,
    made_from: float,
    now: float,
    desired: int,
    excused: Collection[str],
    known: Mapping[str, float] | None,
) -> Failure:
    """The failure among `nodes`, in update order. `excused`: nodes that were unavailable before their update;
    `known`: `Failure.unavailable_since` of the last pass; `began`: the start of the rollout or of its last retry,
    before which nothing counts; `made_from`: the same by the clock that dates new pods."""
    suspects = [  # only updated nodes
        node
        for node in nodes
        if (node.old is None if node.current is None else not node.current_available or node.current.restarts)
    ]
    suspects = [node for node in suspects if not (node.unreachable or node.name in excused or node.is_going)]
    found = ((node.name, _unavailable_since(node, known, now)) for node in suspects)
    since = {name: max(moment, min(began, now)) for name, moment in found if moment is not None}
    if limits.restarts is not None:
        for node in suspects:
            pod = node.current
            if pod is None or pod.restarts < limits.restarts:
                continue
            if pod.updated >= (began if pod.updated_in_place else made_from):
                restarted = counted(pod.restarts, "time")
                why = f"a container of {_named(node)} restarted {restarted}"
                return Failure(why=why, unavailable_since=since)
    if limits.unavailable_nodes is None:
        return Failure(unavailable_since=since)
    text = limits.after or DEFAULT_AFTER
    after = formats.seconds(text)
    failing = [
        node for node in suspects if node.name in since and not (node.current is not None and node.current.ready)
    ]
    late = [_named(node) for node in failing if since[node.name] + after < now]
    most = max(formats.scaled(limits.unavailable_nodes, desired, round_up=True), 1)
    if len(late) < most:
        due = sorted(since[node.name] + after for node in failing)[most - 1 :]
        return Failure(due=due[0] if due else inf, unavailable_since=since)
    has = counted(len(late), "updated node", "has")
    why = f"{has} no available pod for longer than {text}: {listed(late, separator=', ')}"
    return Failure(why=why, unavailable_since=since)


def _unavailable_since(node: NodeInfo, known: Mapping[str, float] | None, now: float) -> float | None:
    """Since when the node has had no available pod of the current revision, even if pods were replaced meanwhile.
    None if it has one, or its first one is ready and only younger than minReadySeconds."""
    pod, before = node.current, known.get(node.name) if known else None
    if node.current_available:
        return None
    if before is not None or pod is None or pod.ready:
        return before
    return now if known is not None or pod.unready_since is None else min(pod.unready_since, now)


def failure_of_checks(limits: OnFailure, checks: Iterable[CheckNow], *, began: float, now: float) -> Failure:
    """The failure among `checks`: one that has returned series for longer than `limits.after`, by a recent answer.
    Time before `began` does not count."""
    text = limits.after or DEFAULT_AFTER
    after = formats.seconds(text)
    due = {check: max(check.since, began) + after for check in checks if check.is_answered}
    late = [check for check, moment in due.items() if moment < now]
    if late:
        return Failure(why=f"check {late[0].name} fails for longer than {text}: {late[0].message}")
    return Failure(due=min(due.values(), default=inf))


def _named(node: NodeInfo) -> str:
    pod = node.current
    if pod is None:
        return node.name
    return f"pod {pod.name} on {node.name}" + (f" ({pod.problem})" if pod.problem is not None else "")


def effective_daemonset(daemonset: DaemonSet, revisions: Sequence[Revision]) -> DaemonSet:
    """The DaemonSet to plan for. While an aborted revision is rolled back, it has the template of the stable
    revision, and neither partition nor selector, so that no node keeps the aborted one. The object itself is not
    changed."""
    rolling, record = daemonset.rolling_update, rollout_of(daemonset.status)
    if rolling is None or rolling.on_failure is None or rolling.on_failure.action != "RollBack":
        return daemonset
    current = stored_current(daemonset, revisions)
    stable = next(
        (revision for revision in revisions if revision.hash == record.stable_revision and not revision.terminating),
        None,
    )
    if current is None or stable is None or not current.hash == record.aborted_revision != stable.hash:
        return daemonset
    if asks_for_retry(daemonset, record) or is_overridden(daemonset, current.hash):
        return daemonset
    strategy = replace(daemonset.spec.update_strategy, rolling_update=replace(rolling, partition=None, selector=None))
    spec = replace(daemonset.spec, template=stable.template, update_strategy=strategy)
    return replace(daemonset, spec=spec, identity=stable.identity, rolled_back=current.hash)


def asks_for_retry(daemonset: DaemonSet, record: Rollout) -> bool:
    """Whether the annotation `kruise-ds/retry` has a value for the aborted revision that was not used yet."""
    aborted = record.aborted_revision
    return aborted is not None and retry_of(daemonset, aborted) not in (None, record.retried)


def retry_of(daemonset: DaemonSet, revision: str) -> str | None:
    """The value of the annotation `kruise-ds/retry` for this revision; None if it has none. Each value is one try."""
    value = daemonset.annotations.get(RETRY_ANNOTATION, "")[: len(revision) + _LONGEST_SUFFIX]
    return value if value.partition("/")[0] == revision else None


def is_overridden(daemonset: DaemonSet, revision: str) -> bool:
    """Whether the annotation `kruise-ds/skip-steps` rolls this revision out in spite of failures."""
    return daemonset.annotations.get(SKIP_STEPS_ANNOTATION) == revision
