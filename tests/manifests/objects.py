"""A DaemonSet that breaks no rule, and changes to it by path."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from controller.api.objects import JSON, JSONObject

ABSENT: Final = object()
"""As a value in `changes`: take the field away."""

ROLLING: Final = "spec.updateStrategy.rollingUpdate"
POD: Final = "spec.template.spec"

_VALID: Final[JSONObject] = {
    "apiVersion": "apps.kruise.io/v1beta1",
    "kind": "DaemonSet",
    "metadata": {"name": "agent"},
    "spec": {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {
            "metadata": {"labels": {"app": "agent", "tier": "a"}},
            "spec": {"containers": [{"name": "agent", "image": "agent:1"}]},
        },
    },
}


def daemonset(changes: Mapping[str, Any] | None = None, *, version: str = "v1beta1") -> JSONObject:
    """The valid object with each `path: value` of `changes` set; missing parents are made. Lists are set whole."""
    result = copy.deepcopy(_VALID)
    result["apiVersion"] = f"apps.kruise.io/{version}"
    for path, value in (changes or {}).items():
        _set(result, path.split("."), value)
    return result


def container(**fields: JSON) -> JSONObject:
    return {"name": "agent", "image": "agent:1", **fields}


def _set(target: JSONObject, path: list[str], value: Any) -> None:
    *parents, last = path
    for name in parents:
        child = target.setdefault(name, {})
        assert isinstance(child, dict), f"{name} is not an object"
        target = child
    if value is ABSENT:
        del target[last]
    else:
        target[last] = value
