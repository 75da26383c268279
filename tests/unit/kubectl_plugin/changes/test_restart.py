"""A restart: kubectl's annotation in the template, and who is replaced in which order."""

from __future__ import annotations

import pytest

from controller.api import template_identity
from controller.api.names import RESTARTED_AT
from controller.api.objects import JSONObject, value_at
from kubectl_plugin.changes.edit import with_operations
from kubectl_plugin.changes.pausing import restart
from tests.beds.worlds import pod, served
from tests.unit.kubectl_plugin.changes.documents import ON_DELETE, live, rolling, seen

ALL = served("node-3", "node-2", "node-1", "node-0", rev="v2")
AT = "2027-01-15T08:00:00Z"


@pytest.mark.parametrize("annotations", [None, {}, {"team": "agents"}, {RESTARTED_AT: "2020-01-01T00:00:00Z"}])
def test_the_template_is_stamped_whatever_annotations_it_has(annotations: dict[str, str] | None) -> None:
    document = live(template_annotations=annotations)
    edit = restart(seen(document))
    after = with_operations(document, edit.operations)
    assert value_at(after, "spec", "template", "metadata", "annotations") == {**(annotations or {}), RESTARTED_AT: AT}
    assert edit.result == "restarted"


def test_a_template_without_metadata_gets_some() -> None:
    document: JSONObject = {**live(), "spec": {"selector": {}, "template": {"spec": {}}}}
    after = with_operations(document, restart(seen(document)).operations)
    assert value_at(after, "spec", "template", "metadata") == {"annotations": {RESTARTED_AT: AT}}


def test_to_the_controller_it_is_another_revision() -> None:
    document = live()
    after = value_at(with_operations(document, restart(seen(document)).operations), "spec", "template")
    assert isinstance(after, dict)
    assert template_identity.identity(after) != template_identity.identity(seen(document).daemonset.spec.template)


def test_it_tells_the_order_and_the_pace() -> None:
    assert restart(seen(live(rolling(maxUnavailable=2)), pods=ALL)).details == (
        "4 of 4 nodes get revision 3: node-3 … node-0, 2 at a time",
    )


def test_a_pod_that_serves_nobody_goes_first() -> None:
    pods = (*ALL[:3], pod("node-0", "v2", ready=None))
    assert restart(seen(live(rolling(maxUnavailable=1)), pods=pods)).details == (
        "4 of 4 nodes get revision 3: node-0 at once (no available pod), then node-3, node-2, node-1, 1 at a time",
    )


def test_a_partition_holds_for_a_restart_too() -> None:
    assert restart(seen(live(rolling(maxUnavailable=1, partition=3)), pods=ALL)).details == (
        "1 of 4 nodes gets revision 3: node-3",
        "partition 3 keeps 3 nodes (node-2, node-1, node-0) old",
    )


def test_paused_it_waits_for_resume() -> None:
    edit = restart(seen(live(rolling(paused=True)), pods=ALL))
    assert edit.details == ("4 of 4 nodes get revision 3 after resume: node-3 … node-0",)
    assert [(one.text, one.hints) for one in edit.warnings] == [
        ("demo is paused: nothing moves before it is resumed", ("kubectl kruise-ds resume demo -n default",))
    ]


def test_with_on_delete_it_waits_for_somebody() -> None:
    edit = restart(seen(live(ON_DELETE), pods=ALL))
    assert [(one.text, one.hints) for one in edit.warnings] == [
        (
            "updateStrategy of demo is OnDelete: pods change only when you delete them",
            ("kubectl kruise-ds nodes demo -n default --only old",),
        )
    ]
    assert edit.operations


def test_in_place_is_asked_for_but_pods_are_made_anew() -> None:
    edit = restart(seen(live(rolling(rollingUpdateType="InPlaceIfPossible", maxUnavailable=4)), pods=ALL))
    assert edit.details[-1] == f"re-create: metadata.annotations[{RESTARTED_AT}] asks for a restart"


def test_twice_in_one_second_it_is_one_restart() -> None:
    edit = restart(seen(live(template_annotations={RESTARTED_AT: AT})))
    assert (edit.result, edit.operations) == ("already restarted", ())
