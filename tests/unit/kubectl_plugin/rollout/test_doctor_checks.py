"""What `doctor` makes of what it finds, and what it finds on this machine."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubectl_plugin.commands.doctor import installed_programs
from kubectl_plugin.errors import NoAnswer
from kubectl_plugin.host import Host
from kubectl_plugin.rollout.doctor_checks import (
    ControllerPod,
    DoctorCheck,
    Facts,
    Leader,
    Level,
    Machine,
    OurDaemonSet,
    Right,
    Rival,
    checkup,
    problems,
)
from tests.beds.programs import program
from tests.beds.virtual_time import virtually

NOW = 1_763_640_250.0
RIGHTS = (
    *(Right(verb, "daemonsets.apps.kruise.io", True) for verb in ("get", "list", "watch", "patch")),
    *(Right("list", resource, True) for resource in ("pods", "nodes", "controllerrevisions.apps")),
    Right("create", "pods", True),
)
HERE = Machine(
    kubectl="v1.36.3", plugin="/bin/kubectl-kruise_ds", completion="/bin/kubectl_complete-kruise_ds", shadow=""
)
AGENT = OurDaemonSet("observability/node-agent", network="")
WELL = Facts(
    now=NOW,
    namespace="observability",
    controller_namespace="kruise-ds-system",
    machine=HERE,
    client="0.1.0",
    server="v1.31.2",
    served=("v1alpha1", "v1beta1"),
    leader=Leader("kruise-ds-controller-0_x", NOW - 3),
    pods=(
        ControllerPod("kruise-ds-controller-0", True, "0.1.0"),
        ControllerPod("kruise-ds-controller-1", True, "0.1.0"),
    ),
    controller="0.1.0",
    rights=RIGHTS,
    rival=Rival(leader=None, replicas=None),
    daemons=(AGENT,),
)
OLD = replace(HERE, kubectl="v1.33.4")
NETWORK = (AGENT, OurDaemonSet("kube-system/net", network="mounts /etc/cni/net.d as a network plugin does"))
ON_HOST = tuple(ControllerPod(name, True, "0.1.0", host_network=True) for name in ("first", "second"))
NO_RIGHT = NoAnswer("no right to look")


def about(facts: Facts, subject: str) -> list[DoctorCheck]:
    return [check for check in checkup(facts) if check.about == subject]


def without(*lacking: tuple[str, str]) -> tuple[Right, ...]:
    return tuple(replace(right, allowed=(right.verb, right.resource) not in lacking) for right in RIGHTS)


def test_all_is_well() -> None:
    checks = checkup(WELL)
    assert {check.level for check in checks} == {Level.OK}
    assert [check.message for check in checks] == [
        "kubectl 1.36.3, cluster v1.31.2 (needs 1.30+)",
        "kruise-ds 0.1.0 client = controller",
        "CRD daemonsets.apps.kruise.io v1alpha1, v1beta1",
        "2 controller pods, leader renewed 3s ago",
        "you may: get list watch patch daemonsets, list pods nodes controllerrevisions, create pods (dry run)",
        "no other controller of the kind",
        "kubectl kruise-ds <TAB> works where kubectl's own completion does",
    ]
    assert problems(checks) == 0


def test_whose_clock_may_be_wrong_is_reported_where_a_leader_is_silent() -> None:
    """Ours is put right by the server's answers, so it is not ours."""
    words = "or the leader's clock is behind the API server's"
    for leader, told in ((Leader("x", NOW - 840), True), (Leader("", NOW - 30), False), (None, False)):
        (check,) = about(replace(WELL, leader=leader), "controller")
        assert (words in check.hints) is told


@pytest.mark.parametrize(
    ("change", "subject", "says"),
    [
        ({"server": "v1.29.14"}, "cluster", "cluster v1.29.14 (needs 1.30+)"),
        ({"served": ()}, "crd", "is not installed"),
        ({"served": ("v1alpha1",)}, "crd", "v1beta1 is not served"),
        ({"leader": None}, "controller", "2 controller pods, no controller is active: there is no lease"),
        ({"leader": None, "pods": ()}, "controller", "no controller is active: there is no lease"),
        ({"leader": Leader("", NOW - 30)}, "controller", "was given back 30s ago"),
        ({"leader": Leader("x", NOW - 840)}, "controller", "was last renewed 14m ago"),
        ({"rival": Rival(Leader("manager-1", NOW - 2), None)}, "rival", "kruise-controller-manager also runs here"),
        ({"rival": Rival(None, 2)}, "rival", "kruise-controller-manager also runs here"),
    ],
    ids=str,
)
def test_what_stops_rollouts_fails(change: dict[str, Any], subject: str, says: str) -> None:
    facts = replace(WELL, **change)
    (check,) = about(facts, subject)
    assert check.level is Level.FAIL
    assert says in check.message
    assert check.hints, "and says what to do"
    assert problems(checkup(facts)) == 1


