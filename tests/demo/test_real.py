"""The demo and the playground on the real control plane."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.control_plane import Binaries
from tests.demo.running import SECONDS, children_of, demo, read_until, running

pytestmark = pytest.mark.real


@pytest.mark.usefixtures("control_plane_binaries")
def test_the_same_story_on_a_real_control_plane() -> None:
    with demo("--real", "--pace", "0.05") as process:
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err
    assert "Done: 24 nodes, 50 pods created" in out
    assert "50 pods created, 25 deleted, 2 revisions" in out
    assert "writes by the controller, 0 refused" in out


def test_the_playground_works_as_it_says_and_goes_when_it_is_told(complete_binaries: Binaries) -> None:
    with demo("--cluster") as process:
        greeting = read_until(process, "Ctrl-C here")
        exports = dict(re.findall(r"export (\w+)=(\S+)", greeting))
        children = children_of(process.pid)
        assert exports["PATH"] == f"{complete_binaries.kubectl.parent}:$PATH"
        seen = [_kubectl(complete_binaries, line, exports["KUBECONFIG"]) for line in _commands(greeting)]
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (128 + signal.SIGTERM, "")
    assert "demo created" in seen[0]
    assert "daemonset.apps.kruise.io/demo" in seen[1]
    assert "demo patched" in seen[2]
    assert not running(children)
    assert not Path(exports["KUBECONFIG"]).parent.exists()


def _commands(greeting: str) -> list[str]:
    return re.findall(r"^  (kubectl .*)$", greeting, re.MULTILINE)


def _kubectl(binaries: Binaries, line: str, kubeconfig: str) -> str:
    """Run a line of the greeting as a shell would, there where its reader may be: elsewhere."""
    command = [str(binaries.kubectl), *shlex.split(line)[1:]]
    environ = {**os.environ, "KUBECONFIG": kubeconfig}
    done = subprocess.run(command, env=environ, cwd="/", capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
