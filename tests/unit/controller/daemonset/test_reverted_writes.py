"""What was done and has to be done again was taken back by somebody; where both are wanted in turn, by nobody."""

from __future__ import annotations

import pytest

from controller.api.gates import ReadinessGate
from controller.api.wellknown import IN_PLACE_UPDATE_READY, KRUISE_POD_READY
from controller.daemonset.answers import Answer
from controller.daemonset.places import Failing
from controller.daemonset.reverted_writes import SECONDS, RevertedWrites
from controller.kube.errors import Forbidden
from controller.planner import actions
from controller.planner.in_place.change import InPlaceChange
from controller.planner.place import Place
from tests.beds.worlds import pod, revision

REF = pod("node-0").ref
PREPARE = actions.PrepareDelete(
    pod=REF, node="node-0", why=actions.DeleteReason.OUTDATED, mark=True, held_by="label a=b"
)
CANCEL = actions.CancelDelete(pod=REF)
DELETE = actions.DeletePod(pod=REF, node="node-0", why=actions.DeleteReason.OUTDATED)
ADOPT = actions.AdoptPod(pod=REF, owners=0)
DRAIN = actions.DrainPod(pod=REF, node="node-0")
RESIZE = actions.ResizePod(pod=REF, node="node-0")


def updating(to: str) -> actions.UpdateInPlace:
    return actions.UpdateInPlace(pod=REF, node="node-0", before="v1", revision=revision(to), change=InPlaceChange())


def going_on(*waiting: str) -> actions.ContinueInPlace:
    return actions.ContinueInPlace(pod=REF, node="node-0", revision=revision("v2"), waiting=waiting)


def opening(*types: str) -> actions.OpenGates:
    return actions.OpenGates(
        pod=REF, gates=tuple(ReadinessGate(type=one, open=False, present=True, index=0) for one in types)
    )


def done(*carried_out: actions.Action, failing: tuple[Place, ...] = (), delay: float = 0.0) -> RevertedWrites:
    taken_back = RevertedWrites()
    for action in carried_out:
        taken_back.learn(Answer(action=action), dict.fromkeys(failing, Failing(until=0.0, delay=delay)), 0.0)
    return taken_back


@pytest.mark.parametrize(
    ("before", "action", "taken_back"),
    [
        ((), PREPARE, False),
        ((PREPARE,), PREPARE, True),
        ((CANCEL,), CANCEL, True),
        ((PREPARE, CANCEL), PREPARE, False),
        ((CANCEL, PREPARE), CANCEL, False),
        ((opening(KRUISE_POD_READY),), opening(KRUISE_POD_READY), True),
        ((opening(IN_PLACE_UPDATE_READY),), opening(IN_PLACE_UPDATE_READY), True),
        ((opening(IN_PLACE_UPDATE_READY),), opening(KRUISE_POD_READY), False),
        ((opening(IN_PLACE_UPDATE_READY), DRAIN), opening(IN_PLACE_UPDATE_READY), False),
        ((opening(IN_PLACE_UPDATE_READY), updating("v2")), opening(IN_PLACE_UPDATE_READY), False),
        ((DRAIN,), DRAIN, True),
        ((DRAIN, opening(IN_PLACE_UPDATE_READY)), DRAIN, False),
        ((RESIZE,), RESIZE, True),
        ((updating("v2"), RESIZE), updating("v2"), True),
        ((updating("v2"), actions.RelabelPod(pod=REF, hash="v1")), updating("v2"), True),
        ((actions.RelabelPod(pod=REF, hash="v1"), updating("v2")), actions.RelabelPod(pod=REF, hash="v1"), False),
        ((going_on("b", "c"),), going_on("b", "c"), True),
        ((going_on("b", "c"),), going_on("c"), False),
        ((PREPARE,), opening(KRUISE_POD_READY), False),
        ((DELETE,), DELETE, False),
        ((updating("v2"),), updating("v2"), True),
        ((updating("v2"), updating("v1")), updating("v2"), False),
        ((actions.RelabelPod(pod=REF, hash="v1"),), actions.RelabelPod(pod=REF, hash="v1"), True),
        ((actions.RelabelPod(pod=REF, hash="v1"),), actions.RelabelPod(pod=REF, hash="v2"), False),
        ((ADOPT,), ADOPT, True),
        ((ADOPT, actions.ReleasePod(pod=REF, owner_index=0)), ADOPT, False),
    ],
)
def test_the_same_twice_in_a_row_is_taken_back(
    before: tuple[actions.Action, ...], action: actions.Action, taken_back: bool
) -> None:
    assert (done(*before).reverted(action, {}, 1.0) is not None) is taken_back


def test_what_only_makes_up_for_a_failure_ends_nothing() -> None:
    taken_back = done(PREPARE, CANCEL, failing=(Place.of_object(REF.uid),))
    assert taken_back.reverted(PREPARE, {}, 1.0) is not None
    assert taken_back.reverted(CANCEL, {}, 1.0) is None


@pytest.mark.parametrize("closing", [DRAIN, updating("v2")])
def test_an_update_that_failed_may_have_closed_the_gate(closing: actions.Action) -> None:
    taken_back = done(opening(IN_PLACE_UPDATE_READY))
    taken_back.learn(Answer(action=closing, error=Forbidden("patch", "pods demo", "no")), {}, 0.0)
    assert taken_back.reverted(opening(IN_PLACE_UPDATE_READY), {}, 1.0) is None


def test_what_was_refused_was_not_done() -> None:
    taken_back = RevertedWrites()
    taken_back.learn(Answer(action=PREPARE, error=Forbidden("patch", "pods demo", "no")), {}, 0.0)
    assert taken_back.reverted(PREPARE, {}, 1.0) is None


def test_long_ago_is_not_lately_unless_its_place_was_left_alone_for_so_long() -> None:
    taken_back = done(PREPARE)
    assert taken_back.reverted(PREPARE, {}, SECONDS) is not None
    assert taken_back.reverted(PREPARE, {}, SECONDS + 1) is None
    assert taken_back.reverted(PREPARE, {PREPARE.place: Failing(until=0.0, delay=SECONDS)}, SECONDS + 1) is not None


def test_it_is_fought_as_long_as_the_last_time_was_not_the_first() -> None:
    taken_back = done(PREPARE)
    assert taken_back.contested == set()
    error = taken_back.reverted(PREPARE, {}, 1.0)
    taken_back.learn(Answer(action=PREPARE, error=error, left=error), {}, 1.0)
    assert taken_back.contested == {PREPARE.place}
    taken_back.learn(Answer(action=PREPARE), {}, 200.0)
    assert taken_back.contested == set()
