"""`apply`: applies a manifest; --hold-at adds a partition that later applies of that manifest keep."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.formats import IntOrPercent
from controller.api.objects import JSONObject, value_at
from controller.kube.errors import Conflict
from kubectl_plugin.changes import apply as edits
from kubectl_plugin.changes.apply import HOLDS, client_side_managers
from kubectl_plugin.changes.edit import ROLLING, Application, Draft, settings_of
from kubectl_plugin.changes.steering import desired_of, keeps_fewer, partition_of
from kubectl_plugin.cluster import previews
from kubectl_plugin.cluster.manifests import Manifest, read_manifests
from kubectl_plugin.cluster.previews import ForecastTarget, daemonset_in, targets_of, with_admission
from kubectl_plugin.cluster.session import Deadline, Invocation
from kubectl_plugin.commands.change_flow import carry_out
from kubectl_plugin.commands.consent import CONTINUE, PlannedChange, guard_of_pauses, will_ask, with_question
from kubectl_plugin.errors import CommandError, ExitCode, Refused, UsageError
from kubectl_plugin.flags import int_or_percent
from kubectl_plugin.options import KEPT_MANAGER, ApplyOptions
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.wording import CLIENT

_Taken: TypeAlias = dict[tuple[str, str], None]
"""Pairs of field and former manager, in the server's order."""
_PARTITION: Final = f".{'.'.join(ROLLING)}.partition"
_BESIDE: Final = (CLIENT, KEPT_MANAGER, HOLDS)
"""Managers of what this plugin sets beside the manifest."""
_OTHER: Final = re.compile(r'conflict with "(?P<manager>[^"]*)"')


async def apply(invocation: Invocation, options: ApplyOptions) -> ExitCode:
    hold_at = None if options.hold_at is None else int_or_percent(options.hold_at, "--hold-at")
    manifests, others = await read_manifests(options, invocation.host)
    for manifest in manifests:
        _refuse_contradictions(manifest, invocation.namespace, hold_at)
    if others:
        named = ", ".join(sorted({str(other.get("kind")) for other in others}))
        invocation.terminal.note(f"not applied, since only Advanced DaemonSets are: {named}; kubectl apply does")
    async with Deadline(invocation, options).enforced():
        targets = await targets_of(invocation, manifests)
        changes = {target.snapshot.key: await _change_of(invocation, target, options, hold_at) for target in targets}
    asks = will_ask(invocation, options) and len(changes) == 1
    live = [change.snapshot for change in changes.values()]
    checked = await guard_of_pauses(
        invocation, options, live, by_flag=options.lift_pause, what="the manifest", instead="paused: true in it"
    )

    def change(snapshot: Snapshot) -> PlannedChange:
        made = checked(changes[snapshot.key])
        return with_question(made, f"Apply to {snapshot.key.name}?") if asks else made

    return await carry_out(invocation, live, change, options, verb="apply")


def _refuse_contradictions(manifest: Manifest, namespace: str | None, hold_at: IntOrPercent | None) -> None:
    written = value_at(manifest.document, *ROLLING, "partition")
    if hold_at is not None and written not in (None, hold_at):
        words = f"{manifest.source} sets partition {written} for {manifest.name}, --hold-at says {hold_at}"
        raise UsageError(words, "leave one of them out")
    if namespace and manifest.namespace not in ("", namespace):
        raise UsageError(f"{manifest.source} is for namespace {manifest.namespace}, -n says {namespace}")


