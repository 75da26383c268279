"""The write of an acting verb: a patch of the object that the user was shown, never of a newer spec."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Final, TypeAlias

from msgspec.structs import replace

from controller.api import patch
from controller.api.daemonset import DaemonSetStatus
from controller.api.names import API_VERSION, KIND
from controller.api.objects import JSONObject, Key, ObjectMeta, fields_of, value_at
from controller.kube.errors import ApiError, Conflict
from controller.kube.requests import DAEMONSETS
from controller.planner.revisions import current_revision
from kubectl_plugin.changes import apply
from kubectl_plugin.changes.apply import NOTE, beside, note_of, with_notes
from kubectl_plugin.changes.edit import (
    Application,
    Edit,
    Operation,
    action_operations,
    number_of,
    patch_of,
    with_operations,
)
from kubectl_plugin.cluster import documents, reads
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.errors import CommandError, Refused
from kubectl_plugin.rollout.last_action import LastAction
from kubectl_plugin.rollout.snapshot import Snapshot, images_of, short_image
from kubectl_plugin.rollout.survey import forecast_world
from kubectl_plugin.terminal import Terminal
from kubectl_plugin.wording import CLIENT, command, new_nodes

Recheck: TypeAlias = Callable[[], Awaitable[None]]
"""Checks again whether the change may be written. Raises CommandError if not."""
WRITE_ATTEMPTS: Final = 30
"""Attempts per write. Each status update by the controller makes the version stale: at ten per second and a round
trip of 250 ms, one attempt in twelve succeeds."""
_MESSAGE_LENGTH: Final = 1024
"""The API's limit for an Event's message, in characters."""
_NOT_THERE: Final = {"resourceVersion": "1"}
"""Matches no object: server-side apply with this resourceVersion creates, or is a conflict if the object exists."""


@contextmanager
def warn_if_interrupted(terminal: Terminal, what: str, *hints: str) -> Iterator[None]:
    """Warns `interrupted{what}` when Ctrl-C, `--timeout` or SIGTERM ends the block. SIGTERM cancels the task instead
    of ending the process. Do not prompt inside: that blocks the event loop and delays SIGTERM."""
    task = asyncio.current_task()
    assert task is not None
    loop, is_default = task.get_loop(), signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if is_default:
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    except asyncio.CancelledError:
        terminal.warn(f"interrupted{what}", *hints)
        raise
    finally:
        if is_default:
            loop.remove_signal_handler(signal.SIGTERM)


async def write(
    invocation: Invocation,
    snapshot: Snapshot,
    edit: Edit,
    done: LastAction,
    *,
    dry_run: bool,
    field_manager: str,
    recheck: Recheck | None = None,
) -> JSONObject:
    """Returns the object after `edit`, with `dry_run` as it would be. After a conflict over status or metadata it
    calls `recheck` and retries, with new annotations about `done`. Raises Refused if the spec has changed since the
    user confirmed the change; ApiError."""
    session, key, document = invocation.session, snapshot.key, snapshot.document

    def changes(live: JSONObject) -> tuple[Operation, ...]:
        return (*edit.operations, *action_operations(live, edit.operations, done))

    async def patched(live: JSONObject) -> JSONObject:
        guarded = patch.guarded_by_version(reads.meta_of(live).resource_version, *patch_of(changes(live)))
        return await documents.patch(
            session, DAEMONSETS, key, guarded, dry_run=dry_run, field_manager=field_manager, strict=True
        )

    async def applied(application: Application, live: JSONObject) -> JSONObject:
        if application.manifest:
            noted = with_notes(application, with_operations(live, changes(live)))
            return await _apply_manifest(invocation, live, replace(application, body=noted), dry_run=dry_run)
        return await documents.apply(session, _guarded(application, live), dry_run=False, force=True)

    sends = [
        partial(applied, application) for application in edit.applications if application.manifest or not dry_run
    ] or [partial(patched)]
    for send in sends:
        document = await _send_until_current(invocation, snapshot, edit, send, recheck, dry_run=dry_run)
        if dry_run and edit.applications:  # adds what was not sent
            return with_operations(snapshot.document, changes(snapshot.document))
        snapshot = reads.with_document(snapshot, document)
    return document


async def _send_until_current(
    invocation: Invocation,
    snapshot: Snapshot,
    edit: Edit,
    send: Callable[[JSONObject], Awaitable[JSONObject]],
    recheck: Recheck | None,
    *,
    dry_run: bool,
) -> JSONObject:
    """The result of `send` for the newest version. There is no pause between attempts: each takes two round trips,
    and waiting would only let the controller write once more."""
    document, before, key = snapshot.document, snapshot.document, snapshot.key
    words, way = f" while {key.name} was written: it may have been done", command("status", key)
    for left in reversed(range(WRITE_ATTEMPTS)):
        try:
            with nullcontext() if dry_run else warn_if_interrupted(invocation.terminal, words, way):
                return await send(document)
        except Conflict as error:
            if not left or any(cause.reason == "FieldManagerConflict" for cause in error.causes):
                raise
        document = await documents.get(invocation.session, DAEMONSETS, key)
        if _identity(document) != _identity(before) or _meta_differs(document, before, edit):
            raise await _change_error(invocation, snapshot, document)
        if recheck is not None:
            await recheck()
    raise AssertionError("the last attempt returns or raises")


async def _apply_manifest(
    invocation: Invocation, document: JSONObject, application: Application, *, dry_run: bool
) -> JSONObject:
    """Takes from other managers only what was shown. Updates kubectl's last-applied annotation, if present."""
    session, meta, manager = invocation.session, reads.meta_of(document), application.manager
    if not dry_run and apply.client_side_managers(document):
        managers = patch.add(apply.taken_from_client_side(document, manager), "metadata", "managedFields")
        key, guarded = Key(meta.namespace, meta.name), patch.guarded_by_version(meta.resource_version, managers)
        document = await documents.patch(session, DAEMONSETS, key, guarded, dry_run=False, field_manager=manager)
    stored = await documents.apply(session, _guarded(application, document), dry_run=dry_run, force=bool(meta.uid))
    note = note_of(application.manifest)
    if dry_run or value_at(stored, *NOTE) in (None, note):
        return stored
    noted = beside(stored, apply.KEEPS_NOTE, note, *NOTE)
    try:
        return await documents.apply(session, noted, dry_run=False, force=True)
    except ApiError as error:
        invocation.terminal.warn(f"applied; but kubectl's copy of the manifest is still the former: {error.message}")
        return stored


