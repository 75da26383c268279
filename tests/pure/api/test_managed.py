"""Who wrote a status after us, by managedFields."""

from __future__ import annotations

import pytest

from controller.api.base import JSONObject
from controller.api.managed import OURS, ManagedFields, foreign_writer

COUNTS: JSONObject = {"f:status": {"f:numberReady": {}}}
CONDITIONS: JSONObject = {"f:status": {"f:conditions": {}}}
NOON, LATER, BEFORE = "2026-11-21T12:00:00Z", "2026-11-21T12:00:01Z", "2026-11-21T11:59:59Z"


def entry(manager: str, time: str, fields: JSONObject = COUNTS, subresource: str = "status") -> ManagedFields:
    return ManagedFields(manager=manager, time=time, fields_v1=fields, subresource=subresource)


def test_whoever_wrote_counts_after_us_is_named_with_the_time() -> None:
    assert foreign_writer([entry(OURS, NOON), entry("kruise-manager", LATER)]) == ("kruise-manager", LATER)


def test_times_are_whole_seconds_so_a_write_in_the_second_of_ours_counts() -> None:
    assert foreign_writer([entry("kruise-manager", NOON), entry(OURS, NOON)]) == ("kruise-manager", NOON)


def test_of_several_the_last_one_is_named() -> None:
    found = foreign_writer([entry(OURS, BEFORE), entry("second", LATER), entry("first", NOON)])
    assert found == ("second", LATER)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(entry("kruise-manager", BEFORE), id="before-us"),
        pytest.param(entry("kubectl-edit", LATER), id="a-person"),
        pytest.param(entry("argocd", LATER, CONDITIONS), id="a-condition-of-its-own"),
        pytest.param(entry("kruise-manager", LATER, subresource=""), id="not-the-status"),
    ],
)
def test_what_is_no_other_controller(other: ManagedFields) -> None:
    assert foreign_writer([entry(OURS, NOON), other]) == ("", "")


def test_what_was_there_before_our_first_write_is_taken_over() -> None:
    assert foreign_writer([entry("kruise-manager", NOON)]) == ("", "")
