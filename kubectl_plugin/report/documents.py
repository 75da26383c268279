"""Reports for programs: documents with a kind and an API version of their own. Keys are only ever added."""

from __future__ import annotations

from typing import Final

from controller.api.objects import JSON, JSONObject

API_VERSION: Final = "kruise-ds/v1"


def document(kind: str, **fields: JSON) -> JSONObject:
    return {"apiVersion": API_VERSION, "kind": kind, **fields}
