"""What is found out about the installation and about names that are not there, answer by answer."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from controller.api.objects import JSON, Key
from controller.kube.connection import Connection, Credentials
from controller.kube.errors import NotFound
from controller.kube.requests import Request, Response
from kubectl_plugin.cluster import installation, reads
from kubectl_plugin.cluster.session import Session, session_over
from kubectl_plugin.errors import CommandError, NoAnswer
from kubectl_plugin.rollout.doctor_checks import ControllerPod, Leader, Rival
from tests.beds.scripted import Script
from tests.beds.virtual_time import now, virtual_time


def served(answers: Mapping[str, JSON]) -> Session:
    """Answers each path with a document, or with a status code; any other with 404."""

    async def answer(request: Request) -> Response:
        found = answers.get(request.path, 404)
        if not isinstance(found, int):
            return Response(status=200, body=msgspec.json.encode(found))
        reason = {403: "Forbidden", 404: "NotFound"}[found]
        body = {"kind": "Status", "reason": reason, "message": "no", "details": {"name": "x"}, "code": found}
        return Response(status=found, body=msgspec.json.encode(body))

    return session_over(Script(*[answer] * 400), Connection(server="http://x", credentials=Credentials()))


GROUP = "/apis/apps.kruise.io"
ALL, HERE = f"{GROUP}/v1beta1/daemonsets", f"{GROUP}/v1beta1/namespaces/default/daemonsets"


def listed(*keys: str) -> JSON:
    split = (key.split("/") for key in keys)
    return {"metadata": {}, "items": [{"metadata": {"namespace": space, "name": name}} for space, name in split]}


@pytest.mark.parametrize(
    ("answers", "hints"),
    [
        ({ALL: listed("b/agent", "a/agent", "a/other")}, ("did you mean agent? It exists in: a, b",)),
        ({ALL: 403, HERE: listed("default/agent")}, ("did you mean agent?",)),
        ({ALL: listed("b/agnet", "a/agnet")}, ("it exists in: a, b",)),
        ({ALL: listed("a/z", *(f"default/{name}" for name in "wvxy"))}, ("there are: v, w, x",)),
        ({ALL: listed("a/z")}, ()),
        ({ALL: 403, HERE: 403}, ()),
    ],
    ids=["alike", "alike here", "elsewhere", "others", "none here", "forbidden"],
)
async def test_a_name_that_is_not_there_brings_others_to_mind(
    answers: Mapping[str, JSON], hints: tuple[str, ...]
) -> None:
    error = NotFound("get", "daemonsets.apps.kruise.io default/agnet", "no", status=404, name="agnet")
    found = await reads.not_found_error(served(answers), Key("default", "agnet"), error)
    assert isinstance(found, CommandError)
    assert found.message == 'daemonsets.apps.kruise.io "agnet" not found in namespace "default"'
    assert found.hints == hints


async def test_versions_of_the_kind_are_those_that_have_it() -> None:
    kinds: dict[str, JSON] = {"v1alpha1": "imagepulljobs", "v1beta1": "daemonsets", "v1": "daemonsets"}
    found: dict[str, JSON] = {f"{GROUP}/{one}": {"resources": [{"name": name}]} for one, name in kinds.items()}
    versions: list[JSON] = [{"version": version} for version in kinds]
    assert await installation.served_versions(served({GROUP: {"versions": versions}, **found})) == ("v1", "v1beta1")
    assert await installation.served_versions(served({})) == ()
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/daemonsets.apps.kruise.io"
    of_crd: list[JSON] = [{"name": "v1", "served": True, "storage": False}, {"name": "v1beta1", "storage": True}]
    assert await installation.stored_version(served({definition: {"spec": {"versions": of_crd}}})) == "v1beta1"


RIVALS = "/apis/apps/v1/namespaces/kruise-system/deployments/kruise-controller-manager"


async def test_only_ready_replicas_of_the_other_controller_count() -> None:
    found = await installation.rival(served({RIVALS: {"status": {"replicas": 2, "readyReplicas": 1}}}))
    assert found == Rival(leader=None, replicas=1)
    assert await installation.rival(served({RIVALS: {"status": {"replicas": 2}}})) == Rival(None, 0)
    assert await installation.rival(served({})) == Rival(None, None)


def pod(name: str, version: str, ready: str) -> JSON:
    metadata: JSON = {"name": name, "uid": name, "labels": {"app.kubernetes.io/version": version}}
    return {"metadata": metadata, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


async def test_the_version_is_that_of_the_leader_or_of_all_pods() -> None:
    pods: JSON = {"metadata": {}, "items": [pod("one", "v1.2.0", "True"), pod("two", "1.3.0", "False")]}
    session = served({"/api/v1/namespaces/kruise-ds-system/pods": pods})
    found = await installation.controller_pods(session)
    assert found == (ControllerPod("one", True, "1.2.0"), ControllerPod("two", False, "1.3.0"))
    assert installation.version_of_leader(session, Leader("two_ab", 0.0), found) == "1.3.0"
    differ, none = NoAnswer("its pods have different versions"), "no controller pods in kruise-ds-system"
    assert installation.version_of_leader(session, Leader("three_ab", 0.0), found) == differ
    assert installation.version_of_leader(session, None, found[:1]) == "1.2.0"
    assert installation.version_of_leader(session, None, ()) == NoAnswer(none)


@virtual_time
async def test_a_leader_to_come_is_waited_for_ten_seconds() -> None:
    assert await installation.coming_leader(served({})) is None
    assert 10.0 <= now() <= 10.6
