"""Whose is it? Ownership is group, kind and uid, never the version of the API and never the name."""

from __future__ import annotations

from sys import intern

from controller.api.base import Value
from controller.api.meta import ObjectMeta
from controller.api.wellknown import GROUP, KIND


class Ownership(Value):
    """Where an object stands between the Advanced DaemonSets."""

    uid: str
    """uid of the one that controls it; empty when nobody does."""
    index: int
    """Place of that owner among `metadata.ownerReferences`, or their number when nobody controls it."""


def ownership_of(meta: ObjectMeta) -> Ownership | None:
    """None for an object that another kind of controller owns: it is none of our business."""
    references = meta.owner_references or ()
    for index, owner in enumerate(references):
        if owner.controller:
            ours = owner.group == GROUP and owner.kind == KIND
            return Ownership(uid=intern(owner.uid), index=index) if ours else None
    return Ownership(uid="", index=len(references))
