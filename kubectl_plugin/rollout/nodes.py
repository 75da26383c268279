"""The state of one node in a rollout: a word, the reason for it, and the failure of its pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from controller.api.containers import stuck
from controller.api.node import ZONE_LABELS, Node
from controller.api.objects import JSONObject, Value, epoch, fields_of, rfc3339
from controller.api.pod import Pod
from controller.inplace.change import NotPossible
from controller.planner.blocker_texts import Blocker
from controller.planner.blockers import handlers, in_place_change_of, waits_for_hook
from controller.planner.explanation import Explainer, Explanation, NodeState
from controller.planner.node_fit import Fit, Rules
from controller.planner.nodes import NodeInfo
from kubectl_plugin.rollout.in_place import How
from kubectl_plugin.rollout.snapshot import Container, NodePull, PodDetail, PullStage, Snapshot
from kubectl_plugin.wording import short_duration


class Preparing(Value, rename="camel"):
    node: str
    pod: str
    since: str | None
    """Start of the preparation for deletion, in RFC 3339; None if not recorded."""
    held_by: tuple[str, ...]
    """The labels and finalizers to remove before it is deleted."""

    def age(self, now: float) -> str:
        begun = epoch(self.since)
        return f" for {short_duration(now - begun)}" if begun is not None else ""

    @property
    def until(self) -> str:
        return f"until {' and '.join(self.held_by)} {'is' if len(self.held_by) == 1 else 'are'} removed"

    def words(self, now: float, *, beside: str) -> str:
        """Omits the pod's name if it is `beside`."""
        who = "" if self.pod == beside else f"{self.pod} "
        return f"{who}held{self.age(now)} {self.until}"


GROUPINGS: Final = {
    "zone": ZONE_LABELS,
    "arch": ("kubernetes.io/arch",),
    "pool": (
        "cloud.google.com/gke-nodepool",
        "eks.amazonaws.com/nodegroup",
        "kubernetes.azure.com/agentpool",
        "karpenter.sh/nodepool",
    ),
}
"""Node labels for each short value of `--by`; the first label present counts."""

WITHOUT: Final = "nodes"
"""Group of nodes without any of the labels."""


def group_of(node: Node, by: str) -> str:
    """`by` is `zone`, `arch`, `pool` or a node label key."""
    for key in GROUPINGS.get(by, (by,)):
        if value := node.labels.get(key):
            return value
    return WITHOUT


class PodFailure(Value, rename="camel"):
    reason: str
    container: str = ""
    """Empty if the whole pod is at fault."""
    restarts: int = 0
    exit_code: int | None = None
    message: str = ""

    @property
    def brief(self) -> str:
        """`CrashLoopBackOff, exit 1`."""
        return self.reason if self.exit_code is None else f"{self.reason}, exit {self.exit_code}"


def failure_of(detail: PodDetail) -> PodFailure | None:
    """None while the pod may become ready by itself."""
    pod = detail.pod
    if pod.phase == "Failed":
        container = next((container for container in detail.all_containers if container.exit_code), None)
        return PodFailure(
            reason=detail.reason or "Failed",
            container=container.name if container else "",
            restarts=detail.restarts,
            exit_code=container.exit_code if container else None,
            message=detail.message or (container.message if container else ""),
        )
    if detail.unschedulable:
        return PodFailure(reason="Unschedulable", message=detail.unschedulable)
    for container in detail.all_containers:
        replaced = container.name in detail.replaced
        reason = _reason(container, replaced=replaced)
        if reason and not (container.ready and pod.ready):
            return PodFailure(
                reason=reason,
                container=container.name,
                restarts=container.restarts,
                exit_code=None if replaced else container.exit_code,
                message=container.message,
            )
    return None


def _reason(container: Container, *, replaced: bool) -> str:
    """`replaced`: the container waits after an update in place, so the former container's end does not explain it."""
    if replaced and container.waiting == "CrashLoopBackOff":
        return "ImagePullBackOff"
    code = None if replaced else container.exit_code
    return stuck(waiting=container.waiting, ready=container.ready, exit_code=code, ended=container.ended)


DONE: Final = (NodeState.UPDATED, NodeState.UNPLANNED)
_IN_PLACE: Final = (Blocker.RESTARTING, Blocker.RESIZING, Blocker.UNRESIZED)
_FIELDS: Final = {"nodeName": "spec.nodeName", "nodeSelector": "node selector", "affinity": "node affinity"}


