"""What `status` reads: the chosen objects, and everything that is known of each at one moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace
from rich.text import Text

from controller.api.daemonset import Phase
from controller.api.objects import Key
from kubectl_plugin.cluster import controller_lease, reads
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.cluster.last_log_line import LastLogLines
from kubectl_plugin.failures import CommandError, UsageError
from kubectl_plugin.flags import Output
from kubectl_plugin.options import StatusOptions as Asked
from kubectl_plugin.paint.status_block import Detail, outline, status_block
from kubectl_plugin.paint.status_view import StatusView
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.status.brief import Brief, brief_of, stated_brief
from kubectl_plugin.report.status.document import RolloutStatus, rollout_status
from kubectl_plugin.report.status.endings import Awaited
from kubectl_plugin.report.status.problems import runs_without_words, with_words
from kubectl_plugin.report.survey import Survey, UnreadableSpecError, survey
from kubectl_plugin.terminal import WIDEST


@dataclass(frozen=True)
class Look:
    """One object at one moment."""

    brief: Brief
    status: RolloutStatus
    blocker: str = ""
    """Why its nodes cannot be listed one by one; empty if they can."""
    absence: str = ""
    """Why no controller seems to be active; only looked up while the rollout is Pending."""

    @property
    def survey(self) -> Survey | None:
        return self.brief.survey


def wanted_of(asked: Asked) -> Awaited:
    """What the flags say to wait for."""
    return Awaited(**{field: getattr(asked, field) for field in Awaited.__struct_fields__})


async def choose_objects(
    invocation: Invocation, asked: Asked, *, complete: bool = True
) -> tuple[tuple[Snapshot, ...], tuple[CommandError, ...]]:
    """The objects of the command line, or all of the namespace, and an error for each that was named but does not
    exist. `complete`: with their pods and nodes.

    Raises UsageError for several objects and a flag, such as --revision, that is about one.
    """
    keys: list[Key] | None = None
    if asked.given:
        if asked.names or asked.selector or asked.all_namespaces:
            raise UsageError("give names, -l and -A, or -f and -k, not both")
        from kubectl_plugin.cluster import manifests

        read, _ = await manifests.read_manifests(asked, invocation.host)
        keys = [Key(one.namespace or invocation.session.namespace, one.name) for one in read]
    elif asked.names and not (asked.selector or asked.all_namespaces):
        keys = [reads.key_of(invocation, name) for name in asked.names]
    absent: tuple[CommandError, ...] = ()
    if keys is None:
        found = await reads.snapshots(invocation, asked.names, asked, nodes=complete, pods=complete)
    else:
        found, absent = await reads.existing_snapshots(invocation, keys, nodes=complete, pods=complete)
    numbers = {"--revision": asked.revision, "--generation": asked.generation}
    several = len(found) + len(absent)
    for flag in (flag for flag, number in numbers.items() if number is not None and several > 1):
        raise UsageError(f"{flag} counts the changes of one DaemonSet, and these are {several}: name one")
    return found, absent


async def look_at(
    invocation: Invocation,
    asked: Asked,
    snapshot: Snapshot,
    *,
    words: LastLogLines | None = None,
    presence: Callable[[float], Awaitable[str | None]] | None = None,
) -> Look:
    """`words` keeps log lines between looks. `presence`: why no controller is active; None asks the server anew."""
    brief, blocker = brief_at(snapshot, asked.by)
    status = rollout_status(brief)
    runs = runs_without_words(snapshot.key.namespace, status.problems)
    if runs:
        found = await (words or LastLogLines(invocation.session)).of(runs) if asked.logs else {}
        status = replace(status, problems=with_words(snapshot.key.namespace, status.problems, found))
    ask = presence or partial(controller_lease.why_no_controller, invocation.session)
    absence = await ask(snapshot.now) if brief.phase is Phase.PENDING else None
    return Look(brief, status, blocker, absence or "")


def brief_at(snapshot: Snapshot, by: str) -> tuple[Brief, str]:
    """The brief worked out from the nodes, or where they cannot be listed one by one, from the controller's own
    status; and the reason for that, else empty."""
    if not snapshot.pods_readable:
        words = f"the nodes of {snapshot.daemonset.name} cannot be told without the right to list pods"
        return stated_brief(snapshot), words
    try:
        return brief_of(survey(snapshot, by)), ""
    except UnreadableSpecError as error:
        return stated_brief(snapshot), error.message


def painted_lines(invocation: Invocation, one: Look, detail: Detail = Detail.ALL) -> list[Text]:
    """The lines of one object on this terminal; a single line where its nodes cannot be listed one by one."""
    terminal, wide = invocation.terminal, invocation.output is Output.WIDE
    if one.survey is None:
        return [outline(one.status, width=terminal.width, only_ascii=terminal.ascii)]
    view = StatusView(
        survey=one.survey,
        status=one.status,
        width=WIDEST if wide else terminal.width,
        only_ascii=terminal.ascii,
        wide=wide,
        absence=one.absence,
        cluster_flags=terminal.cluster_flags,
    )
    return status_block(view, detail)
