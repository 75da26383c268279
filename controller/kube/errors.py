"""The errors of requests. `RETRY_VERDICTS` is what each means for the request, for a write and for a watch; what a
`WriteVerdict` leads to is `reconcile.write_outcomes.WRITE_OUTCOMES`
(docs/design/life-of-an-event.md#when-a-write-fails)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

import msgspec

from controller.api.formats import listed
from controller.api.names import is_quota_exceeded, unknown_fields
from controller.api.objects import Value, View
from controller.kube.requests import NotConnected, Response

MAX_MESSAGE = 512
"""Characters kept of a message; too few to copy a whole object into events."""

_LONG_QUOTATION = re.compile(r'"(?=(?:[^"\\]|\\.){128})[^"\\]*+(?:\\.[^"\\]*+)*+("|\\?\Z)')
"""For a refused patch, the server quotes the whole object before it names the mistake. A quotation that is cut off
matches too: a search that began anew at each of its quotes would take seconds."""

BUSY_WITHOUT_HINT = 1.0
"""Seconds to wait after a 429 with a Retry-After of 0 or none."""

MAX_RETRY_AFTER = 30.0
"""In seconds. Caps what a server or proxy asks for, as a lost pod waits for the answer."""

WRITES = frozenset({"create", "patch", "delete"})


class Cause(View):
    reason: str = ""
    field: str = ""
    message: str = ""


class _Details(View):
    name: str = ""
    causes: tuple[Cause, ...] | None = None


class _Status(View):
    kind: str = ""
    message: str = ""
    reason: str = ""
    details: _Details | None = None


_status = msgspec.json.Decoder(_Status)


class ConfigError(Exception):
    """Settings from which server or credentials cannot be read. One line that names the file or context."""

    def __init__(self, words: str, *, quoting: str = "", hint: str = "") -> None:
        """`quoting` is what the line quotes from a file or the output of a program."""
        super().__init__(f"{words}: {quoting}" if quoting else words)
        self.words = words
        """The line without the quotation, for the log."""
        self.hint = hint
        """One line on what to do about it; empty if not known."""


class ApiError(Exception):
    """A failed request. The text has the verb, the object and the server's message."""

    def __init__(
        self,
        verb: str,
        what: str,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        name: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{verb} {what}: {message}")
        self.verb, self.what, self.message = verb, what, message
        self.status = status
        """HTTP status code; 0 if there was no answer."""
        self.reason = reason
        """The reason in the server's Status, such as `AlreadyExists`; empty if the answer was not a Status."""
        self.name = name
        """The object that the server names; empty if it does not serve the kind."""
        self.causes = causes
        self.retry_after = retry_after
        """Seconds to wait before another attempt; None if the server did not say."""


class NotFound(ApiError):
    """404: no such object; for a list or watch, no such kind (its CRD is not installed)."""


class AlreadyExists(ApiError):
    """409 on create: the name is taken."""


class Conflict(ApiError):
    """409, or 422 from the uid guard or for a missing path: the object has changed since it was read."""


class Gone(ApiError):
    """410: the resourceVersion or continue token has expired; list again."""


class MutatedByWebhook(ApiError):
    """A write was accepted, but a webhook changed what makes the object ours."""

    def __init__(self, verb: str, what: str, message: str, *, stray: str = "") -> None:
        super().__init__(verb, what, message)
        self.stray = stray
        """The uid of the pod that the selector does not match; empty if it matches, or no pod was stored."""


class Invalid(ApiError):
    """400, 405, 406, 413, 415, 422: the same request will be refused again."""


class UnknownFields(Invalid):
    """400 with `fieldValidation=Strict`: the server would drop unknown fields. Nothing else was checked."""


class Forbidden(ApiError):
    """403 by access control or an admission policy."""


class NamespaceTerminating(Forbidden):
    """403 on create: the namespace is being deleted."""


class QuotaExceeded(Forbidden):
    """403: a ResourceQuota is exhausted. The object is valid, and deletions make room."""


class Unauthorized(ApiError):
    """401, even with fresh credentials."""


class TooManyRequests(ApiError):
    """429, or 503 with Retry-After, for longer than the call may wait. Nothing was done."""


class ServerError(ApiError):
    """5xx, or an unexpected status code. As far as the server says, nothing was done."""


class Unreadable(ApiError):
    """The answer is not the document that was requested."""


class Unreachable(ApiError):
    """No answer to a read, or no connection at all. Nothing was done."""


class UnknownOutcome(ApiError):
    """A write got no answer, or timed out inside the server: it may or may not have been done."""


class Resend(Enum):
    """Whether the call repeats its request before it raises the error."""

    NEVER = auto()
    AFTER_DELAY = auto()
    """As long as the call may last, each time after the delay that the server asks for."""
    WITH_NEW_CREDENTIALS = auto()
    """Once."""


class WriteVerdict(Enum):
    """The result of a failed write."""

    NOT_FOUND = auto()
    """No such object: a delete is done already."""
    ALREADY_EXISTS = auto()
    """The name is taken: if the object is ours, the create is done already."""
    CONFLICT = auto()
    """The object was changed by another writer, or replaced."""
    INVALID = auto()
    """The server will refuse the request again."""
    UNKNOWN_FIELDS = auto()
    """As `INVALID`, whatever the node: the server does not know a field of the template."""
    FORBIDDEN = auto()
    """As `INVALID`, but a policy may allow it on another node."""
    MUTATED = auto()
    """Done, but made useless by a webhook."""
    NAMESPACE_TERMINATING = auto()
    """The DaemonSet will be deleted with its namespace."""
    QUOTA_EXCEEDED = auto()
    """Refused until something is deleted."""
    FAILED = auto()
    """Not done, for a reason outside of the request."""
    UNAVAILABLE = auto()
    """Not done: the server is busy or away, so that any other write fails too."""
    UNKNOWN_OUTCOME = auto()
    """It may have been done, or may yet be."""

    @property
    def refused(self) -> bool:
        return self in (
            WriteVerdict.INVALID,
            WriteVerdict.UNKNOWN_FIELDS,
            WriteVerdict.FORBIDDEN,
            WriteVerdict.MUTATED,
            WriteVerdict.NAMESPACE_TERMINATING,
            WriteVerdict.QUOTA_EXCEEDED,
        )

    @property
    def is_transient(self) -> bool:
        """Whether the next pass nearly always settles it, so that only repeated failures are reported."""
        return self in (WriteVerdict.ALREADY_EXISTS, WriteVerdict.CONFLICT, WriteVerdict.UNKNOWN_OUTCOME)

    @property
    def undecided(self) -> bool:
        """Whether it is still unknown if the server accepts the write."""
        return self in (WriteVerdict.UNAVAILABLE, WriteVerdict.UNKNOWN_OUTCOME)


class WatchVerdict(Enum):
    """How a list or watch, which never gives up, continues after an error."""

    EXPIRED = auto()
    """The resourceVersion or page token has expired: list again."""
    NOT_SERVED = auto()
    """Ask every few seconds until the CRD is installed; then list."""
    INVALID = auto()
    """The server refuses this form of the request: list in another form, at growing intervals."""
    FORBIDDEN = auto()
    """Retry at growing intervals, possibly in another form, until an administrator allows it."""
    UNAUTHORIZED = auto()
    """Retry at growing intervals until an administrator changes the credentials."""
    SERVER_ERROR = auto()
    """Retry at growing intervals; after several failures list again, as the request may be the cause."""
    UNREACHABLE = auto()
    """Retry every second or two, which costs the server nothing."""
    OTHER = auto()


class RetryVerdict(Value):
    write: WriteVerdict
    watch: WatchVerdict = WatchVerdict.OTHER
    resend: Resend = Resend.NEVER


RETRY_VERDICTS: Final[Mapping[type[ApiError], RetryVerdict]] = {
    NotFound: RetryVerdict(write=WriteVerdict.NOT_FOUND, watch=WatchVerdict.NOT_SERVED),
    AlreadyExists: RetryVerdict(write=WriteVerdict.ALREADY_EXISTS),
    Conflict: RetryVerdict(write=WriteVerdict.CONFLICT),
    Gone: RetryVerdict(write=WriteVerdict.FAILED, watch=WatchVerdict.EXPIRED),
    MutatedByWebhook: RetryVerdict(write=WriteVerdict.MUTATED),
    Invalid: RetryVerdict(write=WriteVerdict.INVALID, watch=WatchVerdict.INVALID),
    UnknownFields: RetryVerdict(write=WriteVerdict.UNKNOWN_FIELDS, watch=WatchVerdict.INVALID),
    Forbidden: RetryVerdict(write=WriteVerdict.FORBIDDEN, watch=WatchVerdict.FORBIDDEN),
    NamespaceTerminating: RetryVerdict(write=WriteVerdict.NAMESPACE_TERMINATING, watch=WatchVerdict.FORBIDDEN),
    QuotaExceeded: RetryVerdict(write=WriteVerdict.QUOTA_EXCEEDED, watch=WatchVerdict.FORBIDDEN),
    Unauthorized: RetryVerdict(
        write=WriteVerdict.FAILED, watch=WatchVerdict.UNAUTHORIZED, resend=Resend.WITH_NEW_CREDENTIALS
    ),
    TooManyRequests: RetryVerdict(write=WriteVerdict.UNAVAILABLE, resend=Resend.AFTER_DELAY),
    ServerError: RetryVerdict(write=WriteVerdict.FAILED, watch=WatchVerdict.SERVER_ERROR),
    Unreadable: RetryVerdict(write=WriteVerdict.FAILED, watch=WatchVerdict.SERVER_ERROR),
    Unreachable: RetryVerdict(write=WriteVerdict.UNAVAILABLE, watch=WatchVerdict.UNREACHABLE),
    UnknownOutcome: RetryVerdict(write=WriteVerdict.UNKNOWN_OUTCOME),
}


def classify(error: ApiError) -> RetryVerdict:
    return next(RETRY_VERDICTS[kind] for kind in type(error).__mro__ if kind in RETRY_VERDICTS)


def is_gone(error: ApiError, *, versioned: bool = False) -> bool:
    """Whether the object of a request with its uid is gone or replaced. `versioned`: the request has its version too,
    so that a Conflict does not say so."""
    return classify(error).write in (WriteVerdict.NOT_FOUND, *(() if versioned else (WriteVerdict.CONFLICT,)))


_CLASSES: dict[int, type[ApiError]] = {
    **dict.fromkeys((400, 405, 406, 413, 415, 422), Invalid),
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    429: TooManyRequests,
}

_FIELD = re.compile(r"[A-Za-z]\w*(?:\.\w+|\[[\w./-]*\])*")
"""A field path. A webhook may send any text instead."""

_NO_SUCH_PATH = "the server rejected our request due to an error in our request"
"""The answer to a JSON Patch that cannot be applied; its resourceVersion has not been checked yet."""

_TIMED_OUT_INSIDE = ("etcdserver:", "context deadline exceeded", "timed out")
"""Texts of a 500 after which the storage may still have the write."""


def redacted(error: BaseException) -> str:
    """An error for the log: names, kind of error, HTTP status and refused fields. Its text is included only if it is
    always our own, as it may quote a server, webhook, kubelet or other program."""
    if isinstance(error, ConfigError):
        return error.words
    if isinstance(error, NotConnected):
        return str(error)
    if not isinstance(error, ApiError):
        return type(error).__name__
    text = f"{error.verb} {error.what}: {type(error).__name__}"
    if error.status:
        text += f" (HTTP {error.status})"
    if error.__cause__ is not None:
        text += f": {redacted(error.__cause__)}"
    fields = {cause.field: None for cause in error.causes if _FIELD.fullmatch(cause.field)}
    return f"{text}: {listed(fields)}" if fields else text


def response_error(verb: str, what: str, response: Response) -> ApiError:
    status = _read(response.body)
    message = _shorten(status.message or f"HTTP {response.status}")
    causes = (status.details and status.details.causes) or ()
    error = _class_of(verb, response, status.reason, message, causes)
    retry_after = response.retry_after
    if error is TooManyRequests:
        retry_after = retry_after or BUSY_WITHOUT_HINT
    if retry_after is not None:
        retry_after = min(retry_after, MAX_RETRY_AFTER)
    return error(
        verb,
        what,
        message,
        status=response.status,
        reason=status.reason,
        name=status.details.name if status.details else "",
        causes=causes,
        retry_after=retry_after,
    )


def no_response_error(verb: str, what: str, error: OSError | TimeoutError) -> ApiError:
    message = _shorten(str(error) or type(error).__name__)
    if verb in WRITES and not isinstance(error, NotConnected):
        return UnknownOutcome(verb, what, f"no answer, it may have been done: {message}")
    return Unreachable(verb, what, message)


def _class_of(verb: str, response: Response, reason: str, message: str, causes: tuple[Cause, ...]) -> type[ApiError]:
    code = response.status
    if code == 409 and reason == "AlreadyExists":
        return AlreadyExists
    if code == 422 and (message == _NO_SUCH_PATH or any(cause.field == "metadata.uid" for cause in causes)):
        return Conflict
    if code == 400 and unknown_fields(message):
        return UnknownFields
    if code == 403 and any(cause.reason == "NamespaceTerminating" for cause in causes):
        return NamespaceTerminating
    if code == 403 and is_quota_exceeded(message):
        return QuotaExceeded
    if code == 503 and response.retry_after is not None:
        return TooManyRequests
    timed_out_inside = code == 500 and any(text in message for text in _TIMED_OUT_INSIDE)
    if verb in WRITES and (code in (502, 504) or timed_out_inside):
        return UnknownOutcome
    return _CLASSES.get(code, ServerError)


def _read(body: bytes) -> _Status:
    """The Status in an error body, or an empty one for anything else (a proxy's page, plain text)."""
    try:
        status = _status.decode(body)
    except msgspec.MsgspecError:
        return _Status()
    return status if status.kind == "Status" else _Status()


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    if len(line) > MAX_MESSAGE:
        line = _LONG_QUOTATION.sub(lambda found: '"…"' if found[1] == '"' else found[0], line)
    return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 1] + "…"
