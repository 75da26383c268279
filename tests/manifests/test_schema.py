"""The schemas of both CRDs by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.api.daemonset import (
    Check,
    CheckRecord,
    Columns,
    DaemonSetSpec,
    DaemonSetStatus,
    Lifecycle,
    LifecycleHook,
    OnFailure,
    OrderRule,
    RollingUpdate,
    Rollout,
    RolloutStep,
    ScaleStrategy,
    Topology,
    UnreachableNodes,
    UpdateStrategy,
)
from controller.api.image_pull_job import (
    CompletionPolicy,
    ImagePullJobSpec,
    ImagePullJobStatus,
    NodeSelector,
    PullPolicy,
    SandboxConfig,
)
from controller.api.objects import JSONObject
from tests.beds.manifests import CRD, JOB_CRD, crd, schema

CLIENT_SIDE_APPLY_LIMIT = 262_144  # bytes of all annotations; `kubectl apply` keeps the whole object in one


def fields(node: JSONObject, path: str = "") -> Iterator[tuple[str, JSONObject]]:
    """Every field below `node` with its path; the item of a list is `path[]`."""
    properties = node.get("properties")
    for name, child in (properties if isinstance(properties, dict) else {}).items():
        assert isinstance(child, dict)
        yield f"{path}.{name}", child
        yield from fields(child, f"{path}.{name}")
    items = node.get("items")
    if isinstance(items, dict):
        yield from fields(items, f"{path}[]")


STRUCTS: dict[Path, dict[str, type[msgspec.Struct]]] = {
    CRD: {
        ".spec": DaemonSetSpec,
        ".spec.updateStrategy": UpdateStrategy,
        ".spec.updateStrategy.rollingUpdate": RollingUpdate,
        ".spec.updateStrategy.rollingUpdate.order[]": OrderRule,
        ".spec.updateStrategy.rollingUpdate.topology": Topology,
        ".spec.updateStrategy.rollingUpdate.onFailure": OnFailure,
        ".spec.updateStrategy.rollingUpdate.checks[]": Check,
        ".spec.updateStrategy.rollingUpdate.steps[]": RolloutStep,
        ".spec.updateStrategy.rollingUpdate.unreachableNodes": UnreachableNodes,
        ".spec.lifecycle": Lifecycle,
        ".spec.lifecycle.preDelete": LifecycleHook,
        ".spec.scaleStrategy": ScaleStrategy,
        ".status": DaemonSetStatus,
        ".status.columns": Columns,
        ".status.rollout": Rollout,
        ".status.rollout.checks[]": CheckRecord,
    },
    JOB_CRD: {
        ".spec": ImagePullJobSpec,
        ".spec.selector": NodeSelector,
        ".spec.pullPolicy": PullPolicy,
        ".spec.completionPolicy": CompletionPolicy,
        ".spec.sandboxConfig": SandboxConfig,
        ".status": ImagePullJobStatus,
    },
}
"""What the controller reads of each CRD, by place."""


@pytest.mark.parametrize("file", STRUCTS, ids=lambda file: file.name)
def test_every_field_has_a_description_and_what_is_read_is_declared(file: Path) -> None:
    assert schema(file)["description"]
    known = dict(fields(schema(file)))
    assert [path for path, field in known.items() if not field.get("description") and path != ".metadata"] == []
    for place, struct in STRUCTS[file].items():
        read = {f"{place}.{field.encode_name}" for field in msgspec.structs.fields(struct)}
        assert read <= known.keys(), f"{read - known.keys()} would be pruned"


@pytest.mark.parametrize("file", STRUCTS, ids=lambda file: file.name)
def test_both_versions_are_the_same_but_for_their_name(file: Path) -> None:
    spec: Any = crd(file)["spec"]
    assert spec.get("conversion", {"strategy": "None"}) == {"strategy": "None"}
    stored, other = spec["versions"]
    assert (stored.pop("name"), stored.pop("storage")) == ("v1beta1", True)
    assert (other.pop("name"), other.pop("storage")) == ("v1alpha1", False)
    assert stored == other
    assert stored["served"] is True


def test_there_is_no_scale_subresource_and_no_webhook() -> None:
    assert "scale:" not in CRD.read_text()
    assert "webhook:" not in CRD.read_text()


def test_client_side_apply_has_room_for_it() -> None:
    assert len(msgspec.json.encode(crd())) < CLIENT_SIDE_APPLY_LIMIT / 2


def test_every_level_that_is_declared_in_the_template_keeps_the_rest() -> None:
    keep = "x-kubernetes-preserve-unknown-fields"
    free = {".labels", ".annotations", ".nodeSelector"}
    template = dict(fields(schema()))[".spec.template"]
    assert template[keep] is True
    for path, field in fields(template):
        level = field.get("items") if field.get("type") == "array" else field
        if (
            isinstance(level, dict)
            and level.get("type") == "object"
            and not any(path.endswith(name) for name in free)
        ):
            assert level.get(keep) is True, f"template{path} would lose fields"
