"""How the old pods of a DaemonSet get its newest revision: in place, or why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from controller.api.daemonset import DaemonSet
from controller.api.formats import counted
from controller.api.names import ENV_GATE, RESIZE_GATE
from controller.api.objects import JSONObject, Value
from controller.inplace.change import InPlaceChange, NotPossible, change_between
from controller.planner.blockers import in_place_change_of
from controller.planner.nodes import NodeInfo
from controller.planner.rollout_state import RolloutState
from kubectl_plugin.report.snapshot import Snapshot

IN_PLACE, RECREATE, SURGE = "in place", "re-create", "surge"


class Ways(Value):
    """How old pods get the new revision; both are empty if updates in place are not asked for."""

    details: Mapping[str, int] = {}
    """How many pods an update in place restarts, by what it restarts."""
    hindrances: Mapping[str, int] = {}
    """How many pods are re-created instead, by what speaks against an update in place."""

    @property
    def in_place(self) -> int:
        return sum(self.details.values())

    def words(self) -> Iterator[str]:
        """`in place, restarts agent`, `re-create: spec.volumes added`; with counts where the pods differ."""
        alike = len(self.details) + len(self.hindrances) == 1
        for lead, found in ((f"{IN_PLACE}, ", self.details), (f"{RECREATE}: ", self.hindrances)):
            for what, count in found.items():
                yield f"{lead}{what}" + ("" if alike else f" ({counted(count, 'pod')})")


def ways_of(rollout: RolloutState, concerns: Callable[[NodeInfo], bool] = bool) -> Ways:
    """How the old pods get the new revision, in the nodes for which `concerns` holds."""
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
    """What an update in place restarts, in words. A container with changed metadata in its environment is restarted
    by OpenKruise's node agent, if that runs and its feature gate is on; neither can be seen from here."""
    if not change.restarts:
        return "restarts nothing"
    by_agent = f", which takes OpenKruise's node agent and the feature gate {ENV_GATE}" if change.rereads else ""
    return f"restarts {', '.join(change.restarts)}{by_agent}"


def unasked_words(snapshot: Snapshot) -> Iterator[str]:
    """What is not known of pods that admission has changed."""
    if count := len(snapshot.unasked):
        have, they = ("has", "it") if count == 1 else ("have", "they")
        yield (
            f"{counted(count, 'pod')} {have} an image, cpu or memory that admission changed: whether {they} can be"
            " updated in place is only known when the controller asks"
        )


def way_between(daemonset: DaemonSet, old: JSONObject, new: JSONObject) -> InPlaceChange | NotPossible | None:
    """How pods of the template `old` get `new`; None if updates in place are not asked for.

    The controller's feature gate for cpu and memory cannot be known here; it is taken to be on.
    """
    return change_between(old, new, resizable=True) if daemonset.in_place else None


def way_in_words(found: InPlaceChange | NotPossible) -> str:
    if isinstance(found, NotPossible):
        return f"{RECREATE}: {found.why}"
    gate = f" (cpu and memory: with the feature gate {RESIZE_GATE})" if found.resources else ""
    return f"{IN_PLACE}, {what_it_restarts(found)}{gate}"
