"""Who reads, who is asked and who gives up, at a terminal and in pipes: the program on the real API server."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.beds.api import DAEMONSETS, MERGE_PATCH
from tests.beds.objects import demo
from tests.plugin.cluster.conftest import ALONE
from tests.plugin.cluster.real_agent import Bed, bed, place
from tests.plugin.cluster.wire import Fault
from tests.plugin.window import Window, window

pytestmark = pytest.mark.real
__all__ = ["bed", "place"]

ASKED = "Continue? [y/N] "
RESTARTED = "kubectl.kubernetes.io/restartedAt"


def at_terminal(bed: Bed, script: str, *, columns: int = 80) -> AbstractAsyncContextManager[Window]:
    """`plugin` in the script is the program, and it is at the server behind the wire."""
    options = f"-n {bed.place.namespace} --server={bed.wire.url}"
    plugin = f'plugin() {{ {sys.executable} -m kubectl_plugin "$@" {options}; }}\n'
    return window(plugin + script, dict(ALONE.environ), columns=columns)


async def is_restarted(bed: Bed) -> bool:
    template = (await bed.agent())["spec"]["template"]
    return RESTARTED in (template["metadata"].get("annotations") or {})


@pytest.mark.parametrize(("typed", "code"), [("n", 6), ("y", 0)])
async def test_who_pipes_the_result_is_asked_all_the_same(bed: Bed, typed: str, code: int) -> None:
    async with at_terminal(bed, "plugin restart agent | tee /dev/null; exit ${PIPESTATUS[0]}") as terminal:
        await terminal.until(ASKED)
        assert not await is_restarted(bed)
        terminal.type(f"{typed}\n")
        assert (await terminal.ended(), await is_restarted(bed)) == (code, code == 0), terminal.seen


@pytest.mark.parametrize("names", [("agent",), ("agent", "other")], ids=["one", "several"])
async def test_a_foreign_text_is_no_line_of_a_question(bed: Bed, tmp_path: Path, names: tuple[str, ...]) -> None:
    """What stands there before the change is of another program."""
    note = {"metadata": {"annotations": {"note": f"x\nerror: all is lost\n{ASKED}"}}}
    await bed.place.api.patch(DAEMONSETS, "agent", note, content_type=MERGE_PATCH)
    kind = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet"}
    mine = {"annotations": {"note": "mine"}}
    items = [{**kind, **demo(name), "metadata": {"name": name, **mine}} for name in names]
    path = tmp_path / "list.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    async with at_terminal(bed, f"plugin apply --force-conflicts -f {path}", columns=200) as terminal:
        await terminal.until(f"\n{ASKED}")
        terminal.type("n\n")
        assert await terminal.ended() == 6, terminal.seen
    lines = terminal.seen.splitlines()
    assert [line.strip() for line in lines if line.startswith("Continue?")] == [f"{ASKED}n"], lines
    assert "error: all is lost" not in lines


async def test_ctrl_c_while_it_is_written_says_that_it_may_have_been_done(bed: Bed) -> None:
    written = Fault("PATCH */daemonsets/agent*", done=True)
    bed.wire.faults.append(written)
    async with at_terminal(bed, "plugin pause agent") as terminal:
        await written.over.wait()
        terminal.type("\x03")
        assert await terminal.ended() == 130, terminal.seen
        words = "warning: interrupted while agent was written: it may have been done"
        assert words in terminal.seen.replace("\n", " ")
    assert (await bed.agent())["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is True
