"""Several edits in a row, reverts, and states that others left: which container is whose."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from controller.api.in_place import OVERLAP_SECONDS
from controller.api.meta import rfc3339
from controller.api.wellknown import IN_PLACE_STATE_ANNOTATION, IN_PLACE_STATE_LEGACY
from tests.beds.changing_pod import ChangingPod, container, image, template
from tests.beds.worlds import NOW
from tests.unit.controller.api.test_in_place import SETTLED, V1, V2, V3, edited, until

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
    underway = pod.underway
    assert underway is not None
    assert underway.lasts(NOW + 300)
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
    underway = pod.underway
    assert underway is not None
    assert underway.lasts(NOW - behind)
    assert not underway.lasts(SETTLED)


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
