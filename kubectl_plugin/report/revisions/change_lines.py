"""What changes, line by line: removed lines with -, added ones with +, and a mark behind those that matter for
security. `diff`, previews and questions show it alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, TypeAlias

import yaml

from controller.api.objects import JSON, JSONObject
from kubectl_plugin.characters import visible
from kubectl_plugin.kubectl_yaml import Dumper
from kubectl_plugin.report.revisions.differences import ChangeKind, Difference, object_differences
from kubectl_plugin.report.revisions.security import is_image, is_marked, origin_of
from kubectl_plugin.report.revisions.template_path import PlaceKind, holder_of, text_of

_ENDLESS: Final = 1 << 30
_Mark: TypeAlias = Callable[[Sequence[str]], str]


class _FlowDumper(Dumper):
    """Texts of several lines keep their lines."""

    def text(self, value: str, style: str | None = None) -> yaml.ScalarNode:
        return super().text(value, "|" if "\n" in value else style)


_FlowDumper.add_representer(str, _FlowDumper.text)


def object_change_lines(old: JSONObject, new: JSONObject, *, show_values: bool = False) -> tuple[str, ...]:
    """The lines of all differences between two states of a DaemonSet. In ASCII: letters that look alike do not."""
    return tuple(change_lines(object_differences(old, new, show_values=show_values), only_ascii=True))


def change_lines(found: Sequence[Difference], *, only_ascii: bool) -> Iterator[str]:
    """Lines that begin with `+`, `-`, or for the place with a blank. They are data: do not cut them."""
    for place, together in groupby(found, key=_place):
        yield f" {_printable(place)}"
        for one in together:
            if one.change is not ChangeKind.ADDED:
                yield from (f"-  {line}" for line in _side(one, one.old, _mark_of_old, only_ascii))
            if one.change is not ChangeKind.REMOVED:
                yield from (f"+  {line}" for line in _side(one, one.new, _mark_of_new(one), only_ascii))


def yaml_lines(value: JSON, *, only_ascii: bool) -> list[str]:
    """The value's own order, but names first; without control characters."""
    text = yaml.dump(
        _named_first(value), Dumper=_FlowDumper, sort_keys=False, allow_unicode=not only_ascii, width=_ENDLESS
    )
    return [_printable(line) for line in text.rstrip("\n").split("\n")]


def _place(one: Difference) -> str:
    return text_of(one.path) if one.change is ChangeKind.ORDER else holder_of(one.path)


def _side(one: Difference, value: JSON, mark: _Mark, only_ascii: bool) -> Iterator[str]:
    if one.change is ChangeKind.ORDER and isinstance(value, list):
        yield _printable(f"order: {', '.join(map(str, value))}")
        return
    *above, last = one.path
    fields = tuple(step.field for step in above)
    if last.kind in (PlaceKind.MEMBER, PlaceKind.POSITION):
        yield from _block([value], (*fields, last.field), mark, only_ascii)
    elif last.kind is PlaceKind.ENTRY:
        yield from _block({last.key: value}, (*fields, last.field), mark, only_ascii)
    else:
        yield from _block({last.field: value}, fields, mark, only_ascii)


def _block(value: JSON, fields: tuple[str, ...], mark: _Mark, only_ascii: bool) -> Iterator[str]:
    """`value`, which the fields hold, as lines of YAML; `mark` says what stands behind those of a field."""
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


def _mark_of_new(one: Difference) -> _Mark:
    """Marks images, too, unless they come from where they came from before."""
    known = one.change is ChangeKind.CHANGED and origin_of(one.old) == origin_of(one.new)
    return lambda fields: "  # security: registry" * (not known) if is_image(fields) else _mark_of_old(fields)


def _printable(line: str) -> str:
    return "".join(one if one.isprintable() else " " for one in visible(line))


def _named_first(value: JSON) -> JSON:
    """Stored templates have their keys in alphabetical order, but people look for the name first."""
    if isinstance(value, list):
        return [_named_first(one) for one in value]
    if isinstance(value, dict):
        return {key: _named_first(value[key]) for key in sorted(value, key=lambda one: one != "name")}
    return value
