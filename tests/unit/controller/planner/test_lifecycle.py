"""A pod that a preDelete hook holds is never deleted (behaviour.md §13; scenario F2, invariant 6)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus, LifecycleHook
from controller.api.pod import Pod
from controller.api.wellknown import FEATURE_PENDING, LIFECYCLE_STATE_LABEL, PREPARING_DELETE
from controller.planner.stops import hooked
from tests.beds.picture import check
from tests.beds.worlds import ago, ds, failed, node, pod, world

NOT_WINDOWS = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "os", "operator": "NotIn", "values": ["windows"]}]}]
}
HOOK = LifecycleHook(labels_handler={"drain": "wait", "backup": "todo"}, finalizers_handler=("demo.io/hold",))


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
def test_f2_any_label_or_any_finalizer_holds(one: Pod, held: bool) -> None:
    assert hooked(one, HOOK) is held
    assert not hooked(one, None)


@pytest.mark.parametrize("hook", [LifecycleHook(), LifecycleHook(labels_handler={}, finalizers_handler=())])
def test_f2_an_empty_hook_never_holds(hook: LifecycleHook) -> None:
    check(world(ds("v2", hook=hook), nodes=1, pods=[pod("node-0", labels={"drain": "wait"})]), "-node-0 v1")


def test_f2_updates_scale_in_duplicates_and_failures_go_through_the_same_hook() -> None:
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
    linux: dict[str, Any] = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": NOT_WINDOWS}}
    }
    check(world(ds("v1", hook=HOOK, **linux), nodes=nodes, pods=pods))
    released = world(ds("v1", **linux), nodes=nodes, pods=pods)
    check(released, "-node-1 v1 b", "-node-2 v1", "-node-3 v1", "-node-9 v1")


def test_f2_an_outdated_pod_that_is_held_stays_and_uses_its_place_in_the_budget() -> None:
    pods = [pod("node-0"), pod("node-1", labels={"drain": "wait"})]
    check(world(ds("v2", hook=HOOK), nodes=2, pods=pods))
    check(world(ds("v2", hook=HOOK, max_unavailable=2), nodes=2, pods=pods), "-node-0 v1")


def test_a_pod_that_is_prepared_for_deletion_uses_budget_while_its_hook_holds_it() -> None:
    preparing = {LIFECYCLE_STATE_LABEL: PREPARING_DELETE, "drain": "wait"}
    pods = [pod("node-0"), pod("node-1", labels=preparing)]
    check(world(ds("v2", hook=HOOK), nodes=2, pods=pods))


def test_f2_a_pod_that_was_prepared_for_deletion_goes_once_its_hook_lets_go() -> None:
    """Prepared by whoever managed it before: also where the hook is no longer asked for."""
    preparing = pod("node-1", labels={LIFECYCLE_STATE_LABEL: PREPARING_DELETE})
    for hook in (HOOK, None):
        check(world(ds("v2", hook=hook), nodes=2, pods=[pod("node-0"), preparing]), "-node-1 v1")


def test_a_hook_is_announced_as_not_supported_yet_once_a_generation() -> None:
    hooked_set = ds(hook=HOOK, generation=3)
    decided = check(world(hooked_set, nodes=1, pods=[pod("node-0")]))
    assert [note.reason for note in decided.notes] == [FEATURE_PENDING]
    assert decided.status is not None
    assert [one.type for one in decided.status.conditions][-1] == "FeaturesPending"
    seen = replace(hooked_set, status=DaemonSetStatus(observed_generation=3))
    assert not check(world(seen, nodes=1, pods=[pod("node-0")])).notes
