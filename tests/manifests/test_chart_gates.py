"""The feature gates that the chart sets: all of them in one environment variable, which nothing else may set."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from controller.settings import DEFAULT_GATES, KNOWN_GATES, PRE_DOWNLOAD, FeatureGates, parse_gates
from tests.beds.helm.fixtures import Helm
from tests.tools.chart.made import CHART
from tests.tools.chart.values import SCHEMA

pytestmark = pytest.mark.real

RESIZE = "featureGates.InPlaceWorkloadVerticalScaling=true"
NO_ENV = "featureGates.InPlaceUpdateEnvFromMetadata=false"


def environment(helm: Helm, *values: str) -> list[dict[str, Any]]:
    """Of the controller, with these values."""
    done = helm(
        "template", "kruise-ds", str(CHART), "--set", ",".join(values), "--show-only", "templates/deployment.yaml"
    )
    assert (done.returncode, done.stderr) == (0, "")
    (deployment,) = filter(None, yaml.safe_load_all(done.stdout))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    found: list[dict[str, Any]] = container["env"]
    return found


@pytest.mark.parametrize(
    ("values", "gates"),
    [
        (("imagePull=true",), FeatureGates(pre_download=True)),
        ((RESIZE,), FeatureGates(resize=True)),
        ((RESIZE, NO_ENV), FeatureGates(resize=True, env_from_metadata=False)),
        (("imagePull=true", RESIZE), FeatureGates(pre_download=True, resize=True)),
        (("imagePull=true", RESIZE, NO_ENV), FeatureGates(pre_download=True, resize=True, env_from_metadata=False)),
    ],
    ids=["images", "one", "two", "images and one", "all"],
)
def test_the_controller_has_those_that_are_asked_for(
    helm: Helm, values: tuple[str, ...], gates: FeatureGates
) -> None:
    (said,) = [one["value"] for one in environment(helm, *values) if one["name"] == "KRUISE_DS_FEATURE_GATES"]
    assert parse_gates(said) == gates
    assert gates != DEFAULT_GATES


def test_each_gate_is_a_value() -> None:
    """But the one of `imagePull`, which takes a CRD and rights as well."""
    gates = json.loads(SCHEMA.read_text())["properties"]["featureGates"]["properties"]
    assert gates.keys() | {PRE_DOWNLOAD} == KNOWN_GATES.keys()
    assert PRE_DOWNLOAD not in gates


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ("featureGates.Fast=true", "at '/featureGates': additional properties 'Fast' not allowed"),
        (f"featureGates.{PRE_DOWNLOAD}=true", "at '/featureGates': additional properties"),
        ("featureGates.InPlaceWorkloadVerticalScaling=often", "at '/featureGates/InPlaceWorkloadVerticalScaling'"),
        ("extraArgs[0]=--feature-gates=InPlaceWorkloadVerticalScaling=true", "at '/extraArgs/0': 'not' failed"),
        ("extraArgs[0]=--feature-gates", "at '/extraArgs/0': 'not' failed"),
    ],
)
def test_no_other_value_can_set_them(helm: Helm, values: str, told: str) -> None:
    done = helm("template", "kruise-ds", str(CHART), "--set", values)
    assert (done.returncode, told in done.stderr) == (1, True), done.stderr


def test_no_variable_of_the_chart_can_be_set_a_second_time(helm: Helm) -> None:
    """The server takes a list with two of one name when it is installed, and refuses it at the upgrade."""
    own = environment(helm, "imagePull=true", "watchNamespace=team-a")
    for name in (one["name"] for one in own):
        done = helm("template", "kruise-ds", str(CHART), "--set", f"extraEnv[0].name={name},extraEnv[0].value=x")
        assert "at '/extraEnv/0/name': 'not' failed" in done.stderr, name
