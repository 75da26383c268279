"""The annotation that asks for a restart: in a running pod it would restart nothing, so its pods are made anew."""

from __future__ import annotations

import pytest

from controller.api.names import InPlaceRefusal
from controller.api.objects import JSONObject
from controller.inplace.change import InPlaceChange, NotPossible, change_between

KEY = "kubectl.kubernetes.io/restartedAt"
EARLY, LATE, ELSEWHERE = "2026-11-22T10:00:00Z", "2026-11-22T11:00:00Z", "2026-11-22T13:30:00+02:00"


def template(stamp: str | None, image: str = "agent:v1") -> JSONObject:
    annotations: JSONObject = {"team": "agents"} if stamp is None else {"team": "agents", KEY: stamp}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "c", "image": image}]}}


@pytest.mark.parametrize(
    ("was", "will"),
    [(None, EARLY), (EARLY, LATE), (LATE, ELSEWHERE), (EARLY, "at noon"), ("at noon", EARLY), (EARLY, "")],
)
@pytest.mark.parametrize("image", ["agent:v1", "agent:v2"])
def test_a_newer_stamp_takes_new_pods_whatever_else_changes(was: str | None, will: str, image: str) -> None:
    found = change_between(template(was), template(will, image), resizable=False)
    assert found == NotPossible(why=f"metadata.annotations[{KEY}] asks for a restart", refusal=InPlaceRefusal.RESTART)


@pytest.mark.parametrize(("was", "will"), [(EARLY, None), (LATE, EARLY), (EARLY, EARLY)])
def test_going_back_to_before_a_restart_is_none(was: str, will: str | None) -> None:
    found = change_between(template(was), template(will, "agent:v2"), resizable=False)
    assert isinstance(found, InPlaceChange)
    assert found.restarts == ("c",)
    assert found.annotations == ({} if was == will else {KEY: will})
