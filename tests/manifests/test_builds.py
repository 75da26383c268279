"""Every overlay builds with the real kubectl, and what comes out is as safe as it should be."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.api.objects import JSON, JSONObject
from tests.beds.manifests import MANIFESTS, crd, documents
from tests.tools.install_yaml import kustomized, overlays

pytestmark = pytest.mark.real
Build = Callable[[str], str]
API = ("CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
"""The kinds of manifests/crds: the API with its rules and warnings, kept when the controller is uninstalled."""


@pytest.fixture(scope="session", params=overlays())
def overlay(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def built(build: Build, overlay: str) -> list[JSONObject]:
    return documents(build(f"overlays/{overlay}"))


def find(built: list[JSONObject], kind: str) -> list[JSONObject]:
    return [document for document in built if document["kind"] == kind]


def dig(node: JSON, path: str) -> JSON:
    """What stands at `a.b.c`; None where it does not go on."""
    for name in path.split("."):
        if not isinstance(node, dict):
            return None
        node = node.get(name)
    return node


def items(node: JSON, path: str) -> list[JSONObject]:
    found = dig(node, path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def the_deployment(built: list[JSONObject]) -> JSONObject:
    """The controller's, which is the only workload."""
    (found,) = (one for one in built if items(one, "spec.template.spec.containers"))
    assert (found["kind"], dig(found, "metadata.name")) == ("Deployment", "kruise-ds-controller")
    return found


def the_container(built: list[JSONObject]) -> JSONObject:
    (found,) = items(the_deployment(built), "spec.template.spec.containers")
    return found


def test_the_pod_is_locked_down(built: list[JSONObject]) -> None:
    pod, container = dig(the_deployment(built), "spec.template.spec"), the_container(built)
    assert dig(pod, "securityContext.runAsNonRoot") is True
    assert dig(pod, "securityContext.seccompProfile.type") == "RuntimeDefault"
    assert dig(pod, "nodeSelector") == {"kubernetes.io/os": "linux"}
    assert [dig(pod, unwanted) for unwanted in ("hostNetwork", "hostPID", "hostIPC", "initContainers")] == [None] * 4
    assert dig(container, "securityContext.allowPrivilegeEscalation") is False
    assert dig(container, "securityContext.readOnlyRootFilesystem") is True
    assert dig(container, "securityContext.capabilities") == {"drop": ["ALL"]}
    assert dig(container, "resources.requests.memory")
    assert dig(container, "resources.limits.memory")


def test_no_pod_names_its_user_where_the_platform_may_want_one_of_its_own(built: list[JSONObject]) -> None:
    for one in (dig(the_deployment(built), "spec.template.spec"), the_container(built)):
        context = dig(one, "securityContext")
        assert isinstance(context, dict)
        assert not {"runAsUser", "runAsGroup", "fsGroup", "supplementalGroups"} & context.keys()


def test_the_api_server_is_reached_on_the_port_it_listens_on(built: list[JSONObject]) -> None:
    """Most network plugins compare the address behind the Service, on whatever platform."""
    (policy,) = find(built, "NetworkPolicy")
    ports = {port["port"] for rule in items(policy, "spec.egress") for port in items(rule, "ports")}
    assert {443, 6443, 8443, 16443} <= ports


def test_the_image_has_a_tag_that_stands_still(built: list[JSONObject]) -> None:
    image, _, digest = str(the_container(built)["image"]).partition("@")
    _, colon, tag = image.rpartition("/")[2].partition(":")
    assert digest.startswith("sha256:") or (colon and tag not in ("", "latest")), image


def test_no_rule_has_a_wildcard_or_reaches_for_secrets(built: list[JSONObject]) -> None:
    roles = find(built, "Role") + find(built, "ClusterRole")
    assert roles
    for role in roles:
        for rule in items(role, "rules"):
            for part in ("apiGroups", "resources", "verbs"):
                values = rule.get(part)
                assert isinstance(values, list), f"{dig(role, 'metadata.name')}: {part}"
                assert not {"*", "secrets", "configmaps", "escalate", "bind", "impersonate"} & set(
                    map(str, values)
                ), role


def test_every_binding_points_at_a_role_and_an_account_that_are_there(built: list[JSONObject]) -> None:
    there = {(str(one["kind"]), str(dig(one, "metadata.name"))) for one in built}
    for binding in find(built, "RoleBinding") + find(built, "ClusterRoleBinding"):
        assert (dig(binding, "roleRef.kind"), dig(binding, "roleRef.name")) in there, binding
        for subject in items(binding, "subjects"):
            assert (subject["kind"], subject["name"]) in there, binding
            assert subject["namespace"] == "kruise-ds-system", binding


SELECTORS = {
    "Deployment": "spec.selector.matchLabels",
    "Service": "spec.selector",
    "PodDisruptionBudget": "spec.selector.matchLabels",
    "NetworkPolicy": "spec.podSelector.matchLabels",
}


def test_every_selector_finds_the_controllers_pods(built: list[JSONObject]) -> None:
    template = dig(the_deployment(built), "spec.template")
    selectors = [dig(one, path) for kind, path in SELECTORS.items() for one in find(built, kind)]
    selectors += [dig(one, "labelSelector.matchLabels") for one in items(template, "spec.topologySpreadConstraints")]
    assert len(selectors) >= 4
    labels = dig(template, "metadata.labels")
    assert isinstance(labels, dict)
    for selector in selectors:
        assert isinstance(selector, dict)
        assert selector
        assert selector.items() <= labels.items()


