"""The shape of every change: operations on one live object, and what they mean. Where rolling updates are set."""

from __future__ import annotations

from typing import Final

from controller.api.base import JSONObject, Value
from controller.api.daemonset import RollingUpdate
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.report.snapshot import Snapshot

ROLLING: Final = ("spec", "updateStrategy", "rollingUpdate")


class Caution(Value):
    """Something a person should know before or after the change; the change is made all the same."""

    text: str
    hints: tuple[str, ...] = ()


class Edit(Value):
    """A change of one DaemonSet: carried out as one JSON Patch that is guarded by the version it was made for."""

    result: str
    """What kubectl would say: `paused`, `partition 16 -> 8`."""
    operations: tuple[JSONObject, ...]
    """Empty: it is so already; nothing is written, and that is no failure."""
    details: tuple[str, ...] = ()
    """Lines under the result."""
    warnings: tuple[Caution, ...] = ()


def settings_of(snapshot: Snapshot, doing: str) -> RollingUpdate:
    """Raises CommandError (6) for OnDelete. `doing`: such as `pause`, or `set the partition of`."""
    daemonset = snapshot.daemonset
    rolling = daemonset.rolling_update
    if rolling is None:
        raise CommandError(
            f"cannot {doing} {daemonset.name}: updateStrategy is OnDelete, pods change only when you delete them",
            hints=(f"kubectl kruise-ds nodes {daemonset.key.typed} --only old",),
            exit_code=ExitCode.REFUSED,
        )
    return rolling
