"""The settings of the rolling update: where they stand, and that OnDelete has none."""

from __future__ import annotations

from typing import Final

from controller.api.daemonset import RollingUpdate
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.report.snapshot import Snapshot

ROLLING: Final = ("spec", "updateStrategy", "rollingUpdate")


def settings_of(snapshot: Snapshot, doing: str) -> RollingUpdate:
    """Raises CommandError (6) for OnDelete. `doing`: such as `pause`, or `set the partition of`."""
    daemonset = snapshot.daemonset
    rolling = daemonset.rolling_update
    if rolling is None:
        raise CommandError(
            f"cannot {doing} {daemonset.name}: updateStrategy is OnDelete, pods change only when you delete them",
            hints=(f"kubectl kruise-ds nodes {daemonset.name} -n {daemonset.namespace} --only old",),
            exit_code=ExitCode.REFUSED,
        )
    return rolling
