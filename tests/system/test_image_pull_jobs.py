"""ImagePullJobs in virtual time: on which nodes, how many at once, how often, and when they are over."""

from __future__ import annotations

import pytest

from tests.beds.api import DAEMONSETS, IMAGE_PULL_JOBS, PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import daemonset
from tests.system.pulls import IMAGE, counts, job, no_pods, over, reads, tells_of_image


async def test_nodes_pull_one_after_the_other_the_last_name_first(pulls: Bed) -> None:
    pulls.nodes.behave("*", Behaviour(pull=10.0))
    await pulls.add_nodes(3)
    began = pulls.clock()
    await pulls.api.create(IMAGE_PULL_JOBS, job())
    found = await over(pulls)
    assert counts(found) == (3, 0, 3, 0)
    assert found["message"] == "job has completed"
    assert 30 <= pulls.clock() - began < 32
    assert pulls.journal.created == ["node-2", "node-1", "node-0"]


async def test_a_node_where_it_fails_is_tried_again_and_delays_no_other(pulls: Bed) -> None:
    await pulls.add_nodes(4)
    pulls.nodes.behave("node-3", Behaviour(missing_images=("*",)))
    began = pulls.clock()
    await pulls.api.create(IMAGE_PULL_JOBS, job(pullPolicy={"backoffLimit": 2}))
    await reads(pulls, 4, 0, 3, 0)
    assert pulls.clock() - began < 2, "the others have it before it is tried a second time"
    found = await over(pulls)
    assert counts(found) == (4, 0, 3, 1)
    assert found["failedNodes"] == ["node-3"]
    assert found["message"] == f'job has completed; node-3: ErrImagePull: Failed to pull image "{IMAGE}": not found'
    assert pulls.journal.created.count("node-3") == 3
    assert 3 <= pulls.clock() - began < 5, "waits of 1 and 2 seconds"
    told = await pulls.event("ImagePullFailed", "node-3: ErrImagePull")
    assert (told["type"], told["involvedObject"]["kind"]) == ("Warning", "ImagePullJob")


async def test_a_node_that_tells_of_the_image_needs_no_pod(pulls: Bed) -> None:
    await pulls.add_nodes(3)
    await tells_of_image(pulls, "node-0", "registry.example.com/agent@sha256:00", IMAGE)
    await tells_of_image(pulls, "node-1", "registry.example.com/agent:v1")
    await pulls.api.create(IMAGE_PULL_JOBS, job())
    assert counts(await over(pulls)) == (3, 0, 3, 0)
    assert pulls.journal.created == ["node-2", "node-1"]


async def test_with_always_it_asks_the_registry_again(pulls: Bed) -> None:
    await pulls.add_nodes(1)
    await tells_of_image(pulls, "node-0", IMAGE)
    await pulls.api.create(IMAGE_PULL_JOBS, job(imagePullPolicy="Always"))
    await over(pulls)
    (made,) = pulls.journal.of("pods", "create")
    assert isinstance(made.body, dict)
    assert made.body["spec"]["containers"][0]["imagePullPolicy"] == "Always"


async def test_a_job_of_type_never_goes_on_for_nodes_that_come_later(pulls: Bed) -> None:
    await pulls.add_nodes(2)
    await pulls.api.create(IMAGE_PULL_JOBS, job(completionPolicy={"type": "Never"}))
    await reads(pulls, 2, 0, 2, 0)
    await pulls.nodes.add("late")
    found = await reads(pulls, 3, 0, 3, 0)
    assert "completionTime" not in found
    assert found["message"] == "job is running, progress 100.0%"
    await pulls.nodes.remove("node-0")
    await reads(pulls, 2, 0, 2, 0)
    await no_pods(pulls)


@pytest.mark.parametrize(
    ("chosen", "nodes"),
    [
        ({"names": ["node-1", "no-such-node"]}, ["node-1"]),
        ({"matchLabels": {"pool": "a"}}, ["node-2", "node-0"]),
        ({"matchExpressions": [{"key": "pool", "operator": "DoesNotExist"}]}, ["node-1"]),
    ],
)
async def test_the_selector_chooses_nodes(pulls: Bed, chosen: Object, nodes: list[str]) -> None:
    await pulls.add_nodes(3)
    for node in ("node-0", "node-2"):
        await pulls.label_node(node, pool="a")
    await pulls.api.create(IMAGE_PULL_JOBS, job(selector=chosen))
    assert counts(await over(pulls)) == (len(nodes), 0, len(nodes), 0)
    assert pulls.journal.created == nodes


