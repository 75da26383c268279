"""A change of one DaemonSet as a value: the operations on the live object, and what they mean in words."""

from __future__ import annotations

from typing import Final

from controller.api.daemonset import RollingUpdate
from controller.api.objects import JSONObject, Value
from kubectl_plugin.commands import command
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.report.snapshot import Snapshot

ROLLING: Final = ("spec", "updateStrategy", "rollingUpdate")


class Caution(Value):
    """Something a person should know about a change, which is made all the same."""

    text: str
    hints: tuple[str, ...] = ()


class Application(Value):
    """Fields that the server merges into the object, under the name of their manager."""

    manager: str
    body: JSONObject
    """What is sent: the manifest, and the annotations that are not its own."""
    manifest: JSONObject
    """Empty for what is set beside one."""


class Edit(Value):
    """A change of one DaemonSet. It is written as one JSON Patch, guarded by the resourceVersion that it was made
    for."""

    result: str
    """The result as kubectl would print it: `paused`, `partition 16 -> 8`."""
    operations: tuple[JSONObject, ...]
    """Empty if the object is so already: then nothing is written, and that is no failure."""
    applications: tuple[Application, ...] = ()
    """What is written in place of the operations, which then only describe it, one after the other."""
    details: tuple[str, ...] = ()
    """Lines under the result."""
    warnings: tuple[Caution, ...] = ()


def settings_of(snapshot: Snapshot, doing: str) -> RollingUpdate:
    """The live rolling update settings. Raises CommandError with exit code 6 for OnDelete. `doing`: the verb for its
    message, such as `pause`."""
    daemonset = snapshot.daemonset
    rolling = daemonset.rolling_update
    if rolling is None:
        raise CommandError(
            f"cannot {doing} {daemonset.name}: updateStrategy is OnDelete, pods change only when you delete them",
            hints=(command("nodes", daemonset.key, "--only", "old"),),
            exit_code=ExitCode.REFUSED,
        )
    return rolling
