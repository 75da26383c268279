"""Which resizes Kubernetes takes, and which restart a container."""

from __future__ import annotations

from typing import Any

import pytest

from controller.inplace.change import Resizing, quality_of_service, resizing_of
from tests.beds.changing_pod import Json, asks, container

FULL = {"cpu": "2", "memory": "4Gi"}
HALF = {"cpu": "1", "memory": "2Gi"}


def spec(*resources: Any, **fields: Any) -> Json:
    return {"containers": [container(name=f"c{n}", resources=one) for n, one in enumerate(resources)], **fields}


def resized(old: Json, new: Json) -> Resizing:
    found = resizing_of(old, new)
    assert isinstance(found, Resizing), found
    return found


def test_requests_that_reach_the_limits_in_one_of_two_containers_are_taken() -> None:
    low, high = {"limits": FULL, "requests": HALF}, {"limits": FULL, "requests": FULL}
    assert resized(spec(low, low), spec(high, low)).resources == {"c0": {"requests": FULL}}


def test_in_both_they_would_make_the_pod_guaranteed() -> None:
    low, high = {"limits": FULL, "requests": HALF}, {"limits": FULL, "requests": FULL}
    words = "spec.containers[].resources: the QoS class would change from Burstable to Guaranteed"
    assert resizing_of(spec(low, low), spec(high, high)) == words
    assert resizing_of(spec(high, high), spec(low, low)) == words.replace(
        "Burstable to Guaranteed", "Guaranteed to Burstable"
    )


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ((None,), "BestEffort"),
        (({},), "BestEffort"),
        (({"limits": {"example.com/gpu": "1"}},), "BestEffort"),
        (({"requests": {"cpu": "0", "memory": "0"}},), "BestEffort"),
        (({"requests": {"cpu": "1m"}},), "Burstable"),
        (({"limits": {"cpu": "1"}},), "Burstable"),
        (({"limits": FULL},), "Guaranteed"),
        (({"limits": FULL, "requests": {"cpu": "2000m", "memory": "4096Mi"}},), "Guaranteed"),
        (({"limits": FULL, "requests": HALF},), "Burstable"),
        (({"limits": {"cpu": "0", "memory": "4Gi"}},), "Burstable"),
        (({"limits": FULL}, None), "Burstable"),
        (({"limits": FULL}, {"limits": HALF}), "Guaranteed"),
    ],
)
def test_the_class_of_a_pod(resources: tuple[Any, ...], quality: str) -> None:
    assert quality_of_service(spec(*resources)) == quality


def test_init_containers_count_too() -> None:
    assert quality_of_service(spec({"limits": FULL}, initContainers=[{"name": "init"}])) == "Burstable"


def test_a_first_request_changes_the_class_even_from_zero() -> None:
    found = resizing_of(spec({"requests": {"cpu": "0"}}), spec({"requests": {"cpu": "100m"}}))
    assert found == "spec.containers[].resources: the QoS class would change from BestEffort to Burstable"


@pytest.mark.parametrize(
    ("policies", "new", "restarts"),
    [
        ({}, asks(cpu="200m"), False),
        ({"cpu": "NotRequired"}, asks(cpu="200m"), False),
        ({"cpu": "RestartContainer"}, asks(cpu="200m"), True),
        ({"cpu": "RestartContainer"}, asks(memory="128Mi"), False),
        ({"memory": "RestartContainer"}, asks(memory="128Mi"), True),
        ({"memory": "RestartContainer"}, asks(cpu="200m", memory="128Mi"), True),
        ({"cpu": "RestartContainer", "memory": "NotRequired"}, asks(memory="64Mi"), False),
    ],
)
def test_a_restart_is_what_the_policy_of_the_very_resource_says(policies: Json, new: Json, restarts: bool) -> None:
    listed = [{"resourceName": name, "restartPolicy": policy} for name, policy in policies.items()]
    old, changed = spec(asks()), spec(new)
    for one in (old, changed):
        one["containers"][0]["resizePolicy"] = listed
    assert resized(old, changed).by_restart == (("c0",) if restarts else ())


def test_the_policy_of_another_container_says_nothing() -> None:
    old, new = spec(asks(), asks()), spec(asks(cpu="200m"), asks())
    for one in (old, new):
        one["containers"][1]["resizePolicy"] = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    assert resized(old, new).by_restart == ()