class NodeRow(Value):
    node: str
    group: str
    state: NodeState
    revision: int | None
    """Revision number of its pod; None if there is no pod, or its revision is not stored."""
    pod: PodDetail | None
    """A pod of the current revision, else an old one, else one that is being deleted."""
    how: str
    """`in place`, `re-create` or `surge`; empty if no update is due."""
    why: str
    failure: PodFailure | None
    image: NodePull | None = None
    """The pull of the new image ahead of the update."""
    preparing: tuple[Preparing, ...] = ()

    @property
    def document(self) -> JSONObject:
        """An item of `nodes -o json`."""
        image = {} if self.image is None else {"image": {"stage": self.image.stage.value, "why": self.image.why}}
        return {
            "node": self.node,
            "group": self.group,
            "state": self.state.value,
            "revision": self.revision,
            "pod": None if self.pod is None else self.pod.document,
            "how": self.how,
            "why": self.why,
            "preparing": [msgspec.to_builtins(one) for one in self.preparing],
            **image,
            **({} if self.failure is None else {"trouble": msgspec.to_builtins(self.failure)}),
        }


class NodeCounts(Value, rename="camel", kw_only=True):
    """`updated`, `updating`, `failing`, `next`, `old` and `missing` add up to `desired`."""

    desired: int
    target: int
    updated: int
    updating: int
    failing: int = 0
    next: int = 0
    old: int
    available: int
    unplanned: int = 0
    """Nodes counted in `updated` that partition, selector or step would have kept old."""
    missing: int


