"""`doctor` on a cluster: what it asks the server, and how it is laid out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.beds.api import DAEMONSETS, LEASES, MERGE_PATCH, NAMESPACES, PODS
from tests.plugin.playing import HOME, LEASE, NAMESPACE, Scene, controller_pod, opened, renewed
from tests.plugin.scene import daemonset_named
from tests.plugin.users_machine import Rights, with_programs

AT_A_TERMINAL: Any = {"terminal": True, "environ": {"NO_COLOR": "1"}}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A healthy installation; kubectl and both programs on the PATH."""
    with opened() as one:
        one.environ, one.version = {"PATH": str(with_programs(tmp_path))}, "0.1.0"
        one.door = Rights(one)
        for number in range(2):
            name = controller_pod(one, "registry.example.com/kruise-ds:v0.1.0", number=number)
            ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            one.do(one.api.patch(PODS, name, ready, namespace=HOME, sub="status", content_type=MERGE_PATCH))
        yield one


def rights(scene: Scene) -> Rights:
    assert isinstance(scene.door, Rights)
    return scene.door


def doctor(scene: Scene, *words: str, columns: int = 120) -> list[str]:
    return scene.run("doctor", "-n", NAMESPACE, *words, columns=columns, **AT_A_TERMINAL).out.splitlines()


def test_all_is_well(scene: Scene) -> None:
    scene.check("doctor/well", "doctor", "-n", NAMESPACE, columns=120, **AT_A_TERMINAL)


def test_on_a_narrow_terminal(scene: Scene) -> None:
    whole = " ".join(" ".join(doctor(scene, columns=200)).split())
    for columns in (60, 80):
        lines = doctor(scene, columns=columns)
        assert (max(map(len, lines)) <= columns, " ".join(" ".join(lines).split())) == (True, whole)


def test_in_a_pipe_nothing_is_broken_over_lines(scene: Scene) -> None:
    scene.check("doctor/piped", "doctor", "-n", NAMESPACE, columns=40)


def test_another_manager_that_is_alive(scene: Scene) -> None:
    scene.do(scene.api.create(NAMESPACES, {"metadata": {"name": "kruise-system"}}))
    scene.do(renewed(scene, "kruise-system", "kruise-manager", "manager-1"))
    ran = scene.check("doctor/rival", "doctor", "-n", NAMESPACE, columns=120, **AT_A_TERMINAL)
    assert ran.code == 1


def test_a_controller_that_went_away(scene: Scene) -> None:
    scene.do(scene.controller.kill())
    scene.go_to(scene.now() + 840.0)
    ran = scene.run("doctor", "-n", NAMESPACE)
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert any(line.startswith("FAIL  2 controller pods, no controller is active: lease") for line in lines)
    assert lines[-1] == "1 problem (exit 1)"


def test_a_replica_that_is_ready_gets_a_moment_to_lead(scene: Scene) -> None:
    scene.do(scene.controller.kill())
    scene.do(scene.api.delete(LEASES, LEASE, namespace=HOME))

    async def leads_soon() -> None:
        await asyncio.sleep(3)
        await renewed(scene)

    async def started() -> asyncio.Task[None]:
        return asyncio.create_task(leads_soon())

    coming = scene.do(started())
    ran = scene.run("doctor", "-n", NAMESPACE, columns=120)
    assert (ran.code, "leader renewed" in ran.out, coming.done()) == (0, True, True), ran


def test_rights_are_asked_for_where_they_are_needed(scene: Scene) -> None:
    doctor(scene)
    assert sorted(rights(scene).asked) == sorted(
        [
            *((verb, "daemonsets", NAMESPACE) for verb in ("get", "list", "watch", "patch")),
            ("list", "pods", NAMESPACE),
            ("list", "nodes", ""),
            ("list", "controllerrevisions", NAMESPACE),
            ("create", "pods", NAMESPACE),
        ]
    )


def test_nodes_are_looked_after_in_every_namespace(scene: Scene) -> None:
    scene.kubectl = "v1.33.4"
    volumes = [{"name": "cni", "hostPath": {"path": "/var/lib/rancher/k3s/agent/etc/cni/net.d"}}]
    pod = {"containers": [{"name": "net", "image": "registry.example.com/net:v1"}], "volumes": volumes}
    template = {"metadata": {"labels": {"app": "net"}}, "spec": pod}
    spec = {"selector": {"matchLabels": {"app": "net"}}, "template": template}
    scene.do(scene.api.create(NAMESPACES, {"metadata": {"name": "network"}}))
    scene.do(scene.api.create(DAEMONSETS, {"metadata": {"name": "net", "namespace": "network"}, "spec": spec}))
    ran = scene.check("doctor/nodes", "doctor", "-n", NAMESPACE, columns=120, **AT_A_TERMINAL)
    assert ran.code == 0, "rollouts go on"


