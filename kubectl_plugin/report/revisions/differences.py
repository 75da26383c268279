"""What differs between two pod templates, or DaemonSets. List members are compared by name.

Two templates have no difference here exactly when the controller takes them for the same revision: what the API
server fills in is invisible, `1000m` is `1`, and a changed order of containers is a difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final, NamedTuple, cast

from controller.api.formats import counted
from controller.api.objects import JSON, JSONObject, Value, as_bytes, fields_of, is_same
from controller.api.template_identity import canonical
from kubectl_plugin.report.last_action import LAST_ACTION
from kubectl_plugin.report.revisions.hiding import without_secrets
from kubectl_plugin.report.revisions.template_path import (
    Path,
    PathStep,
    PlaceKind,
    into,
    is_map,
    member,
    names_of,
    text_of,
)
from kubectl_plugin.report.snapshot import LAST_APPLIED

_OPENED: Final = frozenset(
    {"metadata", "spec", "template", "updateStrategy", "rollingUpdate", "resources", "limits", "requests"}
)
"""Objects whose fields are listed one by one even where one side lacks the object."""

_TEMPLATE: Final = (PathStep(field="spec"), PathStep(field="template"))
_META: Final = ("labels", "annotations", "finalizers", "ownerReferences")
_NOTES: Final = (LAST_APPLIED, LAST_ACTION)
"""Annotations that copy or describe a change, which is shown itself."""


_SHOWN_EMPTY: Final = frozenset({"emptyDir"})
"""A volume without a source is an emptyDir, but is not shown as such."""


class ChangeKind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    ORDER = "order"
    """The members of a list are the same in another order; `old` and `new` are their names."""


class Difference(Value):
    """One difference. `old` and `new` are as they were written, without defaults. Values that may be secrets are
    hidden."""

    change: ChangeKind
    path: Path
    old: JSON = None
    """None if something was added."""
    new: JSON = None
    """None if something was removed."""

    @property
    def document(self) -> JSONObject:
        sides: JSONObject = {"old": self.old, "new": self.new}
        shown = {key: value for key, value in sides.items() if value is not None}
        return {"path": text_of(self.path), "change": self.change.value, **shown}


class _Side(NamedTuple):
    """One place in a template, in two forms."""

    meaning: JSON
    """What is compared."""
    written: JSON
    """What is shown; it may contain more, such as defaults."""


def differences(old: JSONObject, new: JSONObject, *, show_values: bool = False) -> tuple[Difference, ...]:
    """What changes from `old` to `new`, in the order of the templates. `show_values`: nothing is hidden."""
    sides = (old, new)
    return tuple(
        _objects(_TEMPLATE, *map(_Side, map(canonical, sides), sides if show_values else without_secrets(*sides)))
    )


def object_differences(old: JSONObject, new: JSONObject, *, show_values: bool = False) -> tuple[Difference, ...]:
    """What changes of a DaemonSet, defaults that are written out included, apart from its status and from what the
    server notes in its metadata."""
    sides = (_told_part(old), _told_part(new))
    return tuple(_objects((), *map(_Side, sides, sides if show_values else without_secrets(*sides))))


def image_only(found: Sequence[Difference]) -> bool:
    """Whether OpenKruise's rules allow to make all changes in a running pod: images of containers (not of init
    containers), labels and annotations. False for no difference at all."""
    return bool(found) and all(_is_image(one) or one.path[len(_TEMPLATE)].field == "metadata" for one in found)


def verdict(found: Sequence[Difference], *, how: str, on_delete: bool) -> str:
    """What the differences mean for running pods, in one line. `how`: the way in which a pod gets them, in words."""
    if not found:
        return "no difference"
    count = counted(len(found), "change")
    if image_only(found):
        words = {"image" if _is_image(one) else "labels and annotations" for one in found}
        count += f", {' and '.join(sorted(words))} only"
    if on_delete:
        return f"{count}: a pod changes only when you delete it (OnDelete)"
    return f"{count}: {how}"


def _is_image(one: Difference) -> bool:
    fields = tuple(step.field for step in one.path[len(_TEMPLATE) :])
    return one.change is ChangeKind.CHANGED and fields == ("spec", "containers", "image")


def _told_part(document: JSONObject) -> JSONObject:
    meta = fields_of(document.get("metadata"))
    kept: JSONObject = {field: meta[field] for field in _META if field in meta}
    kept["annotations"] = {key: one for key, one in fields_of(meta.get("annotations")).items() if key not in _NOTES}
    return {"metadata": kept, "spec": fields_of(document.get("spec"))}


def _walk(path: Path, old: _Side | None, new: _Side | None) -> Iterator[Difference]:
    """At least one difference, unless both mean the same."""
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
        yield _changed(path, old, new)


def _opened(path: Path, side: _Side | None, other: _Side | None) -> _Side | None:
    """An empty object in place of None, where the other side's object is shown field by field."""
    if side is not None or other is None or path[-1].kind is not PlaceKind.FIELD:
        return side
    if isinstance(other.meaning, list) and other.meaning:
        return _Side([], [])
    opened = path[-1].field in _OPENED or is_map(path[-1].field)
    return _Side({}, {}) if isinstance(other.meaning, dict) and other.meaning and opened else None


def _objects(path: Path, old: _Side, new: _Side) -> Iterator[Difference]:
    before, after = _fields(old), _fields(new)
    for key in dict.fromkeys((*before, *after)):
        if not _is_default_beside_another(key, old, new):
            yield from _walk(into(path, key), before.get(key), after.get(key))


def _is_default_beside_another(key: str, old: _Side, new: _Side) -> bool:
    """Whether both sides have written the same value, which is a default on one of them only because another field
    differs, as imagePullPolicy depends on the image."""
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
    """Lists whose members have no names: the shortest sequence of additions, removals and changes."""
    matcher = SequenceMatcher(None, [_key(one) for one in old], [_key(one) for one in new], autojunk=False)
    for tag, begin, end, other_begin, other_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        for offset in range(max(end - begin, other_end - other_begin)):
            before = old[begin + offset] if begin + offset < end else None
            after = new[other_begin + offset] if other_begin + offset < other_end else None
            position = other_begin + offset if after is not None else begin + offset
            yield from _walk(member(path, str(position), PlaceKind.POSITION), before, after)


def _changed(path: Path, old: _Side, new: _Side) -> Difference:
    return Difference(change=ChangeKind.CHANGED, path=path, old=_shown(old), new=_shown(new))


def _shown(side: _Side) -> JSON:
    """The side as it was written, without defaults."""
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


def _key(side: _Side) -> bytes:
    return as_bytes(side.meaning, ordered=True)
