"""Values as lines of YAML, for people."""

from __future__ import annotations

from typing import Final

import yaml

from controller.api.base import JSON
from kubectl_plugin.kubectl_yaml import Dumper

_ENDLESS: Final = 1 << 30


class _FlowDumper(Dumper):
    """Texts of several lines keep their lines."""

    def text(self, value: str, style: str | None = None) -> yaml.ScalarNode:
        return super().text(value, "|" if "\n" in value else style)


_FlowDumper.add_representer(str, _FlowDumper.text)


def yaml_lines(value: JSON, *, only_ascii: bool) -> list[str]:
    """The value's own order, but names first; without control characters."""
    text = yaml.dump(
        _named_first(value), Dumper=_FlowDumper, sort_keys=False, allow_unicode=not only_ascii, width=_ENDLESS
    )
    return ["".join(one if one.isprintable() else " " for one in line) for line in text.rstrip("\n").split("\n")]


def _named_first(value: JSON) -> JSON:
    """Stored templates have their keys in alphabetical order, but people look for the name first."""
    if isinstance(value, list):
        return [_named_first(one) for one in value]
    if isinstance(value, dict):
        return {key: _named_first(value[key]) for key in sorted(value, key=lambda one: one != "name")}
    return value
