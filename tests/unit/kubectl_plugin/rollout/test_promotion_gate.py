"""When the next step may be taken, and in which words it may not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import Phase, Rollout
from controller.api.objects import rfc3339
from controller.api.pod import Pod
from kubectl_plugin.rollout.gate import PromotionBlock, PromotionBlockReason, quiet_since, why_blocked
from kubectl_plugin.rollout.snapshot import PodDetail
from kubectl_plugin.rollout.steps import steps_of
from kubectl_plugin.rollout.survey import Survey, survey
from tests.beds.snapshots import crashing, detail, observed, of_world
from tests.beds.worlds import NOW, ago, ds, pod, served, world

STEPS = {"kruise-ds/steps": "4,2,0"}
MINUTE = 60.0


def canary(
    *new: Pod,
    progress: float = 5 * MINUTE,
    details: Mapping[str, PodDetail] | None = None,
    phase: Phase | None = None,
    **spec: Any,
) -> Survey:
    """Four nodes, partition 2: `new` are the pods of v2, the other nodes have v1.

    `phase` is what the controller says; if not given, what it would say.
    """
    ready = {one.node for one in new if one.ready_since is not None}
    left = [f"node-{number}" for number in range(4) if f"node-{number}" not in {one.node for one in new}]
    stamp = rfc3339(ago(progress))
    record = Rollout(
        phase=phase or (Phase.HELD if {"node-3", "node-2"} <= ready else Phase.PROGRESSING),
        start_time=stamp,
        last_progress_time=stamp,
        target=2,
        done=len(new),
        most_done=2,
        most_updated=4,
    )
    daemonset = observed(
        ds("v2", **{"partition": 2, "annotations": STEPS, **spec}), update_revision="v2", rollout=record
    )
    return survey(of_world(world(daemonset, nodes=4, pods=(*new, *served(*left))), details))


def done(since: float = 20 * MINUTE) -> tuple[Pod, ...]:
    return served("node-3", "node-2", rev="v2", ready=ago(since))


def why(seen: Survey, soak: float = 0.0) -> PromotionBlock | None:
    steps = steps_of(seen.daemonset.annotations, 2, seen.rollout.budget.desired)
    return why_blocked(seen, steps, soak=soak)


def failing(*nodes: str, ready: float | None = None) -> dict[str, Any]:
    pods = {name: pod(name, "v2", ready=ready) for name in nodes}
    return {name: detail(one, crashing()) for name, one in pods.items()}


def test_it_is_open_when_the_target_is_done_and_well() -> None:
    assert why(canary(*done())) is None


def test_it_is_closed_while_the_controller_does_not_say_so() -> None:
    words = "step 2 looks finished, but the controller does not say so yet"
    assert why(canary(*done(), phase=Phase.PROGRESSING)) == PromotionBlock(
        why=PromotionBlockReason.UNFINISHED, text=words
    )


def test_a_step_that_is_not_finished_is_told_by_its_number() -> None:
    seen = canary(pod("node-3", "v2"))
    assert why(seen) == PromotionBlock(
        why=PromotionBlockReason.UNFINISHED, text="step 2 is not finished: 1 of 2 nodes updated"
    )


def test_without_steps_it_is_the_update() -> None:
    seen = canary(pod("node-3", "v2"), annotations={})
    assert why(seen) == PromotionBlock(
        why=PromotionBlockReason.UNFINISHED, text="the update is not finished: 1 of 2 nodes updated"
    )


def test_a_failing_node_is_told_with_its_reason() -> None:
    details = failing("node-2")
    seen = canary(pod("node-3", "v2"), pod("node-2", "v2", ready=None), details=details)
    words = "step 2 is not finished: 1 of 2 nodes updated, node-2 CrashLoopBackOff"
    assert why(seen) == PromotionBlock(why=PromotionBlockReason.UNFINISHED, text=words)


def test_a_failing_node_outside_of_the_target_keeps_it_closed_too() -> None:
    details = failing("node-1")
    seen = canary(*done(), pod("node-1", "v2", ready=None), details=details)
    assert why(seen) == PromotionBlock(
        why=PromotionBlockReason.FAILING, text="step 2 is finished, but not well: node-1 CrashLoopBackOff"
    )


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_a_failing_pod_of_the_old_revision_keeps_nothing_closed(phase: str) -> None:
    old = pod("node-1", "v1", ready=None, phase=phase)
    assert why(canary(*done(), old, details={"node-1": detail(old, crashing())})) is None


def test_of_many_failing_nodes_three_are_told() -> None:
    names = ("node-3", "node-2", "node-1", "node-0")
    new = [pod(name, "v2", ready=None) for name in names]
    found = why(canary(*new, details=failing(*names), partition=0))
    assert found is not None
    reason = "CrashLoopBackOff"
    assert found.text.endswith(f"node-3 {reason}, node-2 {reason}, node-1 {reason}, 1 more failing")


def test_while_it_is_paused_it_is_closed_though_the_step_is_finished() -> None:
    found = why(canary(*done(), paused=True))
    assert found == PromotionBlock(why=PromotionBlockReason.PAUSED, text="demo is paused: 2 of 2 nodes updated")


def test_a_stalled_step_will_not_open_by_waiting() -> None:
    found = why(canary(pod("node-3", "v2"), progress=11 * MINUTE))
    assert found == PromotionBlock(
        why=PromotionBlockReason.STALLED, text="step 2 is not finished: 1 of 2 nodes updated"
    )


def test_what_the_controller_has_not_seen_is_not_finished() -> None:
    edited = replace(observed(ds("v2", generation=1)), generation=2)
    seen = survey(of_world(world(edited, nodes=1, pods=served("node-0", rev="v2"))))
    words = "the controller has not acted on the newest change of demo yet"
    assert why_blocked(seen, None, soak=0.0) == PromotionBlock(why=PromotionBlockReason.UNSEEN, text=words)


@pytest.mark.parametrize(
    ("soak", "text"),
    [
        (20 * MINUTE, None),
        (20 * MINUTE + 1, "step 2 is finished, and quiet for 20m of 20m"),
        (45 * MINUTE, "step 2 is finished, and quiet for 20m of 45m"),
    ],
)
def test_it_has_to_be_quiet_for_as_long_as_was_asked(soak: float, text: str | None) -> None:
    found = why(canary(*done(since=20 * MINUTE), progress=30 * MINUTE), soak)
    assert (found.text if found else None) == text


def test_quiet_is_since_the_last_progress_and_since_a_pod_last_got_ready() -> None:
    assert quiet_since(canary(*done(since=20 * MINUTE), progress=30 * MINUTE)) == NOW - 20 * MINUTE
    assert quiet_since(canary(*done(since=20 * MINUTE), progress=5 * MINUTE)) == NOW - 5 * MINUTE
