"""The chart's values.yaml: the manifests' own values, under the descriptions of the schema."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.beds.manifests import MANIFESTS
from tests.tools.chart.variants import COMPONENTS, CRDS, SEVERAL, variant

HEADER: Final = "# Made by `make manifests`: values from manifests/base, descriptions from values.schema.json.\n"
SCHEMA: Final = MANIFESTS / "chart" / "values.schema.json"
BY_DEFAULT: Final = frozenset({"podGuard", "crdProtection", CRDS, SEVERAL})
"""What overlays/default has."""
GROUPS: Final = ("image", "checks", "crds")
"""Values whose parts are described one by one."""


def values(kubectl: Path) -> str:
    """What values.yaml should hold."""
    deployments = [one for name, one in variant(kubectl, BY_DEFAULT).items() if name.kind == "Deployment"]
    (deployment,) = map(yaml.safe_load, deployments)
    schema: dict[str, Any] = json.loads(SCHEMA.read_text())
    return HEADER + "".join(_written(_defaults(deployment["spec"]), schema["properties"], 0))


def _defaults(spec: Mapping[str, Any]) -> dict[str, Any]:
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    repository, _, _ = container["image"].rpartition(":")
    return {
        "image": {"repository": repository, "tag": "", "digest": "", "pullSecrets": []},
        "replicas": spec["replicas"],
        "priorityClassName": pod["priorityClassName"],
        "resources": container["resources"],
        "nodeSelector": pod["nodeSelector"],
        "tolerations": pod["tolerations"],
        "affinity": {},
        "extraArgs": [],
        "extraEnv": [],
        "featureGates": {},
        "apiServerPorts": [],
        "monitorLabels": {},
        "checks": {"prometheusUrl": "", "tokenSecret": "", "caSecret": ""},
        "watchNamespace": "",
        **{value: value in BY_DEFAULT for value in COMPONENTS},
        "crds": {"install": CRDS in BY_DEFAULT},
    }


def _written(found: Mapping[str, Any], described: Mapping[str, Any], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for name, value in found.items():
        told = described[name]
        yield from (f"{pad}# {line}\n" for line in textwrap.wrap(told["description"], 100))
        if name in GROUPS:
            yield f"{pad}{name}:\n"
            yield from _written(value, told["properties"], depth + 1)
        else:
            yield textwrap.indent(yaml.safe_dump({name: value}, sort_keys=False), pad)
