"""The chart gives what overlays and components give, for whatever values, and refuses values that make no sense."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.settings import DEFAULT_GATES, KNOWN_GATES, PRE_DOWNLOAD, FeatureGates, parse_gates
from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.fixtures import Helm
from tests.beds.manifests import MANIFESTS
from tests.tools.chart.made import CHART, made, stale
from tests.tools.chart.values import BY_DEFAULT, SCHEMA
from tests.tools.chart.variants import COMPONENTS, CRDS, SEVERAL, VALUES, WATCHED, Name, On, for_everybody, variant
from tests.tools.image.archive import version
from tests.tools.install_yaml import kustomized

pytestmark = pytest.mark.real

Objects = dict[Name, Any]

NAMESPACE = "kruise-ds-system"
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DIGEST = f"sha256:{'0' * 64}"
KEEP = "helm.sh/resource-policy"
EVERYTHING = frozenset(VALUES) - {WATCHED}
COMBINATIONS: dict[str, On] = {
    "the least": frozenset(),
    "everything": EVERYTHING,
    "everything for one namespace": EVERYTHING | {WATCHED},
    "monitors without a token": EVERYTHING - {"metricsAuth"},
    "the network of pods": EVERYTHING - {"hostNetwork"},
    "hardly anything for one namespace": frozenset({WATCHED}),
    **{f"{'without' if value in BY_DEFAULT else 'with'} {value}": BY_DEFAULT ^ {value} for value in VALUES},
}


def read(text: str) -> Objects:
    return dict(_read(text))


def _read(text: str) -> Iterator[tuple[Name, Any]]:
    for one in filter(None, yaml.load_all(text, LOADER)):
        yield Name(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]), one


def rendered(helm: Helm, *words: str, namespace: str = NAMESPACE) -> Objects:
    done = helm("template", "kruise-ds", str(CHART), "--namespace", namespace, *words)
    assert (done.returncode, done.stderr) == (0, "")
    return read(done.stdout)


def deployment(helm: Helm, *words: str) -> Any:
    """The spec of the controller's."""
    return rendered(helm, *words)[Name("Deployment", NAMESPACE, "kruise-ds-controller")]["spec"]


def settings(on: On) -> list[str]:
    """These values for helm."""
    said: dict[str, object] = {value: value in on for value in (*COMPONENTS, CRDS)}
    said |= {WATCHED: "team-a" if WATCHED in on else "", SEVERAL: 2 if SEVERAL in on else 1}
    return [word for value, one in said.items() for word in ("--set-json", f"{value}={json.dumps(one)}")]


def without_helms_own(found: Objects) -> Objects:
    """As kustomize has them: without the mark of what is kept, which is exactly at the CRDs and their warnings."""
    for name, one in found.items():
        of_the_api = name.kind == "CustomResourceDefinition" or name.name == "kruise-ds-warnings"
        annotations = one["metadata"].get("annotations", {})
        assert annotations.pop(KEEP, None) == ("keep" if of_the_api else None), name
        if not annotations:
            one["metadata"].pop("annotations", None)
    return found


def without_namespace(found: Objects) -> Objects:
    """That one is made by `helm install --create-namespace`."""
    return {name: one for name, one in found.items() if name.kind != "Namespace"}


def test_the_made_files_are_up_to_date(control_plane_binaries: Binaries) -> None:
    files = made(control_plane_binaries.kubectl)
    differing = [path.name for path, text in files.items() if not path.exists() or path.read_text() != text]
    assert (differing, stale(files)) == ([], []), "run `make manifests`"


def test_helm_finds_nothing_wrong(helm: Helm) -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


def test_without_any_values_it_is_the_default_overlay(helm: Helm, control_plane_binaries: Binaries) -> None:
    built = read(kustomized(control_plane_binaries.kubectl, MANIFESTS / "overlays" / "default"))
    assert without_helms_own(rendered(helm)) == without_namespace(built)


