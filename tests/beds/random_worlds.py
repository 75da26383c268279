"""Any world that a planner may meet, the ugly ones above all: doubled pods, pods of others, ended pods that are being
removed, equal revisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from controller.api.daemonset import (
    DaemonSet,
    LifecycleHook,
    OnFailure,
    OrderRule,
    RolloutStep,
    Topology,
    UnreachableNodes,
)
from controller.api.in_place import UpdateInProgress
from controller.api.names import IN_PLACE_GRACE_ANNOTATION, IN_PLACE_IF_POSSIBLE, RESIZE_FALLBACK_ANNOTATION
from controller.api.node import Node
from controller.api.pod import Pod
from controller.api.revision import Revision, new_hash
from controller.api.selector import Requirement
from controller.inplace.change import InPlaceChange, NotPossible
from controller.planner.revisions import placements_of
from controller.planner.validation import compiled
from controller.planner.world import RESIZE_DISABLED, Accepted, FormerPod, Predecessor, TemplateRefused, World
from tests.beds.worlds import (
    BY_IMAGE,
    BY_LABEL,
    BY_RESIZE,
    CONTINUES,
    DEFERRED,
    NOW,
    OURS,
    REFUSED,
    RESIZING,
    RESTARTING,
    WANTED,
    ago,
    ds,
    failed,
    gated,
    node,
    pod,
    prepared,
    revision,
    tag_of,
    taint,
    template,
)
from tests.beds.worlds import world as world_of

REVS = ("v1", "v2", "v3")
POOL = {"pool": "a"}
CANARY = {"track": "canary"}
HOLD = {"drain": "wait"}
HOOK = LifecycleHook(labels_handler=HOLD, finalizers_handler=frozenset({"demo.io/hold"}))
MARKING = LifecycleHook(labels_handler=HOLD, finalizers_handler=frozenset({"demo.io/hold"}), mark_pod_not_ready=True)
UNREACHABLE = taint("node.kubernetes.io/unreachable", "NoExecute")
TAINTS = (taint("x"), taint("x", "NoExecute"), taint("x", "PreferNoSchedule"))
NAMES = tuple(f"node-{number}" for number in range(6))
NOWHERE = ("node-9", "")
ORDERS = (
    (OrderRule(match_labels=CANARY),),
    (OrderRule(group_by="pool"), OrderRule(match_expressions=(Requirement(key="track", operator="Exists"),))),
)

TOPOLOGIES = (
    Topology(key="pool", max_unavailable=1),
    Topology(key="pool", max_unavailable="50%", max_domains=1),
    Topology(key="track", max_domains=1),
)

LEFT_OUT = (UnreachableNodes(leave_out=1), UnreachableNodes(leave_out="50%"))

ON_FAILURE = (
    OnFailure(unavailable_nodes=2, after="1h"),
    OnFailure(unavailable_nodes="50%", restarts=3, action="RollBack"),
)

STEPS = (
    (RolloutStep(nodes=1, soak="30s"), RolloutStep(nodes="50%"), RolloutStep()),
    (RolloutStep(nodes="10%"), RolloutStep(nodes=100, soak="1m")),
)


def often(value: Any, *others: Any) -> st.SearchStrategy[Any]:
    """`value` about every second time."""
    return st.sampled_from([value] * max(len(others), 1) + list(others))


def seldom(value: Any, *others: Any) -> st.SearchStrategy[Any]:
    """Anything but `value` about every eighth time."""
    return st.sampled_from([value] * 7 * max(len(others), 1) + list(others))


def rarely(value: Any, *others: Any) -> st.SearchStrategy[Any]:
    """Anything but `value` about every thirtieth time."""
    return st.sampled_from([value] * 29 * max(len(others), 1) + list(others))


def nodes(*, silent: bool) -> st.SearchStrategy[tuple[Node, ...]]:
    taints = (*TAINTS, UNREACHABLE) if silent else TAINTS
    labels = st.sampled_from([POOL, {**POOL, **CANARY}, CANARY, {}])
    some = st.integers(0, len(NAMES)).flatmap(lambda count: st.just(NAMES[:count]))

    @st.composite
    def drawn(draw: st.DrawFn) -> tuple[Node, ...]:
        return tuple(
            node(name, *draw(seldom((), *((one,) for one in taints))), labels=draw(labels)) for name in draw(some)
        )

    return drawn()


@st.composite
def pods(draw: st.DrawFn, name: str, on: str, *, tidy: bool, hooks: bool, owner: str = OURS) -> Pod:
    """`tidy`: labelled as it should be, and mostly running."""
    phase = draw((rarely if tidy else often)("Running", "Pending", "Failed", "Succeeded"))
    labels = [HOLD] if hooks else []
    made = pod(
        on,
        draw(st.sampled_from((*REVS, *REVS, ""))),
        name=name,
        phase=phase,
        ready=draw(often(ago(3600), None, ago(5), ago(60))),
        terminating=draw(rarely(False, True)),
        bound=phase != "Pending",
        created=draw(st.integers(0, 5)),
        labels=draw(seldom({}, *labels, *([] if tidy else [{"app": "other"}]))),
        finalizers=("demo.io/hold",) if hooks and draw(seldom(False, True)) else (),
    )
    made = replace(made, restarts=draw(seldom(0, 3)) if hooks else 0)
    if hooks and draw(seldom(False, True)):
        made = prepared(made, marked_not_ready=draw(st.booleans()))
    return replace(made, owner_uid=owner)


@st.composite
def pods_on(draw: st.DrawFn, places: tuple[str, ...], *, tidy: bool, hooks: bool) -> tuple[Pod, ...]:
    """One pod on most nodes, none or several on others, a failed one beside some; perhaps some on nodes that are gone
    or aimed at none.

    Only where placement has nothing to do the update gets its turn, so tidy worlds have little else to do.
    """
    counts = rarely(1, 2, 0) if tidy else often(1, 2, 0, 3)
    lost = NOWHERE if draw(rarely(False, True)) else ()
    there = [
        draw(pods(f"pod-{place}-{number}", place, tidy=tidy, hooks=hooks))
        for place in (*places, *lost)
        for number in range(draw(counts))
    ]
    there += [failed(place, draw(st.sampled_from(REVS))) for place in places if draw(seldom(False, True))]
    return tuple(there)


@st.composite
def daemonsets(draw: st.DrawFn, *, hooks: bool, in_place: bool) -> DaemonSet:
    limit: dict[str, Any] = draw(
        st.sampled_from(
            [
                *({"max_unavailable": value} for value in (1, 2, 3, 0, "50%", "100%")),
                *({"max_surge": value} for value in (1, 2, "50%")),
            ]
        )
    )
    in_place = in_place and "max_unavailable" in limit
    told = {IN_PLACE_GRACE_ANNOTATION: "30", RESIZE_FALLBACK_ANNOTATION: "Recreate"}
    return ds(
        draw(st.sampled_from(REVS)),
        rolling_update_type=IN_PLACE_IF_POSSIBLE if in_place else "",
        annotations={key: value for key, value in told.items() if in_place and draw(seldom(False, True))},
        partition=draw(often(None, 0, 1, 3, "50%", 100)),
        selector=draw(often(None, CANARY)),
        paused=draw(seldom(False, True)),
        on_delete=draw(seldom(False, True)),
        burst=draw(often(None, 1, 2, "40%")),
        min_ready=draw(often(0, 60)),
        history=draw(often(None, 0, 1)),
        hook=draw(st.sampled_from([None, None, HOOK, MARKING])) if hooks else None,
        partitioned_scaling=draw(seldom(None, True)),
        generation=3,
        rolling={
            "order": draw(seldom((), *ORDERS)),
            "topology": draw(seldom(None, *TOPOLOGIES)),
            "unreachable_nodes": draw(seldom(None, *LEFT_OUT)),
            "steps": draw(seldom((), *STEPS)),
            "on_failure": draw(seldom(None, *ON_FAILURE)),
        },
        **limit,
        **draw(seldom({}, {"nodeSelector": POOL})),
    )


@st.composite
def cared_for(draw: st.DrawFn, one: Pod, *, healthy: bool) -> Pod:
    """`one`, with a readiness gate of ours and in any state of an update in place. `healthy`: it will come to its
    end."""
    how: dict[str, Any] = draw(
        st.sampled_from(
            [
                {},
                {"open_": False},
                {"open_": False, "present": False},
                *({"draining": True, "since": since} for since in (None, ago(3600), ago(3), NOW + 3600)),
            ]
        )
    )
    soon, far = (UpdateInProgress(until=NOW + seconds, restarting=("main",)) for seconds in (5, 86_400))
    ill = () if healthy else (REFUSED, DEFERRED)
    in_progress = (RESTARTING, CONTINUES, WANTED, RESIZING, replace(RESTARTING, not_started=False), soon, far, *ill)
    return gated(one, in_progress=draw(often(None, *in_progress)), **how)


@st.composite
def changes(
    draw: st.DrawFn, daemonset: DaemonSet, revisions: Iterable[Revision]
) -> Mapping[str, InPlaceChange | NotPossible]:
    """Whatever two templates may differ in."""
    if not daemonset.in_place:
        return {}
    rereads = InPlaceChange(labels={"a": "b"}, rereads=("main",))
    some = often(BY_IMAGE, BY_LABEL, BY_RESIZE, rereads, NotPossible(why="spec.x changed"))
    return {one.hash: draw(some) for one in revisions if one.identity != daemonset.identity}


@st.composite
def histories(draw: st.DrawFn, current: str, *, tidy: bool) -> tuple[Revision, ...]:
    """Some of v1 … v3; untidy ones have twins, any order of numbers, and perhaps not the current one.

    Some run in one pool only, and some have a placement that cannot be read.
    """
    placements = seldom({}, {"nodeSelector": POOL}, {"nodeSelector": "a"})
    if tidy:
        older = draw(st.lists(st.sampled_from([one for one in REVS if one != current]), unique=True))
        kept = [revision(tag, n, of=template(tag, **draw(placements))) for n, tag in enumerate(older, start=1)]
        return (*kept, revision(current, len(kept) + 1))
    tags = draw(st.lists(st.sampled_from((*REVS, "v11", "v12")), unique=True))
    numbers = draw(st.permutations(range(1, len(tags) + 1)))
    return tuple(
        replace(
            revision(tag, number, of=template(tag if tag in REVS else f"v{tag[-1]}", **draw(placements))),
            never_ran=draw(seldom(False, True)),
        )
        for tag, number in zip(tags, numbers, strict=True)
    )


@st.composite
def worlds(draw: st.DrawFn, *, healthy: bool = False, in_place: bool = False) -> World:
    """`in_place`: in the midst of updates in place.

    `healthy`: no hooks, no silent nodes, a server that accepts, and fresh caches: such a world must settle.
    """
    hooks = not healthy
    tidy = draw(often(True, True, False))
    daemonset = draw(daemonsets(hooks=hooks, in_place=in_place and draw(often(True, False))))
    revisions = draw(histories(tag_of(daemonset.spec.template), tidy=tidy))
    listed = draw(nodes(silent=not healthy))
    places = st.sampled_from(NAMES)
    hashes = [*(one.hash for one in revisions), new_hash(daemonset.identity, 0)]
    orphans = (
        ()
        if tidy
        else tuple(
            draw(pods(f"orphan-{number}", draw(places), tidy=tidy, hooks=hooks, owner=""))
            for number in range(draw(often(0, 1, 2)))
        )
    )
    none = dict.fromkeys(hashes, TemplateRefused(message="refused", unknown_fields=draw(often(False, True))))
    verdicts: dict[str, Accepted | TemplateRefused] = dict.fromkeys(hashes, Accepted())
    there = draw(pods_on(tuple(one.name for one in listed), tidy=tidy, hooks=hooks))
    if in_place:
        there = tuple([draw(cared_for(one, healthy=healthy)) for one in there])
    failing = sorted({one.node for one in there if one.phase == "Failed"})
    refused = [one.uid for one in there if one.in_progress is not None and not healthy and draw(seldom(False, True))]
    return World(
        daemonset=daemonset,
        rules=compiled(daemonset),
        nodes=listed,
        pods=there,
        orphans=orphans,
        revisions=revisions,
        placements=placements_of(revisions, {}),
        changes=draw(changes(daemonset, revisions)),
        no_resize="" if not in_place or healthy or draw(seldom(True, False)) else RESIZE_DISABLED,
        refused_resizes=dict.fromkeys(refused, "403"),
        orphan_revisions=() if tidy else (revision("v0", 0, owner_uid=""),),
        now=NOW,
        fresh=healthy or draw(seldom(True, False)),
        not_before={name: draw(st.sampled_from([NOW + 30, NOW + 30, NOW, ago(1)])) for name in failing},
        predecessors=draw(st.dictionaries(places, st.sampled_from(REVS).map(_gone), max_size=3)),
        verdicts=verdicts if healthy else draw(seldom(verdicts, {}, none)),
        retry_dry_run_at=0.0 if healthy else draw(seldom(0.0, NOW + 60)),
        collisions=draw(seldom(0, 2)),
    )


@st.composite
def surges(draw: st.DrawFn) -> World:
    """In the midst of a surge, with successors that have failed: few of the worlds above ever come so far."""
    places = NAMES[: draw(st.integers(1, 4))]
    there: list[Pod] = []
    for place in places:
        old = pod(place, "v1", ready=draw(often(ago(3600), None)))
        match draw(st.sampled_from(["old", "failed", "failed", "paired", "updated"])):
            case "old":
                there.append(old)
            case "failed":
                there += [old, failed(place, draw(often("v2", "v1")), name=f"failed-{place}")]
            case "paired":
                there += [old, pod(place, "v2", ready=draw(often(ago(3600), None)))]
            case _:
                there.append(pod(place, "v2"))
    waiting = {one.node: draw(st.sampled_from([NOW + 30, NOW])) for one in there if one.phase == "Failed"}
    surge: Any = draw(st.sampled_from([1, 2, "50%", "100%"]))
    return world_of(ds("v2", max_surge=surge), nodes=places, pods=there, not_before=waiting)


def _gone(rev: str) -> Predecessor:
    return Predecessor(uid=f"gone-{rev}", pod=FormerPod(hash=rev))
