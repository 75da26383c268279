"""The demo and the playground as processes: what they print, and that nothing is left of them."""

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

pytestmark = pytest.mark.real  # each waits for a process that plays in real time
FAST = ("--pace", "0.05")
FACTS = (
    "24 nodes have their pod",
    "a-08 was alone for",
    "zone-a, zone-b, zone-c: all on busybox:1.37 after",
    "the step keeps the old revision on 23 nodes",
    "24 pods have the label",
    "is prepared for its deletion, and waits",
    "b-04 is let go after",
    "revision C is recorded as the stable one",
    "kubectl kruise-ds status demo -w ends with exit code 4:",
    "error: rollout of daemonset.apps.kruise.io/demo was aborted",
    "a-08 runs busybox:1.37 again",
    "b-04 has a pod of the good version",
    "a-05 has a new pod",
    "24 pods run busybox:1.37.0",
    "Done: 24 nodes, 50 pods created",
    "50 pods created, 25 deleted, 51 changes of pods,",
    "writes by the controller, 0 refused",
)


def test_in_a_pipe_the_demo_tells_its_whole_story_in_plain_lines() -> None:
    with demo(*FAST) as process:
        told, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (0, "")
    assert [fact for fact in FACTS if fact not in told] == [], told
    for node in (f"{zone}-{number:02}" for zone in "abc" for number in range(1, 9)):
        assert f"{node}  B ready, unavailable for" in told
    assert int(re.findall(r"never more than (\d+) nodes", told)[0]) in (1, 2, 3, 4)
    assert re.findall(r"[^\n\x20-\x7e]", told) == []
    assert max(map(len, told.splitlines())) <= 80


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGPIPE], ids=lambda one: one.name)
def test_a_signal_ends_the_demo_with_its_own_code_and_nothing_runs_on(number: signal.Signals) -> None:
    """SIGPIPE: its reader leaves, as `head` does."""
    with demo("--pace", "0.2") as process:
        read_until(process, " 1/")
        children = children_of(process.pid)
        assert children, "the controller should be a process of its own"
        if number == signal.SIGPIPE:
            assert process.stdout is not None
            process.stdout.close()
            assert process.stderr is not None
            err = process.stderr.read()
            process.wait(timeout=SECONDS)
        else:
            process.send_signal(number)
            _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (128 + number, "")
    assert not running(children)


@pytest.mark.parametrize(
    ("number", "words"),
    [(signal.SIGSTOP, "demo: not within 5 s: "), (signal.SIGKILL, "demo: the controller ended with -9")],
    ids=["hangs", "dies"],
)
def test_a_controller_that_does_not_go_on_ends_the_demo_with_words(number: signal.Signals, words: str) -> None:
    with demo(*FAST, "--patience", "5") as process:
        read_until(process, " 1/")
        os.kill(children_of(process.pid)[0], number)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert err.startswith(words), err
    assert "Traceback" not in err


def _run(line: str, exports: Mapping[str, str]) -> str:
    """Run a line of the greeting in a shell in another folder, where its reader may be."""
    environ = {**os.environ, **exports, "PATH": exports["PATH"].replace("$PATH", os.environ["PATH"])}
    done = subprocess.run(
        line, shell=True, env=environ, cwd="/", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_playground_works_as_it_says_and_ends_by_sigterm(control_plane_binaries: Binaries) -> None:
    with demo("--cluster") as process:
        greeting = read_until(process, "Ctrl-C here")
        exports = dict(re.findall(r"export (\w+)=(\S+)", greeting))
        children = children_of(process.pid)
        assert exports["PATH"] == f"{control_plane_binaries.kubectl.parent}:{Path(sys.executable).parent}:$PATH"
        apply, *others = re.findall(r"^  (kubectl .*)$", greeting, re.MULTILINE)
        seen = [_run(apply, exports)]
        _run("kubectl wait --for=jsonpath='{.status.rollout.phase}'=Healthy --timeout=60s ads/demo", exports)
        seen += [_run(line, exports) for line in others]
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (128 + signal.SIGTERM, "")
    expected = (
        "demo created",
        "daemonset.apps.kruise.io/demo",
        "demo image updated, partition 0 -> 16",
        "demo Held 8/8 updated",
        "16 pods re-created",
        "demo rolled back to revision 1",
    )
    assert [words for words, said in zip(expected, seen, strict=False) if words not in said] == [], seen
    assert not running(children)
    assert not Path(exports["KUBECONFIG"]).parent.exists()
