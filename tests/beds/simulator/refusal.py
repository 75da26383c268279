"""The ways in which an API server says no, with the bodies that kube-apiserver sends."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.beds.simulator.objects import Cause, Kind, Stored


class Refused(Exception):
    """A request that ends with a Status of failure."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        *,
        retry_after: float | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.details, self.retry_after, self.metadata = details, retry_after, metadata or {}

    def status(self) -> dict[str, Any]:
        """The Status object."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return body | {"code": self.code}

    def body(self) -> bytes:
        return msgspec.json.encode(self.status())


def details(kind: Kind, name: str, word: str = "") -> dict[str, Any]:
    """`details` of a Status: empty fields are left out. `word` is the kind's name where it is not the plural."""
    named = {"name": name, "group": kind.group, "kind": word or kind.plural}
    return {key: value for key, value in named.items() if value}


def not_found(kind: Kind, name: str) -> Refused:
    return Refused(404, "NotFound", f'{kind.resource} "{name}" not found', details(kind, name))


def no_such_path() -> Refused:
    return Refused(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(kind: Kind, name: str) -> Refused:
    return Refused(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', details(kind, name))


def conflict(kind: Kind, name: str, why: str) -> Refused:
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return Refused(409, "Conflict", message, details(kind, name))


def _qualified(kind: Kind) -> str:
    return f"{kind.kind}.{kind.group}" if kind.group else kind.kind


def precondition_failed(kind: Kind, name: str, why: str) -> Refused:
    """A DELETE whose preconditions do not hold: a conflict that names the kind, not the resource."""
    message = f'Operation cannot be fulfilled on {_qualified(kind)} "{name}": {why}'
    return Refused(409, "Conflict", message, details(kind, name, kind.kind))


MODIFIED_MEANWHILE = "the object has been modified; please apply your changes to the latest version and try again"


def wrong_uid(found: Stored, uid: str) -> str:
    """The words of a conflict when a PUT carries another object's uid."""
    key = "/".join(part for part in ("/registry", found.kind.group, found.kind.plural, *found.name) if part)
    return (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found.uid}"
    )


def version_missing(kind: Kind, name: str) -> Refused:
    """A PUT without resourceVersion where the kind demands one; alone among the 422 it names the plural."""
    cause = Cause(
        "metadata.resourceVersion", "FieldValueInvalid", "Invalid value: 0: must be specified for an update"
    )
    return invalid(kind, name, [cause], subject=kind.resource, word=kind.plural)


def invalid(kind: Kind, name: str, causes: list[Cause], *, subject: str = "", word: str = "") -> Refused:
    """422 with the causes. `subject` and `word` name the kind where it is not done in the usual way."""
    words = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    listed = words[0] if len(words) == 1 else f"[{', '.join(words)}]"
    subject = subject or _qualified(kind)
    entries = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]
    return Refused(
        422,
        "Invalid",
        f'{subject} "{name}" is invalid: {listed}',
        {**details(kind, name, word or kind.kind), "causes": entries},
    )


def bad_patch() -> Refused:
    """A JSON Patch that cannot be applied; which operation it was stays the server's secret."""
    return Refused(422, "Invalid", "the server rejected our request due to an error in our request", {})


def bad_request(message: str) -> Refused:
    return Refused(400, "BadRequest", message)


def forbidden(kind: Kind, name: str, why: str, causes: list[Cause] | None = None) -> Refused:
    found = details(kind, name)
    if causes:
        found["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return Refused(403, "Forbidden", f'{kind.resource} "{name}" is forbidden: {why}', found)


def expired(message: str, *, token: str = "") -> Refused:
    """410; `token` lets an interrupted list go on with what is there now."""
    return Refused(410, "Expired", message, metadata={"continue": token} if token else None)


def internal(message: str) -> Refused:
    return Refused(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def method_not_allowed() -> Refused:
    return Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def unsupported_media(accepted: tuple[str, ...]) -> Refused:
    message = "the body of the request was in an unknown format - accepted media types include: "
    return Refused(415, "UnsupportedMediaType", message + ", ".join(accepted))
