"""Where a partition stands among the steps, when the next step may be taken, and in which words it may not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import Phase, Rollout
from controller.api.formats import IntOrPercent
from controller.api.objects import rfc3339
from controller.api.pod import Pod
from kubectl_plugin.errors import CommandError
from kubectl_plugin.rollout.gate import PromotionBlock, PromotionBlockReason, quiet_since, why_blocked
from kubectl_plugin.rollout.snapshot import PodDetail
from kubectl_plugin.rollout.steps import STEPS_ANNOTATION, Steps, steps_of
from kubectl_plugin.rollout.survey import Survey, survey
from tests.beds.snapshots import crashing, detail, observed, of_world
from tests.beds.worlds import NOW, ago, ds, pod, served, world


def steps(text: str, partition: IntOrPercent | None, desired: int = 24) -> Steps:
    found = steps_of({STEPS_ANNOTATION: text}, partition, desired)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("partition", "index", "following"),
    [
        pytest.param(24, 0, 22, id="before-the-first"),
        pytest.param(22, 1, 16, id="first"),
        pytest.param(20, 1, 16, id="between-two"),
        pytest.param(16, 2, 8, id="second"),
        pytest.param("70%", 2, 8, id="a-percentage-that-comes-to-16"),
        pytest.param(1, 3, 0, id="before-the-last"),
        pytest.param(0, 4, None, id="last"),
        pytest.param(None, 4, None, id="no-partition"),
        pytest.param(1000, 0, 22, id="more-than-there-are-nodes"),
    ],
)
def test_where_a_partition_stands(partition: IntOrPercent | None, index: int, following: IntOrPercent | None) -> None:
    assert steps("22,16,8,0", partition) == Steps(values=(22, 16, 8, 0), index=index, count=4, next=following)


@pytest.mark.parametrize("text", ["22,16,8,0", " 22, 16 ,8,0 ", "22,16,8", "022,16,8,00"])
def test_spellings_of_the_same_steps(text: str) -> None:
    assert steps(text, 16).values == (22, 16, 8, 0)


@pytest.mark.parametrize(
    ("text", "partition", "desired", "found"),
    [
        ("90%,50%,0", "90%", 24, (("90%", "50%", 0), 1, "50%")),
        ("90%,50%,0%", "50%", 24, (("90%", "50%", "0%"), 2, "0%")),
        ("23,50%,2,0", 23, 24, ((23, "50%", 2, 0), 1, "50%")),
        ("90%,80%,50%,0", "90%", 3, (("90%", "80%", "50%", 0), 2, "50%")),
    ],
    ids=["as written", "written to the end", "mixed", "steps of the same number are passed together"],
)
def test_steps_in_percentages(text: str, partition: IntOrPercent, desired: int, found: tuple[Any, int, Any]) -> None:
    told = steps(text, partition, desired)
    assert (told.values, told.index, told.next) == found
    assert told.count == len(told.values)


def test_without_the_annotation_there_are_none() -> None:
    assert steps_of({"kruise-ds/other": "22,16"}, 16, 24) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", '"" is neither a number nor a percentage'),
        ("22,,0", '"" is neither a number nor a percentage'),
        ("22,half,0", '"half" is neither a number nor a percentage'),
        ("22,-1", '"-1" is neither a number nor a percentage'),
        ("22;16", '"22;16" is neither a number nor a percentage'),
        ("٢٢,0", '"٢٢" is neither a number nor a percentage'),
        ("1" * 5000, f'"{"1" * 5000}" is neither a number nor a percentage'),
        ("120%,0", "120% is more than all"),
        ("8,16,0", "16 is not smaller than 8"),
        ("50%,50%,0", "50% is not smaller than 50%"),
    ],
)
def test_what_is_no_list_of_steps_is_refused_by_the_name_of_the_annotation(text: str, why: str) -> None:
    with pytest.raises(CommandError) as refused:
        steps(text, 16)
    assert refused.value.message == f'annotation kruise-ds/steps="{text}" is not a list of steps: {why}'
    assert refused.value.hints == ("write partitions from the largest to the smallest: 22,16,8,0 or 90%,50%,0",)
    assert refused.value.exit_code == 6


MINUTE = 60.0
STEPS = {STEPS_ANNOTATION: "4,2,0"}
UNFINISHED, FAILING = PromotionBlockReason.UNFINISHED, PromotionBlockReason.FAILING
CRASH = "CrashLoopBackOff"


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


def crashing_on(*nodes: str, **more: Any) -> Survey:
    """Beside `more`, new pods that fail on these nodes."""
    pods = [pod(name, "v2", ready=None) for name in nodes]
    return canary(*more.pop("new", ()), *pods, details={one.node: detail(one, crashing()) for one in pods}, **more)


def done(since: float = 20 * MINUTE) -> tuple[Pod, ...]:
    return served("node-3", "node-2", rev="v2", ready=ago(since))


def blocked(seen: Survey, soak: float = 0.0) -> PromotionBlock | None:
    steps = steps_of(seen.daemonset.annotations, 2, seen.rollout.budget.desired)
    return why_blocked(seen, steps, soak=soak)


ONE = pod("node-3", "v2")


@pytest.mark.parametrize(
    ("seen", "why", "text"),
    [
        (
            canary(*done(), phase=Phase.PROGRESSING),
            UNFINISHED,
            "step 2 looks finished, but the controller does not say so yet",
        ),
        (canary(ONE), UNFINISHED, "step 2 is not finished: 1 of 2 nodes updated"),
        (canary(ONE, annotations={}), UNFINISHED, "the update is not finished: 1 of 2 nodes updated"),
        (
            crashing_on("node-2", new=(ONE,)),
            UNFINISHED,
            f"step 2 is not finished: 1 of 2 nodes updated, node-2 {CRASH}",
        ),
        (crashing_on("node-1", new=done()), FAILING, f"step 2 is finished, but not well: node-1 {CRASH}"),
        (
            crashing_on("node-3", "node-2", "node-1", "node-0", partition=0),
            UNFINISHED,
            f"step 2 is not finished: 0 of 4 nodes updated, node-3 {CRASH}, node-2 {CRASH}, node-1 {CRASH},"
            " 1 more failing",
        ),
        (canary(*done(), paused=True), PromotionBlockReason.PAUSED, "demo is paused: 2 of 2 nodes updated"),
        (
            canary(ONE, progress=11 * MINUTE),
            PromotionBlockReason.STALLED,
            "step 2 is not finished: 1 of 2 nodes updated",
        ),
        (
            canary(*done(), generation=2, phase=Phase.HELD),
            PromotionBlockReason.UNSEEN,
            "the controller has not acted on the newest change of demo yet",
        ),
    ],
    ids=[
        "the controller does not say so",
        "one node is left",
        "without steps it is the update",
        "a node fails",
        "a node outside of the target fails",
        "of many failing nodes three are told",
        "paused, though the step is finished",
        "stalled",
        "the controller has not seen it",
    ],
)
def test_why_the_next_step_may_not_be_taken(seen: Survey, why: PromotionBlockReason, text: str) -> None:
    if why is PromotionBlockReason.UNSEEN:
        seen = survey(replace(seen.snapshot, daemonset=replace(seen.daemonset, generation=3)))
    assert blocked(seen) == PromotionBlock(why=why, text=text)


def test_it_may_be_taken_when_the_target_is_done_and_well() -> None:
    assert blocked(canary(*done())) is None


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_a_failing_pod_of_the_old_revision_keeps_nothing_closed(phase: str) -> None:
    old = pod("node-1", "v1", ready=None, phase=phase)
    assert blocked(canary(*done(), old, details={"node-1": detail(old, crashing())})) is None


@pytest.mark.parametrize(
    ("soak", "text"),
    [
        (20 * MINUTE, None),
        (20 * MINUTE + 1, "step 2 is finished, and quiet for 20m of 20m"),
        (45 * MINUTE, "step 2 is finished, and quiet for 20m of 45m"),
    ],
)
def test_it_has_to_be_quiet_for_as_long_as_was_asked(soak: float, text: str | None) -> None:
    found = blocked(canary(*done(since=20 * MINUTE), progress=30 * MINUTE), soak)
    assert (found.text if found else None) == text


def test_quiet_is_since_the_last_progress_and_since_a_pod_last_got_ready() -> None:
    assert quiet_since(canary(*done(since=20 * MINUTE), progress=30 * MINUTE)) == NOW - 20 * MINUTE
    assert quiet_since(canary(*done(since=20 * MINUTE), progress=5 * MINUTE)) == NOW - 5 * MINUTE
