"""What there is to see, as values: a pure function of the objects that the API server has shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from controller.api.names import HASH_LABEL
from controller.api.objects import Value
from tests.beds.api import Object
from tests.beds.nodes.fleet import ZONE_LABEL
from tests.beds.objects import node_of
from tests.tools.demo.journal import Line


class State(StrEnum):
    """How a node stands to the DaemonSet."""

    READY = "ready"
    STARTING = "starting"
    LEAVING = "leaving"
    MISSING = "no pod"
    FAILING = "failing"
    OUT = "out"
    """The DaemonSet does not want this node."""
    IDLE = ""
    """There is no DaemonSet."""


class Cell(Value):
    node: str
    state: State
    revision: str = ""
    """A letter, in the order in which revisions came up."""
    pod: str = ""


class Zone(Value):
    name: str
    cells: tuple[Cell, ...]


class Counts(Value):
    """The five numbers of `kubectl get`, from the status of the DaemonSet."""

    desired: int = 0
    current: int = 0
    ready: int = 0
    up_to_date: int = 0
    available: int = 0


class Act(Value):
    """One step of the story."""

    number: int
    of: int
    title: str
    command: str
    """The same as a command for kubectl."""


class Picture(Value):
    title: str
    seconds: float
    act: Act
    zones: tuple[Zone, ...] = ()
    counts: Counts = Counts()
    images: tuple[tuple[str, str], ...] = ()
    """Letter and image of each revision."""
    worst: int = 0
    """The most nodes that were without an available pod at one time, so far in this step."""
    lines: tuple[Line, ...] = ()


def cells(
    nodes: Iterable[Object], pods: Iterable[Object], daemonset: Object | None, letters: Mapping[str, str]
) -> dict[str, Cell]:
    """One cell for each node, by name. `letters`: what to call each revision hash."""
    by_node: dict[str, list[Object]] = {}
    for pod in pods:
        by_node.setdefault(node_of(pod), []).append(pod)
    named = {node["metadata"]["name"]: node for node in nodes}
    return {name: _cell(named[name], by_node.get(name, []), daemonset, letters) for name in sorted(named)}


def zones(nodes: Iterable[Object], found: Mapping[str, Cell]) -> tuple[Zone, ...]:
    """The cells in the zones of their nodes."""
    names: dict[str, list[str]] = {}
    for node in nodes:
        zone = (node["metadata"].get("labels") or {}).get(ZONE_LABEL, "none")
        names.setdefault(zone, []).append(node["metadata"]["name"])
    return tuple(Zone(name=zone, cells=tuple(found[name] for name in sorted(names[zone]))) for zone in sorted(names))


def counts(daemonset: Object | None) -> Counts:
    status = (daemonset or {}).get("status") or {}
    return Counts(
        desired=status.get("desiredNumberScheduled", 0),
        current=status.get("currentNumberScheduled", 0),
        ready=status.get("numberReady", 0),
        up_to_date=status.get("updatedNumberScheduled", 0),
        available=status.get("numberAvailable", 0),
    )


def revision_of(pod: Object) -> str:
    """The revision hash that the pod carries."""
    return str((pod["metadata"].get("labels") or {}).get(HASH_LABEL, ""))


def _cell(node: Object, pods: Sequence[Object], daemonset: Object | None, letters: Mapping[str, str]) -> Cell:
    name = node["metadata"]["name"]
    staying = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    for pod in staying or pods:
        state = _state(pod) if staying else State.LEAVING
        return Cell(node=name, state=state, revision=letters.get(revision_of(pod), "?"), pod=pod["metadata"]["name"])
    if daemonset is None:
        return Cell(node=name, state=State.IDLE)
    return Cell(node=name, state=State.MISSING if _is_wanted(node, daemonset) else State.OUT)


def _is_wanted(node: Object, daemonset: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    selector = daemonset["spec"]["template"]["spec"].get("nodeSelector") or {}
    return all(labels.get(key) == value for key, value in selector.items())


def _state(pod: Object) -> State:
    status = pod.get("status") or {}
    if status.get("phase") == "Failed":
        return State.FAILING
    for container in status.get("containerStatuses") or []:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "", "ContainerCreating"):
            return State.FAILING
    conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or []}
    return State.READY if conditions.get("Ready") == "True" else State.STARTING
