"""What a controller may and gets, once installed, on a real API server; other rights: docs/security.md."""

from __future__ import annotations

import time

import pytest

from controller.api.objects import JSONObject
from tests.manifests.server import Server

pytestmark = pytest.mark.real

ACCOUNT = "system:serviceaccount:kruise-ds-system:kruise-ds-controller"


def test_the_controller_may_use_its_own_lease_only(server: Server) -> None:
    def lease(verb: str, name: str) -> bool:
        """By the server's own authorizer."""
        attributes: JSONObject = {"group": "coordination.k8s.io", "resource": "leases", "verb": verb, "name": name}
        attributes["namespace"] = "kruise-ds-system"
        review: JSONObject = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": ACCOUNT, "resourceAttributes": attributes},
        }
        answer = server.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review).accepted()
        assert isinstance(answer.body["status"], dict)
        return answer.body["status"]["allowed"] is True

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
