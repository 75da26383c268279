"""Decides which containers get other cpu and memory, and whether `pods/resize` of Kubernetes allows that.

Works out from two pod templates what an update in place changes in a pod, or why it is not possible.

A running pod can get new images, labels, annotations and finalizers, and, if that is enabled, cpu and memory. Any
other change needs a new pod. So does the annotation by which somebody asks for a restart: in a running pod it would
restart nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.formats import canonical_quantity
from controller.api.names import RESTARTED_AT, InPlaceRefusal
from controller.api.objects import JSON, JSONObject, Value, epoch, fields_of, items_of
from controller.api.revision import Revision
from controller.api.template_identity import canonical, default_pull_policy

MUTABLE = ("cpu", "memory")
"""Resources that `pods/resize` can change
(https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/)."""


class Resizing(Value):
    resources: Mapping[str, JSONObject]
    """The new `limits` and `requests` by container, as far as they differ."""
    before: Mapping[str, JSONObject]
    """The old ones, of the same containers and resources."""
    by_restart: tuple[str, ...]
    """Containers that restart for it."""


def resizing_of(was: JSONObject, will: JSONObject) -> Resizing | str:
    """The resize from one pod spec to another with the same containers; or a text why it is not possible."""
    resources: dict[str, JSONObject] = {}
    before: dict[str, JSONObject] = {}
    by_restart: list[str] = []
    for one, other in zip(items_of(was.get("containers")), items_of(will.get("containers")), strict=True):
        old, new = fields_of(one.get("resources")), fields_of(other.get("resources"))
        if old == new:
            continue
        name = str(other.get("name", ""))
        if problem := _problem(old, new):
            return f"spec.containers[{name}].resources{problem}"
        differing = _differing(_effective(old), _effective(new))
        resources[name], before[name] = differing, _differing(_effective(new), _effective(old))
        changed = {key for amounts in differing.values() for key in fields_of(amounts)}
        if changed & _restarting(other):
            by_restart.append(name)
    earlier, later = quality_of_service(was), quality_of_service(will)
    if resources and earlier != later:
        return f"spec.containers[].resources: the QoS class would change from {earlier} to {later}"
    return Resizing(resources=resources, before=before, by_restart=tuple(by_restart))


def as_written(resources: Mapping[str, JSONObject], spec: JSONObject) -> Mapping[str, JSONObject]:
    """`resources` with each amount as this pod spec writes it: people expect `1Gi` there, not its bytes."""
    if not resources:
        return resources
    said = {
        str(one.get("name", "")): _effective(fields_of(one.get("resources"))) for one in items_of(spec["containers"])
    }
    return {
        name: {
            kind: {key: fields_of(said[name][kind]).get(key, amount) for key, amount in fields_of(amounts).items()}
            for kind, amounts in kinds.items()
        }
        for name, kinds in resources.items()
    }


def quality_of_service(spec: JSONObject) -> str:
    """The QoS class of a pod with this spec."""
    every = [
        _effective(fields_of(one.get("resources")))
        for kind in ("containers", "initContainers")
        for one in items_of(spec.get(kind))
    ]
    given = [amounts for one in every for amounts in (fields_of(one["limits"]), fields_of(one["requests"]))]
    if not any(amount_of(amounts, key) for amounts in given for key in MUTABLE):
        return "BestEffort"
    full = all(
        _amount(one, "limits", key) and _amount(one, "limits", key) == _amount(one, "requests", key)
        for one in every
        for key in MUTABLE
    )
    return "Guaranteed" if full else "Burstable"


def _problem(before: JSONObject, after: JSONObject) -> str:
    for kind in sorted((before.keys() | after.keys()) - {"limits", "requests"}):
        if before.get(kind) != after.get(kind):
            return f".{kind} changed"
    for kind in ("limits", "requests"):
        was, will = fields_of(before.get(kind)), fields_of(after.get(kind))
        for key in sorted(was.keys() | will.keys()):
            if (key in was) != (key in will):
                return f".{kind}.{key} {'added' if key in will else 'removed'}"
            if key not in MUTABLE and was[key] != will[key]:
                return f".{kind}.{key} changed"
    return ""


def _effective(resources: JSONObject) -> JSONObject:
    """Limits and requests, where a missing request is the limit, as the server fills it in."""
    limits = fields_of(resources.get("limits"))
    return {"limits": limits, "requests": {**limits, **fields_of(resources.get("requests"))}}


def _differing(before: JSONObject, after: JSONObject) -> JSONObject:
    found: JSONObject = {}
    for kind in ("limits", "requests"):
        amounts = {
            key: amount
            for key, amount in fields_of(after[kind]).items()
            if key in MUTABLE and _amount(before, kind, key) != _amount(after, kind, key)
        }
        if amounts:
            found[kind] = amounts
    return found


def _amount(resources: JSONObject, kind: str, key: str) -> str:
    return amount_of(fields_of(resources[kind]), key)


def amount_of(amounts: JSONObject, key: str) -> str:
    """One amount in canonical form; empty if there is none or it is 0, which is the same to the server."""
    amount = amounts.get(key)
    found = canonical_quantity(amount) if isinstance(amount, str | int | float) else ""
    return "" if found == "0" else found


def _restarting(container: JSONObject) -> set[str]:
    policies = items_of(container.get("resizePolicy"))
    return {str(one.get("resourceName")) for one in policies if one.get("restartPolicy") == "RestartContainer"}


Patch: TypeAlias = Mapping[str, str | None]
"""Keys of labels or annotations with their new values; None: the key is removed."""
_NOTHING: Final[Patch] = {}


class InPlaceChange(Value):
    """The changes of an update in place. Containers are named."""

    images: Mapping[str, str] = {}
    old_images: Mapping[str, str] = {}
    """The images that the older template has for these containers."""
    resources: Mapping[str, JSONObject] = {}
    """The new cpu and memory of each container, in `limits` and `requests`, as far as they differ."""
    old_resources: Mapping[str, JSONObject] = {}
    """The amounts that the older template has instead of these."""
    labels: Patch = _NOTHING
    annotations: Patch = _NOTHING
    added_finalizers: tuple[str, ...] = ()
    removed_finalizers: tuple[str, ...] = ()
    resized_by_restart: tuple[str, ...] = ()
    """Containers whose `resizePolicy` demands a restart for this resize."""
    rereads: tuple[str, ...] = ()
    """Containers that read a changed label or annotation into their environment, and see it after a restart only."""

    @property
    def restarts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.images, *self.resized_by_restart, *self.rereads)))


class NotPossible(Value):
    why: str
    """The field that cannot change in place, as a path below the pod template."""
    refusal: InPlaceRefusal = InPlaceRefusal.TEMPLATE


_NONE_KNOWN: Final[Mapping[str, InPlaceChange | NotPossible]] = {}


def changes_to(
    daemonset: DaemonSet,
    revisions: Iterable[Revision],
    *,
    resizable: bool,
    known: Mapping[str, InPlaceChange | NotPossible] = _NONE_KNOWN,
) -> Mapping[str, InPlaceChange | NotPossible]:
    """The changes of an update in place to pods of each other revision, by its hash. Empty if updates in place are
    not asked for. `known`: earlier results for the same template and the same `resizable`."""
    if not daemonset.in_place:
        return {}
    template = daemonset.spec.template
    return {
        one.hash: known.get(one.hash) or change_between(one.template, template, resizable=resizable)
        for one in revisions
        if one.identity != daemonset.identity
    }


def change_between(old: JSONObject, new: JSONObject, *, resizable: bool) -> InPlaceChange | NotPossible:
    """The change from the template of a pod to another one. `resizable`: whether resources may change in place.

    Fields are compared by their meaning: a default that is written out is no difference.
    """
    before, after = fields_of(canonical(old)), fields_of(canonical(new))
    was, will = fields_of(before.get("spec")), fields_of(after.get("spec"))
    found = _difference(before, after, "", {"metadata", "spec"}) or _difference(was, will, "spec.", {"containers"})
    if found:
        return NotPossible(why=found)
    olds, news = items_of(was.get("containers")), items_of(will.get("containers"))
    if [_name(one) for one in olds] != [_name(one) for one in news]:
        return NotPossible(why=_other_containers(olds, news))
    for one, other in zip(olds, news, strict=True):
        path = f"spec.containers[{_name(one)}]."
        if found := _difference(one, other, path, {"name", "image", "resources", "imagePullPolicy"}):
            return NotPossible(why=found)
        if _pull_policy(one) != _pull_policy(other):
            found = _difference(one, other, path, (one.keys() | other.keys()) - {"imagePullPolicy"})
            return NotPossible(why=found or f"{path}imagePullPolicy changed, which the image implies")
    resizing = resizing_of(was, will)
    if isinstance(resizing, str):
        return NotPossible(why=resizing, refusal=InPlaceRefusal.RESOURCES)
    if resizing.resources and not resizable:
        why = f"spec.containers[{next(iter(resizing.resources))}].resources changed"
        return NotPossible(why=why, refusal=InPlaceRefusal.RESOURCES)
    resizing = replace(resizing, resources=as_written(resizing.resources, fields_of(new.get("spec"))))
    change = _change(fields_of(before.get("metadata")), fields_of(after.get("metadata")), olds, news, resizing)
    return change if isinstance(change, NotPossible) else _unless_unseen(change, items_of(will.get("initContainers")))


def _change(
    was: JSONObject, will: JSONObject, olds: Sequence[JSONObject], news: Sequence[JSONObject], resizing: Resizing
) -> InPlaceChange | NotPossible:
    if found := _difference(was, will, "metadata.", {"labels", "annotations", "finalizers"}):
        return NotPossible(why=found)
    noted, notes = _texts(was.get("annotations")), _texts(will.get("annotations"))
    if _asks_for_restart(noted.get(RESTARTED_AT), notes.get(RESTARTED_AT)):
        return NotPossible(
            why=f"metadata.annotations[{RESTARTED_AT}] asks for a restart", refusal=InPlaceRefusal.RESTART
        )
    labels = _patch(_texts(was.get("labels")), _texts(will.get("labels")))
    annotations = _patch(noted, notes)
    held, holds = _strings(was.get("finalizers")), _strings(will.get("finalizers"))
    differ = [(one, other) for one, other in zip(olds, news, strict=True) if one.get("image") != other.get("image")]
    images = {_name(other): str(other.get("image", "")) for _, other in differ}
    readers = [_name(one) for one in news if _reads(one, labels, annotations)]
    return InPlaceChange(
        images=images,
        old_images={_name(one): str(one.get("image", "")) for one, _ in differ},
        resources=resizing.resources,
        old_resources=resizing.before,
        labels=labels,
        annotations=annotations,
        added_finalizers=tuple(one for one in holds if one not in held),
        removed_finalizers=tuple(one for one in held if one not in holds),
        resized_by_restart=resizing.by_restart,
        rereads=tuple(name for name in readers if name not in images),
    )


def _pull_policy(container: JSONObject) -> JSON:
    """The pull policy, explicit or implied by the image. A running pod keeps the one that it was created with."""
    return container.get("imagePullPolicy") or default_pull_policy(container.get("image"))


def _asks_for_restart(was: str | None, will: str | None) -> bool:
    """Whether the annotation was changed to restart pods; a value from before an earlier restart asks for none."""
    if will is None or was == will:
        return False
    before, after = epoch(was), epoch(will)
    return before is None or after is None or after > before


def _unless_unseen(change: InPlaceChange, init_containers: Iterable[JSONObject]) -> InPlaceChange | NotPossible:
    """`change`, or NotPossible if a sidecar (an init container that keeps running) reads changed metadata: it would
    see that after a restart only, and sidecars are not restarted in place."""
    for one in init_containers:
        if one.get("restartPolicy") == "Always" and _reads(one, change.labels, change.annotations):
            why = f"spec.initContainers[{_name(one)}] reads a changed label or annotation from its environment, "
            return NotPossible(why=why + "and no sidecar is restarted in place", refusal=InPlaceRefusal.NODE_AGENT)
    return change


def _reads(container: JSONObject, labels: Collection[str], annotations: Collection[str]) -> bool:
    """Whether an environment variable of the container shows one of these labels or annotations."""
    paths = {f"metadata.labels['{key}']" for key in labels} | {
        f"metadata.annotations['{key}']" for key in annotations
    }
    sources = (fields_of(one.get("valueFrom")) for one in items_of(container.get("env")))
    return any(str(fields_of(source.get("fieldRef")).get("fieldPath")) in paths for source in sources)


def _patch(was: Mapping[str, str], will: Mapping[str, str]) -> dict[str, str | None]:
    changed: dict[str, str | None] = {key: value for key, value in will.items() if was.get(key) != value}
    return changed | {key: None for key in was if key not in will}


def _difference(one: JSONObject, other: JSONObject, path: str, but: Collection[str]) -> str:
    """The first difference of the fields below `path`, all `but` these; empty: there is none."""
    for field in sorted((one.keys() | other.keys()) - set(but)):
        before, after = one.get(field), other.get(field)
        if before != after:
            return f"{path}{field} {'added' if before is None else 'removed' if after is None else 'changed'}"
    return ""


def _other_containers(olds: Sequence[JSONObject], news: Sequence[JSONObject]) -> str:
    before, after = [_name(one) for one in olds], [_name(one) for one in news]
    added = [f"spec.containers[{name}] added" for name in after if name not in before]
    removed = [f"spec.containers[{name}] removed" for name in before if name not in after]
    return next(iter((*added, *removed)), "spec.containers in another order")


def _name(container: JSONObject) -> str:
    return str(container.get("name", ""))


def _texts(value: JSON) -> dict[str, str]:
    return {key: str(one) for key, one in fields_of(value).items()}


def _strings(value: JSON) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
