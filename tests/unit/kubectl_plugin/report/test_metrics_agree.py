"""The plugin and the metrics count alike: whoever compares them sees one rollout."""

from __future__ import annotations

import pytest

from controller.api.ailment import Ailment
from controller.planner.sight import State
from controller.planner.world import World
from kubectl_plugin.report.snapshot import PodDetail
from kubectl_plugin.report.survey import survey
from tests.beds.snapshots import container, crashing, detail, of_world
from tests.unit.controller.planner.test_sight import TABLE, sight

WAITING = {Ailment.IMAGE_PULL: "ErrImagePull", Ailment.CONFIG: "CreateContainerConfigError"}


def as_read(of: World) -> dict[str, PodDetail]:
    """By node: what the plugin reads of a pod that ails."""
    found = {}
    for pod in of.pods:
        match pod.ailment:
            case Ailment.CRASH_LOOP:
                found[pod.node] = detail(pod, crashing())
            case Ailment.UNSCHEDULABLE:
                found[pod.node] = detail(pod, unschedulable="0/5 nodes are available")
            case Ailment.IMAGE_PULL | Ailment.CONFIG as ailment:
                found[pod.node] = detail(pod, container(ready=False, waiting=WAITING[ailment]))
    return found


@pytest.mark.parametrize("of", [row[1] for row in TABLE], ids=[row[0] for row in TABLE])
def test_both_say_the_same_of_the_same_world(of: World) -> None:
    seen, counts = sight(of), survey(of_world(of, as_read(of))).counts
    numbers = {state: sum(zone[state] for zone in seen.zones.values()) for state in State}
    assert (numbers[State.UPDATED], numbers[State.FAILED]) == (counts.updated, counts.failing)
    assert (sum(numbers.values()), seen.unplanned) == (counts.desired, counts.unplanned)
    assert counts.updating <= numbers[State.UPDATING] <= counts.updating + counts.missing
    assert counts.next + counts.old <= numbers[State.OLD] <= counts.next + counts.old + counts.missing
