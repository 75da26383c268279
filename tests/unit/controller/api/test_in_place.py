"""When an update in place is over, by what a real kubelet tells of it."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from controller.api.in_place import SETTLE_SECONDS
from controller.api.in_place_state import state_of
from controller.api.wellknown import IN_PLACE_STATE_ANNOTATION
from tests.beds.changing_pod import ChangingPod, container, template
from tests.beds.worlds import NOW

V1, V2, V3 = (template(container(tag)) for tag in ("v1", "v2", "v3"))
SETTLED = NOW + SETTLE_SECONDS
DIGEST = "sha256:" + "d" * 64


def edited(*tags: str) -> ChangingPod:
    """A pod of v1 after these edits of its image in a row; its kubelet has done nothing yet."""
    pod = ChangingPod(V1)
    for tag in tags:
        pod.edit(tag, template(container(tag)))
    return pod


def until(pod: ChangingPod) -> float | None:
    """None: it is over."""
    return pod.underway.until if pod.underway is not None else None


def test_the_old_container_still_runs_after_the_kubelet_saw_the_spec() -> None:
    pod = edited("v2")
    pod.looks()
    assert until(pod) == inf
    assert not pod.record.ready, "it would be called ready while its program is gone"


@pytest.mark.parametrize(
    ("shown", "bits", "over"),
    [("v2", "v2", None), ("v1", "v1", SETTLED), ("v1", "another form of v1", None), ("v9", "v2", None)],
    ids=["the image asked for", "the old one crashed", "imageID has changed its form", "an alias of other bits"],
)
def test_what_another_container_says(shown: str, bits: str, over: float | None) -> None:
    pod = edited("v2")
    pod.starts(id_="c2", shown=shown, bits=bits)
    assert until(pod) == over


@pytest.mark.parametrize(
    ("was", "wanted"),
    [
        ("agent:v1", "docker.io/library/agent:v1"),
        ("agent", "agent:latest"),
        (f"agent:v1@{DIGEST}", f"agent:v2@{DIGEST}"),
    ],
)
def test_another_spelling_of_the_same_image_restarts_the_container(was: str, wanted: str) -> None:
    """The kubelet compares texts, and pulls; the old one is shown as running meanwhile."""
    pod = ChangingPod(template({"name": "main", "image": was}))
    pod.edit("v2", template({"name": "main", "image": wanted}))
    pod.looks()
    assert until(pod) == inf
    pod.starts(id_="c2", shown="v9")
    pod.tells(image=wanted)
    assert until(pod) is None


def test_a_container_that_rereads_a_label_is_another_one() -> None:
    reads: Any = {"env": [{"name": "TEAM", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}}]}
    pod = ChangingPod(template(container("v1", **reads)))
    pod.edit("v2", template(container("v1", **reads), labels={"app": "demo", "team": "x"}))
    pod.looks()
    assert until(pod) == inf
    pod.starts(id_="c2", shown="v1")
    assert until(pod) is None


@pytest.mark.parametrize("wanted", [f"registry.example/agent@{DIGEST}", f"registry.example/agent:v2@{DIGEST}"])
def test_a_digest_is_proved_by_the_id_of_the_image(wanted: str) -> None:
    pod = ChangingPod(V1)
    pod.tells(imageID=f"registry.example/agent@{DIGEST}")
    pod.edit("v2", template({"name": "main", "image": wanted}))
    assert until(pod) == inf
    pod.tells(containerID="containerd://c2")
    assert until(pod) is None


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff"])
def test_an_image_that_cannot_be_pulled_keeps_the_ids_of_the_dead_one(reason: str) -> None:
    pod = edited("v2")
    pod.looks()
    pod.waits(reason=reason)
    assert until(pod) == inf


def test_a_new_container_that_crashes_runs_no_more() -> None:
    pod = edited("v2")
    pod.starts(id_="c2", shown="v2")
    pod.tells(state={"terminated": {"exitCode": 3, "containerID": "containerd://c2"}})
    assert until(pod) == inf


@pytest.mark.parametrize("statuses", [[], None])
def test_a_container_that_the_status_does_not_tell_of_is_none(statuses: Any) -> None:
    pod = edited("v2")
    pod.object["status"]["containerStatuses"] = statuses
    assert until(pod) == inf


def test_a_container_that_the_spec_does_not_have_is_not_waited_for() -> None:
    pod = edited("v2")
    pod.object["spec"]["containers"][0]["name"] = "another"
    assert until(pod) is None


def test_a_moment_far_in_the_future_is_not_believed() -> None:
    pod = ChangingPod(V1)
    pod.edit("v2", V2, at=NOW + 86_400)
    pod.starts(id_="c2", shown="v1", bits="v1")
    underway = pod.underway
    assert underway is not None
    assert not underway.lasts(NOW)


def test_what_nothing_new_runs_for_lasts_by_any_clock() -> None:
    pod = ChangingPod(V1)
    pod.edit("v2", V2, at=NOW + 86_400)
    assert pod.underway is not None
    assert pod.underway.lasts(NOW)
    assert pod.underway.lasts(NOW + 10**9)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        '"x"',
        "[" * 100_000,
        '{"lastContainerStatuses": {"main": null}}',
        '{"lastContainerStatuses": {"main": {"restartCount": "many"}}}',
        '{"containerResources": {"main": {"limits": {"cpu": [1]}}}}',
    ],
    ids=lambda text: text[:40],
)
def test_what_is_no_state_is_none(text: str) -> None:
    assert state_of({IN_PLACE_STATE_ANNOTATION: text}) is None


@pytest.mark.parametrize("told", ["soon", "", "2026-99-99T00:00:00Z", "0001-01-01", "9999-12-31", None])
def test_a_state_that_does_not_tell_when_is_of_long_ago(told: str | None) -> None:
    pod = edited("v2")
    pod.write(**{**pod.told, "updateTimestamp": told})
    pod.starts(id_="c2", shown="v1", bits="v1")
    assert pod.underway is not None
    assert not pod.underway.lasts(NOW)
    pod.edit("v3", V3)
    assert until(pod) == inf


# batches


def waiting(*required: str) -> ChangingPod:
    pod = edited("v2")
    pod.write(**pod.told, nextContainerImages={"main": "x"}, preCheckBeforeNext={"containersRequiredReady": required})
    return pod


def test_the_next_batch_waits_for_the_first_to_run_and_be_ready() -> None:
    pod = waiting("main")
    assert pod.underway is not None
    assert not pod.underway.continues
    pod.starts(id_="c2", shown="v2")
    pod.tells(ready=False)
    assert (until(pod), pod.underway.continues) == (inf, False)
    pod.tells(ready=True)
    assert pod.underway.continues


def test_the_next_batch_waits_for_what_nothing_proves_for_some_seconds() -> None:
    pod = waiting("main")
    pod.starts(id_="c2", shown="v1", bits="v1")
    found = pod.underway
    assert found is not None
    assert [found.is_due(moment) for moment in (NOW, SETTLED - 1, SETTLED)] == [False, False, True]
    assert found.is_due(NOW - 86_400), "a wrong clock told of it"
    assert found.lasts(SETTLED)


def test_what_is_no_container_of_the_pod_need_not_be_ready() -> None:
    pod = waiting("main", "ghost")
    pod.starts(id_="c2", shown="v2")
    assert pod.underway is not None
    assert pod.underway.continues
