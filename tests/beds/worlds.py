"""Worlds in one line: `world(ds(rev="v2", partition=2), pods=served("node-0", "node-1"))`; and plans in short words.

Everything is deterministic. Revisions are called by the tag of their only image; `v1`, `v2` … are also their hashes.
A pod without a name is called after its node and its revision: `node-0-v1`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from controller.api import template_identity
from controller.api.daemonset import (
    DaemonSet,
    DaemonSetSpec,
    Lifecycle,
    LifecycleHook,
    RollingUpdate,
    ScaleStrategy,
    UpdateStrategy,
)
from controller.api.formats import IntOrPercent
from controller.api.in_place import Resize, UpdateInProgress
from controller.api.names import (
    HASH_LABEL,
    IN_PLACE_GRACE_ANNOTATION,
    IN_PLACE_IF_POSSIBLE,
    IN_PLACE_UPDATE_READY,
    KRUISE_POD_READY,
    LIFECYCLE_STATE_LABEL,
    PREPARING_DELETE,
)
from controller.api.node import Node, Taint
from controller.api.objects import JSONObject
from controller.api.pod import Pod
from controller.api.readiness_gates import ReadinessGate
from controller.api.revision import Revision
from controller.api.selector import LabelSelector, Requirement
from controller.inplace.change import InPlaceChange
from controller.planner import actions
from controller.planner.plan import Plan, plan
from controller.planner.revisions import placements_of
from controller.planner.status import Status
from controller.planner.validation import compiled
from controller.planner.world import Accepted, FormerPod, Predecessor, TemplateRefused, World

NOW = 1_800_000_000.0
"""The clock of every world unless it says otherwise, in seconds since 1970."""

LONG = 3600.0
"""Seconds for which a pod has been ready unless it says otherwise."""

OURS = "uid-ads"
"""uid of the DaemonSet of every world."""

LABELS = {"app": "demo"}


def ago(seconds: float) -> float:
    return NOW - seconds


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Taint:
    return Taint(key=key, effect=effect, value=value)


def node(name: str, *taints: Taint, labels: Mapping[str, str] | None = None) -> Node:
    return Node(name=name, uid=f"uid-{name}", version="1", labels=dict(labels or {}), taints=taints)


def numbered(count: int) -> tuple[Node, ...]:
    """node-0, node-1, …"""
    return tuple(node(f"node-{number}") for number in range(count))


def template(rev: str, **spec: Any) -> JSONObject:
    """The pod template of revision `rev`; further fields of the pod spec as Kubernetes calls them."""
    container: JSONObject = {"name": "main", "image": f"demo:{rev}"}
    return {"metadata": {"labels": dict(LABELS)}, "spec": {"containers": [container], **spec}}


def tag_of(pod_template: JSONObject) -> str:
    """`v2` of a template whose first image is `demo:v2`."""
    view = msgspec.convert(pod_template, dict[str, Any])
    return str(view["spec"]["containers"][0]["image"]).rpartition(":")[2]


def ds(
    rev: str = "v1",
    *,
    max_unavailable: IntOrPercent | None = 1,
    max_surge: IntOrPercent | None = None,
    partition: IntOrPercent | None = None,
    selector: Mapping[str, str] | None = None,
    paused: bool = False,
    on_delete: bool = False,
    rolling_update_type: str = "",
    burst: IntOrPercent | None = None,
    min_ready: int = 0,
    history: int | None = None,
    partitioned_scaling: bool | None = None,
    hook: LifecycleHook | None = None,
    pods: LabelSelector | None = None,
    annotations: Mapping[str, str] | None = None,
    terminating: bool = False,
    generation: int = 1,
    rolling: Mapping[str, Any] | None = None,
    **spec: Any,
) -> DaemonSet:
    """A DaemonSet whose template is revision `rev`. `selector` chooses nodes, `pods` is `spec.selector`, and
    `rolling` are more fields of `RollingUpdate`."""
    update = RollingUpdate(
        rolling_update_type=rolling_update_type,
        max_unavailable=None if max_surge is not None else max_unavailable,
        max_surge=max_surge,
        selector=LabelSelector(match_labels=dict(selector)) if selector is not None else None,
        partition=partition,
        paused=paused,
        **(rolling or {}),
    )
    strategy = UpdateStrategy(type="OnDelete") if on_delete else UpdateStrategy(rolling_update=update)
    wanted = DaemonSetSpec(
        selector=pods or LabelSelector(match_labels=LABELS),
        template=template(rev, **spec),
        update_strategy=strategy,
        min_ready_seconds=min_ready,
        burst_replicas=burst,
        revision_history_limit=history,
        lifecycle=Lifecycle(pre_delete=hook) if hook else None,
        scale_strategy=ScaleStrategy(partitioned_scaling=partitioned_scaling),
    )
    return _with_spec(wanted, annotations=dict(annotations or {}), terminating=terminating, generation=generation)


def _with_spec(spec: DaemonSetSpec, *, annotations: dict[str, str], terminating: bool, generation: int) -> DaemonSet:
    return DaemonSet(
        namespace="default",
        name="demo",
        uid=OURS,
        version="1",
        generation=generation,
        annotations=annotations,
        terminating=terminating,
        spec=spec,
        status=None,
        identity=template_identity.identity(spec.template),
    )


def revision(rev: str, number: int | None = None, *, of: JSONObject | None = None, **changes: Any) -> Revision:
    """The stored revision `rev`; its number is that in its name unless given."""
    pod_template = of or template(rev)
    stored = Revision(
        namespace="default",
        name=f"demo-{rev}",
        uid=f"uid-demo-{rev}",
        version="1",
        owner_uid=OURS,
        owner_index=0,
        labels={**LABELS, HASH_LABEL: rev},
        number=int(rev.lstrip("v")) if number is None else number,
        template=pod_template,
        identity=template_identity.identity(pod_template),
    )
    return msgspec.structs.replace(stored, **changes)


def pod(
    on: str,
    rev: str = "v1",
    *,
    name: str = "",
    ready: float | None = ago(LONG),
    phase: str = "Running",
    terminating: bool = False,
    bound: bool = True,
    created: float = ago(LONG),
    labels: Mapping[str, str] | None = None,
    finalizers: tuple[str, ...] = (),
    owner: str = OURS,
) -> Pod:
    """A pod of revision `rev` aimed at the node `on`; `ready` is since when, None is not ready."""
    name = name or f"{on}-{rev}"
    return Pod(
        namespace="default",
        name=name,
        uid=f"uid-{name}",
        version="1",
        owner_uid=owner,
        owner_index=0,
        labels={**LABELS, **({HASH_LABEL: rev} if rev else {}), **(labels or {})},
        finalizers=finalizers,
        created=created,
        node=on,
        bound=bound,
        phase=phase,
        terminating=terminating,
        ready=ready is not None,
        ready_since=ready,
        unready_since=created if ready is None else None,
    )


def prepared(one: Pod, *, marked_not_ready: bool = False, since: float = ago(60)) -> Pod:
    """The same prepared for its deletion; `marked_not_ready`: and not ready for that."""
    labels = {**one.labels, LIFECYCLE_STATE_LABEL: PREPARING_DELETE}
    one = msgspec.structs.replace(one, labels=labels, held_since=since)
    if not marked_not_ready:
        return one
    gate = ReadinessGate(type=KRUISE_POD_READY, open=False, present=True, index=0, marked_not_ready=True)
    return msgspec.structs.replace(one, gates=(gate,), ready=False, ready_since=None, drained=one.ready)


def pending(on: str, rev: str = "v1", **fields: Any) -> Pod:
    """A pod that the scheduler has not placed yet."""
    return pod(on, rev, **{"ready": None, "phase": "Pending", "bound": False, **fields})


def failed(on: str, rev: str = "v1", **fields: Any) -> Pod:
    return pod(on, rev, **{"ready": None, "phase": "Failed", **fields})


def served(*nodes: str, rev: str = "v1", ready: float | None = ago(LONG)) -> tuple[Pod, ...]:
    """One pod on each of these nodes."""
    return tuple(pod(name, rev, ready=ready) for name in nodes)


def everywhere(count: int, ready: float | None = ago(LONG)) -> tuple[Pod, ...]:
    """One pod on each of node-0 … node-(count-1)."""
    return served(*(f"node-{number}" for number in range(count)), ready=ready)


def matching(**labels: str) -> LabelSelector:
    return LabelSelector(match_labels=labels)


def where(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=(Requirement(key=key, operator=operator, values=values),))


def before(on: str, rev: str = "v1") -> dict[str, Predecessor]:
    """The pod that was last seen on a node and has gone."""
    return {on: Predecessor(uid=f"uid-{on}-{rev}-gone", pod=FormerPod(hash=rev))}


def world(
    daemonset: DaemonSet | None = None,
    *,
    nodes: int | Iterable[Any] = 5,
    pods: Iterable[Pod] = (),
    revisions: Iterable[Revision] | None = None,
    verdicts: Mapping[str, Accepted | TemplateRefused] | None = None,
    **fields: Any,
) -> World:
    """A world in which, unless told, every revision of a pod is stored and the server accepts every template.

    `nodes` are a number, or nodes and names of plain ones.
    """
    daemonset = daemonset or ds()
    pods = tuple(pods)
    if revisions is None:
        tags = {tag_of(daemonset.spec.template), *(one.hash for one in pods if one.hash)}
        current = tag_of(daemonset.spec.template)
        revisions = [revision(tag, of=daemonset.spec.template if tag == current else None) for tag in sorted(tags)]
        newest = max(one.number for one in revisions)
        revisions = [_newest(one, newest) if tag_of(one.template) == current else one for one in revisions]
    revisions = tuple(revisions)
    listed = numbered(nodes) if isinstance(nodes, int) else nodes
    return World(
        daemonset=daemonset,
        rules=compiled(daemonset),
        nodes=tuple(sorted((node(one) if isinstance(one, str) else one for one in listed), key=lambda one: one.name)),
        pods=pods,
        now=fields.pop("now", NOW),
        revisions=revisions,
        placements=placements_of(revisions, {}),
        verdicts={one.hash: Accepted() for one in revisions} if verdicts is None else verdicts,
        **fields,
    )


MARKS: dict[str, dict[str, Any]] = {
    "!": {"ready": None},
    "†": {"terminating": True},
    "x": {"ready": None, "phase": "Failed"},
    "?": {"ready": None, "phase": "Pending", "bound": False},
}


def laid_out(state: str) -> tuple[Pod, ...]:
    """Pods of node-0, node-1 … in the words of system tests: "v1 v2! v1+v2 -" is an old pod, a new one that is not
    ready, one of each, and none. "v1†" terminates, "v1x" has failed, "v1?" waits for the scheduler."""
    there = [(number, word) for number, part in enumerate(state.split()) for word in part.split("+") if word != "-"]
    return tuple(pod(f"node-{number}", word.rstrip("!†x?"), **MARKS.get(word[-1], {})) for number, word in there)


def at(state: str, rev: str = "v2", **fields: Any) -> World:
    """A world of `rev` whose pods are laid out like that; `fields` of the world, and others of its DaemonSet."""
    of_world = {key: fields.pop(key) for key in {*World.__struct_fields__} & fields.keys()}
    return world(ds(rev, **fields), **{"nodes": len(state.split()), "pods": laid_out(state), **of_world})


def _newest(stored: Revision, newest: int) -> Revision:
    """`stored` with the highest number: an older template that is current again was given a new one."""
    return stored if stored.number == newest else msgspec.structs.replace(stored, number=newest + 1)


BY_IMAGE = InPlaceChange(images={"main": "demo:v2"})
BY_LABEL = InPlaceChange(labels={"team": "x"})
BY_RESIZE = InPlaceChange(resources={"main": {"requests": {"cpu": "1"}}})

RESTARTING = UpdateInProgress(until=inf, restarting=("main",), not_started=True)
CONTINUES = UpdateInProgress(until=inf, has_next_batch=True)
REVERTED = UpdateInProgress(until=inf, reverted_to="v1")
WANTED = UpdateInProgress(until=inf, resize=Resize.PROPOSED)
RESIZING = UpdateInProgress(until=inf, resize=Resize.IN_PROGRESS)
DEFERRED = UpdateInProgress(until=inf, resize=Resize.DEFERRED)
REFUSED = UpdateInProgress(until=inf, resize=Resize.INFEASIBLE, problem="no room")


def in_place(rev: str = "v2", *, grace: int = 0, annotations: dict[str, str] | None = None, **spec: Any) -> DaemonSet:
    told = {**(annotations or {}), **({IN_PLACE_GRACE_ANNOTATION: str(grace)} if grace else {})}
    return ds(rev, rolling_update_type=IN_PLACE_IF_POSSIBLE, annotations=told, **spec)


def gate(
    *, open_: bool = True, draining: bool = False, since: float | None = None, present: bool = True
) -> ReadinessGate:
    return ReadinessGate(
        type=IN_PLACE_UPDATE_READY,
        open=open_ and not draining,
        present=present,
        index=0,
        since=since,
        draining=draining,
    )


def gated(one: Pod, *, in_progress: UpdateInProgress | None = None, **how: Any) -> Pod:
    """With our readiness gate, of which it depends whether it is ready."""
    own = gate(**how)
    ready = one.ready and own.open and not (in_progress is not None and in_progress.not_started)
    since = one.ready_since if ready else None
    drained = own.draining and one.ready and in_progress is None
    return replace(
        one, gates=(own,), in_progress=in_progress, ready=ready, ready_since=since, drained_for_update=drained
    )


def changing(daemonset: DaemonSet | None = None, *, change: Any = BY_IMAGE, **fields: Any) -> World:
    """A world in which v1 becomes v2 by `change`; `fields` of it, and others of its DaemonSet if that is not given.

    A node for each pod unless told.
    """
    of_world = {key: fields.pop(key) for key in {*World.__struct_fields__} & fields.keys()}
    nodes = len(of_world["pods"]) if "pods" in of_world else 5
    return world(daemonset or in_place(**fields), **{"changes": {"v1": change}, "nodes": nodes, **of_world})


def refusing(rev: str, words: str = "no", *, unknown_fields: bool = False) -> dict[str, Accepted | TemplateRefused]:
    """What the server's dry run said of the one revision that it was asked about."""
    return {rev: TemplateRefused(message=words, unknown_fields=unknown_fields)}


