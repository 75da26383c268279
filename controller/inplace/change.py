"""Computes from two pod templates what an update in place changes, or why it is not possible.

A running pod can get new images, labels, annotations and finalizers, and, if enabled, cpu and memory by
`pods/resize`. Anything else needs a new pod, as does the restart annotation, which restarts nothing in a running pod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from controller.api.daemonset import DaemonSet
from controller.api.formats import canonical_quantity
from controller.api.names import RESTARTED_AT, InPlaceRefusal
from controller.api.objects import JSON, JSONObject, Value, epoch, fields_of, items_of
from controller.api.revision import Revision
from controller.api.template_identity import canonical, default_pull_policy

MUTABLE = ("cpu", "memory")
"""Resources that `pods/resize` can change
(https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/)."""

Patch: TypeAlias = Mapping[str, str | None]
"""New values of labels or annotations by key; None removes the key."""
Amount: TypeAlias = tuple[str, str, str]
"""Container, `limits` or `requests`, and resource."""
_NOTHING: Final[Patch] = {}
_NONE_KNOWN: Final[Mapping[str, InPlaceChange | NotPossible]] = {}


class InPlaceChange(Value):
    images: Mapping[str, str] = {}
    old_images: Mapping[str, str] = {}
    resources: Mapping[str, JSONObject] = {}
    """Only the changed cpu and memory amounts, in `limits` and `requests`."""
    old_resources: Mapping[str, JSONObject] = {}
    labels: Patch = _NOTHING
    annotations: Patch = _NOTHING
    added_finalizers: tuple[str, ...] = ()
    removed_finalizers: tuple[str, ...] = ()
    resized_by_restart: tuple[str, ...] = ()
    """Containers whose `resizePolicy` demands a restart for this resize."""
    rereads: tuple[str, ...] = ()
    """Containers that restart because their environment has a changed label or annotation."""

    @property
    def restarts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.images, *self.resized_by_restart, *self.rereads)))


class NotPossible(Value):
    why: str
    """The field that cannot change in place, as a path below the pod template."""
    refusal: InPlaceRefusal = InPlaceRefusal.TEMPLATE


def changes_to(
    daemonset: DaemonSet,
    revisions: Iterable[Revision],
    *,
    resizable: bool,
    known: Mapping[str, InPlaceChange | NotPossible] = _NONE_KNOWN,
) -> Mapping[str, InPlaceChange | NotPossible]:
    """The changes from other revisions by hash. `known`: earlier results for this template and `resizable`."""
    if not daemonset.in_place:
        return {}
    template = daemonset.spec.template
    return {
        revision.hash: known.get(revision.hash) or change_between(revision.template, template, resizable=resizable)
        for revision in revisions
        if revision.identity != daemonset.identity
    }


def change_between(old: JSONObject, new: JSONObject, *, resizable: bool) -> InPlaceChange | NotPossible:
    """The change between two templates after defaulting. `resizable`: whether resources may change in place."""
    try:
        return _change(old, new, resizable=resizable)
    except _RefusedError as refused:
        return refused.result


class _RefusedError(Exception):
    def __init__(self, why: str, refusal: InPlaceRefusal = InPlaceRefusal.TEMPLATE) -> None:
        super().__init__(why)
        self.result = NotPossible(why=why, refusal=refusal)


def _change(old: JSONObject, new: JSONObject, *, resizable: bool) -> InPlaceChange:
    before, after = fields_of(canonical(old)), fields_of(canonical(new))
    was, will = fields_of(before.get("spec")), fields_of(after.get("spec"))
    _compare(before, after, "", {"metadata", "spec"})
    _compare(was, will, "spec.", {"containers"})
    olds, news = items_of(was.get("containers")), items_of(will.get("containers"))
    _compare_containers(olds, news)
    resizing = _resizing(was, will)
    if resizing.resources and not resizable:
        path = f"spec.containers[{next(iter(resizing.resources))}].resources"
        raise _RefusedError(f"{path} changed", InPlaceRefusal.RESOURCES)
    # each amount as the template writes it: users expect `1Gi` there, not its bytes
    written = _effective(items_of(fields_of(new.get("spec")).get("containers")))
    resources = {where: written.get(where, amount) for where, amount in amounts_in(resizing.resources).items()}
    meta, new_meta = fields_of(before.get("metadata")), fields_of(after.get("metadata"))
    labels, annotations = _metadata(meta, new_meta)
    held, holds = _strings(meta.get("finalizers")), _strings(new_meta.get("finalizers"))
    differ = [
        (container, other)
        for container, other in zip(olds, news, strict=True)
        if container.get("image") != other.get("image")
    ]
    images = {_name(other): str(other.get("image", "")) for _, other in differ}
    for container in items_of(will.get("initContainers")):
        if container.get("restartPolicy") == "Always" and _reads(container, labels, annotations):
            why = (
                f"spec.initContainers[{_name(container)}] reads a changed label or annotation from its environment, "
            )
            raise _RefusedError(why + "and no sidecar is restarted in place", InPlaceRefusal.NODE_AGENT)
    return InPlaceChange(
        images=images,
        old_images={_name(container): str(container.get("image", "")) for container, _ in differ},
        resources=by_container(resources),
        old_resources=resizing.before,
        labels=labels,
        annotations=annotations,
        added_finalizers=tuple(finalizer for finalizer in holds if finalizer not in held),
        removed_finalizers=tuple(finalizer for finalizer in held if finalizer not in holds),
        resized_by_restart=resizing.by_restart,
        rereads=tuple(
            _name(container)
            for container in news
            if _name(container) not in images and _reads(container, labels, annotations)
        ),
    )


def _compare(old: JSONObject, new: JSONObject, path: str, but: Collection[str]) -> None:
    """Raises _RefusedError for the first difference between fields below `path`, except `but`."""
    for field in sorted((old.keys() | new.keys()) - set(but)):
        before, after = old.get(field), new.get(field)
        if before != after:
            change = "added" if before is None else "removed" if after is None else "changed"
            raise _RefusedError(f"{path}{field} {change}")


def _compare_containers(olds: Sequence[JSONObject], news: Sequence[JSONObject]) -> None:
    before, after = [_name(container) for container in olds], [_name(container) for container in news]
    added = [f"spec.containers[{name}] added" for name in after if name not in before]
    removed = [f"spec.containers[{name}] removed" for name in before if name not in after]
    if before != after:
        raise _RefusedError(next(iter((*added, *removed)), "spec.containers in another order"))
    for container, other in zip(olds, news, strict=True):
        path = f"spec.containers[{_name(container)}]."
        _compare(container, other, path, {"name", "image", "resources", "imagePullPolicy"})
        if _pull_policy(container) != _pull_policy(other):
            _compare(container, other, path, (container.keys() | other.keys()) - {"imagePullPolicy"})
            raise _RefusedError(f"{path}imagePullPolicy changed, which the image implies")


def _metadata(was: JSONObject, will: JSONObject) -> tuple[Patch, Patch]:
    """Raises _RefusedError for a restart annotation, unless it is older than the one before."""
    _compare(was, will, "metadata.", {"labels", "annotations", "finalizers"})
    annotations = _patch(was.get("annotations"), will.get("annotations"))
    if (asked := annotations.get(RESTARTED_AT)) is not None:
        before, after = epoch(_texts(was.get("annotations")).get(RESTARTED_AT)), epoch(asked)
        if before is None or after is None or after > before:
            why = f"metadata.annotations[{RESTARTED_AT}] asks for a restart"
            raise _RefusedError(why, InPlaceRefusal.RESTART)
    return _patch(was.get("labels"), will.get("labels")), annotations


def _pull_policy(container: JSONObject) -> JSON:
    """Explicit or implied by the image. A running pod keeps the policy of its creation."""
    return container.get("imagePullPolicy") or default_pull_policy(container.get("image"))


def _reads(container: JSONObject, labels: Collection[str], annotations: Collection[str]) -> bool:
    """Whether an environment variable of the container shows one of these labels or annotations."""
    paths = {f"metadata.labels['{key}']" for key in labels} | {
        f"metadata.annotations['{key}']" for key in annotations
    }
    sources = (fields_of(variable.get("valueFrom")) for variable in items_of(container.get("env")))
    return any(str(fields_of(source.get("fieldRef")).get("fieldPath")) in paths for source in sources)


def _patch(was: JSON, will: JSON) -> Patch:
    old, new = _texts(was), _texts(will)
    changed: dict[str, str | None] = {key: value for key, value in new.items() if old.get(key) != value}
    return changed | {key: None for key in old if key not in new}


def _name(container: JSONObject) -> str:
    return str(container.get("name", ""))


def _texts(value: JSON) -> dict[str, str]:
    return {key: str(text) for key, text in fields_of(value).items()}


def _strings(value: JSON) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


class _Resizing(Value):
    resources: Mapping[str, JSONObject]
    before: Mapping[str, JSONObject]
    by_restart: tuple[str, ...]


def _resizing(was: JSONObject, will: JSONObject) -> _Resizing:
    """The resize between two pod specs with the same containers. Raises _RefusedError."""
    olds, news = items_of(was.get("containers")), items_of(will.get("containers"))
    for container, other in zip(olds, news, strict=True):
        if problem := _problem(fields_of(container.get("resources")), fields_of(other.get("resources"))):
            raise _RefusedError(f"spec.containers[{_name(other)}].resources{problem}", InPlaceRefusal.RESOURCES)
    old, new = _effective(olds), _effective(news)
    changed = [
        where
        for where, amount in new.items()
        if where[2] in MUTABLE and canonical_amount(old.get(where)) != canonical_amount(amount)
    ]
    earlier, later = quality_of_service(was), quality_of_service(will)
    if changed and earlier != later:
        why = f"spec.containers[].resources: the QoS class would change from {earlier} to {later}"
        raise _RefusedError(why, InPlaceRefusal.RESOURCES)
    restarting = {
        (_name(container), str(policy.get("resourceName")))
        for container in news
        for policy in items_of(container.get("resizePolicy"))
        if policy.get("restartPolicy") == "RestartContainer"
    }
    return _Resizing(
        resources=by_container({where: new[where] for where in changed}),
        before=by_container({where: old[where] for where in changed if where in old}),
        by_restart=tuple(dict.fromkeys(name for name, _, key in changed if (name, key) in restarting)),
    )


def quality_of_service(spec: JSONObject) -> str:
    containers = [*items_of(spec.get("containers")), *items_of(spec.get("initContainers"))]
    given = {where: canonical_amount(amount) for where, amount in _effective(containers).items()}
    if not any(amount for (_, _, key), amount in given.items() if key in MUTABLE):
        return "BestEffort"
    sized = [(_name(container), key) for container in containers for key in MUTABLE]
    limits, requests = ([given.get((name, kind, key)) for name, key in sized] for kind in ("limits", "requests"))
    return "Guaranteed" if all(limits) and limits == requests else "Burstable"


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


def _effective(containers: Iterable[JSONObject]) -> dict[Amount, JSON]:
    """Limits and requests; a missing request equals the limit, like the server's default."""
    found: dict[str, JSONObject] = {}
    for container in containers:
        resources = fields_of(container.get("resources"))
        limits = fields_of(resources.get("limits"))
        found[_name(container)] = {"limits": limits, "requests": {**limits, **fields_of(resources.get("requests"))}}
    return amounts_in(found)


def amounts_in(resources: Mapping[str, JSONObject]) -> dict[Amount, JSON]:
    return {
        (name, kind, key): amount
        for name, kinds in resources.items()
        for kind, amounts in kinds.items()
        for key, amount in fields_of(amounts).items()
    }


def by_container(amounts: Mapping[Amount, JSON]) -> dict[str, JSONObject]:
    """The inverse of `amounts_in`."""
    found: dict[str, JSONObject] = {}
    for (name, kind, key), amount in amounts.items():
        fields_of(found.setdefault(name, {}).setdefault(kind, {}))[key] = amount
    return found


def canonical_amount(amount: JSON) -> str:
    """Empty if there is no amount or it is 0, which mean the same to the server."""
    found = canonical_quantity(amount) if isinstance(amount, str | int | float) else ""
    return "" if found == "0" else found
