"""In one word, what a rollout that is Progressing waits for."""

from __future__ import annotations

import pytest

from controller.api.daemonset import DaemonSet, Phase
from controller.api.pod import Pod
from kubectl_plugin.report.status.reasons import reason_of
from kubectl_plugin.report.survey import survey
from tests.beds.snapshots import snapshot
from tests.beds.worlds import ago, ds, everywhere, pod, served

OLD = everywhere(4)
NEW_AT_WORK = pod("node-3", "v2", ready=None, created=ago(9))


@pytest.mark.parametrize(
    ("daemonset", "pods", "word"),
    [
        (ds("v2", max_surge=1), (*OLD, NEW_AT_WORK), "MaxSurgeInUse"),
        (ds("v2", max_surge=2), (*OLD, NEW_AT_WORK), "Updating"),
        (ds("v2", max_surge=2), OLD, "Updating"),
        (ds("v2"), (*everywhere(3), NEW_AT_WORK), "MaxUnavailableInUse"),
        (ds("v2", max_unavailable=2), (*everywhere(3), NEW_AT_WORK), "Updating"),
        (ds("v2"), OLD, "Updating"),
        (ds("v2", max_unavailable=2), (*served("node-0", "node-1", "node-2", rev="v2"), NEW_AT_WORK), "PodsStarting"),
        (ds("v2"), served("node-0", "node-1", "node-2", rev="v2"), "PodsMissing"),
    ],
)
def test_what_is_in_use_or_missing(daemonset: DaemonSet, pods: tuple[Pod, ...], word: str) -> None:
    seen = survey(snapshot(daemonset, pods=pods, nodes=4))
    assert (seen.phase, reason_of(seen).word) == (Phase.PROGRESSING, word)
