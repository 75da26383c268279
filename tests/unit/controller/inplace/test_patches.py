"""What is written to a pod that is updated in place, on the pod as it is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.api.names import (
    HASH_LABEL,
    IN_PLACE_STATE_ANNOTATION,
    LIFECYCLE_STATE_LABEL,
    LIFECYCLE_TIMESTAMP_ANNOTATION,
    PREPARING_DELETE,
    START_IN_PLACE_UPDATE,
)
from controller.api.objects import rfc3339
from controller.api.patch import pointer
from controller.api.pod import PodView
from controller.inplace.patches import cancelling, preparing
from tests.beds.changing_pod import ChangingPod, Json, asks, container, image, template, with_priority
from tests.beds.worlds import NOW


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


# one write for all


def test_image_hash_and_metadata_come_in_one_write() -> None:
    old = template(container("v1"), annotations={"go": "1"}, finalizers=["a/go"])
    pod = ChangingPod(old)
    pod.object["metadata"]["finalizers"].append("a/come")
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
    assert pod.in_progress is None
    assert pod.record.ready


def test_restarts_count_from_the_update_and_without_those_that_it_takes() -> None:
    pod = ChangingPod(template(container("v1"), container("v1", "side")))
    pod.tells("side", restartCount=7)
    pod.tells("main", restartCount=2)
    assert pod.record.restarts == 7
    pod.edit("v2", template(container("v2"), container("v1", "side")), at=NOW - 5)
    assert (pod.record.restarts, pod.record.updated) == (0, NOW - 5)
    pod.starts(id_="n1", shown="v2")
    assert pod.record.restarts == 0
    pod.tells("side", restartCount=8)
    assert pod.record.restarts == 1, "of a container that the update left alone"
    pod.tells("main", restartCount=6)
    assert pod.record.restarts == 3


def test_neither_do_those_count_of_an_update_that_another_one_overtakes() -> None:
    pod = ChangingPod(template(container("v1")))
    pod.edit("v2", template(container("v2")))
    pod.edit("v3", template(container("v3")))
    for number in (1, 2, 3):
        assert pod.record.restarts == 0
        pod.starts(id_=f"n{number}", shown="v3")
    assert pod.record.restarts == 1


def test_whatever_the_templates_say_the_hash_is_ours() -> None:
    """Such labels come with a template that was exported from a pod."""
    pod = ChangingPod(template(container("v1"), labels={"app": "demo", HASH_LABEL: "a"}))
    pod.edit("v2", template(container("v2"), labels={"app": "demo", HASH_LABEL: "b"}))
    assert pod.record.hash == "v2"
    pod.edit("v3", template(container("v3"), labels={"app": "demo"}))
    assert pod.record.hash == "v3"


def test_what_another_client_has_taken_away_or_put_there_meanwhile() -> None:
    pod = ChangingPod(template(container("v1"), annotations={"go": "1"}, finalizers=["a/go"]))
    del pod.object["metadata"]["annotations"], pod.object["metadata"]["finalizers"]
    pod.object["metadata"]["labels"]["mine"] = "yes"
    pod.edit("v2", template(container("v2"), finalizers=["a/come"]))
    assert pod.object["metadata"]["labels"]["mine"] == "yes"
    assert pod.object["metadata"]["finalizers"] == ["a/come"]


def test_a_container_that_a_webhook_put_in_front_stays_as_it_is() -> None:
    pod = ChangingPod(template(container("v1"), container("v1", "side", resources=asks())))
    pod.object["spec"]["containers"].insert(0, container("injected", "mesh"))
    pod.edit("v2", template(container("v1"), container("v2", "side", resources=asks(cpu="200m"))))
    pod.resize()
    assert images(pod) == {"mesh": "injected", "main": "v1", "side": "v2"}
    assert "resources" not in pod.object["spec"]["containers"][0]
    assert has(pod, asks(cpu="200m"), index=2)


# resources of edits that overlap


def edited(*amounts: Json) -> ChangingPod:
    """These edits in a row; no resize was written."""
    first, *rest = (template(container(resources=one)) for one in amounts)
    pod = ChangingPod(first)
    for number, one in enumerate(rest, start=2):
        pod.edit(f"v{number}", one)
    return pod


LOW = {"limits": {"memory": "1Gi"}, "requests": {"memory": "64Mi"}}
MORE = {"limits": {"memory": "2Gi"}, "requests": {"memory": "64Mi"}}
MOST = {"limits": {"memory": "2Gi"}, "requests": {"memory": "128Mi"}}


@pytest.mark.parametrize(
    "amounts",
    [(asks("100m", "64Mi"), asks("200m", "128Mi"), asks("300m", "128Mi")), (LOW, MORE, MOST)],
    ids=["requests", "limits beside requests"],
)
def test_what_only_the_first_edit_asked_for_is_not_lost(amounts: tuple[Json, ...]) -> None:
    pod = edited(*amounts)
    pod.resize()
    assert has(pod, amounts[-1])


@pytest.mark.parametrize(
    ("was", "will", "gets"), [(asks(), asks("200m"), {"requests": {"cpu": "200m"}}), (LOW, MOST, MOST)]
)
def test_a_pod_without_resources_of_its_own_gets_them(was: Json, will: Json, gets: Json) -> None:
    pod = edited(was, will)
    del pod.object["spec"]["containers"][0]["resources"]
    pod.resize()
    assert has(pod, gets)


def test_back_to_the_first_nothing_is_left_to_be_resized() -> None:
    pod = edited(asks(), asks("200m"), asks())
    pod.tells(resources=asks())
    assert pod.in_progress is None


def test_an_edit_of_the_image_alone_keeps_what_was_asked_for() -> None:
    pod = ChangingPod(template(container(resources=asks())))
    pod.edit("v2", template(container(resources=asks("200m"))))
    pod.edit("v3", template(container("v3", resources=asks("200m"))))
    pod.resize()
    assert has(pod, asks("200m"))


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


def test_a_deletion_is_prepared_once_and_leaves_nothing_behind() -> None:
    held = msgspec.convert(
        {
            "metadata": {
                "labels": {LIFECYCLE_STATE_LABEL: PREPARING_DELETE},
                "annotations": {LIFECYCLE_TIMESTAMP_ANNOTATION: rfc3339(NOW)},
            }
        },
        PodView,
    )
    assert preparing(held, NOW) == ()
    removed = [one["path"] for one in cancelling(held, {}) if one["op"] == "remove"]
    assert removed == [
        pointer("metadata", "labels", LIFECYCLE_STATE_LABEL),
        pointer("metadata", "annotations", LIFECYCLE_TIMESTAMP_ANNOTATION),
    ]


# images that another client puts back


def puts_back(pod: ChangingPod, name: str, tag: str) -> None:
    next(one for one in pod.object["spec"]["containers"] if one["name"] == name)["image"] = image(tag)


def taken_back(pod: ChangingPod) -> str:
    return pod.in_progress.reverted_to if pod.in_progress is not None else ""


def test_a_pod_whose_former_image_is_back_is_of_its_former_revision() -> None:
    pod = ChangingPod(template(container("v1")))
    pod.edit("v2", template(container("v2")))
    assert not taken_back(pod)
    puts_back(pod, "main", "mirror-v2")  # as a webhook may, with all images
    assert not taken_back(pod)
    puts_back(pod, "main", "v1")
    assert taken_back(pod) == "v1"
    pod.object["metadata"]["labels"][HASH_LABEL] = "v1"
    assert not taken_back(pod), "it says so itself"


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
