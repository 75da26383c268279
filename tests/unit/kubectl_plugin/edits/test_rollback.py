"""Which revision a rollback goes to, and what one write it is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.api.node import Node
from controller.api.objects import JSONObject, fields_of
from controller.api.revision import Revision
from kubectl_plugin.edits.draft import with_operations
from kubectl_plugin.edits.rollback import RollbackWish, choice_explained, roll_back, target_of
from kubectl_plugin.failures import CommandError
from kubectl_plugin.report.snapshot import Snapshot
from tests.beds.worlds import OURS, node, pod, revision, taint, template
from tests.unit.kubectl_plugin.edits.documents import seen


def live(rev: str = "v7", *, history: int | None = None, on_delete: bool = False, **rolling: Any) -> JSONObject:
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


def snapshot(document: JSONObject | None = None, *revisions: Revision | str) -> Snapshot:
    """With revisions 5, 6 and 7 unless told; `v6` is the sixth."""
    return seen(document or live(), nodes=0, revisions=revisions or ("v7", "v6", "v5"))


def target(seen: Snapshot, to_revision: int | None = None) -> int:
    return target_of(seen, to_revision).revision.number


def written(seen: Snapshot, wish: RollbackWish | None = None) -> JSONObject:
    """The object after the write."""
    wish = wish or RollbackWish()
    return with_operations(seen.document, roll_back(seen, target_of(seen, wish.to_revision), wish).operations)


def rolling_of(document: JSONObject) -> JSONObject:
    strategy: Any = document["spec"]
    return dict(strategy["updateStrategy"]["rollingUpdate"])


# which revision


def test_left_out_it_is_the_one_before() -> None:
    assert target(snapshot()) == 6


def test_a_template_that_no_revision_has_yet_goes_back_to_the_newest() -> None:
    assert target(snapshot(live("v8"))) == 7


def test_the_one_before_is_one_that_means_another_pod() -> None:
    """Revision 6 only spells out what the API server fills in."""
    spelled = revision("v6", of=template("v7", restartPolicy="Always", dnsPolicy="ClusterFirst"))
    assert target(snapshot(live("v7"), "v7", spelled, "v5")) == 5


def test_a_template_that_went_back_already_but_is_not_renumbered() -> None:
    assert target(snapshot(live("v6"))) == 7


def test_a_revision_may_be_named() -> None:
    assert target(snapshot(), 5) == 5


def test_a_revision_that_is_being_deleted_is_none() -> None:
    assert target(snapshot(live(), "v7", revision("v6", dying=True), "v5")) == 5
    with pytest.raises(CommandError, match="revision 6 of demo is not kept"):
        target(snapshot(live(), "v7", revision("v6", dying=True), "v5"), 6)


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
        target(snapshot(live(history=history), "v7"))
    assert (refused.value.message, refused.value.exit_code) == (words, 1)


def test_before_the_controller_has_seen_it_there_is_nothing_to_go_back_to() -> None:
    fresh = msgspec.structs.replace(snapshot(), revisions=())
    with pytest.raises(CommandError, match=r"^demo has no revision yet; there is no earlier one$"):
        target(fresh)


@pytest.mark.parametrize(("history", "limit"), [(3, 3), (None, 10)])
def test_a_revision_that_is_not_kept(history: int | None, limit: int) -> None:
    with pytest.raises(CommandError) as refused:
        target(snapshot(live(history=history), "v7", "v6", "v5", "v4"), 3)
    words = f"revision 3 of demo is not kept; kept: 4, 5, 6, 7 (revisionHistoryLimit {limit})"
    assert (refused.value.message, refused.value.exit_code) == (words, 1)


@pytest.mark.parametrize(
    ("nodes", "number"),
    [
        ({"v3": 5}, 2),
        ({"v1": 3, "v2": 1, "v3": 1}, 1),
        ({"v1": 1, "v2": 3, "v3": 1}, 2),
        ({"v1": 2, "v2": 2, "v3": 1}, 2),
    ],
    ids=[
        "nobody has an older one",
        "a canary that was fixed forward",
        "a few were left behind",
        "as many: the newer",
    ],
)
def test_it_is_the_one_that_most_of_the_nodes_left_to_update_run(nodes: dict[str, int], number: int) -> None:
    assert target(running(nodes)) == number


def running(nodes: dict[str, int], *straggling: Node, selected: bool = False) -> Snapshot:
    """v3 is rolled out: so many nodes run each; `straggling` ones run v1, and are not among the `selected` ones."""
    names = [f"node-{place}" for place in range(sum(nodes.values()))]
    tags = iter(names)
    pods = [pod(next(tags), tag) for tag, count in nodes.items() for _ in range(count)]
    pods += [pod(one.name, "v1") for one in straggling]
    fleet = (*(node(name, labels={"track": "canary"}) for name in names), *straggling)
    settings: Any = {"selector": {"matchLabels": {"track": "canary"}}} if selected else {}
    found = seen(live("v3", **settings), pods=pods, revisions=("v3", "v2", "v1"))
    return msgspec.structs.replace(found, nodes=fleet)


def test_a_node_that_the_update_may_not_move_has_no_say() -> None:
    assert target(running({"v3": 5}, node("z"), selected=True)) == 2


def test_neither_has_one_that_cannot_be_reached() -> None:
    gone = node("z", taint("node.kubernetes.io/unreachable", "NoExecute"))
    assert target(running({"v3": 5}, gone)) == 2


def test_why_it_is_this_one_is_told_where_another_might_be_expected() -> None:
    fixed, straggling = running({"v1": 3, "v2": 1, "v3": 1}), running({"v2": 3, "v3": 1, "v1": 1})
    assert choice_explained(fixed, target_of(fixed, None)) == "3 of 4 nodes left to update run it, not revision 2"
    assert (
        choice_explained(straggling, target_of(straggling, None)) == "it is the one before; 1 node runs an older one"
    )
    plain = running({"v2": 3, "v3": 2})
    assert choice_explained(plain, target_of(plain, None)) == ""


# what is written


def test_the_template_is_replaced_as_a_whole() -> None:
    """A label that was added since is gone, and the stored `$patch` is nobody's field."""
    document = live()
    document["spec"] = {**fields_of(document["spec"]), "template": {**template("v7"), "$patch": "replace"}}
    changed = written(snapshot(document))
    assert fields_of(changed["spec"])["template"] == template("v6")


