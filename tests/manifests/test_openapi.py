"""With our schema, kustomize merges a patch into our DaemonSet as into a native one; without it, containers go."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.control_plane.binaries import pinned_version
from tests.beds.manifests import MANIFESTS
from tests.tools.install_yaml import kustomized
from tests.tools.openapi import FILE, POD_FIELDS, merging, pod_fields, published

pytestmark = pytest.mark.real

Object = dict[str, Any]

OURS = ("apps.kruise.io/v1beta1", "apps.kruise.io/v1alpha1")
SHOWN = "    openapi: {path: schema.json}\n"
"""In docs/install.md."""
POD: Object = {
    "initContainers": [{"name": "first", "image": "first:1"}, {"name": "second", "image": "second:1"}],
    "containers": [
        {
            "name": "agent",
            "image": "agent:1",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}],
            "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "logs", "mountPath": "/logs"}],
        },
        {"name": "relay", "image": "relay:1", "args": ["--one", "--two"]},
    ],
    "volumes": [{"name": "data", "emptyDir": {}}, {"name": "logs", "emptyDir": {}}],
    "imagePullSecrets": [{"name": "one"}],
    "tolerations": [{"key": "one", "operator": "Exists"}],
}
PATCHES: dict[str, Object] = {
    "a container": {"containers": [{"name": "relay", "image": "relay:2"}]},
    "the first of several": {"initContainers": [{"name": "first", "image": "first:2"}]},
    "one more": {"containers": [{"name": "third", "image": "third:1"}]},
    "one less": {"containers": [{"name": "relay", "$patch": "delete"}]},
    "a variable": {"containers": [{"name": "agent", "env": [{"name": "B", "value": "2"}]}]},
    "a port": {"containers": [{"name": "agent", "ports": [{"containerPort": 80, "protocol": "UDP", "name": "x"}]}]},
    "a mount": {"containers": [{"name": "agent", "volumeMounts": [{"name": "data", "mountPath": "/logs"}]}]},
    "a volume": {"volumes": [{"name": "logs", "emptyDir": {"medium": "Memory"}}]},
    "arguments, which are no set": {"containers": [{"name": "relay", "args": ["--three"]}]},
    "tolerations, which have no key": {"tolerations": [{"key": "two", "operator": "Exists"}]},
    "pull secrets": {"imagePullSecrets": [{"name": "two"}]},
}


def workload(version: str, pod: Object, kind: str = "DaemonSet", **metadata: Any) -> Object:
    spec = {"template": {"spec": copy.deepcopy(pod)}}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "agent", **metadata}, "spec": spec}


def patched(binaries: Binaries, folder: Path, whole: Object, patch: Object, *, schema: bool) -> Object:
    """What kustomize makes of the two, with the schema as the document says, or without."""
    folder.mkdir()
    (folder / "whole.yaml").write_text(yaml.safe_dump(whole))
    (folder / "patch.yaml").write_text(yaml.safe_dump(patch))
    kustomization = "resources: [whole.yaml]\npatches: [{path: patch.yaml}]\n"
    if schema:
        assert SHOWN in (MANIFESTS.parent / "docs" / "install.md").read_text()
        shutil.copy(FILE, folder)
        kustomization += SHOWN.lstrip()
    (folder / "kustomization.yaml").write_text(kustomization)
    result: Object = yaml.safe_load(kustomized(binaries.kubectl, folder))
    return result


@pytest.mark.parametrize("change", PATCHES.values(), ids=PATCHES)
@pytest.mark.parametrize("version", OURS)
def test_a_patch_of_ours_is_merged_as_one_of_a_native_daemonset(
    control_plane_binaries: Binaries, tmp_path: Path, version: str, change: Object
) -> None:
    def merged(version: str, schema: bool) -> Object:
        whole, patch = (
            workload(version, pod, finalizers=finalizers) for pod, finalizers in ((POD, ["one"]), (change, ["two"]))
        )
        return patched(control_plane_binaries, tmp_path / str(schema), whole, patch, schema=schema)

    assert merged(version, True) == merged("apps/v1", False) | {"apiVersion": version}


def test_a_patch_of_one_container_keeps_the_other_one_only_with_the_schema(
    control_plane_binaries: Binaries, tmp_path: Path
) -> None:
    def images(schema: bool) -> set[str]:
        whole, patch = workload(OURS[0], POD), workload(OURS[0], PATCHES["a container"])
        found = patched(control_plane_binaries, tmp_path / str(schema), whole, patch, schema=schema)
        return {one["image"] for one in found["spec"]["template"]["spec"]["containers"]}

    assert images(True) == {"agent:1", "relay:2"}
    assert images(False) == {"relay:2"}, "if kustomize can do without, so can we"


NATIVE: dict[str, tuple[Object, Object]] = {
    "Deployment": (workload("apps/v1", POD, "Deployment"), workload("apps/v1", PATCHES["a port"], "Deployment")),
    "Service": (
        {"spec": {"ports": [{"port": 80, "name": "web"}, {"port": 81, "name": "more"}]}},
        {"spec": {"ports": [{"port": 81, "name": "less"}]}},
    ),
    "CronJob": (
        {"spec": {"jobTemplate": {"spec": {"template": {"spec": POD}}}}},
        {"spec": {"jobTemplate": {"spec": {"template": {"spec": PATCHES["a variable"]}}}}},
    ),
    "ServiceAccount": ({"secrets": [{"name": "one"}]}, {"secrets": [{"name": "two"}]}),
}
VERSIONS = {"Deployment": "apps/v1", "CronJob": "batch/v1"}


@pytest.mark.parametrize("kind", NATIVE)
def test_native_kinds_beside_it_are_merged_as_ever(
    control_plane_binaries: Binaries, tmp_path: Path, kind: str
) -> None:
    names = {"apiVersion": VERSIONS.get(kind, "v1"), "kind": kind, "metadata": {"name": "agent"}}
    whole, patch = ({**one, **names} for one in NATIVE[kind])

    def merged(schema: bool) -> Object:
        return patched(control_plane_binaries, tmp_path / str(schema), whole, patch, schema=schema)

    assert merged(True) == merged(False)


async def test_both_files_are_what_the_api_server_publishes(control_plane: ControlPlane) -> None:
    if control_plane.binaries.version == pinned_version():  # another one may know more kinds
        definitions = await published(control_plane)
        assert merging(definitions) == FILE.read_text(), "run `make manifests`"
        assert pod_fields(definitions) == POD_FIELDS.read_text(), "run `make manifests`"
