"""Documents as JSON or YAML. Separate from `terminal`, because --help needs no JSON library."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from controller.api.objects import JSONObject, as_bytes, items_of
from kubectl_plugin.flags import Output
from kubectl_plugin.wording import INVISIBLE

_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7e]")


def as_text(document: JSONObject, output: Output, *, only_ascii: bool = False) -> str:
    """`document` without managedFields and final line break. `only_ascii` escapes other characters within strings."""
    shown = _without_managed_fields(document)
    if shown.get("kind") == "List":
        shown["items"] = [_without_managed_fields(one) for one in items_of(shown.get("items"))]
    if output is Output.YAML:
        from kubectl_plugin.kubectl_yaml import yaml_text  # imported only when YAML is asked for

        text = yaml_text(shown, only_ascii=only_ascii)
        return yaml_text(shown, only_ascii=True) if INVISIBLE.search(text) else text
    return as_line(msgspec.json.format(as_bytes(shown), indent=4), only_ascii=only_ascii)


def as_line(encoded: bytes, *, only_ascii: bool) -> str:
    """JSON for stdout, with invisible characters escaped; the document stays the same."""
    return (_BEYOND_ASCII if only_ascii else INVISIBLE).sub(_escaped, encoded.decode())


def _without_managed_fields(document: JSONObject) -> JSONObject:
    shown = dict(document)
    if isinstance(meta := shown.get("metadata"), dict):
        shown["metadata"] = {key: value for key, value in meta.items() if key != "managedFields"}
    return shown


def _escaped(found: re.Match[str]) -> str:
    """JSON escapes a character beyond U+FFFF as two surrogates."""
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
