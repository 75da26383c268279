"""`python -m tests.tools.metrics_manual`: writes docs/metrics.md from what a running controller exposes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

import structlog
from msgspec.structs import replace
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from controller.settings import FeatureGates
from tests.beds.controller.bed import Bed
from tests.beds.controller.metrics import tells
from tests.beds.controller.opening import simulated
from tests.beds.objects import daemonset
from tests.beds.virtual_time import run

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"

HEAD = """\
# Metrics

<!-- Made by `make docs` from what a running controller exposes: edit the texts in controller/observe. -->

All of them are at `/metrics`, as OpenMetrics where the scraper asks for it. How to collect them, alerts and
dashboards: [monitoring](monitoring.md).

- **Only the leader has series of DaemonSets** (`kruise_daemonset_*`). They go when its leadership ends and
  when the object is deleted. Every replica has the rest.
- **An enumeration has a series for each of its values**, 0 or 1, and reasons have one where there is none too: no
  graph has gaps. What another series says has none of its own: of one DaemonSet there are 60 series at most, twelve
  more where updates in place are asked for, three more where it has a preDelete hook, four more for each zone after
  the first, eight more with `steps`, three more with `onFailure`, two more with checks and for each of them, two more
  with `unreachableNodes`, and one more with `topology`. Conditions show in the phase and the reasons; the strategy
  OnDelete, in `info`.
- What the status says is there from the first scrape of a leader. What only a pass over the object knows comes with
  the first pass of this process, usually within a second, and is gone while the spec has no meaning or the object is
  being deleted, so that no old number is shown. These are the limits as numbers, and `rollout_updating_nodes`,
  `_failed_nodes`, `_blocked`, `_unplanned_updated_nodes` and `_zone_nodes`, and `leaving_nodes`.
- **Every node that should run the pod counts once**: updated, updating, failed or old, as in
  `kubectl kruise-ds nodes`. In `rollout_zone_nodes` they add up to `status_desired_number_scheduled`.
- **A node has failed** when its pod of the update revision will not recover by itself: a container crashes
  (CrashLoopBackOff), an image cannot be had (ImagePull), a container cannot be made or started (Config), there is no
  place (Unschedulable), it is not ready though it is older than the progress deadline and minReadySeconds (NotReady),
  or the pod has ended (Evicted, Other). A node whose old pod fails is old.
- The reasons of `rollout_blocked` are those of the condition Progressing. Several may hold at once, and only those
  are there that the spec makes possible. ServerSilent: the server has not answered a write, or the caches have not
  shown the controller's own writes for a second.
- **An update in place** counts as operation `update`, and ends when its new container has been available for
  minReadySeconds. The reasons of `in_place_fallbacks`: a field differs that no running pod takes (Template),
  resources are not to be changed in place (Resources) or the change was refused (ResizeRefused), a restart was asked
  for (Restart), the pod was made without the readiness gate (ReadinessGate), a container reads changed metadata
  and there is no node agent to restart it (NodeAgent).
- `kruise_ds_image_pull…` are there with the feature gate `PreDownloadImageForDaemonSetUpdate`. Each attempt on a node
  counts: several may fail before one succeeds. With it, `workqueue_…` have two more values of `name` beside
  `daemonset`: `imagepulljob`, and `daemonset-images` for the jobs that the rollout of a DaemonSet wants.
- No label holds a node, a pod or an image. `zone` is the node label `topology.kubernetes.io/zone`, or `none`;
  `--zone-metrics=false` turns its metric off.
"""

SECTIONS = {
    "Of each DaemonSet": ("kruise_daemonset_",),
    "Of the controller": ("kruise_ds_",),
    "With names that dashboards of other controllers know": (
        "controller_runtime_",
        "workqueue_",
        "rest_client_",
        "leader_election_",
    ),
    "Of the process": ("process_", "python_"),
}
OBJECT = ("namespace", "daemonset")
OPEN = {"check", "zone"}
"""Labels of ours whose values are not known in advance."""
PROGRESSIVE = {
    "steps": [{"nodes": "100%"}],
    "onFailure": {"restarts": 3},
    "checks": [{"name": "errors", "query": "errors"}],
    "unreachableNodes": {"leaveOut": 1},
}


async def exposition(bed: Bed) -> str:
    """What is reported after an update of a DaemonSet, so that whatever can be there is."""
    await bed.controller.stop()
    bed.controller.start(replace(bed.controller.settings, gates=FeatureGates(pre_download=True)))
    await bed.add_nodes(2)
    await bed.deploy(daemonset())
    await bed.set_image("registry.example/agent:v2")
    await bed.settled()
    await tells(bed, status_updated_number_scheduled=2, rollout_phase={"Healthy": 1})
    await bed.edit({"updateStrategy": {"rollingUpdate": {"rollingUpdateType": "InPlaceIfPossible", **PROGRESSIVE}}})
    await bed.idle()
    return bed.controller.scrape()


def page(text: str) -> str:
    """The manual, from an exposition."""
    families = {_name(family): family for family in text_string_to_metric_families(text)}
    parts = [HEAD]
    for title, prefixes in SECTIONS.items():
        there = {name: family for name, family in families.items() if name.startswith(prefixes)}
        labels = f"Labels `{'`, `'.join(OBJECT)}`, and those below.\n\n" if prefixes == ("kruise_daemonset_",) else ""
        rows = [_row(name, family) for name, family in sorted(there.items())]
        parts.append(f"## {title}\n\n{labels}{_table(rows)}")
    others = [name for name in families if not name.startswith(tuple(sum(SECTIONS.values(), ())))]
    assert not others, f"metrics of no section: {others}"
    return "\n".join(parts)


def _name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def _row(name: str, family: Metric) -> Sequence[str]:
    """Where the values of labels are ours, they are listed."""
    known = name.startswith("kruise_") and not name.endswith("_info")
    values: dict[str, set[str]] = {}
    for sample in family.samples:
        for label, value in sample.labels.items():
            values.setdefault(label, set()).add(value)
    buckets = values.pop("le", set())
    labels = [_label(one, there if known else ()) for one, there in sorted(values.items()) if one not in OBJECT]
    meaning = escape(family.documentation.rstrip("."), quote=False).replace("|", "\\|")
    if known and buckets:
        limits = sorted(float(one) for one in buckets if one != "+Inf")
        meaning += f"; buckets {', '.join(f'{one:g}' for one in limits)}"
    return f"`{name}`", family.type, "; ".join(labels), meaning


def _label(name: str, values: Iterable[str]) -> str:
    if name in OPEN or not values:
        return f"`{name}`"
    return f"`{name}`: {', '.join(sorted(values))}"


def _table(rows: Iterable[Sequence[str]]) -> str:
    lines = [("metric", "type", "labels", "meaning"), ("---",) * 4, *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


async def made() -> str:
    async with simulated() as bed:
        return page(await exposition(bed))


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    PAGE.write_text(run(made()))
