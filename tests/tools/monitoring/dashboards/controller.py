"""How the controller itself is: who leads, whether it keeps up, what the API server says."""

from __future__ import annotations

from tests.tools.monitoring.dashboards.panels import Document, Panel, Query, dashboard, graph, label_variable, stat

CHOSEN = 'job="kruise-ds-metrics",cluster=~"$cluster",instance=~"$instance"'
REPLICA = "{{pod}} {{instance}}"
OF_DAEMONSETS = 'name="daemonset"'
OF_IMAGES = 'name!="daemonset"'
"""Values of `name` of work queues."""


def controller() -> Document:
    return dashboard(
        "kruise-ds-controller",
        "kruise-ds / Controller",
        {
            "Replicas": _replicas(),
            "Passes": _passes(),
            "Work queue": _queue(),
            "API server": _requests(),
            "Event loop": _loop(),
            "Watches and caches": _watches(),
            "Image pulls": _image_pulls(),
            "Process": _process(),
        },
        [
            label_variable("cluster", "kruise_ds_build_info", "cluster"),
            label_variable("instance", 'kruise_ds_build_info{cluster=~"$cluster"}', "instance"),
        ],
    )


def of(metric: str, more: str = "") -> str:
    """The series of the chosen replicas."""
    return f"{metric}{{{CHOSEN}{',' if more else ''}{more}}}"


def rate(metric: str, more: str = "") -> str:
    return f"rate({of(metric, more)}[$__rate_interval])"


def quantile(share: float, metric: str, *by: str, more: str = "") -> str:
    """Of a histogram, over all chosen replicas together unless `by` says `instance`."""
    return f"histogram_quantile({share}, sum by ({', '.join((*by, 'le'))}) ({rate(f'{metric}_bucket', more)}))"


def median_and_tail(metric: str, more: str = "") -> tuple[Query, ...]:
    """p50 and p99 of a histogram."""
    return tuple(Query(quantile(share, metric, more=more), f"p{share * 100:.0f}") for share in (0.5, 0.99))


def _replicas() -> tuple[Panel, ...]:
    leads = of("leader_election_master_status", 'name="kruise-ds-controller"')
    versions = f"count by (version, revision, python_version) ({of('kruise_ds_build_info')})"
    return (
        stat("Replicas up", f"sum(up{{{CHOSEN}}})"),
        stat("Leaders", f"sum({leads})", warn_at=2, meaning="1, or 0 for the seconds of a fail-over"),
        stat("Oldest process", f"time() - min({of('process_start_time_seconds')})", unit="s"),
        stat("Restarts", f"sum(changes({of('process_start_time_seconds')}[$__range]))", warn_at=1),
        stat(
            "Status writes by others",
            f"sum(increase({of('kruise_ds_foreign_status_writes_total')}[$__range]))",
            warn_at=1,
        ),
        stat(
            "Own writes not seen in 30 s",
            f"sum(increase({of('kruise_ds_expectations_timeouts_total')}[$__range]))",
            warn_at=1,
        ),
        graph("Who leads", Query(leads, REPLICA), width=12),
        graph("Replicas by version", Query(versions, "{{version}} {{revision}} python {{python_version}}"), width=12),
    )


def _passes() -> tuple[Panel, ...]:
    errors = rate("controller_runtime_reconcile_errors_total")
    passes = rate("controller_runtime_reconcile_total")
    at_least_some = f"clamp_min(sum by (controller) ({passes}), 0.001)"
    return (
        graph("Passes", Query(f"sum by (result) ({passes})", "{{result}}"), unit="ops", width=6, stacked=True),
        graph(
            "Passes that fail",
            Query(f"sum by (controller) ({errors}) / {at_least_some}", "{{controller}} failed"),
            Query(
                f"sum by (controller) ({rate('controller_runtime_reconcile_panics_total')}) / {at_least_some}",
                "{{controller}} crashed",
            ),
            unit="percentunit",
            width=6,
        ),
        graph(
            "How long a pass over a DaemonSet takes",
            *median_and_tail("controller_runtime_reconcile_time_seconds", 'controller="daemonset"'),
            unit="s",
            width=6,
        ),
        graph(
            "Workers that are busy",
            Query(f"sum({of('controller_runtime_active_workers')})", "at work"),
            Query(f"max({of('controller_runtime_max_concurrent_reconciles')})", "there are"),
            width=6,
        ),
    )


