"""The plugin and the metrics count alike: whoever compares them sees one rollout."""

from __future__ import annotations

import pytest

from controller.api.pod_problem import PodProblem
from controller.planner.summary import ZoneState
from controller.planner.world import World
from kubectl_plugin.report.snapshot import PodDetail
from kubectl_plugin.report.survey import survey
from tests.beds.snapshots import container, crashing, detail, of_world
from tests.unit.controller.planner.summed_up import summary
from tests.unit.controller.planner.test_summary import TABLE

WAITING = {PodProblem.IMAGE_PULL: "ErrImagePull", PodProblem.CONFIG: "CreateContainerConfigError"}


def as_read(of: World) -> dict[str, PodDetail]:
    """By node: what the plugin reads of a pod that ails."""
    found = {}
    for pod in of.pods:
        match pod.problem:
            case PodProblem.CRASH_LOOP:
                found[pod.node] = detail(pod, crashing())
            case PodProblem.UNSCHEDULABLE:
                found[pod.node] = detail(pod, unschedulable="0/5 nodes are available")
            case PodProblem.IMAGE_PULL | PodProblem.CONFIG as problem:
                found[pod.node] = detail(pod, container(ready=False, waiting=WAITING[problem]))
    return found


@pytest.mark.parametrize("of", [row[1] for row in TABLE], ids=[row[0] for row in TABLE])
def test_both_say_the_same_of_the_same_world(of: World) -> None:
    seen, counts = summary(of), survey(of_world(of, as_read(of))).counts
    numbers = {state: sum(zone[state] for zone in seen.zones.values()) for state in ZoneState}
    assert (numbers[ZoneState.UPDATED], numbers[ZoneState.FAILED]) == (counts.updated, counts.failing)
    assert (sum(numbers.values()), seen.unplanned) == (counts.desired, counts.unplanned)
    assert counts.updating <= numbers[ZoneState.UPDATING] <= counts.updating + counts.missing
    assert counts.next + counts.old <= numbers[ZoneState.OLD] <= counts.next + counts.old + counts.missing
