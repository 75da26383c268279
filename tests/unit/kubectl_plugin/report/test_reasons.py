"""What a rollout that gets on waits for, in a word."""

from __future__ import annotations

from typing import Any

import pytest

from controller.planner.world import World
from kubectl_plugin.report.status.reasons import reason_of
from kubectl_plugin.report.survey import survey
from tests.beds.snapshots import observed, of_world
from tests.beds.worlds import ago, ds, everywhere, failed, pod, served, world

STARTING = pod("node-2", "v2", ready=None)


def surging(surge: int | str, *beside: Any, **more: Any) -> World:
    return world(observed(ds("v2", max_surge=surge)), nodes=3, pods=[*everywhere(3), *beside], **more)


def updating(unavailable: int, *pods: Any) -> World:
    return world(observed(ds("v2", max_unavailable=unavailable)), nodes=3, pods=pods)


@pytest.mark.parametrize(
    ("case", "word"),
    [
        (surging(1), "Updating"),
        (surging(1, STARTING), "MaxSurgeInUse"),
        (surging(2, STARTING), "Updating"),
        (surging(2, STARTING, pod("node-1", "v2", ready=None)), "MaxSurgeInUse"),
        (surging(1, failed("node-2", "v2"), not_before={"node-2": ago(-60)}), "MaxSurgeInUse"),
        (surging("100%", *(pod(f"node-{one}", "v2", ready=None) for one in range(3))), "PodsStarting"),
        (updating(1, *everywhere(3)), "Updating"),
        (updating(1, *everywhere(2), STARTING), "MaxUnavailableInUse"),
        (updating(2, *everywhere(2), STARTING), "Updating"),
        (updating(1, *served("node-0", "node-1", rev="v2"), STARTING), "PodsStarting"),
        (updating(1, *served("node-0", "node-1", rev="v2")), "PodsMissing"),
    ],
    ids=[
        "nothing has begun",
        "one of one has two pods",
        "one of two has two pods",
        "two of two have two pods",
        "a failed new pod waits out its back-off",
        "all have two pods",
        "every node serves",
        "one of one does not serve",
        "one of two does not serve",
        "the last one",
        "the last one has no pod yet",
    ],
)
def test_what_the_next_node_waits_for(case: World, word: str) -> None:
    assert reason_of(survey(of_world(case))).word == word