def words(world: World, chosen: Iterable[actions.Action]) -> list[str]:
    """`+node-4 v2` creates, `-node-4 v1` deletes, `~node-4 v1` prepares for that (with the pod's name where two there
    are of one revision)."""
    return [_word(world, action) for action in chosen]


def _word(world: World, action: actions.Action) -> str:
    match action:
        case actions.CreatePod():
            return f"+{action.node} {tag_of(action.revision.template)}"
        case actions.DeletePod() | actions.PrepareDelete() | actions.CancelDelete():
            return _word_of_end(world, action)
        case actions.ProbeTemplate():
            return f"probe {tag_of(action.revision.template)} on {action.node}"
        case actions.AdoptPod():
            return f"adopt {action.pod.name}"
        case actions.ReleasePod():
            return f"release {action.pod.name}"
        case actions.RelabelPod():
            return f"relabel {action.pod.name} {action.hash}"
        case actions.AdoptRevision():
            return f"adopt {action.revision.name}"
        case actions.CreateRevision():
            return f"store {tag_of(world.daemonset.spec.template)} as {action.number}"
        case actions.RenumberRevision():
            return f"renumber {action.revision.name} {action.number}"
        case actions.RecordRun():
            return f"ran {action.revision.name}"
        case actions.DeleteRevision():
            return f"forget {action.revision.name}"
        case _:
            return _word_in_place(action)


