"""The one write of an acting verb: a JSON Patch of the object that the user was shown, and never of a newer spec."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Final, TypeAlias, TypedDict

from controller.api import patch
from controller.api.base import JSONObject
from controller.api.daemonset import DaemonSetStatus
from controller.api.meta import ObjectMeta
from controller.kube.errors import AlreadyExists, ApiError, Conflict
from controller.kube.kinds import DAEMONSETS
from controller.planner.current_revision import current_revision
from kubectl_plugin.cluster import documents, reads
from kubectl_plugin.cluster.interruption import warn_if_interrupted
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.edits.annotations import action_operations
from kubectl_plugin.edits.draft import with_operations
from kubectl_plugin.edits.edit import Edit
from kubectl_plugin.edits.effects import number_of
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.report.counts_in_words import new_nodes
from kubectl_plugin.report.last_action import LastAction
from kubectl_plugin.report.revisions.images import images_of, short_image
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.world_of import world_of

Judge: TypeAlias = Callable[[], Awaitable[None]]
"""Checks once more whether the change may be written. Raises CommandError where it may not."""
ATTEMPTS: Final = 30
"""How often a write is tried. During a rollout each status that the controller writes makes our version stale: with
ten of them a second, and a server a quarter of a second away, one attempt in twelve succeeds."""


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
    way = f"kubectl kruise-ds status {key.typed}"
    for _ in range(ATTEMPTS):
        changes = (*edit.operations, *action_operations(document, edit.operations, done))
        guarded = patch.guarded_by_version(reads.meta_of(document).resource_version, *changes)
        how: _How = {"dry_run": dry_run, "field_manager": field_manager, "strict": True}
        try:
            with nullcontext() if dry_run else warn_if_interrupted(invocation.terminal, words, way):
                if not reads.meta_of(document).uid:
                    body = with_operations(document, changes)
                    return await documents.create(session, DAEMONSETS, key.namespace, body, **how)
                return await documents.patch(session, DAEMONSETS, key, guarded, **how)
        except (AlreadyExists, Conflict) as error:
            last = error
        document = await documents.get(session, DAEMONSETS, key)
        if _identity(document) != _identity(snapshot.document) or _meta_differs(document, snapshot.document, edit):
            raise await _change_error(invocation, snapshot, document)
        if judge is not None:
            await judge()
    assert last is not None
    raise last


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
