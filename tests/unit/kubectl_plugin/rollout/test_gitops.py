"""Who manages an object, by the traces that the known tools leave on it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.objects import JSONObject, OwnerReference
from kubectl_plugin.rollout.gitops import caution_of, restorer_of

ARGO_WROTE = [{"manager": "kubectl-edit"}, {"manager": "argocd-controller", "operation": "Apply"}]
OPERATOR = OwnerReference(api_version="demo.io/v1", kind="Agent", name="edge", uid="1", controller=True)
GATEWAY = OwnerReference(
    api_version="gateway.networking.k8s.io/v1", kind="Gateway", name="g", uid="3", controller=True
)
HOLDERS = (
    OwnerReference(api_version="v1", kind="ConfigMap", name="agents", uid="4"),
    OwnerReference(api_version="v1", kind="ConfigMap", name="agents", uid="4", controller=True),
    OwnerReference(api_version="apps/v1", kind="Deployment", name="operator", uid="5"),
    OwnerReference(api_version="rbac.authorization.k8s.io/v1", kind="ClusterRole", name="agents", uid="6"),
)
"""They own it, so that it is deleted with them, but have no controller that would write it."""
ADMIRER = OwnerReference(api_version="demo.io/v1", kind="Fan", name="other", uid="2")


def written(labels: dict[str, str], annotations: dict[str, str], managed_fields: Any = None) -> JSONObject:
    """An object as the server has it."""
    metadata: JSONObject = {"labels": {**labels}, "annotations": {**annotations}}
    return {"metadata": {**metadata, **({} if managed_fields is None else {"managedFields": managed_fields})}}


GIT = "change it in Git as well"
ARGO, FLUX = f"(self-heal may revert this); {GIT}", f"(its next reconciliation may revert this); {GIT}"
HELM = "(the next upgrade may revert this); change it in the chart's values as well"
OWNER = "(its controller may revert this); change it there as well"
BY_HELM, RELEASE = {"app.kubernetes.io/managed-by": "Helm"}, {"meta.helm.sh/release-name": "agents"}


@pytest.mark.parametrize(
    ("labels", "annotations", "owners", "managed_fields", "manager"),
    [
        ({}, {"argocd.argoproj.io/tracking-id": "agents:x"}, (), None, f'Argo CD app "agents" {ARGO}'),
        ({"app.kubernetes.io/instance": "agents"}, {}, (), ARGO_WROTE, f'Argo CD app "agents" {ARGO}'),
        ({"kustomize.toolkit.fluxcd.io/name": "apps"}, {}, (), None, f'Flux Kustomization "apps" {FLUX}'),
        ({"helm.toolkit.fluxcd.io/name": "apps"}, {}, (), None, f'Flux HelmRelease "apps" {FLUX}'),
        (BY_HELM, RELEASE, (), None, f'Helm release "agents" {HELM}'),
        ({}, RELEASE, (), None, f'Helm release "agents" {HELM}'),
        (BY_HELM, {}, (), None, f"Helm {HELM}"),
        ({}, {}, (OPERATOR,), None, f'Agent "edge" {OWNER}'),
        ({}, {}, (ADMIRER, OPERATOR), None, f'Agent "edge" {OWNER}'),
        ({}, {}, (ADMIRER,), None, f'Fan "other" {OWNER}'),
        ({}, {}, (*HOLDERS, GATEWAY), None, f'Gateway "g" {OWNER}'),
        # the outer of two tools is the one that writes
        ({"helm.toolkit.fluxcd.io/name": "apps", **BY_HELM}, RELEASE, (), None, f'Flux HelmRelease "apps" {FLUX}'),
        ({**BY_HELM, "app.kubernetes.io/instance": "x"}, {}, (), ARGO_WROTE, f'Argo CD app "x" {ARGO}'),
    ],
)
def test_the_manager_is_named_with_the_risk_and_where_else_to_change_it(
    labels: dict[str, str],
    annotations: dict[str, str],
    owners: tuple[OwnerReference, ...],
    managed_fields: Any,
    manager: str,
) -> None:
    sentence = caution_of("node-agent", written(labels, annotations, managed_fields), owners)
    assert sentence == f"node-agent is managed by {manager}"


GUIDED = {"rollouts.kruise.io/in-progressing": '{"rolloutName":"canary"}'}
CLAIMED = {
    "batchrelease.rollouts.kruise.io/control-info": '{"kind":"BatchRelease","name":"canary","controller":true}'
}


@pytest.mark.parametrize(
    "annotations", [GUIDED, CLAIMED, GUIDED | CLAIMED, GUIDED | RELEASE], ids=["held", "claimed", "both", "with Helm"]
)
def test_a_rollout_of_kruise_rollouts_is_named_before_all_others(annotations: dict[str, str]) -> None:
    told = caution_of("node-agent", written({}, annotations), ())
    by = 'node-agent is driven by Rollout "canary" of kruise-rollouts'
    assert told == f"{by}, which holds new templates and sets the partition itself; go on there"
    assert restorer_of(written({}, annotations), ()) is None, "it would not make the DaemonSet anew"


@pytest.mark.parametrize(
    ("labels", "annotations", "managed_fields"),
    [
        ({}, {}, None),
        ({"rollouts.kruise.io/workload-type": "daemonset"}, {}, None),
        ({}, {"rollouts.kruise.io/in-progressing": "{nonsense"}, None),
        ({"app.kubernetes.io/instance": "agents"}, {}, [{"manager": "kubectl-client-side-apply"}]),
        ({"app.kubernetes.io/managed-by": "kustomize"}, {}, ARGO_WROTE),
        ({}, {"argocd.argoproj.io/tracking-id": ""}, [{"manager": None}, "nonsense"]),
    ],
)
def test_no_owner_is_named_where_nothing_tells(
    labels: dict[str, str], annotations: dict[str, str], managed_fields: Any
) -> None:
    assert caution_of("node-agent", written(labels, annotations, managed_fields), ()) is None


@pytest.mark.parametrize("owner", HOLDERS, ids=lambda one: f"{one.kind}-{one.controller}")
def test_an_owner_without_a_controller_does_not_manage_it(owner: OwnerReference) -> None:
    assert caution_of("node-agent", written({}, {}), (owner,)) is None
