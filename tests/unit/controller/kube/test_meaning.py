"""What an error means for whoever made the request."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.kube import errors
from controller.kube.errors import ApiError
from controller.kube.meaning import MEANINGS, ForRead, ForWrite, Meaning, Resend, meaning_of

MEANS: dict[type[ApiError], tuple[ForWrite, ForRead, Resend]] = {
    errors.NotFound: (ForWrite.ABSENT, ForRead.MISSING, Resend.NEVER),
    errors.AlreadyExists: (ForWrite.EXISTS, ForRead.BACK_OFF, Resend.NEVER),
    errors.Conflict: (ForWrite.OVERTAKEN, ForRead.BACK_OFF, Resend.NEVER),
    errors.Gone: (ForWrite.FAILED, ForRead.ANEW, Resend.NEVER),
    errors.Invalid: (ForWrite.REFUSED, ForRead.REFUSED, Resend.NEVER),
    errors.Forbidden: (ForWrite.DENIED, ForRead.FORBIDDEN, Resend.NEVER),
    errors.NamespaceTerminating: (ForWrite.ENDING, ForRead.FORBIDDEN, Resend.NEVER),
    errors.QuotaExceeded: (ForWrite.NO_ROOM, ForRead.FORBIDDEN, Resend.NEVER),
    errors.Unauthorized: (ForWrite.FAILED, ForRead.NO_ENTRY, Resend.RENEWED),
    errors.Busy: (ForWrite.NOT_NOW, ForRead.BACK_OFF, Resend.LATER),
    errors.ServerError: (ForWrite.FAILED, ForRead.FAILING, Resend.NEVER),
    errors.Unreadable: (ForWrite.FAILED, ForRead.FAILING, Resend.NEVER),
    errors.Unreachable: (ForWrite.NOT_NOW, ForRead.AWAY, Resend.NEVER),
    errors.Unknown: (ForWrite.UNKNOWN, ForRead.BACK_OFF, Resend.NEVER),
}

JUDGED = {
    # what it is: of the place, refused, settles itself, undecided
    ForWrite.ABSENT: (False, False, False, False),
    ForWrite.EXISTS: (False, False, True, False),
    ForWrite.OVERTAKEN: (False, False, True, False),
    ForWrite.REFUSED: (True, True, False, False),
    ForWrite.DENIED: (True, True, False, False),
    ForWrite.ENDING: (True, True, False, False),
    ForWrite.NO_ROOM: (True, True, False, False),
    ForWrite.FAILED: (True, False, False, False),
    ForWrite.NOT_NOW: (False, False, False, True),
    ForWrite.UNKNOWN: (False, False, True, True),
}

DESIGN = Path(__file__).parents[4] / "docs/design/life-of-an-event.md"

OF_A_WRITE = {
    ForWrite.ABSENT: "done already, if the object was to be deleted",
    ForWrite.EXISTS: "done already, if the object is ours",
    ForWrite.OVERTAKEN: "somebody was quicker: decide anew",
    ForWrite.REFUSED: "refused: reported, held back at its place",
    ForWrite.DENIED: "refused, perhaps only for this node: reported, held back at its place",
    ForWrite.ENDING: "refused: not reported, held back at its place",
    ForWrite.NO_ROOM: (
        "refused until something is deleted: reported; a create of a pod holds back all creates, "
        "another write its place"
    ),
    ForWrite.FAILED: "failed: reported, held back at its place",
    ForWrite.NOT_NOW: "not done, not because of the place: again soon",
    ForWrite.UNKNOWN: "in doubt: it may have been done, or may yet be",
}
OF_A_READ = {
    ForRead.ANEW: "lists again",
    ForRead.MISSING: "at long intervals, until the CRD is installed; then lists again",
    ForRead.REFUSED: "lists again; a stream of the initial state: in pages, at once",
    ForRead.FORBIDDEN: "backs off: only an administrator can help; a stream of the initial state: in pages, at once",
    ForRead.NO_ENTRY: "backs off: only an administrator can help",
    ForRead.FAILING: "backs off; lists again after several failures",
    ForRead.AWAY: "every second or two",
    ForRead.BACK_OFF: "backs off",
}
OF_A_CALL = {
    Resend.NEVER: "",
    Resend.LATER: "after the time that the server asks for",
    Resend.RENEWED: "once, with fresh credentials",
}


def rows_of_the_design() -> dict[str, tuple[str, ...]]:
    """By error, the other cells of its row."""
    table = DESIGN.read_text().split("| error |")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return {kind: tuple(cells) for kinds, *cells in rows for kind in kinds.split(", ")}


def test_every_error_has_a_row_of_its_own() -> None:
    named = {one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, ApiError)}
    assert set(MEANINGS) == named - {ApiError}


@pytest.mark.parametrize("kind", MEANINGS, ids=lambda kind: kind.__name__)
def test_what_an_error_means(kind: type[ApiError]) -> None:
    write, read, resend = MEANS[kind]
    assert meaning_of(kind("create", "pods default/a", "no")) == Meaning(write=write, read=read, resend=resend)


def test_the_design_tells_the_same() -> None:
    assert rows_of_the_design() == {
        kind.__name__: (OF_A_WRITE[meaning.write], OF_A_READ[meaning.read], OF_A_CALL[meaning.resend])
        for kind, meaning in MEANINGS.items()
    }


@pytest.mark.parametrize("write", ForWrite, ids=lambda write: write.name)
def test_how_a_write_that_ended_so_is_judged(write: ForWrite) -> None:
    assert (write.of_the_place, write.refused, write.settles_itself, write.undecided) == JUDGED[write]


def test_a_kind_of_conflict_means_what_a_conflict_does() -> None:
    class Moved(errors.Conflict):
        """The same, told apart by who raised it."""

    assert meaning_of(Moved("patch", "pods default/a", "it moved")).write is ForWrite.OVERTAKEN
