"""Values as lines of YAML, for people's eyes."""

from __future__ import annotations

from typing import Final

from controller.api.base import JSON
from kubectl_plugin.report.masking import MASK

_ENDLESS: Final = 1 << 30


def yaml_lines(value: JSON, *, only_ascii: bool) -> list[str]:
    """In the order of the value, names first; what a terminal would obey is escaped; masks stand without quotes."""
    import yaml  # only who looks at values pays for it

    shown = _named_first(value)
    text = yaml.safe_dump(shown, sort_keys=False, allow_unicode=not only_ascii, width=_ENDLESS)
    for mask in (MASK, f"{MASK} (changed)"):
        text = text.replace(f"'{mask}'", mask)
    return text.splitlines()


def _named_first(value: JSON) -> JSON:
    """Stored templates have their keys by the alphabet, but people look for names."""
    if isinstance(value, list):
        return [_named_first(one) for one in value]
    if isinstance(value, dict):
        return {key: _named_first(value[key]) for key in sorted(value, key=lambda one: one != "name")}
    return value
