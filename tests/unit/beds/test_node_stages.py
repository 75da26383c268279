"""What a node does next with a pod, as a table."""

from __future__ import annotations

from typing import Any

import pytest

from tests.beds import objects
from tests.beds.nodes import DEAD, INSTANT, LIFELIKE, MANUAL, Behaviour, statuses
from tests.beds.nodes.stages import next_step, stage_of
from tests.beds.objects import pod

NOW = "2026-11-21T12:00:00Z"
UID = "5d8f3a3e-0000-4000-8000-000000000001"


def pod_in(status: dict[str, Any] | None = None, *, image: str = "busybox", **metadata: Any) -> dict[str, Any]:
    found = pod("one", on="worker-01", image=image, uid=UID, **metadata)
    return found | {"status": status or {"phase": "Pending"}}


NEW = pod_in()
RUNNING = pod_in(statuses.running(NEW, NOW, ready=False))
READY = pod_in(statuses.running(NEW, NOW, ready=True))
CRASHED = pod_in(statuses.crashed(READY, NOW))
FAILED = pod_in(statuses.ended(READY, "Failed", "Evicted", "", NOW))
NO_IMAGE = pod_in(statuses.not_started(NEW, "ErrImagePull", "", NOW))
CHANGED = pod_in(statuses.running(NEW, NOW, ready=True), image="busybox:2", generation=2)
DYING = pod_in(READY["status"], deletionTimestamp=NOW, deletionGracePeriodSeconds=30)
LET_GO = pod_in(READY["status"], deletionTimestamp=NOW, deletionGracePeriodSeconds=0)

SLOW = Behaviour(pull=4, start=2, ready=3, terminate=60, crash=9)


@pytest.mark.parametrize(
    ("found", "behaviour", "after", "outcome"),
    [
        (NEW, INSTANT, 0, "ready"),
        (NEW, LIFELIKE, 1.5, "running"),
        (NEW, SLOW, 6, "running"),
        (NEW, MANUAL, None, ""),
        (NEW, DEAD, None, ""),
        (NEW, Behaviour(start=None), None, ""),
        (NEW, Behaviour(reject="OutOfcpu"), 0, "ended"),
        (NEW, Behaviour(pull=1, missing_images=("busy*",)), 1, "waiting for ['busybox']"),
        (NO_IMAGE, Behaviour(missing_images=("busy*",)), None, ""),
        (NO_IMAGE, INSTANT, 0, "ready"),
        (RUNNING, SLOW, 3, "ready"),
        (RUNNING, Behaviour(ready=None), None, ""),
        (RUNNING, Behaviour(ready=None, crash=5), 5, "crashed"),
        (READY, INSTANT, None, ""),
        (READY, Behaviour(fail=7), 7, "ended"),
        (READY, Behaviour(succeed=8), 8, "ended"),
        (CRASHED, Behaviour(back_off=20), 20, "ready"),
        (FAILED, INSTANT, None, ""),
        (CHANGED, SLOW, None, ""),
        (DYING, INSTANT, 0, "gone"),
        (DYING, SLOW, 30, "gone"),
        (DYING, Behaviour(terminate=None), None, ""),
        (LET_GO, INSTANT, None, ""),
    ],
)
def test_the_next_step(found: dict[str, Any], behaviour: Behaviour, after: float | None, outcome: str) -> None:
    step = next_step(found, stage_of(found), behaviour)
    assert (step and step.after) == after
    if step is not None:
        assert outcome == ("gone" if step.status is None else stage_of(found | {"status": step.status(found, NOW)}))


def test_an_image_that_is_there_is_not_pulled_again() -> None:
    step = next_step(NEW, stage_of(NEW), SLOW, frozenset({"busybox"}))
    assert step is not None
    assert step.after == SLOW.start


def test_images_may_take_their_own_time() -> None:
    behaviour = Behaviour(pull=1, pulls={"*:big": 60})
    assert behaviour.pull_seconds("agent:big") == 60
    assert behaviour.pull_seconds("agent:small") == 1


def test_the_time_of_a_condition_is_that_of_its_change() -> None:
    later = "2026-11-21T12:00:05Z"
    ready = RUNNING | {"status": statuses.running(RUNNING, later, ready=True)}
    assert objects.condition(ready, "Ready")["lastTransitionTime"] == later
    assert objects.condition(ready, "Initialized")["lastTransitionTime"] == NOW
