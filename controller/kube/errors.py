"""What can go wrong with a request, and the one place where answers become errors.

ApiError
├─ NotFound  AlreadyExists  Conflict  Gone             about this object
├─ Invalid  Forbidden  Unauthorized                    about this request
├─ Busy  ServerError  Unreadable                       about the server
├─ Unreachable                                         nothing was done
└─ Unknown                                             nobody knows whether it was done
"""

from __future__ import annotations

import re

import msgspec

from controller.api.base import View
from controller.api.wellknown import tells_of_full_quota
from controller.kube.request import NotConnected, Response

LONGEST_MESSAGE = 512
"""Characters of the server's words that are kept: enough for a sentence, too little for a leaked object."""

_QUOTED_AT_LENGTH = re.compile(r'"(?:[^"\\]|\\.){128,}+"')
"""A patch that is refused is told with the whole object, and what is wrong with it stands behind."""

BUSY_WITHOUT_HINT = 1.0
"""Seconds to wait after a 429 that does not say how long."""

WRITES = frozenset({"create", "patch", "update", "delete"})


class Cause(View):
    """One entry of a Status' `details.causes`."""

    reason: str = ""
    message: str = ""
    field: str = ""


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
    """How to reach the server, or as whom, is not known. One line that names the file or context."""

    def __init__(self, words: str, *, hint: str = "") -> None:
        super().__init__(words)
        self.hint = hint
        """What to do about it, where that is known; one line."""


class ApiError(Exception):
    """A request that did not do what was asked. The text names verb, object and the server's words."""

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
        """HTTP status; 0 when there was no answer."""
        self.reason = reason
        """The Status' reason, `AlreadyExists` for one; empty where the answer was no Status."""
        self.name = name
        """The object that the server speaks of; empty where it speaks of none: it does not serve the kind."""
        self.causes = causes
        self.retry_after = retry_after
        """Seconds that the server asks us to wait, where it said so."""

    @property
    def is_terminating_namespace(self) -> bool:
        """Refused because its namespace is being deleted: nothing to retry, nothing to complain about."""
        return any(cause.reason == "NamespaceTerminating" for cause in self.causes)

    @property
    def is_full_quota(self) -> bool:
        """Refused because a ResourceQuota is used up: nothing is wrong with the object, and what goes makes room."""
        return tells_of_full_quota(self.message)


class NotFound(ApiError):
    """404: no such object; on a list or watch, no such kind (its CRD is not installed)."""


class AlreadyExists(ApiError):
    """409 on create: the name is taken."""


class Conflict(ApiError):
    """409, or 422 by the uid guard or for a path that is not there: the object is not what it was when we looked."""


class Gone(ApiError):
    """410: the version or continue token is too old. List again."""


class Invalid(ApiError):
    """400, 405, 406, 413, 415, 422: the server understood and does not want it. Again would be the same."""


class Forbidden(ApiError):
    """403: access control, quota, an admission policy, or a terminating namespace."""


class Unauthorized(ApiError):
    """401, also with fresh credentials."""


class Busy(ApiError):
    """429, or 503 with Retry-After, for longer than the call could wait. Nothing was done."""


class ServerError(ApiError):
    """5xx or a status that makes no sense here. Nothing was done, as far as the server says."""


class Unreadable(ApiError):
    """The server answered with something that is not the document we asked for."""


class Unreachable(ApiError):
    """No answer to a read, or no connection at all. Nothing was done."""


class Unknown(ApiError):
    """No answer, or a server-side timeout, to a write that had been sent: it may or may not have happened."""


_CLASSES: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: Invalid,
    406: Invalid,
    409: Conflict,
    410: Gone,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: Busy,
}

_NO_SUCH_PATH = "the server rejected our request due to an error in our request"
"""What a JSON Patch is answered by whose operations cannot be carried out; the version in it is looked at later."""

_TIMED_OUT_INSIDE = ("etcdserver:", "context deadline exceeded", "timed out")
"""Words of a 500 behind which the store may have the write all the same."""


def refused(verb: str, what: str, response: Response) -> ApiError:
    """The error that an answer other than 2xx stands for. `what` describes the object or collection."""
    status = _read(response.body)
    message = _shorten(status.message or f"HTTP {response.status}")
    causes = (status.details and status.details.causes) or ()
    error = _class_of(verb, response, status.reason, message, causes)
    retry_after = response.retry_after
    if error is Busy and retry_after is None:
        retry_after = BUSY_WITHOUT_HINT
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


def unanswered(verb: str, what: str, error: OSError | TimeoutError) -> ApiError:
    """The error for a request without an answer."""
    words = _shorten(str(error) or type(error).__name__)
    if verb in WRITES and not isinstance(error, NotConnected):
        return Unknown(verb, what, f"no answer, it may have been done: {words}")
    return Unreachable(verb, what, words)


def _class_of(verb: str, response: Response, reason: str, message: str, causes: tuple[Cause, ...]) -> type[ApiError]:
    code = response.status
    if code == 409 and reason == "AlreadyExists":
        return AlreadyExists
    if code == 422 and (message == _NO_SUCH_PATH or any(cause.field == "metadata.uid" for cause in causes)):
        return Conflict
    if code == 503 and response.retry_after is not None:
        return Busy
    if verb in WRITES and _may_have_happened(code, message):
        return Unknown
    return _CLASSES.get(code, ServerError)


def _may_have_happened(code: int, message: str) -> bool:
    return code in (502, 504) or (code == 500 and any(words in message for words in _TIMED_OUT_INSIDE))


def _read(body: bytes) -> _Status:
    """The Status in an error body; an empty one when it is something else (a proxy's page, plain text)."""
    try:
        status = _status.decode(body)
    except msgspec.MsgspecError:
        return _Status()
    return status if status.kind == "Status" else _Status()


def _shorten(words: str) -> str:
    line = " ".join(words.split())
    if len(line) > LONGEST_MESSAGE:
        line = _QUOTED_AT_LENGTH.sub('"…"', line)
    return line if len(line) <= LONGEST_MESSAGE else line[: LONGEST_MESSAGE - 1] + "…"
