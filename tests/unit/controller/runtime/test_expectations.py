"""Whether the caches show what we have written ourselves."""

from __future__ import annotations

from controller.runtime.expectations import CacheProgress, Expectations, Stale

LIVE = {"pod-1", "pod-2"}


def look(
    expectations: Expectations, *, pods: int = 0, revisions: int = 0, at: float = 0.0, listed: float = -1.0
) -> Stale | None:
    reached = {
        "pods": CacheProgress(version=pods, listed=listed),
        "controllerrevisions": CacheProgress(version=revisions),
    }
    return expectations.check("ds", reached, LIVE.__contains__, at)


def test_fresh_once_every_cache_has_reached_our_highest_write() -> None:
    expectations = Expectations()
    expectations.expect_version("ds", "pods", "41", 0.0)
    expectations.expect_version("ds", "pods", "43", 0.0)
    expectations.expect_version("ds", "pods", "42", 0.0)
    expectations.expect_version("ds", "controllerrevisions", "40", 0.0)
    stale = look(expectations, pods=42, revisions=40)
    assert stale is not None
    assert (stale.resource, stale.waiting_for) == ("pods", "pods at version 43, have 42")
    assert look(expectations, pods=43, revisions=40) is None
    assert len(expectations._owners) == 0


def test_what_was_seen_once_is_not_asked_again() -> None:
    expectations = Expectations()
    expectations.expect_version("ds", "pods", "43", 0.0)
    expectations.expect_version("ds", "controllerrevisions", "50", 0.0)
    assert look(expectations, pods=43, revisions=49) is not None
    assert look(expectations, pods=0, revisions=50) is None, "a cache that was lost and is filled again was ahead"


def test_owners_do_not_wait_for_each_other() -> None:
    expectations = Expectations()
    expectations.expect_version("other", "pods", "43", 0.0)
    assert look(expectations) is None
    assert len(expectations._owners) == 1
    expectations.forget("other")
    assert len(expectations._owners) == 0


def test_a_deleted_pod_is_waited_for_until_the_cache_shows_it_or_its_version() -> None:
    expectations = Expectations()
    expectations.expect_deletion("ds", "pod-1", 0.0)
    stale = look(expectations, pods=10**6)
    assert stale is not None
    assert stale.waiting_for == "the deletion of pod uid pod-1"
    assert expectations.check("ds", {}, {"pod-2"}.__contains__, 0.0) is None
    expectations.expect_deletion("ds", "pod-1", 0.0, "77")
    assert look(expectations, pods=76) is not None
    assert look(expectations, pods=77) is None


def test_versions_that_are_no_integers_switch_the_gate_off_per_resource() -> None:
    expectations = Expectations()
    expectations.expect_version("ds", "pods", "43", 0.0)
    expectations.expect_version("ds", "pods", "v1:abc", 0.0)
    expectations.expect_version("ds", "pods", "99", 0.0)
    assert look(expectations) is None
    expectations.expect_version("ds", "controllerrevisions", "5", 0.0)
    assert look(expectations) is not None


def test_stale_since_is_when_it_was_first_seen_without_a_break() -> None:
    expectations = Expectations()
    expectations.expect_version("ds", "pods", "43", 0.0)
    for at, overdue in ((10.0, False), (40.0, False), (40.1, True), (41.0, False)):
        stale = look(expectations, at=at)
        assert stale is not None
        assert (stale.since, stale.overdue) == (10.0, overdue), "once"
    assert look(expectations, pods=43, at=41.0) is None
    expectations.expect_version("ds", "pods", "44", 0.0)
    stale = look(expectations, pods=43, at=50.0)
    assert stale is not None
    assert stale.since == 50.0


def test_a_list_asked_for_after_the_answer_has_the_last_word() -> None:
    """After a restored backup versions go back, and what was written beyond them never was."""
    expectations = Expectations()
    expectations.expect_version("ds", "pods", "990", 10.0)
    expectations.expect_deletion("ds", "pod-1", 10.0)
    expectations.expect_deletion("ds", "pod-2", 10.0, "991")
    assert look(expectations, pods=500, listed=10.0) is not None, "it may have been read before"
    assert look(expectations, pods=500, listed=10.1) is None
    expectations.expect_version("ds", "pods", "501", 11.0)
    assert look(expectations, pods=500, listed=10.1) is not None
    assert look(expectations, pods=501, listed=10.1) is None


def test_after_a_restore_only_a_new_list_counts() -> None:
    expectations = Expectations()
    expectations.expect_lists("ds", ["pods"], 5.0)
    assert look(expectations, pods=999, at=6.0) is not None
    assert look(expectations, pods=7, at=6.0, listed=4.9) is not None
    assert look(expectations, pods=7, at=6.0, listed=5.0) is None
