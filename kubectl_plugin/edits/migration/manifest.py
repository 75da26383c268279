"""The new manifest for a repository, and how it gets there."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from controller.api.base import JSONObject, Value, fields_of
from controller.api.wellknown import API_VERSION
from kubectl_plugin.edits.applying import Draft, found
from kubectl_plugin.edits.manifest import LAST_APPLIED
from kubectl_plugin.edits.migration import forms
from kubectl_plugin.edits.migration.forms import FROZEN, Mark
from kubectl_plugin.edits.migration.observed import MigrationSide, Observed
from kubectl_plugin.edits.migration.outlook import keeping, lost
from kubectl_plugin.edits.migration.step import absent


class Manifest(Value):
    document: JSONObject
    comments: tuple[str, ...]
    """What to know before it is applied, line by line."""


def printed(observed: Observed, *, native: bool) -> Manifest:
    """Raises CommandError where there is nothing to start from."""
    start = observed.ours if native else observed.native
    if start is None:
        raise absent(observed)
    document, steps = _written(start.document, native=native), _steps(observed, native=native)
    if not native:
        return Manifest(document=document, comments=steps)
    document, held = _held(document, observed.old_nodes(start))
    return Manifest(document=document, comments=(*steps, *held, *_lost(start)))


def _written(document: JSONObject, *, native: bool) -> JSONObject:
    """As its author wrote it where kubectl has noted that, else as it is there; `native`: as a native one."""
    whole = forms.as_native(document) if native else forms.as_ours(document)
    noted = found(document, *LAST_APPLIED)
    try:
        author = fields_of(msgspec.json.decode(noted)) if isinstance(noted, str) else {}
    except msgspec.MsgspecError:
        author = {}
    meta = fields_of((author or whole).get("metadata"))
    true = fields_of(found(whole, "metadata", "annotations")).keys() - {LAST_APPLIED[-1]}
    kept = {key: text for key, text in fields_of(meta.get("annotations")).items() if key in true}
    meta = {key: value for key, value in meta.items() if key not in ("annotations", "creationTimestamp")}
    if kept:
        meta["annotations"] = kept
    spec = whole["spec"] if native or not author else author.get("spec")
    version = forms.NATIVE_VERSION if native else API_VERSION
    return {"apiVersion": version, "kind": whole["kind"], "metadata": meta, "spec": spec}


def _held(native: JSONObject, old: int) -> tuple[JSONObject, tuple[str, ...]]:
    """As `migrate` leaves it where nodes keep an older revision: or who applies it would update them."""
    strategy = fields_of(found(native, "spec", "updateStrategy"))
    if not Mark(strategy=strategy, hold=True).holds(old):
        return native, ()
    draft = Draft(native)
    draft.set(dict(FROZEN), "spec", "updateStrategy")
    return draft.document, (
        f"updateStrategy is OnDelete: {keeping(old)}, which RollingUpdate would update at once. To go on:",
        f"     updateStrategy: {msgspec.json.encode(strategy, order='sorted').decode()}",
    )


def _lost(ours: MigrationSide) -> Iterator[str]:
    if fields := tuple(lost(ours)):
        yield f"Lost, as a native DaemonSet does not have it: {', '.join(fields)}."


def _steps(observed: Observed, *, native: bool) -> tuple[str, ...]:
    """For whoever keeps it in a repository: in this order no node has two pods and none is without one."""
    direction = " --to-native" if native else ""
    return (
        "1. Stop whoever applies the repository: or the former object comes back, and with it a second pod a node:",
        "     Argo CD: argocd app set APP --sync-policy none",
        "     Flux:    flux suspend kustomization NAME",
        f"2. kubectl kruise-ds migrate {observed.name} -n {observed.namespace}{direction} --sync-stopped",
        "3. Put this manifest in the place of the former one.",
        "4. Start it again: argocd app set APP --sync-policy automated, or flux resume kustomization NAME.",
        "   The former object is gone by then, so there is nothing to prune.",
    )
