"""Which nodes should run a pod (eligible nodes) and which may keep one, as `NodeShouldRunDaemonPod` of the native
controller decides, and in which order they are updated. Resources, ports and node conditions are left to the
scheduler. The template's placement fields are compiled once per generation; a node then costs a few dictionary
look-ups."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import TypeAlias

import msgspec

from controller.api import names, selector
from controller.api.daemonset import OrderRule, Topology
from controller.api.formats import decimal_integer
from controller.api.node import ZONE_LABELS, Node, Taint
from controller.api.objects import JSONObject, Value, View
from controller.api.pod import AffinityView, NodeTerm
from controller.api.selector import LabelSelector, Matcher, is_label_key

NodeTest: TypeAlias = Callable[[Node], bool]


class Fit(IntEnum):
    LEAVE = 0
    """A pod must not be there."""
    STAY = 1
    """A pod may stay, but none is created: it does not tolerate a NoSchedule taint of the node."""
    RUN = 2
    """The node is eligible: exactly one pod should be there."""


class Toleration(View):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class PlacementSpec(View):
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: AffinityView | None = None
    tolerations: tuple[Toleration, ...] | None = None
    host_network: bool = False


class Placement(View):
    """The placement fields of a pod template."""

    spec: PlacementSpec = PlacementSpec()


def daemon_tolerations(host_network: bool) -> tuple[Toleration, ...]:
    """See https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#taints-and-tolerations"""
    no_execute = [names.TAINT_NOT_READY, names.TAINT_UNREACHABLE]
    no_schedule = [names.TAINT_DISK_PRESSURE, names.TAINT_MEMORY_PRESSURE, names.TAINT_PID_PRESSURE]
    no_schedule += [names.TAINT_UNSCHEDULABLE, *([names.TAINT_NETWORK_UNAVAILABLE] if host_network else [])]
    wanted = [*((key, "NoExecute") for key in no_execute), *((key, "NoSchedule") for key in no_schedule)]
    return tuple(Toleration(key=key, operator="Exists", effect=effect) for key, effect in wanted)


class EvaluatedNodes(Value):
    """All nodes as evaluated by the rules of one DaemonSet, in the order of `nodes`."""

    nodes: tuple[Node, ...] = ()
    fits: tuple[Fit, ...] = ()
    selected: tuple[bool, ...] = ()
    zones: tuple[str, ...] = ()
    eligible: Mapping[str, int] = {}
    """The number of eligible nodes in each zone that has any."""
    order: Sequence[int] = ()
    """The indexes of `nodes` in update order."""
    domains: Mapping[str | None, int] = {}
    """The number of eligible nodes with each value of the topology key; None: without the label."""


class Rules:
    """The compiled placement rules of one generation of a DaemonSet. A broken affinity term matches no node. Raises
    ValueError or msgspec.ValidationError for a field of the wrong type or a broken selector."""

    def __init__(
        self,
        template: JSONObject,
        nodes_to_update: LabelSelector | None = None,
        pods: LabelSelector | None = None,
        problems: tuple[str, ...] = (),
        order: Iterable[OrderRule] = (),
        topology: Topology | None = None,
    ) -> None:
        """`pods` is the selector of the DaemonSet; `problems` say why its spec cannot be used."""
        self.problems = problems
        self.owns: Matcher = selector.parse(pods) if pods is not None and not pods.empty else lambda _: False
        """Whether the DaemonSet's selector matches the labels; an empty one matches nothing."""
        spec = msgspec.convert(template, Placement).spec
        self._name = spec.node_name
        self._labels = tuple((spec.node_selector or {}).items())
        self._affinity = _affinity_test(spec.affinity)
        self._tolerations = (*(spec.tolerations or ()), *daemon_tolerations(spec.host_network))
        self._selects = selector.parse(nodes_to_update) if nodes_to_update is not None else None
        self._order = UpdateOrder(order)
        self._domain_key = topology.key if topology is not None else None
        self._evaluated = EvaluatedNodes()
        self._keys = sorted(self._order.keys.union([topology.key] if topology is not None else []))

    def fit(self, node: Node) -> Fit:
        if self._name and self._name != node.name:
            return Fit.LEAVE
        labels = node.labels
        for key, value in self._labels:
            if labels.get(key) != value:
                return Fit.LEAVE
        if self._affinity is not None and not self._affinity(node):
            return Fit.LEAVE
        return self._taint_fit(node.taints) if node.taints else Fit.RUN

    def selects(self, node: Node) -> bool:
        """Whether `rollingUpdate.selector` allows updates on this node; unset, it allows every node."""
        return self._selects is None or self._selects(node.labels)

    def place(self, node: Node) -> tuple[str | None, ...]:
        """The values of the labels that `order` and `topology` go by."""
        return tuple([node.labels.get(key) for key in self._keys])

    def evaluate(self, nodes: tuple[Node, ...]) -> EvaluatedNodes:
        """Cached by the identity of `nodes`: pass the same tuple while no node has changed."""
        if self._evaluated.nodes is not nodes:
            usual, fits = ZONE_LABELS[0], tuple(map(self.fit, nodes))
            zones = tuple([node.labels.get(usual) or node.zone for node in nodes])
            run = [node for node, fit in zip(nodes, fits, strict=True) if fit is Fit.RUN]
            key = self._domain_key
            self._evaluated = EvaluatedNodes(
                nodes=nodes,
                fits=fits,
                selected=tuple(map(self.selects, nodes)),
                zones=zones,
                eligible=Counter(zone for zone, fit in zip(zones, fits, strict=True) if fit is Fit.RUN),
                order=self._order.of(nodes),
                domains=Counter([node.labels.get(key) for node in run]) if key is not None else {},
            )
        return self._evaluated

    def _taint_fit(self, taints: Iterable[Taint]) -> Fit:
        fit = Fit.RUN
        for taint in taints:
            if taint.effect == "PreferNoSchedule" or any(_tolerates(t, taint) for t in self._tolerations):
                continue
            if taint.effect == "NoExecute":
                return Fit.LEAVE
            fit = Fit.STAY
        return fit


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    if toleration.operator in ("Gt", "Lt"):
        bound, value = decimal_integer(toleration.value), decimal_integer(taint.value)
        if bound is None or value is None:
            return False
        return value > bound if toleration.operator == "Gt" else value < bound
    return bool(toleration.key) and toleration.operator in ("", "Equal") and toleration.value == taint.value


