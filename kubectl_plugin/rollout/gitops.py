"""What else manages a DaemonSet, such as Argo CD or an operator, and the last change by this plugin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from controller.api.objects import (
    JSON,
    JSONObject,
    ManagedFields,
    OwnerReference,
    Value,
    epoch,
    fields_of,
    items_of,
    rfc3339,
    value_at,
)
from kubectl_plugin.rollout.snapshot import Snapshot


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


LAST_ACTION: Final = "kruise-ds/last-action"
"""Annotation with a `LastAction` as compact JSON: the newest, with the pause still in force."""
PAUSE: Final = "pause"
WRITE_SECONDS: Final = 30.0
"""Maximum delay in seconds between the recorded time and the write, which may be retried."""
_PAUSED: Final = ("f:spec", "f:updateStrategy", "f:rollingUpdate", "f:paused")


class LastAction(Value, kw_only=True, omit_defaults=True):
    verb: str
    by: str = ""
    """The user name according to the server; empty if unknown."""
    at: str
    """RFC 3339."""
    reason: str = ""
    client: str
    template: str = ""
    """After a rollback, the identity of the restored template."""
    pause: LastAction | None = None
    """The earlier pause that is still in force."""


def action(verb: str, *, by: str, now: float, reason: str | None, client: str) -> LastAction:
    return LastAction(verb=verb, by=by, at=rfc3339(now), reason=reason or "", client=client)


def last_action(annotations: Mapping[str, str]) -> LastAction | None:
    """The newest recorded action; None if it is missing or invalid, including its time."""
    try:
        found = msgspec.json.decode(annotations.get(LAST_ACTION, ""), type=LastAction)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    readable = all(epoch(one.at) is not None for one in (found, found.pause) if one is not None and one.at)
    return found if readable else None


def pause_of(snapshot: Snapshot) -> LastAction | None:
    """The pause in force; None if the rollout is not paused or the pause was not recorded."""
    return noted_pause(snapshot.document) if snapshot.daemonset.paused else None


def noted_pause(document: JSONObject) -> LastAction | None:
    """Like `pause_of`, for a DaemonSet known to be paused. A record is ignored if it is older than the present pause:
    it outlives a resume by other means, such as kubectl edit."""
    meta = fields_of(document.get("metadata"))
    last = last_action(texts_in(meta.get("annotations")))
    if last is None or _pause_written(meta) > (epoch(last.at) or 0.0) + WRITE_SECONDS:
        return None
    return last if last.verb == PAUSE else last.pause


def _pause_written(meta: JSONObject) -> float:
    """The last write by a manager that owns `paused`, in seconds since 1970; 0 without one."""
    try:
        entries = msgspec.convert(meta.get("managedFields") or (), tuple[ManagedFields, ...])
        owners = (entry for entry in entries if value_at(entry.fields_v1, *_PAUSED) is not None)
        return max((epoch(owner.time) or 0.0 for owner in owners), default=0.0)
    except msgspec.ValidationError:
        return 0.0


def paused_words(snapshot: Snapshot) -> str:
    """`paused by alice: "CVE triage"`; empty if not paused."""
    if (pause := pause_of(snapshot)) is None:
        return "paused" if snapshot.daemonset.paused else ""
    return f"paused by {pause.by or 'an unknown user'}" + (f': "{pause.reason}"' if pause.reason else "")
