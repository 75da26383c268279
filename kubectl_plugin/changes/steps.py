"""The edits of promote and retry: annotations of the steps, which the controller obeys for one revision."""

from __future__ import annotations

from controller.api.daemonset import rollout_of
from controller.api.formats import counted, joined
from controller.api.names import APPROVE_ANNOTATION, RETRY_ANNOTATION, SKIP_STEPS_ANNOTATION
from controller.api.objects import epoch
from kubectl_plugin.changes.edit import ROLLING, Draft, Edit, rollout_after, settings_of
from kubectl_plugin.changes.partition import outcome
from kubectl_plugin.errors import CommandError, ExitCode
from kubectl_plugin.rollout.reasons import checks_words
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.survey import is_observed
from kubectl_plugin.wording import command


def approval(snapshot: Snapshot) -> Edit:
    """Approves the present step. Raises CommandError (exit code 6) if the rollout does not go by steps, or has not
    reached the step: an approval says that someone has looked at its nodes."""
    rolling, live = settings_of(snapshot, "promote"), _live_revision(snapshot)
    record = rollout_of(snapshot.daemonset.status)
    if not rolling.steps:
        raise _without_steps(snapshot)
    if record.aborted_revision is not None:
        raise CommandError(
            f"the rollout of {snapshot.key.name} was aborted: there is nothing to approve",
            hints=(
                command("retry", snapshot.key, to="to try it again"),
                command("promote", snapshot.key, "--full", to="to update all nodes in spite of failures"),
            ),
            exit_code=ExitCode.REFUSED,
        )
    if record.step is None or record.step > len(rolling.steps):
        return Edit(result="needs no approval: this rollout does not go by steps", operations=())
    if record.is_past(len(rolling.steps)):
        return Edit(result="needs no approval: the last step is over", operations=())
    present, at = rolling.steps[record.step - 1], f"step {record.step} of {len(rolling.steps)}"
    if present.approval != "Required":
        return Edit(result=f"needs no approval: {at} ends by itself", operations=())
    reached = epoch(record.step_reached_time)
    if reached is None:
        updated = f"{counted(record.done, 'node', of=record.target)} updated"
        raise CommandError(
            joined(f"{at} of {snapshot.key.name} is not finished: {updated}", checks_words(snapshot.daemonset)),
            hints=(command("status", snapshot.key, "--watch", to="to see when it is"),),
            exit_code=ExitCode.REFUSED,
        )
    draft = Draft(snapshot.document)
    draft.set(f"{live}/{record.step}", "metadata", "annotations", APPROVE_ANNOTATION)
    if not draft.operations:
        return Edit(result=f"already promoted: {at} is approved", operations=())
    soaks = present.soak and reached + present.soak_seconds > snapshot.now
    details = (f"the next step begins when its soak of {present.soak} is over",) if soaks else ()
    if rolling.paused:
        details = ("it is paused: no node is updated before resume",)
    return Edit(result=f"promoted: {at} is approved", operations=draft.operations, details=details)


def full_promotion(snapshot: Snapshot) -> Edit:
    """Lets all nodes get the current revision: without steps, in spite of failures, and without partition. Raises
    CommandError (exit code 6) for OnDelete."""
    rolling, draft = settings_of(snapshot, "promote"), Draft(snapshot.document)
    if rolling.steps or rolling.on_failure is not None:
        live, record = _live_revision(snapshot), rollout_of(snapshot.daemonset.status)
        if record.step is not None or record.aborted_revision is not None:
            draft.set(live, "metadata", "annotations", SKIP_STEPS_ANNOTATION)
    if rolling.partition not in (None, 0, "0%"):
        draft.set(0, *ROLLING, "partition")
    if not draft.operations:
        return Edit(result="already promoted fully", operations=())
    before, after = rollout_after(snapshot), rollout_after(snapshot, draft.operations)
    details, warnings = outcome(snapshot, before, after) if before and after else ((), ())
    return Edit(result="promoted fully", operations=draft.operations, details=details, warnings=warnings)


def another_try(snapshot: Snapshot) -> Edit:
    """Its steps have to be approved anew. Raises CommandError (exit code 6) if the rollout was not aborted."""
    live, record = _live_revision(snapshot), rollout_of(snapshot.daemonset.status)
    if record.aborted_revision is None:
        raise CommandError(
            f"the rollout of {snapshot.key.name} was not aborted: there is nothing to try again",
            hints=(command("status", snapshot.key),),
            exit_code=ExitCode.REFUSED,
        )
    draft = Draft(snapshot.document)
    draft.set(_next_value(live, record.retried), "metadata", "annotations", RETRY_ANNOTATION)
    if not draft.operations:
        return Edit(result="retry is already requested", operations=())
    draft.drop("metadata", "annotations", APPROVE_ANNOTATION)
    return Edit(result="tried again, from the first step", operations=draft.operations)


def _next_value(revision: str, obeyed: str | None) -> str:
    """The controller obeys each value once: `REVISION`, then `REVISION/2`."""
    if obeyed is None or obeyed.partition("/")[0] != revision:
        return revision
    number = obeyed.partition("/")[2]
    return f"{revision}/{int(number) + 1 if number.isdecimal() else 2}"


def _live_revision(snapshot: Snapshot) -> str:
    """The hash of the revision that the spec asks for, which an abort may have taken back. Raises CommandError (exit
    code 6) if it is not known yet."""
    daemonset = snapshot.daemonset
    status = daemonset.status
    live = (rollout_of(status).aborted_revision or status.update_revision) if status is not None else ""
    if not live or not is_observed(daemonset):
        raise CommandError(
            f"the controller has not acted on the newest change of {snapshot.key.name} yet",
            hints=(command("status", snapshot.key),),
            exit_code=ExitCode.REFUSED,
        )
    return live


def _without_steps(snapshot: Snapshot) -> CommandError:
    return CommandError(
        f"{snapshot.key.name} has no steps: updateStrategy.rollingUpdate.steps is not set",
        hints=(
            command("explain ads.spec.updateStrategy.rollingUpdate.steps", to="shows how", program="kubectl"),
            command("set-partition", snapshot.key, "--update", "N", to="to let N nodes update"),
            command("promote", snapshot.key, "--full", to="to update all nodes"),
        ),
        exit_code=ExitCode.REFUSED,
    )
