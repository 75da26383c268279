"""The differences between two pod templates or DaemonSets, and the lines that show them.

Templates differ exactly when the controller sees different revisions: server defaults are ignored, `1000m` equals
`1`, and the order of containers counts. List members are matched by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias, cast

import yaml

from controller.api.formats import counted
from controller.api.objects import JSON, JSONObject, Value, as_bytes, fields_of, is_same, value_at
from controller.api.template_identity import canonical
from kubectl_plugin.kubectl_yaml import Dumper
from kubectl_plugin.rollout.last_action import LAST_ACTION
from kubectl_plugin.rollout.secrets import is_image, is_marked, origin_of, without_secrets
from kubectl_plugin.rollout.snapshot import LAST_APPLIED
from kubectl_plugin.wording import visible

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
"""The field that identifies a list member; members of other lists are identified by index."""

_MAPS: Final = frozenset({"labels", "annotations", "nodeSelector", "matchLabels"})
_WORD: Final = re.compile(r"\w+")


class PlaceKind(StrEnum):
    FIELD = "field"
    ENTRY = "entry"
    """An entry of a map with user-defined keys."""
    MEMBER = "member"
    POSITION = "position"


class PathStep(Value):
    """One step down: to `field` of an object, or to the entry or member `key` of that field."""

    field: str
    key: str = ""
    kind: PlaceKind = PlaceKind.FIELD

    @property
    def text(self) -> str:
        return self.field if self.kind is PlaceKind.FIELD else f"{self.field}[{self.key}]"


Path: TypeAlias = tuple[PathStep, ...]


def path_text(path: Path) -> str:
    """`spec.template.spec.containers[agent].image`."""
    return ".".join(step.text for step in path)


def into(path: Path, key: str) -> Path:
    last = path[-1] if path else None
    if last is not None and last.kind is PlaceKind.FIELD and (last.field in _MAPS or not _WORD.fullmatch(key)):
        return (*path[:-1], PathStep(field=last.field, key=key, kind=PlaceKind.ENTRY))
    return (*path, PathStep(field=key))


def member(path: Path, key: str, kind: PlaceKind) -> Path:
    return (*path[:-1], PathStep(field=path[-1].field, key=key, kind=kind))


def names_of(field: str, items: Sequence[JSON]) -> list[str] | None:
    """The names of the members of list `field`; None unless all have distinct names."""
    names = [_name(field, item) if isinstance(item, dict) else "" for item in items]
    return names if all(names) and len(set(names)) == len(names) else None


def _name(field: str, item: JSONObject) -> str:
    match field:
        case "ports":
            name = item.get("name")
            return _joined("/", name) if name else _joined("/", item.get("containerPort"), item.get("protocol"))
        case "tolerations":
            return _joined(":", item.get("key") or "*", item.get("effect"))
        case "envFrom":
            names = ((word, value_at(item, f"{word}Ref", "name")) for word in ("configMap", "secret"))
            return next((f"{word.lower()}/{name}" for word, name in names if isinstance(name, str)), "")
        case _:
            return _joined("", item.get(_NAMED_BY.get(field, "")))


def _joined(between: str, *parts: JSON) -> str:
    return between.join(str(part) for part in parts if part)


_OPENED: Final = frozenset(
    {"metadata", "spec", "template", "updateStrategy", "rollingUpdate", "resources", "limits", "requests"}
)
"""Objects whose fields are listed one by one even if one side lacks the object."""

_TEMPLATE: Final = (PathStep(field="spec"), PathStep(field="template"))
_META: Final = ("labels", "annotations", "finalizers", "ownerReferences")
_NOTES: Final = (LAST_APPLIED, LAST_ACTION)
"""Annotations that copy or describe a change; not compared."""


_SHOWN_EMPTY: Final = frozenset({"emptyDir"})
"""Defaults that are shown if written: an explicit `emptyDir: {}`."""


class ChangeKind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    ORDER = "order"
    """The same list members in another order; `old` and `new` are their names."""


class Difference(Value):
    """One difference, as written, without defaults. Possible secrets are hidden."""

    change: ChangeKind
    path: Path
    old: JSON = None
    new: JSON = None

    @property
    def place(self) -> str:
        """The path of what holds the difference."""
        *above, last = self.path
        if self.change is ChangeKind.ORDER:
            return path_text(self.path)
        return path_text((*above,) if last.kind is PlaceKind.FIELD else (*above, PathStep(field=last.field)))

    @property
    def document(self) -> JSONObject:
        sides: JSONObject = {"old": self.old, "new": self.new}
        shown = {key: value for key, value in sides.items() if value is not None}
        return {"path": path_text(self.path), "change": self.change.value, **shown}


class _Side(NamedTuple):
    meaning: JSON
    written: JSON
    """The value that is shown; it may contain more, such as defaults."""


def differences(old: JSONObject, new: JSONObject, *, show_values: bool = False) -> tuple[Difference, ...]:
    """The differences of two templates, in their order. `show_values` hides nothing."""
    sides = (old, new)
    return tuple(
        _objects(_TEMPLATE, *map(_Side, map(canonical, sides), sides if show_values else without_secrets(*sides)))
    )


def object_differences(old: JSONObject, new: JSONObject, *, show_values: bool = False) -> tuple[Difference, ...]:
    """The differences of two DaemonSets, including explicit defaults, but without status and server-set metadata."""
    sides = (_compared_part(old), _compared_part(new))
    return tuple(_objects((), *map(_Side, sides, sides if show_values else without_secrets(*sides))))


def image_only(found: Sequence[Difference]) -> bool:
    """Whether OpenKruise can make all changes in place: images (not of init containers), labels and annotations."""
    return bool(found) and all(_is_image(one) or one.path[len(_TEMPLATE)].field == "metadata" for one in found)


def verdict(found: Sequence[Difference], *, how: str, on_delete: bool) -> str:
    """`how` says how pods get the change."""
    if not found:
        return "no difference"
    count = counted(len(found), "change")
    if image_only(found):
        words = {"image" if _is_image(one) else "labels and annotations" for one in found}
        count += f", {' and '.join(sorted(words))} only"
    if on_delete:
        return f"{count}: a pod changes only when you delete it (OnDelete)"
    return f"{count}: {how}"


def _is_image(difference: Difference) -> bool:
    fields = tuple(step.field for step in difference.path[len(_TEMPLATE) :])
    return difference.change is ChangeKind.CHANGED and fields == ("spec", "containers", "image")


def _compared_part(document: JSONObject) -> JSONObject:
    meta = fields_of(document.get("metadata"))
    kept: JSONObject = {field: meta[field] for field in _META if field in meta}
    kept["annotations"] = {key: one for key, one in fields_of(meta.get("annotations")).items() if key not in _NOTES}
    return {"metadata": kept, "spec": fields_of(document.get("spec"))}


def _walk(path: Path, old: _Side | None, new: _Side | None) -> Iterator[Difference]:
    old, new = _opened(path, old, new), _opened(path, new, old)
    if old is None or new is None:
        change = ChangeKind.ADDED if old is None else ChangeKind.REMOVED
        yield Difference(change=change, path=path, old=old and _shown(old), new=new and _shown(new))
    elif is_same(old.meaning, new.meaning):
        return
    elif isinstance(old.meaning, dict) and isinstance(new.meaning, dict):
        yield from _objects(path, old, new)
    elif isinstance(old.meaning, list) and isinstance(new.meaning, list) and path[-1].kind is PlaceKind.FIELD:
        yield from _lists(path, old, new)
    else:
        yield Difference(change=ChangeKind.CHANGED, path=path, old=_shown(old), new=_shown(new))


def _opened(path: Path, side: _Side | None, other: _Side | None) -> _Side | None:
    """An empty object instead of None if the other side's object is shown field by field."""
    if side is not None or other is None or path[-1].kind is not PlaceKind.FIELD:
        return side
    if isinstance(other.meaning, list) and other.meaning:
        return _Side([], [])
    opened = path[-1].field in _OPENED or path[-1].field in _MAPS
    return _Side({}, {}) if isinstance(other.meaning, dict) and other.meaning and opened else None


