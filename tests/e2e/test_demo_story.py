"""The whole demo as a process: what it says in a pipe, and what it leaves behind."""

from __future__ import annotations

import os
import re
import signal

import pytest

from tests.tools.demo.running import SECONDS, children_of, demo, read_until, running

FAST = ("--pace", "0.05")


@pytest.fixture(scope="module")
def told() -> str:
    """What the demo says in a pipe, once for all tests that read it."""
    with demo(*FAST) as process:
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err
    assert err == ""
    return out


def test_a_pipe_gets_plain_lines(told: str) -> None:
    assert re.findall(r"[^\n\x20-\x7e]", told) == []
    assert max(len(line) for line in told.splitlines()) <= 80


@pytest.mark.parametrize(
    "fact",
    [
        "24 nodes have their pod",
        "6 nodes run busybox:1.37; partition holds the other 18",
        "24 nodes run busybox:1.37",
        "b-04 has no pod any more",
        "b-04 has a ready pod again",
        "a-05 has a new pod",
        "Done: 24 nodes, 51 pods created",
        "24 pods run busybox:1.37.0",
        "51 pods created, 26 deleted, 25 changes of pods,",
        "is prepared for its deletion, and waits",
        "b-04 is let go after",
        "writes by the controller, 0 refused",
    ],
)
def test_the_story_says(fact: str, told: str) -> None:
    assert fact in told


def test_every_node_is_told_of_in_both_revisions(told: str) -> None:
    for node in (f"{zone}-{number:02}" for zone in "abc" for number in range(1, 9)):
        assert f"{node}  A ready" in told
        assert f"{node}  B ready, unavailable for" in told


def test_nodes_are_updated_in_order_of_their_names_descending(told: str) -> None:
    """Three at a time, so of the first six none comes from further down than the eighth place."""
    updated = re.findall(r"(\S+)  B ready", told)
    assert sorted(updated[:6], reverse=True) == ["c-08", "c-07", "c-06", "c-05", "c-04", "c-03"]


def test_no_more_nodes_than_allowed_are_without_a_pod(told: str) -> None:
    worst = re.search(r"never more than (\d+) nodes", told)
    assert worst is not None
    assert 1 <= int(worst[1]) <= 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_its_own_code_and_nothing_leftrunning(number: signal.Signals) -> None:
    with demo() as process:
        read_until(process, " 1/")
        children = children_of(process.pid)
        process.send_signal(number)
        _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (128 + number, "")
    assert children, "the controller should be a process of its own"
    assert not running(children)


def test_a_reader_that_leaves_ends_it() -> None:
    with demo("--pace", "0.2") as process:
        read_until(process, " 1/")
        children = children_of(process.pid)
        assert process.stdout is not None
        process.stdout.close()  # as `head` does
        assert process.stderr is not None
        err = process.stderr.read()
        process.wait(timeout=SECONDS)
    assert (process.returncode, err) == (128 + signal.SIGPIPE, "")
    assert children
    assert not running(children)


def test_a_step_that_does_not_happen_ends_it_with_words() -> None:
    with demo(*FAST, "--patience", "5") as process:
        read_until(process, " 1/")  # no later: each step that does happen has to be in time
        os.kill(children_of(process.pid)[0], signal.SIGSTOP)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert err.startswith("demo: not within 5 s: "), err
    assert "Traceback" not in err


def test_a_controller_that_dies_ends_it_with_words() -> None:
    with demo("--pace", "0.2") as process:
        read_until(process, " 2/")
        os.kill(children_of(process.pid)[0], signal.SIGKILL)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert err.startswith("demo: the controller ended with -9"), err
    assert "controller.log" in err, "and the end of its log"