@pytest.mark.parametrize("on", COMBINATIONS.values(), ids=COMBINATIONS)
def test_each_value_adds_its_component(helm: Helm, control_plane_binaries: Binaries, on: On) -> None:
    def built(chosen: On) -> Objects:
        return read("\n---\n".join(variant(control_plane_binaries.kubectl, chosen).values()))

    wanted = built(on)
    if {"imagePull", WATCHED} <= on:
        wanted |= {name: one for name, one in built(on - {WATCHED}).items() if name.name in for_everybody()}
    if CRDS not in on:
        wanted = {name: one for name, one in wanted.items() if name.kind != "CustomResourceDefinition"}
    assert without_helms_own(rendered(helm, *settings(on))) == without_namespace(wanted)


@pytest.mark.parametrize("namespace", ["elsewhere", "123", "0x1f", "true"])
def test_it_is_at_home_in_any_namespace(helm: Helm, namespace: str) -> None:
    everything = settings(EVERYTHING)
    elsewhere = json.dumps([*rendered(helm, *everything, namespace=namespace).values()])
    assert NAMESPACE not in elsewhere
    at_home = json.dumps([*rendered(helm, *everything).values()])
    assert elsewhere == at_home.replace(NAMESPACE, namespace)


def test_what_people_set_is_in_the_deployment(helm: Helm, tmp_path: Path) -> None:
    toleration = {"key": "infra", "operator": "Exists"}
    spread: dict[str, Any] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    values = {
        "image": {"repository": "registry.internal.example:5000/kruise-ds", "pullSecrets": [{"name": "registry"}]},
        "replicas": 3,
        "resources": {"limits": {"memory": "1Gi"}},
        "nodeSelector": {"infra": "true"},
        "tolerations": [toleration],
        "affinity": spread,
        "priorityClassName": "0x1f",
        "extraArgs": ["--log-level=debug"],
        "extraEnv": [{"name": "KUBERNETES_SERVICE_PORT", "value": "6443"}],
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    plain, ours = deployment(helm), deployment(helm, "--values", str(tmp_path / "values.yaml"))
    pod, expected = ours["template"]["spec"], plain["template"]["spec"]
    (controller,) = expected["containers"]
    controller["image"] = "registry.internal.example:5000/kruise-ds:v0.1.0"
    controller["resources"]["limits"]["memory"] = "1Gi"
    controller["args"].append("--log-level=debug")
    controller["env"].append({"name": "KUBERNETES_SERVICE_PORT", "value": "6443"})
    expected["nodeSelector"]["infra"] = "true"
    expected["priorityClassName"] = "0x1f"
    expected |= {"imagePullSecrets": [{"name": "registry"}], "tolerations": [toleration], "affinity": spread}
    assert pod == expected
    assert ours == {**plain, "replicas": 3}


def test_what_a_platform_asks_for_is_a_value(helm: Helm) -> None:
    asked = {"prometheus": True, "priorityClassName": "", "apiServerPorts": [7443], "monitorLabels": {"release": "p"}}
    words = [word for value, one in asked.items() for word in ("--set-json", f"{value}={json.dumps(one)}")]
    found = {name.kind: one for name, one in rendered(helm, *words).items() if name.name.startswith("kruise-ds")}
    assert "priorityClassName" not in found["Deployment"]["spec"]["template"]["spec"]
    reached = [one["port"] for one in found["NetworkPolicy"]["spec"]["egress"][0]["ports"]]
    assert reached == [443, 6443, 8443, 16443, 7443]
    for kind in ("ServiceMonitor", "PrometheusRule"):
        assert found[kind]["metadata"]["labels"]["release"] == "p", kind


@pytest.mark.parametrize(
    ("url", "port"), [("http://p:9090/x", 9090), ("https://p", 443), ("http://p/x", 80), ("http://[fd00::1]:91", 91)]
)
def test_the_prometheus_of_checks_can_be_reached(helm: Helm, url: str, port: int) -> None:
    words = ("checks.prometheusUrl=" + url, "checks.tokenSecret=t", "checks.caSecret=c")
    found = rendered(helm, *(word for one in words for word in ("--set", one)))
    policy, kept = ([*one.values()] for one in (found, rendered(helm)))
    (ours,) = [one["spec"] for one in policy if one["kind"] == "Deployment"]
    (reached,) = [one["spec"] for one in policy if one["kind"] == "NetworkPolicy"]
    pod = ours["template"]["spec"]
    (controller,) = pod["containers"]
    assert [one for one in controller["args"] if "prometheus" in one] == [
        f"--prometheus-url={url}",
        "--prometheus-token-file=/etc/kruise-ds/prometheus-token/token",
        "--prometheus-ca-file=/etc/kruise-ds/prometheus-ca/ca.crt",
    ]
    mounts = {one["name"]: one["mountPath"] for one in controller["volumeMounts"]}
    secrets = {one["name"]: one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one}
    assert {mounts[name]: secret for name, secret in secrets.items()} == {
        "/etc/kruise-ds/prometheus-token": "t",
        "/etc/kruise-ds/prometheus-ca": "c",
    }
    assert reached["egress"][0]["ports"][-1] == {"port": port, "protocol": "TCP"}
    assert "prometheus" not in json.dumps([one for one in kept if one["kind"] == "Deployment"])


def test_tolerations_can_be_taken_away_and_those_of_a_component_stay(helm: Helm) -> None:
    def keys(*words: str) -> list[str]:
        pod = deployment(helm, "--set", "tolerations=null", *words)["template"]["spec"]
        return [one["key"] for one in pod["tolerations"] or []]

    assert keys() == []
    assert keys("--set", "hostNetwork=true") == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/network-unavailable",
    ]


