"""components/image-pull: the CRD of ImagePullJob with its rules, the rights, and the gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from controller.api.objects import JSON, JSONObject
from controller.settings import parse_gates
from tests.beds.audit import Right, granted
from tests.beds.control_plane import Binaries
from tests.beds.manifests import JOB_CRD, documents, overlay_with, schema
from tests.manifests.conftest import Kubectl
from tests.manifests.refusals import Refusal
from tests.manifests.server import JSON_PATCH, Server
from tests.manifests.test_rules import rules
from tests.tools.install_yaml import kustomized

RIGHTS = {
    Right("apps.kruise.io", "imagepulljobs", "list"),
    Right("apps.kruise.io", "imagepulljobs", "watch"),
    Right("apps.kruise.io", "imagepulljobs", "create"),
    Right("apps.kruise.io", "imagepulljobs", "delete"),
    Right("apps.kruise.io", "imagepulljobs/status", "patch"),
}
KEY = "must be a label key"


def path(version: str = "v1beta1") -> str:
    return f"/apis/apps.kruise.io/{version}/namespaces/default/imagepulljobs"


def job(spec: Mapping[str, Any], version: str = "v1beta1") -> JSONObject:
    return {
        "apiVersion": f"apps.kruise.io/{version}",
        "kind": "ImagePullJob",
        "metadata": {"name": "pull"},
        "spec": {"image": "agent:v2", **spec},
    }


@pytest.fixture(scope="module")
def jobs(server: Server, kubectl: Kubectl) -> Server:
    """The API server with the kind in it, which stays: tests/system installs it there once for all its tests."""
    kubectl("apply", "--server-side", "-f", str(JOB_CRD))
    kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd/imagepulljobs.apps.kruise.io")
    return server


ACCEPTED: tuple[dict[str, Any], ...] = (
    {},
    {"completionPolicy": {"type": "Always", "activeDeadlineSeconds": 1200, "ttlSecondsAfterFinished": 0}},
    {"completionPolicy": {"type": "Never"}, "parallelism": 10, "pullSecrets": ["one", "two"]},
    {"selector": {"names": ["node-1", "node-2"]}, "parallelism": "30%", "imagePullPolicy": "Always"},
    {"selector": {"matchLabels": {"node-type": "xxx"}}, "pullPolicy": {"backoffLimit": 0, "timeoutSeconds": 300}},
    {"podSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, "parallelism": 0},
    {"sandboxConfig": {"annotations": {"io.kubernetes.image.metrics.tags": "a=b c"}, "labels": {"a": "b"}}},
    {"image": f"host:5000/agent:v2@sha256:{'0' * 64}"},
)


@pytest.mark.real
@pytest.mark.parametrize("spec", ACCEPTED, ids=str)
@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_what_openkruise_takes_is_taken(jobs: Server, spec: dict[str, Any], version: str) -> None:
    answer = jobs.ask("POST", f"{path(version)}?dryRun=All", job(spec, version)).accepted()
    assert answer.body["spec"] == {"image": "agent:v2", **spec}, "and nothing of it is lost"


def expression(key: str, operator: str, *values: str) -> JSONObject:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


NAMES = "names cannot be used together with matchLabels"
KEEPS_ON = "a job of type Never is never over"
AMOUNT = "must be a whole number of 0 or more, or a percentage"
REFUSALS = (
    Refusal("no image", {"image": ""}, "spec.image", "at least 1"),
    Refusal("a space", {"image": "agent :v2"}, "spec.image", "without spaces"),
    Refusal("both", {"selector": {}, "podSelector": {}}, "spec.podSelector", "cannot be used together with selector"),
    Refusal("names, labels", {"selector": {"names": ["a"], "matchLabels": {"a": "b"}}}, "spec.selector.names", NAMES),
    Refusal("a key", {"selector": {"matchLabels": {"a b": "c"}}}, "spec.selector.matchLabels", KEY),
    Refusal("a value", {"podSelector": {"matchLabels": {"a": "b c"}}}, "spec.podSelector.matchLabels", "label value"),
    Refusal(
        "no values",
        {"selector": {"matchExpressions": [expression("a", "In")]}},
        "spec.selector.matchExpressions[0].values",
        "must have at least one value",
    ),
    Refusal(
        "values",
        {"podSelector": {"matchExpressions": [expression("a", "Exists", "b")]}},
        "spec.podSelector.matchExpressions[0].values",
        "must be left out",
    ),
    Refusal(
        "a key in a requirement",
        {"podSelector": {"matchExpressions": [expression("a b", "Exists")]}},
        "spec.podSelector.matchExpressions[0].key",
        KEY,
    ),
    Refusal(
        "an operator",
        {"selector": {"matchExpressions": [expression("a", "Gt", "1")]}},
        "spec.selector.matchExpressions[0].operator",
        "supported values",
    ),
    Refusal("less than none", {"parallelism": -1}, "spec.parallelism", AMOUNT),
    Refusal("no number", {"parallelism": "many"}, "spec.parallelism", AMOUNT),
    Refusal("more than all", {"parallelism": "101%"}, "spec.parallelism", AMOUNT),
    Refusal("no time", {"pullPolicy": {"timeoutSeconds": 0}}, "spec.pullPolicy.timeoutSeconds", "greater than"),
    Refusal("no retry", {"pullPolicy": {"backoffLimit": -1}}, "spec.pullPolicy.backoffLimit", "greater than"),
    Refusal("a type", {"completionPolicy": {"type": "Now"}}, "spec.completionPolicy.type", "supported values"),
    Refusal(
        "an end", {"completionPolicy": {"type": "Never", "ttlSecondsAfterFinished": 1}}, "spec.completionPolicy.type",
        KEEPS_ON,
    ),
    Refusal("a policy", {"imagePullPolicy": "Never"}, "spec.imagePullPolicy", "supported values"),
    Refusal("a label", {"sandboxConfig": {"labels": {"a b": "c"}}}, "spec.sandboxConfig.labels", KEY),
)  # fmt: skip


@pytest.mark.real
@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.why)
def test_the_server_refuses(jobs: Server, case: Refusal) -> None:
    answer = jobs.ask("POST", f"{path()}?dryRun=All", job(case.changes))
    assert (answer.status, answer.body.get("reason")) == (422, "Invalid"), answer.body
    assert [field for field, _ in answer.causes] == [case.field], answer.causes
    assert case.says.lower() in answer.causes[0][1].lower()


def test_every_rule_has_a_message_and_a_job_that_breaks_it() -> None:
    for rule in rules(schema(JOB_CRD)):
        message = str(rule.get("message", ""))
        assert "field is immutable" in message or any(case.says in message for case in REFUSALS), message


@pytest.mark.real
def test_the_image_never_changes_and_the_rest_may(jobs: Server) -> None:
    jobs.ask("POST", path(), job({})).accepted()
    try:
        change: JSON = [{"op": "replace", "path": "/spec/image", "value": "agent:v3"}]
        answer = jobs.ask("PATCH", f"{path()}/pull", change, JSON_PATCH)
        assert [field for field, _ in answer.causes] == ["spec.image"]
        assert "make another ImagePullJob" in answer.causes[0][1]
        change = [{"op": "add", "path": "/spec/parallelism", "value": 5}]
        jobs.ask("PATCH", f"{path()}/pull", change, JSON_PATCH).accepted()
    finally:
        jobs.ask("DELETE", f"{path()}/pull")


@pytest.mark.real
@pytest.mark.parametrize("overlay", ["default", "production"])
def test_the_component_adds_the_kind_its_rights_and_the_gate(
    control_plane_binaries: Binaries, build: Callable[[str], str], tmp_path: Path, overlay: str
) -> None:
    made = documents(kustomized(control_plane_binaries.kubectl, overlay_with(tmp_path, overlay, "image-pull")))
    without = documents(build(f"overlays/{overlay}"))
    assert granted(made) - granted(without) == RIGHTS
    assert not RIGHTS & granted(without)
    (gates,) = [
        one["value"]
        for document in made
        if document["kind"] == "Deployment"
        for one in _environment(document)
        if one["name"] == "KRUISE_DS_FEATURE_GATES"
    ]
    assert parse_gates(gates).pre_download is True


@pytest.mark.real
def test_in_one_namespace_it_adds_the_same_rights_there_and_the_gate(
    control_plane_binaries: Binaries, build: Callable[[str], str], tmp_path: Path
) -> None:
    overlay = overlay_with(tmp_path, "namespaced", "image-pull-namespaced")
    made = documents(kustomized(control_plane_binaries.kubectl, overlay))
    without = documents(build("overlays/namespaced"))
    assert granted(made) - granted(without) == RIGHTS
    added = [one for one in made if one not in without]
    assert sorted(str(one["kind"]) for one in added) == ["Deployment", "Role", "RoleBinding"]
    metas: list[Any] = [one["metadata"] for one in added if one["kind"] != "Deployment"]
    assert {meta["namespace"] for meta in metas} == {"team-a"}
    (deployment,) = (one for one in added if one["kind"] == "Deployment")
    gate = {"name": "KRUISE_DS_FEATURE_GATES", "value": "PreDownloadImageForDaemonSetUpdate=true"}
    assert gate in _environment(deployment)


def _environment(deployment: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    return found
