"""What follows from the errors of writes: what counts, what is left, where writes pause, what the status tells, and
which writes another controller takes back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.api.gates import ReadinessGate
from controller.api.wellknown import IN_PLACE_UPDATE_READY, KRUISE_POD_READY
from controller.daemonset.after_error import CountsAsFailure, Left, counts_after, left_after
from controller.daemonset.answers import Answer
from controller.daemonset.places import FAILING_AT_MOST, FAILING_KEPT, MOST_INCONCLUSIVE, Failing, Places
from controller.daemonset.reverted_writes import SECONDS, RevertedWrites
from controller.daemonset.write_failure import WriteFailure, failure_after
from controller.kube.errors import ApiError, Conflict, Forbidden
from controller.kube.meaning import ForWrite
from controller.planner import actions
from controller.planner.actions import Action, CreatePod, DeletePod, DeleteReason
from controller.planner.in_place.change import InPlaceChange
from controller.planner.place import Place
from controller.planner.plan import Plan
from tests.beds.worlds import NOW, pod, revision

REF = pod("node-0").ref
DELETE = DeletePod(pod=REF, node="node-0", why=DeleteReason.OUTDATED)


def create(node: str) -> CreatePod:
    return CreatePod(node=node, name=f"demo-of-{node}", revision=revision("v1"))


def refused(action: Action, words: str = "no", error: type[ApiError] = Forbidden) -> Answer:
    said = error("create", "pods", words)
    return Answer(action=action, error=said, left=said)


# what an error counts as, and what is left to do

ACTIONS: tuple[Action, ...] = (
    create("node-0"),
    DELETE,
    actions.ProbeTemplate(node="node-0", name="demo-dry", revision=revision("v1")),
    actions.CreateRevision(name="demo-v1", hash="v1", number=1),
)
NO, YES, UNLESS = CountsAsFailure.NO, CountsAsFailure.YES, CountsAsFailure.UNLESS_DONE
COUNTS = {
    # what it means: for a create, a deletion, a dry run, a revision
    ForWrite.ABSENT: (NO, NO, NO, NO),
    ForWrite.EXISTS: (NO, NO, NO, NO),
    ForWrite.OVERTAKEN: (NO, NO, NO, NO),
    ForWrite.REFUSED: (UNLESS, UNLESS, YES, YES),
    ForWrite.DENIED: (UNLESS, UNLESS, YES, YES),
    ForWrite.ENDING: (YES, YES, YES, YES),
    ForWrite.NO_ROOM: (YES, UNLESS, YES, YES),
    ForWrite.FAILED: (UNLESS, UNLESS, YES, YES),
    ForWrite.NOT_NOW: (NO, NO, NO, NO),
    ForWrite.UNKNOWN: (NO, NO, NO, NO),
}
NOTHING, AGAIN, TOLD, DOUBT = Left.NOTHING, Left.AGAIN, Left.TOLD, Left.IN_DOUBT
LEFT = {
    ForWrite.ABSENT: (TOLD, Left.IF_THERE, AGAIN, AGAIN),
    ForWrite.EXISTS: (AGAIN, AGAIN, NOTHING, AGAIN),
    ForWrite.OVERTAKEN: (AGAIN, AGAIN, AGAIN, AGAIN),
    ForWrite.REFUSED: (TOLD, TOLD, NOTHING, AGAIN),
    ForWrite.DENIED: (TOLD, TOLD, NOTHING, AGAIN),
    ForWrite.ENDING: (NOTHING, NOTHING, NOTHING, NOTHING),
    ForWrite.NO_ROOM: (TOLD, TOLD, NOTHING, AGAIN),
    ForWrite.FAILED: (TOLD, TOLD, AGAIN, AGAIN),
    ForWrite.NOT_NOW: (TOLD, TOLD, AGAIN, AGAIN),
    ForWrite.UNKNOWN: (DOUBT, DOUBT, AGAIN, AGAIN),
}


@pytest.mark.parametrize("means", list(ForWrite), ids=lambda means: means.name)
def test_what_an_error_counts_as_and_leaves_to_do(means: ForWrite) -> None:
    for index, action in enumerate(ACTIONS):
        known, what = COUNTS[means][index], type(action).__name__
        assert counts_after(action, means, suspect=False) is known, what
        suspected = COUNTS[ForWrite.FAILED][index] if known is NO else known
        assert counts_after(action, means, suspect=True) is suspected, (
            f"{what}: at a suspect place every error counts"
        )
        assert left_after(action, means, over=False) is LEFT[means][index], what
        assert left_after(action, means, over=True) is AGAIN, f"{what}: there is nothing to ask and to tell"


# for how long a place is left alone


def test_a_place_is_left_alone_from_its_second_failure_on() -> None:
    places: Places[str] = Places()
    places.failed("node-3", 100.0)
    assert places.held_back(100.0) == {}, "the first failure may be chance: it is tried again at once"
    places.failed("node-3", 100.0)
    assert places.held_back(100.0) == {"node-3": 101.0}
    places.failed("node-3", 101.0)
    assert places.held_back(102.5) == {"node-3": 103.0}
    assert places.held_back(103.0) == {}
    for _ in range(20):
        places.failed("node-3", 200.0)
    assert places.held_back(200.0) == {"node-3": 200.0 + FAILING_AT_MOST}


def test_of_many_places_that_fail_those_that_wait_are_kept() -> None:
    places: Places[str] = Places()
    for _ in range(2):
        places.failed("node-that-waits", NOW)
    for number in range(FAILING_KEPT):
        places.failed(f"node-{number}", NOW)
    places.failed("one-more", NOW + 0.5)
    assert sorted(places.failing) == ["node-that-waits", "one-more"]


@pytest.mark.parametrize("means", list(ForWrite), ids=lambda means: means.name)
def test_a_failure_counts_if_it_is_of_the_place_or_the_third_in_a_row(means: ForWrite) -> None:
    places: Places[str] = Places()
    counts = [places.learn_failure("node-3", means, NOW) for _ in range(MOST_INCONCLUSIVE)]
    assert counts == [means.of_the_place, means.of_the_place, True]
    assert "node-3" in places.failing


def test_inconclusive_answers_make_a_place_suspect_until_one_goes_well() -> None:
    places: Places[str] = Places()
    for _ in range(MOST_INCONCLUSIVE - 1):
        assert not places.is_suspect("node-3")
        places.note_inconclusive("node-3")
    assert places.is_suspect("node-3")
    places.went_well("node-3")
    assert not places.is_suspect("node-3")


def test_a_server_that_is_back_clears_only_places_that_were_not_to_blame() -> None:
    places: Places[str] = Places()
    for _ in range(MOST_INCONCLUSIVE + 2):
        places.learn_failure("away", ForWrite.NOT_NOW, NOW)
        places.learn_failure("refused", ForWrite.REFUSED, NOW)
    places.server_back()
    assert list(places.failing) == ["refused"]
    assert not places.is_suspect("away")


# for how long the status tells a failure

BEFORE = WriteFailure(words="no pods here", gist="no pods here", kind=CreatePod)
A, B = create("a"), create("b")
CHANGED = refused(A, "changed meanwhile", Conflict)


def test_the_first_failure_that_is_no_passing_one_is_told() -> None:
    failures = [CHANGED, refused(B, "not on b")]
    told = failure_after(None, Plan(actions=(A, B)), failures, ())
    assert told is not None
    assert (told.words, told.kind) == (str(failures[1].left), CreatePod)


def test_the_words_stay_while_only_the_name_in_them_differs() -> None:
    told = failure_after(None, Plan(actions=(A,)), [refused(A, f"pods {A.name} is forbidden")], ())
    assert failure_after(told, Plan(actions=(B,)), [refused(B, f"pods {B.name} is forbidden")], ()) == told
    other = failure_after(told, Plan(actions=(B,)), [refused(B, f"pods {B.name} exceeds quota")], ())
    assert other is not None
    assert "exceeds quota" in other.words


def test_a_failure_is_over_once_its_write_goes_through_or_none_is_left() -> None:
    assert failure_after(BEFORE, Plan(actions=(A,)), [Answer(action=A)], ()) is None
    assert failure_after(BEFORE, Plan(all_written=True), [], ()) is None


def test_a_failure_stays_while_nothing_of_the_kind_was_tried_or_some_waits() -> None:
    plans = {
        "a back-off allows nothing": Plan(withheld=True),
        "the caches are behind": Plan(),
        "writes of another kind": Plan(actions=(DELETE,)),
        "other nodes get their pods": Plan(actions=(A,), withheld=True),
    }
    for what, decided in plans.items():
        answers = [Answer(action=action) for action in decided.actions]
        assert failure_after(BEFORE, decided, answers, ()) == BEFORE, what
    assert failure_after(BEFORE, Plan(actions=(A,)), [CHANGED], ()) == BEFORE


def test_a_failure_of_another_kind_takes_its_place() -> None:
    told = failure_after(BEFORE, Plan(actions=(DELETE,)), [refused(DELETE, "not yours")], ())
    assert told is not None
    assert told.kind is DeletePod
    assert told != replace(BEFORE, words=told.words)


def test_an_error_that_passes_is_told_where_it_repeats() -> None:
    told = failure_after(None, Plan(actions=(A,)), [CHANGED], {Place.of_node("a")})
    assert told is not None
    assert "changed meanwhile" in told.words


# writes that have to be done again were taken back

PREPARE = actions.PrepareDelete(pod=REF, node="node-0", why=DeleteReason.OUTDATED, mark=True, held_by="label a=b")
CANCEL = actions.CancelDelete(pod=REF)
RELABEL = actions.RelabelPod(pod=REF, hash="v1")
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


def done(*carried_out: Action, failing: tuple[Place, ...] = (), delay: float = 0.0) -> RevertedWrites:
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
        ((updating("v2"), RELABEL), updating("v2"), True),
        ((RELABEL, updating("v2")), RELABEL, False),
        ((going_on("b", "c"),), going_on("b", "c"), True),
        ((going_on("b", "c"),), going_on("c"), False),
        ((PREPARE,), opening(KRUISE_POD_READY), False),
        ((DELETE,), DELETE, False),
        ((updating("v2"),), updating("v2"), True),
        ((updating("v2"), updating("v1")), updating("v2"), False),
        ((RELABEL,), RELABEL, True),
        ((RELABEL,), actions.RelabelPod(pod=REF, hash="v2"), False),
        ((ADOPT,), ADOPT, True),
        ((ADOPT, actions.ReleasePod(pod=REF, owner_index=0)), ADOPT, False),
    ],
)
def test_the_same_write_twice_in_a_row_was_taken_back(
    before: tuple[Action, ...], action: Action, taken_back: bool
) -> None:
    assert (done(*before).reverted(action, {}, 1.0) is not None) is taken_back


def test_an_action_that_makes_up_for_a_failure_ends_nothing() -> None:
    taken_back = done(PREPARE, CANCEL, failing=(Place.of_object(REF.uid),))
    assert taken_back.reverted(PREPARE, {}, 1.0) is not None
    assert taken_back.reverted(CANCEL, {}, 1.0) is None


@pytest.mark.parametrize("closing", [DRAIN, updating("v2")])
def test_an_update_that_failed_may_have_closed_the_gate(closing: Action) -> None:
    taken_back = done(opening(IN_PLACE_UPDATE_READY))
    taken_back.learn(refused(closing), {}, 0.0)
    assert taken_back.reverted(opening(IN_PLACE_UPDATE_READY), {}, 1.0) is None


def test_a_write_that_was_refused_was_not_done() -> None:
    taken_back = RevertedWrites()
    taken_back.learn(refused(PREPARE), {}, 0.0)
    assert taken_back.reverted(PREPARE, {}, 1.0) is None


def test_long_ago_does_not_count_unless_its_place_was_left_alone() -> None:
    taken_back = done(PREPARE)
    assert taken_back.reverted(PREPARE, {}, SECONDS) is not None
    assert taken_back.reverted(PREPARE, {}, SECONDS + 1) is None
    assert taken_back.reverted(PREPARE, {PREPARE.place: Failing(until=0.0, delay=SECONDS)}, SECONDS + 1) is not None


def test_a_place_is_contested_while_the_last_write_repeated_another() -> None:
    taken_back = done(PREPARE)
    assert taken_back.contested == set()
    error = taken_back.reverted(PREPARE, {}, 1.0)
    taken_back.learn(Answer(action=PREPARE, error=error, left=error), {}, 1.0)
    assert taken_back.contested == {PREPARE.place}
    taken_back.learn(Answer(action=PREPARE), {}, 200.0)
    assert taken_back.contested == set()
