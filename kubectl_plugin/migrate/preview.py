"""The preview of a migration, and the new manifest for a repository."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controller.api.formats import counted
from controller.api.objects import JSONObject, Key, Value, as_bytes, fields_of, value_at
from kubectl_plugin.changes.apply import last_applied
from kubectl_plugin.changes.edit import Caution, Draft
from kubectl_plugin.errors import CommandError, Refused
from kubectl_plugin.migrate import state
from kubectl_plugin.migrate.observed import MigrationSide, Observed
from kubectl_plugin.migrate.state import FROZEN, Mark
from kubectl_plugin.migrate.steps import HandedOver, neither_exists, next_step
from kubectl_plugin.rollout.diff import differences
from kubectl_plugin.rollout.doctor_checks import network_sign
from kubectl_plugin.rollout.history import summary
from kubectl_plugin.rollout.snapshot import LAST_APPLIED
from kubectl_plugin.wording import command

_ROLLING_DEFAULTS: Final[JSONObject] = {"partition": 0, "paused": False, "rollingUpdateType": "Standard"}
"""Values whose loss changes nothing."""
_SPEC_DEFAULTS: Final[JSONObject] = {"burstReplicas": 250}


class Preview(Value):
    summary: str
    is_over: bool = False
    lines: tuple[str, ...] = ()
    cautions: tuple[Caution, ...] = ()
    why_named_only: str = ""
    """Why it is not migrated unless it is named; empty if labels or -A may select it too."""


def preview_of(observed: Observed, *, native: bool) -> Preview:
    """Raises CommandError if the migration may not begin."""
    step = next_step(observed, native=native)
    if isinstance(step, HandedOver):
        return Preview(summary=step.says, is_over=True)
    start = observed.ours if native else observed.native
    if start is None or start.mark is not None or (observed.native and observed.ours):
        return Preview(summary="was begun and goes on")
    if twice := observed.doubled_nodes(start):
        words = f"{observed.name} has two pods on {', '.join(twice[:3])}, as in a surge: let the surge finish first"
        raise Refused(words)
    pods, history = observed.pods_of(start.uid), observed.revisions_of(start.uid)
    old = observed.old_nodes(start)
    summary = f"{counted(len(pods), 'pod')} {'keeps' if len(pods) == 1 else 'keep'} running, none is restarted"
    lines = [f"history   {counted(len(history), 'revision')} {'goes' if len(history) == 1 else 'go'} along"]
    if old:
        lines.append(f"old       {_kept_words(old, start, native=native)}")
    if ending := len(observed.ending_of(start.uid)):
        lines.append(f"ending    {counted(ending, 'pod')} {'is' if ending == 1 else 'are'} waited for")
    if native and (fields := tuple(lost_fields(start))):
        lines.append(f"lost      a native DaemonSet has no {', '.join(fields)}")
    network = "" if native else network_sign(start.document)
    why = f"{observed.name} {network}: the controller's own pods may need it to start" if network else ""
    hint = "leave it native, unless the controller runs with hostNetwork"
    cautions = (*_finalizers(start), *((Caution(text=why, hints=(hint,)),) if why else ()))
    return Preview(summary=summary, lines=tuple(lines), cautions=cautions, why_named_only=why)


def _finalizers(start: MigrationSide) -> Iterator[Caution]:
    if start.finalizers:
        its = ", ".join(start.finalizers)
        words = f"{start.name} has the finalizer {its}: the migration cannot finish until that is removed"
        yield Caution(text=words, hints=("find out who has set it, and whether they remove it on deletion",))


def kept_nodes_words(old: int) -> str:
    return f"{counted(old, 'node', 'keeps')} an older revision"


def _kept_words(old: int, start: MigrationSide, *, native: bool) -> str:
    what = kept_nodes_words(old)
    if value_at(start.document, "spec", "updateStrategy", "type") == "OnDelete":
        return what
    return f"{what}: {'the native one will be OnDelete' if native else f'partition {old}'}"


def lost_fields(ours: MigrationSide) -> Iterator[str]:
    """Fields and annotations that the native kind lacks."""
    spec = fields_of(ours.document.get("spec"))
    rolling = fields_of(value_at(spec, "updateStrategy", "rollingUpdate"))
    progressive = ("order", "steps", "topology", "unreachableNodes", "onFailure")
    for key in ("partition", "selector", "paused", "rollingUpdateType", *progressive):
        if rolling.get(key) not in (None, _ROLLING_DEFAULTS.get(key)):
            yield key
    for key in ("burstReplicas", "scaleStrategy", "lifecycle"):
        if spec.get(key) not in (None, {}, _SPEC_DEFAULTS.get(key)):
            yield key
    annotations = fields_of(value_at(ours.document, "metadata", "annotations"))
    yield from (f"annotation {key}" for key in sorted(annotations) if key.startswith(state.OUR_PREFIXES))


class MigrationManifest(Value):
    """The manifest to apply after the migration, in place of the former one."""

    document: JSONObject
    comments: tuple[str, ...]


def migration_manifest(observed: Observed, *, native: bool) -> MigrationManifest:
    """The output of `migrate --print`. Raises CommandError if neither side exists, or during the migration."""
    former, other = (observed.ours, observed.native) if native else (observed.native, observed.ours)
    if former is None and other is None:
        raise neither_exists(observed)
    if former is None and other is not None and other.mark is None:
        says = (
            f"{observed.name} is {'a native' if native else 'an Advanced'} DaemonSet already: this is its manifest."
        )
        return _as_last_applied(other, state.as_it_is(other.document), (says,))
    if former is None or former.terminating:
        raise _half_way_error(observed, native=native)
    steps = _steps(observed, native=native)
    if not native:
        return _as_last_applied(former, state.as_ours(former.document), steps)
    document, held = _keeping_old(state.as_native(former.document), observed.old_nodes(former))
    document = _as_written_by(document, {**last_applied(former.document), "spec": document["spec"]})
    lost = ", ".join(lost_fields(former))
    comments = (*steps, *held, *([f"Lost, as a native DaemonSet does not have it: {lost}."] if lost else []))
    return MigrationManifest(document=document, comments=comments)


def _half_way_error(observed: Observed, *, native: bool) -> CommandError:
    words = f"{observed.name} is being migrated or deleted: there is no manifest for it until that is over"
    on = command("migrate", Key(observed.namespace, observed.name), *(["--to-native"] if native else []), to="on")
    return Refused(words, on)


def _as_last_applied(side: MigrationSide, whole: JSONObject, comments: tuple[str, ...]) -> MigrationManifest:
    """The manifest as its author wrote it, if kubectl has kept a copy, with a comment if the object differs."""
    document = _as_written_by(whole, last_applied(side.document))
    changes = differences(side.template, fields_of(value_at(document, "spec", "template")))
    if words := " ".join(summary(changes, only_ascii=True).split()):
        comments = (*comments, f"This is what was applied last, and differs from what runs: {words}.")
    return MigrationManifest(document=document, comments=comments)


def _as_written_by(whole: JSONObject, author: JSONObject) -> JSONObject:
    """`whole` with the metadata and spec of `author`, its last applied manifest; unchanged without one."""
    meta = fields_of((author if "metadata" in author else whole).get("metadata"))
    true = fields_of(value_at(whole, "metadata", "annotations")).keys() - {LAST_APPLIED}
    kept = {key: text for key, text in fields_of(meta.get("annotations")).items() if key in true}
    meta = {key: value for key, value in meta.items() if key not in ("annotations", "creationTimestamp")}
    if kept:
        meta["annotations"] = kept
    spec = author.get("spec") or whole["spec"]
    return {"apiVersion": whole["apiVersion"], "kind": whole["kind"], "metadata": meta, "spec": spec}


def _keeping_old(native: JSONObject, old: int) -> tuple[JSONObject, tuple[str, ...]]:
    """Keeps OnDelete while nodes have an older revision, which RollingUpdate would update."""
    strategy = fields_of(value_at(native, "spec", "updateStrategy"))
    if not Mark(strategy=strategy, hold=True).holds(old):
        return native, ()
    draft = Draft(native)
    draft.set(dict(FROZEN), "spec", "updateStrategy")
    return draft.document, (
        f"updateStrategy is OnDelete: {kept_nodes_words(old)}, which RollingUpdate would update at once. To go on:",
        f"     updateStrategy: {as_bytes(strategy, ordered=True).decode()}",
    )


def _steps(observed: Observed, *, native: bool) -> tuple[str, ...]:
    """For manifests in a repository. In this order, no node gets two pods or loses its pod."""
    key, direction = Key(observed.namespace, observed.name), ("--to-native",) if native else ()
    return (
        "1. Stop what applies the repository, or the former object comes back, with a second pod on each node:",
        "     Argo CD: note syncPolicy in argocd app get APP -o yaml; then argocd app set APP --sync-policy none",
        "              (the app of an ApplicationSet, or of another app, is stopped at that one)",
        "     Flux:    flux suspend kustomization NAME, or flux suspend helmrelease NAME",
        f"2. {command('migrate', key, *direction, '--sync-stopped')}",
        "3. Put this manifest in the place of the former one.",
        "4. Start it again:",
        "     Argo CD: argocd app set APP --sync-policy automated, with --auto-prune and --self-heal if it had them",
        "     Flux:    flux resume, as in 1.",
        "   The former object is gone by then, so there is nothing to prune.",
    )