async def test_a_pod_selector_means_the_nodes_of_those_pods(pulls: Bed) -> None:
    await pulls.add_nodes(3)
    await pulls.label_node("node-1", role="daemon")
    await pulls.deploy(daemonset(pod={"nodeSelector": {"role": "daemon"}}))
    chosen = {"matchLabels": {"app": "agent"}}
    await pulls.api.create(IMAGE_PULL_JOBS, job(podSelector=chosen, completionPolicy={"type": "Never"}))
    await reads(pulls, 1, 0, 1, 0)
    assert pulls.journal.created == ["node-1"]
    await pulls.label_node("node-2", role="daemon")
    began = pulls.clock()
    await reads(pulls, 2, 0, 2, 0)
    assert pulls.clock() - began < 31, "pods are looked up every half minute"


async def test_an_edit_of_whom_it_means_holds_at_once(pulls: Bed) -> None:
    await pulls.add_nodes(4)
    for node, name in (("node-1", "one"), ("node-2", "two")):
        await pulls.label_node(node, role=name)
        await pulls.deploy(daemonset(name, pod={"nodeSelector": {"role": name}}))
    one, two = ({"matchLabels": {"app": name}} for name in ("one", "two"))
    await pulls.api.create(IMAGE_PULL_JOBS, job(podSelector=one, completionPolicy={"type": "Never"}))
    await reads(pulls, 1, 0, 1, 0)
    began = pulls.clock()
    await pulls.api.patch(IMAGE_PULL_JOBS, "pull", {"spec": {"podSelector": two}})
    await pulls.until(
        PODS, lambda pods: "" if "node-2" in pulls.journal.created else "not yet", "the other one pulls"
    )
    await pulls.api.patch(IMAGE_PULL_JOBS, "pull", {"spec": {"podSelector": None, "selector": {}}})
    await reads(pulls, 4, 0, 4, 0)
    assert pulls.clock() - began < 5


async def test_a_job_goes_in_its_time_and_an_edit_does_not_begin_it_anew(pulls: Bed) -> None:
    await pulls.add_nodes(1)
    await pulls.api.create(IMAGE_PULL_JOBS, job(completionPolicy={"ttlSecondsAfterFinished": 100}))
    await over(pulls)
    ended = pulls.clock()
    await pulls.api.patch(IMAGE_PULL_JOBS, "pull", {"spec": {"parallelism": 2}})
    await pulls.until(IMAGE_PULL_JOBS, lambda found: "it is there" if found else "", "the job is gone")
    assert 98 <= pulls.clock() - ended < 102
    assert len(pulls.journal.created) == 1


async def test_a_node_that_falls_silent_gives_its_place_to_another_one(pulls: Bed) -> None:
    await pulls.add_nodes(2)
    pulls.nodes.behave("node-1", Behaviour(pull=1e6))
    await pulls.api.create(IMAGE_PULL_JOBS, job())
    await reads(pulls, 2, 1, 0, 0)
    began = pulls.clock()
    await pulls.nodes.lose("node-1")
    await reads(pulls, 2, 0, 1, 0)
    assert pulls.clock() - began < 5
    await no_pods(pulls)
    await pulls.nodes.regain("node-1")
    await over(pulls)


async def test_a_daemonset_beside_a_job_minds_its_own_pods(pulls: Bed) -> None:
    nodes = await pulls.deploy(daemonset(), nodes=2)
    await pulls.api.create(
        IMAGE_PULL_JOBS, job(sandboxConfig={"labels": {"app": "agent"}, "annotations": {"a": "b"}})
    )

    def missing(found: list[Object]) -> str:
        return "" if (found[0].get("status") or {}).get("completionTime") else "it goes on"

    await pulls.until(IMAGE_PULL_JOBS, missing, "the job is over")
    await pulls.until(PODS, lambda found: "" if len(found) == 2 else f"{len(found)} pods", "only the daemon pods")
    await pulls.runs_on(*nodes)
    (ours,) = await pulls.api.list(DAEMONSETS)
    assert ours["status"]["currentNumberScheduled"] == 2
    made = [write.body for write in pulls.journal.of("pods", "create")]
    assert len(made) == 2
    assert all(isinstance(one, dict) and one["metadata"]["annotations"]["a"] == "b" for one in made)
