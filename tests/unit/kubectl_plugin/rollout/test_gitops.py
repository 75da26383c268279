"""Who manages an object, by the traces that the known tools leave on it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.objects import JSONObject, OwnerReference
from kubectl_plugin.rollout.gitops import caution_of

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


@pytest.mark.parametrize(
    ("labels", "annotations", "owners", "managed_fields", "manager"),
    [
        (
            {},
            {"argocd.argoproj.io/tracking-id": "agents:apps.kruise.io/DaemonSet:obs/node-agent"},
            (),
            None,
            'Argo CD app "agents"',
        ),
        ({"app.kubernetes.io/instance": "agents"}, {}, (), ARGO_WROTE, 'Argo CD app "agents"'),
        ({"kustomize.toolkit.fluxcd.io/name": "apps"}, {}, (), None, 'Flux Kustomization "apps"'),
        ({"helm.toolkit.fluxcd.io/name": "apps"}, {}, (), None, 'Flux HelmRelease "apps"'),
        (
            {"app.kubernetes.io/managed-by": "Helm"},
            {"meta.helm.sh/release-name": "agents"},
            (),
            None,
            'Helm release "agents"',
        ),
        ({}, {"meta.helm.sh/release-name": "agents"}, (), None, 'Helm release "agents"'),
        ({"app.kubernetes.io/managed-by": "Helm"}, {}, (), None, "Helm"),
        ({}, {}, (OPERATOR,), None, 'Agent "edge"'),
        ({}, {}, (ADMIRER, OPERATOR), None, 'Agent "edge"'),
        ({}, {}, (ADMIRER,), None, 'Fan "other"'),
        ({}, {}, (*HOLDERS, GATEWAY), None, 'Gateway "g"'),
        # the outer of two tools is the one that writes
        (
            {"helm.toolkit.fluxcd.io/name": "apps", "app.kubernetes.io/managed-by": "Helm"},
            {"meta.helm.sh/release-name": "apps"},
            (),
            None,
            'Flux HelmRelease "apps"',
        ),
        (
            {"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/instance": "x"},
            {},
            (),
            ARGO_WROTE,
            'Argo CD app "x"',
        ),
    ],
)
def test_the_tool_that_manages_it_is_named(
    labels: dict[str, str],
    annotations: dict[str, str],
    owners: tuple[OwnerReference, ...],
    managed_fields: Any,
    manager: str,
) -> None:
    sentence = caution_of("node-agent", written(labels, annotations, managed_fields), owners)
    assert sentence is not None
    assert sentence.startswith(f"node-agent is managed by {manager} (")


@pytest.mark.parametrize(
    ("labels", "annotations", "managed_fields"),
    [
        ({}, {}, None),
        ({"app.kubernetes.io/instance": "agents"}, {}, [{"manager": "kubectl-client-side-apply"}]),
        ({"app.kubernetes.io/managed-by": "kustomize"}, {}, ARGO_WROTE),
        ({}, {"argocd.argoproj.io/tracking-id": ""}, [{"manager": None}, "nonsense"]),
    ],
)
def test_nobody_is_named_where_nothing_tells(
    labels: dict[str, str], annotations: dict[str, str], managed_fields: Any
) -> None:
    assert caution_of("node-agent", written(labels, annotations, managed_fields), ()) is None


@pytest.mark.parametrize("owner", HOLDERS, ids=lambda one: f"{one.kind}-{one.controller}")
def test_an_owner_without_a_controller_does_not_manage_it(owner: OwnerReference) -> None:
    assert caution_of("node-agent", written({}, {}), (owner,)) is None


@pytest.mark.parametrize(
    ("labels", "annotations", "owners", "sentence"),
    [
        (
            {},
            {"argocd.argoproj.io/tracking-id": "agents:x"},
            (),
            'node-agent is managed by Argo CD app "agents" (self-heal may revert this); change it in Git as well',
        ),
        (
            {"kustomize.toolkit.fluxcd.io/name": "apps"},
            {},
            (),
            'node-agent is managed by Flux Kustomization "apps" (its next reconciliation may revert this); change it'
            " in Git as well",
        ),
        (
            {},
            {"meta.helm.sh/release-name": "agents"},
            (),
            'node-agent is managed by Helm release "agents" (the next upgrade may revert this); change it in the'
            " chart's values as well",
        ),
        (
            {},
            {},
            (OPERATOR,),
            'node-agent is managed by Agent "edge" (its controller may revert this); change it there as well',
        ),
    ],
)
def test_the_sentence_says_what_may_happen_and_where_else_to_change_it(
    labels: dict[str, str], annotations: dict[str, str], owners: tuple[OwnerReference, ...], sentence: str
) -> None:
    assert caution_of("node-agent", written(labels, annotations), owners) == sentence
