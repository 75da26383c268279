"""The errors of requests, and the one table of what they mean for the request, for a write and for a watch.

ApiError
├─ NotFound  AlreadyExists  Conflict  Gone             about this object
├─ MutatedByWebhook  Invalid  Forbidden  Unauthorized  about this request
│                    │        ├─ NamespaceTerminating  about its namespace
│                    │        └─ QuotaExceeded
│                    └─ UnknownFields
├─ TooManyRequests  ServerError  Unreadable            about the server
├─ Unreachable                                         nothing was done
└─ UnknownOutcome                                      it may have been done

The table is also in docs/design/life-of-an-event.md#when-a-write-fails.
"""

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
"""Characters of a message that are kept: too few to copy a whole object into events."""

_QUOTATION = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+("|\\?\Z)')
"""A quotation. If its closing quote is missing, it extends to the end of the text."""
_LONG_QUOTATION = 130
"""Characters, with the quotes. For a refused patch the server quotes the whole object first, and says the mistake at
the end."""

BUSY_WITHOUT_HINT = 1.0
"""Seconds to wait after a 429 that does not say how long, or says 0."""

MAX_RETRY_AFTER = 30.0
"""Seconds. A server or a proxy that asks for more is asked again after this time: a lost pod waits for the answer."""

WRITES = frozenset({"create", "patch", "update", "delete"})


class Cause(View):
    """One entry of a Status' `details.causes`."""

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
    """Server or credentials cannot be read from the settings: one line that names the file or context."""

    def __init__(self, words: str, *, quoting: str = "", hint: str = "") -> None:
        """`quoting`: what the line also says of the contents of a file or the output of a program."""
        super().__init__(f"{words}: {quoting}" if quoting else words)
        self.words = words
        """The line without what it quotes, for the log."""
        self.hint = hint
        """What to do about it in one line; empty if not known."""


class ApiError(Exception):
    """A request that did not do what was asked. The text names verb, object and the message of the server."""

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
        """The reason in the server's Status, such as `AlreadyExists`; empty if the answer was no Status."""
        self.name = name
        """The object that the server names; empty if it names none, because it does not serve the kind."""
        self.causes = causes
        self.retry_after = retry_after
        """Seconds to wait before another try, if the server said so; None: it did not."""


class NotFound(ApiError):
    """404: no such object; on a list or watch, no such kind (its CRD is not installed)."""


class AlreadyExists(ApiError):
    """409 on create: the name is taken."""


class Conflict(ApiError):
    """409, or 422 from the uid guard or for a path that does not exist: the object has changed since it was read."""


class Gone(ApiError):
    """410: the version or continue token is too old. List again."""


class MutatedByWebhook(ApiError):
    """A write was accepted, but a webhook has changed what makes the object ours."""

    stray = ""
    """The uid of a pod that the selector does not match; empty: it does, or nothing was stored."""


class Invalid(ApiError):
    """400, 405, 406, 413, 415, 422: the same request will be refused again."""


class UnknownFields(Invalid):
    """400 with `fieldValidation=Strict`: the server does not know some fields of the object, and would drop them.
    Nothing else was checked."""


class Forbidden(ApiError):
    """403: access control or an admission policy."""


class NamespaceTerminating(Forbidden):
    """403 on create: the namespace is being deleted."""


class QuotaExceeded(Forbidden):
    """403: a ResourceQuota is used up. The object is valid, and deletions make room."""


class Unauthorized(ApiError):
    """401, also with fresh credentials."""


class TooManyRequests(ApiError):
    """429, or 503 with Retry-After, for longer than the call may wait. Nothing was done."""


class ServerError(ApiError):
    """5xx, or a status code that makes no sense here. As far as the server says, nothing was done."""


class Unreadable(ApiError):
    """The server answered, but not with the document that we asked for."""


class Unreachable(ApiError):
    """No answer to a read, or no connection at all. Nothing was done."""


class UnknownOutcome(ApiError):
    """A write was sent and got no answer, or a timeout inside the server: it may or may not have been done."""


class Resend(Enum):
    """Whether the call itself sends its request again, before it raises the error."""

    NEVER = auto()
    AFTER_DELAY = auto()
    """While the call may last, each time after the seconds that the server asks for."""
    WITH_NEW_CREDENTIALS = auto()
    """Once."""


class WriteVerdict(Enum):
    """The result of a failed write, and when it is tried again. One that is in back-off is retried at growing
    intervals, and only its own key (node, pod, revision) waits."""

    NOT_FOUND = auto()
    """No such object. A delete is done already; otherwise the next pass decides anew."""
    ALREADY_EXISTS = auto()
    """The name is taken. If the object is ours, the create is done already; the next pass decides anew."""
    CONFLICT = auto()
    """Another writer has changed the object. The next pass decides anew."""
    INVALID = auto()
    """The server will refuse the request again: reported, in back-off."""
    FORBIDDEN = auto()
    """The same, but perhaps only here: a policy may allow it on another node."""
    MUTATED = auto()
    """Done, but a webhook has made it useless: reported, in back-off."""
    NAMESPACE_TERMINATING = auto()
    """The namespace is being deleted, and so will the DaemonSet be: not reported, in back-off."""
    QUOTA_EXCEEDED = auto()
    """Refused until something is deleted: reported. A create of a pod puts all creates in back-off, another write its
    own key."""
    FAILED = auto()
    """Not done, for a reason outside of the request: reported, in back-off."""
    UNAVAILABLE = auto()
    """Not done, because the server is busy or away; any other write fails too. Reported, and retried soon."""
    UNKNOWN_OUTCOME = auto()
    """It may have been done, or may yet be. Until that is known, plans allow for both."""

    @property
    def is_specific(self) -> bool:
        """Whether the cause is this node or object. If the server is away or busy, writes fail everywhere; if an
        object has changed meanwhile, the next try fails nowhere."""
        return self.refused or self is WriteVerdict.FAILED

    @property
    def refused(self) -> bool:
        """Whether the server does not do what was asked for, and will not."""
        return self in (
            WriteVerdict.INVALID,
            WriteVerdict.FORBIDDEN,
            WriteVerdict.MUTATED,
            WriteVerdict.NAMESPACE_TERMINATING,
            WriteVerdict.QUOTA_EXCEEDED,
        )

    @property
    def is_transient(self) -> bool:
        """Whether the next pass nearly always settles it, so that it is reported only when it happens again and
        again."""
        return self in (WriteVerdict.ALREADY_EXISTS, WriteVerdict.CONFLICT, WriteVerdict.UNKNOWN_OUTCOME)

    @property
    def undecided(self) -> bool:
        """Whether the server has not said yet if it accepts the write."""
        return self in (WriteVerdict.UNAVAILABLE, WriteVerdict.UNKNOWN_OUTCOME)


class WatchVerdict(Enum):
    """How a list or watch, which never gives up, goes on after an error."""

    EXPIRED = auto()
    """List again: the version or the page token is too old."""
    NOT_SERVED = auto()
    """The server does not serve the kind. Ask every few seconds until its CRD is installed; then list."""
    INVALID = auto()
    """The server refuses this form of the request. List again in another form, at growing intervals."""
    FORBIDDEN = auto()
    """Try at growing intervals until an administrator allows it; another form of the request may be allowed."""
    UNAUTHORIZED = auto()
    """Try at growing intervals until an administrator changes the credentials."""
    SERVER_ERROR = auto()
    """Try at growing intervals; after several failures list again, as our request may be the cause."""
    UNREACHABLE = auto()
    """Try every second or two: that costs the server nothing."""
    OTHER = auto()
    """Try at growing intervals."""


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
    UnknownFields: RetryVerdict(write=WriteVerdict.INVALID, watch=WatchVerdict.INVALID),
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
    """The row of the class of `error`, or of its nearest base class that has one."""
    return next(RETRY_VERDICTS[kind] for kind in type(error).__mro__ if kind in RETRY_VERDICTS)


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
"""The path of a field. A webhook may send any text in its place."""

_NO_SUCH_PATH = "the server rejected our request due to an error in our request"
"""The answer to a JSON Patch whose operations cannot be carried out. Its resourceVersion was not checked yet."""

_TIMED_OUT_INSIDE = ("etcdserver:", "context deadline exceeded", "timed out")
"""Texts in a 500 after which the storage may have the write nevertheless."""


def redacted(error: BaseException) -> str:
    """An error as it is logged: names, the kind of error, the HTTP status and the fields that are refused.

    Not its text, which may quote what a server, a webhook, a kubelet or another program says; unless that text is
    always our own.
    """
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
    """The error for an answer other than 2xx. `what` describes the object or collection."""
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
    """The error for a request without an answer."""
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
    """The Status in an error body; an empty one if the body is something else (the page of a proxy, plain text)."""
    try:
        status = _status.decode(body)
    except msgspec.MsgspecError:
        return _Status()
    return status if status.kind == "Status" else _Status()


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    if len(line) <= MAX_MESSAGE:
        return line
    kept, end, begin = "", 0, 0
    while len(kept) + begin - end <= MAX_MESSAGE:
        found = _QUOTATION.search(line, begin)
        if found is None or found[1] != '"':
            break
        if len(found[0]) < _LONG_QUOTATION:
            begin = found.end() - 1  # it may be the quote that opens the next one
        else:
            kept, end = kept + line[end : found.start()] + '"…"', found.end()
            begin = end
    kept += line[end : end + MAX_MESSAGE + 1]
    return kept if len(kept) <= MAX_MESSAGE else kept[: MAX_MESSAGE - 1] + "…"