@pytest.mark.parametrize(
    ("values", "image"),
    [
        ("image.tag=v9", ":v9"),
        (f"image.tag=v9,image.digest={DIGEST}", f":v9@{DIGEST}"),
        (f"image.digest={DIGEST}", f":{version()}@{DIGEST}"),
    ],
    ids=["by tag", "by both", "by digest"],
)
def test_the_image_is_named(helm: Helm, values: str, image: str) -> None:
    """By digest it keeps the tag, from which people and the plugin read the version."""
    found = deployment(helm, "--set", values)["template"]["spec"]["containers"][0]["image"]
    assert found == f"registry.example.com/kruise-ds{image}"


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("replica=3", "at '': additional properties 'replica' not allowed"),
        ("replicas=0", "at '/replicas': minimum: got 0, want 1"),
        ("replicas=two", "at '/replicas': got string, want integer"),
        ("image.name=x", "at '/image': additional properties 'name' not allowed"),
        ("image.repository=x:v1", "at '/image/repository': 'x:v1' does not match pattern"),
        ("image.digest=abc", "at '/image/digest': 'abc' does not match pattern"),
        ("podGuard=maybe", "at '/podGuard': got string, want boolean"),
        ("watchNamespace=a/b", "at '/watchNamespace': 'a/b' does not match pattern"),
        ("resources.limit.memory=1Gi", "at '/resources': additional properties 'limit' not allowed"),
        ("resources.limits.memory=1GB", "at '/resources/limits/memory': '1GB' does not match pattern"),
        ("tolerations[0].efect=NoSchedule", "at '/tolerations/0': additional properties 'efect' not allowed"),
        ("extraArgs[0]=debug", "at '/extraArgs/0': 'debug' does not match pattern"),
        (
            "checks.prometheusUrl=prometheus:9090",
            "at '/checks/prometheusUrl': 'prometheus:9090' does not match pattern",
        ),
        ("crds.keep=true", "at '/crds': additional properties 'keep' not allowed"),
        ("apiServerPorts[0]=0", "at '/apiServerPorts/0'"),
        ("priorityClassName=A B", "at '/priorityClassName'"),
        ("featureGates.Fast=true", "at '/featureGates': additional properties 'Fast' not allowed"),
        (f"featureGates.{PRE_DOWNLOAD}=true", "at '/featureGates': additional properties"),
        ("featureGates.InPlaceWorkloadVerticalScaling=often", "at '/featureGates/InPlaceWorkloadVerticalScaling'"),
        ("extraArgs[0]=--feature-gates=InPlaceWorkloadVerticalScaling=true", "at '/extraArgs/0': 'not' failed"),
        ("extraArgs[0]=--feature-gates", "at '/extraArgs/0': 'not' failed"),
    ],
)
def test_a_wrong_value_is_refused_where_it_stands(helm: Helm, setting: str, told: str) -> None:
    done = helm("template", "kruise-ds", str(CHART), "--set", setting)
    assert (done.returncode, told in done.stderr) == (1, True), done.stderr