def _queue() -> tuple[Panel, ...]:
    return (
        graph(
            "DaemonSets that wait",
            Query(of("workqueue_depth", OF_DAEMONSETS), REPLICA),
            width=6,
            meaning="Those of a standby are not processed",
        ),
        graph(
            "How long they wait",
            *median_and_tail("workqueue_queue_duration_seconds", OF_DAEMONSETS),
            unit="s",
            width=6,
        ),
        graph(
            "DaemonSets added, and tried again",
            Query(f"sum({rate('workqueue_adds_total', OF_DAEMONSETS)})", "added"),
            Query(f"sum({rate('workqueue_retries_total', OF_DAEMONSETS)})", "again"),
            unit="ops",
            width=6,
        ),
        graph(
            "The pass that runs longest",
            Query(f"max({of('workqueue_longest_running_processor_seconds', OF_DAEMONSETS)})", "longest"),
            unit="s",
            width=6,
        ),
    )


def _requests() -> tuple[Panel, ...]:
    requests = rate("rest_client_requests_total")
    refused = rate("rest_client_requests_total", 'code="429"')
    return (
        graph(
            "Requests",
            Query(f"sum by (code, method) ({requests})", "{{method}} {{code}}"),
            unit="reqps",
            stacked=True,
        ),
        graph(
            "Time to the answer, p99",
            Query(quantile(0.99, "rest_client_request_duration_seconds", "verb"), "{{verb}}"),
            unit="s",
        ),
        graph(
            "Requests that had to wait",
            Query(f"sum({refused}) or vector(0)", "429"),
            unit="reqps",
            meaning="Too Many Requests: see API priority and fairness of the server",
        ),
        graph(
            "Status writes",
            Query(f"sum by (result) ({rate('kruise_ds_status_updates_total')})", "{{result}}"),
            unit="wps",
        ),
        graph(
            "Dry runs of new templates",
            Query(f"sum by (result) ({rate('kruise_ds_template_dry_runs_total')})", "{{result}}"),
            unit="ops",
        ),
        graph("Events dropped", Query(f"sum({rate('kruise_ds_events_dropped_total')})", "dropped"), unit="ops"),
    )


def _loop() -> tuple[Panel, ...]:
    return (
        graph(
            "How late timers fire, p99",
            Query(quantile(0.99, "kruise_ds_event_loop_lag_seconds", "pod", "instance"), REPLICA),
            unit="s",
            width=12,
        ),
        graph(
            "Tasks of the process",
            Query(f"sum by (kind) ({of('kruise_ds_tasks')})", "{{kind}}"),
            width=12,
            stacked=True,
        ),
    )


def _watches() -> tuple[Panel, ...]:
    contact = of("kruise_ds_informer_last_contact_timestamp_seconds")
    return (
        graph(
            "Watches started again",
            Query(f"sum by (reason) ({rate('kruise_ds_watch_restarts_total')})", "{{reason}}"),
            unit="ops",
            width=8,
        ),
        graph(
            "Time since the last news",
            Query(f"max by (resource) (time() - {contact})", "{{resource}}"),
            unit="s",
            width=8,
        ),
        graph(
            "Objects in caches",
            Query(f"max by (resource) ({of('kruise_ds_informer_objects')})", "{{resource}}"),
            width=8,
        ),
        graph(
            "Objects that cannot be read",
            Query(f"max by (resource) ({of('kruise_ds_informer_unreadable_objects')})", "{{resource}}"),
            width=12,
        ),
        graph(
            "Caches that are not full yet",
            Query(f"sum by (pod, instance) (1 - {of('kruise_ds_informer_synced')})", REPLICA),
            width=12,
        ),
    )


def _image_pulls() -> tuple[Panel, ...]:
    """Only where the gate is on."""
    attempts = rate("kruise_ds_image_pulls_total")
    return (
        graph("Attempts", Query(f"sum by (result) ({attempts})", "{{result}}"), unit="ops", stacked=True),
        graph("Jobs that are not over", Query(f"max({of('kruise_ds_image_pull_jobs')})", "jobs")),
        graph(
            "Pods that pull",
            Query(f"max({of('kruise_ds_image_pull_pods')})", "pods"),
            meaning="The parallelism of all jobs",
        ),
        graph(
            "Passes for images that wait",
            Query(f"max by (name) ({of('workqueue_depth', OF_IMAGES)})", "{{name}}"),
            meaning="Over ImagePullJobs, and over the jobs that the rollout of a DaemonSet wants",
        ),
    )


def _process() -> tuple[Panel, ...]:
    return (
        graph(
            "CPU", Query(rate("process_cpu_seconds_total"), REPLICA), unit="percentunit", meaning="100 % is one core"
        ),
        graph("Memory", Query(of("process_resident_memory_bytes"), REPLICA), unit="bytes"),
        graph("Open files and connections", Query(of("process_open_fds"), REPLICA)),
    )
