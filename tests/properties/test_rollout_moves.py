"""Whatever users, nodes, pods and the network do: every write of the controller keeps the laws, and in the end
everything is in place and it falls silent."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.beds.objects import V2, V3
from tests.properties.rollout_faults import (
    CLOCK_SET_BACK,
    IDLE_CUTS,
    PLACEMENT,
    QUOTA,
    REFUSALS,
    RELEASE,
    REVERT,
    happened,
)
from tests.properties.rollout_machine import Rollouts
from tests.properties.rollout_wishes import Wish
from tests.properties.size import DEEP, every_day


def test_the_laws_hold_whatever_happens_and_every_fault_happens() -> None:
    """`make test-deep` looks for new stories; `make test` tells the same thirty-five each time."""
    happened.clear()
    size = settings(
        every_day(35), derandomize=not DEEP, deadline=None, phases=[Phase.generate, Phase.shrink], print_blob=False
    )
    run_state_machine_as_test(Rollouts, settings=size)
    wanted = (*REFUSALS, QUOTA, CLOCK_SET_BACK, REVERT, PLACEMENT, RELEASE)
    assert [what for what in wanted if not happened[what]] == []


def test_a_surge_whose_new_pods_fail_again_and_again() -> None:
    """Seldom told by chance: there is room for another surge, and the next in line waits out its back-off."""
    story = Rollouts()
    story.begin(count=4, wish=Wish(limits=5), how="well", troubles=(), ahead=0.0, wait=40.0)
    story.bad_version(image=V2, name="node-2", limits=5)
    story.teardown()


def test_watches_that_are_cut_when_they_are_idle() -> None:
    """Seldom told by chance: nothing must happen for some seconds."""
    happened.clear()
    told = story()
    told.trouble_with_watches(IDLE_CUTS, 0.0)
    told.act("nothing happens", asyncio.sleep(20.0), 0.0)
    told.template(V2, 40.0)
    told.pod_lost("node-0", 40.0)
    told.trouble_ends(40.0)
    told.teardown()
    assert happened[IDLE_CUTS]


def story(**wish: Any) -> Rollouts:
    """Five nodes with V1."""
    told = Rollouts()
    told.begin(5, Wish(**wish), "well", (), 0.0, 40.0)
    return told


def images(told: Rollouts) -> list[str]:
    """By node, v1 … v3; "" is no pod."""
    assert told.stage is not None
    scene = told.stage.look()
    return [" ".join(pod.image.rpartition(":")[2] for pod in scene.live(node)) for node in sorted(scene.nodes)]


def test_the_moves_include_a_revert_under_a_partition_and_a_lost_pod() -> None:
    told = story(partition=4)
    told.template(V2, 40.0)
    assert images(told) == ["v1", "v1", "v1", "v1", "v2"]
    told.revert(3.0)
    told.pod_lost("node-0", 3.0)
    told.node_joins("node-5", False, 40.0)
    assert images(told) == ["v1", "v1", "v1", "v1", "v2", "v1"]
    told.teardown()


def test_the_moves_include_a_placement_that_leaves_nodes_empty() -> None:
    told = story()
    told.template(V3, 40.0)
    assert images(told) == ["", "v3", "", "v3", ""]
    told.restart(0.0, 3.0)
    told.many_fields(V2, 5, False, 40.0)
    assert told.stage is not None
    scene = told.stage.look()
    assert [node for node in scene.eligible if scene.may_stay_empty(node)] == ["node-0", "node-2", "node-4"]
    assert images(told) == ["", "v3", "", "v3", ""]
    told.teardown()
