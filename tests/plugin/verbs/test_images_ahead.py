"""Images that go ahead of a rollout, as `status` and `nodes` tell of them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from controller.api.image_pull_job import PULLER_LABEL
from controller.kube.requests import IMAGE_PULL_JOBS, Request
from controller.settings import FeatureGates
from kubectl_plugin.cluster.follow import IMAGES_EVERY
from tests.beds.api import DAEMONSETS, Object
from tests.beds.api import NODES as KUBERNETES_NODES
from tests.beds.nodes.stages import INSTANT
from tests.beds.simulator.faults import Answer, Hang, Rule
from tests.plugin.kept import story
from tests.plugin.scene import NAME, Scene, rolling, template
from tests.plugin.verbs.few_nodes import HOME, NODES, few_nodes

KIND = IMAGE_PULL_JOBS.name
DENIED = "401 Unauthorized"
SLOW = replace(INSTANT, pull=60.0)
WORDS = f'ErrImagePull: Failed to pull image "registry.example.com/agent:1.9.0": {DENIED}'


@story
def ahead(
    scene: Scene, seconds: float = 70.0, /, *, in_place: bool = True, refused: tuple[str, ...] = (), canary: str = ""
) -> None:
    """So long after the template of `node-agent` has got another image, for the canary only where there is one."""
    few_nodes.play(scene)
    if canary:
        scene.do(scene.api.patch(KUBERNETES_NODES, canary, {"metadata": {"labels": {"canary": "yes"}}}))
    scene.do(scene.controller.stop())
    scene.controller.start(msgspec.structs.replace(scene.controller.settings, gates=FeatureGates(pre_download=True)))
    for node in NODES:
        scene.nodes.behave(
            node, replace(SLOW, missing_images=("*:1.9.0",) if node in refused else (), registry=DENIED)
        )
    content = template("1.9.0", "debug", certs=False)
    kind: Object = {"rollingUpdateType": "InPlaceIfPossible"} if in_place else {"partition": 3}
    kind |= {"selector": {"matchLabels": {"canary": "yes"}}, "partition": len(NODES)} if canary else {}
    scene.do(scene.edit({"spec": {"template": content, **rolling(maxUnavailable=1, **kind)}}))
    scene.pass_time(seconds)


def images(scene: Scene) -> dict[str, object]:
    """By node, as `nodes -o json` has them."""
    ran = scene.run("nodes", NAME, *HOME, "--only", "all", "-o", "json")
    return {one["node"]: one.get("image") for one in json.loads(ran.out)["items"]}


def stage(word: str, why: str = "") -> dict[str, str]:
    return {"stage": word, "why": why}


def test_each_node_has_its_own() -> None:
    """One at a time in the order of the update; who has the image is updated."""
    with ahead() as scene:
        scene.check("nodes/images-ahead", "nodes", NAME, *HOME, "--only", "all", columns=110)
        scene.check("status/images-ahead", "status", NAME, *HOME)
        assert images(scene) == {
            "a-01": stage("waiting"),
            "a-02": stage("waiting"),
            "a-03": stage("pulling"),
            "a-04": None,
        }
        counts = json.loads(scene.run("status", NAME, *HOME, "-o", "json").out)["imagesAhead"]
    assert counts == {"nodes": 3, "there": 0, "pulling": 1, "failed": 0}


def test_the_canary_has_its_turn_first() -> None:
    """Who has the image already is worked out from how many they are and from the order of their turns."""
    with ahead(canary="a-01") as scene:
        assert images(scene) == {
            "a-01": stage("image there"),
            "a-02": stage("waiting"),
            "a-03": stage("waiting"),
            "a-04": stage("pulling"),
        }


def test_a_node_where_it_fails_is_reported_in_the_registrys_words() -> None:
    with ahead(600.0, refused=("a-02", "a-03")) as scene:
        nodes = scene.check("nodes/images-failed", "nodes", NAME, *HOME, "--only", "all", "-o", "wide")
        status = scene.check("status/images-failed", "status", NAME, *HOME, columns=160)
        assert images(scene) == {
            "a-01": None,
            "a-02": stage("failed", WORDS),
            "a-03": stage("failed", WORDS),
            "a-04": None,
        }
    assert nodes.out.count(f"its new image cannot be pulled: {WORDS}") == 2
    assert f"failed on a-02, a-03: {WORDS}" in status.out


def test_where_no_node_waits_the_image_is_shown_beside_what_keeps_the_node() -> None:
    """The partition does; two nodes have the image, on one it cannot be pulled."""
    with ahead(600.0, in_place=False, refused=("a-02",)) as scene:
        ran = scene.run("nodes", NAME, *HOME, "--only", "all", "-o", "wide")
        found = images(scene)
    assert found == {
        "a-01": stage("image there"),
        "a-02": stage("failed", WORDS),
        "a-03": stage("image there"),
        "a-04": None,
    }
    assert f"kept by partition 3; its new image cannot be pulled: {WORDS}" in ran.out


def test_a_node_that_has_joined_just_now_is_not_said_to_have_it() -> None:
    """The job does not count it yet, but still the one that is updated now; by its name it would be the first."""
    with ahead(600.0, canary="a-01") as scene:
        scene.do(scene.nodes.add("a-09"))
        scene.pass_time(5.0)
        found = images(scene)
    there = stage("image there")
    assert found == {**dict.fromkeys(NODES, there), "a-01": None, "a-09": stage("waiting")}


def test_a_watch_follows_it_until_all_is_done() -> None:
    with ahead(1.0) as scene:
        ran = scene.run("status", NAME, *HOME, "-w", "--timeout", "1h")
    assert (ran.code, ran.err) == (0, "")


def test_jobs_pullers_and_what_was_heard_are_watched_and_listed_once() -> None:
    async def long_failed(scene: Scene) -> None:
        await asyncio.sleep(450.0)  # of virtual time: a watch ends after 540
        await scene.api.delete(DAEMONSETS, NAME)

    with ahead(1.0, refused=("a-02", "a-03")) as scene:
        scene.door.link.seen.clear()
        ran = scene.run("nodes", NAME, *HOME, "-w", "--only", "all", "-o", "wide", meanwhile=long_failed)
        counts = Counter((one.route.verb, one.route.resource, _selector(one.request)) for one in scene.door.link.seen)
    assert WORDS in ran.out
    for resource, selector in ((KIND, ""), ("pods", PULLER_LABEL), ("events", "involvedObject.kind=ImagePullJob")):
        assert [counts[verb, resource, selector] for verb in ("list", "watch")] == [1, 1], counts
    assert counts["list", "nodes", ""] <= 2 + 450 / 60 + 450 / IMAGES_EVERY, "once a minute, and for their images"


def _selector(request: Request) -> str:
    query = dict(request.query)
    return query.get("labelSelector") or query.get("fieldSelector", "")


@pytest.mark.parametrize("forbidden", [KIND, "pods"])
def test_without_the_right_to_watch_them_as_much_is_shown(forbidden: str) -> None:
    with ahead(1.0) as scene:
        scene.door.forbid("watch", forbidden)
        ran = scene.run("nodes", NAME, *HOME, "-w", "--only", "all", "-o", "wide", meanwhile=ended)
    lines = [line.split() for line in ran.out.splitlines()]
    for node in NODES[:3]:
        assert any("pulling" in line for line in lines if line[0] == node), node


async def ended(scene: Scene) -> None:
    await scene.until(lambda one: one["status"].get("updatedNumberScheduled") == len(NODES))
    await scene.api.delete(DAEMONSETS, NAME)


def test_a_long_watch_shows_the_next_images_too() -> None:
    async def edited(scene: Scene) -> None:
        await asyncio.sleep(185.0)  # of virtual time: nothing goes on, so nothing has been read of jobs
        await scene.edit({"spec": {"template": template("2.0.0", "debug", certs=False)}})
        await scene.until(lambda one: one["status"].get("updatedNumberScheduled", 0) < len(NODES))
        await ended(scene)

    with ahead(3000.0) as scene:
        for node in NODES:
            scene.nodes.behave(node, replace(INSTANT, pull=5.0))
        ran = scene.run("nodes", NAME, *HOME, "-w", "--only", "all", "-o", "wide", meanwhile=edited)
    assert "pulling" in ran.out


@pytest.mark.parametrize("right", [f"list {KIND}", "list pods", "list nodes", "list events"])
def test_with_fewer_rights_less_is_reported(right: str) -> None:
    verb, resource = right.split()
    with ahead(600.0, refused=("a-02",)) as scene:
        scene.door.forbid(verb, resource)
        ran = scene.run("status", NAME, *HOME, columns=200)
    assert ran.code == 0
    assert ("failed on a-02" in ran.out) is (resource not in (KIND, "pods"))


@pytest.mark.parametrize("does", [Answer(500, message="etcd is away"), Hang()], ids=["fails", "hangs"])
@pytest.mark.parametrize(("verb", "said"), [("status", "1 of 4"), ("nodes", "a-03"), ("plan", "a-03")])
def test_where_they_cannot_be_read_all_else_is_reported(verb: str, said: str, does: Answer | Hang) -> None:
    words = "list imagepulljobs.apps.kruise.io in observability: etcd is away"
    with ahead() as scene:
        scene.door.link.faults.add(Rule(does, resource=KIND))
        ran = scene.run(verb, NAME, *HOME)
    assert ran.code == 0
    assert said in ran.out
    told = words if isinstance(does, Answer) else "no answer within 5s"
    assert ran.err == f"note: cannot tell which images are pulled ahead: {told}\n"


@pytest.mark.parametrize(
    "words", [("diff", NAME), ("history", NAME), ("set-image", NAME, "agent=registry.example.com/agent:2.0.0")]
)
def test_who_shows_none_asks_for_none(words: tuple[str, ...]) -> None:
    with ahead() as scene:
        scene.door.link.faults.add(Rule(Answer(500), resource=KIND))
        ran = scene.run(*words, *HOME)
    assert (ran.code, ran.err) == (0, "")


def test_plan_takes_an_image_that_is_pulled_for_one_that_comes() -> None:
    with ahead(refused=("a-01",)) as scene:
        ran = scene.run("plan", NAME, *HOME)
    assert "a-03" in ran.out
    assert "the new image is being pulled" not in ran.out


def test_plan_leaves_out_where_it_cannot_be_pulled() -> None:
    with ahead(600.0, refused=("a-02",)) as scene:
        ran = scene.run("plan", NAME, *HOME)
    assert "the new image cannot be pulled on 1 node: a-02" in ran.out
