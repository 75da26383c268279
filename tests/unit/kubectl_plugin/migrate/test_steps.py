"""Which step is next, in every state in which it can be left."""

from __future__ import annotations

import pytest

from controller.api.objects import JSONObject
from kubectl_plugin.changes.edit import Draft
from kubectl_plugin.errors import CommandError
from kubectl_plugin.migrate import state
from kubectl_plugin.migrate.observed import Kind, Observed
from kubectl_plugin.migrate.steps import (
    ChangeObject,
    CreateObject,
    Delete,
    HandedOver,
    MigrationStep,
    WaitForPods,
    next_step,
)
from tests.unit.kubectl_plugin.migrate.observations import (
    ACTING,
    COMING,
    FROZEN,
    GOING,
    KEPT,
    NATIVE,
    NOW,
    ORPHANING,
    OURS,
    ROLLING,
    history,
    native,
    observed,
    ours,
    pods,
    still,
)

ALL, PAST = pods(NATIVE), history(NATIVE)
MINE, MY_PAST = pods(OURS), history(OURS)
FREE, FREE_PAST = pods(""), history("")
ENDING, LEAVING = pods(OURS, nodes=1, ends=NOW + 25), pods(NATIVE, nodes=1, ends=NOW + 25)
TWO: JSONObject = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
COLLECTOR = "waits: the garbage collector to release the pods"
ADOPTS = "to adopt pods and revisions"
OBSERVE = "the kruise-ds controller to observe it"
COUNTS = "waits: the native controller to tell old pods from new ones"
BOTH = "refused: agent exists both as a native and as an Advanced DaemonSet: nodes may have two pods"


