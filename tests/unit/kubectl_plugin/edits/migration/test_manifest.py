"""What is printed for a repository, from what there is."""

from __future__ import annotations

import pytest

from controller.api.base import JSONObject, value_at
from kubectl_plugin.edits.apply_manifest import LAST_APPLIED
from kubectl_plugin.edits.migration.manifest import migration_manifest
from kubectl_plugin.edits.migration.observed import Observed
from kubectl_plugin.failures import CommandError
from tests.unit.kubectl_plugin.edits.migration import observations as scene

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
        (scene.observed(None, scene.ours(scene.GOING, dying=True, kept=scene.KEPT), scene.pods("")), "native"),
        (
            scene.observed(
                scene.native(scene.FROZEN),
                scene.ours(scene.GOING, dying=True, kept=scene.KEPT),
                scene.pods(scene.NATIVE),
            ),
            "native",
        ),
        (scene.observed(scene.native(scene.FROZEN, dying=True), scene.ours(scene.COMING), scene.pods("")), "ours"),
        (scene.observed(None, scene.ours(scene.COMING), scene.pods(scene.OURS)), "ours"),
        (scene.observed(scene.native(scene.FROZEN), None, scene.pods(scene.NATIVE)), "native"),
    ],
)
def test_of_what_is_half_way_there_is_none(there: Observed, to: str) -> None:
    with pytest.raises(CommandError) as refused:
        migration_manifest(there, native=to == "native")
    assert refused.value.message == "agent is half-way, or being deleted: it is not as it is to be"


@pytest.mark.parametrize(("old", "held"), [(0, False), (1, True)])
def test_a_native_one_is_held_while_nodes_keep_an_older_revision(old: int, held: bool) -> None:
    made = migration_manifest(
        scene.observed(None, scene.ours(), scene.pods(scene.OURS, old=old), scene.history(scene.OURS)), native=True
    )
    assert (value_at(made.document, "spec", "updateStrategy") == ON_DELETE) is held
    assert any("OnDelete: 1 node keeps an older revision" in line for line in made.comments) is held


@pytest.mark.parametrize(("template", "differs"), [(SAME, False), (SAME.replace("v2", "v1"), True)])
def test_what_the_author_wrote_is_compared_by_its_meaning(template: str, differs: bool) -> None:
    there = scene.native(annotations={LAST_APPLIED[-1]: NOTED % template})
    made = migration_manifest(
        scene.observed(there, None, scene.pods(scene.NATIVE), scene.history(scene.NATIVE)), native=False
    )
    assert any("differs from what runs: image agent v2 -> v1." in line for line in made.comments) is differs


def test_annotations_true_of_ours_only_are_not_printed_for_a_native_one() -> None:
    text = '{"metadata":{"name":"agent","annotations":{"kruise-ds/steps":"1","team":"infra"}},"spec":{}}'
    there = scene.ours(annotations={LAST_APPLIED[-1]: text, "kruise-ds/steps": "1", "team": "infra"})
    made = migration_manifest(
        scene.observed(None, there, scene.pods(scene.OURS), scene.history(scene.OURS)), native=True
    )
    assert value_at(made.document, "metadata", "annotations") == {"team": "infra"}
    assert "Lost, as a native DaemonSet does not have it: annotation kruise-ds/steps." in made.comments
