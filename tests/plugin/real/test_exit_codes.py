"""The manual's table of exit codes on the real API server with the real controller: its main rows."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from tests.beds.api import DAEMONSETS, MERGE_PATCH
from tests.beds.control_plane import ControlPlane
from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, V3, V4, daemonset
from tests.plugin.cluster.wire import WRITE, Fault, faulty_wire
from tests.plugin.real.test_rollback import kruise_ds
from tests.plugin.test_exit_codes import EXPECTED, IMAGE, VERBS, Cell

pytestmark = pytest.mark.real

WORDS = {"node-agent": "agent", IMAGE: f"agent={V3}"}
CHANGES = (
    "promote --wait",
    "promote --full -y",
    "set-partition --wait",
    "restart -y --wait",
    "set-image --wait",
    "apply -y --wait",
    "rollback -y --wait",
    "resume --wait",
)
MAIN: Mapping[str, tuple[str, ...]] = {
    "held": ("status -w", "plan --exit-code", "rollback", "restart", "apply", *CHANGES),
    "paused": ("status -w", "plan --exit-code", *CHANGES),
    "stuck": ("status -w", "status --exit-code", "promote --wait", "resume --wait", "set-partition --wait"),
    "stalled": ("status -w", "status --exit-code", "promote --wait", "resume --wait"),
    "gone": ("status -w", "promote --wait", "apply", "apply -y --wait"),
}
"""By situation; `resume` ends that of a pause."""
HALF = {"updateStrategy": {"rollingUpdate": {"partition": 2}}}


async def held(bed: Bed, **rolling: object) -> None:
    await bed.deploy(daemonset(), nodes=4)
    await bed.edit({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2, "partition": 2, **rolling}}})
    await bed.set_image(V2)
    await bed.seen()
    await bed.phase("Paused" if rolling else "Held")


async def paused(bed: Bed) -> None:
    await held(bed, paused=True)


async def stuck(bed: Bed) -> None:
    await held(bed)
    bed.nodes.behave("*", Behaviour(ready=None))
    await bed.set_image(V4)
    await bed.phase("Progressing")


async def stalled(bed: Bed) -> None:
    await stuck(bed)
    deadline = {"metadata": {"annotations": {"kruise-ds/progress-deadline-seconds": "1"}}}
    await bed.api.patch(DAEMONSETS, "agent", deadline, content_type=MERGE_PATCH)
    await bed.phase("Stalled")


async def gone(bed: Bed) -> None:
    await bed.add_nodes(1)


SITUATIONS: Mapping[str, Callable[[Bed], Awaitable[None]]] = {
    "held": held,
    "paused": paused,
    "stuck": stuck,
    "stalled": stalled,
    "gone": gone,
}


def words_of(verb: str, folder: Path, cell: Cell) -> list[str]:
    """On `agent`. What is to wait in vain does not for long, but for long enough to write."""
    path = folder / "agent.json"
    manifest = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", **daemonset(image=f"{V4}-applied")}
    path.write_text(json.dumps(manifest))
    known = {**WORDS, "MANIFEST": str(path), "90s": "60s" if cell.code != 3 else "20s" if cell.changed else "2s"}
    return [known.get(word, word) for word in VERBS[verb]]


async def generation(bed: Bed) -> int:
    """0 where there is none."""
    found = await bed.api.list(DAEMONSETS)
    return int(found[0]["metadata"]["generation"]) if found else 0


@pytest.mark.parametrize("situation", SITUATIONS)
async def test_a_verb_in_a_situation_ends_as_the_manual_says(
    bed: Bed, plane: ControlPlane, tmp_path: Path, situation: str
) -> None:
    """What changes something comes last."""
    await SITUATIONS[situation](bed)
    cells = {verb: EXPECTED[verb][situation] for verb in MAIN[situation]}
    for verb in sorted(cells, key=lambda verb: cells[verb].changed):
        if before := await generation(bed):
            await bed.edit(HALF)
            before = (await bed.seen())["metadata"]["generation"]
        ran = await kruise_ds(bed, plane, *words_of(verb, tmp_path, cells[verb]))
        assert Cell(ran.code, await generation(bed) > before) == cells[verb], f"{verb}: {ran}"


async def test_who_is_overtaken_writes_nothing(bed: Bed, plane: ControlPlane, tmp_path: Path) -> None:
    await held(bed)
    tried = {verb for verb in CHANGES if EXPECTED[verb]["held"].changed}
    for seconds, verb in enumerate(sorted(tried), 1):
        async with faulty_wire(plane) as wire:

            async def changes(seconds: int = seconds) -> None:
                await bed.edit({"minReadySeconds": seconds})

            overtaking = Fault(WRITE, times=1, before=changes)
            wire.faults += [overtaking]
            words = words_of(verb, tmp_path, EXPECTED[verb]["overtaken"])
            before = await bed.daemonset()
            ran = await kruise_ds(bed, plane, *words, f"--server={wire.url}")
        assert (ran.code, overtaking.met) == (EXPECTED[verb]["overtaken"].code, 1), f"{verb}: {ran}"
        assert (await bed.daemonset())["spec"] == {**before["spec"], "minReadySeconds": seconds}, verb
        await bed.phase("Held")
