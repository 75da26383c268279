"""What an error means for whoever made the request."""

from __future__ import annotations

import pytest

from controller.kube import errors
from controller.kube.errors import ApiError
from controller.kube.meaning import MEANINGS, ForRead, ForWrite, Meaning, Resend, meaning_of

MEANS: dict[type[ApiError], tuple[ForWrite, ForRead, Resend]] = {
    errors.NotFound: (ForWrite.ABSENT, ForRead.MISSING, Resend.NEVER),
    errors.AlreadyExists: (ForWrite.EXISTS, ForRead.BACK_OFF, Resend.NEVER),
    errors.Conflict: (ForWrite.OVERTAKEN, ForRead.BACK_OFF, Resend.NEVER),
    errors.Gone: (ForWrite.FAILED, ForRead.ANEW, Resend.NEVER),
    errors.Invalid: (ForWrite.REFUSED, ForRead.BACK_OFF, Resend.NEVER),
    errors.Forbidden: (ForWrite.REFUSED, ForRead.NO_ENTRY, Resend.NEVER),
    errors.Unauthorized: (ForWrite.FAILED, ForRead.NO_ENTRY, Resend.RENEWED),
    errors.Busy: (ForWrite.NOT_NOW, ForRead.BACK_OFF, Resend.LATER),
    errors.ServerError: (ForWrite.FAILED, ForRead.BACK_OFF, Resend.NEVER),
    errors.Unreadable: (ForWrite.FAILED, ForRead.BACK_OFF, Resend.NEVER),
    errors.Unreachable: (ForWrite.NOT_NOW, ForRead.AWAY, Resend.NEVER),
    errors.Unknown: (ForWrite.UNKNOWN, ForRead.BACK_OFF, Resend.NEVER),
}

JUDGED = {
    # what it is: of the place, settles itself, undecided
    ForWrite.ABSENT: (False, False, False),
    ForWrite.EXISTS: (False, True, False),
    ForWrite.OVERTAKEN: (False, True, False),
    ForWrite.REFUSED: (True, False, False),
    ForWrite.FAILED: (True, False, False),
    ForWrite.NOT_NOW: (False, False, True),
    ForWrite.UNKNOWN: (False, True, True),
}


def test_every_error_has_a_row_of_its_own() -> None:
    named = {one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, ApiError)}
    assert set(MEANINGS) == named - {ApiError}


@pytest.mark.parametrize("kind", MEANINGS, ids=lambda kind: kind.__name__)
def test_what_an_error_means(kind: type[ApiError]) -> None:
    write, read, resend = MEANS[kind]
    assert meaning_of(kind("create", "pods default/a", "no")) == Meaning(write=write, read=read, resend=resend)


@pytest.mark.parametrize("write", ForWrite, ids=lambda write: write.name)
def test_how_a_write_that_ended_so_is_judged(write: ForWrite) -> None:
    assert (write.of_the_place, write.settles_itself, write.undecided) == JUDGED[write]


def test_a_kind_of_conflict_means_what_a_conflict_does() -> None:
    class Moved(errors.Conflict):
        """The same, told apart by who raised it."""

    assert meaning_of(Moved("patch", "pods default/a", "it moved")).write is ForWrite.OVERTAKEN
