"""`apply`: writes a manifest and, with --hold-at, the partition in one write."""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from controller.api.formats import IntOrPercent
from controller.api.objects import JSONObject, value_at
from controller.kube.errors import Conflict
from kubectl_plugin.change_options import MANAGER
from kubectl_plugin.change_options import ApplyOptions as Asked
from kubectl_plugin.cluster import dry_runs
from kubectl_plugin.cluster.admission import with_admission
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.cluster.manifests import Manifest, read_manifests
from kubectl_plugin.edits import apply_manifest as edits
from kubectl_plugin.edits.edit import ROLLING, Application
from kubectl_plugin.edits.field_owners import client_side_managers
from kubectl_plugin.failures import CommandError, ExitCode, UsageError
from kubectl_plugin.int_or_percent import int_or_percent
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.verbs.change_flow import carry_out, will_ask
from kubectl_plugin.verbs.change_writer import EditOfOne, with_question
from kubectl_plugin.verbs.manifest_targets import ForecastTarget, daemonset_in, targets_of
from kubectl_plugin.verbs.pause_guard import guard_of_pauses
from kubectl_plugin.verbs.waiting import deadline_of

_OTHER: Final = re.compile(r'conflict with "(?P<manager>[^"]*)"')


async def apply(invocation: Invocation, asked: Asked) -> int:
    """Objects of other kinds in the files are left to kubectl, and a note says so."""
    hold_at = None if asked.hold_at is None else int_or_percent(asked.hold_at, "--hold-at")
    manifests, others = await read_manifests(asked, invocation.host)
    for one in manifests:
        _refuse_contradictions(one, invocation.namespace, hold_at)
    if others:
        named = ", ".join(sorted({str(one.get("kind")) for one in others}))
        invocation.terminal.note(f"not applied, since only Advanced DaemonSets are: {named}; kubectl apply does")
    async with deadline_of(invocation, asked).enforced():
        targets = await targets_of(invocation, manifests)
        changes = {one.snapshot.key: await _change_of(invocation, one, asked, hold_at) for one in targets}
    asks = will_ask(invocation, asked) and len(changes) == 1
    live = [one.snapshot for one in changes.values()]
    checked = await guard_of_pauses(
        invocation, asked, live, by_flag=asked.lift_pause, what="the manifest", instead="paused: true in it"
    )

    def change(snapshot: Snapshot) -> EditOfOne:
        made = checked(changes[snapshot.key])
        return with_question(made, f"Apply to {snapshot.key.name}?") if asks else made

    return await carry_out(invocation, live, change, asked, verb="apply")


def _refuse_contradictions(manifest: Manifest, asked: str | None, hold_at: IntOrPercent | None) -> None:
    """Raises UsageError for flags that contradict the manifest."""
    written = value_at(manifest.document, *ROLLING, "partition")
    if hold_at is not None and written not in (None, hold_at):
        words = f"{manifest.source} sets partition {written} for {manifest.name}, --hold-at says {hold_at}"
        raise UsageError(words, hints=("leave one of them out",))
    if asked and manifest.namespace not in ("", asked):
        raise UsageError(f"{manifest.source} is for namespace {manifest.namespace}, -n says {asked}")


async def _change_of(
    invocation: Invocation, target: ForecastTarget, asked: Asked, hold_at: IntOrPercent | None
) -> EditOfOne:
    """The change that applies the manifest, as a dry run of the server makes it. Raises CommandError and ApiError."""
    assert target.manifest is not None
    live, key = target.snapshot, target.snapshot.key
    if not target.exists:
        if asked.print_patch:
            raise CommandError(f"{key.name} does not exist yet: there is nothing to patch")
        live = replace(live, document=_without_spec(target.manifest, key.namespace))
    else:
        _refuse_older(target.manifest, live.document)
    application = edits.application_of(target.manifest.document, key, live.document, hold_at)
    expected, taken_over = await _dry_run(invocation, live, application, asked)
    if target.exists:
        live = await with_admission(invocation, live, daemonset_in(expected))
    edit = edits.apply(
        live,
        application,
        expected,
        hold_at,
        manager=asked.field_manager,
        taken_over=taken_over,
        show_values=asked.show_values,
    )
    if words := await dry_runs.unknown_fields(invocation.session, live, edit.operations):
        raise CommandError(f"{key.name}: {words}", hints=("correct the manifest, or allow it there",))
    return EditOfOne(live, edit, ask="Continue?")


async def _dry_run(
    invocation: Invocation, live: Snapshot, application: Application, asked: Asked
) -> tuple[JSONObject, tuple[str, ...]]:
    """The object as it would be, and which fields it takes from whom: from this plugin's other verbs, from kubectl's
    apply on the client's side, and with --force-conflicts from anybody. Raises CommandError with exit code 6 for
    fields of others, and ApiError."""
    session, manager = invocation.session, asked.field_manager
    try:
        return await dry_runs.dry_run_of_apply(session, live.document, application, manager=manager, force=False), ()
    except Conflict as error:
        owned = [(one.field, other["manager"]) for one in error.causes if (other := _OTHER.search(one.message))]
        own = {MANAGER, *client_side_managers(live.document)}
        foreign = [f"{field} ({other})" for field, other in owned if other not in own]
        if not owned:
            raise
        if foreign and not asked.force_conflicts:
            words = f"others manage fields of {live.key.name} that the manifest changes: {', '.join(foreign)}"
            hint = "take them out of the manifest; or --force-conflicts, as of kubectl, takes them over"
            raise CommandError(words, hints=(hint,), exit_code=ExitCode.REFUSED) from error
    expected = await dry_runs.dry_run_of_apply(session, live.document, application, manager=manager, force=True)
    return expected, tuple(f"taken over from {other}: {field}" for field, other in owned)


def _refuse_older(manifest: Manifest, live: JSONObject) -> None:
    """Refuse a file that was read from the server before the object last changed. Raises CommandError with exit code
    6."""
    for field in ("uid", "resourceVersion"):
        if value_at(manifest.document, "metadata", field) not in (None, "", value_at(live, "metadata", field)):
            raise CommandError(
                f"{manifest.name} was changed since {manifest.source} was read from the server ({field})",
                hints=(f"read it anew, or leave metadata.{field} out",),
                exit_code=ExitCode.REFUSED,
            )


def _without_spec(manifest: Manifest, namespace: str) -> JSONObject:
    """The document of a DaemonSet before its spec is set."""
    document = manifest.document
    meta: JSONObject = {"name": manifest.name, "namespace": namespace, "labels": {}, "annotations": {}}
    return {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": meta, "spec": {}}
