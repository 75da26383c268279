"""What else manages a DaemonSet, such as Argo CD or an operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from controller.api.objects import JSON, JSONObject, OwnerReference, Value, fields_of, items_of


class _Manager(Value):
    text: str
    """`Argo CD app "agents"`."""
    risk: str
    where: str


def caution_of(name: str, document: JSONObject, owners: Iterable[OwnerReference]) -> str | None:
    """A warning that names the manager, the risk, and where else to make the change; None without a manager."""
    if driver := driver_of(document):
        return f"{name} is driven by {driver}, which holds new templates and sets the partition itself; go on there"
    manager = _manager(document, owners)
    if manager is None:
        return None
    return f"{name} is managed by {manager.text} ({manager.risk}); change it {manager.where} as well"


def driver_of(document: JSONObject) -> str | None:
    """`Rollout "agent" of kruise-rollouts`, which carries out a rollout of this DaemonSet now; None without one."""
    annotations = texts_in(fields_of(document.get("metadata")).get("annotations"))
    for annotation, field in _DRIVEN.items():
        with suppress(msgspec.DecodeError, RecursionError):
            if name := texts_in(msgspec.json.decode(annotations.get(annotation, ""))).get(field):
                return f'Rollout "{name}" of kruise-rollouts'
    return None


_DRIVEN: Final = {
    "rollouts.kruise.io/in-progressing": "rolloutName",
    "batchrelease.rollouts.kruise.io/control-info": "name",
}
"""Annotations of kruise-rollouts, JSON both, and where the name of the Rollout is in them."""


def restorer_of(document: JSONObject, owners: Iterable[OwnerReference]) -> str | None:
    """The manager that would re-create the deleted object (Argo CD, Flux, an operator); None without one."""
    manager = _manager(document, owners)
    return None if manager is None or manager.text.startswith("Helm") else manager.text


def _manager(document: JSONObject, owners: Iterable[OwnerReference]) -> _Manager | None:
    """The outermost manager: Argo CD and Flux render Helm charts, and Helm's labels stay on what they apply."""
    fields = fields_of(document.get("metadata"))
    labels, annotations = texts_in(fields.get("labels")), texts_in(fields.get("annotations"))
    if (found := _git(labels, annotations, fields.get("managedFields"))) is not None:
        return found
    release = annotations.get("meta.helm.sh/release-name", "")
    if release or labels.get("app.kubernetes.io/managed-by") == "Helm":
        text = f'Helm release "{release}"' if release else "Helm"
        return _Manager(text=text, risk="the next upgrade may revert this", where="in the chart's values")
    for owner in sorted(filter(_may_manage, owners), key=lambda owner: not owner.controller):
        return _Manager(text=f'{owner.kind} "{owner.name}"', risk="its controller may revert this", where="there")
    return None


def _may_manage(owner: OwnerReference) -> bool:
    """Whether this owner's controller may write DaemonSets. Built-in kinds, such as ConfigMap, own them only for
    garbage collection; their groups have no dot or end in `.k8s.io`. So do the groups of some custom resources, which
    must therefore be the controlling owner."""
    return "." in owner.group and (bool(owner.controller) or not owner.group.endswith(".k8s.io"))


def _git(labels: Mapping[str, str], annotations: Mapping[str, str], managed_fields: JSON) -> _Manager | None:
    app = annotations.get("argocd.argoproj.io/tracking-id", "").partition(":")[0]
    if not app and any(str(item.get("manager")).startswith("argocd") for item in items_of(managed_fields)):
        app = labels.get("app.kubernetes.io/instance", "")
    if app:
        return _Manager(text=f'Argo CD app "{app}"', risk="self-heal may revert this", where="in Git")
    for tool, kind in (("kustomize", "Kustomization"), ("helm", "HelmRelease")):
        if name := labels.get(f"{tool}.toolkit.fluxcd.io/name"):
            text = f'Flux {kind} "{name}"'
            return _Manager(text=text, risk="its next reconciliation may revert this", where="in Git")
    return None


def texts_in(value: JSON) -> dict[str, str]:
    return {key: one for key, one in fields_of(value).items() if isinstance(one, str)}
