"""Which revision a rollback goes to, what one write it is, and every line of the look ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.api.daemonset import Phase
from controller.api.names import RESTARTED_AT
from controller.api.objects import JSONObject, fields_of
from controller.api.pod import Pod
from controller.api.revision import Revision
from kubectl_plugin.changes.edit import Caution, patch_of, with_operations
from kubectl_plugin.changes.rollback import (
    RollbackSettings,
    choice_explained,
    kept_cautions,
    nodes_going_forward,
    preview,
    roll_back,
)
from kubectl_plugin.errors import CommandError
from kubectl_plugin.render.tables import labelled_rows
from kubectl_plugin.rollout.snapshot import Snapshot, Unread
from kubectl_plugin.rollout.target import target_of
from tests.beds.snapshots import detail
from tests.beds.worlds import OURS, numbered, pod, revision, served, template
from tests.unit.kubectl_plugin.changes.documents import ON_DELETE, live, rolling, seen


def of_revision(
    rev: str = "v7", *, history: int | None = None, on_delete: bool = False, **rolling: Any
) -> JSONObject:
    """The DaemonSet as the server sends it."""
    strategy: JSONObject = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2, **rolling}}
    spec: JSONObject = {
        "selector": {"matchLabels": {"app": "demo"}},
        "template": template(rev),
        "updateStrategy": {"type": "OnDelete"} if on_delete else strategy,
    }
    if history is not None:
        spec["revisionHistoryLimit"] = history
    return {"metadata": {"name": "demo", "namespace": "default", "uid": OURS, "resourceVersion": "9"}, "spec": spec}


def snapshot(
    document: JSONObject | None = None, *revisions: Revision | str, stable: str = "v6", previous: str = ""
) -> Snapshot:
    """With revisions 5, 6 and 7 unless told; `v6` is the sixth, and the stable one."""
    found = revisions or ("v7", "v6", "v5")
    return seen(document or of_revision(), nodes=0, revisions=found, stable=stable, previous=previous)


def target(seen: Snapshot, to_revision: int | None = None) -> int:
    return target_of(seen, to_revision).revision.number


def written(seen: Snapshot, wish: RollbackSettings | None = None) -> JSONObject:
    """The object after the write."""
    wish = wish or RollbackSettings()
    return with_operations(seen.document, roll_back(seen, target_of(seen, wish.to_revision), wish).operations)


def rolling_of(document: JSONObject) -> JSONObject:
    strategy: Any = document["spec"]
    return dict(strategy["updateStrategy"]["rollingUpdate"])


# which revision


def restarted(*revisions: str, stable: str) -> Snapshot:
    """A restart of v6 is of_revision, as revision 8."""
    again: Any = template("v6")
    again["metadata"]["annotations"] = {RESTARTED_AT: "2027-01-15T08:00:00Z"}
    document = {**of_revision(), "spec": {**fields_of(of_revision()["spec"]), "template": again}}
    return snapshot(document, revision("v8", of=again), *revisions, stable=stable, previous="v5")


def unstored(found: Snapshot) -> Snapshot:
    """The controller has seen the of_revision template, and has not stored it yet."""
    replace, status = msgspec.structs.replace, found.daemonset.status
    assert status is not None
    assert status.rollout is not None
    status = replace(status, rollout=replace(status.rollout, phase=Phase.PENDING))
    return replace(found, daemonset=replace(found.daemonset, status=status))


NOT_KEPT = "the last revision that was rolled out completely is not kept"
UNKNOWN = "no revision is known to have been rolled out completely"
NONE_BEFORE = "none is known to have been rolled out before revision {}"
ON_THE_WAY = "nodes are on their way back to revision {}"


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        pytest.param(snapshot(), 6, id="the stable one"),
        pytest.param(snapshot(of_revision("v8")), 6, id="from a template that is not stored yet"),
        pytest.param(snapshot(stable="v5"), 5, id="though another is newer"),
        pytest.param(snapshot(stable="v7", previous="v5"), 5, id="from the stable one the one before"),
        pytest.param(
            unstored(snapshot(stable="v7", previous="v5")), ON_THE_WAY.format(7), id="what nodes have is not known"
        ),
        pytest.param(snapshot(stable="v7"), NONE_BEFORE.format(7), id="none is recorded before"),
        pytest.param(snapshot(stable="v7", previous="v1"), NONE_BEFORE.format(7), id="the one before is not kept"),
        pytest.param(
            snapshot(of_revision("v5"), stable="v6", previous="v5"), ON_THE_WAY.format(5), id="being reverted"
        ),
        pytest.param(snapshot(of_revision("v6"), stable="v6"), NONE_BEFORE.format(6), id="reverted"),
        pytest.param(snapshot(stable="", previous="v5"), 5, id="none is stable, and one stands in"),
        pytest.param(
            snapshot(stable="", previous="v7"), UNKNOWN, id="none is stable, and the of_revision one stands in"
        ),
        pytest.param(snapshot(stable=""), UNKNOWN, id="no record"),
        pytest.param(snapshot(of_revision(), "v7", "v6", stable=""), UNKNOWN, id="no record, and only one other"),
        pytest.param(snapshot(stable="v1"), NOT_KEPT, id="the stable one is not kept"),
        pytest.param(restarted("v6", "v5", stable="v6"), 5, id="from a restart of the stable one"),
        pytest.param(restarted("v6", "v5", stable="v8"), 5, id="from a restart that is stable"),
        pytest.param(
            restarted("v7", "v6", "v5", stable="v6"), ON_THE_WAY.format(6), id="a restart that leaves another one"
        ),
    ],
)
def test_left_out_it_is_one_that_was_stable(found: Snapshot, wanted: int | str) -> None:
    if isinstance(wanted, int):
        assert target(found) == wanted
        return
    with pytest.raises(CommandError) as refused:
        target(found)
    name = "it is unknown which revision demo is to go back to"
    assert (refused.value.message, refused.value.exit_code) == (f"{name}: {wanted}", 6)
    assert refused.value.hints, "the revisions to choose from"


def test_a_revision_that_means_the_same_pod_is_none_to_go_back_to() -> None:
    """Revision 6 only spells out what the API server fills in."""
    spelled = revision("v6", of=template("v7", restartPolicy="Always", dnsPolicy="ClusterFirst"))
    assert target(snapshot(of_revision("v7"), "v7", spelled, "v5", stable="v7", previous="v5")) == 5


def test_a_revision_that_is_being_deleted_is_none() -> None:
    with pytest.raises(CommandError, match="is not kept"):
        target(snapshot(of_revision(), "v7", revision("v6", terminating=True), "v5"))
    with pytest.raises(CommandError, match="revision 6 of demo is not kept"):
        target(snapshot(of_revision(), "v7", revision("v6", terminating=True), "v5"), 6)


@pytest.mark.parametrize(
    ("history", "words"),
    [
        (None, "demo has only revision 7; there is no earlier revision"),
        (3, "demo has only revision 7; there is no earlier revision"),
        (0, "demo has only revision 7; there is no earlier revision (revisionHistoryLimit 0)"),
    ],
)
def test_nothing_to_go_back_to(history: int | None, words: str) -> None:
    with pytest.raises(CommandError) as refused:
        target(snapshot(of_revision(history=history), "v7"))
    assert (refused.value.message, refused.value.exit_code) == (words, 1)


def test_a_restart_is_nothing_to_go_back_from() -> None:
    with pytest.raises(CommandError, match="the revisions of demo differ only in restarts; there is no earlier one"):
        target(restarted("v6", stable="v6"))


def test_before_the_controller_has_seen_it_there_is_nothing_to_go_back_to() -> None:
    fresh = msgspec.structs.replace(snapshot(), revisions=())
    with pytest.raises(CommandError, match=r"^demo has no revision yet; there is no earlier one$"):
        target(fresh)


@pytest.mark.parametrize(("history", "limit"), [(3, 3), (None, 10)])
def test_a_revision_that_is_not_kept(history: int | None, limit: int) -> None:
    with pytest.raises(CommandError) as refused:
        target(snapshot(of_revision(history=history), "v7", "v6", "v5", "v4"), 3)
    words = f"revision 3 of demo is not kept; kept: 4, 5, 6, 7 (revisionHistoryLimit {limit})"
    assert (refused.value.message, refused.value.exit_code) == (words, 1)


def test_why_it_is_this_one_is_reported_where_another_might_be_expected() -> None:
    def why(stable: str, previous: str = "", pods: Sequence[Pod] = ()) -> str:
        fleet = numbered(len(pods)) if pods else ()
        found = snapshot(of_revision("v3"), "v3", "v2", "v1", stable=stable, previous=previous)
        found = msgspec.structs.replace(found, pods=tuple(detail(one) for one in pods), nodes=fleet)
        target = target_of(found, None)
        return choice_explained(found, target, nodes_going_forward(found, target))

    assert why("v1") == "it is the last one that was rolled out completely; revision 2 was not"
    assert why("v3", "v1") == "it is the one before that was rolled out completely; revision 2 was not"
    assert (
        why("v2", pods=(pod("node-0", "v1"), pod("node-1", "v2"))) == "it is the one before; 1 node runs an older one"
    )
    assert why("v2", pods=(pod("node-0", "v2"),)) == ""


# what is written


def test_the_template_is_replaced_as_a_whole() -> None:
    """A label that was added since is gone, and the stored `$patch` is no field."""
    document = of_revision()
    document["spec"] = {**fields_of(document["spec"]), "template": {**template("v7"), "$patch": "replace"}}
    changed = written(snapshot(document))
    assert fields_of(changed["spec"])["template"] == template("v6")


def test_what_was_approved_and_skipped_before_does_not_count_again() -> None:
    said: JSONObject = {"kruise-ds/approve": "v6/2", "kruise-ds/skip-steps": "v6", "team": "agents"}
    document = of_revision()
    document["metadata"] = {**fields_of(document["metadata"]), "annotations": said}
    assert fields_of(written(snapshot(document))["metadata"])["annotations"] == {"team": "agents"}


def test_partition_and_pause_are_lifted_in_the_same_write() -> None:
    seen = snapshot(of_revision(partition=16, paused=True))
    edit = roll_back(seen, target_of(seen, None), RollbackSettings())
    assert patch_of(edit.operations) == (
        {"op": "add", "path": "/spec/template", "value": template("v6")},
        {"op": "add", "path": "/spec/updateStrategy/rollingUpdate/partition", "value": 0},
        {"op": "add", "path": "/spec/updateStrategy/rollingUpdate/paused", "value": False},
    )


@pytest.mark.parametrize("partition", [16, "30%", "0%"])
def test_every_partition_but_none_becomes_0(partition: int | str) -> None:
    assert rolling_of(written(snapshot(of_revision(partition=partition))))["partition"] == 0


@pytest.mark.parametrize("rolling", [{}, {"partition": 0}, {"paused": False}, {"partition": 0, "paused": False}])
def test_what_holds_no_node_is_left_as_it_is(rolling: dict[str, Any]) -> None:
    seen = snapshot(of_revision(**rolling))
    assert len(roll_back(seen, target_of(seen, None), RollbackSettings()).operations) == 1


def test_what_is_to_be_kept_is_kept() -> None:
    held: dict[str, Any] = {
        "maxUnavailable": 2,
        "partition": 16,
        "paused": True,
        "selector": {"matchLabels": {"track": "canary"}},
    }
    kept = written(snapshot(of_revision(**held)), RollbackSettings(keep_partition=True, keep_paused=True))
    assert rolling_of(kept) == held


def test_the_selector_goes_only_when_asked() -> None:
    held: dict[str, Any] = {"selector": {"matchLabels": {"track": "canary"}}}
    assert "selector" in rolling_of(written(snapshot(of_revision(**held))))
    assert "selector" not in rolling_of(written(snapshot(of_revision(**held)), RollbackSettings(drop_selector=True)))
    assert rolling_of(written(snapshot(of_revision()), RollbackSettings(drop_selector=True))) == {"maxUnavailable": 2}


def test_with_an_equal_live_template_nothing_is_written() -> None:
    same = revision("v6", 6, of=template("v7", restartPolicy="Always"))
    seen = snapshot(of_revision(partition=16, paused=True), "v7", same)
    edit = roll_back(seen, target_of(seen, 6), RollbackSettings(drop_selector=True))
    assert (edit.result, edit.operations) == ("skipped (template already equals revision 6)", ())


@pytest.mark.parametrize(
    ("seen", "to_revision", "result"),
    [
        pytest.param(snapshot(), None, "rolled back to revision 6 (now revision 8)", id="renumbered"),
        pytest.param(snapshot(), 5, "rolled back to revision 5 (now revision 8)", id="further-back"),
        pytest.param(snapshot(of_revision("v8"), stable="v7"), None, "rolled back to revision 7", id="newest"),
    ],
)
def test_the_number_that_the_controller_will_give_it(seen: Snapshot, to_revision: int | None, result: str) -> None:
    assert roll_back(seen, target_of(seen, to_revision), RollbackSettings()).result == result


CANARY = served("node-3", "node-2", rev="v2")
LEFT = served("node-1", "node-0")


def lines(snapshot: Snapshot, *, width: int = 200, **wish: Any) -> list[str]:
    wanted = RollbackSettings(**wish)
    target = target_of(snapshot, wanted.to_revision)
    return labelled_rows(preview(snapshot, target, wanted, roll_back(snapshot, target, wanted)), width)


def canary(*pods: Pod, nodes: int = 4, **settings: Any) -> Snapshot:
    """Back from v2 to v1: node-3 and node-2 have v2 unless told."""
    return seen(
        live(rolling(**{"maxUnavailable": 1, **settings})), pods=pods or (*CANARY, *LEFT), nodes=nodes, stable="v1"
    )


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
        ({"partition": "25%"}, {}, "also set    partition 25% -> 0   (with 25%, only 1 node would move back)"),
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


def test_what_keeps_no_node_is_set_without_a_reason() -> None:
    """1% of four nodes is none of them, but may be one of a hundred."""
    assert "also set    partition 1% -> 0" in lines(canary(partition="1%"))


def test_what_is_not_set_is_not_shown() -> None:
    assert not [one for one in lines(canary(partition=0, paused=False)) if one.startswith("also set")]


def test_with_on_delete_each_is_named_to_be_deleted() -> None:
    snapshot = seen(live(ON_DELETE), pods=(*CANARY, *LEFT), stable="v1")
    assert lines(snapshot) == [
        "move back   no node",
        "stay        2 nodes already on it",
        "will NOT    2 nodes: node-3 node-2 (OnDelete: each goes back when you delete its pod)",
    ]


def test_without_the_right_to_read_pods_only_what_is_written_is_reported() -> None:
    settings = rolling(partition=3, paused=True, selector={"matchLabels": {"track": "canary"}})
    snapshot = seen(live(settings), unread=(Unread(what="pods"),), stable="v1")
    assert lines(snapshot, drop_selector=True) == [
        "who moves   unknown: the pods could not be read",
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
def test_where_the_template_is_back_already_what_still_keeps_nodes_is_reported(
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


def test_where_nothing_keeps_a_node_nothing_is_said() -> None:
    assert kept(*served("node-0", "node-1"), partition=2) == ()
