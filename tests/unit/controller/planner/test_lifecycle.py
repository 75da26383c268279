"""A pod that the preDelete hook matches is prepared for its deletion first, and never deleted while it does."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import LifecycleHook
from controller.api.names import KRUISE_POD_READY
from controller.api.objects import rfc3339
from controller.api.pod import Pod
from controller.api.readiness_gates import ReadinessGate
from controller.planner.actions import PrepareDelete
from controller.planner.blockers import handlers
from controller.planner.plan import plan
from tests.beds.worlds import NOW, ago, check, ds, everywhere, failed, node, pod, prepared, refusing, world

NOT_WINDOWS = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "os", "operator": "NotIn", "values": ["windows"]}]}]
}
HOOK = LifecycleHook(
    labels_handler={"drain": "wait", "backup": "todo"}, finalizers_handler=frozenset({"demo.io/hold"})
)
MARKING = replace(HOOK, mark_pod_not_ready=True)
LINUX: dict[str, Any] = {
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": NOT_WINDOWS}}
}


@pytest.mark.parametrize(
    ("one", "held"),
    [
        (pod("a", labels={"drain": "wait"}), True),
        (pod("a", labels={"backup": "todo", "drain": "done"}), True),
        (pod("a", finalizers=("demo.io/hold",)), True),
        (pod("a", labels={"drain": "done"}, finalizers=("demo.io/other",)), False),
        (pod("a"), False),
    ],
)
def test_any_label_or_any_finalizer_holds(one: Pod, held: bool) -> None:
    assert bool(handlers(one, HOOK)) is held
    assert not handlers(one, None)


@pytest.mark.parametrize("hook", [LifecycleHook(), LifecycleHook(labels_handler={}, finalizers_handler=frozenset())])
def test_an_empty_hook_never_holds(hook: LifecycleHook) -> None:
    check(world(ds("v2", hook=hook), nodes=1, pods=[pod("node-0", labels={"drain": "wait"})]), "-node-0 v1")


def test_updates_scale_in_duplicates_and_failures_go_through_the_same_hook() -> None:
    held = {"drain": "wait"}
    pods = [
        pod("node-0", labels=held),
        pod("node-1", name="a", created=ago(9)),
        pod("node-1", name="b", labels=held, created=ago(5)),
        failed("node-2", labels=held),
        pod("node-3", labels=held),
        pod("node-9", labels=held, bound=False),
    ]
    nodes = [node("node-0"), node("node-1"), node("node-2"), node("node-3", labels={"os": "windows"})]
    hooked_set = ds("v1", hook=HOOK, **LINUX)
    check(world(hooked_set, nodes=nodes, pods=pods), "~node-1 v1 b", "~node-2 v1", "~node-3 v1", "~node-9 v1")
    waiting = [pods[0], pods[1], *map(prepared, pods[2:])]
    check(world(hooked_set, nodes=nodes, pods=waiting))
    released = [replace(one, labels={**one.labels, "drain": "done"}) for one in waiting]
    gone = ("-node-1 v1 b", "-node-2 v1", "-node-3 v1", "-node-9 v1")
    check(world(hooked_set, nodes=nodes, pods=released), *gone)
    check(world(ds("v1", **LINUX), nodes=nodes, pods=waiting), *gone)


@pytest.mark.parametrize("limit", [1, 2])
def test_an_update_prepares_as_many_as_the_budget_allows_counted_once(limit: int) -> None:
    pods = [pod(f"node-{number}", labels={"drain": "wait"}) for number in range(4)]
    hooked_set = ds("v2", hook=HOOK, max_unavailable=limit)
    chosen = ["~node-3 v1", "~node-2 v1"][:limit]
    check(world(hooked_set, nodes=4, pods=pods), *chosen)
    waiting = [prepared(one) if one.node in ("node-3", "node-2")[:limit] else one for one in pods]
    check(world(hooked_set, nodes=4, pods=waiting))


def test_a_held_unhealthy_pod_does_not_block_a_free_unhealthy_one() -> None:
    """Not even where one pod a pass may go."""
    held = prepared(pod("node-3", labels={"drain": "wait"}, ready=None))
    pods = [*everywhere(2), pod("node-2", ready=None), held]
    check(world(ds("v2", hook=HOOK, burst=1), nodes=4, pods=pods), "-node-2 v1")


def test_a_pod_that_was_prepared_for_deletion_goes_once_its_hook_lets_go() -> None:
    """Prepared by whoever managed it before: also where the hook is no longer asked for."""
    preparing = prepared(pod("node-1"))
    for hook in (HOOK, None):
        check(world(ds("v2", hook=hook), nodes=2, pods=[pod("node-0"), preparing]), "-node-1 v1")


def test_nothing_is_prepared_for_a_refused_or_unjudged_template() -> None:
    pods = [pod("node-0", labels={"drain": "wait"})]
    check(world(ds("v2", hook=HOOK), nodes=1, pods=pods, verdicts={}), "probe v2 on node-0")
    check(world(ds("v2", hook=HOOK), nodes=1, pods=pods, verdicts=refusing("v2"), ask_at=NOW + 60))


def test_while_surging_the_old_pod_is_prepared_once_its_successor_serves() -> None:
    held = {"drain": "wait"}
    hooked_set = ds("v2", hook=HOOK, max_surge=1)
    old = [pod(f"node-{number}", labels=held) for number in range(2)]
    check(world(hooked_set, nodes=2, pods=old), "+node-1 v2")
    both = [*old, pod("node-1", "v2", labels=held)]
    check(world(hooked_set, nodes=2, pods=both), "~node-1 v1")
    waiting = [old[0], prepared(old[1]), both[2]]
    check(world(hooked_set, nodes=2, pods=waiting))
    check(world(ds("v2", max_surge=1), nodes=2, pods=waiting), "-node-1 v1")


def test_a_pod_is_made_not_ready_where_the_hook_asks_for_it() -> None:
    one = pod("node-0", labels={"drain": "wait"})
    gate = ReadinessGate(type=KRUISE_POD_READY, open=True, present=True, index=0)
    gated = replace(prepared(one), gates=(gate,))
    decided = check(world(ds("v2", hook=MARKING), nodes=1, pods=[gated]), "~node-0 v1")
    assert [action.mark for action in decided.actions if isinstance(action, PrepareDelete)] == [True]
    check(world(ds("v2", hook=MARKING), nodes=1, pods=[prepared(one, marked_not_ready=True)]))
    check(world(ds("v2", hook=MARKING), nodes=1, pods=[prepared(one)]))  # it has no gate
    decided = check(world(ds("v2", hook=HOOK), nodes=1, pods=[prepared(one, marked_not_ready=True)]), "~node-0 v1")
    assert [action.mark for action in decided.actions if isinstance(action, PrepareDelete)] == [False]


def test_who_is_told_of_a_held_pod_is_told_what_holds_it() -> None:
    one = pod("node-0", labels={"drain": "wait"}, finalizers=("demo.io/hold", "demo.io/other"))
    decided = check(world(ds("v2", hook=HOOK), nodes=1, pods=[one]), "~node-0 v1")
    said = [action.held_by for action in decided.actions if isinstance(action, PrepareDelete)]
    assert said == ["label drain=wait and finalizer demo.io/hold"]
    waiting = check(world(ds("v2", hook=HOOK), nodes=1, pods=[prepared(one, since=NOW - 60)]))
    assert waiting.status is not None
    told = next(one.message for one in waiting.status.conditions if one.type == "Progressing")
    assert told == (
        "0 of 1 node have a pod of revision v2; the preDelete hook holds node-0-v1 by label drain=wait and "
        f"finalizer demo.io/hold since {rfc3339(NOW - 60)}"
    )


def test_the_generation_counts_as_observed_while_pods_are_held() -> None:
    waiting = [prepared(pod("node-0", labels={"drain": "wait"}))]
    nodes = [node("node-0", labels={"os": "windows"})]
    misplaced = world(ds(hook=HOOK, **LINUX), nodes=nodes, pods=waiting)
    for held in (world(ds("v2", hook=HOOK), nodes=1, pods=waiting), misplaced):
        decided = check(held)
        assert decided.status is not None
        assert decided.status.observed_generation == 1


@pytest.mark.parametrize(
    ("one", "warns"),
    [
        (pod("node-0"), True),
        (pod("node-0", labels={"drain": "wait"}), False),
        (pod("node-0", finalizers=("demo.io/hold",)), False),
        (pod("node-0", terminating=True), False),
        (prepared(pod("node-0")), False),
    ],
)
def test_a_condition_warns_while_no_pod_has_what_the_hook_looks_for(one: Pod, warns: bool) -> None:
    decided = plan(world(ds(hook=HOOK), nodes=1, pods=[one]))
    assert decided.status is not None
    told = [found.message for found in decided.status.conditions if found.type == "HookUnmatched"]
    words = (
        "no pod has label drain=wait or label backup=todo or finalizer demo.io/hold: the preDelete hook holds none "
    )
    assert told == ([f"{words}of them back"] if warns else [])


def test_a_pod_that_is_held_has_what_the_hook_looks_for() -> None:
    pods = [prepared(pod("node-0", labels={"drain": "wait"})), pod("node-1")]
    decided = plan(world(ds("v2", hook=HOOK), nodes=2, pods=pods))
    assert decided.status is not None
    assert "HookUnmatched" not in {found.type for found in decided.status.conditions}
