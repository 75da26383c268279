"""`version`: what is known of each part, and what is said where it is not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from controller.api.names import GROUP
from controller.kube.requests import Request, Response
from kubectl_plugin.host import own_version
from kubectl_plugin.rollout.doctor_checks import too_far_apart
from tests.beds.api import LEASES, MERGE_PATCH
from tests.beds.simulator.faults import NoConnection, Rule
from tests.plugin.playing import HOME, LEASE, Scene, controller_pod, opened
from tests.plugin.users_machine import UserTransport

ROOT = Path(__file__).parents[3]


@pytest.fixture
def scene() -> Iterator[Scene]:
    with opened() as one:
        yield one


def test_client_alone_asks_no_server(scene: Scene) -> None:
    ran = scene.run("version", "--client")
    assert (ran.code, ran.out, ran.err) == (0, f"Client:      {own_version()}\n", "")


def test_client_as_a_document(scene: Scene) -> None:
    expected = {"apiVersion": "kruise-ds/v1", "kind": "Version", "client": own_version()}
    assert json.loads(scene.run("version", "--client", "-o", "json").out) == expected
    assert yaml.safe_load(scene.run("version", "--client", "-o", "yaml").out) == expected


def test_our_own_is_shown_though_no_server_answers(scene: Scene) -> None:
    scene.door.link.faults.add(Rule(NoConnection()))
    ran = scene.run("version", "--request-timeout", "1s")
    assert (ran.code, ran.out) == (1, f"Client:      {own_version()}\n")
    assert ran.err.startswith("error: ")


def test_all_four(scene: Scene) -> None:
    controller_pod(scene, f"registry.example.com:5000/kruise-ds:v{own_version()}")
    controller_pod(scene, "registry.example.com/kruise-ds:v0.0.9", number=1)
    ran = scene.run("version")
    assert ran.code == 0
    assert ran.out.splitlines() == [
        f"Client:      {own_version()}",
        f"Controller:  {own_version()}, leader kruise-ds-controller-0_sample",
        "CRD:         v1alpha1, v1beta1",
        "Server:      v1.36.3-simulated",
    ]
    assert ran.err == ""


def test_as_a_document(scene: Scene) -> None:
    controller_pod(scene, "kruise-ds:v0.1.0@sha256:0000")
    document = json.loads(scene.run("version", "-o", "json").out)
    assert document["controller"] == {"version": "0.1.0", "leader": "kruise-ds-controller-0_sample"}
    assert document["crd"]["served"] == ["v1alpha1", "v1beta1"]
    assert document["crd"]["stored"] == "", "the simulator has no CRDs to look at"
    assert document["server"] == "v1.36.3-simulated"


def test_the_label_goes_before_the_image(scene: Scene) -> None:
    controller_pod(scene, "mirror/kruise-ds:latest", version="v0.1.7")
    assert "Controller:  0.1.7, leader" in scene.run("version").out


@pytest.mark.parametrize(
    "image", ["kruise-ds:latest", "kruise-ds", "localhost:5000/kruise-ds", "kruise-ds@sha256:00"]
)
def test_an_image_that_names_no_version(scene: Scene, image: str) -> None:
    controller_pod(scene, image)
    assert f"Controller:  unknown (image {image} names no version), leader" in scene.run("version").out


def test_why_the_version_of_the_controller_is_unknown(scene: Scene) -> None:
    assert "Controller:  unknown (no controller pods in kruise-ds-system), leader" in scene.run("version").out
    scene.door.forbid("list", "pods")
    scene.door.forbid("get", "leases.coordination.k8s.io")
    ran = scene.run("version")
    assert (ran.code, "unknown (no right to list pods in kruise-ds-system)\n" in ran.out) == (0, True), ran


class Odd(UserTransport):
    """It names a version of our group without saying which."""

    async def exchange(self, request: Request) -> Response:
        if request.path == f"/apis/{GROUP}":
            return Response(status=200, body=b'{"versions":[{}]}')
        return await super().exchange(request)


def test_an_answer_that_cannot_be_read_is_unknown_and_the_rest_is_reported(scene: Scene) -> None:
    scene.door = Odd(scene.cluster)
    ran = scene.run("version")
    assert ran.code == 0, ran
    assert "CRD:         unknown (" in ran.out
    assert "Server:      v1.36.3-simulated" in ran.out


def test_without_a_leader(scene: Scene) -> None:
    controller_pod(scene, "kruise-ds:v0.1.0")
    scene.do(scene.controller.kill())
    change = {"spec": {"holderIdentity": ""}}
    scene.do(scene.api.patch(LEASES, LEASE, change, namespace=HOME, content_type=MERGE_PATCH))
    assert "Controller:  0.1.0\n" in scene.run("version").out


def test_a_warning_for_versions_that_are_far_apart(scene: Scene) -> None:
    scene.version = "0.4.0"
    controller_pod(scene, "kruise-ds:v0.1.0")
    ran = scene.run("version")
    assert ran.code == 0
    assert ran.err.splitlines()[0] == (
        "warning: plugin 0.4.0 and controller 0.1.0 are more than one minor version apart"
    )


@pytest.mark.parametrize(
    ("one", "other", "far"),
    [
        ("0.1.0", "0.1.9", False),
        ("0.1.0", "0.2.0", False),
        ("0.3.0", "v0.2.5", False),
        ("0.1.0", "0.3.0", True),
        ("1.0.0", "0.9.0", True),
        ("unknown", "0.3.0", False),
    ],
)
def test_how_far_is_too_far(one: str, other: str, far: bool) -> None:
    assert too_far_apart(one, other) is far
    assert too_far_apart(other, one) is far


def test_a_folder_that_is_not_installed() -> None:
    tell = "from kubectl_plugin.host import own_version; print(own_version())"
    without_packages = [sys.executable, "-S", "-c", tell]
    ran = subprocess.run(without_packages, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    assert ran.stdout == "unknown\n"
