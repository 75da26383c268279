"""Each action as one guarded request. Nothing here decides; nothing here catches."""

from __future__ import annotations

from controller.api import patch, revision
from controller.api.base import JSONObject
from controller.api.daemonset import DaemonSet
from controller.api.meta import Ref
from controller.api.wellknown import HASH_LABEL
from controller.daemonset.compiled import Compiled
from controller.kube.client import Client, Written
from controller.kube.kinds import PODS, REVISIONS
from controller.kube.resource import Resource, T, W
from controller.planner.actions import CreatePod, CreateRevision, DeletePod, ProbeTemplate
from controller.planner.manifest import owner_reference


class Writes:
    """The requests of one pass, on behalf of one DaemonSet."""

    def __init__(self, client: Client, daemonset: DaemonSet, compiled: Compiled) -> None:
        self._client, self._daemonset, self._compiled = client, daemonset, compiled

    async def create_pod(self, action: CreatePod) -> Written:
        body = self._compiled.renderer(self._daemonset, action.revision).body(action.name, action.node)
        return await self._client.create(PODS, self._daemonset.namespace, body, name=action.name)

    async def probe(self, action: ProbeTemplate) -> None:
        """A dry run: the server checks everything and stores nothing."""
        body = self._compiled.renderer(self._daemonset, action.revision).body(action.name, action.node)
        await self._client.create(PODS, self._daemonset.namespace, body, name=action.name, dry_run=True)

    async def delete_pod(self, action: DeletePod) -> str | None:
        """Returns the version of the dying pod, None when it was gone at once."""
        deleted = await self._client.delete(PODS, action.pod, version=action.pod.version if action.as_seen else "")
        return deleted.version

    async def adopt(self, what: Resource[W, T], ref: Ref, owners: int) -> Written:
        reference = owner_reference(self._daemonset)
        operation = (
            patch.add(reference, "metadata", "ownerReferences", "-")
            if owners
            else patch.add([reference], "metadata", "ownerReferences")
        )
        return await self._client.patch(what, ref, patch.guarded_by_version(ref.version, operation))

    async def release(self, ref: Ref, owner_index: int) -> Written:
        operation = patch.remove("metadata", "ownerReferences", str(owner_index))
        return await self._client.patch(PODS, ref, patch.guarded_by_version(ref.version, operation))

    async def relabel(self, ref: Ref, revision_hash: str) -> Written:
        operation = patch.add(revision_hash, "metadata", "labels", HASH_LABEL)
        return await self._client.patch(PODS, ref, patch.guarded_by_uid(ref.uid, operation))

    async def create_revision(self, action: CreateRevision) -> Written:
        body = revision.encode(revision_body(self._daemonset, action))
        return await self._client.create(REVISIONS, self._daemonset.namespace, body, name=action.name)

    async def renumber(self, ref: Ref, number: int) -> Written:
        operation = patch.add(number, "revision")
        return await self._client.patch(REVISIONS, ref, patch.guarded_by_version(ref.version, operation))

    async def delete_revision(self, ref: Ref) -> None:
        await self._client.delete(REVISIONS, ref)


def revision_body(daemonset: DaemonSet, action: CreateRevision) -> JSONObject:
    """Labels of the template plus the hash; annotations of the DaemonSet, change-cause among them."""
    meta = daemonset.spec.template.get("metadata")
    labels = meta.get("labels") if isinstance(meta, dict) else None
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": action.name,
            "namespace": daemonset.namespace,
            "labels": {**(labels if isinstance(labels, dict) else {}), HASH_LABEL: action.hash},
            "annotations": dict(daemonset.annotations),
            "ownerReferences": [owner_reference(daemonset)],
        },
        "data": revision.payload(daemonset.spec.template),
        "revision": action.number,
    }
