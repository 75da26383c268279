"""The plugin under the roles of the manifests, by the real kubectl: what an operator and a viewer may do."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.beds.api import DAEMONSETS
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.access import run_to_end
from tests.beds.installed.plugin import Plugin, programs_in
from tests.beds.installed.witness import Witness, witnessing
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.objects import is_live, node_of
from tests.e2e.conftest import OPERATOR, VIEWER

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller")]

NODES = ("a", "b", "c", "d")


@asynccontextmanager
async def deployed(bed: Workspace, **rolling: Any) -> AsyncIterator[Witness]:
    """Version v1 on all nodes, and a witness who has seen it."""
    await bed.workers(*NODES)
    demo = sample("ds.demo.yaml")
    demo["spec"]["updateStrategy"] = {"rollingUpdate": rolling}
    demo["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.com/demo:v1"
    async with witnessing(bed.api) as witness:
        await bed.apply(demo)
        await bed.settled(len(NODES))
        await witness.until(lambda: len(witness.ready) == len(NODES), "all first pods seen")
        yield witness


def nodes_with(witness: Witness, image: str) -> set[str]:
    live = [pod for pod in witness.now.values() if is_live(pod)]
    return {node_of(pod) for pod in live if pod["spec"]["containers"][0]["image"].endswith(f":{image}")}


async def test_an_operator_needs_no_more_than_their_role(bed: Workspace, plane: ControlPlane, tmp_path: Path) -> None:
    role = ("--clusterrole=kruise-ds-operator", f"--user={OPERATOR.name}")
    await bed.kubectl("create", "clusterrolebinding", f"operator-{bed.namespace}", *role)
    programs = programs_in(tmp_path)  # it notes who acted, which the server may be slow to say
    plugin = Plugin(plane.kubectl, plane.kubeconfig_for(OPERATOR), bed.namespace, programs)
    async with deployed(bed, maxUnavailable=4) as witness:
        first = await plugin.ok("set-image", "demo", "*=registry.example.com/demo:v2", "--hold-at=3")
        assert first.splitlines()[0] == "daemonset.apps.kruise.io/demo image updated, partition 0 -> 3"
        assert (await plugin.run("status", "demo", "-w", "--timeout=30s")).code == 0
        for verb in ("list", "version"):
            await plugin.ok(verb)
        for verb in ("status", "nodes", "history", "diff", "plan", "pause", "resume"):
            await plugin.ok(verb, "demo")
        await plugin.ok("set-partition", "demo", "2")
        await plugin.ok("promote", "demo", "--full", "-y")
        await plugin.ok("rollback", "demo", "-y")
        assert (await plugin.run("status", "demo", "-w", "--timeout=60s")).code == 0
        await plugin.ok("restart", "demo", "-y")
        assert (await plugin.run("status", "demo", "-w", "--timeout=60s")).code == 0
        await witness.up_to_date()
        assert nodes_with(witness, "v1") == {*NODES}
    (found,) = await bed.api.list(DAEMONSETS)
    noted = json.loads(found["metadata"]["annotations"]["kruise-ds/last-action"])
    assert (noted["verb"], noted["by"]) == ("restart", OPERATOR.name)


async def test_a_viewer_reads_everything_and_learns_what_a_write_needs(bed: Workspace, plane: ControlPlane) -> None:
    for role in ("view", "kruise-ds-view"):
        await bed.kubectl("create", "rolebinding", role, f"--clusterrole={role}", f"--user={VIEWER.name}")
    plugin = Plugin(plane.kubectl, plane.kubeconfig_for(VIEWER), bed.namespace)
    async with deployed(bed, maxUnavailable=4, partition=4) as witness:
        edited = {"spec": {"template": {"metadata": {"labels": {"ver": "v2"}}}}}
        await bed.kubectl("patch", "ads", "demo", "--type=merge", f"-p={json.dumps(edited)}")
        await bed.progressing("PartitionReached")
        await plugin.ok("list")
        for verb in ("status", "nodes", "history", "diff", "plan"):
            await plugin.ok(verb, "demo")
        for words in (
            ("pause", "demo"),
            ("set-partition", "demo", "0"),
            ("promote", "demo", "--full", "-y"),
            ("rollback", "demo", "-y"),
            ("restart", "demo", "-y"),
            ("set-image", "demo", "*=registry.example.com/demo:v3"),
        ):
            ran = await plugin.run(*words)
            assert ran.code == 1, str(ran)
            assert "Error from server (Forbidden): daemonsets.apps.kruise.io" in ran.err, str(ran)
            needed = f'needed: patch daemonsets.apps.kruise.io in "{bed.namespace}"; '
            assert f"{needed}ask for ClusterRole kruise-ds-operator" in ran.err, str(ran)
            assert "Traceback" not in ran.err, str(ran)
        await witness.up_to_date()
        assert not witness.retired, "nothing happened"


@pytest.mark.real
async def test_the_server_knows_the_plugin_by_the_name_in_its_certificate(
    plane: ControlPlane, clients: trustme.CA, bed: Workspace, tmp_path: Path
) -> None:
    """A certificate of an authority that the server does not know is refused."""
    who, own, key, alien = "carol", *(tmp_path / name for name in ("own.crt", "own.key", "alien.crt"))
    pair = clients.issue_cert(f"{who}.example.com", common_name=who)
    pair.cert_chain_pems[0].write_to_path(str(own))
    pair.private_key_pem.write_to_path(str(key))
    other = trustme.CA().issue_cert(f"{who}.example.com", common_name=who)
    other.private_key_and_cert_chain_pem.write_to_path(str(alien))
    await bed.apply_sample("ds.demo.yaml")

    async def pause(*flags: str) -> tuple[int, str, str]:
        server = (f"--server={plane.url}", f"--certificate-authority={plane.ca_path}")
        command = (sys.executable, "-m", "kubectl_plugin", "pause", "demo", "-n", bed.namespace, *server, *flags)
        return await run_to_end(command, {"PATH": ""})

    flags = (f"--client-certificate={own}", f"--client-key={key}")
    code, _, err = await pause(*flags)
    assert (code, f'User "{who}" cannot get resource "daemonsets"' in err) == (1, True), err
    await bed.kubectl("create", "clusterrolebinding", who, "--clusterrole=cluster-admin", f"--user={who}")
    code, _, err = await pause(*flags)
    assert code == 0, err
    found = await bed.api.get(DAEMONSETS, "demo")
    assert json.loads(found["metadata"]["annotations"]["kruise-ds/last-action"])["by"] == who
    code, _, err = await pause(f"--client-certificate={alien}", f"--client-key={alien}")
    assert (code, "must be logged in" in err) == (1, True), err
