"""What is written to a pod that is updated in place, on the pod as it is."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.meta import rfc3339
from controller.api.wellknown import (
    HASH_LABEL,
    IN_PLACE_STATE_ANNOTATION,
    IN_PLACE_STATE_LEGACY,
    START_IN_PLACE_UPDATE,
)
from tests.beds.changing_pod import ChangingPod, Json, asks, container, image, template
from tests.beds.worlds import NOW
from tests.unit.controller.planner.in_place.test_priority import with_priority


def images(pod: ChangingPod) -> dict[str, str]:
    return {one["name"]: one["image"].rpartition(":")[2] for one in pod.object["spec"]["containers"]}


def has(pod: ChangingPod, resources: Json, index: int = 0) -> bool:
    """In these very words."""
    return bool(pod.object["spec"]["containers"][index]["resources"] == resources)


def of(*tags: str, **metadata: Any) -> Any:
    """Three containers with falling priorities, or as many as are given."""
    keys = ("p_20", "p_10", "p_0")
    made = [{**with_priority(f"c{n}", keys[n - 1]), "image": image(tag)} for n, tag in enumerate(tags, start=1)]
    return template(*made, **metadata)


def waits_for(pod: ChangingPod) -> tuple[tuple[str, ...], bool] | None:
    """Containers, and whether the next batch is due."""
    underway = pod.underway
    return None if underway is None else (underway.restarting, underway.continues)


# one write for all


def test_image_hash_and_metadata_come_in_one_write() -> None:
    old = template(container("v1"), annotations={"go": "1"}, finalizers=["a/go"])
    pod = ChangingPod(old)
    pod.edit("v2", template(container("v2"), labels={"app": "demo", "team": "x"}, finalizers=["a/come"]))
    metadata = pod.object["metadata"]
    assert images(pod) == {"main": "v2"}
    assert metadata["labels"] == {"app": "demo", "team": "x", HASH_LABEL: "v2"}
    assert list(metadata["annotations"]) == [IN_PLACE_STATE_ANNOTATION]
    assert metadata["finalizers"] == ["a/come"]


def test_the_state_is_readable_by_who_knows_openkruises() -> None:
    pod = ChangingPod(template(container("v1")))
    pod.edit("v2", template(container("v2")))
    told = pod.told
    assert told["revision"] == "v2"
    assert told["updateTimestamp"] == rfc3339(NOW)
    assert told["updateImages"] is True
    assert told["lastContainerStatuses"]["main"]["imageID"] == "registry.example/agent@sha256:v1"
    assert told["containerBatchesRecord"] == [{"timestamp": rfc3339(NOW), "containers": ["main"]}]
    assert not {"nextContainerImages", "preCheckBeforeNext", "updateResources", "containerResources"} & told.keys()


def test_labels_alone_leave_the_containers_alone() -> None:
    pod = ChangingPod(template(container("v1")))
    pod.edit("v2", template(container("v1"), labels={"app": "demo", "team": "x"}))
    assert pod.told["lastContainerStatuses"] == {}
    assert pod.underway is None
    assert pod.record.ready


@pytest.mark.parametrize("key", ["controller-revision-hash"])
def test_whatever_the_templates_say_the_hash_is_ours(key: str) -> None:
    """Such labels come with a template that was exported from a pod."""
    pod = ChangingPod(template(container("v1"), labels={"app": "demo", key: "a"}))
    pod.edit("v2", template(container("v2"), labels={"app": "demo", key: "b"}))
    assert pod.record.hash == "v2"
    pod.edit("v3", template(container("v3"), labels={"app": "demo"}))
    assert pod.record.hash == "v3"


def test_what_somebody_has_taken_away_or_put_there_meanwhile() -> None:
    pod = ChangingPod(template(container("v1"), annotations={"go": "1"}, finalizers=["a/go"]))
    del pod.object["metadata"]["annotations"], pod.object["metadata"]["finalizers"]
    pod.object["metadata"]["labels"]["mine"] = "yes"
    pod.edit("v2", template(container("v2"), finalizers=["a/come"]))
    assert pod.object["metadata"]["labels"]["mine"] == "yes"
    assert pod.object["metadata"]["finalizers"] == ["a/come"]


def test_a_container_that_a_webhook_put_in_front_keeps_its_image() -> None:
    pod = ChangingPod(template(container("v1"), container("v1", "side")))
    pod.object["spec"]["containers"].insert(0, container("injected", "mesh"))
    pod.edit("v2", template(container("v1"), container("v2", "side")))
    assert images(pod) == {"mesh": "injected", "main": "v1", "side": "v2"}


def test_resources_go_to_the_right_one_too() -> None:
    pod = ChangingPod(template(container(resources=asks())))
    pod.object["spec"]["containers"].insert(0, container("injected", "mesh"))
    pod.edit("v2", template(container(resources=asks(cpu="200m"))))
    pod.resize()
    assert "resources" not in pod.object["spec"]["containers"][0]
    assert has(pod, asks(cpu="200m"), index=1)


# resources of edits that overlap


def edited(*amounts: Json) -> ChangingPod:
    """These edits in a row; no resize was written."""
    first, *rest = (template(container(resources=one)) for one in amounts)
    pod = ChangingPod(first)
    for number, one in enumerate(rest, start=2):
        pod.edit(f"v{number}", one)
    return pod


def test_what_the_first_edit_asked_for_and_the_second_did_not_change_is_not_lost() -> None:
    pod = edited(asks("100m", "64Mi"), asks("200m", "128Mi"), asks("300m", "128Mi"))
    pod.resize()
    assert has(pod, asks("300m", "128Mi"))


def test_nor_that_of_limits_beside_requests() -> None:
    low = {"limits": {"memory": "1Gi"}, "requests": {"memory": "64Mi"}}
    pod = edited(
        low, {**low, "limits": {"memory": "2Gi"}}, {"limits": {"memory": "2Gi"}, "requests": {"memory": "128Mi"}}
    )
    pod.resize()
    assert has(pod, {"limits": {"memory": "2Gi"}, "requests": {"memory": "128Mi"}})


def test_back_to_the_first_nothing_is_left_to_be_resized() -> None:
    pod = edited(asks(), asks("200m"), asks())
    pod.tells(resources=asks())
    assert pod.underway is None


def test_an_edit_of_the_image_alone_keeps_what_was_asked_for() -> None:
    pod = ChangingPod(template(container(resources=asks())))
    pod.edit("v2", template(container(resources=asks("200m"))))
    pod.edit("v3", template(container("v3", resources=asks("200m"))))
    pod.resize()
    assert has(pod, asks("200m"))


def test_a_pod_without_resources_of_its_own_gets_them() -> None:
    pod = edited(asks(), asks("200m"))
    del pod.object["spec"]["containers"][0]["resources"]
    pod.resize()
    assert has(pod, {"requests": {"cpu": "200m"}})


def test_it_gets_limits_beside_requests() -> None:
    both = [{"limits": {"cpu": limit}, "requests": {"cpu": request}} for limit, request in (("1", "1m"), ("2", "2m"))]
    pod = edited(*both)
    del pod.object["spec"]["containers"][0]["resources"]
    pod.resize()
    assert has(pod, both[1])


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
    """All labels come with the first batch, so nobody has to join another one for them."""

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


def test_an_abandoned_image_that_comes_late_ends_no_later_batch() -> None:
    """The kubelet still pulls it when its container's turn comes."""
    pod = ChangingPod(of("v1", "v1"))
    pod.edit("v2", of("v1", "v2"))
    pod.edit("v3", of("v2", "v3"))
    pod.starts("c1", id_="n1", shown="v2")
    pod.go_on()
    assert images(pod) == {"c1": "v2", "c2": "v3"}
    pod.starts("c2", id_="n2", shown="v2")
    assert waits_for(pod) == (("c2",), False)
    assert not pod.record.ready
    pod.starts("c2", id_="n3", shown="v3")
    assert waits_for(pod) is None