def test_every_port_that_is_named_exists(built: list[JSONObject]) -> None:
    controller = the_container(built)
    ports = {port["name"] for port in items(controller, "ports")}
    for service in find(built, "Service"):
        assert {port["targetPort"] for port in items(service, "spec.ports")} <= ports
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert dig(controller, f"{probe}.httpGet.port") in ports, probe


def test_what_is_well_is_known_within_a_second_and_what_is_slow_has_ten(built: list[JSONObject]) -> None:
    controller = the_container(built)
    for probe in ("startupProbe", "readinessProbe"):
        assert dig(controller, f"{probe}.periodSeconds") == 1, probe
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        tries = dig(controller, f"{probe}.failureThreshold"), dig(controller, f"{probe}.periodSeconds")
        assert math.prod(int(str(one)) for one in tries) >= 10, probe


def test_no_name_is_used_twice_and_every_namespaced_object_says_where(built: list[JSONObject]) -> None:
    names = [(one["kind"], dig(one, "metadata.namespace"), dig(one, "metadata.name")) for one in built]
    assert len(names) == len(set(names))
    cluster_wide = {"Namespace", "ClusterRole", "ClusterRoleBinding", "FlowSchema", *API}
    assert {str(kind) for kind, namespace, _ in names if namespace is None} <= cluster_wide


def test_the_namespace_enforces_the_restricted_standard(built: list[JSONObject]) -> None:
    (namespace,) = find(built, "Namespace")
    labels = dig(namespace, "metadata.labels")
    assert isinstance(labels, dict)
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_machines_own_kubectl_builds_the_same(build: Build, overlay: str) -> None:
    own = shutil.which("kubectl")
    folder = f"overlays/{overlay}"
    if own is not None:
        assert documents(kustomized(Path(own), MANIFESTS / folder)) == documents(build(folder)), folder


@pytest.mark.parametrize("name", [one for one in overlays() if one != "namespaced"])
def test_what_looks_after_all_namespaces_has_both_guards(build: Build, name: str) -> None:
    there = {(one["kind"], dig(one, "metadata.name")) for one in documents(build(f"overlays/{name}"))}
    for guard in ("kruise-ds-crd-protection", "kruise-ds-pod-guard"):
        assert ("ValidatingAdmissionPolicy", guard) in there
        assert ("ValidatingAdmissionPolicyBinding", guard) in there


def test_production_has_monitoring(build: Build) -> None:
    for overlay in ("production", "production-without-crds", "airgap", "airgap-without-crds"):
        kinds = {one["kind"] for one in documents(build(f"overlays/{overlay}"))}
        assert {"ServiceMonitor", "PrometheusRule", "ConfigMap"} <= kinds, overlay


def test_an_own_registry_is_asked_by_digest(build: Build) -> None:
    for overlay in ("airgap", "airgap-without-crds"):
        name, at, digest = str(the_container(documents(build(f"overlays/{overlay}")))["image"]).partition("@sha256:")
        assert at, name
        assert len(digest) == 64, digest


def test_every_binding_of_a_policy_finds_it(built: list[JSONObject]) -> None:
    policies = {dig(one, "metadata.name") for one in find(built, "ValidatingAdmissionPolicy")}
    bound = {dig(one, "spec.policyName") for one in find(built, "ValidatingAdmissionPolicyBinding")}
    assert policies == bound


def test_a_single_replica_has_no_budget_that_would_keep_it_in_place(build: Build) -> None:
    built = documents(build("overlays/dev"))
    assert dig(the_deployment(built), "spec.replicas") == 1
    assert find(built, "PodDisruptionBudget") == []


@pytest.mark.parametrize("name", ["default", "production", "airgap"])
def test_an_uninstall_never_takes_the_crd_along(build: Build, name: str) -> None:
    api, whole, without = (
        documents(build(folder)) for folder in ("crds", f"overlays/{name}", f"overlays/{name}-without-crds")
    )
    assert find(without, "CustomResourceDefinition") == []
    assert find(whole, "CustomResourceDefinition") == [crd()], "kustomize passes it on unchanged"
    assert [one for one in whole if one not in api] == without, "and all else is the same"


def test_one_namespace_gets_no_rights_elsewhere_but_to_read_nodes(build: Build) -> None:
    built = documents(build("overlays/namespaced"))
    bound = {dig(one, "roleRef.name") for one in find(built, "ClusterRoleBinding")}
    assert bound == {"kruise-ds-controller-nodes"}
    (nodes,) = (one for one in find(built, "ClusterRole") if dig(one, "metadata.name") in bound)
    assert nodes["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]
    team = {dig(one, "metadata.namespace") for one in find(built, "Role")} - {"kruise-ds-system"}
    controller = the_container(built)
    watched = {one["value"] for one in items(controller, "env") if one["name"] == "KRUISE_DS_NAMESPACE"}
    assert team == watched == {"team-a"}
    assert find(built, "ConfigMap") == []


def test_one_namespace_and_all_namespaces_give_the_same_rights(build: Build) -> None:
    namespaced, everywhere = (documents(build(f"overlays/{name}")) for name in ("namespaced", "default-without-crds"))

    def rules(built: list[JSONObject], kind: str, path: str, value: str) -> list[str]:
        return [str(rule) for one in find(built, kind) if dig(one, path) == value for rule in items(one, "rules")]

    role = rules(namespaced, "Role", "metadata.namespace", "team-a")
    nodes = rules(namespaced, "ClusterRole", "metadata.name", "kruise-ds-controller-nodes")
    assert sorted(role + nodes) == sorted(rules(everywhere, "ClusterRole", "metadata.name", "kruise-ds-controller"))
