"""Promotes a rollout to its next step: a smaller partition."""

from __future__ import annotations

from msgspec.structs import replace

from controller.api import formats
from controller.api.formats import IntOrPercent
from controller.api.objects import Value
from kubectl_plugin.commands import command
from kubectl_plugin.edits.edit import Edit, settings_of
from kubectl_plugin.edits.partition import set_partition
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.steps import STEPS_ANNOTATION, Steps, steps_of

_FULLY = "fully"


class Goal(Value):
    """The partition that a promotion sets."""

    partition: IntOrPercent
    words: str = ""
    """Such as `to step 3 of 4`, or `fully`; empty for a partition that is not one of the steps."""

    @property
    def is_full(self) -> bool:
        """Whether the promotion was asked for all nodes, not just for the next step."""
        return self.words == _FULLY


def steps_for_promotion(snapshot: Snapshot, desired: int) -> Steps | None:
    """The steps of this DaemonSet; None if it has none. Raises CommandError with exit code 6 for OnDelete and for
    invalid steps."""
    rolling = settings_of(snapshot, "promote")
    return steps_of(snapshot.daemonset.annotations, rolling.partition, desired)


def goal_of(snapshot: Snapshot, steps: Steps | None, desired: int, *, to: IntOrPercent | None) -> Goal | None:
    """The next step, or the partition `to`; None if the partition is 0 already.

    Raises CommandError with exit code 6 where there are no steps and no `to`, and where `to` would raise the
    partition.
    """
    present = settings_of(snapshot, "promote").partition or 0
    if to is not None:
        return _goal_of_partition(snapshot, steps, desired, to)
    if steps is None and formats.scaled(present, desired, round_up=False):
        raise _without_steps(snapshot)
    if steps is None or steps.next is None:
        return None
    return _step_goal(steps, steps.next, desired)


def promote(snapshot: Snapshot, goal: Goal | None) -> Edit:
    """`goal` None: the partition is 0 already, so nothing is written."""
    if goal is None:
        return Edit(result="already promoted fully", operations=())
    edit = set_partition(snapshot, goal.partition)
    words = " ".join(("promoted", goal.words)).rstrip()
    return replace(edit, result=f"{words} ({edit.result})") if edit.operations else edit


def _goal_of_partition(snapshot: Snapshot, steps: Steps | None, desired: int, to: IntOrPercent) -> Goal | None:
    present = settings_of(snapshot, "promote").partition or 0
    kept, wanted = (formats.scaled(one, desired, round_up=False) for one in (present, to))
    if wanted > kept:
        raise CommandError(
            f"cannot promote {snapshot.key.name} to partition {to}: partition {present} lets more nodes update",
            hints=(command("set-partition", snapshot.key, str(to), to="to set it all the same"),),
            exit_code=ExitCode.REFUSED,
        )
    if not wanted:
        return Goal(partition=to, words=_FULLY) if kept else None
    return _step_goal(steps, to, desired) if steps is not None else Goal(partition=to)


def _step_goal(steps: Steps, value: IntOrPercent, desired: int) -> Goal:
    """The goal for the partition `value`. Of steps that come to the same number of nodes the last one counts."""
    passed = [formats.scaled(one, desired, round_up=False) for one in steps.values]
    kept = formats.scaled(value, desired, round_up=False)
    if kept not in passed:
        return Goal(partition=value)
    return Goal(partition=value, words=f"to step {len(passed) - passed[::-1].index(kept)} of {steps.count}")


def _without_steps(snapshot: Snapshot) -> CommandError:
    steps = f"{STEPS_ANNOTATION}=90%,50%,0"
    return CommandError(
        f"{snapshot.key.name} has no steps: it has no annotation {STEPS_ANNOTATION}",
        hints=(
            command("annotate ads", snapshot.key, steps, to="to have steps", program="kubectl"),
            command("promote", snapshot.key, "--to", "50%", to="or without steps"),
        ),
        exit_code=ExitCode.REFUSED,
    )
