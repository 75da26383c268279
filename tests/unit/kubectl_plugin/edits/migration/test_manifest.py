"""What is printed for a repository, from what there is."""

from __future__ import annotations

import pytest

from controller.api.base import JSONObject
from kubectl_plugin.edits.applying import found
from kubectl_plugin.edits.manifest import LAST_APPLIED
from kubectl_plugin.edits.migration.manifest import printed
from kubectl_plugin.edits.migration.observed import Observed
from kubectl_plugin.failures import CommandError
from tests.unit.kubectl_plugin.edits.migration.observations import (
    COMING,
    FROZEN,
    GOING,
    KEPT,
    NATIVE,
    OURS,
    history,
    native,
    observed,
    ours,
    pods,
)

ON_DELETE: JSONObject = {"type": "OnDelete"}
NOTED = '{"metadata":{"name":"agent","creationTimestamp":null},"spec":{"template":%s}}'
"""As kubectl does."""
SAME = """{
    "metadata": {"labels": {"app": "agent"}, "creationTimestamp": null},
    "spec": {"containers": [{"name": "agent", "image": "v2"}]}
}"""


@pytest.mark.parametrize(
    ("there", "to"),
    [
        (observed(None, ours(GOING, dying=True, kept=KEPT), pods("")), "native"),
        (observed(native(FROZEN), ours(GOING, dying=True, kept=KEPT), pods(NATIVE)), "native"),
        (observed(native(FROZEN, dying=True), ours(COMING), pods("")), "ours"),
        (observed(None, ours(COMING), pods(OURS)), "ours"),
        (observed(native(FROZEN), None, pods(NATIVE)), "native"),
    ],
)
def test_of_what_is_half_way_there_is_none(there: Observed, to: str) -> None:
    with pytest.raises(CommandError) as refused:
        printed(there, native=to == "native")
    assert refused.value.message == "agent is half-way, or being deleted: it is not as it is to be"


@pytest.mark.parametrize(("old", "held"), [(0, False), (1, True)])
def test_a_native_one_is_held_while_nodes_keep_an_older_revision(old: int, held: bool) -> None:
    made = printed(observed(None, ours(), pods(OURS, old=old), history(OURS)), native=True)
    assert (found(made.document, "spec", "updateStrategy") == ON_DELETE) is held
    assert any("OnDelete: 1 node keeps an older revision" in line for line in made.comments) is held


@pytest.mark.parametrize(("template", "differs"), [(SAME, False), (SAME.replace("v2", "v1"), True)])
def test_what_the_author_wrote_is_compared_by_its_meaning(template: str, differs: bool) -> None:
    there = native(annotations={LAST_APPLIED[-1]: NOTED % template})
    made = printed(observed(there, None, pods(NATIVE), history(NATIVE)), native=False)
    assert any("differs from what runs: image agent v2 -> v1." in line for line in made.comments) is differs


def test_of_a_native_one_no_annotation_is_printed_that_is_true_of_ours_only() -> None:
    text = '{"metadata":{"name":"agent","annotations":{"kruise-ds/steps":"1","team":"infra"}},"spec":{}}'
    there = ours(annotations={LAST_APPLIED[-1]: text, "kruise-ds/steps": "1", "team": "infra"})
    made = printed(observed(None, there, pods(OURS), history(OURS)), native=True)
    assert found(made.document, "metadata", "annotations") == {"team": "infra"}
    assert "Lost, as a native DaemonSet does not have it: annotation kruise-ds/steps." in made.comments
