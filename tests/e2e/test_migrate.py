"""`kubectl kruise-ds migrate` between the native controller and ours, both real, judged by the pods; and what is left
to do for a user who had applied the former one."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.control_plane import ControlPlane
from tests.beds.fixtures import Helm
from tests.beds.installed.plugin import Plugin
from tests.beds.installed.witness import Witness, witnessing
from tests.beds.installed.workspace import Workspace, bed_on, sample
from tests.beds.native import NATIVE, native_status
from tests.beds.nodes import Behaviour
from tests.beds.objects import controller_of, image_of, is_live, node_of
from tests.e2e.guide import MIGRATION, commands

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller", "beside")]

NODES = tuple(f"node-{number}" for number in range(6))
IMAGE = "registry.example.com/demo"
OURS, THEIRS = "apps.kruise.io/v1beta1", "apps/v1"


def written(version: str, api_version: str = THEIRS, **rolling: Any) -> Object:
    """As its user keeps it in a file."""
    document = sample("ds.demo.yaml")
    document["apiVersion"] = api_version
    document["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling or {"maxUnavailable": 1}}
    document["spec"]["template"]["spec"]["containers"][0]["image"] = f"{IMAGE}:{version}"
    return document


def named(name: str, version: str) -> Object:
    document = written(version, maxUnavailable=len(NODES))
    document["metadata"] = {"name": name, "labels": {"team": "infra"}}
    document["spec"]["selector"] = {"matchLabels": {"app": name}}
    document["spec"]["template"]["metadata"]["labels"] = {"app": name}
    return document


async def native_settled(bed: Workspace, name: str = "demo") -> None:
    await native_status(bed.api, name, numberAvailable=len(NODES), updatedNumberScheduled=len(NODES))


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
    live = {node_of(pod): pod for pod in pods if is_live(pod)}
    return {node: (pod["metadata"]["uid"], pod["metadata"]["labels"], image_of(pod)) for node, pod in live.items()}


async def owners(bed: Workspace) -> set[str]:
    return {controller_of(pod)["apiVersion"] for pod in await bed.pods()}


async def versions(bed: Workspace) -> list[str]:
    """Of the live pods, sorted."""
    return sorted(image_of(pod).rpartition(":")[2] for pod in await bed.pods() if is_live(pod))


async def goes_on(bed: Workspace, told: str) -> None:
    """As `migrate` has said it: the native one updates the nodes that kept an older revision."""
    command = next(line.partition("To go on: kubectl ")[2] for line in told.splitlines() if "To go on: " in line)
    await bed.kubectl(*shlex.split(command))
    await native_settled(bed)
    assert await versions(bed) == ["v2"] * len(NODES)


async def test_native_to_ours_rollback_and_back(bed: Workspace, plugin: Plugin) -> None:
    await bed.workers(*NODES)
    for version in ("v1", "v2"):
        await bed.apply(written(version))
        await native_settled(bed)
    manifest = await plugin.ok("migrate", "demo", "--print")
    assert yaml.safe_load(manifest)["apiVersion"] == OURS
    async with witnessing(bed.api) as witness:
        async with untouched(bed, witness):
            await plugin.ok("migrate", "demo", "-y")
            found = await bed.settled(len(NODES))
            assert await owners(bed) == {OURS}
            assert await bed.api.list(NATIVE) == []
            done = await bed.tried("apply", "-f", "-", stdin=manifest)
            assert (done.returncode, done.stderr) == (0, ""), "what is printed for a repository can be applied"
            assert (await bed.settled(len(NODES)))["updateRevision"] == found["updateRevision"]
        printed = await plugin.ok("history", "demo")
        assert "image demo v1 → v2" in printed, "the history came along"
        await plugin.ok("rollback", "demo", "--to-revision=1", "-y", "--wait", "--timeout=60s")
        await bed.settled(len(NODES))
        assert await versions(bed) == ["v1"] * len(NODES), "on the first day"
        async with untouched(bed, witness):
            await plugin.ok("migrate", "demo", "--to-native", "-y")
            await native_settled(bed)
            assert await owners(bed) == {THEIRS}
            assert await bed.api.list(DAEMONSETS) == []
        await bed.kubectl("rollout", "undo", "daemonset.apps/demo")
        await native_settled(bed)
        assert await versions(bed) == ["v2"] * len(NODES)


@pytest.mark.parametrize("back", [False, True], ids=["to-ours", "to-native"])
async def test_pods_that_take_long_to_end_are_waited_for(bed: Workspace, plugin: Plugin, back: bool) -> None:
    """Two are being updated: if the other controller did not adopt them, it would make a pod beside each."""
    await bed.workers(*NODES)
    before, after = (OURS, THEIRS) if back else (THEIRS, OURS)
    await bed.apply(written("v1", before, maxUnavailable=2))
    await (bed.settled(len(NODES)) if back else native_settled(bed))
    bed.nodes.behave("*", Behaviour(terminate=8.0))
    async with witnessing(bed.api) as witness:
        await witness.up_to_date()
        await bed.apply(written("v2", before, maxUnavailable=2))
        await witness.until(lambda: len(witness.retired) == 2, "two are told to go")
        words = ("migrate", "demo", *(["--to-native"] if back else []))
        assert "ending    2 pods are waited for" in await plugin.ok(*words, "--dry-run")
        await plugin.ok(*words, "-y")
        await witness.up_to_date()
        assert await owners(bed) == {after}
        assert not witness.joined, "a node had two pods"
        assert len(witness.retired) == 2, "no other pod was updated"
        updated = 0 if back else 2  # ours is paused, and a lost pod comes back as it was
        assert await versions(bed) == ["v1"] * (6 - updated) + ["v2"] * updated


async def test_a_canary_of_ours_becomes_a_native_one_that_updates_nothing(bed: Workspace, plugin: Plugin) -> None:
    """Its file says less than the server stores of a native one, so no stored revision has that one's bytes."""
    await bed.workers(*NODES)
    await bed.apply(written("v1", OURS, maxUnavailable=2))
    await bed.settled(len(NODES))
    await bed.apply(written("v2", OURS, maxUnavailable=2, partition=4))
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
        witness.floor = len(NODES) - 2
        await goes_on(bed, moved)
        strategy = (await bed.api.get(NATIVE, "demo"))["spec"]["updateStrategy"]
        assert strategy["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 2}, "not the server's defaults"


@pytest.mark.parametrize("by", ["native", "ours"])
async def test_half_a_rollout_moves_over_and_back_and_then_goes_on(bed: Workspace, plugin: Plugin, by: str) -> None:
    """`by`: who began it. Its pods carry the native one's number of the template, and a new native one would count
    from 1 again."""
    await bed.workers(*NODES)
    await bed.apply(written("v1"))
    await native_settled(bed)
    if by == "native":
        bed.nodes.behave("*", Behaviour(ready=None))
        await bed.apply(written("v2"))
        await native_status(bed.api, "demo", updatedNumberScheduled=1, numberUnavailable=1)
    async with witnessing(bed.api) as witness, untouched(bed, witness):
        told = await plugin.ok("migrate", "demo", "--dry-run")
        assert ("5 nodes keep an older revision: partition 5" in told) is (by == "native"), told
        assert await owners(bed) == {THEIRS}
        await plugin.ok("migrate", "demo", "-y")
        await bed.status(updatedNumberScheduled=1 if by == "native" else len(NODES))
        bed.nodes.behave("*")
        await bed.status(numberAvailable=len(NODES))
    if by == "ours":
        await plugin.ok("set-image", "demo", f"*={IMAGE}:v2", "--hold-at", "5", "--wait", "-y")
    assert await versions(bed) == ["v1"] * 5 + ["v2"]
    async with witnessing(bed.api) as witness:
        async with untouched(bed, witness):
            moved = await plugin.ok("migrate", "demo", "--to-native", "-y")
            await native_status(bed.api, "demo", numberAvailable=len(NODES), updatedNumberScheduled=1)
        await goes_on(bed, moved)


@pytest.mark.parametrize("half", [False, True], ids=["settled", "half-way"])
async def test_steps_of_the_new_manifest_apply_to_the_next_edit(bed: Workspace, plugin: Plugin, half: bool) -> None:
    """And to what is left of a rollout that the native one began."""
    await bed.workers(*NODES)
    await bed.apply(written("v1"))
    await native_settled(bed)
    if half:
        bed.nodes.behave("*", Behaviour(ready=None))
        await bed.apply(written("v2"))
        await native_status(bed.api, "demo", updatedNumberScheduled=1, numberUnavailable=1)
    steps = [{"nodes": 1}, {"nodes": 2, "approval": "Required"}, {"nodes": "100%"}]
    rolling = {"maxUnavailable": len(NODES), "partition": 0, "steps": steps}
    async with witnessing(bed.api) as witness:
        async with untouched(bed, witness):
            await plugin.ok("migrate", "demo", "-y")
            if not half:
                await bed.apply(written("v1", OURS, **rolling))
                found = await bed.settled(len(NODES))
                assert (found["rollout"]["phase"], found["rollout"].get("step")) == ("Healthy", None)
        bed.nodes.behave("*")
        witness.floor = len(NODES) - 2
        await bed.apply(written("v2", OURS, **rolling))
        found = await bed.status(updatedNumberScheduled=2, numberAvailable=len(NODES))
        assert (found["rollout"]["phase"], found["rollout"]["step"]) == ("AwaitingApproval", 2)
        assert await versions(bed) == ["v1"] * 4 + ["v2"] * 2


class Reader:
    """Types the commands of docs/migrate.md."""

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
                await native_settled(bed, name)
        before = {pod["metadata"]["uid"] for pod in await bed.api.list(PODS)}
        told = await reader.follow("Look first")
        assert f"{len(NODES)} pods keep running, none is restarted" in told
        await reader.follow("With a repository")
        assert await owners(bed) == {THEIRS}
        told = await reader.follow("Move")
        assert "image demo v1 → v2" in told
        await reader.follow("Many at once")
        assert await owners(bed) == {OURS}
        await reader.follow("Back")
        assert await owners(bed) == {OURS, THEIRS}
        assert {pod["metadata"]["uid"] for pod in await bed.api.list(PODS)} == before, "all the time"


PAIR = ("one", "two")
OURS, THEIRS = "apps.kruise.io/v1beta1", "apps/v1"
TAKEN_AWAY = {"env": [{"name": "LEVEL", "value": "debug"}], "ports": [{"containerPort": 8080}], "command": ["agent"]}


def manifest(api_version: str, version: str, *, more: bool, kept: str = "", limit: int = 1) -> Object:
    """A manifest; with `more` it has fields that a later one has no longer."""
    document = sample("ds.demo.yaml")
    document["apiVersion"] = api_version
    document["metadata"]["labels"] = {"team": "infra"} if more else {}
    document["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": limit}}
    pod = document["spec"]["template"]["spec"]
    pod["containers"][0] |= {"image": f"registry.example.com/demo:{version}"} | (TAKEN_AWAY if more else {})
    if more:
        pod["nodeSelector"] = {"kubernetes.io/os": "linux"}
        pod["tolerations"] = [{"operator": "Exists"}]
        pod["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    return document


def is_as_written(found: Object, wanted: Object) -> None:
    pod, container = found["spec"]["template"]["spec"], found["spec"]["template"]["spec"]["containers"][0]
    mine = wanted["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == mine["image"]
    assert {key: key in container for key in TAKEN_AWAY} == {key: key in mine for key in TAKEN_AWAY}
    for key in ("nodeSelector", "tolerations", "volumes"):
        assert (key in pod) == (key in wanted["spec"]["template"]["spec"]), key
    assert ("team" in found["metadata"].get("labels", {})) == ("team" in wanted["metadata"]["labels"])
    strategy = found["spec"]["updateStrategy"]["rollingUpdate"]
    assert strategy["maxUnavailable"] == wanted["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"]


Apply = Callable[[Object], Awaitable[None]]


def by_kubectl(bed: Workspace, *words: str) -> Apply:
    async def apply(document: Object) -> None:
        done = await bed.tried("apply", *words, "-f", "-", stdin=msgspec.json.encode(document).decode())
        assert (done.returncode, done.stderr) == (0, "")

    return apply


def by_helm(bed: Workspace, helm: Helm, chart: Path) -> Apply:
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: demo\nversion: 0.1.0\n")

    async def apply(document: Object) -> None:
        (chart / "templates" / "daemonset.yaml").write_text(yaml.safe_dump(document))
        words = ("upgrade", "--install", "demo", str(chart), "-n", bed.namespace)
        done = await asyncio.to_thread(helm, *words, kubeconfig=bed.plane.kubeconfig)
        assert done.returncode == 0, done.stderr

    return apply


async def settled(bed: Workspace, api_version: str) -> set[str]:
    """Its controller has seen the newest manifest, and has nothing left to do. Returns the pods."""
    if api_version == THEIRS:
        await native_status(bed.api, "demo", numberAvailable=len(PAIR), updatedNumberScheduled=len(PAIR))
    else:
        await bed.settled(len(PAIR))
    return {one["metadata"]["uid"] for one in await bed.pods()}


async def moved(bed: Workspace, plugin: Plugin, apply: Apply, before: str) -> set[str]:
    """To the other kind. Returns the pods."""
    await bed.workers(*PAIR)
    await apply(manifest(before, "v1", more=True))
    pods = await settled(bed, before)
    await plugin.ok("migrate", "demo", "-y", *(["--to-native"] if before == OURS else []))
    return pods


async def changes(bed: Workspace, apply: Apply, api_version: str) -> None:
    """Another image and another limit, and much is there no longer."""
    less = manifest(api_version, "v2", more=False, limit=2)
    await apply(less)
    is_as_written(await bed.api.get(NATIVE if api_version == THEIRS else DAEMONSETS, "demo"), less)


@pytest.mark.parametrize(("before", "after"), [(THEIRS, OURS), (OURS, THEIRS)], ids=["to-ours", "to-native"])
@pytest.mark.parametrize("how", ["server-side", "client-side"])
async def test_kubectl_applies_the_next_manifest(
    bed: Workspace, plugin: Plugin, before: str, after: str, how: str
) -> None:
    apply = by_kubectl(bed, *(["--server-side"] if how == "server-side" else []))
    await moved(bed, plugin, apply, before)
    await changes(bed, apply, after)


@pytest.mark.parametrize(("before", "after"), [(THEIRS, OURS), (OURS, THEIRS)], ids=["to-ours", "to-native"])
async def test_helm_upgrades_the_release(
    bed: Workspace, plugin: Plugin, helm: Helm, tmp_path: Path, before: str, after: str
) -> None:
    """To the same in the other kind, which restarts nothing, and then to the next."""
    apply = by_helm(bed, helm, tmp_path / "demo")
    pods = await moved(bed, plugin, apply, before)
    await apply(manifest(after, "v1", more=True))
    assert await settled(bed, after) == pods
    await changes(bed, apply, after)