def told(found: Observed, *, to: str) -> str:
    """The step in a line."""
    try:
        step: MigrationStep = next_step(found, native=to == "native")
    except CommandError as error:
        return f"refused: {error.message}"
    match step:
        case CreateObject():
            return f"create {step.kind}"
        case ChangeObject():
            return f"change {step.kind}: {step.says}"
        case Delete():
            return f"delete {step.kind}{' without its pods' if step.orphan else ''}"
        case WaitForPods():
            return f"waits: {step.what}"
        case HandedOver():
            return f"done: {step.says}"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (observed(), 'refused: no DaemonSet "agent" in namespace "agents", neither of apps/v1 nor of apps.kruise.io'),
        (observed(None, ours()), "done: is an Advanced DaemonSet"),
        (observed(None, ours(seen=False)), f"waits: {OBSERVE}"),
        (
            observed(native(terminating=True), None, ALL, PAST),
            "refused: daemonset.apps/agent is being deleted by another client",
        ),
        (observed(native(), None, ALL, PAST), "create daemonset.apps.kruise.io"),
        (observed(native(), None, (*ALL, *FREE), PAST), f"waits: the native controller {ADOPTS}"),
        (observed(native(), None, ALL, FREE_PAST), f"waits: the native controller {ADOPTS}"),
        (observed(native(), ours(), ALL, PAST), BOTH),
        (observed(native(), ours(GOING), ALL, PAST), BOTH),
        (
            observed(native(image="v1"), ours(COMING), ALL, PAST),
            "change daemonset.apps.kruise.io: follows the native one",
        ),
        (observed(native(), ours(COMING, seen=False), ALL, PAST), f"waits: {OBSERVE}"),
        (observed(native(), ours(COMING), ALL, PAST), "change daemonset.apps: updates nothing from now on"),
        (
            observed(native(FROZEN, strategy=ROLLING), ours(COMING), ALL, PAST),
            "change daemonset.apps: updates nothing from now on",
        ),
        (
            observed(native(FROZEN, strategy=TWO), ours(COMING), ALL, PAST),
            "change daemonset.apps.kruise.io: follows the native one",
        ),
        (observed(native(FROZEN), ours(COMING), ALL[1:], PAST, LEAVING), "waits: agent-0 to end"),
        (
            observed(native(FROZEN), ours(COMING), ALL[1:], PAST, emptied=frozenset({"node-0"})),
            "waits: a new pod on node-0",
        ),
        (
            observed(native(FROZEN, terminating=True, kept=("example.io/x",)), ours(COMING), ALL, PAST),
            "waits: the finalizer example.io/x to go",
        ),
        (observed(native(FROZEN, seen=False), ours(COMING), ALL, PAST), "waits: the native controller to observe it"),
        (observed(native(FROZEN), ours(COMING), ALL, PAST[:1]), "waits: the native controller to observe it"),
        (observed(native(FROZEN), ours(COMING), ALL, PAST), "delete daemonset.apps without its pods"),
        (
            observed(native(FROZEN), ours(COMING), ALL, history(NATIVE, first=0)),
            "change controllerrevision.apps: is number 2",
        ),
        (observed(native(FROZEN), ours(COMING), pods(NATIVE, age=1.0), PAST), "waits: no new pod for 3 s"),
        (
            observed(native(FROZEN), ours(COMING), (*ALL, *pods(NATIVE, nodes=1)), PAST),
            "waits: one pod on node-0, where there are two",
        ),
        (observed(native(FROZEN, terminating=True), ours(COMING), FREE, PAST), COLLECTOR),
        (observed(None, ours(COMING), (*MINE, *FREE), MY_PAST), f"waits: the kruise-ds controller {ADOPTS}"),
        (observed(None, ours(COMING), (*MINE, *ALL), MY_PAST), f"waits: the kruise-ds controller {ADOPTS}"),
        (observed(None, ours(COMING), MINE, FREE_PAST), f"waits: the kruise-ds controller {ADOPTS}"),
        (observed(None, ours(COMING, revision="own"), MINE, MY_PAST), f"waits: {OBSERVE}"),
        (observed(None, ours(COMING, seen=False), MINE, MY_PAST), f"waits: {OBSERVE}"),
        (observed(None, ours(COMING), MINE, MY_PAST), "change daemonset.apps.kruise.io: is in charge"),
        (
            observed(None, ours(COMING), pods(OURS, old=2), MY_PAST),
            "change daemonset.apps.kruise.io: is in charge; partition 2 keeps what is old",
        ),
        (observed(None, ours(GOING, kept=KEPT), MINE, MY_PAST), "change daemonset.apps.kruise.io: is in charge"),
        (observed(None, ours(GOING, terminating=True, kept=KEPT), FREE, FREE_PAST), "create daemonset.apps"),
        (
            observed(native(FROZEN), ours(GOING, terminating=True, kept=KEPT), ALL, PAST),
            "change daemonset.apps.kruise.io: is released",
        ),
        (observed(native(), ours(terminating=True), ALL, PAST), "waits: the deleted Advanced DaemonSet to disappear"),
    ],
)
def test_to_ours(found: Observed, expected: str) -> None:
    assert told(found, to="ours") == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (observed(), 'refused: no DaemonSet "agent" in namespace "agents", neither of apps/v1 nor of apps.kruise.io'),
        (observed(native(), None, ALL, PAST), "done: is a native DaemonSet"),
        (observed(native(FROZEN), None, ALL, PAST), "change daemonset.apps: is in charge"),
        (observed(native(FROZEN, seen=False), None, ALL, PAST), "waits: the native controller to observe it"),
        (observed(native(), ours(), ALL, PAST), BOTH),
        (observed(native(), ours(COMING), (*ALL, *MINE), PAST), BOTH),
        (observed(native(FROZEN), ours(COMING), ALL, PAST), "delete daemonset.apps.kruise.io"),
        (observed(native(FROZEN, terminating=True), ours(COMING), FREE, PAST), COLLECTOR),
        (observed(None, ours(COMING), (*MINE, *FREE), MY_PAST), f"waits: the kruise-ds controller {ADOPTS}"),
        (observed(None, ours(seen=False), MINE, MY_PAST), f"waits: {OBSERVE}"),
        (observed(None, ours(), MINE, MY_PAST), "change daemonset.apps.kruise.io: updates nothing from now on"),
        (
            observed(None, ours(GOING, kept=KEPT), MINE, MY_PAST),
            "change daemonset.apps.kruise.io: creates no more pods",
        ),
        (observed(None, ours(GOING, kept=KEPT), MINE[1:], MY_PAST, ENDING), "waits: agent-0 to end"),
        (
            observed(None, ours(GOING, kept=KEPT), MINE[1:], MY_PAST, emptied=frozenset({"node-0", "node-1"})),
            "waits: a new pod on node-0",
        ),
        (observed(None, still(), MINE[1:], MY_PAST, ENDING), "waits: agent-0 to end"),
        (observed(None, ours(GOING, kept=KEPT, seen=False), MINE, MY_PAST), f"waits: {OBSERVE}"),
        (
            observed(None, ours(GOING, kept=KEPT), pods(OURS, busy="a hook holds it"), MY_PAST),
            "waits: agent-0: a hook holds it",
        ),
        (
            observed(None, still(), (*MINE, *pods(OURS, nodes=1)), MY_PAST),
            "waits: one pod on node-0, where there are two",
        ),
        (observed(None, still(), pods(OURS, age=2.0), MY_PAST), "waits: no new pod for 3 s"),
        (observed(None, still(), MINE, MY_PAST), "delete daemonset.apps.kruise.io without its pods"),
        (observed(None, ours(GOING, terminating=True, kept=ORPHANING), MINE, MY_PAST), COLLECTOR),
        (
            observed(None, ours(GOING, terminating=True, kept=KEPT), MINE[:1] + FREE[1:], FREE_PAST),
            "change pod: is released",
        ),
        (observed(None, ours(GOING, terminating=True, kept=KEPT), FREE, FREE_PAST), "create daemonset.apps"),
        (
            observed(None, ours(terminating=True), FREE),
            "refused: daemonset.apps.kruise.io/agent is being deleted by another client",
        ),
        (
            observed(native(FROZEN), ours(GOING, terminating=True, kept=KEPT), FREE, FREE_PAST),
            f"waits: the native controller {ADOPTS}",
        ),
        (
            observed(native(FROZEN), ours(GOING, terminating=True, kept=KEPT), ALL, PAST),
            "change daemonset.apps: is in charge",
        ),
        (observed(native(FROZEN), ours(GOING, terminating=True, kept=KEPT), pods(NATIVE, old=1), PAST), COUNTS),
        (observed(native(FROZEN, updated=2), ours(GOING, terminating=True, kept=KEPT), ALL, PAST), COUNTS),
        (
            observed(native(FROZEN, updated=2, misscheduled=1), ours(GOING, terminating=True, kept=KEPT), ALL, PAST),
            "change daemonset.apps: is in charge",
        ),
        (
            observed(native(FROZEN, updated=2), ours(GOING, terminating=True, kept=KEPT), pods(NATIVE, old=1), PAST),
            "change daemonset.apps: is in charge",
        ),
        (
            observed(native(FROZEN), ours(GOING, terminating=True, kept=KEPT, revision="other"), ALL, PAST),
            "refused: the native controller takes the pods of agent for old ones; it updates nothing as it is",
        ),
        (
            observed(native(), ours(GOING, terminating=True, kept=KEPT), ALL, PAST),
            "change daemonset.apps.kruise.io: is released",
        ),
        (observed(native(), ours(terminating=True), ALL, PAST), "waits: the Advanced DaemonSet to disappear"),
    ],
)
def test_to_native(found: Observed, expected: str) -> None:
    assert told(found, to="native") == expected


