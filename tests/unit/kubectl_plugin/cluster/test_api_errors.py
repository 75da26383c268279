"""What people read when the server could not be asked, or said no."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from controller.kube import errors
from controller.kube.connection import Connection, Credentials
from controller.kube.errors import ApiError, ConfigError, no_response_error, response_error
from controller.kube.requests import NotConnected, Response
from kubectl_plugin.cluster.api_errors import ROLES, explained_error
from kubectl_plugin.cluster.session import session_over
from kubectl_plugin.errors import CommandError
from tests.beds.manifests import MANIFESTS
from tests.beds.sample_kind import status
from tests.beds.scripted import Script

CLUSTER_INFO = "kubectl config current-context; kubectl cluster-info"
WHAT = "daemonsets.apps.kruise.io obs/agent"


def told(error: ApiError | ConfigError, *, context: str = "prod") -> CommandError:
    connection = Connection(server="https://10.0.0.1:6443", credentials=Credentials(), context=context)
    return explained_error(error, session_over(Script(), connection))


def answer(code: int, reason: str = "", message: str = "", *, verb: str = "patch") -> ApiError:
    return response_error(verb, WHAT, Response(status=code, body=status(code, reason, message)))


def first_line(error: CommandError) -> str:
    return error.prefix + error.message


def test_a_connection_that_cannot_be_made_out_keeps_its_own_words() -> None:
    error = explained_error(ConfigError("no kubeconfig: /x does not exist", hint="use another"))
    assert (first_line(error), error.hints) == ("error: no kubeconfig: /x does not exist", ("use another",))
    assert explained_error(ConfigError("no")).hints == ()


@pytest.mark.parametrize(
    ("words", "line", "hint"),
    [
        ("10.0.0.1:6443: Connection refused", "connection refused", CLUSTER_INFO),
        ("proxy:3128: Connection refused", "proxy:3128: Connection refused", CLUSTER_INFO),
        ("10.0.0.1:6443: TLS is not spoken", "TLS is not spoken", CLUSTER_INFO),
        (
            "10.0.0.1:6443: certificate verify failed: self-signed certificate",
            "certificate verify failed: self-signed certificate",
            "the server's certificate is of an unknown authority: see --certificate-authority",
        ),
        (
            "10.0.0.1:6443: certificate verify failed: Hostname mismatch, certificate is not valid for 'x'",
            "certificate verify failed: Hostname mismatch, certificate is not valid for 'x'",
            "the server's certificate is for another name: see --tls-server-name",
        ),
        (
            "10.0.0.1:6443: certificate verify failed: certificate has expired",
            "certificate verify failed: certificate has expired",
            "either the server's certificate has to be renewed, or the clock of this machine is wrong",
        ),
        (
            "10.0.0.1:6443: certificate verify failed: certificate is not yet valid",
            "certificate verify failed: certificate is not yet valid",
            "either the server's certificate has to be renewed, or the clock of this machine is wrong",
        ),
    ],
)
def test_a_server_out_of_reach(words: str, line: str, hint: str) -> None:
    error = told(no_response_error("get", WHAT, NotConnected(words)))
    assert first_line(error) == f'error: cannot reach https://10.0.0.1:6443 (context "prod"): {line}'
    assert (error.hints, error.exit_code) == ((hint,), 1)


def test_a_server_out_of_reach_without_a_context() -> None:
    error = told(no_response_error("get", WHAT, TimeoutError("no answer in time")), context="")
    assert first_line(error) == "error: cannot reach https://10.0.0.1:6443: no answer in time"


@pytest.mark.parametrize(("scheme", "port"), [("https", 443), ("http", 80)])
def test_the_address_of_a_server_is_not_said_twice(scheme: str, port: int) -> None:
    session = session_over(Script(), Connection(server=f"{scheme}://a.example", credentials=Credentials()))
    error = explained_error(no_response_error("get", WHAT, NotConnected(f"a.example:{port}: Refused")), session)
    assert first_line(error) == f"error: cannot reach {scheme}://a.example: refused"


@pytest.mark.parametrize("body", [b"404 page not found\n", status(404, "NotFound", "the server could not find it")])
def test_a_kind_that_is_not_served(body: bytes) -> None:
    error = told(response_error("list", "daemonsets.apps.kruise.io in obs", Response(status=404, body=body)))
    where = '(context "prod", https://10.0.0.1:6443)'
    assert first_line(error) == f"error: this cluster has no daemonsets.apps.kruise.io {where}"
    assert error.hints == ("kubectl apply --server-side -k manifests/overlays/default",)
    other = told(response_error("get", "pods/log obs/x", Response(status=404, body=body)), context="")
    assert first_line(other) == "error: this cluster has no pods (https://10.0.0.1:6443)"
    assert other.hints == ()


def test_an_object_that_is_not_there() -> None:
    message = 'daemonsets.apps.kruise.io "agent" not found'
    body = f'{{"kind":"Status","reason":"NotFound","message":{message!r},"details":{{"name":"agent"}}}}'
    body = body.replace("'", '"').replace('io "agent" not', 'io \\"agent\\" not')
    error = told(response_error("get", WHAT, Response(status=404, body=body.encode())))
    assert first_line(error) == f"Error from server (NotFound): {message}"
    assert (error.hints, error.exit_code) == ((), 1)


def denial(verb: str, resource: str, group: str, scope: str) -> str:
    return f'x is forbidden: User "bob" cannot {verb} resource "{resource}" in API group "{group}" {scope}'


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        (
            denial("patch", "daemonsets", "apps.kruise.io", 'in the namespace "obs"'),
            'needed: patch daemonsets.apps.kruise.io in "obs"; ask for ClusterRole kruise-ds-operator',
        ),
        (
            denial("list", "nodes", "", "at the cluster scope"),
            "needed: list nodes at the cluster scope; ask for ClusterRole kruise-ds-operator",
        ),
        (
            denial("get", "pods/log", "", 'in the namespace "obs"'),
            'needed: get pods/log in "obs"; ask for ClusterRole kruise-ds-operator',
        ),
        (
            denial("create", "daemonsets", "apps.kruise.io", 'in the namespace "obs"'),
            'needed: create daemonsets.apps.kruise.io in "obs"; ask for ClusterRole kruise-ds-edit',
        ),
        (
            denial("list", "leases", "coordination.k8s.io", 'in the namespace "obs"'),
            'needed: list leases.coordination.k8s.io in "obs"; ask an administrator',
        ),
        (
            denial("impersonate", "users", "", "at the cluster scope"),
            "needed: the right to impersonate; ask an administrator, or act as yourself",
        ),
    ],
)
def test_missing_rights_are_named_with_the_role_that_has_them(message: str, hint: str) -> None:
    error = told(answer(403, "Forbidden", message))
    assert first_line(error) == f"Error from server (Forbidden): {message}"
    assert (error.hints, error.exit_code) == ((hint,), 1)


def test_a_quota_or_a_policy_has_nothing_to_do_with_roles() -> None:
    assert told(answer(403, "Forbidden", "exceeded quota: pods")).hints == ()


def test_the_roles_are_those_of_the_manifests() -> None:
    documents = yaml.safe_load_all((MANIFESTS / "base" / "user-roles.yaml").read_text())
    granted: dict[str, dict[str, frozenset[str]]] = {}
    for role in documents:
        if role["metadata"]["name"] in ROLES:
            granted[role["metadata"]["name"]] = dict(_rules(role))
    assert granted == ROLES


def _rules(role: dict[str, Any]) -> list[tuple[str, frozenset[str]]]:
    return [
        (_named(resource, group), frozenset(rule["verbs"]))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    ]


def _named(resource: str, group: str) -> str:
    plural, slash, sub = resource.partition("/")
    return f"{plural}.{group}{slash}{sub}" if group else resource


def test_credentials_that_the_server_does_not_know() -> None:
    error = told(answer(401, "Unauthorized", "Unauthorized"))
    assert first_line(error) == "error: You must be logged in to the server (Unauthorized)"
    assert error.hints == ("log in again, or choose another user with --context or --user",)


def test_credentials_that_could_not_be_renewed_say_why() -> None:
    refusal = answer(401, "Unauthorized", "Unauthorized")
    refusal.__cause__ = ConfigError("its exec plugin hands out an old one", hint="log in again")
    error = told(refusal)
    assert first_line(error) == (
        "error: You must be logged in to the server (Unauthorized): its exec plugin hands out an old one"
    )
    assert error.hints == ("log in again",)


def test_a_conflict_is_refused_by_a_check() -> None:
    error = told(answer(409, "Conflict", "the object has been modified"))
    assert first_line(error) == "Error from server (Conflict): the object has been modified"
    assert error.exit_code == 6
    assert len(error.hints) == 1
    assert told(answer(409, "AlreadyExists", "it exists", verb="create")).exit_code == 1


def test_a_write_in_doubt_says_so() -> None:
    error = told(no_response_error("patch", WHAT, TimeoutError("no answer in time")))
    assert isinstance(no_response_error("patch", WHAT, TimeoutError()), errors.UnknownOutcome)
    assert first_line(error) == f"error: patch {WHAT}: no answer, it may have been done: no answer in time"
    assert error.hints == ("look whether it was done before you try again",)


@pytest.mark.parametrize(
    ("code", "reason", "line"),
    [
        (422, "Invalid", "Error from server (Invalid): words"),
        (429, "TooManyRequests", "Error from server (TooManyRequests): words"),
        (500, "InternalError", "Error from server (InternalError): words"),
        (500, "", "Error from server: words"),
    ],
)
def test_the_rest_is_the_servers_own_words(code: int, reason: str, line: str) -> None:
    error = told(answer(code, reason, "words"))
    assert (first_line(error), error.hints, error.exit_code) == (line, (), 1)


def test_a_failure_without_an_answer_is_in_our_words() -> None:
    error = told(errors.Unreadable("get", WHAT, "not JSON"))
    assert first_line(error) == f"error: get {WHAT}: not JSON"
