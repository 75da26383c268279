"""The bed itself, on the real binaries: it starts, verifies, obeys, breaks and mends as it says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.beds.control_plane import Binaries, ControlPlane, service_account
from tests.beds.control_plane.access import get

pytestmark = pytest.mark.real

ACCOUNT = service_account("default", "robot")
COLLECTED = "collected"
"""The namespace of the test about the garbage collector."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def breakable(control_plane_binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """Each test that breaks it mends it again."""
    async with ControlPlane(control_plane_binaries, controllers=(), users=[ACCOUNT]) as plane:
        yield plane


async def test_it_serves_with_a_certificate_that_verifies_and_leaves_nothing(
    control_plane_binaries: Binaries,
) -> None:
    async with ControlPlane(control_plane_binaries, controllers=()) as plane:
        status, body = await get(f"{plane.url}/readyz", token=plane.token, certificates=plane.ca_path)
        assert (status, body) == (200, "ok")
        etcd = plane.process("etcd")
    assert etcd.returncode is not None, "etcd has ended"
    assert not plane.folder.exists()


async def test_a_restarted_api_server_has_the_same_address_and_data(breakable: ControlPlane) -> None:
    await breakable.run_kubectl("create", "configmap", "kept")
    await breakable.kill_apiserver()
    assert not await breakable.ready()
    await breakable.start_apiserver()
    kept = await breakable.run_kubectl("get", "configmap", "kept", "-o", "name")
    assert kept.stdout == "configmap/kept\n", kept.stderr


async def test_a_frozen_etcd_holds_writes_until_it_thaws(breakable: ControlPlane) -> None:
    breakable.freeze_etcd()
    try:
        refused = await breakable.run_kubectl("create", "configmap", "late", "--request-timeout=1s")
        assert refused.returncode != 0
    finally:
        breakable.thaw_etcd()
    written = await breakable.run_kubectl("create", "configmap", "later")
    assert written.returncode == 0, written.stderr


async def test_a_service_account_may_do_only_what_it_is_bound_to(breakable: ControlPlane) -> None:
    forbidden = await breakable.run_kubectl("get", "nodes", user=ACCOUNT)
    assert "system:serviceaccount:default:robot" in forbidden.stderr
    await breakable.run_kubectl("create", "role", "reader", "--verb=list", "--resource=pods")
    await breakable.run_kubectl("create", "rolebinding", "robot", "--role=reader", f"--user={ACCOUNT.name}")

    async def may_list() -> bool:
        can = await breakable.run_kubectl("auth", "can-i", "list", "pods", user=ACCOUNT)
        return can.stdout == "yes\n"

    server = breakable.process("kube-apiserver")  # it takes notice of a new binding after it has stored it
    await server.until(may_list, what="letting the account list pods", seconds=30)


@pytest.mark.usefixtures("complete_binaries")
async def test_the_controllers_collect_what_has_lost_its_owner(control_plane: ControlPlane) -> None:
    async def kubectl(*words: str, stdin: str | None = None) -> str:
        done = await control_plane.run_kubectl(f"--namespace={COLLECTED}", *words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    await kubectl("create", "namespace", COLLECTED)
    await kubectl("create", "configmap", "owner")
    uid = await kubectl("get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    owned = {"name": "owned", "ownerReferences": [reference]}
    await kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": owned}))
    await kubectl("delete", "configmap", "owner")
    await kubectl("wait", "--for=delete", "configmap/owned", "--timeout=30s")

    async def told() -> bool:
        return deleted(control_plane.audit_path) == ["owner", "owned"]

    server = control_plane.process("kube-apiserver")  # its log comes shortly after the deed
    await server.until(told, what="telling of both deletions, in this order", seconds=30)


def deleted(audit: Path) -> list[str]:
    """The names of the deleted ConfigMaps of that namespace, by the whole lines of the audit log. They are written
    after the deeds, and not always in their order."""
    events = [json.loads(line) for line in audit.read_text().splitlines(keepends=True) if line.endswith("\n")]
    events.sort(key=lambda event: str(event["requestReceivedTimestamp"]))
    told = [event["objectRef"] for event in events if event["verb"] == "delete"]
    return [it["name"] for it in told if (it["resource"], it.get("namespace")) == ("configmaps", COLLECTED)]