def test_nor_does_it_end_a_third_edit_that_comes_before_its_container_s_turn() -> None:
    pod = ChangingPod(of("v1", "v1"))
    pod.edit("v2", of("v1", "v2"))
    pod.edit("v3", of("v2", "v3"))
    pod.starts("c1", id_="n1", shown="v2")
    pod.edit("v4", of("v2", "v4"))
    assert images(pod) == {"c1": "v2", "c2": "v4"}
    pod.starts("c2", id_="n2", shown="v2")
    assert waits_for(pod) == (("c2",), False)
    assert not pod.record.ready


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


def test_where_nobody_knows_the_revision_before_an_image_that_is_put_back_is_not_waited_for_without_end() -> None:
    pod = left(**REST)
    pod.go_on()
    pod.resize()
    pod.tells(resources=asks("200m"))
    pod.object["spec"]["containers"][0]["image"] = image("v1")
    assert pod.underway is not None
    pod.looks()
    assert pod.underway is None


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
def test_whatever_somebody_has_written_there_it_is_done_with_after_one_write(rest: Json) -> None:
    pod = left(**rest)
    assert pod.underway is not None
    assert pod.underway.continues
    pod.go_on()
    assert not [key for key in pod.told if key.startswith("next")]


def test_without_a_state_there_is_no_next_batch() -> None:
    pod = ChangingPod(template(container("v1")))
    before = dict(pod.object["metadata"])
    pod.go_on()
    assert pod.object["metadata"] == before