def _objects(path: Path, old: _Side, new: _Side) -> Iterator[Difference]:
    before, after = _fields(old), _fields(new)
    for key in dict.fromkeys((*before, *after)):
        if not _is_default_beside_another(key, old, new):
            yield from _walk(into(path, key), before.get(key), after.get(key))


def _is_default_beside_another(key: str, old: _Side, new: _Side) -> bool:
    """Whether the same value is a default on only one side, as imagePullPolicy depends on the image."""
    if (key in _fields(old)) == (key in _fields(new)):
        return False
    before, after = _record(old.written), _record(new.written)
    return key in before and key in after and is_same(before[key], after[key])


def _lists(path: Path, old: _Side, new: _Side) -> Iterator[Difference]:
    before, after = _members(old), _members(new)
    names, other_names = (names_of(path[-1].field, [one.meaning for one in side]) for side in (before, after))
    if names is None or other_names is None:
        yield from _sequences(path, before, after)
        return
    olds, news = dict(zip(names, before, strict=True)), dict(zip(other_names, after, strict=True))
    for name in dict.fromkeys((*names, *other_names)):
        yield from _walk(member(path, name, PlaceKind.MEMBER), olds.get(name), news.get(name))
    if [name for name in names if name in news] != [name for name in other_names if name in olds]:
        yield Difference(change=ChangeKind.ORDER, path=path, old=[*names], new=[*other_names])


def _sequences(path: Path, old: Sequence[_Side], new: Sequence[_Side]) -> Iterator[Difference]:
    """The shortest sequence of additions, removals and changes of unnamed list members."""
    before, after = ([as_bytes(one.meaning, ordered=True) for one in side] for side in (old, new))
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, begin, end, other_begin, other_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        for offset in range(max(end - begin, other_end - other_begin)):
            there = old[begin + offset] if begin + offset < end else None
            wanted = new[other_begin + offset] if other_begin + offset < other_end else None
            position = other_begin + offset if wanted is not None else begin + offset
            yield from _walk(member(path, str(position), PlaceKind.POSITION), there, wanted)


