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


def play(pod: ChangingPod, step: str) -> None:
    """One step of a story. A container starts with its id, its image and, after a slash, the bits of that."""
    match step.split():
        case ["edit", tag]:
            pod.edit(tag, template(container(tag)))
        case ["looks"]:
            pod.looks()
        case ["waits", reason]:
            pod.waits(reason=reason)
        case ["ends", code]:
            pod.tells(state={"terminated": {"exitCode": int(code), "containerID": pod.entry()["containerID"]}})
        case ["uncounted", *start]:
            pod.tells(restartCount=0)
            play(pod, " ".join(start))
        case [id_, shown]:
            name, _, bits = shown.partition("/")
            pod.starts(id_=id_, shown=name, bits=bits)


Story = tuple[str, *tuple[tuple[str, float | None], ...]]
MAY_BE_LATE = NOW + OVERLAP_SECONDS
STORIES: dict[str, Story] = {
    "the old container still runs": ("v2", ("looks", inf)),
    "the image asked for": ("v2", ("c2 v2", None)),
    "the old one crashed": ("v2", ("c2 v1/v1", SETTLED)),
    "imageID has changed its form": ("v2", ("c2 v1/another-form-of-v1", None)),
    "an alias of other bits": ("v2", ("c2 v9/v2", None)),
    "an image that cannot be pulled keeps the ids": ("v2", ("looks", inf), ("waits ErrImagePull", inf)),
    "so in back-off": ("v2", ("looks", inf), ("waits ImagePullBackOff", inf)),
    "so in a crash loop": ("v2", ("looks", inf), ("waits CrashLoopBackOff", inf)),
    "a new container that crashes runs no more": ("v2", ("c2 v2", None), ("ends 3", inf)),
    "the first edit's container is not the second's": ("v2 v3", ("c2 v2", inf), ("c3 v3", None)),
    "nor one of three": ("v2 v3 v4", ("uncounted c2 v2", inf), ("uncounted c3 v3", inf), ("c4 v4", None)),
    "the third edit comes when the first's container runs": (
        "v2 v3",
        ("c2 v2", inf),
        ("edit v4", inf),
        ("c3 v3", inf),
        ("c4 v4", None),
    ),
    "images of the same bits": ("v2 v3", ("c2 v2/v2", inf), ("c3 v2/v2", SETTLED)),
    "an unknown container may be the first edit's": ("v2 v3", ("c2 alias/v2", MAY_BE_LATE), ("c3 alias/v2", SETTLED)),
    "a revert after the kubelet has begun": (
        "v2",
        ("c2 v2", None),
        ("edit v1", inf),
        ("looks", inf),
        ("c3 v1", None),
    ),
    "back, and what runs came up late under an alias": (
        "v2 v3",
        ("c2 alias/v2", MAY_BE_LATE),
        ("edit v1", inf),
        ("looks", inf),
    ),
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_until_when_an_update_goes_on(story: Story) -> None:
    tags, *steps = story
    pod = edited(*tags.split())
    for step, over in steps:
        play(pod, step)
        assert until(pod) == over, step
        assert over != inf or not pod.record.ready, "it would be called ready while its program is gone"


@pytest.mark.parametrize(
    ("told", "runs", "asked", "is_pending"),
    [
        (NOW, True, NOW - 9, True),
        (NOW, True, NOW, True),
        (NOW, True, SETTLED, False),
        (NOW + 86_400, True, NOW, False),
        (NOW + 86_400, False, NOW, True),
        (NOW + 86_400, False, NOW + 10**9, True),
    ],
    ids=["by a clock behind", "at first", "settled", "a future is not believed", "nothing runs", "for how long ever"],
)
def test_with_only_another_name_to_go_by_time_tells(told: float, runs: bool, asked: float, is_pending: bool) -> None:
    pod = ChangingPod(V1)
    pod.edit("v2", V2, at=told)
    if runs:
        pod.starts(id_="c2", shown="v1", bits="v1")
    assert pod.in_progress is not None
    assert pod.in_progress.is_pending(asked) is is_pending


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


def test_a_container_is_waited_for_if_the_spec_has_it_whatever_the_status_shows() -> None:
    pod = edited("v2")
    pod.object["status"]["containerStatuses"] = []
    assert until(pod) == inf
    pod.object["status"]["containerStatuses"] = None
    assert until(pod) == inf
    pod.object["spec"]["containers"][0]["name"] = "another"
    assert until(pod) is None


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


def test_a_digest_tells_the_first_edits_container_under_any_name() -> None:
    pod = ChangingPod(V1)
    for tag in ("two", "three"):
        pod.edit(tag, template({"name": "main", "image": f"registry.example/agent@sha256:{tag}"}))
    for id_ in ("c2", "c3"):
        pod.starts(id_=id_, shown="v2", bits="two")
        assert until(pod) == inf
    pod.starts(id_="c4", shown="v3", bits="three")
    assert until(pod) is None


def test_what_was_not_finished_is_not_remembered_without_end() -> None:
    pod = edited(*(f"v{number}" for number in range(2, 40)))
    assert pod.told["unfinishedImages"]["main"] == [image(f"v{number}") for number in range(34, 39)]


# back to what runs


@pytest.mark.parametrize(("observed", "over"), [(True, None), (False, inf), (None, SETTLED)])
@pytest.mark.parametrize("shown", ["v1", "alias"])
@pytest.mark.parametrize("way", [["v2"], ["v2", "v3"]])
def test_a_quick_revert_ends_without_a_restart(
    way: list[str], shown: str, observed: bool | None, over: float | None
) -> None:
    """Also where the node knows the image by another name than the spec."""
    pod = ChangingPod(V1)
    pod.tells(image=image(shown))
    for tag in (*way, "v1"):
        play(pod, f"edit {tag}")
    if observed is None:
        del pod.object["status"]["observedGeneration"]  # an older kubelet
    elif observed:
        pod.looks()
    assert until(pod) == over


# of OpenKruise's controller, which writes no containerID


def foreign(key: str) -> ChangingPod:
    pod = ChangingPod(V1)
    before = {"main": {"imageID": "registry.example/agent@sha256:v1"}}
    pod.write(revision="v2", updateTimestamp=rfc3339(NOW), lastContainerStatuses=before)
    annotations = pod.object["metadata"]["annotations"]
    annotations[key] = annotations.pop(IN_PLACE_STATE_ANNOTATION)
    pod.object["spec"]["containers"][0]["image"] = image("v2")
    return pod


@pytest.mark.parametrize(
    ("key", "shown", "bits", "started", "over"),
    [
        (IN_PLACE_STATE_ANNOTATION, "v2", "", NOW + 1, None),
        (IN_PLACE_STATE_LEGACY, "v2", "", NOW + 1, None),
        (IN_PLACE_STATE_ANNOTATION, "v1", "v1", NOW + 2, SETTLED),
        (IN_PLACE_STATE_ANNOTATION, "v2", "v1", NOW - 60, SETTLED),
    ],
    ids=["new bits", "in the old annotation", "the same bits, by its start", "the node's clock is behind"],
)
def test_a_pod_that_openkruise_left_in_the_middle_ends(
    key: str, shown: str, bits: str, started: float, over: float | None
) -> None:
    pod = foreign(key)
    assert until(pod) == inf
    pod.starts(id_="c2", shown=shown, bits=bits, at=started)
    assert until(pod) == over


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
    ("type_", "reason", "status", "looks", "found"),
    [
        ("PodResizePending", "Deferred", "True", True, Resize.DEFERRED),
        ("PodResizePending", "Infeasible", "True", True, Resize.INFEASIBLE),
        ("PodResizeInProgress", "Error", "True", True, Resize.INFEASIBLE),
        ("PodResizeInProgress", "", "True", True, Resize.IN_PROGRESS),
        ("PodResizePending", "Infeasible", "False", True, Resize.IN_PROGRESS),
        ("Ready", "Infeasible", "True", True, Resize.IN_PROGRESS),
        ("PodResizePending", "Infeasible", "True", False, Resize.IN_PROGRESS),
    ],
)
def test_what_the_kubelet_says_of_a_resize_that_it_has_seen(
    type_: str, reason: str, status: str, looks: bool, found: Resize
) -> None:
    pod = resized(asks(), asks(cpu="200m"))
    if looks:
        pod.looks()
    words = {"type": type_, "status": status, "reason": reason, "message": "its words" * 1000}
    pod.object["status"]["conditions"] = [words]
    assert resize_of(pod) is found
    assert pod.in_progress is not None
    assert len(pod.in_progress.problem) < 1000


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
