"""The failure domains of a rollout: how far each is, and which of its nodes are short."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from msgspec.structs import replace

from controller.api.daemonset import Topology
from controller.api.objects import JSONObject, Value
from controller.planner.node_fit import natural
from kubectl_plugin.errors import CommandError
from kubectl_plugin.rollout.document import document
from kubectl_plugin.rollout.nodes import DONE
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.survey import NodeSurvey
from kubectl_plugin.wording import command

FIELD: Final = "rollingUpdate.topology"


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


def with_domains(snapshot: Snapshot) -> Snapshot:
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
        why = "updateStrategy is OnDelete" if rolling is None else f"updateStrategy.{FIELD}.key is not set"
        raise CommandError(
            f"{name} has no failure domains: {why}",
            hints=(
                command(f"explain ads.spec.updateStrategy.{FIELD}", to="shows how", program="kubectl"),
                command("nodes", snapshot.key, "--by", "zone", to="to see which node is in which zone"),
            ),
        )
    strategy = replace(daemonset.spec.update_strategy, rolling_update=replace(rolling, topology=Topology(key=key)))
    spec = replace(daemonset.spec, update_strategy=strategy)
    return replace(snapshot, daemonset=replace(daemonset, spec=spec))


def topology_of(survey: NodeSurvey) -> Topology:
    rolling = survey.rollout.rolling_update
    return (rolling.topology if rolling is not None else None) or Topology()


def domains_document(survey: NodeSurvey, rows: Sequence[DomainRow]) -> JSONObject:
    """The output of `nodes --by-domain -o json`."""
    key, topology = survey.snapshot.key, topology_of(survey)
    return document(
        "DomainList",
        namespace=key.namespace,
        name=key.name,
        key=topology.key,
        maxDomains=topology.max_domains,
        items=[row.document for row in rows],
    )
