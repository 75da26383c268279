"""Where every DaemonSet stands, and how the chosen ones got there."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase

from controller.api.daemonset import Phase
from tests.tools.monitoring.dashboards.panels import (
    DATASOURCE,
    Document,
    Panel,
    Query,
    dashboard,
    graph,
    label_variable,
    mappings,
    stat,
)

CHOSEN = 'cluster=~"$cluster",namespace=~"$namespace",daemonset=~"$daemonset"'
OBJECT = "cluster, namespace, daemonset"
"""Of an object, without the pod that reports it: a fail-over is no gap, and two that report count once."""

BARS = {"mergeValues": True, "showValue": "auto", "legend": {"displayMode": "list", "placement": "bottom"}}

COLOURS = {
    Phase.PENDING: "text",
    Phase.PROGRESSING: "blue",
    Phase.SOAKING: "light-green",
    Phase.AWAITING_APPROVAL: "light-purple",
    Phase.HELD: "purple",
    Phase.PAUSED: "yellow",
    Phase.ABORTED: "dark-orange",
    Phase.STALLED: "red",
    Phase.MANUAL: "light-blue",
    Phase.DEGRADED: "orange",
    Phase.HEALTHY: "green",
    Phase.TERMINATING: "dark-red",
}


def rollouts() -> Document:
    return dashboard(
        "kruise-ds-rollouts",
        "kruise-ds / Rollouts",
        {
            "Now": _now(),
            "DaemonSets": (_table(),),
            "The chosen DaemonSets, together": _chosen(),
            "Steps": _steps(),
            "How long it takes": _durations(),
        },
        [
            label_variable("cluster", "kruise_daemonset_metadata_generation", "cluster"),
            label_variable("namespace", 'kruise_daemonset_metadata_generation{cluster=~"$cluster"}', "namespace"),
            label_variable(
                "daemonset",
                'kruise_daemonset_metadata_generation{cluster=~"$cluster",namespace=~"$namespace"}',
                "daemonset",
            ),
        ],
        [_edits()],
    )


def each(metric: str, *more: str, **matches: str) -> str:
    """One number for each chosen object, and for each value of the labels `more`."""
    wanted = "".join(f',{label}="{value}"' for label, value in matches.items())
    return f"max by ({', '.join((OBJECT, *more))}) (kruise_daemonset_{metric}{{{CHOSEN}{wanted}}})"


def total(metric: str, *more: str, **matches: str) -> str:
    return f"sum({each(metric, *more, **matches)})"


def where_asked(expression: str) -> str:
    """0 where no DaemonSet asks for what it counts."""
    return f"{expression} or vector(0)"


def unserved() -> str:
    """Nodes without an available pod, without those that are left empty on purpose, as in the rules of the alerts."""
    left = f"{each('rollout_target_nodes')} - {each('status_updated_number_scheduled')}"
    empty = f"{each('status_desired_number_scheduled')} - {each('status_current_number_scheduled')}"
    return f"({each('status_number_unavailable')} - clamp_min({empty} - clamp_min({left}, 0), 0))"


def _now() -> tuple[Panel, ...]:
    by_phase = [
        stat(phase, total("rollout_phase", phase=phase), warn_at=warn_at)
        for phase, warn_at in ((Phase.PROGRESSING, None), (Phase.HELD, None), (Phase.PAUSED, 1), (Phase.STALLED, 1))
    ]
    return (
        stat("DaemonSets", f"count({each('metadata_generation')})"),
        *by_phase,
        stat("Nodes unavailable", total("status_number_unavailable"), warn_at=1),
        stat(Phase.SOAKING, where_asked(total("rollout_phase", phase=Phase.SOAKING))),
        stat(
            "To be approved",
            where_asked(total("rollout_phase", phase=Phase.AWAITING_APPROVAL)),
            warn_at=1,
            meaning="Steps that only wait for an approval: kubectl kruise-ds promote",
        ),
        stat(Phase.ABORTED, where_asked(total("rollout_aborted")), warn_at=1),
        stat(
            "Nodes left out",
            where_asked(total("rollout_left_out_nodes")),
            warn_at=1,
            meaning="Unreachable nodes that no rollout waits for",
        ),
    )


def _table() -> Panel:
    columns = {
        "Phase": f"{each('rollout_phase', 'phase')} == 1",
        "Nodes to update": each("rollout_target_nodes"),
        "Nodes updated": each("status_updated_number_scheduled"),
        "Nodes unavailable": each("status_number_unavailable"),
        "Nodes kept by the partition": each("spec_strategy_partition"),
        "Step": each("rollout_step"),
        "of": each("rollout_steps"),
        "Soak left": each("rollout_soak_seconds_left"),
        "Age": f"time() - {each('created')}",
    }
    names = {f"Value #{letter}": name for letter, name in zip(ascii_uppercase, columns, strict=False)}
    shown = {name: title for name, title in names.items() if title != "Phase"}
    labels = {"cluster": "Cluster", "namespace": "Namespace", "daemonset": "DaemonSet", "phase": "Phase"}
    colours = {phase.value: {"text": phase.value, "color": COLOURS[phase]} for phase in Phase}
    return Panel(
        "table",
        "Each DaemonSet",
        tuple(Query(expression, table=True) for expression in columns.values()),
        width=24,
        height=9,
        options={"showHeader": True},
        overrides={
            "Age": {"unit": "dtdurations"},
            "Soak left": {"unit": "dtdurations"},
            "Phase": {
                "mappings": [{"type": "value", "options": colours}],
                "custom.cellOptions": {"type": "color-text"},
            },
        },
        transformations=(
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {"Time": True, "Value #A": True},
                    "renameByName": {**labels, **shown},
                },
            },
        ),
    )


def _chosen() -> tuple[Panel, ...]:
    parts = {
        "updated": total("rollout_updated_available_nodes"),
        "updating": total("rollout_updating_nodes"),
        "failed": total("rollout_failed_nodes", "reason"),
    }
    parts["old"] = f"clamp_min({' - '.join((total('status_desired_number_scheduled'), *parts.values()))}, 0)"
    return (
        graph(
            "Nodes by how far they are",
            *(Query(expression, part) for part, expression in parts.items()),
            stacked=True,
            width=12,
        ),
        _budget(),
        _timeline(),
        graph(
            "Failing nodes by reason",
            Query(f"sum by (reason) ({each('rollout_failed_nodes', 'reason')})", "{{reason}}"),
            width=6,
            stacked=True,
        ),
        _zones(),
        _bars(
            "What keeps nodes waiting",
            Query(f"{each('rollout_blocked', 'reason')} == 1", "{{namespace}}/{{daemonset}} {{reason}}"),
            [("waits", "orange")],
            meaning="A bar for as long as the reason holds; none where nothing waits",
        ),
        stat(
            "Nodes updated against the plan",
            total("rollout_unplanned_updated_nodes"),
            warn_at=1,
            meaning="They run the new version although partition, selector or step keeps them on the old one",
        ),
    )


def _budget() -> Panel:
    unavailable = f"{unserved()} / ({each('spec_strategy_rollingupdate_max_unavailable')} > 0)"
    surging = f"{each('rollout_updating_nodes')} / ({each('spec_strategy_rollingupdate_max_surge')} > 0)"
    steps = [("green", None), ("orange", 1), ("red", 1.01)]
    return Panel(
        "gauge",
        "Budget used",
        (Query(f"{surging} or {unavailable}", "{{namespace}}/{{daemonset}}", instant=True),),
        "Nodes without an available pod, of maxUnavailable; with maxSurge, those that wait for their new pod. "
        "Nodes that are left empty on purpose do not count",
        unit="percentunit",
        width=4,
        defaults={
            "min": 0,
            "max": 1,
            "thresholds": {
                "mode": "absolute",
                "steps": [{"color": colour, "value": value} for colour, value in steps],
            },
        },
        options={"reduceOptions": {"calcs": ["lastNotNull"]}},
    )


def _zones() -> Panel:
    nodes = f"sum by (zone, state) ({each('rollout_zone_nodes', 'zone', 'state')})"
    return Panel(
        "bargauge",
        "Nodes by zone",
        (Query(nodes, "{{zone}} {{state}}", instant=True),),
        width=6,
        options={"orientation": "horizontal", "reduceOptions": {"calcs": ["lastNotNull"]}},
    )


def _timeline() -> Panel:
    """One bar for each object: a number for each phase, because Grafana colours numbers."""
    numbered = " or ".join(
        f"{each('rollout_phase', 'phase', phase=phase)} * {number}" for number, phase in enumerate(Phase, start=1)
    )
    phases = [(phase.value, COLOURS[phase]) for phase in Phase]
    return _bars("Phase over time", Query(f"max by ({OBJECT}) ({numbered})", "{{namespace}}/{{daemonset}}"), phases)


def _bars(title: str, query: Query, names: Sequence[tuple[str, str]], *, meaning: str = "") -> Panel:
    """One bar over time for each series; its values 1, 2, 3 … have these names and colours."""
    return Panel(
        "state-timeline",
        title,
        (query,),
        meaning,
        width=8,
        defaults={"mappings": mappings(names)},
        options=BARS,
    )


def _steps() -> tuple[Panel, ...]:
    """Only of DaemonSets with `rollingUpdate.steps`."""
    name = "{{namespace}}/{{daemonset}}"
    checks = each("rollout_check", "check", "state")
    return (
        Panel(
            "state-timeline",
            "Step over time",
            (Query(each("rollout_step"), name),),
            "From 1; 0 while a first deployment or the way back goes without steps",
            width=8,
            defaults={"mappings": _texts("no step"), "min": 0, "color": {"mode": "continuous-blues"}},
            options=BARS,
        ),
        graph(
            "Soak left",
            Query(each("rollout_soak_seconds_left"), name),
            unit="s",
            meaning="It starts again when a pod of the step restarts or is not available",
        ),
        Panel(
            "state-timeline",
            "Checks that stop a step",
            (Query(checks, f"{name} {{{{check}}}} {{{{state}}}}"),),
            "A check that fails, or that Prometheus does not answer",
            width=8,
            defaults={"mappings": [*_texts(""), *mappings([("stops", "orange")])]},
            options=BARS,
        ),
    )


def _texts(zero: str) -> list[Document]:
    return [{"type": "value", "options": {"0": {"text": zero, "color": "text"}}}]


def _durations() -> tuple[Panel, ...]:
    fallbacks = f"kruise_daemonset_in_place_fallbacks_total{{{CHOSEN}}}"
    operations = f"kruise_daemonset_pod_operations_total{{{CHOSEN}"
    return (
        graph(
            "How long rollouts take",
            *(
                Query(
                    f"histogram_quantile({share}, sum by (le) (rate("
                    'kruise_ds_rollout_duration_seconds_bucket{cluster=~"$cluster"}[1d])))',
                    f"p{share * 100:.0f}",
                )
                for share in (0.5, 0.9)
            ),
            unit="s",
            width=6,
            meaning="From start to end, pauses included; of all DaemonSets, of those that ended in the day before",
        ),
        graph(
            "How long the update of a node takes, p90",
            Query(
                "histogram_quantile(0.9, sum by (method, le) (rate("
                'kruise_ds_node_update_duration_seconds_bucket{cluster=~"$cluster"}[1h])))',
                "{{method}}",
            ),
            unit="s",
            width=6,
            meaning="From the decision to the available pod; of all DaemonSets, in the hour before",
        ),
        graph(
            "Pods recreated instead of updated in place, per minute",
            Query(f"sum by (reason) (rate({fallbacks}[$__rate_interval])) * 60", "{{reason}}"),
            unit="opm",
            width=6,
        ),
        graph(
            "Changes to pods per minute",
            Query(
                f'sum by (operation) (rate({operations},result="success"}}[$__rate_interval])) * 60', "{{operation}}"
            ),
            Query(f'sum(rate({operations},result!="success"}}[$__rate_interval])) * 60', "refused or not answered"),
            unit="opm",
            width=6,
        ),
    )


def _edits() -> Document:
    return {
        "name": "edits",
        "enable": True,
        "datasource": DATASOURCE,
        "expr": f"changes(kruise_daemonset_metadata_generation{{{CHOSEN}}}[2m]) > 0",
        "step": "1m",
        "titleFormat": "spec edited",
        "textFormat": "{{namespace}}/{{daemonset}}",
        "iconColor": "blue",
    }
