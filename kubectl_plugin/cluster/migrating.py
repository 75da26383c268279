"""Reads the state of a migration and writes its steps."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from controller.api import pod, revision
from controller.api.objects import Key, ObjectMeta, Ref, epoch, value_at
from controller.api.patch import guarded_by_version
from controller.api.selector import LabelSelector, as_text
from controller.kube.errors import Conflict, NotFound
from controller.kube.requests import DAEMONSETS, PODS, REVISIONS
from kubectl_plugin.cluster import documents
from kubectl_plugin.cluster.documents import AnyResource, list_objects, side_by_side
from kubectl_plugin.cluster.reads import NATIVE, read_as
from kubectl_plugin.cluster.session import Invocation, Session
from kubectl_plugin.migrate import state
from kubectl_plugin.migrate.observed import Daemon, Kind, MigrationSide, Observed, RevisionRecord
from kubectl_plugin.migrate.steps import ChangeObject, CreateObject, Delete

GENERATION_LABEL: Final = "pod-template-generation"
LABEL_DIGITS: Final = 19
"""A label with this many digits or more is ignored: it may exceed the API's largest integer."""
_RESOURCES: dict[Kind, AnyResource] = {
    Kind.NATIVE: NATIVE,
    Kind.OURS: DAEMONSETS,
    Kind.REVISION: REVISIONS,
    Kind.POD: PODS,
}


def _daemon(view: pod.PodView) -> Daemon | None:
    """None for a pod that has ended."""
    meta = view.metadata
    record = pod.project(replace(view, metadata=replace(meta, owner_references=None)))
    if record is None or record.ended:
        return None
    busy = "it is updated in place" if record.in_progress is not None else ""
    return Daemon(
        name=record.name,
        uid=record.uid,
        owner=_controller(meta),
        node=record.node,
        hash=record.hash,
        created=record.created,
        generation=_number((meta.labels or {}).get(GENERATION_LABEL, "")),
        busy="a hook holds it" if record.held_by_hook else busy,
        ends=epoch(meta.deletion_timestamp) if meta.deletion_timestamp is not None else None,
    )


def _number(label: str) -> int:
    """The template generation in `label`; 0 if the native controller would not write it."""
    return int(label) if label.isdecimal() and len(label) < LABEL_DIGITS else 0


def _record(view: revision.RevisionView) -> RevisionRecord | None:
    """None for a revision without a template."""
    meta, template = view.metadata, revision.template_of(view.data)
    if template is None:
        return None
    return RevisionRecord(
        name=meta.name,
        version=meta.resource_version,
        owner=_controller(meta),
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        number=view.revision,
        template=template,
        terminating=meta.deletion_timestamp is not None,
    )


def _controller(meta: ObjectMeta) -> str:
    """The uid of the controlling owner; empty for an orphan."""
    return next((one.uid for one in meta.owner_references or () if one.controller), "")


_DAEMONS = read_as(PODS, pod.PodView, _daemon)
_RECORDS = read_as(REVISIONS, revision.RevisionView, _record)


async def observe(invocation: Invocation, key: Key, *, as_native: bool) -> Observed:
    """Read both DaemonSets, then their pods and revisions, which are thus at least as recent. `as_native`: if only
    the Advanced one exists, a dry run gets its template with the defaults of a native one. Raises ApiError."""
    session = invocation.session
    native, ours = await _side(session, NATIVE, key), await _side(session, DAEMONSETS, key)
    either = ours or native
    pods: list[Daemon] = []
    revisions: list[RevisionRecord] = []
    if either is not None:
        selector = msgspec.convert(value_at(either.document, "spec", "selector"), LabelSelector)
        query = (("labelSelector", as_text(selector)),)
        pods, revisions = await side_by_side(
            list_objects(session.client, _DAEMONS, key.namespace, query),
            list_objects(session.client, _RECORDS, key.namespace, query),
        )
    template: object = None
    if as_native and native is None and ours is not None:
        body = state.as_native(ours.document)
        native_one = await documents.create(session, NATIVE, key.namespace, body, dry_run=True)
        template = value_at(native_one, "spec", "template")
    return Observed(
        name=key.name,
        namespace=key.namespace,
        native=native,
        ours=ours,
        pods=tuple(one for one in pods if one.ends is None),
        ending_pods=tuple(one for one in pods if one.ends is not None),
        revisions=tuple(revisions),
        now=invocation.terminal.now(),
        as_native=template if isinstance(template, dict) else None,
    )


async def _side(session: Session, resource: AnyResource, key: Key) -> MigrationSide | None:
    try:
        return MigrationSide(document=await documents.get(session, resource, key))
    except NotFound as error:
        if not error.name:
            raise
        return None


async def carry_out(session: Session, key: Key, step: CreateObject | ChangeObject | Delete) -> bool:
    """Write the step; returns False if the object has changed meanwhile. Raises ApiError."""
    resource = _RESOURCES[step.kind]
    where = Key(key.namespace, step.name)
    try:
        match step:
            case CreateObject():
                await documents.create(session, resource, key.namespace, step.body, dry_run=False)
            case ChangeObject():
                changes = guarded_by_version(step.version, *step.operations) if step.version else step.operations
                await documents.patch(session, resource, where, changes, dry_run=False)
            case Delete():
                ref = Ref(namespace=key.namespace, name=step.name, uid=step.uid)
                how = "Orphan" if step.orphan else "Background"
                await session.client.delete(resource, ref, version=step.version, propagation=how)
    except (Conflict, NotFound) as error:
        if isinstance(error, NotFound) and not error.name:
            raise
        return False
    return True
