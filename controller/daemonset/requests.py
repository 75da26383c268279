"""The request that each kind of action makes, with its precondition."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import assert_never

from controller.api import revision
from controller.api.meta import Key, Ref
from controller.api.wellknown import HASH_LABEL
from controller.daemonset.answers import ExecutionContext
from controller.daemonset.dependencies import Dependencies
from controller.daemonset.in_place import InPlaceWrites
from controller.daemonset.write_bodies import metadata_patch, revision_body
from controller.kube.client import Written
from controller.kube.errors import Altered, ApiError
from controller.kube.kinds import PODS, REVISIONS
from controller.planner import actions
from controller.runtime.clock import elapsed


class Requests:
    """Sends the requests of one pass, and notes in the ledger what the server has stored."""

    def __init__(self, context: ExecutionContext, dependencies: Dependencies) -> None:
        self._context, self._dependencies = context, dependencies
        self._in_place = InPlaceWrites(dependencies.client, dependencies.clock, partial(self._wrote, PODS.name))

    async def send(self, action: actions.Action) -> None:
        """Send the request of one action. Raises ApiError if the server refuses it or does not answer."""
        client, ledger, daemonset = self._dependencies.client, self._dependencies.ledger, self._context.daemonset
        match action:
            case actions.CreatePod() | actions.ProbeTemplate():
                body = self._context.compiled.renderer(daemonset, action.revision).body(action.name, action.node)
                probes = isinstance(action, actions.ProbeTemplate)  # the server checks everything and stores nothing
                written = await client.create(
                    PODS, daemonset.namespace, body, name=action.name, dry_run=probes, strict=action.strict
                )
                if not probes:
                    self._wrote(PODS.name, written)
                await self._check(action, written)
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
            case actions.AdoptRevision() | actions.RenumberRevision():
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

    async def _check(self, action: actions.CreatePod | actions.ProbeTemplate, written: Written) -> None:
        """Raise Altered if a webhook has changed the labels by which the pod is ours and of its revision. A pod that
        the selector does not match is deleted: otherwise each attempt would leave one behind."""
        labels, rules = written.labels or {}, self._context.compiled.rules
        client, ledger, daemonset = self._dependencies.client, self._dependencies.ledger, self._context.daemonset
        call = ("create", f"{PODS.name} {Key(daemonset.namespace, action.name)}")
        if not rules.owns(labels):
            if isinstance(action, actions.CreatePod):
                stray = Ref(namespace=daemonset.namespace, name=action.name, uid=written.uid)
                with suppress(ApiError):
                    deleted = await client.delete(PODS, stray)
                    ledger.deleted(daemonset.uid, stray.uid, elapsed(), deleted.version)
            raise Altered(*call, "a webhook changes its labels, so that spec.selector does not match them")
        if labels.get(HASH_LABEL) != action.revision.hash:
            raise Altered(*call, f"a webhook removes or changes its label {HASH_LABEL}")

    def _wrote(self, resource: str, written: Written) -> None:
        self._dependencies.ledger.wrote(self._context.daemonset.uid, resource, written.version, elapsed())
