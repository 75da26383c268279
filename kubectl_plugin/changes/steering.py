"""The edits of pause and resume; of restart, an annotation of the template, as with `kubectl rollout restart`; and of
promote and retry, annotations that the controller obeys for one revision."""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.daemonset import rollout_of
from controller.api.formats import counted, joined
from controller.api.names import APPROVE_ANNOTATION, RESTARTED_AT, RETRY_ANNOTATION, SKIP_STEPS_ANNOTATION
from controller.api.objects import epoch, rfc3339
from controller.planner.explanation import NodeState
from controller.planner.rollout_state import RolloutState
from kubectl_plugin.changes.edit import (
    ROLLING,
    Caution,
    Draft,
    Edit,
    Operation,
    cautions,
    edit_of,
    on_delete_caution,
    pause_caution,
    revision_of,
    rollout_after,
    settings_of,
)
from kubectl_plugin.changes.settings import outcome
from kubectl_plugin.errors import CommandError, ExitCode
from kubectl_plugin.rollout.reasons import checks_words
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.survey import is_observed, survey
from kubectl_plugin.wording import between, command


def pause(snapshot: Snapshot) -> Edit:
    """Needs no pods or nodes; see `what_stops`. Raises CommandError (exit code 6) for OnDelete."""
    if settings_of(snapshot, "pause").paused:
        return Edit(result="already paused", operations=())
    draft = Draft(snapshot.document)
    draft.set(True, *ROLLING, "paused")
    return Edit(result="paused", operations=draft.operations, warnings=cautions(snapshot))


def resume(snapshot: Snapshot) -> Edit:
    """Raises CommandError (exit code 6) for OnDelete."""
    if not settings_of(snapshot, "resume").paused:
        return Edit(result="not paused", operations=())
    draft = Draft(snapshot.document)
    draft.set(False, *ROLLING, "paused")
    return edit_of(snapshot, draft, "resumed")


def what_stops(snapshot: Snapshot, operations: tuple[Operation, ...] = ()) -> tuple[str, ...]:
    """The nodes that the pause stops once `operations` are written; empty if pods or nodes are unreadable."""
    rollout = rollout_after(snapshot, operations)
    if rollout is None:
        return ()
    revision, desired = revision_of(snapshot, rollout), rollout.budget.desired
    updated = sum(node.current is not None for node in rollout.eligible)
    on_it = f"{counted(updated, 'node', 'is', of=desired)} on {revision}"
    if updated == desired:
        return (f"{on_it}; a later one is not rolled out before resume",)
    return (f"{on_it}; no more will be updated", f"not stopped: {', '.join(_nodes_going_on(snapshot, rollout))}")


def _nodes_going_on(snapshot: Snapshot, rollout: RolloutState) -> Iterator[str]:
    updating = [row.node for row in survey(snapshot).rows_in(NodeState.UPDATING)]
    if updating:
        yield f"{between(updating)} (already updating)"
    yield "lost pods (they come back as they were)"
    if rollout.older and not rollout.progressive and rollout.frozen:
        older = f"revision {rollout.older[0].number}" if snapshot.revisions_readable else "an older revision"
        yield f"new nodes (they get {older})"
    else:
        yield "new nodes"


def restart(snapshot: Snapshot) -> Edit:
    """Uses the snapshot's time in whole seconds, so that two calls within a second are one restart. Partition,
    selector and budget apply as in any update."""
    draft = Draft(snapshot.document)
    draft.set(rfc3339(snapshot.now), "spec", "template", "metadata", "annotations", RESTARTED_AT)
    if not draft.operations:
        return Edit(result="already restarted", operations=())
    warnings = (on_delete_caution(snapshot), pause_caution(snapshot), _abort_caution(snapshot))
    return edit_of(snapshot, draft, "restarted", *warnings)


def _abort_caution(snapshot: Snapshot) -> Caution | None:
    """The spec keeps the aborted template, also once no node has it any more."""
    if rollout_of(snapshot.daemonset.status).aborted_revision is None:
        return None
    return Caution(
        text=f"the rollout of {snapshot.key.name} was aborted: a restart rolls the same template out once more",
        hints=(command("rollback", snapshot.key, to="to go back to the stable one first"),),
    )


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