def _word_in_place(action: actions.InPlaceAction) -> str:
    match action:
        case actions.UpdateInPlace():
            return f"*{action.node} {tag_of(action.revision.template)}"
        case actions.DrainPod() | actions.ContinueInPlace() | actions.ResizePod():
            return f"{type(action).__name__} {action.node}"
        case actions.OpenGates():
            return f"open {action.pod.name}"
    assert_never(action)


def _word_of_end(world: World, action: actions.DeletePod | actions.PrepareDelete | actions.CancelDelete) -> str:
    match action:
        case actions.DeletePod():
            return f"-{_pod_of(world, action)}"
        case actions.PrepareDelete():
            return f"~{_pod_of(world, action)}"
        case actions.CancelDelete():
            return f"keep {action.pod.name}"


def _pod_of(world: World, action: actions.DeletePod | actions.PrepareDelete) -> str:
    hashes = {one.uid: one.hash for one in world.pods}
    tags = {one.hash: tag_of(one.template) for one in world.revisions}
    hash_ = hashes[action.pod.uid]
    twins = [one for one in world.pods if one.node == action.node and one.hash == hash_]
    word = f"{action.node} {tags.get(hash_, hash_)}"
    return word if len(twins) == 1 else f"{word} {action.pod.name}"


def picture(world: World, decided: Plan) -> str:
    """World and plan as two small tables."""
    daemonset = world.daemonset
    rolling = daemonset.rolling_update
    lines = [
        f"template {tag_of(daemonset.spec.template)}  fresh {world.fresh}  {rolling or 'OnDelete'}",
        "revisions " + ", ".join(f"{one.number}: {one.name}" for one in world.revisions),
        f"{'node':<10} {'fit':<6} {'selected':<9} pods",
    ]
    by_node: dict[str, list[Pod]] = {}
    for one in world.pods:
        by_node.setdefault(one.node, []).append(one)
    evaluated = world.rules.evaluate(world.nodes)
    for node, fit, selected in zip(evaluated.nodes, evaluated.fits, evaluated.selected, strict=True):
        pods = ", ".join(_pod(one, world.now) for one in by_node.pop(node.name, ()))
        taints = " ".join(f"[{one.key}:{one.effect}]" for one in node.taints)
        lines.append(f"{node.name:<10} {fit.name:<6} {selected!s:<9} {pods} {taints}")
    for name, gone in sorted(by_node.items()):
        lines.append(f"{name:<10} {'gone':<6} {'':<9} {', '.join(_pod(one, world.now) for one in gone)}")
    lines.append(f"plan  (look again at {decided.wake_at})")
    lines += [f"  {word}" for word in words(world, decided.actions)] or ["  nothing"]
    lines += [f"  note {note.reason}: {note.message}" for note in decided.notes]
    if decided.status is not None:
        lines.append(f"  {decided.status.counts}")
    return "\n".join(lines)


def _pod(pod: Pod, now: float) -> str:
    traits = [pod.name, pod.hash or "no hash"]
    traits += [pod.phase] if pod.ended or pod.phase == "Pending" else []
    traits += ["ready" if pod.ready_since is None else f"ready {now - pod.ready_since:.0f}s"] if pod.ready else []
    traits += ["terminating"] if pod.terminating else []
    traits += [] if pod.bound else ["unbound"]
    return "(" + " ".join(traits) + ")"


def status_in(decided: Plan) -> Status:
    assert decided.status is not None, "the plan has no status"
    return decided.status


def check(world: World, *expected: str) -> Plan:
    """Plan, and compare with `expected`: every action in words, in order, perhaps several in one text."""
    decided = plan(world)
    said, wanted = words(world, decided.actions), [word for text in expected for word in text.split(", ") if word]
    assert said == wanted, f"planned {said}, expected {wanted}\n{picture(world, decided)}"
    return decided
