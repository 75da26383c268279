"""migrate: what it tells and asks before, and what is left when it cannot be finished."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from tests.beds.api import DAEMONSETS, PODS
from tests.beds.native import NATIVE
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import Answer, LoseAnswer, Rule
from tests.beds.simulator.kinds import DAEMONSETS as OUR_KIND
from tests.plugin.playing import Ran, Scene
from tests.plugin.scene import daemonset
from tests.plugin.users_machine import Rights
from tests.plugin.verbs.few_nodes import HOME, NODES, acted, ends_it, few_nodes, signalled, stop_serving
from tests.plugin.verbs.natives import NAME, STRATEGY, acts, native_nodes, ours, owners, pods, theirs

OURS, THEIRS = "apps.kruise.io/v1beta1", "apps/v1"
ARGO = {"argocd.argoproj.io/tracking-id": "agents:apps/DaemonSet:observability/node-agent"}


def migrated(scene: Scene, *words: str, **options: Any) -> Ran:
    return scene.run("migrate", *words, *HOME, meanwhile=acts, **options)


def test_it_is_reported_and_asked_before() -> None:
    with native_nodes(old=1) as scene:
        scene.check("migrate/asked", "migrate", NAME, *HOME, terminal=True, typed="n\n")
        assert not ours(scene)


def test_there_and_back() -> None:
    with native_nodes(old=1) as scene:
        before = pods(scene)
        scene.check("migrate/to-ours", "migrate", NAME, "-y", *HOME, meanwhile=acts)
        assert (pods(scene), owners(scene), theirs(scene)) == (before, {OURS}, {})
        assert ours(scene)[NAME]["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 1
        scene.pass_time(600.0)
        assert pods(scene) == before, "the old one stays"
        scene.check("migrate/to-native", "migrate", NAME, "--to-native", "-y", *HOME, meanwhile=acts)
        assert (pods(scene), owners(scene), ours(scene)) == (before, {THEIRS}, {})
        assert theirs(scene)[NAME]["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_pods_that_never_ran_are_not_waited_for_without_end() -> None:
    with native_nodes() as scene:
        scene.do(stop_serving(scene, *NODES))
        assert migrated(scene, NAME, "-y").code == 0
        began = scene.now()
        ran = scene.run("status", NAME, *HOME, "-w", "--timeout", "2h")
        assert (ran.code, "stalled at 0 of 4 nodes" in ran.err) == (4, True), ran.err
        assert scene.now() - began < 620.0


def test_a_dry_run_writes_nothing() -> None:
    with native_nodes() as scene:
        ran = migrated(scene, NAME, "--dry-run")
        assert ran.code == 0, ran
        assert "4 pods keep running, none is restarted" in ran.out
        assert (owners(scene), ours(scene)) == ({THEIRS}, {})
        assert "kruise-ds/migration" not in theirs(scene)[NAME]["metadata"].get("annotations", {})


def test_without_a_terminal_to_ask() -> None:
    with native_nodes() as scene:
        ran = migrated(scene, NAME)
        assert (ran.code, ours(scene)) == (6, {})
        assert ran.err == (
            "error: 1 DaemonSet would be changed, and there is no terminal to ask\n"
            "  hint: look first, with --dry-run; then add --yes\n"
        )


def test_the_environment_says_yes_but_not_for_all_namespaces() -> None:
    never = {"KRUISE_DS_PROMPT": "never"}
    with native_nodes() as scene:
        assert scene.run("migrate", "-A", environ=never).code == 6
        assert ours(scene) == {}
        assert migrated(scene, NAME, environ=never).code == 0
        assert owners(scene) == {OURS}


def test_without_a_controller_it_is_taken_back() -> None:
    with native_nodes() as scene:
        scene.do(scene.controller.kill())
        before = pods(scene)
        ran = migrated(scene, NAME, "-y")
        assert ran.code == 3, ran
        assert "error: node-agent: still waiting for the kruise-ds controller to observe it\n" in ran.err
        assert (pods(scene), owners(scene), ours(scene)) == (before, {THEIRS}, {})
        assert theirs(scene)[NAME]["spec"]["updateStrategy"] == STRATEGY


def test_without_a_native_controller_the_ways_on_and_back_are_reported(scene: Scene) -> None:
    before = pods(scene)
    ran = scene.run("migrate", NAME, "--to-native", "-y", *HOME)
    assert ran.code == 3, ran
    assert ran.err.splitlines()[-3:] == [
        "  hint: back: kubectl kruise-ds migrate node-agent -n observability",
        "error: node-agent: still waiting for the native controller to adopt pods and revisions",
        "  hint: kube-controller-manager does that: does it run?",
    ]
    assert (pods(scene), owners(scene)) == (before, {"nobody"})
    ran = migrated(scene, NAME, "-y")
    assert ran.code == 0, ran
    assert (pods(scene), owners(scene), theirs(scene)) == (before, {OURS}, {})


@ends_it
def test_ending_it_shows_the_ways_on_and_back(number: signal.Signals, code: int) -> None:
    with few_nodes() as scene:
        ran = acted(scene, "migrate", "--to-native", "-y", meanwhile=signalled(number, 10.0))
    assert ran.code == code
    assert ran.err.endswith(
        "warning: interrupted: node-agent: the migration is not finished, its pods keep running\n"
        "  hint: on: kubectl kruise-ds migrate node-agent -n observability --to-native\n"
        "  hint: back: kubectl kruise-ds migrate node-agent -n observability\n"
    )


def test_who_would_make_it_again_has_to_be_stopped_first() -> None:
    with native_nodes(annotations=ARGO) as scene:
        scene.check("migrate/argo", "migrate", NAME, "-y", *HOME)
        ran = migrated(scene, NAME, "-y", "--sync-stopped")
        assert ran.code == 0, ran
        assert not ARGO.keys() & ours(scene)[NAME]["metadata"]["annotations"].keys(), "that is not its id"


def test_the_manifest_for_a_repository() -> None:
    with native_nodes(annotations=ARGO) as scene:
        scene.check("migrate/print", "migrate", NAME, "--print", *HOME)


def test_the_manifest_of_a_held_native_one_says_what_is_lost() -> None:
    with native_nodes(old=1) as scene:
        assert migrated(scene, NAME, "-y").code == 0
        scene.check("migrate/print-held", "migrate", NAME, "--to-native", "--print", *HOME)


def test_the_manifest_of_what_is_ours_already() -> None:
    with native_nodes(old=1) as scene:
        assert migrated(scene, NAME, "-y").code == 0
        ran = migrated(scene, NAME, "--print")
        assert ran.code == 0, ran
        assert ran.out.startswith(
            "# node-agent is an Advanced DaemonSet already: this is its manifest.\napiVersion: apps.kruise"
        )
        assert "    partition: 1\n" in ran.out, "nobody noted what was applied"


def test_without_a_right_nothing_is_begun() -> None:
    """The server says so in advance."""
    with native_nodes() as scene:
        scene.door = Rights(scene)
        scene.door.missing.add(("delete", "daemonsets"))
        ran = migrated(scene, NAME, "-y")
        assert ran.code == 1, ran
        rights = "delete daemonsets.apps.kruise.io, delete daemonsets.apps"
        assert ran.err.startswith(f"error: no right to {rights} in observability: nothing was begun\n")
        assert ours(scene) == {}


@pytest.mark.parametrize("native", [False, True], ids=["to-ours", "to-native"])
@pytest.mark.parametrize("number", range(1, 7))
@pytest.mark.parametrize("fault", [Answer(500, "InternalError", "etcd is away"), LoseAnswer()], ids=["500", "lost"])
def test_a_write_that_fails_moves_no_pod(native: bool, number: int, fault: Answer | LoseAnswer) -> None:
    """Of whatever write: afterwards it is as it was, or the same command goes on."""
    with native_nodes(old=1) as scene:
        before = pods(scene)
        if native:
            assert migrated(scene, NAME, "-y").code == 0
        scene.door.link.faults.add(Rule(fault, verb="[cpd]*", resource="daemonsets*", nth=(number,)))
        direction = ["--to-native"] if native else []
        ran = migrated(scene, NAME, "-y", *direction)
        assert ran.code in (0, 1), ran
        assert pods(scene) == before
        again = migrated(scene, NAME, "-y", *direction)
        assert again.code == 0, again
        assert (pods(scene), owners(scene)) == (before, {THEIRS if native else OURS})
        scene.pass_time(600.0)
        assert pods(scene) == before


def test_several_are_asked_for_once_and_one_that_may_not_is_left_out() -> None:
    with native_nodes("one", "two", "three") as scene:
        scene.do(scene.api.create(DAEMONSETS, {**daemonset(), "metadata": {"name": "two"}}))
        ran = migrated(scene, "--all", terminal=True, typed="y\n")
        assert ran.code == 6, ran
        assert "two exists both as a native and as an Advanced DaemonSet" in ran.err
        assert {*theirs(scene)} == {"two"}


def test_the_first_that_fails_is_the_last_one() -> None:
    with native_nodes("one", "two") as scene:
        scene.door.forbid("create", "daemonsets.apps.kruise.io")
        ran = migrated(scene, "--all", "-y")
        assert ran.code == 1, ran
        assert {*theirs(scene)} == {"one", "two"}


def test_who_undoes_each_time_what_is_done_ends_it() -> None:
    """A webhook drops finalizers that it does not know."""

    def admission(attempt: Attempt) -> None:
        if attempt.kind is OUR_KIND and attempt.object is not None:
            attempt.object["metadata"].pop("finalizers", None)

    with native_nodes() as scene:
        assert migrated(scene, NAME, "-y").code == 0
        before = pods(scene)
        scene.cluster.admission.append(admission)
        ran = migrated(scene, NAME, "--to-native", "-y")
        assert ran.code == 4, ran
        assert "does not stay as it was written" in ran.err
        assert (pods(scene), owners(scene), theirs(scene)) == (before, {OURS}, {})


def test_where_new_pods_never_end_it_is_taken_back_after_a_minute() -> None:
    """Its last pod is always a moment old, and might be deleted with its former owner."""

    async def replaced(scene: Scene) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(acts(scene))
            group.create_task(_replacing(scene))

    with native_nodes() as scene:
        ran = scene.run("migrate", NAME, "-y", *HOME, meanwhile=replaced)
        assert ran.code == 3, ran
        assert "note: waiting for no new pod for 3 s\n" in ran.err
        assert "run it again when that has stopped" in ran.err
        assert ({*theirs(scene)}, ours(scene), owners(scene)) == ({NAME}, {}, {THEIRS})


async def _replacing(scene: Scene) -> None:
    """Until the native one is as it was."""
    number = 0
    while number < 3 or await scene.api.find(DAEMONSETS, NAME) is not None:
        await asyncio.sleep(1.0)
        number += 1
        former = await scene.pod_on(NODES[0])
        metadata = {**former["metadata"], "name": f"{NAME}-y{number}"}
        kept = {key: metadata[key] for key in ("name", "labels", "ownerReferences") if key in metadata}
        await scene.api.delete(PODS, former["metadata"]["name"], gracePeriodSeconds="0")
        await scene.api.create(PODS, {"metadata": kept, "spec": former["spec"]})


def test_all_namespaces_are_not_changed_by_a_slip() -> None:
    with native_nodes("one", "two") as scene:
        ran = migrated(scene, "-A", terminal=True, typed="y\n")
        assert ran.code == 6, ran
        assert "-A would change 2 DaemonSets in all namespaces" in ran.err
        assert ours(scene) == {}
        assert migrated(scene, "-A", "-y").code == 0
        assert {*ours(scene)} == {"one", "two"}


def test_what_looks_like_the_network_is_moved_by_its_name_only() -> None:
    with native_nodes("one", "two") as scene:
        volumes = [{"name": "net", "hostPath": {"path": "/opt/cni/bin"}}]
        scene.do(scene.api.patch(NATIVE, "two", {"spec": {"template": {"spec": {"volumes": volumes}}}}))
        ran = migrated(scene, "--all", "-y")
        assert (ran.code, {*ours(scene)}, {*theirs(scene)}) == (6, {"one"}, {"two"})
        assert ran.err == (
            "error: two mounts /opt/cni/bin as a network plugin does: the controller's own pods may need it to "
            "start; left out\n"
            "  hint: to migrate it anyway: kubectl kruise-ds migrate two -n observability\n"
        )
        ran = migrated(scene, "two", "--dry-run")
        assert ran.code == 0, ran
        assert ran.err.startswith("warning: two mounts /opt/cni/bin as a network plugin does: ")


def test_the_name_as_kubectl_prints_it() -> None:
    with native_nodes() as scene:
        assert migrated(scene, f"daemonset.apps/{NAME}", "-y").code == 0
        ran = migrated(scene, f"daemonset.apps.kruise.io/{NAME}", "-y")
        assert (ran.code, ran.out) == (0, "node-agent is an Advanced DaemonSet already\n")
        assert migrated(scene, f"deployment.apps/{NAME}", "-y").code == 2
