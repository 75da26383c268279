"""A controller that was installed in another namespace than that of the manifests, and is well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controller.api.objects import rfc3339
from tests.beds.api import DAEMONSETS, LEASES, NAMESPACES, PODS
from tests.plugin.playing import HOME, LEASE, NAMESPACE, Scene, opened
from tests.plugin.scene import daemonset_named

ELSEWHERE = "infra"
TOLD: tuple[Any, ...] = (
    pytest.param(("--controller-namespace", ELSEWHERE), {}, id="flag"),
    pytest.param((), {"KRUISE_DS_CONTROLLER_NAMESPACE": ELSEWHERE}, id="environment"),
    pytest.param(
        ("--controller-namespace", ELSEWHERE), {"KRUISE_DS_CONTROLLER_NAMESPACE": HOME}, id="the flag comes first"
    ),
)


@pytest.fixture
def scene() -> Iterator[Scene]:
    with opened() as one:
        one.do(one.controller.kill())
        one.do(one.api.delete(LEASES, LEASE, namespace=HOME))
        one.do(one.api.create(NAMESPACES, {"metadata": {"name": ELSEWHERE}}))
        spec = {
            "holderIdentity": "kruise-ds-controller-0_1",
            "renewTime": rfc3339(one.now()).replace("Z", ".000000Z"),
        }
        one.do(one.api.create(LEASES, {"metadata": {"name": LEASE, "namespace": ELSEWHERE}, "spec": spec}))
        labels = {"app.kubernetes.io/name": "kruise-ds", "app.kubernetes.io/component": "controller"}
        metadata = {"name": "kruise-ds-controller-0", "namespace": ELSEWHERE, "labels": labels}
        image = "registry.example.com/kruise-ds:v0.1.0"
        containers = [{"name": "controller", "image": image}]
        one.do(one.api.create(PODS, {"metadata": metadata, "spec": {"containers": containers}}))
        yield one


@pytest.mark.parametrize(("words", "environ"), TOLD)
def test_it_is_found_where_it_is_said_to_be(scene: Scene, words: tuple[str, ...], environ: dict[str, str]) -> None:
    doctor = scene.run("doctor", *words, environ=environ)
    assert (doctor.code, "FAIL" in doctor.out) == (0, False), doctor
    assert "1 controller pod, 0 ready, leader renewed" in doctor.out
    version = scene.run("version", *words, environ=environ)
    assert "Controller:  0.1.0, leader kruise-ds-controller-0_1\n" in version.out, version


@pytest.mark.parametrize(("words", "environ"), TOLD)
def test_a_change_does_not_warn_of_its_absence(scene: Scene, words: tuple[str, ...], environ: dict[str, str]) -> None:
    scene.do(scene.api.create(DAEMONSETS, daemonset_named("one")))
    told = scene.run("pause", "one", "-n", NAMESPACE, "-y", *words, environ=environ)
    assert (told.code, "no controller is active" in told.err) == (0, False), told


def test_elsewhere_it_is_missing_and_doctor_tells_how_to_say_where_it_is(scene: Scene) -> None:
    ran = scene.run("doctor", columns=200)
    assert ran.code == 1
    assert f"no controller is active: there is no lease {HOME}/{LEASE}" in ran.out
    assert "or it is installed in another namespace: --controller-namespace" in ran.out


def test_where_it_is_said_to_be_and_is_not_nothing_is_to_be_installed(scene: Scene) -> None:
    ran = scene.run("doctor", "--controller-namespace", "shop", columns=200)
    assert ran.code == 1
    assert f"no controller is active: there is no lease shop/{LEASE}" in ran.out
    assert "kubectl -n shop get pods" in ran.out
    assert "kubectl apply" not in ran.out
