"""The real API server: who it takes us for, and what it says when it says no; kubectl is asked the same."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.api import patch as json_patch
from controller.api.objects import Key
from controller.kube.errors import ApiError, ConfigError
from controller.kube.kubeconfig import Access
from controller.kube.requests import DAEMONSETS, Request
from controller.kube.sender import Call
from kubectl_plugin.cluster import documents, installation
from kubectl_plugin.cluster.api_errors import explained_error
from kubectl_plugin.cluster.session import Session, open_session
from kubectl_plugin.errors import CommandError
from tests.beds.api import Resource as Kind
from tests.beds.control_plane.processes import free_port
from tests.plugin.cluster.conftest import ALONE
from tests.plugin.cluster.real_place import Place, place

__all__ = ["place"]

pytestmark = pytest.mark.real

NOBODY = "nobody@example.com"
ACCOUNTS = Kind("/api/v1", "serviceaccounts", "ServiceAccount")
SELF_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def failure(access: Access, key: Key, resource: documents.AnyResource = DAEMONSETS) -> CommandError:
    """How reading one object fails."""
    session: Session | None = None
    try:
        async with open_session(ALONE, access) as session:
            await documents.get(session, resource, key)
    except (ApiError, ConfigError) as error:
        return explained_error(error, session)
    raise AssertionError(f"{key} can be read")


def changed(access: Access, **fields: Any) -> Access:
    return msgspec.structs.replace(access, **fields)


def first_line(error: CommandError) -> str:
    return error.prefix + error.message


AS_FLAGS: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    ((), {}),
    (("--as=alice",), {"as_user": "alice"}),
    (
        ("--as=alice", "--as-group=dev", "--as-group=ops", "--as-uid=7"),
        {"as_user": "alice", "as_groups": ("dev", "ops"), "as_uid": "7"},
    ),
    (("--as=system:serviceaccount:kube-system:default",), {"as_user": "system:serviceaccount:kube-system:default"}),
]


@pytest.mark.parametrize(("words", "fields"), AS_FLAGS, ids=["nobody else", "user", "user, groups, uid", "account"])
@pytest.mark.parametrize("own", [{}, {"as": "root", "as-groups": ["wheel"]}], ids=["plain file", "file with as"])
async def test_the_server_takes_us_for_whom_it_takes_kubectl(
    place: Place, tmp_path: Path, own: dict[str, Any], words: tuple[str, ...], fields: dict[str, Any]
) -> None:
    file = json.loads(place.plane.kubeconfig.read_text())
    file["users"][0]["user"].update(own)
    path = tmp_path / "config"
    path.write_text(json.dumps(file))
    done = await place.plane.run_kubectl("auth", "whoami", "-o", "json", f"--kubeconfig={path}", *words)
    assert done.returncode == 0, done.stderr
    async with open_session(ALONE, Access(kubeconfig=str(path), **fields)) as session:
        body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
        request = Request(method="POST", path=SELF_REVIEWS, body=body)
        call = Call(verb="create", what="me")
        review = json.loads((await session.sender.send(call, request)).body)
        assert review["status"]["userInfo"] == json.loads(done.stdout)["status"]["userInfo"]
        assert await installation.who_am_i(session) == review["status"]["userInfo"]["username"]


async def test_a_user_without_rights_reads_what_is_needed_in_kubectls_words(place: Place) -> None:
    error = await failure(changed(place.access, as_user=NOBODY), place.agent)
    kubectl = ("get", "daemonsets.apps.kruise.io", "agent", f"--namespace={place.namespace}", f"--as={NOBODY}")
    assert first_line(error) == await place.kubectl_says(*kubectl)
    assert first_line(error).startswith(
        'Error from server (Forbidden): daemonsets.apps.kruise.io "agent" is forbidden'
    )
    assert error.hints == (
        f'needed: get daemonsets.apps.kruise.io in "{place.namespace}"; ask for ClusterRole kruise-ds-operator',
    )
    assert error.exit_code == 1


async def test_who_may_not_act_as_another_reads_it_in_kubectls_words(place: Place) -> None:
    await place.api.create(ACCOUNTS, {"metadata": {"name": "visitor"}})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {"name": "visitor"}}
    token = (await place.api.create(ACCOUNTS, {**asked, "spec": {}}, sub="token"))["status"]["token"]
    error = await failure(changed(place.access, token=token, as_user=NOBODY), place.agent)
    kubectl = ("get", f"--raw={DAEMONSETS.path(place.agent)}", f"--as={NOBODY}", f"--token={token}")
    assert first_line(error) == await place.kubectl_says(*kubectl)
    assert "cannot impersonate" in first_line(error)
    assert error.hints == ("needed: the right to impersonate; ask an administrator, or act as yourself",)


async def test_a_token_that_the_server_does_not_know(place: Place) -> None:
    error = await failure(changed(place.access, token="wrong"), place.agent)
    kubectl = await place.kubectl_says("get", "pods", "--token=wrong")
    assert first_line(error).startswith(kubectl)
    assert error.hints == ("log in again, or choose another user with --context or --user",)


async def test_a_server_and_a_token_are_enough(place: Place) -> None:
    access = Access(server=place.plane.url, token=place.plane.token, certificate_authority=str(place.plane.ca_path))
    async with open_session(ALONE, access, namespace=place.namespace) as session:
        found: Any = await documents.get(session, DAEMONSETS, Key(session.namespace, "agent"))
        assert found["metadata"]["name"] == "agent"
        assert await installation.who_am_i(session) == "admin"


async def test_an_exec_plugin_with_an_old_credential_is_named(place: Place, tmp_path: Path) -> None:
    status = {"token": "old", "expirationTimestamp": "2020-01-01T00:00:00Z"}
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    file = json.loads(place.plane.kubeconfig.read_text())
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", f"print({json.dumps(json.dumps(credential))})"],
        "interactiveMode": "Never",
    }
    file["users"][0]["user"] = {"exec": plugin}
    path = tmp_path / "config"
    path.write_text(json.dumps(file))
    error = await failure(Access(kubeconfig=str(path)), place.agent)
    assert first_line(error) == (
        f"error: You must be logged in to the server (Unauthorized): context kruise-ds of {path}: "
        f'its exec plugin "{sys.executable}" hands out a credential that expired at 2020-01-01T00:00:00Z'
    )
    assert error.hints == ("log in again",)


async def test_an_object_that_is_not_there_is_said_as_kubectl_says_it(place: Place) -> None:
    error = await failure(place.access, Key(place.namespace, "gone"))
    words = ("get", "daemonsets.apps.kruise.io", "gone", f"--namespace={place.namespace}")
    assert first_line(error) == await place.kubectl_says(*words)
    assert error.hints == ()


async def test_a_kind_that_is_not_there_is_told_from_an_object(place: Place) -> None:
    missing = msgspec.structs.replace(DAEMONSETS, version="v0")
    error = await failure(place.access, place.agent, missing)
    assert first_line(error) == (
        f'error: this cluster has no daemonsets.apps.kruise.io (context "kruise-ds", {place.plane.url})'
    )
    assert error.hints == ("kubectl apply --server-side -k manifests/overlays/default",)


async def test_a_closed_port_and_a_certificate_of_an_unknown_authority(place: Place) -> None:
    url = f"https://127.0.0.1:{free_port()}"
    error = await failure(changed(place.access, server=url), place.agent)
    assert first_line(error) == f'error: cannot reach {url} (context "kruise-ds"): connection refused'
    assert error.hints == ("kubectl config current-context; kubectl cluster-info",)
    error = await failure(Access(server=place.plane.url), place.agent)
    assert "certificate verify failed" in first_line(error)
    error = await failure(changed(place.access, tls_server_name="other.example"), place.agent)
    assert "certificate verify failed: Hostname mismatch" in first_line(error)


async def test_verification_may_be_turned_off(place: Place) -> None:
    access = Access(server=place.plane.url, token=place.plane.token, insecure_skip_tls_verify=True)
    async with open_session(ALONE, access) as session:
        assert await installation.who_am_i(session) == "admin"


async def test_a_patch_is_done_under_the_name_that_was_given(place: Place) -> None:
    patch = (json_patch.add(7, "spec", "minReadySeconds"),)
    async with open_session(ALONE, place.access) as session:
        tried: Any = await documents.patch(
            session, DAEMONSETS, place.agent, patch, dry_run=True, field_manager="by-hand"
        )
        before: Any = await documents.get(session, DAEMONSETS, place.agent)
        after: Any = await documents.patch(
            session, DAEMONSETS, place.agent, patch, dry_run=False, field_manager="by-hand"
        )
    assert (tried["spec"]["minReadySeconds"], after["spec"]["minReadySeconds"]) == (7, 7)
    assert before["spec"].get("minReadySeconds", 0) == 0
    assert "by-hand" in {entry["manager"] for entry in after["metadata"]["managedFields"]}