def test_partition_and_pause_are_lifted_in_the_same_write() -> None:
    seen = snapshot(live(partition=16, paused=True))
    edit = roll_back(seen, target_of(seen, None), RollbackWish())
    assert edit.operations == (
        {"op": "add", "path": "/spec/template", "value": template("v6")},
        {"op": "add", "path": "/spec/updateStrategy/rollingUpdate/partition", "value": 0},
        {"op": "add", "path": "/spec/updateStrategy/rollingUpdate/paused", "value": False},
    )


@pytest.mark.parametrize("partition", [16, "30%", "0%"])
def test_every_partition_but_none_becomes_0(partition: int | str) -> None:
    assert rolling_of(written(snapshot(live(partition=partition))))["partition"] == 0


@pytest.mark.parametrize("rolling", [{}, {"partition": 0}, {"paused": False}, {"partition": 0, "paused": False}])
def test_what_holds_nobody_is_left_as_it_is(rolling: dict[str, Any]) -> None:
    seen = snapshot(live(**rolling))
    assert len(roll_back(seen, target_of(seen, None), RollbackWish()).operations) == 1


def test_what_is_to_be_kept_is_kept() -> None:
    held: dict[str, Any] = {
        "maxUnavailable": 2,
        "partition": 16,
        "paused": True,
        "selector": {"matchLabels": {"track": "canary"}},
    }
    kept = written(snapshot(live(**held)), RollbackWish(keep_partition=True, keep_paused=True))
    assert rolling_of(kept) == held


def test_the_selector_goes_only_when_asked() -> None:
    held: dict[str, Any] = {"selector": {"matchLabels": {"track": "canary"}}}
    assert "selector" in rolling_of(written(snapshot(live(**held))))
    assert "selector" not in rolling_of(written(snapshot(live(**held)), RollbackWish(drop_selector=True)))
    assert rolling_of(written(snapshot(live()), RollbackWish(drop_selector=True))) == {"maxUnavailable": 2}


def test_with_an_equal_live_template_nothing_is_written() -> None:
    same = revision("v6", 6, of=template("v7", restartPolicy="Always"))
    seen = snapshot(live(partition=16, paused=True), "v7", same)
    edit = roll_back(seen, target_of(seen, 6), RollbackWish(drop_selector=True))
    assert (edit.result, edit.operations) == ("skipped (template already equals revision 6)", ())


def test_with_on_delete_only_the_template_is_written_with_a_caution() -> None:
    seen = snapshot(live(on_delete=True))
    edit = roll_back(seen, target_of(seen, None), RollbackWish())
    assert [one["path"] for one in edit.operations] == ["/spec/template"]
    (caution,) = edit.warnings
    assert caution.text == "updateStrategy of demo is OnDelete: pods change only when you delete them"
    assert caution.hints == ("kubectl kruise-ds nodes demo -n default --only old",)


@pytest.mark.parametrize(
    ("seen", "to_revision", "result"),
    [
        pytest.param(snapshot(), None, "rolled back to revision 6 (now revision 8)", id="renumbered"),
        pytest.param(snapshot(), 5, "rolled back to revision 5 (now revision 8)", id="further-back"),
        pytest.param(snapshot(live("v8")), None, "rolled back to revision 7", id="the-newest-keeps-its-number"),
    ],
)
def test_the_number_that_the_controller_will_give_it(seen: Snapshot, to_revision: int | None, result: str) -> None:
    assert roll_back(seen, target_of(seen, to_revision), RollbackWish()).result == result
