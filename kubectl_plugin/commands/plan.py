"""`plan`: forecasts the rollout, optionally with other settings or a manifest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace as with_fields
from typing import Final

import msgspec
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.objects import JSONObject, fields_of
from controller.planner.validation import problems
from kubectl_plugin.changes.steering import TriedSettings, as_tried, parse_images
from kubectl_plugin.cluster import previews, reads
from kubectl_plugin.cluster.follow import with_pulls
from kubectl_plugin.cluster.manifests import STDIN, read_manifests
from kubectl_plugin.cluster.previews import (
    ForecastTarget,
    daemonset_in,
    dry_run_of_manifest,
    note_unchecked,
    targets_of,
    with_admission,
)
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.errors import CommandError, ExitCode
from kubectl_plugin.flags import Output, int_or_percent
from kubectl_plugin.forecast.forecast import MOST_WAVES, finished
from kubectl_plugin.forecast.report import (
    KIND,
    DryRunAnswer,
    RolloutPlan,
    document_of,
    plan_by_wave,
    probe_of,
    with_answer,
)
from kubectl_plugin.forecast.warnings import PreflightResult
from kubectl_plugin.options import PlanOptions
from kubectl_plugin.render.plan import PlanBlock
from kubectl_plugin.rollout.document import document
from kubectl_plugin.rollout.snapshot import Snapshot, image_change, images_of
from kubectl_plugin.terminal import interruptible

PROGRESS_EVERY: Final = 3.0
"""Seconds between two progress notes of the forecast."""


async def plan(invocation: Invocation, options: PlanOptions) -> ExitCode:
    settings = _settings_to_try(options)
    targets = await _targets(invocation, options)
    seen = await with_pulls(invocation, [target.snapshot for target in targets])
    made = [
        await _plan_of(invocation, with_fields(target, snapshot=live), options, settings)
        for target, live in zip(targets, seen, strict=True)
    ]
    _print_plans(invocation, made)
    changes = any(one.forecast.changes for one in made)
    return ExitCode.DIFFERENT if options.exit_code and changes else ExitCode.DONE


def _settings_to_try(options: PlanOptions) -> TriedSettings:
    """Raises UsageError for an invalid number, percentage or image."""
    unavailable = options.max_unavailable
    return TriedSettings(
        partition=None if options.partition is None else int_or_percent(options.partition, "partition"),
        max_unavailable=None if unavailable is None else int_or_percent(unavailable, "maxUnavailable"),
        images=parse_images(options.images),
    )


async def _targets(invocation: Invocation, options: PlanOptions) -> Sequence[ForecastTarget]:
    if not options.given:
        return (ForecastTarget(await reads.snapshot(invocation, options.name or "")),)
    found, _ = await read_manifests(options, invocation.host)
    if options.name is not None:
        name = reads.name_of(options.name)
        found = tuple(one for one in found if one.name == name)
        if not found:
            raise CommandError(f"no Advanced DaemonSet {name} in the files of -f and -k")
    return await targets_of(invocation, found)


async def _plan_of(
    invocation: Invocation, target: ForecastTarget, options: PlanOptions, settings: TriedSettings
) -> RolloutPlan:
    live = target.snapshot
    for kind, readable in (("pods", live.pods_readable), ("controllerrevisions", live.revisions_readable)):
        if not readable:
            raise CommandError(
                f"a plan for {live.key.name} needs the right to list {kind} in namespace {live.key.namespace}"
            )
    planned = await _as_it_would_be(invocation, target, settings)
    _refuse_nonsense(planned.daemonset)
    planned = await with_admission(invocation, planned, planned.daemonset)
    words = tried_words(live.daemonset, planned.daemonset)
    if not target.exists and target.manifest is not None:
        source = "standard input" if target.manifest.source == STDIN else target.manifest.source
        words = (f"created from {source}", *words)
    waves = min(options.waves or MOST_WAVES, MOST_WAVES)
    try:
        with interruptible():
            course = plan_by_wave(planned, waves=waves, tried=words)
            made = finished(course, _progress_note(invocation, live.key.name))
    except (ValueError, msgspec.MsgspecError) as error:
        raise CommandError(f"cannot make sense of the spec of {live.key.name}: {error}") from error
    if not made.forecast.changes:
        return made
    answer = await _dry_run_of_next_pod(invocation, made)
    with interruptible():
        return with_answer(made, answer, waves=waves)


def _progress_note(invocation: Invocation, name: str) -> Callable[[int], None]:
    ticks, at = invocation.host.ticks, invocation.host.ticks()

    def note(waves: int) -> None:
        nonlocal at
        if ticks() - at >= PROGRESS_EVERY:
            at = ticks()
            invocation.terminal.note(f"still working out the waves of {name}: {waves} so far")

    return note


async def _dry_run_of_next_pod(invocation: Invocation, made: RolloutPlan) -> DryRunAnswer:
    daemonset, probe = made.survey.daemonset, probe_of(made.forecast.start)
    if probe is None:
        return DryRunAnswer(result=PreflightResult.SKIPPED, text="no node should run a pod")
    return await previews.dry_run_of_pod(invocation.session, daemonset, probe)


async def _as_it_would_be(invocation: Invocation, target: ForecastTarget, settings: TriedSettings) -> Snapshot:
    """The snapshot with the planned DaemonSet as the server would store it."""
    live = target.snapshot
    wanted = live
    if target.manifest is not None and target.exists:
        applied = await dry_run_of_manifest(invocation, target.manifest, live.key, live.document)
        wanted = _with_document(wanted, applied or laid_over(live.document, target.manifest.document))
        if settings == TriedSettings() or applied is None:
            return wanted if settings == TriedSettings() else _with_document(wanted, as_tried(wanted, settings))
    if settings != TriedSettings():
        wanted = _with_document(wanted, as_tried(wanted, settings))
    if wanted is live or not target.exists:
        return wanted
    checked = await previews.dry_run_of_change(invocation.session, live.document, wanted.document)
    note_unchecked(invocation, checked)
    return _with_document(wanted, checked) if checked is not None else wanted


def _with_document(snapshot: Snapshot, document: JSONObject) -> Snapshot:
    daemonset = daemonset_in(document)
    if daemonset.spec != snapshot.daemonset.spec:
        daemonset = replace(daemonset, generation=snapshot.daemonset.generation + 1)
    return replace(snapshot, daemonset=daemonset, document=document)


def _refuse_nonsense(daemonset: DaemonSet) -> None:
    """Raises CommandError for a spec that the controller refuses."""
    if found := problems(daemonset):
        raise CommandError(f"the controller would do nothing for {daemonset.name}: {'; '.join(found)}")
    if daemonset.terminating:
        raise CommandError(f"{daemonset.name} is being deleted: there is nothing to plan")


def _print_plans(invocation: Invocation, plans: Sequence[RolloutPlan]) -> None:
    terminal, output = invocation.terminal, invocation.output
    if output in (Output.JSON, Output.YAML):
        found = [document_of(one) for one in plans]
        listed = found[0] if len(found) == 1 else document(f"{KIND}List", items=[*found])
        terminal.say_document(listed, output)
        return
    wide = output is Output.WIDE
    for place, one in enumerate(plans):
        terminal.say(*([""] if place else []))
        terminal.show(PlanBlock(one, terminal, wide=wide).drawn(), whole=wide)


def tried_words(live: DaemonSet, planned: DaemonSet) -> tuple[str, ...]:
    """In words, such as `partition 16 -> 0`, `image agent 1.9.0 -> 1.9.1`; empty if both roll out alike."""
    images, wanted = images_of(live.spec.template), images_of(planned.spec.template)
    other = [name for name in wanted if images.get(name, wanted[name]) != wanted[name]]
    found = [f"image {name} {' -> '.join(image_change(images[name], wanted[name]))}" for name in other]
    if not found and live.identity != planned.identity:
        found.append("another pod template")
    before, after = live.rolling_update, planned.rolling_update
    if (before is None) != (after is None):
        found.append("OnDelete -> RollingUpdate" if before is None else "RollingUpdate -> OnDelete")
    for field, name in _SETTINGS.items():
        old, new = getattr(before, field, None), getattr(after, field, None)
        if old != new and after is not None:
            found.append(f"{name} {_word(old)} -> {_word(new)}")
    if before is not None and after is not None and before.selector != after.selector:
        found.append("another rollingUpdate.selector")
    return tuple(found)


_SETTINGS: Final = {
    "partition": "partition",
    "max_unavailable": "maxUnavailable",
    "max_surge": "maxSurge",
    "paused": "paused",
    "rolling_update_type": "rollingUpdateType",
}


def _word(value: object) -> str:
    return "none" if value in (None, "") else str(value).lower() if isinstance(value, bool) else str(value)


def laid_over(live: JSONObject, manifest: JSONObject) -> JSONObject:
    """`live` with the values of `manifest`, like an apply without the server; lists are replaced whole."""
    merged = dict(live)
    for key, value in manifest.items():
        if value is None or key == "status":
            continue
        merged[key] = laid_over(fields_of(merged.get(key)), value) if isinstance(value, dict) else value
    return merged
