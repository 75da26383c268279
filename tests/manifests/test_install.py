"""`kubectl apply --server-side -k manifests/overlays/default` on the real API server, and the rights it gives."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from controller.api.objects import JSON, JSONObject
from tests.beds.manifests import MANIFESTS, documents
from tests.manifests.conftest import Kubectl
from tests.manifests.server import MERGE_PATCH, Server

pytestmark = pytest.mark.real

ACCOUNT = "system:serviceaccount:kruise-ds-system:kruise-ds-controller"
ALLOWED = (
    *(("apps.kruise.io", "daemonsets", verb) for verb in ("get", "list", "watch")),
    ("apps.kruise.io", "daemonsets/status", "patch"),
    ("apps.kruise.io", "daemonsets/finalizers", "update"),
    *(("", "pods", verb) for verb in ("get", "list", "watch", "create", "patch", "delete")),
    *(("", "nodes", verb) for verb in ("list", "watch")),
    *(("apps", "controllerrevisions", verb) for verb in ("get", "list", "watch", "create", "patch", "delete")),
    ("", "events", "create"),
)
DENIED = (
    ("", "nodes", "get"),
    ("", "events", "patch"),
    ("", "secrets", "get"),
    ("", "configmaps", "get"),
    ("", "nodes", "patch"),
    ("", "pods/exec", "create"),
    ("apps", "daemonsets", "list"),
    ("apps.kruise.io", "daemonsets", "create"),
    ("apps.kruise.io", "daemonsets", "patch"),
    ("apps.kruise.io", "daemonsets", "delete"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "get"),
    ("coordination.k8s.io", "leases", "create"),
)


def may(server: Server, group: str, resource: str, verb: str, namespace: str = "elsewhere", name: str = "") -> bool:
    """Whether the controller's service account may do it, by the server's own authorizer."""
    kind, _, sub = resource.partition("/")
    attributes: JSONObject = {
        "group": group,
        "resource": kind,
        "subresource": sub,
        "verb": verb,
        "namespace": namespace,
        "name": name,
    }
    groups: JSON = ["system:serviceaccounts", "system:authenticated"]
    review: JSONObject = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": ACCOUNT, "groups": groups, "resourceAttributes": attributes},
    }
    answer = server.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review).accepted()
    status = answer.body["status"]
    assert isinstance(status, dict)
    return status["allowed"] is True


@pytest.mark.parametrize(("group", "resource", "verb"), ALLOWED, ids="/".join)
def test_the_controller_may(server: Server, group: str, resource: str, verb: str) -> None:
    assert may(server, group, resource, verb)


@pytest.mark.parametrize(("group", "resource", "verb"), DENIED, ids="/".join)
def test_the_controller_may_not(server: Server, group: str, resource: str, verb: str) -> None:
    assert not may(server, group, resource, verb)


def test_the_controller_may_use_its_own_lease_only(server: Server) -> None:
    def lease(verb: str, name: str) -> bool:
        return may(server, "coordination.k8s.io", "leases", verb, "kruise-ds-system", name)

    assert lease("create", "")
    for verb in ("get", "watch", "patch"):
        assert lease(verb, "kruise-ds-controller"), verb
        assert not lease(verb, "somebody-else"), verb


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("/api/v1/nodes", "kruise-ds-controller"),
        ("/apis/apps.kruise.io/v1beta1/daemonsets", "kruise-ds-controller"),
        ("/api/v1/namespaces/default/pods", "kruise-ds-controller"),
        (
            "/apis/coordination.k8s.io/v1/namespaces/kruise-ds-system/leases/kruise-ds-controller",
            "kruise-ds-controller-leader-election",
        ),
    ],
)
def test_a_crowded_server_does_not_put_the_controller_last(server: Server, path: str, schema: str) -> None:
    flow = server.ask("GET", f"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/{schema}").accepted().body
    assert isinstance(flow["metadata"], dict)
    wanted = flow["metadata"]["uid"]
    deadline = time.monotonic() + 30  # the server takes notice of a new FlowSchema within a moment
    while (flow_seen := server.ask("GET", path, user=ACCOUNT).flow) != wanted:
        assert time.monotonic() < deadline, f"GET {path} as the controller came under {flow_seen}, not {schema}"


def test_installing_twice_changes_nothing(server: Server, kubectl: Kubectl) -> None:
    arguments = ("-k", str(MANIFESTS / "overlays" / "default"))
    read = (
        *arguments,
        "-o",
        'jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{"\\n"}{end}',
    )
    before = kubectl("get", *read)
    kubectl("apply", "--server-side", *arguments)
    assert kubectl("get", *read) == before


def counted(server: Server) -> None:
    """As the quota controller does, which does not run here: before that, no pod of the quota's class is admitted."""
    quota = "/api/v1/namespaces/kruise-ds-system/resourcequotas/kruise-ds-controller"
    spec = server.ask("GET", quota).accepted().body["spec"]
    assert isinstance(spec, dict)
    status: JSONObject = {"status": {"hard": spec["hard"], "used": {"pods": "0"}}}
    server.ask("PATCH", f"{quota}/status", status, MERGE_PATCH).accepted()


def test_the_controllers_pod_passes_its_namespaces_pod_security(server: Server, build: Callable[[str], str]) -> None:
    built = documents(build("overlays/default"))
    (deployment,) = (one for one in built if one["kind"] == "Deployment")
    spec = deployment["spec"]
    assert isinstance(spec, dict)
    assert isinstance(spec["template"], dict)
    pod: JSONObject = {"apiVersion": "v1", "kind": "Pod", **spec["template"]}
    assert isinstance(pod["metadata"], dict)
    pod["metadata"] = {**pod["metadata"], "name": "tried"}
    counted(server)
    pods = "/api/v1/namespaces/kruise-ds-system/pods?dryRun=All"
    server.ask("POST", pods, pod).accepted()
    assert isinstance(pod["spec"], dict)
    pod["spec"] = {**pod["spec"], "securityContext": {}}
    refused = server.ask("POST", pods, pod)
    assert refused.status == 403, "the namespace does enforce it"


def test_the_namespaced_overlay_applies_too(server: Server, kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "team-a")
    try:
        kubectl("apply", "--server-side", "--dry-run=server", "-k", str(MANIFESTS / "overlays" / "namespaced"))
    finally:
        kubectl("delete", "namespace", "team-a", "--wait=false")
