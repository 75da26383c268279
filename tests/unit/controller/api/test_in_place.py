"""Whether an update in place has come to its end: images, edits one after another, and resources."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from controller.api.in_place import OVERLAP_SECONDS, SETTLE_SECONDS, Resize, state_of
from controller.api.names import IN_PLACE_STATE_ANNOTATION, IN_PLACE_STATE_LEGACY
from controller.api.objects import rfc3339
from tests.beds.changing_pod import ChangingPod, asks, container, image, template
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
    return pod.in_progress.until if pod.in_progress is not None else None


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
    in_progress = pod.in_progress
    assert in_progress is not None
    assert not in_progress.is_pending(NOW)


def test_what_nothing_new_runs_for_lasts_by_any_clock() -> None:
    pod = ChangingPod(V1)
    pod.edit("v2", V2, at=NOW + 86_400)
    assert pod.in_progress is not None
    assert pod.in_progress.is_pending(NOW)
    assert pod.in_progress.is_pending(NOW + 10**9)


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
    assert pod.in_progress is not None
    assert not pod.in_progress.is_pending(NOW)
    pod.edit("v3", V3)
    assert until(pod) == inf


# batches


def waiting(*required: str) -> ChangingPod:
    pod = edited("v2")
    pod.write(**pod.told, nextContainerImages={"main": "x"}, preCheckBeforeNext={"containersRequiredReady": required})
    return pod


def test_the_next_batch_waits_for_the_first_to_run_and_be_ready() -> None:
    pod = waiting("main")
    assert pod.in_progress is not None
    assert not pod.in_progress.has_next_batch
    pod.starts(id_="c2", shown="v2")
    pod.tells(ready=False)
    assert (until(pod), pod.in_progress.has_next_batch) == (inf, False)
    pod.tells(ready=True)
    assert pod.in_progress.has_next_batch


def test_the_next_batch_waits_for_what_nothing_proves_for_some_seconds() -> None:
    pod = waiting("main")
    pod.starts(id_="c2", shown="v1", bits="v1")
    found = pod.in_progress
    assert found is not None
    assert [found.can_continue(moment) for moment in (NOW, SETTLED - 1, SETTLED)] == [False, False, True]
    assert found.can_continue(NOW - 86_400), "a wrong clock told of it"
    assert found.is_pending(SETTLED)


def test_what_is_no_container_of_the_pod_need_not_be_ready() -> None:
    pod = waiting("main", "ghost")
    pod.starts(id_="c2", shown="v2")
    assert pod.in_progress is not None
    assert pod.in_progress.has_next_batch


# edits that overlap


def test_the_first_edits_container_does_not_finish_the_second() -> None:
    pod = edited("v2", "v3")
    pod.starts(id_="c2", shown="v2")
    assert until(pod) == inf
    pod.starts(id_="c3", shown="v3")
    assert until(pod) is None


def test_of_three_in_a_row_neither_of_the_first_two_does() -> None:
    pod = edited("v2", "v3", "v4")
    for number, shown in enumerate(("v2", "v3"), start=2):
        pod.object["status"]["containerStatuses"][0]["restartCount"] = 0
        pod.starts(id_=f"c{number}", shown=shown)
        assert until(pod) == inf
    pod.starts(id_="c4", shown="v4")
    assert until(pod) is None


def test_the_third_comes_when_the_first_ones_container_runs() -> None:
    pod = edited("v2", "v3")
    pod.starts(id_="c2", shown="v2")
    pod.edit("v4", template(container("v4")))
    assert until(pod) == inf
    pod.starts(id_="c3", shown="v3")
    assert until(pod) == inf
    pod.starts(id_="c4", shown="v4")
    assert until(pod) is None


def test_images_of_the_same_bits_are_told_apart_by_the_restarts_or_by_time() -> None:
    pod = edited("v2", "v3")
    pod.starts(id_="c2", shown="v2", bits="v2")
    assert until(pod) == inf
    pod.starts(id_="c3", shown="v2", bits="v2")
    assert until(pod) == SETTLED


def test_a_digest_tells_the_first_edits_container_under_any_name() -> None:
    pod = ChangingPod(V1)
    for tag in ("two", "three"):
        pod.edit(tag, template({"name": "main", "image": f"registry.example/agent@sha256:{tag}"}))
    for id_ in ("c2", "c3"):
        pod.starts(id_=id_, shown="v2", bits="two")
        assert until(pod) == inf
    pod.starts(id_="c4", shown="v3", bits="three")
    assert until(pod) is None


def test_an_unknown_container_after_two_edits_may_be_the_first_ones() -> None:
    pod = edited("v2", "v3")
    pod.starts(id_="c2", shown="alias", bits="v2")
    assert until(pod) == NOW + OVERLAP_SECONDS
    in_progress = pod.in_progress
    assert in_progress is not None
    assert in_progress.is_pending(NOW + 300)
    pod.starts(id_="c3", shown="alias", bits="v2")
    assert until(pod) == SETTLED


def test_what_was_not_finished_is_not_remembered_without_end() -> None:
    pod = edited(*(f"v{number}" for number in range(2, 40)))
    assert len(pod.told["unfinishedImages"]["main"]) == 5


# back to what runs


@pytest.mark.parametrize(("observed", "over"), [(True, None), (False, inf), (None, SETTLED)])
@pytest.mark.parametrize("shown", ["v1", "alias"])
def test_a_quick_revert_ends_without_a_restart(shown: str, observed: bool | None, over: float | None) -> None:
    """Also where the node knows the image by another name than the spec."""
    pod = ChangingPod(V1)
    pod.tells(image=image(shown))
    pod.edit("v2", V2)
    pod.edit("v1", V1)
    if observed is None:
        del pod.object["status"]["observedGeneration"]  # an older kubelet
    elif observed:
        pod.looks()
    assert until(pod) == over


def test_a_revert_by_way_of_a_third_image_too() -> None:
    pod = ChangingPod(V1)
    pod.tells(image=image("alias"))
    for hash_, new in (("v2", V2), ("v3", V3), ("v1", V1)):
        pod.edit(hash_, new)
    pod.looks()
    assert until(pod) is None


def test_a_revert_after_the_kubelet_has_begun_takes_another_container() -> None:
    pod = edited("v2")
    pod.starts(id_="c2", shown="v2")
    pod.edit("v1", V1)
    pod.looks()
    assert until(pod) == inf
    pod.starts(id_="c3", shown="v1")
    assert until(pod) is None


def test_what_came_up_late_is_not_taken_for_what_ran_at_first() -> None:
    """v1 to v2 and at once to v3; v2 comes up under another name; back to v1, which does not run any more."""
    pod = edited("v2", "v3")
    pod.starts(id_="c2", shown="alias", bits="v2")
    pod.edit("v1", V1)
    pod.looks()
    assert until(pod) == inf


# clocks


@pytest.mark.parametrize("behind", [0.0, 1.0, 9.0])
def test_with_only_another_name_to_go_by_time_tells(behind: float) -> None:
    """`behind`: the clock of who asks, to that of who wrote."""
    pod = edited("v2")
    pod.starts(id_="c2", shown="v1", bits="v1")
    in_progress = pod.in_progress
    assert in_progress is not None
    assert in_progress.is_pending(NOW - behind)
    assert not in_progress.is_pending(SETTLED)


# of OpenKruise's controller, which writes no containerID


def foreign(bits: str = "v1", key: str = IN_PLACE_STATE_ANNOTATION, **more: Any) -> ChangingPod:
    pod = ChangingPod(V1)
    before = {"main": {"imageID": f"registry.example/agent@sha256:{bits}"}}
    pod.write(revision="v2", updateTimestamp=rfc3339(NOW), lastContainerStatuses=before, **more)
    annotations = pod.object["metadata"]["annotations"]
    annotations[key] = annotations.pop(IN_PLACE_STATE_ANNOTATION)
    pod.object["spec"]["containers"][0]["image"] = image("v2")
    return pod


@pytest.mark.parametrize("key", [IN_PLACE_STATE_ANNOTATION, IN_PLACE_STATE_LEGACY])
def test_a_pod_that_openkruise_left_in_the_middle_ends(key: str) -> None:
    pod = foreign(key=key)
    assert until(pod) == inf
    pod.starts(id_="c2", shown="v2")
    assert until(pod) is None


def test_of_the_same_bits_it_ends_by_the_start_of_the_container() -> None:
    pod = foreign()
    pod.starts(id_="c2", shown="v1", bits="v1", at=NOW + 2)
    assert until(pod) == SETTLED


def test_and_also_where_the_clock_of_the_node_is_behind() -> None:
    pod = foreign()
    pod.starts(id_="c2", shown="v2", bits="v1", at=NOW - 60)
    assert until(pod) == SETTLED


def resized(was: Any, will: Any, *, written: bool = True) -> ChangingPod:
    pod = ChangingPod(template(container(resources=was)))
    pod.tells(resources=was)
    pod.edit("v2", template(container(resources=will)))
    if written:
        pod.resize()
    return pod


def resize_of(pod: ChangingPod) -> Resize | None:
    return pod.in_progress.resize if pod.in_progress is not None else None


def test_a_resize_is_wanted_then_underway_then_over() -> None:
    pod = resized(asks(), asks(cpu="200m"), written=False)
    assert resize_of(pod) is Resize.PROPOSED
    pod.resize()
    pod.looks()
    assert resize_of(pod) is Resize.IN_PROGRESS
    assert until(pod) == inf
    assert pod.record.ready, "it serves all the time"
    pod.tells(resources=asks(cpu="0.2"))
    assert until(pod) is None


@pytest.mark.parametrize(
    ("type_", "reason", "status", "found"),
    [
        ("PodResizePending", "Deferred", "True", Resize.DEFERRED),
        ("PodResizePending", "Infeasible", "True", Resize.INFEASIBLE),
        ("PodResizeInProgress", "Error", "True", Resize.INFEASIBLE),
        ("PodResizeInProgress", "", "True", Resize.IN_PROGRESS),
        ("PodResizePending", "Infeasible", "False", Resize.IN_PROGRESS),
        ("Ready", "Infeasible", "True", Resize.IN_PROGRESS),
    ],
)
def test_what_the_kubelet_says_of_a_resize(type_: str, reason: str, status: str, found: Resize) -> None:
    pod = resized(asks(), asks(cpu="200m"))
    pod.looks()
    words = {"type": type_, "status": status, "reason": reason, "message": "its words" * 1000}
    pod.object["status"]["conditions"] = [words]
    assert resize_of(pod) is found
    assert pod.in_progress is not None
    assert len(pod.in_progress.problem) < 1000


def test_an_earlier_resizes_condition_says_nothing_of_this_one() -> None:
    pod = resized(asks(), asks(cpu="200m"))
    pod.object["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    assert resize_of(pod) is Resize.IN_PROGRESS


def test_who_resizes_a_pod_later_is_left_alone() -> None:
    pod = resized(asks(), asks(cpu="200m"))
    pod.tells(resources=asks(cpu="200m"))
    pod.object["spec"]["containers"][0]["resources"] = asks(cpu="300m")
    assert resize_of(pod) is Resize.PROPOSED, "not written by anybody: a webhook has put it back at our write"
    pod.object["metadata"]["generation"] += 1
    assert until(pod) is None
    pod.edit("v3", template(container("v3", resources=asks(cpu="200m"))))
    assert "containerResources" not in pod.told, "the next update asks for what it changes"


def test_without_pod_generations_a_later_resize_is_written_again() -> None:
    pod = resized(asks(), asks(cpu="200m"))
    pod.tells(resources=asks(cpu="200m"))
    pod.write(**{**pod.told, "generation": 0})
    pod.object["metadata"]["generation"] = 0
    pod.object["spec"]["containers"][0]["resources"] = asks(cpu="300m")
    assert resize_of(pod) is Resize.PROPOSED


@pytest.mark.parametrize("tag", ["v1", "v2"], ids=["resources alone", "an image too"])
def test_another_change_of_the_spec_before_the_resize_is_not_taken_for_it(tag: str) -> None:
    """Such as a container for debugging; the server may refuse the resize for hours."""
    pod = ChangingPod(template(container(resources=asks())))
    pod.edit("v2", template(container(tag, resources=asks(cpu="200m"))))
    pod.object["metadata"]["generation"] += 1
    assert resize_of(pod) is Resize.PROPOSED
    pod.count()
    pod.object["metadata"]["generation"] += 1
    assert resize_of(pod) is Resize.PROPOSED, "another one, after an attempt that was refused"
    pod.resize()
    pod.object["spec"]["containers"][0]["resources"] = asks(cpu="300m")
    pod.object["metadata"]["generation"] += 1
    assert resize_of(pod) is None, "this one is later"
    pod.count()
    assert resize_of(pod) is None


def test_a_node_that_does_not_tell_what_a_container_has_is_not_waited_for() -> None:
    pod = resized(asks(), asks(cpu="200m"))
    del pod.entry()["resources"]
    assert resize_of(pod) is Resize.IN_PROGRESS
    pod.looks()
    assert until(pod) is None


def test_neither_an_extended_resource_nor_another_container_is_waited_for() -> None:
    gpu = {"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "1"}}
    others = (container(name="bare"), container(name="gpu", resources=gpu))
    was, will = asks(), asks(cpu="200m")
    pod = ChangingPod(template(container(resources=was), *others))
    pod.edit("v2", template(container(resources=will), *others))
    pod.resize()
    pod.tells(resources=will)
    assert until(pod) is None
    pod.write(revision="v2", updateTimestamp=rfc3339(NOW), lastContainerStatuses={}, updateResources=True)
    assert until(pod) is None, "as OpenKruise writes it"


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ({"requests": {"cpu": "1m"}}, {"requests": {"cpu": "2m"}}),
        ({"limits": {"cpu": "1m"}}, {"limits": {"cpu": "10m"}}),
        ({"requests": {"cpu": "1000m"}}, {"requests": {"cpu": "1"}}),
        ({"requests": {"memory": "1Gi"}}, {"requests": {"memory": "1024Mi", "cpu": "1"}}),
    ],
)
def test_what_a_node_gives_has_other_spellings_and_a_least(asked: Any, given: Any) -> None:
    pod = edited("v2")
    pod.object["spec"]["containers"][0]["resources"] = asked
    pod.write(revision="v2", containerResources={"main": asked})
    pod.tells(resources=given)
    assert until(pod) is None


def test_quantities_that_are_none_are_compared_as_texts() -> None:
    pod = edited("v2")
    pod.write(revision="v2", containerResources={"main": {"requests": {"cpu": "9" * 100_000}}})
    assert resize_of(pod) is Resize.PROPOSED
