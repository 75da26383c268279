"""A Kubernetes API server without network, disk or time of its own: what the verbs of the API do to objects.

Everything is synchronous, and the clock is handed in: a test decides when something happens. Refusals are
raised as `Refused`. Requests as bytes come in through `api.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from controller.api.objects import rfc3339
from controller.runtime.clock import Clock
from tests.beds.simulator import refusal
from tests.beds.simulator.deletion import DeleteOptions, Deletion, GarbageCollector, deletion, ends_with
from tests.beds.simulator.kinds import KINDS, NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS
from tests.beds.simulator.objects import Cause, Kind, Name, Object, Stored, immutable, name_causes
from tests.beds.simulator.refusal import Refused, forbidden
from tests.beds.simulator.store import Store
from tests.beds.simulator.updates import UpdateRequest, count_spec, settle, too_big

START_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


@dataclass(frozen=True)
class Attempt:
    """A write that the server is about to accept."""

    verb: str
    """create, update (patches too) or delete."""
    kind: Kind
    namespace: str
    name: str
    object: Object
    """The object as it would be stored; for a delete as it is."""
    subresource: str = ""


Admission: TypeAlias = Callable[[Attempt], None]
"""Raises `Refused` to turn a write down, as a quota or a webhook would."""


class Cluster:
    """The API server's model.

    `strict_namespaces`: refuse objects in namespaces that do not exist, as a real server does; otherwise a namespace
    comes into being with its first object.
    """

    def __init__(self, clock: Clock, *, watch_list: bool = True, strict_namespaces: bool = False) -> None:
        self.clock = clock
        self.store = Store(clock, KINDS)
        self.watch_list = watch_list
        """Whether `sendInitialEvents` is understood; otherwise it is refused, and clients must list."""
        self.frozen: set[str] = set()
        """uids of ControllerRevisions whose data was not sent as the server would write it: no update is accepted."""
        self.admission: list[Admission] = []
        self._strict = strict_namespaces
        self.collects = True
        """Whether the garbage and namespace collectors run after each write."""
        self._garbage = GarbageCollector(self)
        for namespace in START_NAMESPACES:
            self.create(NAMESPACES, "", {"metadata": {"name": namespace}})

    @property
    def kinds(self) -> list[Kind]:
        return list(self.store.objects)

    def find_kind(self, group: str, plural: str) -> Kind | None:
        return next((kind for kind in self.kinds if (kind.group, kind.plural) == (group, plural)), None)

    def get(self, kind: Kind, namespace: str, name: str) -> Stored:
        found = self.store.get(kind, (namespace, name))
        if found is None:
            raise refusal.not_found(kind, name)
        return found

    def create(self, kind: Kind, namespace: str, new: Object, *, dry_run: bool = False) -> Stored:
        """Store `new`, which now belongs to the cluster. It may have a generateName instead of a name."""
        metadata = new.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self.store.new_name(metadata["generateName"])
        name = metadata.get("name") or ""
        if kind.namespaced:
            self._enter_namespace(namespace, kind, name)
            metadata["namespace"] = namespace
        self._stamp(kind, (namespace, name), new)
        if kind.status and kind.custom:
            new.pop("status", None)
        kind.defaults(new)
        if causes := [*name_causes(name), *kind.rules(new, None)]:
            raise refusal.invalid(kind, name, causes)
        self._admit(Attempt("create", kind, namespace, name, new))
        kind.defaults(new)  # of what admission added
        if self.store.get(kind, (namespace, name)) is not None:
            raise refusal.already_exists(kind, name)
        if dry_run:
            return Stored(kind, (namespace, name), metadata["uid"], 0, new)
        stored = self.store.put(kind, (namespace, name), new)
        self._garbage.written(stored)
        self._tidy()
        return stored

    def update(
        self, kind: Kind, namespace: str, name: str, change: UpdateRequest, *, dry_run: bool = False
    ) -> Stored:
        """Change an object; `change` is given a copy of it. What is not changed is not written."""
        before = self.get(kind, namespace, name)
        new = settle(before, change)
        if new == before.object:
            return before
        if before.uid in self.frozen:
            data = msgspec.json.encode(new.get("data")).decode()
            raise refusal.invalid(kind, name, [immutable("data", data)])
        self._admit_resize(before, new, change)
        self._admit(Attempt("update", kind, namespace, name, new, change.subresource))
        count_spec(before, new, change)
        if new == before.object:
            return before
        if dry_run:
            return Stored(kind, before.name, before.uid, before.version, new)
        if ends_with(new):
            last = Stored(kind, before.name, before.uid, before.version, new)
            stored = self._remove(before, last)
        else:
            stored = self.store.put(kind, before.name, new)
            self._garbage.written(stored)
        self._tidy()
        return stored

    def delete(self, kind: Kind, namespace: str, name: str, options: DeleteOptions) -> Deletion:
        """Delete an object, at once or in steps: see `Deletion`."""
        before = self.get(kind, namespace, name)
        result = deletion(before, options, self.clock())
        self._admit(Attempt("delete", kind, namespace, name, before.object))
        if options.dry_run:
            return result
        stored = before
        if result.object is not before:  # pods are marked even when they go at once
            stored = self.store.put(kind, before.name, result.object.object)
        if result.gone:
            stored = self._remove(stored)
        elif stored is not before:
            self._garbage.written(stored)
        result = Deletion(stored, result.gone)
        self._tidy()
        return result

    def _remove(self, before: Stored, last: Stored | None = None) -> Stored:
        removed = self.store.remove(before)
        self._garbage.removed(before)
        return removed if last is None else last

    def _tidy(self) -> None:
        if self.collects:
            self._garbage.run()

    def _admit(self, attempt: Attempt) -> None:
        for admission in self.admission:
            admission(attempt)

    def _admit_resize(self, before: Stored, new: Object, change: UpdateRequest) -> None:
        if change.subresource != "resize" or new["spec"] == before.object["spec"]:
            return
        node = self.store.get(NODES, ("", new["spec"].get("nodeName") or ""))
        if refused := too_big(new, node.object if node else None):
            raise refused

    def _stamp(self, kind: Kind, name: Name, new: Object) -> None:
        metadata = new["metadata"]
        if metadata.get("resourceVersion"):
            raise Refused(500, "", "resourceVersion should not be set on objects to be created")
        metadata["uid"] = self.store.new_uid(kind, name)
        metadata["creationTimestamp"] = rfc3339(self.clock())
        metadata.pop("deletionTimestamp", None)
        metadata.pop("deletionGracePeriodSeconds", None)
        metadata.pop("generation", None)
        if kind.generation:
            metadata["generation"] = 1

    def _enter_namespace(self, namespace: str, kind: Kind, name: str) -> None:
        found = self.store.get(NAMESPACES, ("", namespace))
        if found is None:
            if self._strict:
                raise refusal.not_found(NAMESPACES, namespace)
            self.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        elif found.metadata.get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            words = f"namespace {namespace} is being terminated"
            raise refusal.forbidden(kind, name, why, [Cause("metadata.namespace", "NamespaceTerminating", words)])


def service_accounts(cluster: Cluster) -> Admission:
    """For `Cluster.admission`. It mounts no tokens, which are of no use here."""

    def admit(attempt: Attempt) -> None:
        if attempt.kind is not PODS or attempt.verb != "create":
            return
        spec = attempt.object["spec"]
        name = spec.get("serviceAccountName") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = cluster.store.get(SERVICE_ACCOUNTS, (attempt.namespace, name))
        if account is None:
            where = f"error looking up service account {attempt.namespace}/{name}"
            raise forbidden(PODS, attempt.name, f'{where}: serviceaccount "{name}" not found')
        if not spec.get("imagePullSecrets") and (secrets := account.object.get("imagePullSecrets")):
            spec["imagePullSecrets"] = secrets

    return admit