def test_values_and_schema_name_the_same(helm: Helm) -> None:
    schema, values = json.loads(SCHEMA.read_text()), yaml.safe_load((CHART / "values.yaml").read_text())
    assert schema["properties"].keys() - values.keys() == {"global"}
    assert values.keys() <= schema["properties"].keys()


def notes(helm: Helm, *words: str) -> str:
    """What people read when it is installed."""
    return helm("install", "kruise-ds", str(CHART), "--dry-run=client", *words).stdout.partition("NOTES:")[2]


def test_an_image_that_cannot_be_pulled_is_reported_when_it_is_installed(helm: Helm) -> None:
    assert "set image.repository to yours" in notes(helm)
    assert "placeholder" not in notes(helm, "--set", "image.repository=registry.internal.example/kruise-ds")


def test_kept_crds_come_with_the_way_to_another_release(helm: Helm) -> None:
    assert "--take-ownership" in notes(helm)
    assert "--take-ownership" not in notes(helm, "--set", "crds.install=false")


def test_the_plugin_is_called_as_the_namespace_of_the_release_needs_it(helm: Helm) -> None:
    assert "  kubectl kruise-ds doctor\n" in notes(helm, "--namespace", NAMESPACE)
    assert "  kubectl kruise-ds doctor --controller-namespace infra\n" in notes(helm, "--namespace", "infra")


RESIZE = "featureGates.InPlaceWorkloadVerticalScaling=true"
NO_ENV = "featureGates.InPlaceUpdateEnvFromMetadata=false"


def environment(helm: Helm, *values: str) -> list[dict[str, Any]]:
    """Of the controller, with these values."""
    spec = deployment(helm, "--set", ",".join(values))
    found: list[dict[str, Any]] = spec["template"]["spec"]["containers"][0]["env"]
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


def test_no_variable_of_the_chart_can_be_set_a_second_time(helm: Helm) -> None:
    """The server takes a list with two of one name when it is installed, and refuses it at the upgrade."""
    own = environment(helm, "imagePull=true", "watchNamespace=team-a")
    for name in (one["name"] for one in own):
        done = helm("template", "kruise-ds", str(CHART), "--set", f"extraEnv[0].name={name},extraEnv[0].value=x")
        assert "at '/extraEnv/0/name': 'not' failed" in done.stderr, name


FLAGS = ("--take-ownership", "--force-conflicts")
RELEASE = ("kruise-ds", "--namespace", "kruise-ds-system")
KINDS = "crds,validatingadmissionpolicies,clusterroles,deployments"
KEPT = {
    "customresourcedefinition.apiextensions.k8s.io/daemonsets.apps.kruise.io",
    "validatingadmissionpolicy.admissionregistration.k8s.io/kruise-ds-warnings",
}


async def test_helm_takes_over_what_kubectl_has_installed(control_plane_binaries: Binaries, helm: Helm) -> None:
    said = (MANIFESTS.parent / "docs" / "install.md").read_text()
    assert all(f"`{flag}`" in said for flag in FLAGS)
    async with ControlPlane(control_plane_binaries, controllers=()) as plane:

        async def kubectl(*words: str) -> str:
            done = await plane.run_kubectl(*words)
            assert (done.returncode, done.stderr) == (0, "")
            return done.stdout

        async def there() -> set[str]:
            return {one for one in (await kubectl("get", KINDS, "-A", "-o", "name")).split() if "kruise" in one}

        await kubectl("apply", "--server-side", "-k", str(MANIFESTS / "overlays" / "default"))
        before = await there()
        done = helm("install", *RELEASE, str(CHART), *FLAGS, kubeconfig=plane.kubeconfig)
        assert done.returncode == 0, done.stderr
        assert await there() == before > KEPT
        done = helm("uninstall", *RELEASE, kubeconfig=plane.kubeconfig)
        assert (done.returncode, done.stderr) == (0, "")
        assert await there() == KEPT
