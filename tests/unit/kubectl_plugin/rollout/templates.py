"""A pod template, edits of it, and what is told of their difference."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from controller.api.objects import JSON, JSONObject
from kubectl_plugin.rollout.diff import Difference, differences
from kubectl_plugin.rollout.secrets import without_secrets

Edit = Callable[[Any], object]
"""Of the pod spec, in place."""


def template(edit: Edit = lambda _: None) -> JSONObject:
    agent: Any = {
        "name": "agent",
        "image": "registry.example.com/agent:1.8.4",
        "args": ["--level=info", "--once"],
        "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "API_TOKEN", "value": "s3cret"}],
        "ports": [{"name": "metrics", "containerPort": 9100}, {"containerPort": 8080}],
        "volumeMounts": [{"name": "certs", "mountPath": "/etc/certs"}],
        "resources": {"limits": {"cpu": "100m"}},
    }
    spec: Any = {
        "initContainers": [{"name": "setup", "image": "setup:1"}],
        "containers": [agent, {"name": "scout", "image": "scout:1"}],
        "volumes": [{"name": "certs", "secret": {"secretName": "agent-certs"}}],
        "tolerations": [{"key": "dedicated", "effect": "NoSchedule"}, {"operator": "Exists"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
    }
    result: JSONObject = {"metadata": {"labels": {"app": "agent"}}, "spec": copy.deepcopy(spec)}
    edit(result["spec"])
    return result


def found(edit: Edit, **options: bool) -> tuple[Difference, ...]:
    return differences(template(), template(edit), **options)


def told(edit: Edit, **options: bool) -> list[tuple[str, str, object, object]]:
    """Path without its common beginning, kind, old, new."""
    documents = [one.document for one in found(edit, **options)]
    return [
        (str(one["path"]).removeprefix("spec.template."), str(one["change"]), one.get("old"), one.get("new"))
        for one in documents
    ]


def hid(value: JSON) -> JSON:
    """What stands for a value that may be a secret."""
    return without_secrets({"args": value})[0]["args"]


def agent(spec: Any) -> Any:
    return spec["containers"][0]