# not ready


def test_a_pod_with_the_gate_is_drained_by_one_write() -> None:
    pod = ChangingPod(template(container("v1")))
    pod.drain()
    (gate,) = pod.record.gates
    assert (gate.open, gate.draining, gate.since) == (False, True, NOW)
    assert not pod.record.ready
    seen = pod.object
    pod.drain(NOW + 60)
    assert pod.object == seen, "it is drained since the first time"


def test_a_pod_without_it_is_not() -> None:
    pod = ChangingPod(template(container("v1")), gate=False)
    pod.drain()
    assert START_IN_PLACE_UPDATE not in str(pod.object)
    assert pod.record.ready


# images that somebody puts back


def puts_back(pod: ChangingPod, name: str, tag: str) -> None:
    next(one for one in pod.object["spec"]["containers"] if one["name"] == name)["image"] = image(tag)


def taken_back(pod: ChangingPod) -> str:
    return pod.underway.taken_back if pod.underway is not None else ""


def test_a_pod_whose_former_image_is_back_is_of_its_former_revision() -> None:
    pod = ChangingPod(template(container("v1")))
    pod.edit("v2", template(container("v2")))
    assert not taken_back(pod)
    puts_back(pod, "main", "v1")
    assert taken_back(pod) == "v1"
    pod.object["metadata"]["labels"][HASH_LABEL] = "v1"
    assert not taken_back(pod), "it says so itself"


def test_another_image_than_was_asked_for_is_not_put_back() -> None:
    """A webhook may send all images to a mirror."""
    pod = ChangingPod(template(container("v1")))
    pod.edit("v2", template(container("v2")))
    puts_back(pod, "main", "mirror-v2")
    assert not taken_back(pod)


def test_going_back_to_an_earlier_image_is_not_putting_it_back() -> None:
    pod = ChangingPod(template(container("v1")))
    pod.edit("v2", template(container("v2")))
    pod.edit("v1", template(container("v1")))
    assert not taken_back(pod)
    puts_back(pod, "main", "v2")
    assert taken_back(pod) == "v2"


@pytest.mark.parametrize("name", ["c1", "c2"])
def test_images_of_earlier_batches_are_looked_after_too(name: str) -> None:
    pod = ChangingPod(of("v1", "v1"))
    pod.edit("v2", of("v2", "v2"))
    pod.starts("c1", id_="c2", shown="v2")
    pod.go_on()
    assert not taken_back(pod)
    puts_back(pod, name, "v1")
    assert taken_back(pod) == "v1"
