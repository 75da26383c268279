"""The demo and the playground on the real control plane."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.beds.control_plane import Binaries
from tests.tools.demo.running import SECONDS, children_of, demo, read_until, running

pytestmark = pytest.mark.real

ACTED_ON = "kubectl wait --for=jsonpath='{.status.observedGeneration}'=1 --timeout=60s ads/demo"


@pytest.mark.usefixtures("control_plane_binaries")
def test_the_same_story_on_a_real_control_plane() -> None:
    with demo("--real", "--pace", "0.05") as process:
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err
    assert "Done: 24 nodes, 51 pods created" in out
    assert "51 pods created, 26 deleted, 25 changes of pods," in out
    assert "writes by the controller, 0 refused" in out


def test_the_playground_works_as_it_says_and_goes_when_it_is_told(complete_binaries: Binaries) -> None:
    with demo("--cluster") as process:
        greeting = read_until(process, "Ctrl-C here")
        exports = dict(re.findall(r"export (\w+)=(\S+)", greeting))
        children = children_of(process.pid)
        folders = [complete_binaries.kubectl.parent, Path(sys.executable).parent]
        assert exports["PATH"] == f"{folders[0]}:{folders[1]}:$PATH"
        apply, *others = _commands(greeting)
        seen = [_run(apply, exports)]
        _run(ACTED_ON, exports)  # nobody types the third command before the controller has done the first
        seen += [_run(line, exports) for line in others]
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (128 + signal.SIGTERM, "")
    assert "demo created" in seen[0]
    assert "daemonset.apps.kruise.io/demo" in seen[1]
    assert "demo image updated, partition 0 -> 16" in seen[2]
    assert "demo Held 8/8 updated" in seen[3]
    assert "16 pods re-created" in seen[4]
    assert "demo rolled back to revision 1" in seen[5]
    assert not running(children)
    assert not Path(exports["KUBECONFIG"]).parent.exists()


def _commands(greeting: str) -> list[str]:
    return re.findall(r"^  (kubectl .*)$", greeting, re.MULTILINE)


def _run(line: str, exports: Mapping[str, str]) -> str:
    """Run a line of the greeting in a shell, there where its reader may be: elsewhere."""
    environ = {**os.environ, **exports, "PATH": exports["PATH"].replace("$PATH", os.environ["PATH"])}
    done = subprocess.run(
        line, shell=True, env=environ, cwd="/", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