def _affinity_test(affinity: AffinityView | None) -> NodeTest | None:
    """The test of the required node affinity; one matching term is enough."""
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    if required is None:
        return None
    terms = []
    for term in required.node_selector_terms or ():
        try:
            terms.append(_term_test(term))
        except ValueError:
            continue
    return lambda node: any(matches(node) for matches in terms)


def _term_test(term: NodeTerm) -> NodeTest:
    labels: tuple[Matcher, ...] = tuple(
        selector.requirement(expression) for expression in term.match_expressions or ()
    )
    fields: tuple[Matcher, ...] = tuple(selector.requirement(expression) for expression in term.match_fields or ())
    if any(expression.key != "metadata.name" for expression in term.match_fields or ()):
        raise ValueError("matchFields knows only metadata.name")
    if not labels and not fields:
        return lambda _: False

    def matches(node: Node) -> bool:
        return all(test(node.labels) for test in labels) and all(
            test({"metadata.name": node.name}) for test in fields
        )

    return matches


_NUMBER = re.compile(r"([0-9]+)")
_Places: TypeAlias = Callable[[Sequence[Node]], Sequence[int]]
"""The place of each node by one rule, lower first."""


class UpdateOrder:
    """The order of updates: by the rules of `rollingUpdate.order`, then by node name, descending."""

    def __init__(self, rules: Iterable[OrderRule]) -> None:
        """Raises ValueError for a rule that cannot be used, naming its index and field."""
        rules = tuple(rules)
        self._rules = [_compiled_order(index, rule) for index, rule in enumerate(rules)]
        self.keys = frozenset(key for rule in rules for key in _order_keys(rule))
        """The node labels that decide."""

    def of(self, nodes: Sequence[Node]) -> Sequence[int]:
        """The indexes of these nodes, which are sorted by name, in update order."""
        order: Sequence[int] = range(len(nodes) - 1, -1, -1)
        for places_of in reversed(self._rules):  # sorting is stable, so that the first rule decides
            order = sorted(order, key=places_of(nodes).__getitem__)
        return order


def _order_keys(rule: OrderRule) -> Iterator[str]:
    if rule.group_by:
        yield rule.group_by
    yield from rule.match_labels or ()
    yield from (expression.key for expression in rule.match_expressions or ())


def _compiled_order(index: int, rule: OrderRule) -> _Places:
    if not rule.group_by:
        try:
            matches = selector.parse(
                LabelSelector(match_labels=rule.match_labels, match_expressions=rule.match_expressions)
            )
        except ValueError as error:
            raise ValueError(f"order[{index}]: {error}") from error
        return lambda nodes: [not matches(node.labels) for node in nodes]
    key = rule.group_by
    if not is_label_key(key):
        raise ValueError(f"order[{index}].groupBy: {key!r} is not a label key")

    def places_of(nodes: Sequence[Node]) -> Sequence[int]:
        values = [node.labels.get(key) for node in nodes]
        groups = sorted({value for value in values if value is not None}, key=natural)
        places = {value: place for place, value in enumerate(groups)}
        return [len(groups) if value is None else places[value] for value in values]

    return places_of


def natural(value: str) -> tuple[list[str | int], str]:
    """A key that sorts `zone-2` before `zone-10`; equal only for equal values."""
    parts = [int(part) if part.isdecimal() else part for part in _NUMBER.split(value)]
    return parts, value
