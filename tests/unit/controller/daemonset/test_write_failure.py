"""For how long a failure of writes is told."""

from __future__ import annotations

from msgspec.structs import replace

from controller.api.meta import Ref
from controller.daemonset.answers import Answer
from controller.daemonset.write_failure import WriteFailure, failure_after
from controller.kube.errors import ApiError, Conflict, Forbidden
from controller.planner.actions import Action, CreatePod, DeletePod, DeleteReason
from controller.planner.place import Place
from controller.planner.plan import Plan
from tests.beds.worlds import revision

BEFORE = WriteFailure(words="no pods here", gist="no pods here", kind=CreatePod)


def create(node: str) -> CreatePod:
    return CreatePod(node=node, name=f"demo-of-{node}", revision=revision("v1"))


DELETE = DeletePod(pod=Ref(namespace="default", name="demo-old", uid="u"), node="node-9", why=DeleteReason.UNWANTED)


def refused(action: Action, words: str, error: type[ApiError] = Forbidden) -> Answer:
    said = error("create", "pods", words)
    return Answer(action=action, error=said, left=said)


def done(action: Action) -> Answer:
    return Answer(action=action)


def test_the_first_failure_that_is_no_passing_one_is_told() -> None:
    first, second = create("a"), create("b")
    failures = [refused(first, "changed meanwhile", Conflict), refused(second, "not on b")]
    told = failure_after(None, Plan(actions=(first, second)), failures, ())
    assert told is not None
    assert (told.words, told.kind) == (str(failures[1].left), CreatePod)


def test_the_words_stay_while_only_the_name_in_them_differs() -> None:
    first, second = create("a"), create("b")
    told = failure_after(None, Plan(actions=(first,)), [refused(first, f"pods {first.name} is forbidden")], ())
    again = failure_after(told, Plan(actions=(second,)), [refused(second, f"pods {second.name} is forbidden")], ())
    assert again == told
    other = failure_after(told, Plan(actions=(second,)), [refused(second, f"pods {second.name} exceeds quota")], ())
    assert other is not None
    assert "exceeds quota" in other.words


def test_it_is_over_once_such_a_write_goes_through_or_nothing_is_left_to_write() -> None:
    assert failure_after(BEFORE, Plan(actions=(create("a"),)), [done(create("a"))], ()) is None
    assert failure_after(BEFORE, Plan(all_written=True), [], ()) is None


def test_it_stays_while_nothing_of_the_kind_was_tried_or_some_of_it_waits() -> None:
    plans = {
        "a back-off allows nothing": Plan(withheld=True),
        "the caches are behind": Plan(),
        "writes of another kind": Plan(actions=(DELETE,)),
        "other nodes get their pods": Plan(actions=(create("a"),), withheld=True),
    }
    for what, decided in plans.items():
        assert failure_after(BEFORE, decided, [done(action) for action in decided.actions], ()) == BEFORE, what
    conflict = [refused(create("a"), "changed meanwhile", Conflict)]
    assert failure_after(BEFORE, Plan(actions=(create("a"),)), conflict, ()) == BEFORE


def test_trouble_of_another_kind_takes_its_place() -> None:
    told = failure_after(BEFORE, Plan(actions=(DELETE,)), [refused(DELETE, "not yours")], ())
    assert told is not None
    assert told.kind is DeletePod
    assert told != replace(BEFORE, words=told.words)


def test_an_error_that_passes_is_told_where_it_comes_again_and_again() -> None:
    conflict = refused(create("a"), "changed meanwhile", Conflict)
    told = failure_after(None, Plan(actions=(create("a"),)), [conflict], {Place.of_node("a")})
    assert told is not None
    assert "changed meanwhile" in told.words
