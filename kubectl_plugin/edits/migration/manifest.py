"""The new manifest for a repository, and how it gets there."""

from __future__ import annotations

import msgspec

from controller.api.base import JSONObject, fields_of
from controller.api.wellknown import API_VERSION
from kubectl_plugin.edits.applying import found
from kubectl_plugin.edits.manifest import LAST_APPLIED
from kubectl_plugin.edits.migration import forms


def written(document: JSONObject, *, native: bool) -> JSONObject:
    """As its author wrote it where kubectl has noted that, else as it is there; `native`: as a native one."""
    whole = forms.as_native(document) if native else forms.as_ours(document)
    noted = found(document, *LAST_APPLIED)
    try:
        author = fields_of(msgspec.json.decode(noted)) if isinstance(noted, str) else {}
    except msgspec.MsgspecError:
        author = {}
    meta = fields_of((author or whole).get("metadata"))
    kept = {key: text for key, text in fields_of(meta.get("annotations")).items() if key != LAST_APPLIED[-1]}
    meta = {key: value for key, value in meta.items() if key not in ("annotations", "creationTimestamp")}
    if kept:
        meta["annotations"] = kept
    spec = whole["spec"] if native or not author else author.get("spec")
    version = forms.NATIVE_VERSION if native else API_VERSION
    return {"apiVersion": version, "kind": whole["kind"], "metadata": meta, "spec": spec}


def steps(name: str, namespace: str, *, native: bool) -> tuple[str, ...]:
    """For whoever keeps it in a repository: in this order no node has two pods and none is without one."""
    direction = " --to-native" if native else ""
    return (
        "1. Stop whoever applies the repository: or the former object comes back, and with it a second pod a node:",
        "     Argo CD: argocd app set APP --sync-policy none",
        "     Flux:    flux suspend kustomization NAME",
        f"2. kubectl kruise-ds migrate {name} -n {namespace}{direction} --sync-stopped",
        "3. Put this manifest in the place of the former one.",
        "4. Start it again: argocd app set APP --sync-policy automated, or flux resume kustomization NAME.",
        "   The former object is gone by then, so there is nothing to prune.",
    )
