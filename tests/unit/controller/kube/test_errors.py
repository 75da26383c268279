"""Which answer is which error, and what that means for a write or a watch."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from controller.kube import errors
from controller.kube.errors import (
    RETRY_VERDICTS,
    ApiError,
    Resend,
    WatchVerdict,
    WriteVerdict,
    classify,
    no_response_error,
    redacted,
    response_error,
)
from controller.kube.requests import NotConnected, Response
from tests.beds.sample_kind import status


def mapped(verb: str, code: int, body: bytes = b"", retry_after: float | None = None) -> ApiError:
    return response_error(verb, "pods default/a", Response(status=code, body=body, retry_after=retry_after))


BAD_PATCH = "the server rejected our request due to an error in our request"
UNKNOWN = (
    'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.a", unknown field "b"'
)
UID_CAUSE = [{"reason": "FieldValueInvalid", "field": "metadata.uid", "message": "field is immutable"}]
TERMINATING = [{"reason": "NamespaceTerminating", "field": "metadata.namespace", "message": "it is"}]
QUOTA = 'pods "a" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=4, limited: pods=4'
POLICY = "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: exceeded quota: pods"
WEBHOOK = 'admission webhook "w" denied the request: '


@pytest.mark.parametrize(
    ("verb", "code", "body", "retry_after", "expected"),
    [
        ("create", 409, status(409, "AlreadyExists"), None, errors.AlreadyExists),
        ("create", 409, b"", None, errors.Conflict),
        ("patch", 409, status(409, "Conflict"), None, errors.Conflict),
        ("patch", 422, status(422, "Invalid", causes=UID_CAUSE), None, errors.Conflict),
        ("patch", 422, status(422, "Invalid"), None, errors.Invalid),
        ("patch", 422, status(422, "Invalid", message=BAD_PATCH), None, errors.Conflict),
        ("create", 400, b"", None, errors.Invalid),
        ("create", 400, status(400, "BadRequest", message=UNKNOWN), None, errors.UnknownFields),
        ("patch", 415, b"", None, errors.Invalid),
        ("get", 404, b"404 page not found\n", None, errors.NotFound),
        ("watch", 410, status(410, "Expired"), None, errors.Gone),
        ("list", 401, b"", None, errors.Unauthorized),
        ("create", 403, b"", None, errors.Forbidden),
        ("create", 403, status(403, "Forbidden", causes=TERMINATING), None, errors.NamespaceTerminating),
        ("create", 403, status(403, "Forbidden", QUOTA), None, errors.QuotaExceeded),
        ("create", 403, status(403, "Forbidden", 'pods "a" is forbidden: no'), None, errors.Forbidden),
        ("create", 403, status(403, "Forbidden", f"{WEBHOOK}exceeded quota: pods"), None, errors.Forbidden),
        ("create", 403, status(403, "Forbidden", f"{WEBHOOK}{QUOTA}"), None, errors.Forbidden),
        ("create", 403, status(403, "Forbidden", POLICY), None, errors.Forbidden),
        ("create", 429, b"", 3.0, errors.TooManyRequests),
        ("create", 429, b"slow down", None, errors.TooManyRequests),
        ("create", 503, b"", 2.0, errors.TooManyRequests),
        ("create", 503, b"", None, errors.ServerError),
        ("create", 500, status(500, "InternalError", "failed calling webhook"), None, errors.ServerError),
        ("create", 500, status(500, "", "etcdserver: request timed out"), None, errors.UnknownOutcome),
        ("delete", 504, status(504, "Timeout"), None, errors.UnknownOutcome),
        ("get", 504, status(504, "Timeout"), None, errors.ServerError),
        ("patch", 502, b"<html>", None, errors.UnknownOutcome),
        ("get", 302, b"", None, errors.ServerError),
    ],
)
def test_an_answer_becomes_one_class(
    verb: str, code: int, body: bytes, retry_after: float | None, expected: type[ApiError]
) -> None:
    error = mapped(verb, code, body, retry_after)
    assert (type(error), error.status) == (expected, code)


FIELDS = ["spec.containers[0].image", "metadata.annotations[a.b/c-d]", "the image SAID", "exec --token=SAID", ""]


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (
            mapped("create", 422, status(422, "SAID", "SAID", causes=[{"field": field} for field in FIELDS])),
            f"create pods default/a: Invalid (HTTP 422): {'; '.join(FIELDS[:2])}",
        ),
        (mapped("create", 500, b"SAID"), "create pods default/a: ServerError (HTTP 500)"),
        (KeyError("SAID"), "KeyError"),
        (errors.ConfigError("the token file t is empty"), "the token file t is empty"),
        (errors.ConfigError("kubeconfig k: cannot be read", quoting="SAID"), "kubeconfig k: cannot be read"),
    ],
)
def test_the_log_has_of_an_error_what_is_not_its_text(error: Exception, logged: str) -> None:
    assert redacted(error) == logged


def test_the_log_has_why_there_is_no_answer_if_that_is_our_own_text() -> None:
    for cause, words in ((NotConnected("a:1: Connection refused"),) * 2, (ConnectionError("SAID"),) * 2):
        error = no_response_error("get", "pods", cause)
        error.__cause__ = cause
        known = isinstance(cause, NotConnected)
        assert redacted(error) == f"get pods: Unreachable: {words if known else 'ConnectionError'}"


ECHOED = r'patch: Invalid value: "{\"spec\":' + "x" * 9000 + r'}": strict decoding error: unknown field "a"'
OPEN_QUOTE = 'admission webhook "a.b" denied: the disk is 3" wide and ' + "x" * 600
SHIFTED = 'value `5"` refused; object "' + "b" * 600 + '": cannot change field z'


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (status(403, "Forbidden", "exceeded quota:\n pods=10"), "exceeded quota: pods=10"),
        (b'{"kind":"Secret","message":"s3cr3t"}', "HTTP 403"),
        (status(403, "Invalid", "x" * 9000), "x" * (errors.MAX_MESSAGE - 1) + "…"),
        (status(403, "Invalid", ECHOED), 'patch: Invalid value: "…": strict decoding error: unknown field "a"'),
        (status(403, "Invalid", OPEN_QUOTE), OPEN_QUOTE[: errors.MAX_MESSAGE - 1] + "…"),
        (status(403, "Invalid", SHIFTED), 'value `5"` refused; object "…": cannot change field z'),
    ],
    ids=["a Status", "no Status", "too long", "an echoed object", "an open quote", "a shifted quote"],
)
def test_the_text_names_verb_object_and_the_servers_words_in_short(body: bytes, words: str) -> None:
    assert str(mapped("create", 403, body)) == f"create pods default/a: {words}"


@pytest.mark.parametrize(
    ("code", "asked", "wait"),
    [
        (429, None, 1.0),
        (429, 0.0, 1.0),
        (429, 7.0, 7.0),
        (429, 86_400.0, 30.0),
        (503, math.inf, 30.0),
        (403, None, None),
        (500, None, None),
    ],
)
def test_a_busy_server_gets_the_time_it_asks_for_within_bounds(
    code: int, asked: float | None, wait: float | None
) -> None:
    assert mapped("create", code, retry_after=asked).retry_after == wait


@pytest.mark.parametrize(
    ("verb", "error", "expected"),
    [
        ("get", ConnectionResetError("reset"), errors.Unreachable),
        ("list", TimeoutError(), errors.Unreachable),
        ("create", ConnectionResetError("reset"), errors.UnknownOutcome),
        ("delete", TimeoutError(), errors.UnknownOutcome),
        ("create", NotConnected("refused"), errors.Unreachable),
    ],
)
def test_no_answer_is_unknown_only_for_a_write_that_was_sent(
    verb: str, error: OSError, expected: type[ApiError]
) -> None:
    assert type(no_response_error(verb, "pods default/a", error)) is expected


def test_an_unknown_object_is_told_from_an_unknown_kind() -> None:
    body = b'{"kind":"Status","reason":"NotFound","details":{"name":"a","kind":"pods"}}'
    assert mapped("get", 404, body).name == "a"
    assert mapped("get", 404, status(404, "NotFound")).name == ""
    assert mapped("get", 404, b"404 page not found\n").name == ""


JUDGED = {
    # what it is: refused, settles itself, undecided
    WriteVerdict.NOT_FOUND: (False, False, False),
    WriteVerdict.ALREADY_EXISTS: (False, True, False),
    WriteVerdict.CONFLICT: (False, True, False),
    WriteVerdict.INVALID: (True, False, False),
    WriteVerdict.UNKNOWN_FIELDS: (True, False, False),
    WriteVerdict.FORBIDDEN: (True, False, False),
    WriteVerdict.MUTATED: (True, False, False),
    WriteVerdict.NAMESPACE_TERMINATING: (True, False, False),
    WriteVerdict.QUOTA_EXCEEDED: (True, False, False),
    WriteVerdict.FAILED: (False, False, False),
    WriteVerdict.UNAVAILABLE: (False, False, True),
    WriteVerdict.UNKNOWN_OUTCOME: (False, True, True),
}

DESIGN = Path(__file__).parents[4] / "docs/design/life-of-an-event.md"

OF_A_WRITE = {
    WriteVerdict.NOT_FOUND: "a delete is done already",
    WriteVerdict.ALREADY_EXISTS: "a create is done already, if the object is ours",
    WriteVerdict.CONFLICT: "another writer was quicker: decide anew",
    WriteVerdict.INVALID: "refused: reported, in back-off",
    WriteVerdict.UNKNOWN_FIELDS: "refused, whatever the node: reported",
    WriteVerdict.FORBIDDEN: "refused, perhaps only for this node: reported, in back-off",
    WriteVerdict.MUTATED: "done, but not as asked: reported, in back-off",
    WriteVerdict.NAMESPACE_TERMINATING: "refused: not reported, in back-off",
    WriteVerdict.QUOTA_EXCEEDED: (
        "refused until something is deleted: reported; a create of a pod puts all creates in back-off, "
        "another write its own key"
    ),
    WriteVerdict.FAILED: "failed: reported, in back-off",
    WriteVerdict.UNAVAILABLE: "not done, whatever the write: again soon",
    WriteVerdict.UNKNOWN_OUTCOME: "unknown: it may have been done, or may yet be",
}
OF_A_READ = {
    WatchVerdict.EXPIRED: "lists again",
    WatchVerdict.NOT_SERVED: "at long intervals, until the CRD is installed; then lists again",
    WatchVerdict.INVALID: "lists again; a streamed list: in pages, at once",
    WatchVerdict.FORBIDDEN: "backs off until an administrator acts; a streamed list: in pages, at once",
    WatchVerdict.UNAUTHORIZED: "backs off until an administrator acts",
    WatchVerdict.SERVER_ERROR: "backs off; lists again after several failures",
    WatchVerdict.UNREACHABLE: "every second or two",
    WatchVerdict.OTHER: "backs off",
}
OF_A_CALL = {
    Resend.NEVER: "",
    Resend.AFTER_DELAY: "after the time that the server asks for",
    Resend.WITH_NEW_CREDENTIALS: "once, with fresh credentials",
}


def rows_of_the_design() -> dict[str, tuple[str, ...]]:
    """By error, the other cells of its row."""
    table = DESIGN.read_text().split("| error |")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return {kind: tuple(cells) for kinds, *cells in rows for kind in kinds.split(", ")}


def test_every_error_has_a_row_of_its_own() -> None:
    named = {one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, ApiError)}
    assert set(RETRY_VERDICTS) == named - {ApiError}


def test_the_design_tells_the_same() -> None:
    assert rows_of_the_design() == {
        kind.__name__: (OF_A_WRITE[meaning.write], OF_A_READ[meaning.watch], OF_A_CALL[meaning.resend])
        for kind, meaning in RETRY_VERDICTS.items()
    }


@pytest.mark.parametrize("write", WriteVerdict, ids=lambda write: write.name)
def test_how_a_write_that_ended_so_is_judged(write: WriteVerdict) -> None:
    assert (write.refused, write.is_transient, write.undecided) == JUDGED[write]


def test_a_kind_of_conflict_means_what_a_conflict_does() -> None:
    class Moved(errors.Conflict):
        """The same, told apart by who raised it."""

    assert classify(Moved("patch", "pods default/a", "it moved")).write is WriteVerdict.CONFLICT
