"""The program on a real API server behind a wire on which some requests hang, or get another's answer.

Where something hangs it does so for ever, and the program is told to wait for ever: that it ends at all is the proof.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.beds.objects import demo
from tests.plugin.cluster.real_agent import Bed, bed, place
from tests.plugin.cluster.wire import Fault

pytestmark = pytest.mark.real
__all__ = ["bed", "place"]

FOR_EVER = "--request-timeout=0"
PAGE = "<html>not here</html>"


async def test_the_clock_of_a_load_balancer_is_not_the_servers(bed: Bed) -> None:
    """It refuses the last request before the write, and the write notes when it was."""
    bed.wire.faults += [Fault("POST */selfsubjectreviews*", 502, PAGE, date="Tue, 01 Jan 2030 00:00:00 GMT")]
    code, _, err = await bed.run("pause", "agent")
    assert code == 0, err
    noted = json.loads((await bed.agent())["metadata"]["annotations"]["kruise-ds/last-action"])
    assert not noted["at"].startswith("2030"), noted


@pytest.mark.parametrize(
    ("words", "fails", "expected"),
    [
        (("status", "agent"), 0, 0),
        (("status", "gone"), 0, 1),
        (("status", "agent", "--nonsense"), 0, 2),
        (("status", "agent", "-w", "--timeout=2s"), 0, 3),
        (("set-partition", "agent", "1", "--wait", "--timeout=2s"), 0, 3),
        (("set-partition", "agent", "1"), 500, 1),
        (("restart", "agent"), 0, 6),
        (("diff", "agent", "-f", "-", "--exit-code"), 0, 1),
        (("plan", "agent", "--partition", "1", "--exit-code"), 0, 0),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else str(one),
)
async def test_the_exit_codes_of_the_simulator_are_those_of_the_real_server(
    bed: Bed, words: tuple[str, ...], fails: int, expected: int
) -> None:
    """No controller acts on `agent`, and no node is there."""
    bed.wire.faults += [Fault("* */daemonsets/*", fails, PAGE)] if fails else []
    code, _, err = await bed.run(*words)
    assert code == expected, err


@pytest.mark.parametrize(
    ("hangs", "words"),
    [
        ("GET */nodes[?]*", ("set-partition", "agent", "1")),
        ("GET */controllerrevisions[?]*", ("rollback", "agent", "-y")),
        ("PATCH */daemonsets/agent[?]dryRun=All*", ("apply", "-f", "MANIFEST", "-y")),
    ],
    ids=lambda one: one if isinstance(one, str) else one[0],
)
async def test_a_timeout_is_of_what_comes_before_the_write_too(
    bed: Bed, tmp_path: Path, hangs: str, words: tuple[str, ...]
) -> None:
    bed.wire.faults += [Fault(hangs)]
    made = demo("agent")
    manifest = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", **made, "metadata": {"name": "agent"}}
    manifest["spec"]["minReadySeconds"] = 7
    path = tmp_path / "agent.json"
    path.write_text(json.dumps(manifest))
    given = (str(path) if word == "MANIFEST" else word for word in words)
    code, _, err = await bed.run(*given, "--wait", "--timeout=2s", FOR_EVER)
    assert (code, err.splitlines()[-1]) == (3, "error: timed out after 2s: the server does not answer")
    assert (await bed.agent())["metadata"]["generation"] == 1, "nothing was written"
