"""`nodes`: one row per node, or per failure domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Final

from msgspec.structs import replace

from controller.api.daemonset import Topology
from controller.api.formats import counted
from controller.api.objects import Value
from controller.planner.conditions import some
from controller.planner.explanation import PREPARING, NodeState
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.follow import following, with_pulls
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.commands.screens import Picture, print_table, table_screen
from kubectl_plugin.errors import CommandError, ExitCode, UsageError
from kubectl_plugin.flags import Output
from kubectl_plugin.options import NodesOptions
from kubectl_plugin.render.listings import domain_table, node_table
from kubectl_plugin.rollout.document import document
from kubectl_plugin.rollout.nodes import NodeRow
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.steps import DomainRow, domain_rows
from kubectl_plugin.rollout.survey import NodeSurvey, survey
from kubectl_plugin.wording import command

REDRAW_SECONDS: Final = 5.0
"""Seconds after which ages are redrawn without a change."""
ALL: Final = "all"
_STATES: Final = tuple(NodeState)
_KEYS: Final[dict[str, Callable[[NodeRow], tuple[float, str]]]] = {
    "name": lambda row: (0, row.node),
    "state": lambda row: (_STATES.index(row.state), row.node),
    "restarts": lambda row: (-(row.pod.restarts if row.pod else 0), ""),
    "age": lambda row: (row.pod.pod.created if row.pod else float("inf"), ""),
}


async def nodes(invocation: Invocation, options: NodesOptions) -> ExitCode:
    """With `watch`, runs until interrupted or the DaemonSet is deleted."""
    wanted = choice_of(options.only, excluded=options.excluded, group=options.zone, sort=options.sort)
    if options.watch and invocation.output in (Output.YAML, Output.NAME):
        raise UsageError(f"-w has no output format {invocation.output}: use json or wide")
    if options.by_domain and invocation.output is Output.NAME:
        raise UsageError("--by-domain has no output format name: a domain is not an object")
    snapshot = await reads.snapshot(invocation, options.name, reads.REVISIONS_ONLY if options.watch else reads.ALL)
    if options.watch:
        return await _watch(invocation, snapshot, wanted, options)
    (snapshot,) = await with_pulls(invocation, [snapshot])
    surveyed = _survey_of(snapshot, options)
    _check_group(surveyed, wanted)
    picture = _picture(invocation, surveyed, wanted, options)
    print_table(invocation, picture, (f"node/{name}" for name, _ in picture.rows))
    if invocation.output in (None, Output.WIDE):
        invocation.note_unread(snapshot.unread_words)
    return ExitCode.DONE


async def _watch(invocation: Invocation, first: Snapshot, wanted: Choice, options: NodesOptions) -> ExitCode:
    checked = False
    async with following(invocation, [first]) as follow:
        invocation.note_unread(follow.unread_words)
        with table_screen(invocation) as screen:
            while True:
                (snapshot,) = follow.snapshots()
                if snapshot is None:
                    raise CommandError(f'daemonsets.apps.kruise.io "{first.key.name}" was deleted')
                surveyed = _survey_of(snapshot, options)
                if not checked:
                    _check_group(surveyed, wanted)
                    checked = True
                screen.show(_picture(invocation, surveyed, wanted, options), follow.interruption)
                await follow.changed(REDRAW_SECONDS)


def _survey_of(snapshot: Snapshot, options: NodesOptions) -> NodeSurvey:
    """Raises CommandError if pods may not be read: all nodes would seem to have none."""
    if not snapshot.pods_readable:
        namespace, name = snapshot.key
        raise CommandError(f"the nodes of {name} need the right to list pods in namespace {namespace}")
    return survey(_with_domains(snapshot) if options.by_domain else snapshot, options.by)


def _with_domains(snapshot: Snapshot) -> Snapshot:
    """Without `topology`, with the domains by whose label the nodes are ordered, without limits. Raises CommandError
    if there is no such label, or the nodes are unreadable."""
    daemonset = snapshot.daemonset
    rolling, name = daemonset.rolling_update, daemonset.name
    if snapshot.nodes is None:
        raise CommandError(f"the failure domains of {name} are unknown without the right to list nodes")
    if rolling is not None and rolling.topology is not None:
        return snapshot
    key = next((rule.group_by for rule in rolling.order if rule.group_by), "") if rolling is not None else ""
    if rolling is None or not key:
        field = "updateStrategy.rollingUpdate.topology"
        why = "updateStrategy is OnDelete" if rolling is None else f"{field}.key is not set"
        raise CommandError(
            f"{name} has no failure domains: {why}",
            command(f"explain ads.spec.{field}", to="shows how", program="kubectl"),
            command("nodes", snapshot.key, "--by", "zone", to="to see which node is in which zone"),
        )
    strategy = replace(daemonset.spec.update_strategy, rolling_update=replace(rolling, topology=Topology(key=key)))
    spec = replace(daemonset.spec, update_strategy=strategy)
    return replace(snapshot, daemonset=replace(daemonset, spec=spec))


def _topology_of(survey: NodeSurvey) -> Topology:
    rolling = survey.rollout.rolling_update
    return (rolling.topology if rolling is not None else None) or Topology()


def _picture(invocation: Invocation, surveyed: NodeSurvey, wanted: Choice, options: NodesOptions) -> Picture:
    snapshot, only_ascii = surveyed.snapshot, invocation.terminal.ascii
    if options.by_domain:
        domains, topology, key = domain_rows(surveyed), _topology_of(surveyed), snapshot.key
        return Picture(
            table=lambda width: domain_table(domains, width=width, only_ascii=only_ascii),
            footer=_footer_of_domains(topology, domains),
            others={},
            rows=tuple((row.name, row) for row in domains),
            document=document(
                "DomainList",
                namespace=key.namespace,
                name=key.name,
                key=topology.key,
                maxDomains=topology.max_domains,
                items=[row.document for row in domains],
            ),
        )
    rows = chosen_rows(surveyed, wanted)
    return Picture(
        table=lambda width: node_table(rows, now=snapshot.now, width=width, only_ascii=only_ascii),
        footer=_footer(surveyed, rows),
        others={row.node: row.state for row in surveyed.rows},
        rows=tuple((row.node, _news_of(row)) for row in rows),
        document=document(
            "NodeList", namespace=snapshot.key.namespace, name=snapshot.key.name, items=[row.document for row in rows]
        ),
    )


def _footer_of_domains(topology: Topology, rows: Sequence[DomainRow]) -> str:
    """Such as `3 domains of topology.kubernetes.io/zone; updating zone-c (at most 1)`."""
    most = "" if topology.max_domains is None else f" (at most {topology.max_domains})"
    touched = some([row.name for row in rows if row.touched]) or "none"
    return f"{counted(len(rows), 'domain')} of {topology.key}; updating {touched}{most}"


def _news_of(row: NodeRow) -> tuple[Hashable, ...]:
    """Values whose change adds a line to a log."""
    return row.state, row.revision, row.pod and row.pod.pod.uid, row.failure, row.image and row.image.stage


class Choice(Value):
    states: frozenset[NodeState]
    excluded: bool
    group: str | None
    sort: str
    preparing: bool = False
    """Also show nodes with a pod held by the preDelete hook, whatever their state."""


def choice_of(only: str, *, excluded: bool, group: str | None, sort: str) -> Choice:
    """`only`: comma-separated states or `all`. `sort`: `update` or a column. Raises UsageError for other words."""
    words = [word for word in only.lower().split(",") if word]
    for word in words:
        if word not in (ALL, PREPARING) and word not in _STATES:
            there = ", ".join((*_STATES, PREPARING))
            raise UsageError(f'invalid --only "{word}": use all, {there}')
    if sort != "update" and sort not in _KEYS:
        raise UsageError(f'invalid --sort "{sort}": use update, {", ".join(_KEYS)}')
    everything = ALL in words or not words
    states = frozenset(_STATES if everything else [NodeState(word) for word in words if word != PREPARING])
    asked_for = excluded or "excluded" in words
    if excluded:
        states |= {NodeState.EXCLUDED}
    return Choice(states=states, excluded=asked_for, group=group, sort=sort, preparing=PREPARING in words)


def chosen_rows(survey: NodeSurvey, wanted: Choice) -> tuple[NodeRow, ...]:
    """Excluded nodes are returned only on request or while they have a pod. With OnDelete no node is next by itself,
    so `old` means every pod that may be deleted."""
    states = wanted.states
    if NodeState.OLD in states and survey.daemonset.rolling_update is None:
        states |= {NodeState.NEXT}
    rows = [
        row
        for row in survey.in_update_order
        if (row.state in states or (wanted.preparing and row.preparing))
        and (wanted.group is None or row.group == wanted.group)
        and (row.state is not NodeState.EXCLUDED or wanted.excluded or row.pod is not None)
    ]
    return tuple(rows if wanted.sort == "update" else sorted(rows, key=_KEYS[wanted.sort]))


def _check_group(survey: NodeSurvey, wanted: Choice) -> None:
    """Raises CommandError for a group without nodes, with the groups that exist."""
    groups = sorted({row.group for row in survey.rows})
    if wanted.group is None or wanted.group in groups:
        return
    if survey.snapshot.nodes is None:
        raise CommandError(f'which nodes are in "{wanted.group}" is unknown without the right to list nodes')
    there = f": there are {', '.join(groups)}" if groups else ""
    raise CommandError(f'no node is in "{wanted.group}"{there}')


def _footer(survey: NodeSurvey, rows: Sequence[NodeRow]) -> str:
    """Such as `4 of 24 nodes shown (--only all); 3 more nodes do not match (--excluded): 2 taint`."""
    shown = sum(row.state is not NodeState.EXCLUDED for row in rows)
    desired = survey.counts.desired
    words = [f"{counted(shown, 'node', of=desired)} shown" + ("" if shown == desired else " (--only all)")]
    named = {row.node for row in rows}
    hidden = [row.why for row in survey.rows if row.state is NodeState.EXCLUDED and row.node not in named]
    if hidden:
        whys = Counter("taint" if why.startswith("taint ") else why for why in hidden)  # their keys are in the table
        causes = ", ".join(f"{count} {why}" for why, count in whys.most_common())
        noun = "node does" if len(hidden) == 1 else "nodes do"
        words.append(f"{len(hidden)} more {noun} not match (--excluded): {causes}")
    return "; ".join(words)
