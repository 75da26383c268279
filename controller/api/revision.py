"""ControllerRevisions: the stored revisions of the pod template of a DaemonSet.

Their data is that of the native controller and of OpenKruise: `{"spec":{"template":{…,"$patch":"replace"}}}`.
"""

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
"""The highest number of a revision. A stored number beyond it, or below 1, counts as 0."""

SHORT_HASH_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The alphabet of generated names in Kubernetes (apimachinery `SafeEncodeString`)."""

_GO_ESCAPES = tuple((one.encode(), f"\\u{ord(one):04x}".encode()) for one in "<>&\u2028\u2029")
"""Characters that Go escapes. In JSON they occur only inside strings, so the bytes can simply be replaced."""


class RevisionView(View):
    """A ControllerRevision as the API server sends it."""

    metadata: ObjectMeta
    data: JSON = None
    revision: int = 0


class Revision(NamespacedObject):
    """A ControllerRevision as it is cached."""

    owner_uid: str
    """The uid of the Advanced DaemonSet that controls it; empty: it has no controller."""
    owner_index: int
    labels: Mapping[str, str]
    number: int
    """From 1 to `HIGHEST_NUMBER`; 0 if the stored number is out of range."""
    template: JSONObject
    identity: str
    """The meaning of the template (`template_identity.identity`), by which revisions are compared."""
    terminating: bool = False
    created: str = ""
    """RFC 3339."""
    annotated: bool = False
    """Whether it has annotations."""
    never_ran: bool = False
    """Whether no pod of the DaemonSet is recorded to have had it."""

    @property
    def hash(self) -> str:
        """The label `controller-revision-hash` of its pods; its name if it has no such label."""
        return self.labels.get(HASH_LABEL) or self.name


def project(view: RevisionView) -> Revision | None:
    """The record of a revision; None: another kind of workload owns it, or it has no template."""
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
    """The pod template in the data of a revision, without `$patch`; None: it contains none."""
    template = fields_of(fields_of(data).get("spec")).get("template")
    if not isinstance(template, dict):
        return None
    return {key: value for key, value in template.items() if key != "$patch"}


def payload(template: JSONObject) -> JSONObject:
    """The data of a revision with `template`."""
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def encode(body: JSONObject) -> bytes:
    """Compact JSON with sorted keys, and `<`, `>`, `&` and two line separators escaped as Go does.

    The API server compares stored data with its own encoding of it: a revision that was sent in another form can
    never be updated again.
    """
    encoded = as_bytes(body, ordered=True)
    for plain, escaped in _GO_ESCAPES:
        encoded = encoded.replace(plain, escaped)
    return encoded


def short_hash(*parts: str, length: int) -> str:
    """`length` characters of the alphabet for names; the same parts give the same characters in every process."""
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:16], "big")
    base = len(SHORT_HASH_CHARACTERS)
    return "".join(SHORT_HASH_CHARACTERS[number // base**place % base] for place in range(length))


def new_hash(identity: str, collisions: int) -> str:
    """The hash of a revision that is not stored yet; stored revisions keep their label."""
    return short_hash(identity, str(collisions), length=10)
