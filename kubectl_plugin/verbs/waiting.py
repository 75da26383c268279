"""`--wait`: waits for what the change sets going, not for what somebody else changes afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kubectl_plugin.change_options import ActingOptions, DryRun, WaitingOptions
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.durations import seconds_of
from kubectl_plugin.failures import ExitCode, UsageError
from kubectl_plugin.options import StatusOptions
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.status.endings import unfinished_ending
from kubectl_plugin.verbs.deadline import Deadline, TimedOut
from kubectl_plugin.verbs.status_look import brief_at
from kubectl_plugin.verbs.status_watch import follow_up, print_endings


def check_wait_flags(acting: ActingOptions) -> None:
    """Raises UsageError for --timeout or --wait where there is nothing to wait for."""
    if not isinstance(acting, WaitingOptions):
        return
    if not acting.wait and seconds_of(acting.timeout, "--timeout"):
        raise UsageError("--timeout goes with --wait: without it nothing is waited for")
    if acting.wait and (acting.dry_run is not DryRun.NONE or acting.print_patch):
        raise UsageError("--wait waits for what --dry-run and --print-patch do not do")


def deadline_of(invocation: Invocation, acting: ActingOptions) -> Deadline:
    """The deadline of the whole command, including what comes before the write. Raises UsageError."""
    check_wait_flags(acting)
    return Deadline(invocation, acting.timeout if isinstance(acting, WaitingOptions) else "0")


async def wait_if_asked(invocation: Invocation, acting: ActingOptions, changed: Sequence[Snapshot]) -> int:
    """Returns 0 at once without --wait. `changed`: the objects as the server returned them after the change."""
    if not isinstance(acting, WaitingOptions) or not acting.wait or not changed:
        return ExitCode.DONE
    if invocation.output is not None:  # stdout already has the document
        invocation.terminal.quiet = True
        invocation = replace(invocation, output=None)
    deadline = deadline_of(invocation, acting)
    generations = {one.key: one.daemonset.generation for one in changed}
    try:
        async with deadline.enforced():
            return await follow_up(invocation, StatusOptions(timeout=acting.timeout), changed, deadline, generations)
    except TimedOut:  # perhaps the write alone took that long
        endings = [unfinished_ending(brief_at(one, StatusOptions().by)[0], acting.timeout) for one in changed]
        return print_endings(invocation, endings, [one.key.namespace for one in changed])