def test_a_missing_right_is_a_line_and_no_error(scene: Scene) -> None:
    rights(scene).missing = {("patch", "daemonsets"), ("list", "nodes")}
    for verb, resource in (("list", "pods"), ("get", "leases.coordination.k8s.io")):
        scene.door.forbid(verb, resource)
    ran = scene.run("doctor", "-n", NAMESPACE, columns=200)
    assert ran.code == 0, ran
    assert f"warn  you may not, in namespace {NAMESPACE}: patch daemonsets, list nodes\n" in ran.out
    assert "controller of unknown version: no right to list pods in kruise-ds-system\n" in ran.out
    assert "leader unknown: no right to get leases.coordination.k8s.io kruise-ds-system/" in ran.out
    assert ran.err == ""


def test_as_a_document(scene: Scene) -> None:
    scene.do(scene.controller.kill())
    scene.do(scene.api.delete(LEASES, LEASE, namespace=HOME))
    ran = scene.run("doctor", "-n", NAMESPACE, "-o", "json")
    document = json.loads(ran.out)
    assert (ran.code, document["kind"], document["problems"], document["warnings"]) == (1, "Checkup", 1, 0)
    (failed,) = [check for check in document["checks"] if check["level"] == "fail"]
    assert failed["about"] == "controller"
    assert failed["hints"]
    assert yaml.safe_load(scene.run("doctor", "-n", NAMESPACE, "-o", "yaml").out) == document


def test_colours_only_mark_the_level(scene: Scene) -> None:
    ran = scene.run("doctor", "-n", NAMESPACE, columns=60, colour=True, terminal=True)
    assert "\x1b[32mok" in ran.out


ELSEWHERE = "infra"
TOLD: tuple[Any, ...] = (
    pytest.param(("--controller-namespace", ELSEWHERE), {}, id="flag"),
    pytest.param((), {"KRUISE_DS_CONTROLLER_NAMESPACE": ELSEWHERE}, id="environment"),
    pytest.param(
        ("--controller-namespace", ELSEWHERE), {"KRUISE_DS_CONTROLLER_NAMESPACE": HOME}, id="the flag comes first"
    ),
)


@pytest.fixture
def moved() -> Iterator[Scene]:
    with opened() as one:
        one.do(one.controller.kill())
        one.do(one.api.delete(LEASES, LEASE, namespace=HOME))
        one.do(one.api.create(NAMESPACES, {"metadata": {"name": ELSEWHERE}}))
        one.do(renewed(one, ELSEWHERE))
        controller_pod(one, "registry.example.com/kruise-ds:v0.1.0", namespace=ELSEWHERE)
        yield one


@pytest.mark.parametrize(("words", "environ"), TOLD)
def test_it_is_found_where_it_is_said_to_be(moved: Scene, words: tuple[str, ...], environ: dict[str, str]) -> None:
    doctor = moved.run("doctor", *words, environ=environ)
    assert (doctor.code, "FAIL" in doctor.out) == (0, False), doctor
    assert "1 controller pod, 0 ready, leader renewed" in doctor.out
    version = moved.run("version", *words, environ=environ)
    assert "Controller:  0.1.0, leader kruise-ds-controller-0_sample\n" in version.out, version


@pytest.mark.parametrize(("words", "environ"), TOLD)
def test_a_change_does_not_warn_of_its_absence(moved: Scene, words: tuple[str, ...], environ: dict[str, str]) -> None:
    moved.do(moved.api.create(DAEMONSETS, daemonset_named("one")))
    told = moved.run("pause", "one", "-n", NAMESPACE, "-y", *words, environ=environ)
    assert (told.code, "no controller is active" in told.err) == (0, False), told


def test_elsewhere_it_is_missing_and_doctor_tells_how_to_say_where_it_is(moved: Scene) -> None:
    ran = moved.run("doctor", columns=200)
    assert ran.code == 1
    assert f"no controller is active: there is no lease {HOME}/{LEASE}" in ran.out
    assert "or it is installed in another namespace: --controller-namespace" in ran.out


def test_where_it_is_said_to_be_and_is_not_nothing_is_to_be_installed(moved: Scene) -> None:
    ran = moved.run("doctor", "--controller-namespace", "shop", columns=200)
    assert ran.code == 1
    assert f"no controller is active: there is no lease shop/{LEASE}" in ran.out
    assert "kubectl -n shop get pods" in ran.out
    assert "kubectl apply" not in ran.out
