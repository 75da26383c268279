"""How far a rollout is in the steps of its spec and in its failure domains; which nodes a lower partition frees."""

from __future__ import annotations

from math import inf

from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus, Phase, rollout_of
from controller.api.formats import IntOrPercent, counted, seconds
from controller.api.names import APPROVE_ANNOTATION
from controller.api.objects import JSONObject, Value, epoch
from controller.planner.node_fit import natural
from controller.planner.rollout_state import rollout_state
from controller.planner.world import World
from kubectl_plugin.rollout.nodes import DONE
from kubectl_plugin.rollout.survey import NodeSurvey, Survey, forecast_world
from kubectl_plugin.wording import short_duration


class SpecStep(Value, rename="camel"):
    nodes: IntOrPercent
    """As written, as is `soak`."""
    soak: str
    approval: str


class Steps(Value, rename="camel"):
    index: int
    """Number of the present step, from 1."""
    count: int
    values: tuple[SpecStep, ...]
    reached_at: str | None
    """Since when all its nodes have an available pod without interruption, in RFC 3339; None: they do not."""
    soak_seconds_left: float
    """The rest of the soak of a reached step; 0 for any other."""
    awaits_approval: bool
    """Whether only an approval is missing, also while the rollout is paused."""
    approved: bool
    is_over: bool
    """Whether the last step is over."""


def steps_of(survey: Survey) -> Steps | None:
    """None if the rollout does not go by steps."""
    record, rolling = survey.derived_record, survey.daemonset.rolling_update
    if rolling is None or record.step is None or not 0 < record.step <= len(rolling.steps):
        return None
    present, reached = rolling.steps[record.step - 1], epoch(record.step_reached_time)
    approved = survey.daemonset.annotations.get(APPROVE_ANNOTATION) == f"{survey.hash}/{record.step}"
    is_over = record.is_past(len(rolling.steps))
    left = 0.0 if reached is None or is_over else max(reached + present.soak_seconds - survey.snapshot.now, 0.0)
    unapproved = present.approval == "Required" and not approved
    held = survey.phase is Phase.PAUSED and reached is not None and not (is_over or left) and unapproved
    return Steps(
        index=record.step,
        count=len(rolling.steps),
        values=tuple(SpecStep(nodes=step.nodes, soak=step.soak, approval=step.approval) for step in rolling.steps),
        reached_at=record.step_reached_time,
        soak_seconds_left=left,
        awaits_approval=held or survey.phase is Phase.AWAITING_APPROVAL,
        approved=approved,
        is_over=is_over,
    )


def at_step(world: World, number: int) -> World:
    """The world in which the rollout has just come to this step."""
    daemonset = world.daemonset
    status = daemonset.status or DaemonSetStatus()
    record = replace(rollout_of(status), step=number, step_reached_time=None, completion_time=None, checks=None)
    return replace(world, daemonset=replace(daemonset, status=replace(status, rollout=record)))


def step_words(steps: Steps, done: int, target: int, *, only_ascii: bool) -> str:
    """Such as `1 ✓ 10m · 10% ● 12m of 30m · 100%`."""
    ok, here, dot = ("ok", "*", "|") if only_ascii else ("✓", "●", "·")
    parts = []
    for number, step in enumerate(steps.values, start=1):
        if number < steps.index or steps.is_over:
            parts.append(" ".join(filter(None, (str(step.nodes), ok, step.soak))))
        elif number > steps.index:
            parts.append(str(step.nodes))
        elif steps.reached_at is None:
            parts.append(f"{step.nodes} {here} {counted(done, 'node', of=target)}")
        elif steps.awaits_approval:
            parts.append(f"{step.nodes} {here} to be approved")
        else:
            passed = max(seconds(step.soak or "0s") - steps.soak_seconds_left, 0.0)
            then = ", approved" if steps.approved else ", then approval" if step.approval else ""
            parts.append(f"{step.nodes} {here} {short_duration(passed)} of {step.soak or '0s'}{then}")
    return f" {dot} ".join(parts)


class Release(Value):
    """The nodes freed by a partition of 0, in update order."""

    before: int
    """The partition in nodes."""
    nodes: tuple[str, ...]


def release_of(survey: NodeSurvey) -> Release | None:
    """None if a lower partition frees no node: a step or rollingUpdate.selector excludes all old ones."""
    before, rolling = survey.rollout.budget.partition, survey.daemonset.rolling_update
    if not before or rolling is None:
        return None
    spec = survey.daemonset.spec
    strategy = replace(spec.update_strategy, rolling_update=replace(rolling, partition=0))
    released = replace(survey.daemonset, spec=replace(spec, update_strategy=strategy))
    rollout = rollout_state(forecast_world(survey.snapshot, released))
    freed = tuple(node.name for node in rollout.target if node.current is None)
    return Release(before=before, nodes=freed) if freed else None


class DomainRow(Value):
    domain: str | None
    """None: the nodes without the label."""
    nodes: int
    updated: int
    short: tuple[str, ...]
    """In update order."""
    max_unavailable: int | None
    """Nodes that may be short at once; None: no limit."""
    touched: bool
    """Whether nodes are short because of the update, so that it counts against `maxDomains`."""

    @property
    def name(self) -> str:
        return self.domain or "no label"

    @property
    def document(self) -> JSONObject:
        """An item of `nodes --by-domain -o json`."""
        return {
            "domain": self.domain,
            "nodes": self.nodes,
            "updated": self.updated,
            "short": list(self.short),
            "maxUnavailable": self.max_unavailable,
            "shortByUpdate": self.touched,
        }


def domain_rows(survey: NodeSurvey) -> tuple[DomainRow, ...]:
    """In natural order, nodes without the label last; none without `topology`, or where the nodes are unreadable."""
    rollout, domains = survey.rollout, survey.rollout.domains
    if domains is None or survey.snapshot.nodes is None:
        return ()
    states = {row.node: row.state for row in survey.rows}
    short = frozenset(rollout.mid_surge if rollout.surging else rollout.unavailable_nodes)
    members: dict[str | None, list[str]] = {domain: [] for domain in domains.most}
    for node in rollout.eligible_in_order:
        members.setdefault(domains.domain(node), []).append(node.name)
    return tuple(
        DomainRow(
            domain=domain,
            nodes=len(members[domain]),
            updated=sum(states[name] in DONE for name in members[domain]),
            short=tuple(name for name in members[domain] if name in short),
            max_unavailable=None if (most := domains.most.get(domain, inf)) == inf else int(most),
            touched=domain in domains.open,
        )
        for domain in sorted(members, key=lambda member: (member is None, natural(member or "")))
    )
