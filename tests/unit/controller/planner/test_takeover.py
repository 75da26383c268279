"""Ownership and take-over: from the native DaemonSet, from OpenKruise, from ourselves."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api import template_identity
from controller.api.daemonset import DaemonSet
from controller.api.objects import JSONObject
from controller.api.pod import Pod
from controller.planner.actions import AdoptPod
from controller.planner.plan import plan
from controller.planner.world import BackoffKey, World
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import (
    NOW,
    OURS,
    RESTARTING,
    at,
    check,
    ds,
    everywhere,
    failed,
    gated,
    pending,
    pod,
    prepared,
    revision,
    status_in,
    template,
    where,
    world,
)


def by_the_api_server(of: JSONObject) -> JSONObject:
    """The template as the native API stores it: with everything filled in."""
    result: dict[str, Any] = dict(of)
    result["metadata"] = {"creationTimestamp": None, **result["metadata"]}
    spec = dict(result["spec"])
    filled = {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "resources": {},
    }
    spec["containers"] = [{**one, **filled} for one in spec["containers"]]
    spec |= {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    return {**result, "spec": spec}


def native(count: int) -> dict[str, Any]:
    """What an orphaning delete of a native DaemonSet leaves: pods and their revision, without an owner."""
    stored = revision("v1", 4, of=by_the_api_server(template("v1")), owner_uid="", name="demo-6b4f9d7c8")
    pods = tuple(replace(one, owner_uid="", owner_index=0) for one in everywhere(count))
    return {"nodes": count, "revisions": (), "orphans": pods[::-1], "orphan_revisions": (stored,)}


def test_hand_written_native_pods_are_taken_over_without_a_restart() -> None:
    cluster = ToyCluster(world(ds("v1"), **native(3)))
    cluster.expect("adopt node-0-v1, adopt node-1-v1, adopt node-2-v1, adopt demo-6b4f9d7c8", "", "")
    status = cluster.status
    assert status.counts is not None
    assert status.counts.updated_number_scheduled == 3
    assert status.revision_hash == "v1", "the hash that the native controller computed stays"


def test_the_exported_live_manifest_takes_over_without_a_restart_too() -> None:
    live = by_the_api_server(template("v1"))
    exported = ds("v1")
    exported = replace(
        exported, spec=replace(exported.spec, template=live), identity=template_identity.identity(live)
    )
    ToyCluster(world(exported, **native(2))).expect("adopt node-0-v1, adopt node-1-v1, adopt demo-6b4f9d7c8", "")


FOREIGN = revision("v7", 7, owner_uid="", created="2025-01-02T00:00:00Z")
"""Left by another workload with our labels."""


@pytest.mark.parametrize("held", [{"partition": 3}, {"selector": {"track": "canary"}}, {"paused": True}], ids=str)
def test_history_that_no_pod_ever_had_is_nothing_to_fall_back_to(held: dict[str, Any]) -> None:
    cluster = ToyCluster(world(ds("v1", **held), nodes=3, revisions=(), orphan_revisions=(FOREIGN,)))
    first = "+node-0 v1, +node-1 v1, +node-2 v1"
    cluster.expect("adopt demo-v7", "store v1 as 8", first, "ran demo-sslqnrncks", "")
    assert [one.never_ran for one in cluster.world.revisions] == [True, False]


def test_history_of_which_pods_are_is_fallen_back_to() -> None:
    cluster = ToyCluster(world(ds("v1"), **native(2)))
    cluster.settle()
    cluster.edit(ds("v2", partition=2))
    cluster.expect("")
    cluster.lose("node-0-v1")
    cluster.expect("+node-0 v1", "")
    cluster.ready()
    cluster.edit(ds("v2"))
    cluster.expect("-node-1 v1", "+node-1 v2", "")


def test_once_rolled_out_adopted_history_is_as_good_as_any() -> None:
    cluster = ToyCluster(world(ds("v1"), nodes=1, orphan_revisions=(FOREIGN,)))
    cluster.settle()
    cluster.edit(ds("v7"))
    cluster.settle()
    assert [one.never_ran for one in cluster.world.revisions if one.hash == "v7"] == [False]


@pytest.mark.parametrize("owner", ["", OURS], ids=["adopted", "ours at once"])
@pytest.mark.parametrize("number", [0, 9])
@pytest.mark.parametrize("content", ["v2", "v7"], ids=["of the new template", "of another one"])
def test_a_hash_stands_for_the_content_that_had_it_first(content: str, number: int, owner: str) -> None:
    """Another revision claims to be the one that the pods have."""
    first, second = "2025-01-01T00:00:00Z", "2025-01-02T00:00:00Z"
    liar = revision("v1", number, of=template(content), name="liar", uid="uid-liar", created=second, owner_uid=owner)
    stored = (revision("v1", created=first), *((liar,) if owner else ()))
    held = ds("v2", partition=2, max_unavailable=2)
    orphans = () if owner else (liar,)
    cluster = ToyCluster(world(held, nodes=2, pods=everywhere(2), revisions=stored, orphan_revisions=orphans))
    cluster.settle()
    assert {pod.hash for pod in cluster.world.pods} == {"v1"}, "none was changed, or counts as updated"
    for one in cluster.world.pods:
        cluster.lose(one.name)
    assert cluster.settle() == ["+node-0 v1", "+node-1 v1"]


def test_a_hidden_change_in_the_hand_written_manifest_is_still_a_change() -> None:
    cluster = ToyCluster(world(ds("v1", automountServiceAccountToken=False), **native(1)))
    cluster.expect("adopt node-0-v1, adopt demo-6b4f9d7c8", "store v1 as 5", "probe v1 on node-0", "-node-0 v1")


ORPHAN = pod("node-0", name="orphan", owner="")


def held(orphan: Pod, state: str = "- v1 v1") -> World:
    """It cannot be adopted now."""
    return at(state, orphans=(orphan,), in_backoff={BackoffKey("object", orphan.uid): NOW + 60})


def leaving(stray: Pod) -> World:
    return at("-", "v1", nodes=0, pods=[stray])


@pytest.mark.parametrize(
    ("daemonset", "pods", "node_0"),
    [
        (ds(), (), "nothing"),
        (ds("v2"), everywhere(1), "nothing"),
        (ds("v2", max_surge=1), everywhere(1), "nothing"),
        (ds(), (failed("node-0"),), "-node-0 v1"),
    ],
    ids=["empty", "old pod", "surging", "failed pod"],
)
def test_a_node_with_an_orphan_that_cannot_be_adopted_now_is_taken(
    daemonset: DaemonSet, pods: tuple[Pod, ...], node_0: str
) -> None:
    place = BackoffKey("object", ORPHAN.uid)
    cluster = ToyCluster(world(daemonset, nodes=2, pods=pods, orphans=(ORPHAN,), in_backoff={place: NOW + 9}))
    done = [one for _ in range(5) for one in cluster.step()]
    assert [one for one in done if "node-0" in one] == ([] if node_0 == "nothing" else [node_0])
    assert any(one.startswith("+node-1") for one in done), "another node waits for none of this"
    status = cluster.status
    said = "1 node waits until a pod without a controller is adopted or gone: node-0"
    assert all(said in one.message for one in status.conditions if one.type in ("Progressing", "Reconciling"))
    cluster.world = replace(cluster.world, in_backoff={})
    assert cluster.step() == ["adopt orphan"]


STRAY: dict[str, Any] = {"name": "stray", "labels": {"app": "debug"}}
GATED = gated(pod("node-0", **STRAY), draining=True)
ORPHANS = (
    pod("node-0", name="terminating", terminating=True, owner=""),
    failed("node-0", name="failed", owner=""),
    pod("node-0", name="other", labels={"app": "other"}, owner=""),
)
CASES: dict[str, tuple[World, str]] = {
    "the deprecated generation annotation means nothing": (
        at(
            "v1 v1",
            annotations={"deprecated.daemonset.template.generation": "3"},
            pods=[pod(name, labels={"pod-template-generation": "3"}) for name in ("node-0", "node-1")],
        ),
        "-node-1 v1",
    ),
    "a lost pod does not wait for an orphan on another node": (
        at("v1 - -", "v1", orphans=(pod("node-1", owner=""),)),
        "adopt node-1-v1, +node-2 v1",
    ),
    "a ready orphan that cannot be adopted delays no other node": (held(ORPHAN), "-node-2 v1"),
    "one that is not ready uses the budget": (held(replace(ORPHAN, ready=False)), ""),
    "terminating, ended and unmatching orphans are not adopted": (at("v1", "v1", orphans=ORPHANS), ""),
    "a pod whose labels do not match is released unless it dies": (
        at(
            "- - -",
            "v1",
            pods=[
                pod("node-0", name="b", labels={"app": "debug"}),
                pod("node-1", name="a", labels={"app": "debug"}),
                pod("node-2", name="terminating", labels={"app": "debug"}, terminating=True),
            ],
        ),
        "release a, release b",
    ),
    "before that a drained one is opened": (leaving(GATED), "open stray"),
    "so is one that restarts": (
        leaving(gated(pod("node-0", **STRAY), draining=True, in_progress=RESTARTING)),
        "open stray",
    ),
    "not one that is open": (leaving(gated(pod("node-0", **STRAY))), "release stray"),
    "a held one is kept": (leaving(prepared(pod("node-0", **STRAY))), "keep stray"),
    "held and not ready too": (leaving(prepared(pod("node-0", **STRAY), marked_not_ready=True)), "keep stray"),
    "one that has failed is not opened": (leaving(gated(failed("node-0", **STRAY), draining=True)), "release stray"),
    "nor one on no node yet": (leaving(gated(pending("node-0", **STRAY), open_=False)), "release stray"),
    "one that cannot be opened is released all the same": (
        replace(leaving(GATED), in_backoff={BackoffKey("gates", GATED.uid): 9.0}),
        "release stray",
    ),
    "the selector may be made of expressions": (
        world(ds(pods=where("app", "In", "demo", "tool")), nodes=1, pods=everywhere(1)),
        "",
    ),
}


@pytest.mark.parametrize(("of", "expected"), CASES.values(), ids=CASES)
def test_who_owns_what(of: World, expected: str) -> None:
    check(of, expected)


def test_revisions_are_claimed_like_pods() -> None:
    old = (
        revision("v7", labels={"app": "other"}, owner_uid=""),
        revision("v8", terminating=True, owner_uid=""),
        revision("v0", owner_uid="", owner_index=2),
    )
    decided = check(at("v1", "v1", orphan_revisions=old), "adopt demo-v0")
    assert status_in(decided).observed_generation is None, "the generation is seen once this is settled"


def test_a_take_over_adopts_at_most_burst_pods_in_one_pass() -> None:
    orphans = tuple(pod(f"node-{number}", owner="", name=f"orphan-{number}") for number in range(5))
    decided = plan(world(ds(burst=2), orphans=orphans))
    adopted = [action.pod.name for action in decided.actions if isinstance(action, AdoptPod)]
    assert adopted == ["orphan-0", "orphan-1"]
    assert decided.more
