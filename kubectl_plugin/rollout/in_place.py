"""What another template does to each node, and in which order, according to the controller's planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum

from controller.api.daemonset import DaemonSet
from controller.api.formats import counted
from controller.api.names import ENV_GATE, RESIZE_GATE
from controller.api.objects import JSONObject, Value
from controller.inplace.change import InPlaceChange, NotPossible, change_between
from controller.planner.blocker_texts import Blocker
from controller.planner.blockers import in_place_change_of
from controller.planner.explanation import Explainer
from controller.planner.nodes import NodeInfo
from controller.planner.rollout_state import RolloutState
from kubectl_plugin.rollout.snapshot import Snapshot


class How(StrEnum):
    """What happens to the pod of a node."""

    RECREATE = "re-create"
    IN_PLACE = "in place"
    SURGE = "surge"
    """A new pod is created beside the old one, which is deleted once the new one is available."""
    CREATE = "create"
    """The node has no pod and gets one."""
    FINISH = "finish"
    """The new pod exists already; the old one is deleted."""
    REMOVE = "remove"


class Ways(Value):
    """How old pods get the new revision; empty without in-place updates."""

    details: Mapping[str, int] = {}
    """Pods updated in place, by what restarts."""
    hindrances: Mapping[str, int] = {}
    """Pods re-created, by what rules out an update in place."""

    @property
    def in_place(self) -> int:
        return sum(self.details.values())

    def words(self) -> Iterator[str]:
        """`in place, restarts agent`, `re-create: spec.volumes added`; with counts if the pods differ."""
        alike = len(self.details) + len(self.hindrances) == 1
        for lead, found in ((f"{How.IN_PLACE}, ", self.details), (f"{How.RECREATE}: ", self.hindrances)):
            for what, count in found.items():
                yield f"{lead}{what}" + ("" if alike else f" ({counted(count, 'pod')})")


def ways_of(rollout: RolloutState, concerns: Callable[[NodeInfo], bool] = bool) -> Ways:
    details: Counter[str] = Counter()
    hindrances: Counter[str] = Counter()
    for node in rollout.outdated if rollout.in_place else ():
        if node.old is not None and concerns(node):
            change = in_place_change_of(rollout, node.old)
            if isinstance(change, NotPossible):
                hindrances[change.why] += 1
            else:
                details[what_it_restarts(change)] += 1
    return Ways(details=details, hindrances=hindrances)


def what_it_restarts(change: InPlaceChange) -> str:
    """The containers that an update in place restarts. Those with changed metadata in their environment are restarted
    by OpenKruise's node agent if its feature gate is on, which the plugin cannot see."""
    if not change.restarts:
        return "restarts nothing"
    by_agent = f", which takes OpenKruise's node agent and the feature gate {ENV_GATE}" if change.rereads else ""
    return f"restarts {', '.join(change.restarts)}{by_agent}"


def unasked_words(snapshot: Snapshot) -> Iterator[str]:
    if count := len(snapshot.unasked):
        have, they = ("has", "it") if count == 1 else ("have", "they")
        yield (
            f"{counted(count, 'pod')} {have} an image, cpu or memory that admission changed: whether {they} can be"
            " updated in place is only known when the controller asks"
        )


def way_between(daemonset: DaemonSet, old: JSONObject, new: JSONObject) -> InPlaceChange | NotPossible | None:
    """None without in-place updates. Assumes that the controller's feature gate for cpu and memory is on."""
    return change_between(old, new, resizable=True) if daemonset.in_place else None


def way_in_words(found: InPlaceChange | NotPossible) -> str:
    if isinstance(found, NotPossible):
        return f"{How.RECREATE}: {found.why}"
    gate = f" (cpu and memory: with the feature gate {RESIZE_GATE})" if found.resources else ""
    return f"{How.IN_PLACE}, {what_it_restarts(found)}{gate}"


class Moves(Value):
    """Names of nodes, in update order."""

    at_once: tuple[str, ...]
    """Updated regardless of the budget: their pod is not available."""
    later: tuple[str, ...]
    """Updated as the budget allows: their pod is available."""
    wave: int
    """How many of `later` are updated at a time; 0 while `spent_by` uses up the budget."""
    starting: tuple[str, ...]
    """Nodes without a pod, which get one of the wanted revision."""
    staying: tuple[str, ...]
    """Nodes with a pod of the wanted revision."""
    held: dict[Blocker, tuple[str, ...]]
    spent_by: tuple[str, ...]
    """Nodes without an available pod that are not updated, but count against maxUnavailable."""
    surging: bool

    in_place: bool

    @property
    def how(self) -> str:
        """How all nodes are updated; empty if it may vary by node."""
        return How.SURGE if self.surging else "" if self.in_place else How.RECREATE

    @property
    def moving(self) -> tuple[str, ...]:
        return self.at_once + self.later

    @property
    def waves(self) -> tuple[tuple[str, ...], ...]:
        """`later` in groups of `wave` nodes."""
        if not self.wave:
            return ()
        return tuple(self.later[start : start + self.wave] for start in range(0, len(self.later), self.wave))


def planned_moves(rollout: RolloutState) -> Moves:
    """`rollout` has the wanted template and the present pods."""
    explainer = Explainer(rollout)
    going = explainer.in_turn
    in_turn = {node.name for node in going}
    held: dict[Blocker, list[str]] = {}
    for node in rollout.in_update_order:
        blocker = explainer.blocker(node) if node.only_old else None
        if blocker is not None and node.name not in in_turn:
            held.setdefault(blocker, []).append(node.name)
    at_once = _names([node for node in going if not node.old_ready])
    starting = _names([node for node in rollout.may_hold_current if node.current is None and node.old is None])
    cared_for = {*at_once, *starting}
    spent_by = tuple([node for node in rollout.unavailable_nodes if node not in cared_for])
    limit = rollout.budget.max_surge if rollout.surging else max(rollout.budget.max_unavailable - len(spent_by), 0)
    return Moves(
        at_once=at_once,
        later=_names([node for node in going if node.old_ready]),
        wave=limit,
        starting=starting,
        staying=_names([node for node in rollout.eligible_in_order if node.current is not None]),
        held={blocker: tuple(nodes) for blocker, nodes in held.items()},
        spent_by=spent_by,
        surging=rollout.surging,
        in_place=rollout.in_place,
    )


def _names(nodes: Sequence[NodeInfo]) -> tuple[str, ...]:
    return tuple(node.name for node in nodes)
