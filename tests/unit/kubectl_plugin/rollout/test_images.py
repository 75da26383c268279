"""Images in few words, how far they are pulled, and nodes in words."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.image_pull_job import ImagePullJobStatus, PullState
from controller.api.objects import JSONObject
from kubectl_plugin.rollout import snapshot as images
from kubectl_plugin.rollout.snapshot import (
    NodePull,
    PullProgress,
    PullStage,
    failure_lines,
    worst_pulls,
)
from kubectl_plugin.wording import between
from tests.unit.controller.imagepull.worlds import job, puller

DIGEST = "sha256:4f5c1a2b3c4d5e6f"


@pytest.mark.parametrize(
    ("image", "short"),
    [
        ("agent", "agent"),
        ("agent:1.9.0", "agent:1.9.0"),
        ("registry.example.com/team/agent:1.9.0", "agent:1.9.0"),
        ("registry.example.com:5000/agent", "agent"),
        (f"registry.example.com/agent@{DIGEST}", "agent@4f5c1a2"),
        (f"registry.example.com/agent:1.9.0@{DIGEST}", "agent:1.9.0@4f5c1a2"),
        ("", ""),
    ],
)
def test_short_name(image: str, short: str) -> None:
    assert images.short_image(image) == short


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("r.io/agent:1", "r.io/agent:2", ("1", "2")),
        (f"r.io/agent@{DIGEST}", "r.io/agent:2", ("4f5c1a2", "2")),
        (f"r.io/agent:1@{DIGEST}", "r.io/agent:1@sha256:9999999000", ("1@4f5c1a2", "1@9999999")),
        ("r.io/agent", "r.io/agent:2", ("agent", "agent:2")),
        ("r.io/agent:1", "r.io/scout:1", ("r.io/agent:1", "r.io/scout:1")),
        ("r.io/agent:1", "mirror.io/agent:1", ("r.io/agent:1", "mirror.io/agent:1")),
        ("r.io/agent:1", "mirror.io/agent:2", ("r.io/agent:1", "mirror.io/agent:2")),
    ],
)
def test_the_shortest_words_that_differ(old: str, new: str, words: tuple[str, str]) -> None:
    assert images.image_change(old, new) == words


def test_images_of_a_template_by_container() -> None:
    template: JSONObject = {
        "spec": {
            "initContainers": [{"name": "setup", "image": "setup:1"}],
            "containers": [{"name": "agent", "image": "agent:1"}, {"name": "bare"}, None],
        }
    }
    assert list(images.images_of(template).items()) == [("agent", "agent:1"), ("setup", "setup:1")]


@pytest.mark.parametrize("template", [{}, {"spec": None}, {"spec": {"containers": None}}])
def test_an_unfinished_template_has_no_images(template: JSONObject) -> None:
    assert images.images_of(template) == {}


NODES = ("d", "c", "b", "a")
SAID = "ErrImagePull: not found"


def seen(
    *pullers: Any,
    nodes: tuple[str, ...] = NODES,
    having: tuple[str, ...] = (),
    joined: tuple[str, ...] = (),
    **status: Any,
) -> PullProgress:
    known = {"desired": 4, **status}
    return PullProgress(
        job=replace(job(), status=ImagePullJobStatus(**known)),
        nodes=nodes,
        pullers=pullers,
        having=having,
        joined=joined,
        words={"b": SAID},
    )


def stages(pull: PullProgress) -> str:
    """One letter a node, in the order of their turn."""
    return "".join(one.stage.value[0] for one in pull.by_node().values())


@pytest.mark.parametrize(
    ("pull", "wanted"),
    [
        (seen(), "wwww"),
        (seen(puller("d")), "pwww"),
        (seen(puller("d", PullState.SUCCEEDED)), "iwww"),
        (seen(puller("d", job_uid="another")), "wwww"),
        (seen(puller("b"), succeeded=2), "iipw"),
        (seen(puller("c"), having=("d",), succeeded=1), "ipww"),
        (seen(puller("d"), having=("a",), succeeded=1), "pwwi"),
        (seen(puller("a"), succeeded=2, failed=1, failed_nodes=("c",)), "ifip"),
        (seen(puller("b"), nodes=("b", "a"), succeeded=2), "pw"),
        (seen(nodes=("b", "a"), succeeded=3), "iw"),
        (seen(nodes=("e", "c", "b", "a"), joined=("e",), succeeded=1), "wwww"),
        (seen(nodes=("e", "c", "b", "a"), joined=("e",), succeeded=2), "wiww"),
        (seen(puller("e", PullState.SUCCEEDED), nodes=("e", *NODES), joined=("e",), desired=5, succeeded=5), "iiiiw"),
        (seen(succeeded=3, failed=1, failed_nodes=("b",), completion_time="2027-01-15T08:00:00Z"), "iifi"),
    ],
    ids=[
        "not begun", "one pulls", "one has told", "of another job", "two had their turn", "the second one's turn",
        "one had it before", "one failed", "two have left", "two have left, one has it", "one left, one joined",
        "and one had its turn", "in doubt one too few", "over",
    ],
)  # fmt: skip
def test_each_node_is_reported(pull: PullProgress, wanted: str) -> None:
    assert stages(pull) == wanted


def test_failures_use_the_words_heard_else_those_of_the_status() -> None:
    status: dict[str, Any] = {
        "failed": 3,
        "failed_nodes": ("a", "b", "c"),
        "message": "job is running; a: ErrImagePull: 401",
    }
    found = seen(**status).by_node()
    assert {node: str(found[node]) for node in "abc"} == {
        "a": "failed: ErrImagePull: 401",
        "b": f"failed: {SAID}",
        "c": "failed: see ImagePullJob pull",
    }


def test_a_node_that_is_tried_again_tells_what_went_wrong() -> None:
    assert seen(puller("b")).by_node()["b"] == NodePull(stage=PullStage.PULLING, why=SAID)
    assert seen().by_node()["b"] == NodePull(stage=PullStage.WAITING, why=SAID)


def test_of_several_images_the_worst_counts() -> None:
    one = seen(having=("d", "c"), failed_nodes=("a",))
    other = seen(puller("d"), having=("c",))
    assert "".join(each.stage.value[0] for each in worst_pulls((one, other)).values()) == "piwf"


def test_counts_and_failures_for_people() -> None:
    pull = seen(puller("b"), having=("c", "d"), failed_nodes=("a",), message="; a: 401")
    assert pull.counts.words() == "image there on 2 of 4 nodes, pulling on 1, failed on 1"
    assert seen(nodes=(), succeeded=2, active=1, failed=1).counts == pull.counts
    same = {node: NodePull(stage=PullStage.FAILED, why=SAID) for node in "edcba"}
    assert failure_lines({**same, "f": NodePull(stage=PullStage.FAILED, why="401")}) == [
        f"failed on a, b, c and 2 more: {SAID}",
        "failed on f: 401",
    ]


def test_without_the_nodes_those_that_failed_are_still_named() -> None:
    over = seen(nodes=(), failed=1, failed_nodes=("x",), completion_time="2027-01-15T08:00:00Z")
    assert list(over.by_node()) == ["x"]


@pytest.mark.parametrize(
    ("nodes", "words"), [(["c"], "c"), (["c", "b", "a"], "c, b, a"), (["d", "c", "b", "a"], "d … a")]
)
def test_few_nodes_are_named_and_many_by_both_ends(nodes: list[str], words: str) -> None:
    assert between(nodes) == words
