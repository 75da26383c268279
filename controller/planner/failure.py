"""When a rollout is aborted (`rollingUpdate.onFailure`): too many updated nodes stay without an available pod, or a
container of an updated pod keeps restarting.

The abort is recorded in the status, and lasts until there is another template or a person asks for another try.
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
    """What failed, naming node, pod and cause; empty: nothing."""
    due: float = inf
    """When something fails if nothing happens (seconds since 1970)."""
    unavailable_since: Mapping[str, float] | None = None
    """Since when updated nodes have had no available pod, by name; None: that was not looked at, and the next pass
    goes by what the pods say."""


def failure_of(
    asked: OnFailure,
    nodes: Iterable[NodeInfo],
    *,
    began: float,
    made_from: float,
    now: float,
    desired: int,
    excused: Collection[str],
    known: Mapping[str, float] | None,
) -> Failure:
    """What fails among `nodes`, in update order. `excused`: nodes that were unavailable before their update. `known`:
    `Failure.unavailable_since` of the last pass. Nothing counts from before the rollout `began`, which a retry begins
    anew; `made_from`: the same by the clock that dates new pods."""
    suspects = [  # without nodes that are not updated
        node
        for node in nodes
        if (node.old is None if node.current is None else not node.current_available or node.current.restarts)
    ]
    suspects = [node for node in suspects if not (node.unreachable or node.name in excused or node.is_going)]
    found = ((node.name, _unavailable_since(node, known, now)) for node in suspects)
    since = {name: max(moment, min(began, now)) for name, moment in found if moment is not None}
    if asked.restarts is not None:
        for node in suspects:
            pod = node.current
            if pod is None or pod.restarts < asked.restarts:
                continue
            if pod.updated >= (began if pod.updated_in_place else made_from):
                restarted = counted(pod.restarts, "time")
                why = f"a container of {_named(node)} restarted {restarted}"
                return Failure(why=why, unavailable_since=since)
    if asked.unavailable_nodes is None:
        return Failure(unavailable_since=since)
    text = asked.after or DEFAULT_AFTER
    after = formats.seconds(text)
    failing = [
        node for node in suspects if node.name in since and not (node.current is not None and node.current.ready)
    ]
    late = [_named(node) for node in failing if since[node.name] + after < now]
    most = max(formats.scaled(asked.unavailable_nodes, desired, round_up=True), 1)
    if len(late) < most:
        due = sorted(since[node.name] + after for node in failing)[most - 1 :]
        return Failure(due=due[0] if due else inf, unavailable_since=since)
    has = counted(len(late), "updated node", "has")
    why = f"{has} no available pod for longer than {text}: {listed(late, separator=', ')}"
    return Failure(why=why, unavailable_since=since)


def _unavailable_since(node: NodeInfo, known: Mapping[str, float] | None, now: float) -> float | None:
    """Since when the node has had no available pod of the current revision, however many came and went meanwhile;
    None: it has one, or has a first one that is only younger than minReadySeconds."""
    pod, before = node.current, known.get(node.name) if known else None
    if node.current_available:
        return None
    if before is not None or pod is None or pod.ready:
        return before
    return now if known is not None or pod.unready_since is None else min(pod.unready_since, now)


def failure_of_checks(asked: OnFailure, checks: Iterable[CheckNow], *, began: float, now: float) -> Failure:
    """What fails among `checks`: one that has returned series for longer than `after`, by a recent answer. Nothing
    counts from before the rollout `began`."""
    text = asked.after or DEFAULT_AFTER
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
    """The DaemonSet as it is carried out. While its revision is aborted and goes back, that is with the template of
    the stable revision, everywhere: neither partition nor selector keeps an aborted one. The spec is not touched."""
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
    """Whether a person asks for another try of the aborted revision, and that is not obeyed yet."""
    aborted = record.aborted_revision
    return aborted is not None and retry_of(daemonset, aborted) not in (None, record.retried)


def retry_of(daemonset: DaemonSet, revision: str) -> str | None:
    """The annotation that asks for another try of this revision, once for each value; None: there is none."""
    asked = daemonset.annotations.get(RETRY_ANNOTATION, "")[: len(revision) + _LONGEST_SUFFIX]
    return asked if asked.partition("/")[0] == revision else None


def is_overridden(daemonset: DaemonSet, revision: str) -> bool:
    """Whether a person rolls this revision out in spite of failures."""
    return daemonset.annotations.get(SKIP_STEPS_ANNOTATION) == revision
