"""Batches of containers in one pod, one after the other: what the next write takes along, and what it waits for."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.names import IN_PLACE_STATE_ANNOTATION, IN_PLACE_STATE_LEGACY
from controller.api.objects import rfc3339
from controller.inplace.patches import batches_of
from tests.beds.changing_pod import ChangingPod, Json, asks, container, image, template, with_priority
from tests.beds.worlds import NOW
from tests.unit.controller.inplace.test_patches import has, images, of


def waits_for(pod: ChangingPod) -> tuple[tuple[str, ...], bool] | None:
    """Containers, and whether the next batch is due."""
    in_progress = pod.in_progress
    return None if in_progress is None else (in_progress.restarting, in_progress.has_next_batch)


# launch priorities


def test_the_first_batch_and_what_waits_for_it() -> None:
    pod = ChangingPod(of("v1", "v1", "v1"))
    pod.edit("v2", of("v2", "v2", "v1"))
    assert images(pod) == {"c1": "v2", "c2": "v1", "c3": "v1"}
    assert pod.told["nextContainerImages"] == {"c2": image("v2")}
    assert pod.told["preCheckBeforeNext"] == {"containersRequiredReady": ["c1"]}
    assert set(pod.told["lastContainerStatuses"]) == {"c1"}


def test_three_batches_end_to_end() -> None:
    pod = ChangingPod(of("v1", "v1", "v1"))
    pod.edit("v2", of("v2", "v2", "v2"))
    for number, name in enumerate(("c1", "c2", "c3"), start=1):
        assert waits_for(pod) == ((name,), False)
        pod.starts(name, id_=f"n{number}", shown="v2")
        if name != "c3":
            assert waits_for(pod) == ((), True)
            pod.go_on()
    assert waits_for(pod) is None
    assert pod.record.restarts == 0
    pod.tells("c1", restartCount=3)
    assert pod.record.restarts == 2
    assert images(pod) == {"c1": "v2", "c2": "v2", "c3": "v2"}
    record = pod.told["containerBatchesRecord"]
    assert [one["containers"] for one in record] == [["c1"], ["c2"], ["c3"]]


def test_an_edit_between_two_batches_takes_what_was_left_along() -> None:
    pod = ChangingPod(of("v1", "v1", "v1"))
    pod.edit("v2", of("v2", "v2", "v1"))
    pod.edit("v3", of("v3", "v2", "v1"))
    assert pod.told["nextContainerImages"] == {"c2": image("v2")}
    assert images(pod) == {"c1": "v3", "c2": "v1", "c3": "v1"}


def test_an_edit_of_another_container_waits_on_for_the_image_before() -> None:
    pod = ChangingPod(of("v1", "v1", "v1"))
    pod.edit("v2", of("v2", "v1", "v1"))
    pod.edit("v3", of("v2", "v2", "v1"))
    assert waits_for(pod) == (("c1", "c2"), False)
    pod.starts("c1", id_="n1", shown="v2")
    pod.starts("c2", id_="n2", shown="v2")
    assert waits_for(pod) is None


def test_the_image_of_a_later_batch_that_was_abandoned_is_not_waited_for() -> None:
    pod = ChangingPod(of("v1", "v1", "v1"))
    pod.edit("v2", of("v1", "v2", "v1"))
    pod.edit("v3", of("v3", "v3", "v1"))
    assert waits_for(pod) == (("c1",), False)
    pod.starts("c1", id_="n1", shown="v3")
    assert waits_for(pod) == ((), True)
    pod.go_on()
    assert images(pod) == {"c1": "v3", "c2": "v3", "c3": "v1"}


def test_who_reads_a_label_that_changes_keeps_its_turn_and_starts_with_it() -> None:
    """All labels come with the first batch, so no node has to join another one for them."""

    def reading(tag: str, track: str) -> Any:
        made = of(tag, tag, tag, labels={"app": "demo", "track": track})
        variable = {"name": "TRACK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['track']"}}}
        for one in made["spec"]["containers"][1:]:
            one["env"] = [*one["env"], variable]
        return made

    pod = ChangingPod(reading("v1", "a"))
    pod.edit("v2", reading("v2", "b"))
    for number, name in enumerate(("c1", "c2", "c3"), start=1):
        assert pod.object["metadata"]["labels"]["track"] == "b"
        assert list(images(pod).values()) == ["v2"] * number + ["v1"] * (3 - number)
        assert waits_for(pod) == ((name,), False)
        pod.starts(name, id_=f"n{number}", shown="v2")
        if number < 3:
            pod.go_on()
    assert waits_for(pod) is None


@pytest.mark.parametrize("third", [False, True], ids=["by the next batch", "by a third edit"])
def test_an_abandoned_image_that_comes_late_ends_no_later_batch(third: bool) -> None:
    """The kubelet still pulls it when its container's turn comes."""
    pod, last = ChangingPod(of("v1", "v1")), "v4" if third else "v3"
    pod.edit("v2", of("v1", "v2"))
    pod.edit("v3", of("v2", "v3"))
    pod.starts("c1", id_="n1", shown="v2")
    if third:
        pod.edit("v4", of("v2", "v4"))
    else:
        pod.go_on()
    assert images(pod) == {"c1": "v2", "c2": last}
    pod.starts("c2", id_="n2", shown="v2")
    assert waits_for(pod) == (("c2",), False)
    assert not pod.record.ready
    pod.starts("c2", id_="n3", shown=last)
    assert waits_for(pod) is None


