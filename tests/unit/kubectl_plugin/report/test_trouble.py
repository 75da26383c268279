"""Trouble is what waiting does not mend."""

from __future__ import annotations

import pytest

from kubectl_plugin.report.snapshot import Container, PodDetail
from kubectl_plugin.report.trouble import trouble_of
from tests.beds.snapshots import container, crashing, detail
from tests.beds.worlds import failed, pending, pod

NOT_READY = pod("node-0", ready=None)


@pytest.mark.parametrize(
    ("one", "brief"),
    [
        (detail(NOT_READY, crashing()), "CrashLoopBackOff, exit 1"),
        (detail(NOT_READY, container(ready=False, waiting="ErrImagePull")), "ErrImagePull"),
        (detail(NOT_READY, container(ready=False, exit_code=137, ended="OOMKilled")), "OOMKilled, exit 137"),
        (
            detail(NOT_READY, container(), container("side", ready=False, waiting="InvalidImageName")),
            "InvalidImageName",
        ),
        (detail(failed("node-0"), reason="Evicted"), "Evicted"),
        (detail(failed("node-0"), container(ready=False, exit_code=2)), "Failed, exit 2"),
        (detail(pending("node-0"), unschedulable="0/1 nodes: insufficient cpu"), "Unschedulable"),
        (
            PodDetail(pod=NOT_READY, init_containers=(container("init", ready=False, waiting="CrashLoopBackOff"),)),
            "CrashLoopBackOff",
        ),
        (
            PodDetail(
                pod=NOT_READY,
                init_containers=(container("init", ready=False, waiting="CrashLoopBackOff"),),
                containers=(container(ready=False, waiting="ErrImagePull"),),
            ),
            "CrashLoopBackOff",
        ),
    ],
)
def test_what_is_wrong(one: PodDetail, brief: str) -> None:
    trouble = trouble_of(one)
    assert trouble is not None
    assert trouble.brief == brief


@pytest.mark.parametrize(
    "fine",
    [
        container(ready=False, waiting="ContainerCreating"),
        container(ready=False),
        container(restarts=5, exit_code=1, ended="Error"),
        container(ready=False, exit_code=0, ended="Completed"),
    ],
    ids=["starts", "not ready yet", "failed once and runs again", "ended well"],
)
def test_what_may_still_get_well(fine: Container) -> None:
    assert trouble_of(detail(pod("node-0", ready=None if not fine.ready else 0.0), fine)) is None
