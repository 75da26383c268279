"""Argo CD in each of the nine phases: what docs/conditions.md tells of its own script and of the page's."""

from __future__ import annotations

import re

import pytest
from lupa import lua51
from msgspec import to_builtins

from controller.api.daemonset import Phase
from controller.planner.world import World
from tests.beds.api import Object
from tests.beds.argo_cd import DEGRADED, HEALTHY, PROGRESSING, SUSPENDED, shipped
from tests.beds.manifests import MANIFESTS
from tests.beds.worlds import ds, everywhere, pod, world
from tests.unit.controller.planner.written import IN_PHASE, looked_at, shown

PAGE = (MANIFESTS.parent / "docs" / "conditions.md").read_text()
SECTION = PAGE[PAGE.index("## Argo CD") :]
TOLD = {
    phase: (theirs, ours) for phase, theirs, ours in re.findall(r"^\| `(\w+)` \| (\w+) \| (\w+) \|", SECTION, re.M)
}
(SCRIPT,) = re.findall(r"_DaemonSet: \|\n(.*?)```", SECTION, re.DOTALL)


def as_read(of: World) -> Object:
    """With counts, and the strategy as the CRD completes it; edited once before, since the script that Argo CD ships
    takes the first generation for a case of its own."""
    found, status = shown(of.daemonset), of.daemonset.status
    counts = to_builtins(status)
    conditions = [{**one, "observedGeneration": one["observedGeneration"] + 1} for one in counts["conditions"]]
    counts |= {"conditions": conditions, "observedGeneration": counts["observedGeneration"] + 1}
    metadata = {**found["metadata"], "generation": found["metadata"]["generation"] + 1}
    strategy = to_builtins(of.daemonset.spec.update_strategy)
    strategy["rollingUpdate"] = strategy["rollingUpdate"] or {}
    return {"metadata": metadata, "spec": {"updateStrategy": strategy}, "status": counts}


def of_the_page(found: Object) -> str:
    """Run the script as Argo CD does: Lua 5.1, with the object as `obj`."""
    runtime = lua51.LuaRuntime()
    run = runtime.eval(f"function(obj)\n{SCRIPT}\nend")
    return str(run(runtime.table_from(found, recursive=True)).status)


@pytest.mark.parametrize("phase", Phase)
def test_each_phase_is_shown_as_the_page_says(phase: Phase) -> None:
    found = as_read(IN_PHASE[phase])
    assert (shipped(found), of_the_page(found)) == TOLD[phase]


def test_the_page_tells_all_nine() -> None:
    assert TOLD.keys() == set(Phase)


def test_the_script_of_the_page_waits_for_a_controller_that_has_not_run() -> None:
    new: Object = {"metadata": {"generation": 1}, "spec": {}}
    assert of_the_page(new) == of_the_page({**new, "status": {"observedGeneration": 0}}) == PROGRESSING
    later = as_read(IN_PHASE[Phase.HEALTHY])
    later["metadata"]["generation"] += 1
    assert of_the_page(later) == PROGRESSING, "the conditions are about the spec before"


@pytest.mark.parametrize(
    ("of", "theirs"),
    [
        pytest.param(world(ds(partition=3), nodes=3, pods=everywhere(3)), SUSPENDED, id="healthy, a partition stays"),
        pytest.param(world(ds(partition="50%"), nodes=3, pods=everywhere(3)), SUSPENDED, id="the same in percent"),
        pytest.param(world(ds(partition="0%"), nodes=3, pods=everywhere(3)), HEALTHY, id="none in percent"),
        pytest.param(
            world(nodes=2, pods=[pod(f"node-{n}", ready=None) for n in range(2)]), DEGRADED, id="no pod is available"
        ),
    ],
)
def test_the_branches_of_the_shipped_script_that_no_phase_alone_leads_to(of: World, theirs: str) -> None:
    assert shipped(as_read(looked_at(of))) == theirs
