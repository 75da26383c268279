"""Where a write that failed would fail again: what is held back is held back there, and nothing else is."""

from __future__ import annotations

from typing import Literal

from controller.api.base import Value


class Place(Value):
    """Made by what it is of, so that a name is never taken for a uid."""

    kind: Literal["node", "object", "gates", "label", "kept", "revision", "template", "room"]
    name: str

    @classmethod
    def of_node(cls, name: str) -> Place:
        """Creating a pod on this node."""
        return cls(kind="node", name=name)

    @classmethod
    def of_object(cls, uid: str) -> Place:
        """Any write to this object that has no place of its own."""
        return cls(kind="object", name=uid)

    @classmethod
    def of_gates(cls, uid: str) -> Place:
        """Opening the readiness gates of this pod."""
        return cls(kind="gates", name=uid)

    @classmethod
    def of_label(cls, uid: str) -> Place:
        """Giving this pod the label of its former revision back."""
        return cls(kind="label", name=uid)

    @classmethod
    def of_keeping(cls, uid: str) -> Place:
        """Taking back what was done before the deletion of this pod."""
        return cls(kind="kept", name=uid)

    @classmethod
    def of_revision(cls, revision_hash: str) -> Place:
        """Storing this revision."""
        return cls(kind="revision", name=revision_hash)

    @classmethod
    def of_template(cls, revision_hash: str) -> Place:
        """Asking the server about this revision."""
        return cls(kind="template", name=revision_hash)


ROOM = Place(kind="room", name="pods")
"""Every create of a pod while a ResourceQuota is full: what one is refused, the next would be too."""