def _guarded(application: Application, document: JSONObject) -> Application:
    """`application` to this version of `document`; to a new one, only if none exists."""
    meta, body = reads.meta_of(document), application.body
    guard = {"uid": meta.uid, "resourceVersion": meta.resource_version} if meta.uid else _NOT_THERE
    return replace(application, body={**body, "metadata": {**fields_of(body["metadata"]), **guard}})


def _meta_differs(document: JSONObject, before: JSONObject, edit: Edit) -> bool:
    """Whether labels or annotations differ from `before` and the edit changes any of them."""
    metas = [reads.meta_of(one) for one in (document, before)]
    now, then = ((meta.labels, meta.annotations) for meta in metas)
    return now != then and any(operation.path[0] == "metadata" for operation in edit.operations)


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
    return Refused(f"{name} changed while you were looking (now {now})", "run the command again to see the new plan")


async def _what_is_new(invocation: Invocation, before: Snapshot, document: JSONObject) -> str:
    if _identity(document)[0] != _identity(before.document)[0]:
        return "another object of that name"
    key = before.key
    after = await reads.snapshot(invocation, key.name, reads.REVISIONS_ONLY, namespace=key.namespace)
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
    """The number that the new template has or will get, and its first image."""
    current, older = current_revision(forecast_world(after))
    number = number_of(current, older)
    image = next(iter(images_of(after.daemonset.spec.template).values()), "")
    return f"revision {number}, image {short_image(image)}" if image else f"revision {number}"


async def record_event(invocation: Invocation, snapshot: Snapshot, result: str, done: LastAction) -> None:
    """Best effort: most users may not create Events, and their change has been made anyway."""
    body = _event(invocation.event, snapshot, result, done)
    with suppress(ApiError):
        await invocation.session.client.create(reads.EVENTS, snapshot.key.namespace, body)


def _event(reason: str, snapshot: Snapshot, result: str, done: LastAction) -> JSONObject:
    daemonset = snapshot.daemonset
    by, why = f" by {done.by}" if done.by else "", f": {done.reason}" if done.reason else ""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{daemonset.name}.", "namespace": daemonset.namespace},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "namespace": daemonset.namespace,
            "name": daemonset.name,
            "uid": daemonset.uid,
        },
        "type": "Normal",
        "reason": reason,
        "message": f"{result}{by}{why}"[:_MESSAGE_LENGTH],
        "source": {"component": CLIENT},
        "reportingComponent": CLIENT,
        "reportingInstance": done.client,
        "firstTimestamp": done.at,
        "lastTimestamp": done.at,
        "count": 1,
    }
