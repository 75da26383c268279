"""Who wrote a status, by managedFields, and who is another controller."""

from __future__ import annotations

import pytest

from controller.api.base import JSONObject
from controller.api.meta import epoch
from controller.api.status_writers import OURS, ManagedFields, StatusWriters, status_writers

COUNTS: JSONObject = {"f:status": {"f:numberReady": {}}}
CONDITIONS: JSONObject = {"f:status": {"f:conditions": {}}}
BEFORE, NOON, LATER = "2026-11-21T11:59:59Z", "2026-11-21T12:00:00Z", "2026-11-21T12:00:01Z"
THEM = "kruise-manager"


def entry(manager: str, time: str, fields: JSONObject = COUNTS, subresource: str = "status") -> ManagedFields:
    return ManagedFields(manager=manager, time=time, fields_v1=fields, subresource=subresource)


def writers(*entries: ManagedFields) -> StatusWriters:
    return status_writers(entries)


def test_the_last_of_several_others_is_named() -> None:
    found = writers(entry(OURS, BEFORE), entry("second", LATER), entry("first", NOON))
    assert found == StatusWriters(ours=epoch(BEFORE) or 0, theirs=epoch(LATER) or 0, other="second")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(entry("kubectl-edit", LATER), id="a-person"),
        pytest.param(entry("argocd", LATER, CONDITIONS), id="a-condition-of-its-own"),
        pytest.param(entry(THEM, LATER, subresource=""), id="not-the-status"),
    ],
)
def test_what_is_no_other_controller(other: ManagedFields) -> None:
    assert writers(entry(OURS, NOON), other) == writers(entry(OURS, NOON))


@pytest.mark.parametrize("time", [BEFORE, NOON, LATER])
def test_a_writer_of_our_status_is_a_rival_in_the_same_second_too(time: str) -> None:
    before = writers(entry(OURS, NOON))
    assert writers(entry(OURS, NOON), entry(THEM, time)).rival_since(before) == THEM


def test_a_second_write_of_the_same_one_is_told_by_its_time() -> None:
    before = writers(entry(OURS, NOON), entry(THEM, NOON))
    assert before.rival_since(before) == ""
    assert writers(entry(OURS, NOON), entry(THEM, LATER)).rival_since(before) == THEM


@pytest.mark.parametrize("ours", [NOON, LATER])
def test_our_own_write_makes_no_rival_even_in_a_second_of_take_over(ours: str) -> None:
    left = writers(entry(THEM, NOON))
    taken_over = writers(entry(THEM, NOON), entry(OURS, ours))
    assert taken_over.rival_since(left) == ""
    assert taken_over.rival_wrote == 0
    assert writers(entry(THEM, NOON), entry(OURS, "2026-11-21T12:00:09Z")).rival_since(taken_over) == ""


def test_who_has_just_begun_goes_by_the_times() -> None:
    assert writers(entry(OURS, NOON), entry(THEM, LATER)).rival_wrote == epoch(LATER)
    assert writers(entry(OURS, NOON), entry(THEM, BEFORE)).rival_wrote == 0
    assert writers(entry(THEM, NOON)).rival_wrote == 0


def test_our_write_beside_an_older_one_of_others_makes_no_rival() -> None:
    before = writers(entry(OURS, BEFORE), entry("first", BEFORE), entry(THEM, NOON))
    assert writers(entry(OURS, LATER), entry("first", BEFORE)).rival_since(before) == ""
