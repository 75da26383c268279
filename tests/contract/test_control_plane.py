"""The bed itself, on the real binaries: it starts, verifies, obeys, breaks and mends as it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.beds.control_plane import Binaries, ControlPlane, service_account
from tests.beds.control_plane.probe import get

pytestmark = pytest.mark.real


async def test_it_starts_serves_with_a_certificate_that_verifies_and_leaves_nothing(
    control_plane_binaries: Binaries,
) -> None:
    async with ControlPlane(control_plane_binaries) as plane:
        status, body = await get(f"{plane.url}/readyz", token=plane.token, certificates=plane.ca_path)
        assert (status, body) == (200, "ok")
        etcd = plane.process("etcd")
    assert etcd.returncode is not None, "etcd has ended"
    assert not plane.folder.exists()


async def test_a_restarted_api_server_has_the_same_address_and_data(control_plane_binaries: Binaries) -> None:
    async with ControlPlane(control_plane_binaries, controllers=()) as plane:
        await plane.run_kubectl("create", "configmap", "kept")
        await plane.kill_apiserver()
        assert not await plane.ready()
        await plane.start_apiserver()
        kept = await plane.run_kubectl("get", "configmap", "kept", "-o", "name")
        assert kept.stdout == "configmap/kept\n", kept.stderr


async def test_a_frozen_etcd_holds_writes_until_it_thaws(control_plane_binaries: Binaries) -> None:
    async with ControlPlane(control_plane_binaries, controllers=()) as plane:
        plane.freeze_etcd()
        refused = await plane.run_kubectl("create", "configmap", "late", "--request-timeout=1s")
        assert refused.returncode != 0
        plane.thaw_etcd()
        written = await plane.run_kubectl("create", "configmap", "later")
        assert written.returncode == 0, written.stderr


async def test_a_service_account_may_do_only_what_it_is_bound_to(control_plane_binaries: Binaries) -> None:
    account = service_account("default", "robot")
    async with ControlPlane(control_plane_binaries, controllers=(), users=[account]) as plane:
        forbidden = await plane.run_kubectl("get", "nodes", user=account)
        assert "system:serviceaccount:default:robot" in forbidden.stderr
        await plane.run_kubectl("create", "role", "reader", "--verb=list", "--resource=pods")
        await plane.run_kubectl("create", "rolebinding", "robot", "--role=reader", f"--user={account.name}")

        async def may_list() -> bool:
            can = await plane.run_kubectl("auth", "can-i", "list", "pods", user=account)
            return can.stdout == "yes\n"

        server = plane.process("kube-apiserver")  # it takes notice of a new binding after it has stored it
        await server.until(may_list, what="letting the account list pods", seconds=30)


async def test_the_controllers_collect_what_has_lost_its_owner(complete_binaries: Binaries) -> None:
    async with ControlPlane(complete_binaries, audit=True) as plane:
        await plane.run_kubectl("create", "configmap", "owner")
        uid = (await plane.run_kubectl("get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")).stdout
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        owned = {"name": "owned", "ownerReferences": [reference]}
        manifest = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": owned})
        await plane.run_kubectl("create", "-f", "-", stdin=manifest)
        await plane.run_kubectl("delete", "configmap", "owner")
        gone = await plane.run_kubectl("wait", "--for=delete", "configmap/owned", "--timeout=30s")
        assert gone.returncode == 0, gone.stderr

        async def told() -> bool:
            return deleted(plane.audit_path) == ["owner", "owned"]

        server = plane.process("kube-apiserver")  # its log comes shortly after the deed
        await server.until(told, what="telling of both deletions, in this order", seconds=30)


def deleted(audit: Path) -> list[str]:
    """The names of the deleted ConfigMaps, by the whole lines of the audit log."""
    events = [json.loads(line) for line in audit.read_text().splitlines(keepends=True) if line.endswith("\n")]
    told = [event["objectRef"] for event in events if event["verb"] == "delete"]
    return [it["name"] for it in told if it["resource"] == "configmaps"]
