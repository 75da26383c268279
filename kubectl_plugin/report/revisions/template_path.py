"""A place in a DaemonSet, named as people know it: list members by their names instead of their numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

from controller.api.objects import JSON, JSONObject, Value, value_at

CONTAINERS: Final = ("containers", "initContainers")

_NAMED_BY: Final[Mapping[str, str]] = {
    **dict.fromkeys((*CONTAINERS, "ephemeralContainers", "env", "volumes", "imagePullSecrets", "sysctls"), "name"),
    **dict.fromkeys(("httpHeaders", "resourceClaims", "schedulingGates"), "name"),
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "hostAliases": "ip",
    "readinessGates": "conditionType",
    "topologySpreadConstraints": "topologyKey",
    "resizePolicy": "resourceName",
    "matchExpressions": "key",
    "items": "key",
    "ownerReferences": "uid",
}
"""The field by which the members of a list are told apart. Members of other lists have only a position."""

_MAPS: Final = frozenset({"labels", "annotations", "nodeSelector", "matchLabels"})
"""Maps whose keys are chosen by users."""
_WORD: Final = re.compile(r"\w+")


class PlaceKind(StrEnum):
    """What kind of place one step down leads to."""

    FIELD = "field"
    ENTRY = "entry"
    """An entry of a map whose keys are chosen by users."""
    MEMBER = "member"
    """A member of a list, by its name."""
    POSITION = "position"
    """A member of a list whose members have no names, by its index."""


class PathStep(Value):
    """One step down: to `field` of an object, or to the entry or member of that field with the name `key`."""

    field: str
    key: str = ""
    kind: PlaceKind = PlaceKind.FIELD

    @property
    def text(self) -> str:
        return self.field if self.kind is PlaceKind.FIELD else f"{self.field}[{self.key}]"


Path: TypeAlias = tuple[PathStep, ...]


def text_of(path: Path) -> str:
    """`spec.template.spec.containers[agent].image`."""
    return ".".join(step.text for step in path)


def holder_of(path: Path) -> str:
    """The text of the object, list or map that holds the last step."""
    last = path[-1]
    return text_of(path[:-1] if last.kind is PlaceKind.FIELD else (*path[:-1], PathStep(field=last.field)))


def into(path: Path, key: str) -> Path:
    """`path` and one step down by a key of the object there."""
    last = path[-1] if path else None
    if last is not None and last.kind is PlaceKind.FIELD and (last.field in _MAPS or not _WORD.fullmatch(key)):
        return (*path[:-1], PathStep(field=last.field, key=key, kind=PlaceKind.ENTRY))
    return (*path, PathStep(field=key))


def member(path: Path, key: str, kind: PlaceKind) -> Path:
    """`path` of a list, and one step down to one of its members."""
    return (*path[:-1], PathStep(field=path[-1].field, key=key, kind=kind))


def is_map(field: str) -> bool:
    return field in _MAPS


def names_of(field: str, items: Sequence[JSON]) -> list[str] | None:
    """The names of the members of the list `field`; None if not every member has a name of its own."""
    names = [_name(field, one) if isinstance(one, dict) else "" for one in items]
    return names if all(names) and len(set(names)) == len(names) else None


def _name(field: str, item: JSONObject) -> str:
    match field:
        case "ports":
            name = item.get("name")
            return _joined("/", name) if name else _joined("/", item.get("containerPort"), item.get("protocol"))
        case "tolerations":
            return _joined(":", item.get("key") or "*", item.get("effect"))
        case "envFrom":
            return _env_from(item)
        case _:
            return _joined("", item.get(_NAMED_BY.get(field, "")))


def _env_from(item: JSONObject) -> str:
    for reference, word in (("configMapRef", "configmap"), ("secretRef", "secret")):
        name = value_at(item, reference, "name")
        if isinstance(name, str):
            return f"{word}/{name}"
    return ""


def _joined(between: str, *parts: JSON) -> str:
    return between.join(str(one) for one in parts if one)
