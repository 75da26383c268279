"""`apply` stores what `kubectl apply --server-side` stores, or refuses what it refuses: both are run side by side."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
import yaml

from controller.kube.transport import open_transport
from tests.beds.api import DAEMONSETS, NAMESPACES, Api, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.controller.opening import connection_to

pytestmark = pytest.mark.real

KUBECTL, OURS = "as-kubectl", "as-plugin"
LAST_ACTION = "kruise-ds/last-action"
PARTIAL: Object = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "metadata": {"name": "agent"}}
CONTAINER: Object = {"name": "agent", "image": "registry.example.com/agent:1"}
SIDECAR: Object = {"name": "sidecar", "image": "registry.example.com/sidecar:1"}


def manifest(**changes: Any) -> Object:
    """`meta`, `pod` and `template` add to these parts; the rest to the spec."""
    labels = {"app": "agent"}
    meta, pod, inner = (changes.pop(part, {}) for part in ("meta", "pod", "template"))
    template = {"metadata": {"labels": labels}, **inner, "spec": {"containers": [CONTAINER], **pod}}
    spec = {"selector": {"matchLabels": labels}, "template": template, **changes}
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", **meta},
        "spec": spec,
    }


def listed(*items: Object) -> Object:
    return {"apiVersion": "v1", "kind": "List", "items": [*items]}


def text(*documents: Object) -> str:
    return yaml.safe_dump_all(documents, sort_keys=False)


@dataclass(frozen=True)
class Case:
    """What is applied, after `before`: words for kubectl with a manifest each."""

    typed: str
    before: tuple[tuple[tuple[str, ...], Object], ...] = ()
    flags: tuple[str, ...] = ()
    refused: bool = False
    environ: dict[str, str] = field(default_factory=dict)


CLIENT, SERVER = ("apply",), ("apply", "--server-side")
OTHER = ("apply", "--server-side", "--field-manager=other")
PATCH = ("patch", "--type=merge", "--field-manager=other", "-p")
TEAM = {"labels": {"team": "agents"}}
TWO = {"containers": [CONTAINER, SIDECAR]}
ROLLING = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2, "partition": 1}}}
ANCHORS = """
apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata: {name: agent, labels: &labels {app: agent}}
spec:
  selector: {matchLabels: *labels}
  template:
    metadata: {labels: {<<: *labels, extra: 'yes'}}
    spec:
      containers:
      - name: agent
        image: registry.example.com/agent:1
        env: [{name: MODE, value: "0755"}, {name: ON, value: "on"}]
