"""`kubectl kruise-ds migrate --print`: what is put into a repository, applied while both controllers look on."""

from __future__ import annotations

import pytest
import yaml

from tests.beds.installed.plugin import Plugin
from tests.beds.installed.witness import witnessing
from tests.beds.installed.workspace import Workspace
from tests.e2e.migrating import IMAGE, NODES, OURS, native_settled, untouched, written

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller", "beside")]


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
