"""`kubectl kruise-ds migrate` between the native controller and ours, both real, judged by the pods."""

from __future__ import annotations

import shlex

import pytest

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.plugin import Plugin
from tests.beds.installed.witness import witnessing
from tests.beds.installed.workspace import Workspace, bed_on
from tests.beds.native import NATIVE, native_status
from tests.beds.nodes import Behaviour
from tests.e2e.guide import MIGRATION, commands
from tests.e2e.migrating import (
    IMAGE,
    NODES,
    OURS,
    THEIRS,
    goes_on,
    images,
    native_settled,
    owners,
    untouched,
    written,
)

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller", "beside")]


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


@pytest.mark.parametrize("back", [False, True], ids=["to ours", "to native"])
async def test_pods_that_take_long_to_end_are_waited_for(bed: Workspace, plugin: Plugin, back: bool) -> None:
    """Two are being updated: nobody else adopts them, and beside what he does not own a controller makes a pod."""
    await bed.workers(*NODES)
    before, after = (OURS, THEIRS) if back else (THEIRS, OURS)
    await bed.apply(written("v1", before, {"maxUnavailable": 2}))
    await (bed.settled(len(NODES)) if back else native_settled(bed))
    bed.nodes.behave("*", Behaviour(terminate=8.0))
    async with witnessing(bed.api) as witness:
        await witness.up_to_date()
        await bed.apply(written("v2", before, {"maxUnavailable": 2}))
        await witness.until(lambda: len(witness.retired) == 2, "two are told to go")
        told = await plugin.ok("migrate", "demo", *(["--to-native"] if back else []), "--dry-run")
        assert "ending    2 pods are waited for" in told
        await plugin.ok("migrate", "demo", *(["--to-native"] if back else []), "-y")
        await witness.up_to_date()
        assert await owners(bed) == {after}
        assert not witness.joined, "a node had two pods"
        assert len(witness.retired) == 2, "nobody else was updated"
        updated = 0 if back else 2  # ours is paused, and who is lost then comes back as it was
        assert sorted((await images(bed)).values()) == ["v1"] * (6 - updated) + ["v2"] * updated


async def test_a_canary_of_ours_becomes_a_native_one_that_updates_nothing(bed: Workspace, plugin: Plugin) -> None:
    """Its file says less than the server stores of a native one, so no stored revision has that one's bytes."""
    await bed.workers(*NODES)
    limits = {"maxUnavailable": 2}
    await bed.apply(written("v1", OURS, limits))
    await bed.settled(len(NODES))
    canary = written("v2", OURS, limits)
    canary["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 4
    await bed.apply(canary)
    await bed.status(updatedNumberScheduled=2, numberAvailable=len(NODES))
    async with witnessing(bed.api) as witness:
        async with untouched(bed, witness):
            told = await plugin.ok("migrate", "demo", "--to-native", "--dry-run")
            assert "lost      a native DaemonSet has no partition" in told
            printed = await plugin.ok("migrate", "demo", "--to-native", "--print")
            assert "# Lost, as a native DaemonSet does not have it: partition.\n" in printed
            moved = await plugin.ok("migrate", "demo", "--to-native", "-y")
            for again in (False, True):
                if again:
                    await bed.kubectl("apply", "-f", "-", stdin=printed)
                found = await native_status(bed.api, "demo", numberAvailable=len(NODES), updatedNumberScheduled=2)
                assert found["spec"]["updateStrategy"] == {"type": "OnDelete"}
        witness.floor = len(NODES) - limits["maxUnavailable"]
        await goes_on(bed, moved)
        strategy = (await bed.api.get(NATIVE, "demo"))["spec"]["updateStrategy"]
        assert strategy["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 2}, "not the server's defaults"


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
            moved = await plugin.ok("migrate", "demo", "--to-native", "-y")
            await native_status(bed.api, "demo", numberAvailable=len(NODES), updatedNumberScheduled=1)
        await goes_on(bed, moved)


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
