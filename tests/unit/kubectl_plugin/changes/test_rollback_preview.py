"""The look ahead of a rollback: every line that it can have, and that none is wider than asked."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.pod import Pod
from kubectl_plugin.changes.edit import Caution
from kubectl_plugin.changes.rollback import RollbackWish, headline, kept_cautions, preview, roll_back
from kubectl_plugin.rollout.snapshot import Snapshot, Unread
from kubectl_plugin.rollout.way_back import target_of
from tests.beds.worlds import pod, served
from tests.unit.kubectl_plugin.changes.documents import ON_DELETE, live, rolling, seen

CANARY = served("node-3", "node-2", rev="v2")
LEFT = served("node-1", "node-0")


def lines(snapshot: Snapshot, *, width: int = 200, **wish: Any) -> list[str]:
    wanted = RollbackWish(**wish)
    target = target_of(snapshot, wanted.to_revision)
    return list(preview(snapshot, target, wanted, roll_back(snapshot, target, wanted), width=width))


def canary(*pods: Pod, nodes: int = 4, **settings: Any) -> Snapshot:
    """Back from v2 to v1: node-3 and node-2 have v2 unless told."""
    return seen(
        live(rolling(**{"maxUnavailable": 1, **settings})), pods=pods or (*CANARY, *LEFT), nodes=nodes, stable="v1"
    )


def test_the_headline_has_the_number_the_age_and_the_images_that_come_back() -> None:
    snapshot = canary()
    words = headline(snapshot, target_of(snapshot, None))
    assert words.startswith("Roll back demo to revision 1 (")
    assert words.endswith(" ago, demo:v1)?")


def test_who_moves_and_who_stays() -> None:
    assert lines(canary()) == [
        "move back   2 nodes: node-3 | node-2     re-create",
        "stay        2 nodes already on it",
    ]


def test_with_a_surge_no_pod_goes_before_the_new_one_is_there() -> None:
    moving, *_ = lines(canary(maxUnavailable=0, maxSurge=1))
    assert moving == "move back   2 nodes: node-3 | node-2     surge"


def test_what_is_down_goes_first() -> None:
    down = pod("node-2", "v2", ready=None)
    moving, *_ = lines(canary(CANARY[0], down, *LEFT))
    assert moving == "move back   2 nodes: node-2 at once (it is down), then node-3     re-create"


def test_a_node_without_a_pod_gets_one() -> None:
    assert "start       1 node without a pod: node-1" in lines(canary(*CANARY, LEFT[1]))


def test_where_the_budget_is_used_up_it_says_by_whom() -> None:
    sick = pod("node-0", "v1", ready=None)
    moving, *_ = lines(canary(CANARY[0], LEFT[0], sick, nodes=4))
    assert moving == "move back   1 node: node-3 once node-0 can do without the budget     re-create"


@pytest.mark.parametrize(
    ("settings", "wish", "line"),
    [
        (
            {"partition": 3},
            {},
            "also set    partition 3 -> 0   (with 3, no node would move back)",
        ),
        (
            {"partition": "25%"},
            {},
            "also set    partition 25% -> 0   (with 25%, only 1 node would move back)",
        ),
        ({"paused": True}, {}, "also set    paused true -> false   (while paused, no node would move back)"),
        (
            {"selector": {"matchLabels": {"track": "canary"}}},
            {"drop_selector": True},
            'also set    selector {"matchLabels":{"track":"canary"}} -> none   (with it, no node would move back)',
        ),
        (
            {"partition": 4},
            {"keep_partition": True},
            "will NOT    2 nodes: node-3 node-2 (partition 4 keeps them; without --keep-partition they go back)",
        ),
        (
            {"paused": True},
            {"keep_paused": True},
            "will NOT    2 nodes: node-3 node-2 (stays paused; without --keep-paused they go back)",
        ),
        (
            {"selector": {"matchLabels": {"track": "canary"}}},
            {},
            "will NOT    2 nodes: node-3 node-2 (rollingUpdate.selector does not match; --drop-selector lifts it)",
        ),
    ],
)
def test_what_else_is_set_and_what_it_is_good_for(settings: dict[str, Any], wish: dict[str, Any], line: str) -> None:
    assert line in lines(canary(**settings), **wish)


def test_what_keeps_nobody_is_set_without_a_reason() -> None:
    """1% of four nodes is none of them, but may be one of a hundred."""
    assert "also set    partition 1% -> 0" in lines(canary(partition="1%"))


def test_what_is_not_set_is_not_told() -> None:
    assert not [one for one in lines(canary(partition=0, paused=False)) if one.startswith("also set")]


def test_with_on_delete_each_is_told_to_be_deleted() -> None:
    snapshot = seen(live(ON_DELETE), pods=(*CANARY, *LEFT), stable="v1")
    assert lines(snapshot) == [
        "move back   no node",
        "stay        2 nodes already on it",
        "will NOT    2 nodes: node-3 node-2 (OnDelete: each goes back when you delete its pod)",
    ]


def test_without_the_right_to_read_pods_only_what_is_written_is_told() -> None:
    settings = rolling(partition=3, paused=True, selector={"matchLabels": {"track": "canary"}})
    snapshot = seen(live(settings), unread=(Unread(what="pods"),), stable="v1")
    assert lines(snapshot, drop_selector=True) == [
        "who moves   cannot be told: the pods could not be read",
        "also set    partition 3 -> 0",
        "            paused true -> false",
        '            selector {"matchLabels":{"track":"canary"}} -> none',
    ]


@pytest.mark.parametrize("width", [60, 78, 198])
def test_a_long_list_is_cut_and_no_line_is_wider_than_asked(width: int) -> None:
    names = [f"node-{number}" for number in range(400)]
    pods = (*served(*names[:40], rev="v2", ready=None), *served(*names[40:], rev="v2"))
    found = lines(canary(*pods, nodes=400, maxUnavailable="5%", partition=16), width=width)
    assert max(map(len, found)) <= width
    text = " ".join(" ".join(found).split())
    assert " and 28 more at once (they are down), then " in text
    assert text.count("node-") == 2 * 12


@pytest.mark.parametrize(
    ("settings", "text", "hint"),
    [
        (
            {"partition": 4},
            "partition 4 keeps 2 nodes from going back: node-3 node-2",
            "kubectl kruise-ds set-partition demo 0 -n default",
        ),
        (
            {"paused": True},
            "the pause keeps 2 nodes from going back: node-3 node-2",
            "kubectl kruise-ds resume demo -n default",
        ),
    ],
)
def test_where_the_template_is_back_already_what_still_keeps_nodes_is_told(
    settings: dict[str, Any], text: str, hint: str
) -> None:
    assert [(one.text, one.hints) for one in kept(*CANARY, *LEFT, **settings)] == [(text, (hint,))]


def kept(*pods: Pod, back: bool = True, **settings: Any) -> tuple[Caution, ...]:
    """The template is v1; v2 was made after it where it is `back`, else before."""
    snapshot = seen(live(rolling(**settings), rev="v1"), pods=pods)
    v2, v1 = snapshot.revisions
    v2 = replace(v2, created=v1.created + (60.0 if back else -60.0))
    return kept_cautions(replace(snapshot, revisions=(v2, v1)), v1)


def test_nodes_that_a_canary_is_to_spare_are_not_called_bad() -> None:
    assert kept(*CANARY, *LEFT, back=False, partition=4) == ()


def test_where_nothing_keeps_anybody_nothing_is_told() -> None:
    assert kept(*served("node-0", "node-1"), partition=2) == ()
