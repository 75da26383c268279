"""The one write of an acting verb: a JSON Patch of the object that the user was shown, and never of a newer spec."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Final, TypeAlias, TypedDict

from msgspec.structs import replace

from controller.api import patch
from controller.api.daemonset import DaemonSetStatus
from controller.api.objects import JSONObject, Key, ObjectMeta, fields_of, value_at
from controller.kube.errors import AlreadyExists, ApiError, Conflict
from controller.kube.requests import DAEMONSETS
from controller.planner.revisions import current_revision
from kubectl_plugin.cluster import documents, reads
from kubectl_plugin.cluster.interruption import warn_if_interrupted
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.commands import command
from kubectl_plugin.edits import field_owners
from kubectl_plugin.edits.annotations import action_operations
from kubectl_plugin.edits.apply_manifest import note_of, with_notes
from kubectl_plugin.edits.draft import with_operations
from kubectl_plugin.edits.edit import Application, Edit
from kubectl_plugin.edits.effects import number_of
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.report.counts_in_words import new_nodes
from kubectl_plugin.report.last_action import LastAction
from kubectl_plugin.report.revisions.images import images_of, short_image
from kubectl_plugin.report.snapshot import LAST_APPLIED, Snapshot
from kubectl_plugin.report.world_of import world_of

Judge: TypeAlias = Callable[[], Awaitable[None]]
"""Checks once more whether the change may be written. Raises CommandError where it may not."""
ATTEMPTS: Final = 30
"""How often a write is tried. During a rollout each status that the controller writes makes our version stale: with
ten of them a second, and a server a quarter of a second away, one attempt in twelve succeeds."""


_NOT_THERE: Final = "1"
"""No object has this resourceVersion: server-side apply with it makes an object, or is a conflict if there is one."""


class _How(TypedDict):
    """The parameters that `documents.create` and `documents.patch` have in common."""

    dry_run: bool
    field_manager: str
    strict: bool


async def write(
    invocation: Invocation,
    snapshot: Snapshot,
    edit: Edit,
    done: LastAction,
    *,
    dry_run: bool,
    field_manager: str,
    judge: Judge | None = None,
) -> JSONObject:
    """The object after `edit`; with `dry_run`, as it would be. A snapshot whose document has no uid is created.

    Where only status or metadata has changed meanwhile it is tried again, after `judge` has agreed; the annotations
    about `done` are then made for the present ones. Raises CommandError (6) where the spec has changed, because the
    user has seen and confirmed another one; ApiError.
    """
    session, key, document, last = invocation.session, snapshot.key, snapshot.document, None
    words = f" while {key.name} was written: it may have been done"
    way = command("status", key)
    for _ in range(ATTEMPTS):
        changes = (*edit.operations, *action_operations(document, edit.operations, done))
        guarded = patch.guarded_by_version(reads.meta_of(document).resource_version, *changes)
        how: _How = {"dry_run": dry_run, "field_manager": field_manager, "strict": True}
        try:
            with nullcontext() if dry_run else warn_if_interrupted(invocation.terminal, words, way):
                if edit.application is not None:
                    noted = with_notes(edit.application, with_operations(document, changes))
                    application = replace(edit.application, body=noted)
                    return await _apply(
                        invocation, key, document, application, dry_run=dry_run, manager=field_manager
                    )
                if not reads.meta_of(document).uid:
                    body = with_operations(document, changes)
                    return await documents.create(session, DAEMONSETS, key.namespace, body, **how)
                return await documents.patch(session, DAEMONSETS, key, guarded, **how)
        except (AlreadyExists, Conflict) as error:
            last = error
            if any(one.reason == "FieldManagerConflict" for one in error.causes):
                raise
        document = await documents.get(session, DAEMONSETS, key)
        if _identity(document) != _identity(snapshot.document) or _meta_differs(document, snapshot.document, edit):
            raise await _change_error(invocation, snapshot, document)
        if judge is not None:
            await judge()
    assert last is not None
    raise last


async def _apply(
    invocation: Invocation, key: Key, document: JSONObject, application: Application, *, dry_run: bool, manager: str
) -> JSONObject:
    """Server-side apply to `document`, which is guarded: nothing that was not shown is taken from other managers."""
    session, meta = invocation.session, reads.meta_of(document)
    if not dry_run and field_owners.client_side_managers(document):
        managers = patch.add(field_owners.taken_from_client_side(document, manager), "metadata", "managedFields")
        guarded = patch.guarded_by_version(meta.resource_version, managers)
        document = await documents.patch(
            session, DAEMONSETS, key, guarded, dry_run=False, field_manager=manager, strict=True
        )
    guard: JSONObject = {"resourceVersion": reads.meta_of(document).resource_version or _NOT_THERE}
    body = {**application.body, "metadata": {**fields_of(application.body["metadata"]), **guard}}
    stored = await documents.apply(session, key, body, dry_run=dry_run, field_manager=manager, force=bool(meta.uid))
    if dry_run:
        return field_owners.without_fields_of_client_side(document, stored)
    try:
        return await _tidied(session, key, stored, application, manager)
    except ApiError as error:
        words = f"applied; but the next apply to {key.name} may remove what only this one has set, such as --hold-at"
        invocation.terminal.warn(f"{words}: {error.message}")
        return stored


async def _tidied(
    session: Session, key: Key, document: JSONObject, application: Application, manager: str
) -> JSONObject:
    """The object with kubectl's copy of the manifest as kubectl would make it. A partition that is not the manifest's
    is no longer among what `manager` has applied. Raises ApiError."""
    kept, note = value_at(document, "metadata", "annotations", LAST_APPLIED), note_of(application.manifest)
    if kept not in (None, note):
        meta: JSONObject = {"name": key.name, "namespace": key.namespace, "uid": reads.meta_of(document).uid}
        meta["annotations"] = {LAST_APPLIED: note}
        body: JSONObject = {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": meta}
        document = await documents.apply(
            session, key, body, dry_run=False, field_manager=field_owners.KEEPS_NOTE, force=True
        )
    if not application.holds:
        return document
    for attempt in range(ATTEMPTS):
        left = field_owners.let_go(document, manager, application.manifest)
        version = reads.meta_of(document).resource_version
        guarded = patch.guarded_by_version(version, patch.add(left, "metadata", "managedFields"))
        try:
            return await documents.patch(session, DAEMONSETS, key, guarded, dry_run=False, field_manager=manager)
        except Conflict:
            if attempt == ATTEMPTS - 1:
                raise
            document = await documents.get(session, DAEMONSETS, key)
    raise AssertionError


def _meta_differs(document: JSONObject, before: JSONObject, edit: Edit) -> bool:
    """Whether labels or annotations differ from `before`, and the edit changes any of them."""
    metas = [reads.meta_of(one) for one in (document, before)]
    now, then = ((one.labels, one.annotations) for one in metas)
    return now != then and any(str(one["path"]).startswith("/metadata/") for one in edit.operations)


def _identity(document: JSONObject) -> tuple[str, int]:
    meta: ObjectMeta = reads.meta_of(document)
    return meta.uid, meta.generation


async def _change_error(invocation: Invocation, before: Snapshot, document: JSONObject) -> CommandError:
    name = before.key.name
    try:
        async with asyncio.timeout(reads.HURRY):
            now = await _what_is_new(invocation, before, document)
    except (ApiError, CommandError, TimeoutError):  # the words must not cost the exit code
        now = f"generation {_identity(document)[1]}"
    return CommandError(
        f"{name} changed while you were looking (now {now})",
        hints=("run the command again to see the new plan",),
        exit_code=ExitCode.REFUSED,
    )


async def _what_is_new(invocation: Invocation, before: Snapshot, document: JSONObject) -> str:
    """The most important difference between `before` and `document`, in words."""
    if _identity(document)[0] != _identity(before.document)[0]:
        return "another object of that name"
    key = before.key
    after = await reads.snapshot(invocation, key.name, namespace=key.namespace, nodes=False, pods=False)
    if after.daemonset.identity != before.daemonset.identity:
        return _revision_words(after)
    old, new = before.daemonset.rolling_update, after.daemonset.rolling_update
    if old is not None and new is not None:
        if old.partition != new.partition:
            status, asked = after.daemonset.status or DaemonSetStatus(), new.partition or 0
            return f"partition {asked}, {new_nodes(asked, status.desired_number_scheduled)}"
        if old.paused != new.paused:
            return "paused" if new.paused else "not paused"
    return f"generation {after.daemonset.generation}"


def _revision_words(after: Snapshot) -> str:
    """The number that the new template has, or gets when the controller has seen it, and its first image."""
    current, older = current_revision(world_of(after))
    number = number_of(current, older)
    image = next(iter(images_of(after.daemonset.spec.template).values()), "")
    return f"revision {number}, image {short_image(image)}" if image else f"revision {number}"