def test_who_resizes_a_pod_between_two_batches_is_left_alone() -> None:
    pod = ChangingPod(template(*({**with_priority(f"c{n}", f"p_{20 - n}"), "resources": asks()} for n in (1, 2))))
    new = template(
        *({**with_priority(f"c{n}", f"p_{20 - n}"), "image": image("v2"), "resources": asks("200m")} for n in (1, 2))
    )
    pod.edit("v2", new)
    pod.resize()
    pod.starts("c1", id_="n1", shown="v2")
    for number, name in enumerate(("c1", "c2")):
        pod.tells(name, resources=asks("200m"))
        pod.object["spec"]["containers"][number]["resources"] = asks("300m")
    pod.object["metadata"]["generation"] += 1
    pod.go_on()
    pod.resize()
    pod.starts("c2", id_="n2", shown="v2")
    assert waits_for(pod) is None
    assert has(pod, asks("300m"))


# of OpenKruise's controller


def left(**state: Any) -> ChangingPod:
    """Which left the pod in the middle, its first batch done."""
    pod = ChangingPod(template(container("v1", resources=asks())))
    pod.write(revision="v1", updateTimestamp=rfc3339(NOW), lastContainerStatuses={}, **state)
    return pod


REST = {
    "nextContainerImages": {"main": image("v2")},
    "nextContainerResources": {"main": asks("200m")},
    "nextContainerRefMetadata": {"main": {"labels": {"team": "x"}, "annotations": {"note": "y"}}},
}


def test_the_batch_that_it_left_is_done_as_it_wanted() -> None:
    pod = left(**REST)
    annotations = pod.object["metadata"]["annotations"]
    annotations[IN_PLACE_STATE_LEGACY] = annotations.pop(IN_PLACE_STATE_ANNOTATION)
    pod.go_on()
    pod.resize()
    assert images(pod) == {"main": "v2"}
    assert has(pod, asks("200m"))
    assert pod.object["metadata"]["labels"]["team"] == "x"
    assert pod.object["metadata"]["annotations"]["note"] == "y"


def test_an_image_put_back_of_an_unknown_revision_is_not_awaited_forever() -> None:
    pod = left(**REST)
    pod.go_on()
    pod.resize()
    pod.tells(resources=asks("200m"))
    pod.object["spec"]["containers"][0]["image"] = image("v1")
    assert pod.in_progress is not None
    pod.looks()
    assert pod.in_progress is None


def test_an_edit_that_comes_first_takes_it_along() -> None:
    pod = left(**{key: one for key, one in REST.items() if key != "nextContainerImages"})
    pod.edit("v2", template(container("v2", resources=asks())))
    pod.resize()
    assert has(pod, asks("200m"))
    assert pod.object["metadata"]["labels"]["team"] == "x"
    assert pod.object["metadata"]["annotations"]["note"] == "y"


@pytest.mark.parametrize(
    "rest",
    [
        {"nextContainerImages": {"ghost": "x"}},
        {"nextContainerRefMetadata": [1]},
        {"nextContainerRefMetadata": {"main": "x"}},
        {"nextContainerRefMetadata": {"main": {"labels": ["x"]}}},
        {"nextContainerResources": {"ghost": asks()}},
        {"nextContainerImages": {"main": "x"}, "containerBatchesRecord": "x"},
    ],
)
def test_whatever_was_written_there_one_write_ends_it(rest: Json) -> None:
    pod = left(**rest)
    assert pod.in_progress is not None
    assert pod.in_progress.has_next_batch
    pod.go_on()
    assert not [key for key in pod.told if key.startswith("next")]


def test_without_a_state_there_is_no_next_batch() -> None:
    pod = ChangingPod(template(container("v1")))
    before = dict(pod.object["metadata"])
    pod.go_on()
    assert pod.object["metadata"] == before


FOUR = [*(with_priority(*one) for one in (("c1", "p_20"), ("c2", "p_10"), ("c3", "p_0"))), with_priority("c4", "p_0")]


BARE = [container(name="a"), container(name="b")]
LATE = [with_priority("late", "p_-5"), FOUR[2]]


@pytest.mark.parametrize(
    ("containers", "changed", "batches"),
    [
        (FOUR, ("c1", "c2"), (("c1",), ("c2",))),
        (FOUR, ("c1", "c2", "c4"), (("c1",), ("c2",), ("c4",))),
        (FOUR, ("c4", "c3", "c1"), (("c1",), ("c3", "c4"))),
        (FOUR, ("c4",), (("c4",),)),
        (FOUR, (), ()),
        (FOUR, ("ghost", "c1", "c2"), (("c1", "ghost"), ("c2",))),
        ([*FOUR, container(name="free")], ("c2", "c3", "free"), (("c2", "free"), ("c3",))),
        (BARE, ("b", "a"), (("a", "b"),)),
        (LATE, ("late", "c3"), (("c3",), ("late",))),
    ],
)
def test_the_highest_priority_first_with_what_has_none(
    containers: list[Json], changed: tuple[str, ...], batches: tuple[tuple[str, ...], ...]
) -> None:
    assert batches_of(containers, changed) == batches


@pytest.mark.parametrize("key", ["p_", "p_x", "20", "p_--5", "p_1.5", "p_" + "9" * 40, "", None, ["p_1"]])
def test_what_is_no_priority_is_none(key: Any) -> None:
    assert batches_of([FOUR[0], with_priority("odd", key)], ("c1", "odd"))[0] in (("c1", "odd"), ("odd",))
