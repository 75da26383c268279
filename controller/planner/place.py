"""The Place of an action: where the same write would fail again. A failed write is held back only there."""

from __future__ import annotations

from collections.abc import Container
from typing import Literal, assert_never

from controller.api.base import Value


class Place(Value):
    """One place. Make it by its kind, so that a name is never taken for a uid."""

    kind: Literal["node", "object", "gates", "label", "kept", "revision", "template", "room"]
    name: str

    @classmethod
    def of_node(cls, name: str) -> Place:
        """The place where a pod is created on this node."""
        return cls(kind="node", name=name)

    @classmethod
    def of_object(cls, uid: str) -> Place:
        """The place of any write to this object that has no place of its own."""
        return cls(kind="object", name=uid)

    @classmethod
    def of_gates(cls, uid: str) -> Place:
        """The place where the readiness gates of this pod are opened."""
        return cls(kind="gates", name=uid)

    @classmethod
    def of_label(cls, uid: str) -> Place:
        """The place where this pod gets the label of its former revision back."""
        return cls(kind="label", name=uid)

    @classmethod
    def of_keeping(cls, uid: str) -> Place:
        """The place where the preparation for the deletion of this pod is taken back."""
        return cls(kind="kept", name=uid)

    @classmethod
    def of_revision(cls) -> Place:
        """The place where the current revision is stored, whatever hash it gets after collisions."""
        return cls(kind="revision", name="")

    @classmethod
    def of_template(cls, revision_hash: str) -> Place:
        """The place where a dry run asks the server about this revision."""
        return cls(kind="template", name=revision_hash)

    def is_among(self, nodes: Container[str], uids: Container[str]) -> bool:
        """Whether its node or object is one of these; True for a place that has neither."""
        match self.kind:
            case "node":
                return self.name in nodes
            case "object" | "gates" | "label" | "kept":
                return self.name in uids
            case "revision" | "template" | "room":
                return True
            case _:
                assert_never(self.kind)


ROOM = Place(kind="room", name="pods")
"""The place of all creates of pods while a ResourceQuota is full: if one is refused, all are."""