async def _change_of(
    invocation: Invocation, target: ForecastTarget, options: ApplyOptions, hold_at: IntOrPercent | None
) -> PlannedChange:
    """Returns the change as a server dry run makes it. Raises CommandError and ApiError."""
    assert target.manifest is not None
    live, key = target.snapshot, target.snapshot.key
    if not target.exists:
        if options.print_patch:
            raise CommandError(f"{key.name} does not exist yet: there is nothing to patch")
        kind = {field: target.manifest.document[field] for field in ("apiVersion", "kind")}
        live = replace(live, document={**kind, "metadata": {"name": key.name, "namespace": key.namespace}})
    application = edits.application_of(target.manifest.document, key, live.document, options.field_manager)
    hold = None if value_at(application.manifest, *ROLLING, "partition") is not None else hold_at
    expected, taken = await _dry_run(invocation, live, application, hold, options)
    if hold is not None:
        _refuse_hold(live, daemonset_in(expected), hold)
    if not (options.force_conflicts or (invocation.terminal.may_ask and not options.yes)):
        _refuse_release(live, expected, taken)

    async def recheck() -> None:
        again, now_taken = await _dry_run(invocation, live, application, hold, options)
        if again["spec"] != expected["spec"] or not now_taken.keys() <= taken.keys():
            words = f"what the manifest would change of {key.name} has changed while you were looking"
            raise Refused(words, "run the command again to see it")

    if target.exists:
        live = await with_admission(invocation, live, daemonset_in(expected))
    taken_over = [f"taken over from {other}: {field}" for field, other in taken]
    edit = edits.apply(live, application, expected, hold, taken_over=taken_over, show_values=options.show_values)
    if words := await previews.unknown_fields(invocation.session, live, edit.operations):
        raise CommandError(f"{key.name}: {words}", "correct the manifest, or allow it there")
    return PlannedChange(live, edit, question=CONTINUE, recheck=recheck if target.exists else None)


async def _dry_run(
    invocation: Invocation, live: Snapshot, application: Application, hold: IntOrPercent | None, options: ApplyOptions
) -> tuple[JSONObject, _Taken]:
    """Returns the applied object, and the fields it takes over: from the plugin's other verbs and client-side
    kubectl, from others only with --force-conflicts. Raises Refused and ApiError."""
    session, document, taken = invocation.session, live.document, dict[tuple[str, str], None]()

    async def tried(application: Application) -> JSONObject:
        try:
            return await previews.dry_run_of_apply(session, document, application, force=False)
        except Conflict as error:
            owned = [(cause.field, by["manager"]) for cause in error.causes if (by := _OTHER.search(cause.message))]
            own = {*_BESIDE, options.field_manager, *client_side_managers(document)}
            foreign = [f"{field} ({other})" for field, other in owned if other not in own]
            if not owned:
                raise Refused(error.message, "read the file anew, or take resourceVersion out of it") from error
            if foreign and not options.force_conflicts:
                words = f"others manage fields of {live.key.name} that the manifest changes: {', '.join(foreign)}"
                hint = "take them out of the manifest; or --force-conflicts, as of kubectl, takes them over"
                raise Refused(words, hint) from error
        taken.update(dict.fromkeys(owned))
        return await previews.dry_run_of_apply(session, document, application, force=True)

    draft = Draft(await tried(application))
    if draft.get(*edits.NOTE) is not None:
        draft.set(edits.note_of(application.manifest), *edits.NOTE)  # the server's is of all that was sent
    if hold is not None:
        if value_at(document, "metadata", "uid") is not None:
            await tried(edits.hold_of(document, hold))
        draft.set(hold, *ROLLING, "partition")
    return draft.document, taken


def _refuse_hold(live: Snapshot, then: DaemonSet, hold: IntOrPercent) -> None:
    """Raises Refused if the hold could not take effect at once."""
    for one in (live.daemonset, then):
        settings_of(replace(live, daemonset=one), "hold")
    if value_at(live.document, "metadata", "uid") is None and then.partitioned_scaling:
        words = f"cannot hold {live.key.name} with spec.scaleStrategy.partitionedScaling before it is there"
        raise Refused(words, f"write spec.updateStrategy.rollingUpdate.partition: {hold} in the manifest")


def _refuse_release(live: Snapshot, expected: JSONObject, taken: _Taken) -> None:
    """Raises Refused if nodes held by a partition from outside the manifest would be released."""
    present, then = partition_of(live), partition_of(replace(live, daemonset=daemonset_in(expected)))
    set_beside = any((_PARTITION, manager) in taken for manager in _BESIDE)
    if set_beside and keeps_fewer(then, present, desired_of(live)):
        held = f"{live.key.name} is held at partition {present}, which no manifest has set"
        hint = "--force-conflicts sets it all the same; without partition in the manifest it stays"
        raise Refused(f"{held}; this would set it to {then}", hint)
