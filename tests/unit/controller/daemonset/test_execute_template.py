"""What the answers to writes say of the template: two nodes that may not have it, or a dry run, refuse it."""

from __future__ import annotations

import pytest

from controller.api.wellknown import SUCCESSFUL_DELETE
from controller.planner.actions import DeleteReason, ProbeTemplate
from controller.planner.world import Accepted, TemplateRefused, TemplateVerdict
from tests.beds.dependencies import Acting, refusal
from tests.beds.scripted import Answer, ok
from tests.beds.verdicts import refusing
from tests.beds.worlds import NOW, OURS, ds, revision
from tests.unit.controller.daemonset.test_execute import AWAY, BROKEN, DENIED, ENDING, QUOTA, delete


def test_only_the_deletion_of_a_failed_pod_is_a_strike_of_its_node_and_generation() -> None:
    acting = Acting(daemonset=ds(generation=4))
    for why in DeleteReason:
        if why is not DeleteReason.FAILED:
            acting.carry_out([delete(why)], ok())
    assert len(acting.dependencies.failed_pods) == 0
    acting.carry_out([delete(DeleteReason.FAILED)], ok())
    waits = acting.dependencies.failed_pods.remaining((OURS, 4, "node-0"), NOW)
    assert (len(acting.dependencies.failed_pods), waits) == (1, 1.0)
    assert [note.reason for note in acting.notes] == [SUCCESSFUL_DELETE] * len(DeleteReason)


PROBE = ProbeTemplate(node="node-0", name="demo-dry", revision=revision("v1"))


@pytest.mark.parametrize(
    ("answer", "verdict", "failures"),
    [
        (ok(), Accepted(), 0),
        (refusal(422, "Invalid", "no such field"), TemplateRefused(words="no such field"), 0),
        (DENIED, None, 0),
        (QUOTA, Accepted(), 0),
        (BROKEN, None, 1),
        (AWAY, None, 1),
    ],
    ids=[
        "accepted",
        "invalid",
        "forbidden, perhaps for the node",
        "a full quota: the pod that goes makes room",
        "broken",
        "away",
    ],
)
def test_what_a_dry_run_says_of_the_template(answer: Answer, verdict: TemplateVerdict | None, failures: int) -> None:
    acting = Acting()
    assert len(acting.carry_out([PROBE], answer)) == failures
    assert acting.state.verdicts.by_revision.get("v1") == verdict


def test_a_name_that_is_taken_is_no_matter_of_the_template() -> None:
    """A server looks for it when everything else has passed."""
    acting = Acting()
    assert acting.carry_out([PROBE], refusal(409, "AlreadyExists")) == ()
    assert acting.state.verdicts.by_revision == {"v1": Accepted()}


def test_a_template_counts_as_refused_when_two_nodes_may_not_have_it() -> None:
    acting = Acting()
    acting.carry_out([PROBE], DENIED)
    acting.carry_out([PROBE], DENIED)
    assert acting.state.verdicts.by_revision == refusing("v1", "not on this node")
    assert acting.state.verdicts.ask_at == NOW + 60


def test_in_a_namespace_that_ends_nobody_has_refused_the_template() -> None:
    acting = Acting()
    for _ in range(2):
        assert acting.carry_out([PROBE], ENDING) == ()
    assert (acting.state.verdicts.by_revision, acting.state.verdicts.ask_at) == ({}, 0.0)


def test_a_template_that_is_accepted_after_all_begins_anew() -> None:
    acting = Acting()
    for _ in range(4):
        acting.carry_out([PROBE], DENIED)
    acting.carry_out([PROBE], ok())
    for _ in range(2):
        acting.carry_out([PROBE], DENIED)
    assert acting.state.verdicts.ask_at == NOW + 60
