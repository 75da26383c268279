"""The stores and what hangs on them, for tests of whom a change wakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.meta import Key
from controller.api.node import Node
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.daemonset.caches import Caches
from controller.daemonset.state import DaemonSetStates
from controller.daemonset.triggers import Listeners, Triggers
from controller.kube.decode import Malformed, Seen
from controller.runtime.pacing import Urgency
from controller.runtime.store import Change, StoreWriter
from tests.beds.stores import open_store
from tests.beds.worlds import ds, matching

T = TypeVar("T", DaemonSet, Node, Pod, Revision)

_SPEC = ds(pods=matching(app="other")).spec
_LABELLED = replace(_SPEC, template={**_SPEC.template, "metadata": {"labels": {"app": "other"}}})
OTHER = replace(ds(), name="other", uid="uid-other", spec=_LABELLED)
"""Another DaemonSet, with another selector."""


class Woken:
    """The stores and what hangs on them; `told` is who was woken since the last look, with the urgency."""

    def __init__(self, *daemonsets: DaemonSet) -> None:
        (self.daemonsets, ours), (self.pods, pods) = open_store(DaemonSet), open_store(Pod)
        (self.nodes, nodes), (self.revisions, revisions) = open_store(Node), open_store(Revision)
        self.caches = Caches(ours, pods, nodes, revisions)
        self.states = DaemonSetStates()
        self.forgotten: list[str] = []
        self.foreign: list[tuple[str, str]] = []
        self.seen: list[str] = []
        self._told: list[tuple[str, Urgency]] = []
        self.triggers = Triggers(
            self.caches,
            self.states,
            self._enqueue,
            Listeners(
                daemonset_gone=self.forgotten.append,
                node_gone=self.forgotten.append,
                pod_seen=lambda owner, one: self.seen.append(one.name),
                foreign_status=lambda one, manager: self.foreign.append((one.name, manager)),
                malformed=lambda plural, malformed: None,
                say=lambda daemonset, note: None,
            ),
        )
        for one in daemonsets or (ds(),):
            self.daemonset(one)
        self.told()

    def _enqueue(self, key: Key, urgency: Urgency, reason: str) -> None:
        assert reason
        self._told.append((key.name, urgency))

    def told(self) -> list[tuple[str, Urgency]]:
        told, self._told = self._told, []
        return told

    def daemonset(self, new: DaemonSet | None, key: Key | None = None) -> None:
        for change in _fed(self.daemonsets, new, key):
            self.triggers.on_daemonset(change)

    def pod(self, new: Pod | None, key: Key | None = None) -> None:
        for change in _fed(self.pods, new, key):
            self.triggers.on_pod(change)

    def malformed_pod(self, name: str) -> None:
        bad = Malformed(key=Key("default", name), version=str(next(_versions)), reason="labels")
        for change in self.pods.feed(bad):
            self.triggers.on_pod(change)

    def node(self, new: Node | None, key: Key | None = None) -> None:
        for change in _fed(self.nodes, new, key):
            self.triggers.on_node(change)

    def revision(self, new: Revision | None, key: Key | None = None) -> None:
        for change in _fed(self.revisions, new, key):
            self.triggers.on_revision(change)


_versions = iter(range(100, 10_000))


def _fed(writer: StoreWriter[T], new: T | None, key: Key | None) -> Sequence[Change[T]]:
    version = str(next(_versions))
    if new is None:
        assert key is not None
        return writer.feed(Seen(key=key, version=version, obj=None))
    new = replace(new, version=version)
    return writer.feed(Seen(key=key or new.key, version=version, obj=new))
