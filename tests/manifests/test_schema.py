"""The schema by itself."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from controller.api.daemonset import (
    Columns,
    DaemonSetSpec,
    DaemonSetStatus,
    Lifecycle,
    LifecycleHook,
    OrderRule,
    RollingUpdate,
    Rollout,
    ScaleStrategy,
    UpdateStrategy,
)
from controller.api.objects import JSON, JSONObject
from tests.beds.manifests import CRD, crd, schema

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


def at(path: str) -> JSONObject:
    """The schema of the object at `path`."""
    found: JSON = schema()
    for name in path.split(".")[1:]:
        assert isinstance(found, dict)
        assert isinstance(found["properties"], dict)
        found = found["properties"][name.removesuffix("[]")]
        if name.endswith("[]"):
            assert isinstance(found, dict)
            found = found["items"]
    assert isinstance(found, dict)
    return found


def test_no_field_lacks_a_description() -> None:
    assert schema()["description"]
    bare = [path for path, field in fields(schema()) if not field.get("description") and path != ".metadata"]
    assert bare == []


def test_both_versions_are_the_same_but_for_their_name() -> None:
    spec = crd()["spec"]
    assert isinstance(spec, dict)
    assert spec["conversion"] == {"strategy": "None"}
    versions = spec["versions"]
    assert isinstance(versions, list)
    stored, other = (dict(version) for version in versions if isinstance(version, dict))
    assert (stored.pop("name"), stored.pop("storage"), other.pop("name"), other.pop("storage")) == (
        "v1beta1",
        True,
        "v1alpha1",
        False,
    )
    assert stored == other
    assert stored["served"] is True


def test_there_is_no_scale_subresource_and_no_webhook() -> None:
    assert "scale:" not in CRD.read_text()
    assert "webhook:" not in CRD.read_text()


def test_client_side_apply_has_room_for_it() -> None:
    assert len(msgspec.json.encode(crd())) < CLIENT_SIDE_APPLY_LIMIT / 2


def test_every_field_that_the_controller_reads_is_declared() -> None:
    rolling = ".spec.updateStrategy.rollingUpdate"
    structs: dict[str, type[msgspec.Struct]] = {
        ".spec": DaemonSetSpec,
        ".spec.updateStrategy": UpdateStrategy,
        rolling: RollingUpdate,
        f"{rolling}.order[]": OrderRule,
        ".spec.lifecycle": Lifecycle,
        ".spec.lifecycle.preDelete": LifecycleHook,
        ".spec.scaleStrategy": ScaleStrategy,
        ".status": DaemonSetStatus,
        ".status.columns": Columns,
        ".status.rollout": Rollout,
    }
    for path, struct in structs.items():
        declared = at(path)["properties"]
        assert isinstance(declared, dict)
        read = {field.encode_name for field in msgspec.structs.fields(struct)}
        assert read <= declared.keys(), f"{path}: {read - declared.keys()} would be pruned"


def test_every_level_that_is_declared_in_the_template_keeps_the_rest() -> None:
    keep = "x-kubernetes-preserve-unknown-fields"
    free = {".labels", ".annotations", ".nodeSelector"}
    assert at(".spec.template")[keep] is True
    for path, field in fields(at(".spec.template")):
        level = field.get("items") if field.get("type") == "array" else field
        if (
            isinstance(level, dict)
            and level.get("type") == "object"
            and not any(path.endswith(name) for name in free)
        ):
            assert level.get(keep) is True, f"template{path} would lose fields"
