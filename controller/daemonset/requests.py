"""The request that each kind of action makes, with its precondition."""

from __future__ import annotations

from functools import partial
from typing import assert_never

from msgspec.structs import replace

from controller.api import revision
from controller.api.meta import Ref
from controller.api.wellknown import HASH_LABEL
from controller.daemonset.answers import ExecutionContext
from controller.daemonset.dependencies import Dependencies
from controller.daemonset.in_place import InPlaceWrites, altered
from controller.daemonset.write_bodies import metadata_patch, revision_body
from controller.kube.client import Written
from controller.kube.errors import Altered
from controller.kube.kinds import PODS, REVISIONS
from controller.planner import actions
from controller.runtime.clock import elapsed


class Requests:
    """Sends the requests of one pass, and notes in the ledger what the server has stored."""

    def __init__(self, context: ExecutionContext, dependencies: Dependencies) -> None:
        self._context, self._dependencies = context, dependencies
        wrote, owns = partial(self._wrote, PODS.name), context.compiled.rules.owns
        self._in_place = InPlaceWrites(dependencies.client, dependencies.clock, wrote, owns)

    async def send(self, action: actions.Action) -> None:
        """Send the request of one action. Raises ApiError if the server refuses it or does not answer."""
        client, ledger, daemonset = self._dependencies.client, self._dependencies.ledger, self._context.daemonset
        match action:
            case actions.CreatePod() | actions.ProbeTemplate():
                renderer, name = self._context.compiled.renderer(daemonset, action.revision), action.name
                probes = isinstance(action, actions.ProbeTemplate)  # the server checks everything and stores nothing
                body = (renderer.whole if probes and action.strict else renderer.body)(name, action.node)
                written = await client.create(
                    PODS, daemonset.namespace, body, name=name, dry_run=probes, strict=action.strict
                )
                if not probes:
                    self._wrote(PODS.name, written)
                self._check(action, written)
            case actions.DeletePod():
                seen = action.pod.version if action.as_seen else ""
                deleted = await client.delete(PODS, action.pod, version=seen)
                ledger.deleted(daemonset.uid, action.pod.uid, elapsed(), deleted.version)
            case actions.CreateRevision():
                document = revision.encode(revision_body(daemonset, action))
                written = await client.create(REVISIONS, daemonset.namespace, document, name=action.name)
                self._wrote(REVISIONS.name, written)
            case actions.DeleteRevision():
                await client.delete(REVISIONS, action.revision)
            case actions.AdoptPod() | actions.ReleasePod() | actions.RelabelPod():
                self._wrote(PODS.name, await client.patch(PODS, action.pod, metadata_patch(action, daemonset)))
            case actions.AdoptRevision() | actions.RenumberRevision() | actions.RecordRun():
                written = await client.patch(REVISIONS, action.revision, metadata_patch(action, daemonset))
                self._wrote(REVISIONS.name, written)
            case (
                actions.PrepareDelete()
                | actions.CancelDelete()
                | actions.DrainPod()
                | actions.UpdateInPlace()
                | actions.ContinueInPlace()
                | actions.ResizePod()
                | actions.OpenGates()
            ):
                await self._in_place.carry_out(action)
            case _:
                assert_never(action)

    def _check(self, action: actions.CreatePod | actions.ProbeTemplate, written: Written) -> None:
        """Raise Altered if a webhook has changed the labels by which the pod is ours and of its revision."""
        labels, rules = written.labels or {}, self._context.compiled.rules
        created = Ref(namespace=self._context.daemonset.namespace, name=action.name, uid=written.uid)
        if not rules.owns(labels):
            probes = isinstance(action, actions.ProbeTemplate)
            raise altered("create", replace(created, uid="") if probes else created)
        if labels.get(HASH_LABEL) != action.revision.hash:
            raise Altered("create", PODS.describe(created), f"a webhook removes or changes its label {HASH_LABEL}")

    def _wrote(self, resource: str, written: Written) -> None:
        self._dependencies.ledger.wrote(self._context.daemonset.uid, resource, written.version, elapsed())
