"""The puller's manifest."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from controller.imagepull.wanted import puller_manifest, puller_name
from tests.unit.controller.imagepull.worlds import job


def spec_of(**fields: Any) -> Any:
    return puller_manifest(job(**fields), "node-1")["spec"]


def test_a_name_is_stable_for_job_and_node_and_fits_a_host_name() -> None:
    assert puller_name(job(), "a") == puller_name(job(), "a") != puller_name(job(), "b")
    assert len(puller_name(replace(job(), name="x" * 253), "a")) <= 63


def test_it_asks_for_secrets_only_where_the_job_does() -> None:
    assert spec_of(pullSecrets=["one", "two"])["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert "imagePullSecrets" not in spec_of()


def test_it_runs_under_the_account_of_the_job_else_the_servers_choice() -> None:
    named = {"kruise-ds/service-account-name": "agent"}
    spec: Any = puller_manifest(job(named, pullSecrets=["one"]), "node-1")["spec"]
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("agent", False)
    assert spec["imagePullSecrets"] == [{"name": "one"}], "as for a pod of the template: the account's are not added"
    assert "serviceAccountName" not in spec_of()
    nameless: Any = puller_manifest(job({"kruise-ds/service-account-name": ""}), "node-1")["spec"]
    assert "serviceAccountName" not in nameless


def test_an_abandoned_puller_ends_by_itself() -> None:
    assert spec_of(pullPolicy={"timeoutSeconds": 300})["activeDeadlineSeconds"] == 360, "after we should have"
    assert spec_of(pullPolicy={"timeoutSeconds": 2**31 - 1})["activeDeadlineSeconds"] == 2**31 - 1


def test_what_a_user_adds_replaces_nothing_of_ours() -> None:
    config = {"labels": {"kruise-ds/image-pull-job": "mine", "a": "b"}, "annotations": {"c": "d"}}
    metadata: Any = puller_manifest(job(sandboxConfig=config), "node-1")["metadata"]
    assert (metadata["labels"]["kruise-ds/image-pull-job"], metadata["labels"]["a"]) == ("j1", "b")
    assert metadata["annotations"]["c"] == "d"
    assert metadata["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "true"


def test_it_takes_no_annotation_of_a_container_that_it_does_not_have() -> None:
    annotations = {"container.apparmor.security.beta.kubernetes.io/agent": "runtime/default", "c": "d"}
    metadata: Any = puller_manifest(job(sandboxConfig={"annotations": annotations}), "node-1")["metadata"]
    assert {"c"} == metadata["annotations"].keys() & annotations.keys()


def test_it_runs_on_every_node_with_minimal_requests_and_keeps_no_node() -> None:
    made: Any = puller_manifest(job(), "node-1")
    spec, metadata = made["spec"], made["metadata"]
    assert spec["tolerations"] == [{"operator": "Exists"}], "cordoned nodes, and those with taints of their own"
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1m", "memory": "1Mi"}
    assert spec["terminationGracePeriodSeconds"] == 0, "also on a node that does not answer it is gone at once"
    assert metadata["labels"]["sidecar.istio.io/inject"] == "false"
    assert metadata["annotations"]["linkerd.io/inject"] == "disabled"


def test_nothing_of_an_image_is_run_and_nothing_is_given_to_it() -> None:
    spec = spec_of()
    (container,) = spec["containers"]
    assert container["command"] == ["/kruise-ds/only-pulls-the-image"]
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert spec_of(imagePullPolicy="Always")["containers"][0]["imagePullPolicy"] == "Always"
    assert spec["automountServiceAccountToken"] is False
    assert spec["restartPolicy"] == "Never"