@pytest.mark.parametrize("to", ["ours", "native"])
def test_who_manages_which_field_is_written_when_all_else_is_done(to: str) -> None:
    """After a kill right before it only that is left, either way."""
    managers = "has the field managers of the former one"
    assert told(observed(None, ours(ACTING), MINE, MY_PAST), to=to) == f"change daemonset.apps.kruise.io: {managers}"
    leaving = ours(GOING, terminating=True, kept=KEPT)
    for other in (None, leaving):
        assert told(observed(native(ACTING), other, ALL, PAST), to=to) == f"change daemonset.apps: {managers}"


def test_every_write_demands_what_was_seen() -> None:
    frozen = next_step(observed(native(), ours(COMING), ALL, PAST), native=False)
    assert isinstance(frozen, ChangeObject)
    assert frozen.version == "7"
    deleted = next_step(observed(native(FROZEN), ours(COMING), ALL, PAST), native=False)
    assert isinstance(deleted, Delete)
    assert (deleted.uid, deleted.version) == (NATIVE, "7")
    freed = next_step(observed(None, ours(GOING, terminating=True, kept=KEPT), MINE[:1], FREE_PAST), native=True)
    assert isinstance(freed, ChangeObject)
    assert (freed.kind, freed.operations[0].value) == (Kind.POD, "pod-0")


@pytest.mark.parametrize("back", [False, True])
def test_a_pod_that_ends_is_waited_for_as_long_as_it_may_take(back: bool) -> None:
    going = observed(None, still(), (), MY_PAST, pods(OURS, ends=NOW + 600))
    coming = observed(native(FROZEN), ours(COMING), (), PAST, pods(NATIVE, ends=NOW + 600))
    step = next_step(going if back else coming, native=back)
    assert isinstance(step, WaitForPods)
    assert (step.left, step.seconds) == (3, 630.0)
    assert "kubectl delete pod agent-0 -n agents --force" in step.hints[0], "the hint can be typed as it stands there"


def test_no_pod_has_the_generation_of_a_new_native_one() -> None:
    made = (*pods("", generation=7), *pods(""))
    created = next_step(observed(None, ours(GOING, terminating=True, kept=KEPT), made, FREE_PAST), native=True)
    assert isinstance(created, CreateObject)
    assert Draft(created.body).get("metadata", "annotations", state.GENERATION) == "8"


def test_where_new_pods_never_end_nothing_is_deleted() -> None:
    """The garbage collector may not have seen the newest one, and would delete it with its owner."""
    coming = next_step(observed(native(FROZEN), ours(COMING), pods(NATIVE, age=1.0), PAST), native=False)
    going = next_step(observed(None, still(), pods(OURS, age=1.0), MY_PAST), native=True)
    for step in (coming, going):
        assert isinstance(step, WaitForPods)
        assert "run it again when that has stopped" in step.hints[0]
