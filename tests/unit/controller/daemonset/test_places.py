"""Where writes fail: for how long each place is left alone."""

from __future__ import annotations

import pytest

from controller.daemonset.places import FAILING_AT_MOST, FAILING_KEPT, MOST_INCONCLUSIVE, Places
from controller.kube.meaning import ForWrite
from tests.beds.worlds import NOW


def test_a_place_is_left_alone_from_its_second_failure_on_and_longer_each_time() -> None:
    places: Places[str] = Places()
    places.failed("node-3", 100.0)
    assert places.held_back(100.0) == {}, "the first failure may be chance: it is tried again at once"
    places.failed("node-3", 100.0)
    assert places.held_back(100.0) == {"node-3": 101.0}
    places.failed("node-3", 101.0)
    assert places.held_back(102.5) == {"node-3": 103.0}
    assert places.held_back(103.0) == {}
    for _ in range(20):
        places.failed("node-3", 200.0)
    assert places.held_back(200.0) == {"node-3": 200.0 + FAILING_AT_MOST}


def test_of_many_places_that_fail_those_that_wait_are_kept() -> None:
    places: Places[str] = Places()
    for _ in range(2):
        places.failed("node-that-waits", NOW)
    for number in range(FAILING_KEPT):
        places.failed(f"node-{number}", NOW)
    places.failed("one-more", NOW + 0.5)
    assert sorted(places.failing) == ["node-that-waits", "one-more"]


def test_answers_that_say_nothing_of_a_place_make_it_suspect_until_one_goes_through() -> None:
    places: Places[str] = Places()
    for _ in range(MOST_INCONCLUSIVE - 1):
        assert not places.is_suspect("node-3")
        places.note_inconclusive("node-3")
    assert places.is_suspect("node-3")
    places.went_well("node-3")
    assert not places.is_suspect("node-3")


@pytest.mark.parametrize("means", list(ForWrite))
def test_a_failure_counts_at_once_if_it_is_of_the_place_and_else_from_the_third_in_a_row(means: ForWrite) -> None:
    places: Places[str] = Places()
    counts = [places.learn_failure("node-3", means, NOW) for _ in range(MOST_INCONCLUSIVE)]
    assert counts == [means.of_the_place, means.of_the_place, True]
    assert "node-3" in places.failing


def test_a_server_that_is_back_clears_only_the_places_that_were_not_to_blame() -> None:
    places: Places[str] = Places()
    for _ in range(MOST_INCONCLUSIVE + 2):
        places.learn_failure("away", ForWrite.NOT_NOW, NOW)
        places.learn_failure("refused", ForWrite.REFUSED, NOW)
    places.server_back()
    assert list(places.failing) == ["refused"]
    assert not places.is_suspect("away")
