"""Which plans say that more is to come: these are followed at once, the others wait for what the cluster says."""

from __future__ import annotations

from controller.planner.plan import plan
from controller.planner.world import World
from tests.beds.worlds import ds, everywhere, pod, revision, served, world


def more(of: World) -> bool:
    return plan(of).more


def test_where_all_is_well_nothing_more_is_to_come() -> None:
    assert not more(world(pods=everywhere(5)))
    assert not more(world(fresh=False, revisions=[]))


def test_claims_and_history_are_followed_by_the_pods() -> None:
    assert more(world(nodes=1, orphans=(pod("node-0", owner=""),)))
    assert more(world(revisions=[]))
    assert more(world(revisions=[revision("v1", 1), revision("v2", 2)]))


def test_what_the_burst_left_over_is_to_come() -> None:
    assert more(world(ds(burst=2)))
    assert not more(world(ds(burst=5))), "created pods announce themselves"
    unwanted = ds(burst=2, nodeSelector={"color": "blue"})
    assert more(world(unwanted, nodes=3, pods=everywhere(3)))
    assert not more(world(unwanted, nodes=2, pods=everywhere(2)))


def test_old_pods_that_wait_for_their_turn_are_to_come() -> None:
    assert more(world(ds("v2"), pods=everywhere(5)))
    assert more(world(ds("v2"), pods=[*everywhere(4), pod("node-4", "v2", ready=None)]))
    assert more(world(ds("v2"), pods=everywhere(4))), "a pod is made first, then the next old one goes"
    last = [*served("node-0"), *served("node-1", "node-2", "node-3", "node-4", rev="v2")]
    assert not more(world(ds("v2"), pods=last)), "the last one goes now"


def test_nothing_more_is_to_come_of_a_rollout_that_stands_still_on_purpose() -> None:
    for still in ({"paused": True}, {"on_delete": True}, {"partition": 5}):
        assert not more(world(ds("v2", **still), pods=everywhere(5))), still
        assert not more(world(ds("v2", **still), pods=everywhere(4))), still
