"""ControllerRevisions, which store pod templates as the native controller and OpenKruise do:
`{"spec":{"template":{…,"$patch":"replace"}}}`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from controller.api import template_identity
from controller.api.names import HASH_LABEL, NEVER_RAN_ANNOTATION
from controller.api.objects import (
    JSON,
    JSONObject,
    NamespacedObject,
    ObjectMeta,
    View,
    as_bytes,
    fields_of,
    ownership_of,
)

HIGHEST_NUMBER = 2**62
"""The highest revision number; a stored number above it, or below 1, counts as 0."""

SHORT_HASH_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The alphabet of generated names in Kubernetes (apimachinery `SafeEncodeString`)."""

_GO_ESCAPES = tuple((character.encode(), f"\\u{ord(character):04x}".encode()) for character in "<>&\u2028\u2029")
"""Characters that Go escapes. In JSON they occur only inside strings, so bytes can simply be replaced."""


class RevisionView(View):
    metadata: ObjectMeta
    data: JSON = None
    revision: int = 0


class Revision(NamespacedObject):
    owner_uid: str
    owner_index: int
    labels: Mapping[str, str]
    number: int
    """From 1 to `HIGHEST_NUMBER`; 0 if out of range."""
    template: JSONObject
    identity: str
    """The identity of the template (`template_identity.identity`), by which revisions are compared."""
    terminating: bool = False
    created: str = ""
    """RFC 3339."""
    annotated: bool = False
    never_ran: bool = False
    """No pod is recorded to have run it."""

    @property
    def hash(self) -> str:
        """The `controller-revision-hash` label of its pods; without this label, its name."""
        return self.labels.get(HASH_LABEL) or self.name


def project(view: RevisionView) -> Revision | None:
    """Returns None if another kind of workload owns the revision, or it has no template."""
    meta = view.metadata
    owner = ownership_of(meta)
    template = template_of(view.data)
    if owner is None or template is None:
        return None
    return Revision(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        owner_uid=owner.uid,
        owner_index=owner.index,
        labels=meta.labels or {},
        number=view.revision if 0 < view.revision <= HIGHEST_NUMBER else 0,
        template=template,
        identity=template_identity.identity(template),
        terminating=meta.deletion_timestamp is not None,
        created=meta.creation_timestamp or "",
        annotated=bool(meta.annotations),
        never_ran=NEVER_RAN_ANNOTATION in (meta.annotations or {}),
    )


def template_of(data: JSON) -> JSONObject | None:
    template = fields_of(fields_of(data).get("spec")).get("template")
    if not isinstance(template, dict):
        return None
    return {key: value for key, value in template.items() if key != "$patch"}


def payload(template: JSONObject) -> JSONObject:
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def encode(body: JSONObject) -> bytes:
    """Compact JSON with sorted keys, escaped as Go does. The API server compares stored data with its own encoding,
    so a revision sent in another form could never be updated."""
    encoded = as_bytes(body, ordered=True)
    for plain, escaped in _GO_ESCAPES:
        encoded = encoded.replace(plain, escaped)
    return encoded


def short_hash(*parts: str, length: int) -> str:
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:16], "big")
    base = len(SHORT_HASH_CHARACTERS)
    return "".join(SHORT_HASH_CHARACTERS[number // base**place % base] for place in range(length))


def new_hash(identity: str, collisions: int) -> str:
    """The hash for a new revision; stored revisions keep their label."""
    return short_hash(identity, str(collisions), length=10)
