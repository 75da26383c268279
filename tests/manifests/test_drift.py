"""What the server stores is what is in Git: nothing given is changed, and nothing is added to what is in a list.

Argo CD merges what Git says into what is there as JSON: an added field is no difference to it, but a list is replaced
as a whole, and with it what the server has filled in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from controller.api.objects import JSON, JSONObject
from tests.beds.control_plane import ControlPlane
from tests.beds.manifests import SAMPLES, crd, documents, overlay_with
from tests.manifests.conftest import Kubectl
from tests.manifests.objects import container, daemonset
from tests.manifests.server import Server
from tests.tools.install_yaml import kustomized

pytestmark = pytest.mark.real

BY_NAME = {"Deployment"}
"""Kinds whose lists Argo CD merges item by item."""
GIVEN = {
    "nothing": daemonset(),
    "OnDelete": daemonset({"spec.updateStrategy": {"type": "OnDelete"}}),
    "a strategy without extent": daemonset({"spec.updateStrategy": {"type": "RollingUpdate"}}),
    "percentages": daemonset({"spec.updateStrategy.rollingUpdate": {"maxUnavailable": "10%", "partition": "0%"}}),
    "numbers in words of their own": daemonset({"spec.updateStrategy.rollingUpdate": {"maxSurge": "030%"}}),
    "no type": daemonset({"spec.updateStrategy": {"type": "", "rollingUpdate": {"rollingUpdateType": ""}}}),
    "a template that the server of pods would complete": daemonset(
        {
            "spec.template.metadata.creationTimestamp": None,
            "spec.template.spec.containers": [
                container(
                    ports=[{"containerPort": 80}],
                    env=[{"name": "A", "value": ""}],
                    resources={"limits": {"cpu": "1000m"}},
                )
            ],
            "spec.template.spec.tolerations": [{"operator": "Exists"}],
            "spec.template.spec.volumes": [{"name": "a", "configMap": {"name": "a"}}],
        }
    ),
    "selectors": daemonset(
        {
            "spec.updateStrategy.rollingUpdate.selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
            "spec.lifecycle": {"preDelete": {"labelsHandler": {"a": "b"}}},
        }
    ),
}


def differences(given: JSON, there: JSON, path: str = "") -> Iterator[str]:
    """Where what is there says something else than what was given; fields that are there besides are none."""
    if isinstance(given, dict) and isinstance(there, dict):
        for name, value in given.items():
            yield from differences(value, there.get(name, "is not there"), f"{path}.{name}")
    elif given != there:
        yield f"{path}: {given!r} has become {there!r}"


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_a_daemonset_reads_as_it_was_written(server: Server, given: JSONObject) -> None:
    assert list(differences(given, server.try_out(given).accepted().body)) == []


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_sample_reads_as_it_was_written(server: Server, path: Path) -> None:
    given = yaml.safe_load(path.read_text())
    assert list(differences(given, server.try_out(given).accepted().body)) == []


def test_flux_finds_no_drift_in_what_it_has_applied(server: Server, kubectl: Kubectl, tmp_path: Path) -> None:
    """It applies everything again as a dry run at the server, and compares, as `kubectl diff --server-side` does."""
    file, manager = tmp_path / "applied.yaml", "--field-manager=kustomize-controller"
    file.write_text(
        yaml.safe_dump_all({**one, "metadata": {"name": f"drift-{n}"}} for n, one in enumerate(GIVEN.values()))
    )
    kubectl("apply", "--server-side", manager, "-f", str(file))
    try:
        assert kubectl("diff", "--server-side", manager, "-f", str(file)) == ""
    finally:
        kubectl("delete", "-f", str(file))


def test_a_difference_would_be_found() -> None:
    there: JSONObject = {"a": [{"b": 1, "c": 2}], "d": 3, "e": 4}
    assert list(differences({"a": [{"b": 1}], "d": None, "f": 5}, there)) == [
        ".a: [{'b': 1}] has become [{'b': 1, 'c': 2}]",
        ".d: None has become 3",
        ".f: 5 has become 'is not there'",
    ]


def test_the_crd_fills_nothing_into_a_list() -> None:
    def filled_in(node: JSON, in_list: bool) -> Iterator[JSON]:
        for name, value in (
            node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        ):
            if in_list and name == "default":
                yield value
            yield from filled_in(value, in_list or name == "items")

    assert list(filled_in(crd()["spec"], False)) == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("components", [("image-pull", "metrics-auth"), ("podmonitor", "metrics-auth")], ids="+".join)
async def test_what_we_ship_reads_as_it_was_written(
    operated: ControlPlane, tmp_path: Path, components: tuple[str, ...]
) -> None:
    built = kustomized(operated.kubectl, overlay_with(tmp_path, "production", *components))
    done = await operated.run_kubectl("apply", "--server-side", "-o", "json", "-f", "-", stdin=built)
    assert done.returncode == 0, done.stderr
    stored = {_name(one): one for one in json.loads(done.stdout)["items"]}
    found = [
        f"{given['kind']}{one}"
        for given in documents(built)
        if given["kind"] not in BY_NAME
        for one in differences(given, stored[_name(given)])
    ]
    assert found == []


def _name(found: JSONObject) -> tuple[JSON, JSON]:
    metadata = found["metadata"]
    assert isinstance(metadata, dict)
    return found["kind"], metadata["name"]
