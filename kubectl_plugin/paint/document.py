"""Whole objects on stdout, as kubectl prints them."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.api.base import JSONObject
from kubectl_plugin.flags import Output


def as_text(document: JSONObject, output: Output) -> str:
    """JSON or YAML without a last line break; managedFields are left out, since nobody reads them."""
    shown: dict[str, Any] = dict(document)
    if isinstance(meta := shown.get("metadata"), dict):
        shown["metadata"] = {key: value for key, value in meta.items() if key != "managedFields"}
    if output is Output.YAML:
        import yaml  # only who asks for it pays for it

        return yaml.safe_dump(shown, allow_unicode=True, default_flow_style=False).rstrip("\n")
    return msgspec.json.format(msgspec.json.encode(shown), indent=4).decode()
