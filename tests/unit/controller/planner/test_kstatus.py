"""Conditions for kstatus and the health script of Argo CD: what each makes of every phase."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from lupa import lua51
from msgspec.structs import replace

from controller.api.daemonset import Phase
from controller.api.names import CONDITION_TYPES, TAINT_UNREACHABLE
from controller.planner.plan import plan
from controller.planner.world import BackoffKey, World
from controller.reconcile.status_writer import due_status
from tests.beds.api import Object
from tests.beds.kstatus import (
    FAILED,
    IN_PROGRESS,
    PROGRESSING,
    READ_AS,
    kstatus,
    shipped,
    waited_for,
)
from tests.beds.worlds import at, ds, everywhere, node, refusing, taint, world
from tests.unit.controller.planner.written import (
    BRANCHES,
    IN_PHASE,
    SCRIPT,
    TOLD,
    as_read,
    conditions,
    looked_at,
    shown,
    words,
)


@pytest.mark.parametrize("phase", Phase)
def test_kstatus_reads_each_phase(phase: Phase) -> None:
    found = IN_PHASE[phase].daemonset
    assert found.status is not None
    assert found.status.rollout is not None
    assert found.status.rollout.phase == (Phase.HEALTHY if phase is Phase.TERMINATING else phase)
    assert kstatus(shown(found)) == READ_AS[phase]


@pytest.mark.parametrize("phase", [one for one in Phase if one is not Phase.TERMINATING])
def test_all_three_are_there_and_at_most_one_is_true(phase: Phase) -> None:
    found = conditions(IN_PHASE[phase])
    true = [kind for kind in ("Ready", "Reconciling", "Stalled") if found[kind]["status"] == "True"]
    assert len(true) <= 1
    assert found["Ready"]["reason"] == phase
    assert all(found[kind]["reason"] for kind in found), "a reason is never empty"


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        (Phase.PENDING, "3 of 3 nodes still wait for an available pod of revision v1"),
        (Phase.PROGRESSING, "3 of 3 nodes still wait for an available pod of revision v2"),
        (
            Phase.HELD,
            "0 of 3 nodes have an available pod of revision v2; partition 3 keeps the others on the old revision",
        ),
        (
            Phase.SOAKING,
            "1 of 3 nodes has an available pod of revision v2; step 1 of 2 soaks until 2027-01-16T08:00:00Z",
        ),
        (
            Phase.AWAITING_APPROVAL,
            "1 of 3 nodes has an available pod of revision v2; "
            "step 1 of 2 has to be approved: annotation kruise-ds/approve=v2/1",
        ),
        (Phase.PAUSED, "paused with 3 nodes left to update"),
        (
            Phase.STALLED,
            "no progress for 600 seconds; no new pod is available on node-2; "
            "1 node counts as unavailable, maxUnavailable is 1",
        ),
        (Phase.MANUAL, "OnDelete: 3 nodes wait for the old pod to be deleted"),
        (Phase.DEGRADED, "1 of 3 nodes no longer has an available pod of revision v1"),
        (Phase.HEALTHY, "3 of 3 nodes have an available pod of revision v1"),
    ],
)
def test_the_message_of_ready_is_a_sentence(phase: Phase, message: str) -> None:
    assert words(IN_PHASE[phase], "Ready")[2] == message


@pytest.mark.parametrize(("fields", "phase"), [({"paused": True}, "paused"), ({"on_delete": True}, "OnDelete")])
def test_where_it_is_ready_though_nodes_are_unserved_the_message_says_so(fields: dict[str, Any], phase: str) -> None:
    status, _, message = words(looked_at(at("v1 v1 v2!", **fields)), "Ready")
    assert status == "True"
    assert message.startswith(phase)
    assert message.endswith("; 1 of 3 nodes has no available pod")


def test_a_held_rollout_tells_kept_nodes_that_are_unserved() -> None:
    _, reason, message = words(looked_at(at("v1 v1! v2", partition=2)), "Ready")
    assert reason == "Held"
    assert message.startswith("1 of 3 nodes has an available pod of revision v2; partition 2 keeps")
    assert message.endswith("; 1 of 3 nodes has no available pod")


def test_a_refused_template_is_stalled_and_says_why() -> None:
    refused = looked_at(at("v1 v1 v1", verdicts=refusing("v2", "no such field")))
    why = "the server refuses pods of the new template: no such field"
    assert words(refused, "Stalled") == ("True", "TemplateRefused", why)
    assert words(refused, "Ready")[:2] == ("False", "Stalled")
    assert kstatus(shown(refused.daemonset)) == FAILED


def test_an_unusable_spec_is_stalled_and_its_generation_not_observed() -> None:
    unusable = looked_at(at("v1 v1", partition="half", generation=4))
    assert words(unusable, "Stalled")[:2] == ("True", "InvalidSpec")
    assert waited_for(shown(unusable.daemonset), "Stalled")
    assert kstatus(shown(unusable.daemonset)) == IN_PROGRESS, "nothing could be done with this generation"


def test_a_blocker_is_the_reason_of_reconciling() -> None:
    silent = [node(name, taint(TAINT_UNREACHABLE, "NoExecute")) for name in ("node-0", "node-1")]
    stuck = looked_at(at("v1 v1", nodes=silent))
    told = "2 of 2 nodes still wait for an available pod of revision v2; waits for 2 unreachable nodes: "
    assert words(stuck, "Reconciling") == ("True", "NodesUnreachable", f"{told}node-1, node-0")
    assert words(stuck, "Ready")[:2] == ("False", "Progressing")


def test_a_rollout_that_waits_only_for_answers_of_the_server_says_so() -> None:
    first, second = (BackoffKey("object", f"uid-node-{number}-v1") for number in range(2))
    asked = at("v1 v1", in_backoff=dict.fromkeys((first, second), inf), in_flight=frozenset({first, second}))
    told = "2 of 2 nodes still wait for an available pod of revision v2; "
    silent = f"{told}the server has not answered what was asked for node-1, node-0"
    assert words(looked_at(asked), "Reconciling") == ("True", "ServerSilent", silent)
    moving = replace(asked, in_backoff={first: inf}, in_flight=frozenset({first}))
    assert words(looked_at(moving), "Reconciling")[1] == "Progressing", "the other node goes on"


@pytest.mark.parametrize("phase", [one for one in Phase if one is not Phase.TERMINATING])
def test_a_condition_of_an_older_generation_satisfies_no_wait(phase: Phase) -> None:
    found = IN_PHASE[phase].daemonset
    edited = shown(replace(found, generation=found.generation + 1))
    assert kstatus(edited) == IN_PROGRESS
    assert not any(waited_for(edited, kind, status) for kind in CONDITION_TYPES for status in ("True", "False"))


def test_an_edited_template_is_not_ready_before_the_controller_saw_it() -> None:
    healthy = IN_PHASE[Phase.HEALTHY]
    edited = replace(ds("v2", generation=2), status=healthy.daemonset.status)
    taken_in = looked_at(world(edited, nodes=3, pods=everywhere(3), revisions=()))
    assert words(taken_in, "Ready")[:2] == ("False", "Pending")
    assert not waited_for(shown(taken_in.daemonset), "Ready")


@pytest.mark.parametrize("phase", [one for one in Phase if one not in (Phase.TERMINATING, Phase.SOAKING)])
def test_time_alone_writes_none_of_them(phase: Phase) -> None:
    found = IN_PHASE[phase]
    later = replace(found, now=found.now + (599 if phase is Phase.PROGRESSING else 30 * 86400))
    decided = plan(later)
    assert decided.status is not None
    known = later.daemonset.version, later.daemonset.status
    assert due_status(later.daemonset, decided.status, known, later.now) is None


def of_the_page(found: Object) -> str:
    """Run the script as Argo CD does: Lua 5.1, with the object as `obj`."""
    runtime = lua51.LuaRuntime()
    run = runtime.eval(f"function(obj)\n{SCRIPT}\nend")
    return str(run(runtime.table_from(found, recursive=True)).status)


@pytest.mark.parametrize("phase", Phase)
def test_each_phase_is_shown_as_the_page_says(phase: Phase) -> None:
    found = as_read(IN_PHASE[phase])
    assert (shipped(found), of_the_page(found)) == TOLD[phase]


def test_the_script_of_the_page_waits_for_a_controller_that_has_not_run() -> None:
    new: Object = {"metadata": {"generation": 1}, "spec": {}}
    assert of_the_page(new) == of_the_page({**new, "status": {"observedGeneration": 0}}) == PROGRESSING
    later = as_read(IN_PHASE[Phase.HEALTHY])
    later["metadata"]["generation"] += 1
    assert of_the_page(later) == PROGRESSING, "the conditions are about the spec before"


@pytest.mark.parametrize(("of", "theirs"), BRANCHES.values(), ids=BRANCHES)
def test_the_branches_of_the_shipped_script_that_no_phase_alone_leads_to(of: World, theirs: str) -> None:
    assert shipped(as_read(looked_at(of))) == theirs