"""
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "7d9f7b53-6c5a-4b41-9a39-000000000001"}

CASES = {
    "yaml": Case(text(manifest())),
    "json": Case(msgspec.json.encode(manifest()).decode()),
    "json with tabs": Case(json.dumps(manifest(), indent="\t")),
    "crlf": Case(text(manifest(template={"metadata": {"labels": {"app": "agent"}}})).replace("\n", "\r\n")),
    "anchors and words that look like others": Case(ANCHORS),
    "a list": Case(text(listed(manifest(), manifest(meta={"name": "other"})))),
    "several documents": Case("# 1\n---\n" + text(manifest(), manifest(meta={"name": "other"})) + "---\n# 2\n"),
    "v1alpha1 for a new one": Case(text({**manifest(), "apiVersion": "apps.kruise.io/v1alpha1"})),
    "v1alpha1 for one of v1beta1": Case(
        text({**manifest(minReadySeconds=3), "apiVersion": "apps.kruise.io/v1alpha1"}), ((SERVER, manifest()),)
    ),
    "finalizers": Case(text(manifest(meta={"finalizers": ["example.com/last"]}))),
    "finalizers beside those of others": Case(
        text(manifest(meta={"finalizers": ["example.com/mine"]})),
        ((SERVER, manifest()), (OTHER, {**PARTIAL, "metadata": {"name": "agent", "finalizers": ["example.com/b"]}})),
    ),
    "owner references": Case(text(manifest(meta={"ownerReferences": [OWNER]}))),
    "labels and annotations": Case(text(manifest(meta={**TEAM, "annotations": {"example.com/a": "1"}}))),
    "null is absent": Case(text(manifest(minReadySeconds=None, meta={"creationTimestamp": None}))),
    "status is not applied": Case(text({**manifest(), "status": {"numberReady": 9}})),
    "on delete": Case(text(manifest(updateStrategy={"type": "OnDelete"}))),
    "settings of a rollout": Case(text(manifest(**ROLLING))),
    "a partition that is not said any more": Case(text(manifest()), ((SERVER, manifest(**ROLLING)),)),
    "text beyond ascii": Case(
        yaml.safe_dump(manifest(meta={"annotations": {"example.com/a": "Prüfung ✓"}}), allow_unicode=True),
        environ={"LC_ALL": "C", "LANG": "en_US.ISO-8859-1", "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"},
    ),
    "a label that is not said any more": Case(text(manifest()), ((SERVER, manifest(meta=TEAM)),)),
    "a container that is not said any more": Case(text(manifest()), ((SERVER, manifest(pod=TWO)),)),
    "a label of another stays": Case(
        text(manifest()), ((SERVER, manifest()), (OTHER, {**PARTIAL, "metadata": {"name": "agent", **TEAM}}))
    ),
    "a label that another one has as well stays": Case(
        text(manifest()), ((SERVER, manifest(meta=TEAM)), (OTHER, {**PARTIAL, "metadata": {"name": "agent", **TEAM}}))
    ),
    "a value of another is refused": Case(
        text(manifest(minReadySeconds=9)),
        ((SERVER, manifest()), ((*OTHER, "--force-conflicts"), {**PARTIAL, "spec": {"minReadySeconds": 5}})),
        refused=True,
    ),
    "a value of another is taken over": Case(
        text(manifest(minReadySeconds=9)),
        ((SERVER, manifest()), ((*OTHER, "--force-conflicts"), {**PARTIAL, "spec": {"minReadySeconds": 5}})),
        flags=("--force-conflicts",),
    ),
    "applied by the client, the same": Case(text(manifest(**ROLLING)), ((CLIENT, manifest(**ROLLING)),)),
    "applied by the client, changed": Case(
        text(manifest(minReadySeconds=9)), ((CLIENT, manifest(minReadySeconds=5)),)
    ),
    "applied by the client, less is said": Case(
        text(manifest()), ((CLIENT, manifest(meta=TEAM, minReadySeconds=5, **ROLLING)),)
    ),
    "applied by the client, a container less": Case(text(manifest()), ((CLIENT, manifest(pod=TWO)),)),
    "applied by the client, changed by another": Case(
        text(manifest()), ((CLIENT, manifest(meta=TEAM)), ((*PATCH, '{"metadata":{"labels":{"a":"b"}}}'), manifest()))
    ),
    "made by kubectl create": Case(
        text(manifest(minReadySeconds=9)), ((("create",), manifest(minReadySeconds=5)),), refused=True
    ),
    "taken over from kubectl create": Case(
        text(manifest(minReadySeconds=9)), ((("create",), manifest(minReadySeconds=5)),), flags=("--force-conflicts",)
    ),
    "another manager's name": Case(text(manifest()), flags=("--field-manager=deployer",)),
    "apps.kruise.io/v9": Case(text({**manifest(), "apiVersion": "apps.kruise.io/v9"}), refused=True),
    "generateName": Case(text(manifest(meta={"name": None, "generateName": "agent-"})), refused=True),
    "an unknown field": Case(text(manifest(minReadySecond=1)), refused=True),
    "a value that is not allowed": Case(text(manifest(minReadySeconds=-1)), refused=True),
    "managed fields of a file": Case(
        text(manifest(meta={"managedFields": [{"manager": "x", "operation": "Apply"}]})), refused=True
    ),
    "the uid of another object": Case(
        text(manifest(meta={"uid": OWNER["uid"]})), ((SERVER, manifest()),), refused=True
    ),
}


async def run(plane: ControlPlane, namespace: str, *words: str, typed: str, **environ: str) -> tuple[int, str]:
    whole = {**os.environ, "KUBECONFIG": str(plane.kubeconfig), "KUBECTL_KUBERC": "false", **environ}
    process = await asyncio.create_subprocess_exec(
        *words, "-n", namespace, "-f", "-",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=whole,
    )  # fmt: skip
    out, _ = await process.communicate(typed.encode())
    return process.returncode or 0, out.decode()


async def stored(api: Api, namespace: str) -> list[Object]:
    return [comparable(one) for one in await api.list(DAEMONSETS, namespace=namespace)]


def comparable(found: Object) -> Object:
    """Without what differs between two objects, and without the note of the plugin."""
    metadata = {**found["metadata"]}
    for given in ("uid", "resourceVersion", "creationTimestamp", "namespace", "generation"):
        metadata.pop(given)
    annotations = metadata.pop("annotations", {})
    annotations.pop(LAST_ACTION, None)
    for key, value in annotations.items():
        annotations[key] = value.replace(OURS, KUBECTL)
    managers = [without_note(one) for one in metadata.pop("managedFields") if not one.get("subresource")]
    managers.sort(key=lambda one: (one["manager"], one["operation"]))
    return {**metadata, "annotations": annotations, "managers": managers, "spec": found["spec"]}


def without_note(entry: Object) -> Object:
    fields = entry["fieldsV1"]
    annotations = fields.get("f:metadata", {}).get("f:annotations", {})
    annotations.pop(f"f:{LAST_ACTION}", None)
    if not annotations.keys() - {"."}:
        fields.get("f:metadata", {}).pop("f:annotations", None)
    if not fields.get("f:metadata", True):
        fields.pop("f:metadata")
    return {key: value for key, value in entry.items() if key != "time"}


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[Api]:
    """Both namespaces are there, without DaemonSets."""
    async with open_transport(connection_to(plane, plane.admin)) as transport:
        api = Api(transport)
        for namespace in (KUBECTL, OURS):
            if await api.find(NAMESPACES, namespace) is None:
                await api.create(NAMESPACES, {"metadata": {"name": namespace}})
            for found in await api.list(DAEMONSETS, namespace=namespace):
                name = found["metadata"]["name"]
                await api.patch(DAEMONSETS, name, {"metadata": {"finalizers": None}}, namespace=namespace)
                await api.delete(DAEMONSETS, name, namespace=namespace)
        yield api


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
async def test_the_same_is_stored(plane: ControlPlane, api: Api, case: Case) -> None:
    kubectl = str(plane.binaries.kubectl)
    for namespace in (KUBECTL, OURS):
        for words, document in case.before:
            code, out = await run(plane, namespace, kubectl, *words, typed=text(document))
            assert code == 0, out
    theirs = await run(plane, KUBECTL, kubectl, *SERVER, *case.flags, typed=case.typed)
    plugin = (sys.executable, "-m", "kubectl_plugin", "apply", "-y", *case.flags)
    ours = await run(plane, OURS, *plugin, typed=case.typed, **case.environ)
    assert [bool(code) for code, _ in (theirs, ours)] == [case.refused] * 2, (theirs, ours)
    assert await stored(api, OURS) == await stored(api, KUBECTL)


LESS = ("applied by the client, less is said", "applied by the client, a container less")


@pytest.mark.parametrize("name", LESS)
async def test_what_goes_is_shown_before(plane: ControlPlane, api: Api, name: str) -> None:
    """The server cannot show it: it knows only once the fields have another manager."""
    case = CASES[name]
    for words, document in case.before:
        await run(plane, OURS, str(plane.binaries.kubectl), *words, typed=text(document))
    plugin = (sys.executable, "-m", "kubectl_plugin", "apply", "-y")
    code, out = await run(plane, OURS, *plugin, "--dry-run=client", "-o", "json", typed=case.typed)
    shown = json.loads(out[out.index("{") :])
    assert (code, (await run(plane, OURS, *plugin, typed=case.typed))[0]) == (0, 0)
    (there,) = await stored(api, OURS)
    assert shown["spec"] == there["spec"]
    assert shown["metadata"].get("labels", {}) == there.get("labels", {})


@pytest.mark.parametrize("before", [(), CLIENT, SERVER], ids=["new", "by the client", "by the server"])
@pytest.mark.parametrize("after", [CLIENT, SERVER], ids=["the client next", "the server next"])
async def test_no_later_apply_lets_held_nodes_go(
    plane: ControlPlane, api: Api, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    kubectl = str(plane.binaries.kubectl)
    if before:
        await run(plane, OURS, kubectl, *before, typed=text(manifest()))
    plugin = (sys.executable, "-m", "kubectl_plugin", "apply", "-y")
    wanted = text(manifest(minReadySeconds=9))
    for words in ((*plugin, "--hold-at", "3"), plugin, (kubectl, *after), plugin):
        code, out = await run(plane, OURS, *words, typed=wanted)
        assert code == 0, out
        (there,) = await stored(api, OURS)
        assert there["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 3, words
        assert "resourceVersion" not in str(there["annotations"]), words
