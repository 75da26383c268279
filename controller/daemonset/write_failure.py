"""The failed write that the status reports: until such writes succeed, or are not needed any more."""

from __future__ import annotations

from collections.abc import Container, Sequence

from controller.api.base import Value
from controller.daemonset.answers import Answer
from controller.kube.meaning import meaning_of
from controller.planner import actions
from controller.planner.place import Place
from controller.planner.plan import Plan


class WriteFailure(Value):
    words: str
    """The server's message."""
    gist: str
    """`words` without the object's name. Failures are compared by it, because the message differs for each pod only
    in the name."""
    kind: type[actions.Action]


def failure_after(
    before: WriteFailure | None, decided: Plan, answers: Sequence[Answer], failing: Container[Place]
) -> WriteFailure | None:
    """The failure to report after a pass: the first one of this pass, or else the previous one unless that is over.
    `failing` are the places where writes have failed.

    A pass that tried nothing of the kind proves nothing: a back-off may have kept it from trying. The words stay
    while only the name in them would change; each change would be written.
    """
    failures = [(one.action, one.left) for one in answers if one.left is not None]
    lasting = [
        (action, error)
        for action, error in failures
        if not meaning_of(error).write.settles_itself or action.place in failing
    ]
    if lasting:
        action, error = lasting[0]
        words = str(error)
        told = WriteFailure(words=words, gist=words.replace(action.name, ""), kind=type(action))
        same = before is not None and (before.kind, before.gist) == (told.kind, told.gist)
        return before if same else told
    if before is None or decided.all_written:
        return None
    went_through = {type(one.action) for one in answers} - {type(action) for action, _ in failures}
    return None if before.kind in went_through and not decided.withheld else before