class RowReader:
    def __init__(self, snapshot: Snapshot, explainer: Explainer, by: str, pulls: Mapping[str, NodePull]) -> None:
        rollout = explainer.rollout
        self._explainer, self._pulls = explainer, pulls
        self._now, self._rollout, self._by = snapshot.now, rollout, by
        self._details = {detail.pod.uid: detail for detail in snapshot.pods}
        self._numbers = {detail.revision.hash: detail.revision.number for detail in reversed(snapshot.revisions)}
        self._nodes = {node.name: node for node in rollout.world.nodes}
        self._exclusions = _Exclusions(snapshot.daemonset.spec.template)

    def row(self, node: NodeInfo) -> NodeRow:
        pod = node.current or node.old or next(iter(node.pods), None)
        detail = self._details.get(pod.uid) if pod is not None else None
        failure = failure_of(detail) if detail is not None else None
        explained = self._explainer.explain(node)
        on_node = self._nodes.get(node.name)
        return NodeRow(
            node=node.name,
            group=group_of(on_node, self._by) if on_node else WITHOUT,
            state=explained.state,
            revision=self._numbers.get(pod.hash) if pod is not None else None,
            pod=detail,
            how=self._how(explained.state, node, detail),
            why=self._why(explained, detail, failure),
            failure=failure,
            image=self._pulls.get(node.name),
            preparing=self._preparing(node),
        )

    def _preparing(self, node: NodeInfo) -> tuple[Preparing, ...]:
        hook = self._rollout.world.daemonset.pre_delete
        return tuple(
            Preparing(
                node=pod.node,
                pod=pod.name,
                since=rfc3339(pod.held_since) if pod.held_since is not None else None,
                held_by=handlers(pod, hook),
            )
            for pod in node.pods
            if not pod.terminating and waits_for_hook(self._rollout, pod)
        )

    def _held(self, node: NodeInfo, detail: PodDetail | None) -> str:
        named = detail.pod.name if detail is not None else ""
        return "; ".join(one.words(self._now, beside=named) for one in self._preparing(node))

    def _how(self, state: NodeState, node: NodeInfo, detail: PodDetail | None) -> str:
        if state not in (NodeState.NEXT, NodeState.UPDATING, NodeState.FAILING):
            return ""
        if self._rollout.surging:
            return How.SURGE
        if node.current is not None:
            return How.IN_PLACE if detail is not None and detail.updated is not None else How.RECREATE
        asked = node.old is not None and self._rollout.in_place
        return How.IN_PLACE if asked and not self._hindrance(node) else How.RECREATE

    def _hindrance(self, node: NodeInfo) -> str:
        """Why its old pod cannot be updated in place; empty if it can, or without in-place updates."""
        if node.old is None or not self._rollout.in_place:
            return ""
        change = in_place_change_of(self._rollout, node.old)
        return change.why if isinstance(change, NotPossible) else ""

    def _why(self, explained: Explanation, detail: PodDetail | None, failure: PodFailure | None) -> str:
        node = explained.node
        match explained.state:
            case NodeState.EXCLUDED:
                return "; ".join(filter(None, (self._excluded(node), self._held(node, detail))))
            case NodeState.UPDATED:
                return ""
            case NodeState.UNPLANNED:
                return "newer than the partition allows" if node.selected else "rollingUpdate.selector leaves it out"
            case NodeState.FAILING:
                return failure.brief if failure else "its pod ended"
            case NodeState.UPDATING if explained.blocker in _IN_PLACE and node.current is not None:
                return self._underway(explained.blocker, node.current, detail)
            case NodeState.UPDATING if node.current is not None and not node.current_available:
                return self._not_available(node.current, detail)
            case NodeState.UPDATING if node.current is not None and explained.blocker is None:
                return "its old pod goes now"
        return self._waits(explained, detail, f"; {failure.brief}" if failure else "")

    def _waits(self, explained: Explanation, detail: PodDetail | None, failure: str) -> str:
        node, blocker = explained.node, explained.blocker
        if blocker is Blocker.HOOK:
            return self._held(node, detail)
        if node.current is None and node.old is None and blocker is None:
            return "no pod yet"
        against = self._hindrance(node) if explained.state is NodeState.NEXT else ""
        way = f"; not {How.IN_PLACE}: {against}" if against else ""
        if node.old is not None and blocker is None and not node.old_ready:
            return f"at once: its old pod is not available{failure}{way}"
        texts = (blocker or Blocker.BUDGET).text
        older = self._rollout.unplaceable.get(node.name)
        text = texts.why.format(
            partition=self._rollout.budget.partition, older=(older.number or older.hash) if older else ""
        )
        return text + self._image(node, blocker) + (failure if texts.shows_trouble else "") + way

    def _image(self, node: NodeInfo, blocker: Blocker | None) -> str:
        pull = self._pulls.get(node.name)
        if pull is None or not pull.why:
            return ""
        if blocker in (Blocker.PULLING, Blocker.UNPULLED):
            return f": {pull.why}"
        return f"; its new image cannot be pulled: {pull.why}" if pull.stage is PullStage.FAILED else ""

    def _excluded(self, node: NodeInfo) -> str:
        known = self._nodes.get(node.name)
        why = self._exclusions.why(known) if known else "the node is gone"
        keeps = f"; its pod {'may stay' if node.fit is Fit.STAY else 'must go'}"
        return why + (keeps if node.pods and known else "")

    def _underway(self, blocker: Blocker, pod: Pod, detail: PodDetail | None) -> str:
        """What the update in place waits for, with the kubelet's error."""
        in_progress = pod.in_progress
        problem = f": {in_progress.problem}" if in_progress is not None and in_progress.problem else ""
        since = "" if detail is None or detail.updated is None else f", {short_duration(self._now - detail.updated)}"
        containers = ", ".join(in_progress.restarting) if in_progress is not None else ""
        if blocker is Blocker.RESTARTING and containers:
            return f"{containers} not started with the new image yet{since}"
        return f"{blocker.text.why}{problem}{since}"

    def _not_available(self, pod: Pod, detail: PodDetail | None) -> str:
        age = short_duration(self._now - pod.created)
        if pod.ready:
            since = short_duration(self._now - (pod.ready_since or self._now))
            return f"ready for {since} of {self._rollout.world.daemonset.spec.min_ready_seconds}s"
        if detail is None or not detail.containers:
            return f"starting, {age}"
        waiting = next((container for container in detail.all_containers if container.waiting), None)
        if waiting is not None:
            return f"{waiting.name} {waiting.waiting}, {age}"
        running = next((container for container in detail.containers if not container.ready), None)
        return f"{running.name} not ready, {age}" if running else f"not ready, {age}"


class _Exclusions:
    """Why a node must not run the pod, by the planner's rules, one field at a time. Raises the errors of `Rules`."""

    def __init__(self, template: JSONObject) -> None:
        fields = fields_of(template.get("spec"))
        self._whole = Rules(template)
        self._alone = {
            words: Rules({"spec": {field: fields[field]}}) for field, words in _FIELDS.items() if field in fields
        }

    def why(self, node: Node) -> str:
        """The first field or taint that excludes the node; empty if it is eligible."""
        untainted = replace(node, taints=())
        for words, rules in self._alone.items():
            if rules.fit(untainted) is Fit.LEAVE:
                return words
        for taint in node.taints:
            if self._whole.fit(replace(node, taints=(taint,))) is not Fit.RUN:
                value = f"={taint.value}" if taint.value else ""
                return f"taint {taint.key}{value}:{taint.effect}"
        return ""