def _shown(side: _Side) -> JSON:
    match side.meaning:
        case dict():
            fields, written = _fields(side), _record(side.written)
            kept = [key for key in written if key in fields or (key in _SHOWN_EMPTY and written[key] == {})]
            return {key: _shown(fields[key]) if key in fields else {} for key in kept}
        case list():
            return [_shown(one) for one in _members(side)]
        case None | bool() | int() | float() | str():
            return side.written


def _fields(side: _Side) -> dict[str, _Side]:
    written = _record(side.written)
    return {key: _Side(value, written[key]) for key, value in _record(side.meaning).items()}


def _members(side: _Side) -> list[_Side]:
    meaning, written = cast("list[JSON]", side.meaning), cast("list[JSON]", side.written)
    return [_Side(*pair) for pair in zip(meaning, written, strict=True)]


def _record(value: JSON) -> JSONObject:
    return cast("JSONObject", value)


_ENDLESS: Final = 1 << 30
_Mark: TypeAlias = Callable[[Sequence[str]], str]


class _FlowDumper(Dumper):
    def text(self, value: str, style: str | None = None) -> yaml.ScalarNode:
        return super().text(value, "|" if "\n" in value else style)


_FlowDumper.add_representer(str, _FlowDumper.text)


def object_change_lines(old: JSONObject, new: JSONObject, *, show_values: bool = False) -> tuple[str, ...]:
    """The lines for all differences of two DaemonSets, in ASCII so that look-alike letters differ visibly."""
    return tuple(change_lines(object_differences(old, new, show_values=show_values), only_ascii=True))


def change_lines(found: Sequence[Difference], *, only_ascii: bool) -> Iterator[str]:
    """Lines that begin with `+`, `-`, or a blank for the path. They are data and must not be truncated."""
    for place, together in groupby(found, key=lambda one: one.place):
        yield f" {_printable(place)}"
        for one in together:
            if one.change is not ChangeKind.ADDED:
                yield from (f"-  {line}" for line in _side(one, one.old, _mark_of_old, only_ascii))
            if one.change is not ChangeKind.REMOVED:
                yield from (f"+  {line}" for line in _side(one, one.new, _mark_of_new(one), only_ascii))


def yaml_lines(value: JSON, *, only_ascii: bool) -> list[str]:
    """The value as YAML without control characters; keys keep their order, but names come first."""
    text = yaml.dump(
        _named_first(value), Dumper=_FlowDumper, sort_keys=False, allow_unicode=not only_ascii, width=_ENDLESS
    )
    return [_printable(line) for line in text.rstrip("\n").split("\n")]


def _side(difference: Difference, value: JSON, mark: _Mark, only_ascii: bool) -> Iterator[str]:
    if difference.change is ChangeKind.ORDER and isinstance(value, list):
        yield _printable(f"order: {', '.join(map(str, value))}")
        return
    *above, last = difference.path
    fields = tuple(step.field for step in above)
    if last.kind in (PlaceKind.MEMBER, PlaceKind.POSITION):
        yield from _block([value], (*fields, last.field), mark, only_ascii)
    elif last.kind is PlaceKind.ENTRY:
        yield from _block({last.key: value}, (*fields, last.field), mark, only_ascii)
    else:
        yield from _block({last.field: value}, fields, mark, only_ascii)


def _block(value: JSON, fields: tuple[str, ...], mark: _Mark, only_ascii: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for field, inner in value.items():
            nested = inner if isinstance(inner, dict | list) and inner else None
            first, *others = yaml_lines({field: True if nested else inner}, only_ascii=only_ascii)
            yield first.removesuffix(" true") if nested else first + mark((*fields, field))
            yield from others
            if nested:
                indent = "  " * isinstance(nested, dict)
                lines = _block(_named_first(nested), (*fields, field), mark, only_ascii)
                yield from (f"{indent}{line}" for line in lines)
        return
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict) and item:
            first, *others = _block(_named_first(item), fields, mark, only_ascii)
            yield f"- {first}"
            yield from (f"  {line}" for line in others)
        else:
            first, *others = yaml_lines([item], only_ascii=only_ascii)
            yield first + mark(fields)
            yield from others


def _mark_of_old(fields: Sequence[str]) -> str:
    return "  # security" if is_marked(fields) else ""


def _mark_of_new(difference: Difference) -> _Mark:
    """Also marks images, unless registry and owner stay the same."""
    known = difference.change is ChangeKind.CHANGED and origin_of(difference.old) == origin_of(difference.new)
    return lambda fields: "  # security: registry" * (not known) if is_image(fields) else _mark_of_old(fields)


def _printable(line: str) -> str:
    return "".join(one if one.isprintable() else " " for one in visible(line))


def _named_first(value: JSON) -> JSON:
    """Stored templates have sorted keys, but readers look for the name first."""
    if isinstance(value, list):
        return [_named_first(one) for one in value]
    if isinstance(value, dict):
        return {key: _named_first(value[key]) for key in sorted(value, key=lambda one: one != "name")}
    return value
