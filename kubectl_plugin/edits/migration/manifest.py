"""The new manifest for a repository, and the steps that put it there."""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.objects import JSONObject, Key, Value, as_bytes, fields_of, value_at
from kubectl_plugin.commands import command
from kubectl_plugin.edits.apply_manifest import last_applied
from kubectl_plugin.edits.draft import Draft
from kubectl_plugin.edits.migration import both_kinds
from kubectl_plugin.edits.migration.both_kinds import FROZEN, Mark
from kubectl_plugin.edits.migration.observed import MigrationSide, Observed
from kubectl_plugin.edits.migration.preview import kept_nodes_words, lost_fields
from kubectl_plugin.edits.migration.step import neither_exists
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.report.revisions.differences import differences
from kubectl_plugin.report.revisions.phrases import summary
from kubectl_plugin.report.snapshot import LAST_APPLIED


class MigrationManifest(Value):
    """The manifest to apply after the migration, in place of the one that made the DaemonSet."""

    document: JSONObject
    comments: tuple[str, ...]
    """What to know before it is applied, line by line."""


def migration_manifest(observed: Observed, *, native: bool) -> MigrationManifest:
    """What `migrate --print` prints. Raises CommandError where neither side exists."""
    former, other = (observed.ours, observed.native) if native else (observed.native, observed.ours)
    if former is None and other is None:
        raise neither_exists(observed)
    if former is None and other is not None and other.mark is None:
        says = f"{observed.name} is {'a native one' if native else 'one of ours'} already: this is its manifest."
        return _as_last_applied(other, both_kinds.as_it_is(other.document), (says,))
    if former is None or former.terminating:
        raise _half_way_error(observed, native=native)
    steps = _steps(observed, native=native)
    if not native:
        return _as_last_applied(former, both_kinds.as_ours(former.document), steps)
    document, held = _keeping_old(both_kinds.as_native(former.document), observed.old_nodes(former))
    document = _as_written_by(document, {**last_applied(former.document), "spec": document["spec"]})
    return MigrationManifest(document=document, comments=(*steps, *held, *_lost_comment(former)))


def _half_way_error(observed: Observed, *, native: bool) -> CommandError:
    words = f"{observed.name} is half-way, or being deleted: it is not as it is to be"
    on = command("migrate", Key(observed.namespace, observed.name), *(["--to-native"] if native else []), to="on")
    return CommandError(words, hints=(on,), exit_code=ExitCode.REFUSED)


def _as_last_applied(side: MigrationSide, whole: JSONObject, comments: tuple[str, ...]) -> MigrationManifest:
    """The manifest as its author wrote it, if kubectl has kept a copy, and a comment where the object has changed
    since."""
    document = _as_written_by(whole, last_applied(side.document))
    changes = differences(side.template, fields_of(value_at(document, "spec", "template")))
    if words := " ".join(summary(changes, only_ascii=True).split()):
        comments = (*comments, f"This is what was applied last, and differs from what runs: {words}.")
    return MigrationManifest(document=document, comments=comments)


def _as_written_by(whole: JSONObject, author: JSONObject) -> JSONObject:
    """The object as `author`, the last manifest, wrote it; as it is where that is empty."""
    meta = fields_of((author if "metadata" in author else whole).get("metadata"))
    true = fields_of(value_at(whole, "metadata", "annotations")).keys() - {LAST_APPLIED}
    kept = {key: text for key, text in fields_of(meta.get("annotations")).items() if key in true}
    meta = {key: value for key, value in meta.items() if key not in ("annotations", "creationTimestamp")}
    if kept:
        meta["annotations"] = kept
    spec = author.get("spec") or whole["spec"]
    return {"apiVersion": whole["apiVersion"], "kind": whole["kind"], "metadata": meta, "spec": spec}


def _keeping_old(native: JSONObject, old: int) -> tuple[JSONObject, tuple[str, ...]]:
    """The manifest as `migrate` leaves the object where nodes keep an older revision; RollingUpdate would update
    them."""
    strategy = fields_of(value_at(native, "spec", "updateStrategy"))
    if not Mark(strategy=strategy, hold=True).holds(old):
        return native, ()
    draft = Draft(native)
    draft.set(dict(FROZEN), "spec", "updateStrategy")
    return draft.document, (
        f"updateStrategy is OnDelete: {kept_nodes_words(old)}, which RollingUpdate would update at once. To go on:",
        f"     updateStrategy: {as_bytes(strategy, ordered=True).decode()}",
    )


def _lost_comment(ours: MigrationSide) -> Iterator[str]:
    if fields := tuple(lost_fields(ours)):
        yield f"Lost, as a native DaemonSet does not have it: {', '.join(fields)}."


def _steps(observed: Observed, *, native: bool) -> tuple[str, ...]:
    """The steps for people who keep the manifest in a repository. In this order no node gets two pods or loses its
    pod."""
    key, direction = Key(observed.namespace, observed.name), ("--to-native",) if native else ()
    return (
        "1. Stop whoever applies the repository: or the former object comes back, and with it a second pod a node:",
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
