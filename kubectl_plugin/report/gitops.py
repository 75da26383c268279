"""Who else writes this object: Argo CD, Flux, Helm or an operator may revert a change that is made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.api.objects import JSON, JSONObject, OwnerReference, Value, fields_of, items_of

ARGO_TRACKING = "argocd.argoproj.io/tracking-id"
INSTANCE = "app.kubernetes.io/instance"
FLUX_KUSTOMIZATION = "kustomize.toolkit.fluxcd.io/name"
FLUX_RELEASE = "helm.toolkit.fluxcd.io/name"
MANAGED_BY = "app.kubernetes.io/managed-by"
HELM_RELEASE = "meta.helm.sh/release-name"


class _Manager(Value):
    text: str
    """Such as `Argo CD app "agents"`."""
    risk: str
    """What the manager may do to a change made by hand."""
    where: str
    """Where the change should be made as well."""


def caution_of(name: str, document: JSONObject, owners: Iterable[OwnerReference]) -> str | None:
    """Who manages the object `name`, what that may do to a change, and where else to make it; None if no manager
    is recognised. `document`: the object as the server sent it.
    """
    manager = _manager(document, owners)
    if manager is None:
        return None
    return f"{name} is managed by {manager.text} ({manager.risk}); change it {manager.where} as well"


def restorer_of(document: JSONObject, owners: Iterable[OwnerReference]) -> str | None:
    """The manager that would create the object again when it is deleted, such as Argo CD, Flux or an operator; None
    without one."""
    manager = _manager(document, owners)
    return None if manager is None or manager.text.startswith("Helm") else manager.text


def _manager(document: JSONObject, owners: Iterable[OwnerReference]) -> _Manager | None:
    """The outermost manager: Argo CD and Flux render Helm charts, and Helm's labels stay on what they apply."""
    fields = fields_of(document.get("metadata"))
    labels, annotations = texts_in(fields.get("labels")), texts_in(fields.get("annotations"))
    if (found := _git(labels, annotations, fields.get("managedFields"))) is not None:
        return found
    release = annotations.get(HELM_RELEASE, "")
    if release or labels.get(MANAGED_BY) == "Helm":
        text = f'Helm release "{release}"' if release else "Helm"
        return _Manager(text=text, risk="the next upgrade may revert this", where="in the chart's values")
    listed = sorted(filter(_may_manage, owners), key=lambda one: not one.controller)
    if not listed:
        return None
    owner = f'{listed[0].kind} "{listed[0].name}"'
    return _Manager(text=owner, risk="its controller may revert this", where="there")


def _may_manage(owner: OwnerReference) -> bool:
    """Whether a controller of this kind of owner may write DaemonSets. Kubernetes' own kinds, such as ConfigMap, own
    them only so that they are deleted together. Their groups have no dot or end in `.k8s.io`; so do the groups of
    some custom resources, which then have to be the controller."""
    return "." in owner.group and (bool(owner.controller) or not owner.group.endswith(".k8s.io"))


def _git(labels: Mapping[str, str], annotations: Mapping[str, str], managed_fields: JSON) -> _Manager | None:
    app = annotations.get(ARGO_TRACKING, "").partition(":")[0]
    if not app and any(str(one.get("manager")).startswith("argocd") for one in items_of(managed_fields)):
        app = labels.get(INSTANCE, "")
    if app:
        return _Manager(text=f'Argo CD app "{app}"', risk="self-heal may revert this", where="in Git")
    for key, kind in ((FLUX_KUSTOMIZATION, "Kustomization"), (FLUX_RELEASE, "HelmRelease")):
        if labels.get(key):
            text = f'Flux {kind} "{labels[key]}"'
            return _Manager(text=text, risk="its next reconciliation may revert this", where="in Git")
    return None


def texts_in(value: JSON) -> dict[str, str]:
    """The labels or annotations in `value`; the server allows only texts there."""
    return {key: one for key, one in fields_of(value).items() if isinstance(one, str)}