@pytest.mark.parametrize(
    ("change", "subject", "says"),
    [
        ({"server": NO_RIGHT}, "cluster", "cluster of unknown version: no right to look"),
        ({"machine": replace(HERE, kubectl=NoAnswer("it is not on the PATH"))}, "cluster", "no kubectl"),
        ({"controller": NO_RIGHT}, "versions", "controller of unknown version: no right to look"),
        ({"controller": "0.3.0"}, "versions", "more than one minor version apart"),
        ({"served": NO_RIGHT}, "crd", "no right to look"),
        ({"leader": NO_RIGHT}, "controller", "leader unknown: no right to look"),
        ({"rival": NO_RIGHT}, "rival", "cannot see whether"),
        ({"machine": replace(HERE, completion="")}, "completion", "no completion"),
        ({"machine": replace(HERE, plugin="")}, "completion", "kubectl does not find it"),
        ({"machine": replace(HERE, shadow="/bin/kubectl-kruise-ds")}, "shadow", "/bin/kubectl-kruise-ds answers"),
        ({"machine": OLD}, "drain", "kubectl drain before 1.34 fails"),
        ({"daemons": NETWORK}, "network", "kube-system/net mounts /etc/cni/net.d as a network plugin does"),
        ({"daemons": NETWORK, "pods": (*ON_HOST, ControllerPod("x", True, "0.1.0"))}, "network", "kube-system/net"),
    ],
    ids=str,
)
def test_what_cannot_be_seen_or_is_inconvenient_only_warns(change: dict[str, Any], subject: str, says: str) -> None:
    facts = replace(WELL, **change)
    (check,) = about(facts, subject)
    assert check.level is Level.WARN
    assert says in check.message
    assert problems(checkup(facts)) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"controller": "0.2.0"},
        {"leader": Leader("x", NOW - 59)},
        {"leader": Leader("x", NOW + 20)},
        {"pods": NO_RIGHT},
        {"pods": ()},
        {"rival": Rival(Leader("manager-1", NOW - 86_400), None)},
        {"rival": Rival(Leader("", NOW - 2), 0)},
        {"server": "v1.30.0-gke.1"},
        {"machine": replace(HERE, kubectl="v1.34.0")},
        {"machine": OLD, "daemons": ()},
        {"machine": OLD, "daemons": NO_RIGHT},
        {"daemons": NETWORK, "pods": ON_HOST},
        {"daemons": NETWORK, "pods": ()},
        {"daemons": NETWORK, "pods": NO_RIGHT},
    ],
    ids=str,
)
def test_nothing_to_complain_about(change: dict[str, Any]) -> None:
    facts = replace(WELL, **change)
    assert [check for check in checkup(facts) if check.level is not Level.OK] == []


def test_pods_that_are_not_ready_are_counted() -> None:
    pods = (ControllerPod("a", True, "0.1.0"), ControllerPod("b", False, "0.1.0"))
    (check,) = about(replace(WELL, pods=pods), "controller")
    assert check.message == "2 controller pods, 1 ready, leader renewed 3s ago"


def test_a_right_that_is_missing() -> None:
    have, lack = about(replace(WELL, rights=without(("patch", "daemonsets.apps.kruise.io"))), "rights")
    assert have.message.startswith("you may: get list watch daemonsets, ")
    assert (lack.level, lack.message) == (Level.WARN, "you may not, in namespace observability: patch daemonsets")
    assert lack.hints == ("ask for ClusterRole kruise-ds-operator",)


def test_who_may_not_even_look_has_a_problem() -> None:
    _, lack = about(replace(WELL, rights=without(("get", "daemonsets.apps.kruise.io"))), "rights")
    assert lack.level is Level.FAIL
    nothing = replace(WELL, rights=tuple(replace(right, allowed=False) for right in RIGHTS))
    (lack,) = about(nothing, "rights")
    assert (lack.level, problems(checkup(nothing))) == (Level.FAIL, 1)


def test_a_dry_run_needs_another_right_than_the_operators() -> None:
    _, lack = about(replace(WELL, rights=without(("create", "pods"))), "rights")
    assert lack.message == "you may not, in namespace observability: create pods (dry run)"
    assert lack.hints == ("without `create pods` nothing can try out a template before it is rolled out",)


def test_rights_that_the_server_does_not_tell() -> None:
    rights = tuple(replace(right, allowed=NoAnswer("not served")) for right in RIGHTS)
    (check,) = about(replace(WELL, rights=rights), "rights")
    assert (check.level, check.message) == (Level.WARN, "your rights are unknown: not served")


async def test_nothing_there(tmp_path: Path) -> None:
    found = await installed_programs(Host({"PATH": str(tmp_path)}))
    assert found == Machine(NoAnswer("it is not on the PATH"), plugin="", completion="", shadow="")


class Hanging(Host):
    """Each of its programs runs until nothing waits for it any longer."""

    left = False

    async def run_program(self, *command: str) -> tuple[int, bytes, bytes]:
        try:
            await asyncio.Event().wait()
        finally:
            self.left = True
        raise AssertionError


def test_a_kubectl_that_does_not_answer_is_ended(tmp_path: Path) -> None:
    path, host = program(tmp_path, "kubectl"), Hanging({"PATH": str(tmp_path)})
    assert virtually(installed_programs(host)).kubectl == NoAnswer(f"{path} does not answer")
    assert host.left
