"""Two files made of what an API server publishes about its kinds.

manifests/openapi/schema.json: by which keys kustomize merges the items of lists, for our kind and the native ones.

A schema that a kustomization names takes the place of the one that kustomize has built in, so native kinds have to
be in it too: without them, a patch of one container of a Deployment beside ours would drop the others. Of what an API
server publishes about them, only the keys are taken.

tests/beds/simulator/pod_fields.json: the fields of a pod, by which the simulator knows a field that no pod has.

make manifests
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.beds.control_plane import ControlPlane, obtain
from tests.beds.manifests import MANIFESTS, crd

FILE: Final = MANIFESTS / "openapi" / "schema.json"
POD_FIELDS: Final = Path(__file__).parents[1] / "beds" / "simulator" / "pod_fields.json"
STRATEGY: Final = "x-kubernetes-patch-strategy"
MERGING: Final = (STRATEGY, "x-kubernetes-patch-merge-key", "x-kubernetes-list-map-keys")
KIND: Final = "x-kubernetes-group-version-kind"
PREFIX: Final = "#/definitions/"
METADATA: Final = {"$ref": f"{PREFIX}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
TEMPLATE: Final = {"$ref": f"{PREFIX}io.k8s.api.core.v1.PodTemplateSpec"}

Schema = Mapping[str, Any]


async def published(plane: ControlPlane) -> dict[str, Schema]:
    """The definitions of the API server's own kinds."""
    done = await plane.run_kubectl("get", "--raw", "/openapi/v2")
    assert done.returncode == 0, done.stderr
    definitions: dict[str, Schema] = json.loads(done.stdout)["definitions"]
    return {name: one for name, one in definitions.items() if name.startswith("io.k8s.")}


def merging(definitions: Mapping[str, Schema]) -> str:
    """What the file should hold, one definition a line."""
    written = {
        name: _without_status(one) for name, one in definitions.items() if not name.endswith(("List", "Status"))
    }
    useful = set(written)
    while lost := {name for name in useful if not _pruned(written[name], useful)}:
        useful -= lost
    found = {name: _pruned(written[name], useful) for name in sorted(useful)} | _ours()
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in found.items())
    return f'{{"definitions": {{\n{lines}\n}}}}\n'


def pod_fields(definitions: Mapping[str, Schema]) -> str:
    """What the other file should hold: by kind the fields, and of what kind each is, or "" for a plain value."""

    def kind_of(schema: Schema) -> str:
        inner = schema.get("items") or schema.get("additionalProperties") or schema
        name = str(inner.get("$ref", "")).removeprefix(PREFIX)
        return name if definitions.get(name, {}).get("properties") else ""

    found: dict[str, dict[str, str]] = {}
    waiting = ["io.k8s.api.core.v1.Pod"]
    while waiting:
        name = waiting.pop()
        if _short(name) not in found:
            fields = {field: kind_of(one) for field, one in definitions[name]["properties"].items()}
            found[_short(name)] = {field: _short(kind) for field, kind in sorted(fields.items())}
            waiting += [kind for kind in fields.values() if kind]
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
    return f"{{\n{lines}\n}}\n"


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _ours() -> dict[str, Schema]:
    spec: Any = crd()["spec"]
    group, kind = spec["group"], spec["names"]["kind"]
    properties = {"metadata": METADATA, "spec": {"properties": {"template": TEMPLATE}, "type": "object"}}
    return {
        f"io.kruise.apps.{one['name']}.{kind}": {
            "properties": properties,
            "type": "object",
            KIND: [{"group": group, "kind": kind, "version": one["name"]}],
        }
        for one in spec["versions"]
    }


def _without_status(definition: Schema) -> Schema:
    """It does not belong into a manifest."""
    fields = {name: one for name, one in definition.get("properties", {}).items() if name != "status"}
    return {**definition, "properties": fields}


def _pruned(schema: Schema, useful: set[str]) -> dict[str, Any]:
    """Only what leads to a list that is merged by a key; empty where nothing does."""
    if "$ref" in schema:
        return {"$ref": schema["$ref"]} if schema["$ref"].removeprefix(PREFIX) in useful else {}
    found: dict[str, Any] = {}
    fields = {name: left for name, one in schema.get("properties", {}).items() if (left := _pruned(one, useful))}
    if fields:
        found["properties"] = fields
    for part in ("items", "additionalProperties"):
        if part in schema and (left := _pruned(schema[part], useful)):
            found[part] = left
    if STRATEGY in schema:
        found |= {name: schema[name] for name in MERGING if name in schema}
    if found:
        found |= {name: schema[name] for name in ("type", KIND) if name in schema}
    return found


async def write() -> tuple[Path, ...]:
    async with ControlPlane(obtain(), controllers=()) as plane:
        definitions = await published(plane)
    FILE.write_text(merging(definitions))
    POD_FIELDS.write_text(pod_fields(definitions))
    return FILE, POD_FIELDS


if __name__ == "__main__":
    print(*asyncio.run(write()))
