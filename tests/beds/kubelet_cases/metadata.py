"""What restarts nothing: labels, and the conditions of readiness gates."""

from __future__ import annotations

from tests.beds.kubelet_cases.case import another, image
from tests.beds.objects import condition, is_ready
from tests.beds.watched_pod import WatchedPod


async def a_label(pod: WatchedPod) -> None:
    before = await pod.change({"metadata": {"labels": {"colour": "blue"}}})
    after = await pod.until(lambda found: bool(found["metadata"].get("labels")), "labelled")
    assert after["status"] == before["status"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


async def a_label_that_the_environment_reads(pod: WatchedPod) -> None:
    """Only what starts after the change shows it, and one write of image and label is enough for that."""
    before = await pod.change({"metadata": {"labels": {"colour": "blue"}}})
    after = await pod.until(lambda found: bool(found["metadata"].get("labels")), "labelled")
    assert after["status"] == before["status"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert (await pod.environment())["COLOUR"] == ""
    green = {"metadata": {"labels": {"colour": "green"}}}
    before = await pod.change({**green, "spec": {"containers": [{"name": "agent", "image": image("v2")}]}})
    await pod.until(another(before), "another container")
    assert (await pod.environment())["COLOUR"] == "green"


async def a_readiness_gate(pod: WatchedPod) -> None:
    assert condition(pod.seen[-1], "Ready")["reason"] == "ReadinessGatesNotReady"
    await pod.gate("True")
    await pod.until(is_ready, "ready")
    await pod.gate("False")
    found = await pod.until(lambda found: not is_ready(found), "not ready")
    assert condition(found, "Ready")["reason"] == "ReadinessGatesNotReady"
    assert condition(found, "Ready")["message"] == 'the status of pod readiness gate "gate" is not "True", but False'
    assert condition(found, "ContainersReady")["status"] == "True"
    assert found["metadata"]["generation"] == 1
