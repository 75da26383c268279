"""`kubectl kruise-ds migrate` between the native controller and ours, both real, judged by the pods."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
import yaml

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.plugin import Plugin
from tests.beds.installed.witness import Witness, witnessing
from tests.beds.installed.workspace import Workspace, bed_on, sample
from tests.beds.native import NATIVE, native_controller, native_status
from tests.beds.nodes import Behaviour
from tests.beds.pods import controller_of, image_of, is_live, node_of
from tests.e2e.guide import MIGRATION, commands

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller", "beside")]

NODES = tuple(f"node-{number}" for number in range(6))
IMAGE = "registry.example.com/demo"
OURS, THEIRS = "apps.kruise.io/v1beta1", "apps/v1"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def beside(plane: ControlPlane) -> AsyncIterator[None]:
    """The native controller runs too."""
    async with native_controller(plane):
        yield


@pytest.fixture
def plugin(bed: Workspace, plane: ControlPlane) -> Plugin:
    return Plugin(plane.kubectl, plane.kubeconfig, bed.namespace)


def written(version: str, api_version: str = THEIRS, rolling: dict[str, int] | None = None) -> Object:
    """As somebody keeps it in a file."""
    document = sample("ds.demo.yaml")
    document["apiVersion"] = api_version
    document["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling or {"maxUnavailable": 1}}
    document["spec"]["template"]["spec"]["containers"][0]["image"] = f"{IMAGE}:{version}"
    return document


async def native_settled(bed: Workspace) -> Object:
    return await native_status(bed.api, "demo", numberAvailable=len(NODES), updatedNumberScheduled=len(NODES))


@asynccontextmanager
async def untouched(bed: Workspace, witness: Witness) -> AsyncIterator[None]:
    """In the block no pod goes, is changed in more than its owner, or gets a second one beside it."""
    await witness.up_to_date()
    witness.floor, witness.most_pairs = len(witness.ready), 0
    before, gone = _identities(await bed.pods()), len(witness.retired)
    yield
    await witness.up_to_date()
    assert len(witness.retired) == gone, "no pod went"
    assert _identities(await bed.pods()) == before
    witness.floor = len(NODES) - 1


def _identities(pods: list[Object]) -> dict[str, tuple[str, Object, str]]:
    """By node."""
    metas = {node_of(pod): pod["metadata"] for pod in pods if is_live(pod)}
    return {node: (meta["uid"], meta["labels"], image_of(pod)) for pod in pods for node, meta in metas.items()}


async def owners(bed: Workspace) -> set[str]:
    return {controller_of(pod)["apiVersion"] for pod in await bed.pods()}


async def images(bed: Workspace) -> dict[str, str]:
    return {node_of(pod): image_of(pod).rpartition(":")[2] for pod in await bed.pods() if is_live(pod)}


@pytest.mark.parametrize("limits", [{"maxUnavailable": 1}, {"maxSurge": 1, "maxUnavailable": 0}], ids=["", "surge"])
async def test_native_to_ours_rollback_and_back(bed: Workspace, plugin: Plugin, limits: dict[str, int]) -> None:
    await bed.workers(*NODES)
    for version in ("v1", "v2"):
        await bed.apply(written(version, rolling=limits))
        await native_settled(bed)
    async with witnessing(bed.api) as witness:
        async with untouched(bed, witness):
            await plugin.ok("migrate", "demo", "-y")
            found = await bed.settled(len(NODES))
            assert await owners(bed) == {OURS}
            assert await bed.api.list(NATIVE) == []
        assert found["numberAvailable"] == len(NODES)
        printed = await plugin.ok("history", "demo")
        assert "image demo v1 → v2" in printed, "the history came along"
        witness.most_pairs = limits.get("maxSurge", 0)
        await plugin.ok("rollback", "demo", "-y", "--wait", "--timeout=60s")
        await bed.settled(len(NODES))
        assert {*(await images(bed)).values()} == {"v1"}, "on the first day"
        async with untouched(bed, witness):
            await plugin.ok("migrate", "demo", "--to-native", "-y")
            await native_settled(bed)
            assert await owners(bed) == {THEIRS}
            assert await bed.api.list(DAEMONSETS) == []
        # The native controller goes on to the next node before it deletes the old pod of the one before.
        witness.most_pairs = 2 * limits.get("maxSurge", 0)
        await bed.kubectl("rollout", "undo", "daemonset.apps/demo")
        await native_settled(bed)
        assert {*(await images(bed)).values()} == {"v2"}


async def test_in_mid_rollout_who_is_old_stays_old_until_somebody_says_so(bed: Workspace, plugin: Plugin) -> None:
    await bed.workers(*NODES)
    await bed.apply(written("v1"))
    await native_settled(bed)
    bed.nodes.behave("*", Behaviour(ready=None))
    await bed.apply(written("v2"))
    await native_status(bed.api, "demo", updatedNumberScheduled=1, numberUnavailable=1)
    async with witnessing(bed.api) as witness:
        async with untouched(bed, witness):
            told = await plugin.ok("migrate", "demo", "--dry-run")
            assert "5 nodes keep an older revision: partition 5" in told
            assert await owners(bed) == {THEIRS}
            await plugin.ok("migrate", "demo", "-y")
            await bed.status(updatedNumberScheduled=1, desiredNumberScheduled=len(NODES))
            bed.nodes.behave("*")
            await bed.status(numberAvailable=len(NODES))
            assert sorted((await images(bed)).values()) == ["v1"] * 5 + ["v2"]
        await plugin.ok("set-partition", "demo", "0")
        await bed.settled(len(NODES))


async def test_a_canary_of_ours_becomes_a_native_one_that_updates_nothing(bed: Workspace, plugin: Plugin) -> None:
    """Its file says less than the server stores of a native one, so no stored revision has that one's bytes."""
    await bed.workers(*NODES)
    await bed.apply(written("v1", OURS))
    await bed.settled(len(NODES))
    canary = written("v2", OURS)
    canary["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 4
    await bed.apply(canary)
    await bed.status(updatedNumberScheduled=2, numberAvailable=len(NODES))
    async with witnessing(bed.api) as witness:
        async with untouched(bed, witness):
            told = await plugin.ok("migrate", "demo", "--to-native", "--dry-run")
            assert "lost      a native DaemonSet has no partition" in told
            printed = await plugin.ok("migrate", "demo", "--to-native", "--print")
            assert "# Lost, as a native DaemonSet does not have it: partition.\n" in printed
            await plugin.ok("migrate", "demo", "--to-native", "-y")
            for again in (False, True):
                if again:
                    await bed.kubectl("apply", "-f", "-", stdin=printed)
                found = await native_status(bed.api, "demo", numberAvailable=len(NODES), updatedNumberScheduled=2)
                assert found["spec"]["updateStrategy"] == {"type": "OnDelete"}
        await goes_on(bed)


async def goes_on(bed: Workspace) -> None:
    """As the manual has it: the native one updates the nodes that kept an older revision."""
    strategy = '{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}'
    await bed.kubectl("patch", "daemonset.apps", "demo", "--type=merge", "-p", strategy)
    await native_settled(bed)
    assert {*(await images(bed)).values()} == {"v2"}


@pytest.mark.parametrize("by", ["native", "ours"])
async def test_pods_that_a_former_native_one_made_are_not_current_for_the_next_one(
    bed: Workspace, plugin: Plugin, by: str
) -> None:
    """Who began the rollout: they carry its number of the template, and a new one would count from 1 again."""
    await bed.workers(*NODES)
    await bed.apply(written("v1"))
    await native_settled(bed)
    if by == "native":
        bed.nodes.behave("*", Behaviour(ready=None))
        await bed.apply(written("v2"))
        await native_status(bed.api, "demo", updatedNumberScheduled=1, numberUnavailable=1)
    await plugin.ok("migrate", "demo", "-y")
    bed.nodes.behave("*")
    await bed.status(numberAvailable=len(NODES))
    if by == "ours":
        await plugin.ok("set-image", "demo", f"*={IMAGE}:v2", "--hold-at", "5", "--wait", "-y")
    async with witnessing(bed.api) as witness:
        async with untouched(bed, witness):
            await plugin.ok("migrate", "demo", "--to-native", "-y")
            await native_status(bed.api, "demo", numberAvailable=len(NODES), updatedNumberScheduled=1)
        await goes_on(bed)


async def test_what_is_printed_for_a_repository_changes_no_pod(bed: Workspace, plugin: Plugin) -> None:
    await bed.workers(*NODES)
    await bed.apply(written("v1"))
    await native_settled(bed)
    printed = await plugin.ok("migrate", "demo", "--print")
    assert yaml.safe_load(printed)["apiVersion"] == OURS
    async with witnessing(bed.api) as witness, untouched(bed, witness):
        await plugin.ok("migrate", "demo", "-y")
        before = await bed.settled(len(NODES))
        done = await bed.tried("apply", "-f", "-", stdin=printed)
        assert (done.returncode, done.stderr) == (0, "")
        assert (await bed.settled(len(NODES)))["updateRevision"] == before["updateRevision"]


async def test_a_print_tells_what_was_changed_since_and_what_is_ours_already(bed: Workspace, plugin: Plugin) -> None:
    await bed.workers(*NODES)
    await bed.apply(written("v1"))
    await native_settled(bed)
    await bed.kubectl("set", "image", "daemonset.apps/demo", f"demo={IMAGE}:v2")
    await native_settled(bed)
    differs = "# This is what was applied last, and differs from what runs: image demo v2 -> v1.\n"
    assert differs in await plugin.ok("migrate", "demo", "--print")
    await plugin.ok("migrate", "demo", "-y")
    await bed.settled(len(NODES))
    already = "# demo is one of ours already: this is its manifest.\n"
    assert (await plugin.ok("migrate", "demo", "--print")).startswith(already + differs)
    async with witnessing(bed.api) as witness, untouched(bed, witness):
        await bed.apply(written("v2", OURS))
        printed = await plugin.ok("migrate", "demo", "--print")
        assert printed.startswith(f"{already}apiVersion: {OURS}\n")
        assert "unchanged" in await bed.kubectl("apply", "-f", "-", stdin=printed)


class Reader:
    """Somebody who types what docs/migrate.md says."""

    def __init__(self, plane: ControlPlane, plugin: Plugin) -> None:
        self._plane, self._plugin = plane, plugin

    async def follow(self, title: str) -> str:
        """Run all commands of that section; returns what they print."""
        return "".join([await self._typed(line) for line in commands(title, MIGRATION)])

    async def _typed(self, line: str) -> str:
        _, first, *words = shlex.split(line)
        if first == "kruise-ds":
            return await self._plugin.ok(*words)
        done = await self._plane.run_kubectl(first, *words, seconds=120.0)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        return done.stdout


async def test_the_manual_is_true_to_its_last_command(plane: ControlPlane) -> None:
    names = ("node-agent", "log-agent", "gpu-agent")
    async with bed_on(plane, "agents") as bed:
        reader = Reader(plane, Plugin(plane.kubectl, plane.kubeconfig, bed.namespace))
        await bed.workers(*NODES)
        for version in ("v1", "v2"):
            for name in names:
                await bed.apply(named(name, version))
            for name in names:
                await native_status(bed.api, name, numberAvailable=len(NODES), updatedNumberScheduled=len(NODES))
        before = {pod["metadata"]["uid"] for pod in await bed.api.list(PODS)}
        told = await reader.follow("Look first")
        assert f"{len(NODES)} pods run on, none is restarted" in told
        await reader.follow("With a repository")
        assert await owners(bed) == {THEIRS}
        told = await reader.follow("Move")
        assert "image demo v1 → v2" in told
        await reader.follow("Many at once")
        assert await owners(bed) == {OURS}
        await reader.follow("Back")
        assert await owners(bed) == {OURS, THEIRS}
        assert {pod["metadata"]["uid"] for pod in await bed.api.list(PODS)} == before, "all the time"


def named(name: str, version: str) -> Object:
    document = written(version)
    document["metadata"] = {"name": name, "labels": {"team": "infra"}}
    document["spec"]["selector"] = {"matchLabels": {"app": name}}
    document["spec"]["template"]["metadata"]["labels"] = {"app": name}
    return document


async def test_several_are_asked_for_once_and_each_is_told(bed: Workspace, plugin: Plugin) -> None:
    await bed.workers(*NODES)
    names = ("one", "two")
    for name in names:
        await bed.apply(named(name, "v1"))
    for name in names:
        await native_status(bed.api, name, numberAvailable=len(NODES))
    refused = await plugin.run("migrate", "-l", "team=infra")
    assert refused.code == 6, str(refused)
    before = {pod["metadata"]["uid"] for pod in await bed.api.list(PODS)}
    told = await plugin.ok("migrate", "-l", "team=infra", "-y")
    assert [line for line in told.splitlines() if line[0] != " "] == [f"{name} is one of ours" for name in names]
    assert {pod["metadata"]["uid"] for pod in await bed.api.list(PODS)} == before
    assert await bed.api.list(NATIVE) == []
    again = await plugin.ok("migrate", *names, "-y")
    assert again.splitlines() == [f"{name} is one of ours already" for name in names]
