"""Some histories for every day; `make test-deep` tells ten thousand. `laws` and `record` say what each one keeps."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from tests.simulation.story import Move, Outcome, drawn, told
from tests.simulation.wish import Wish

EVERY_DAY = (6, 10, 17, 19, 23, 24, 26, 29, 48, 54, 58, 63, 65, 72, 85, 92, 111, 124, 126, 136)
"""Short ones in which most kinds of faults happen."""


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [told(drawn(seed)) for seed in EVERY_DAY]


def test_no_law_is_broken(outcomes: list[Outcome]) -> None:
    assert not [f"seed {one.seed}: {one.charges}" for one in outcomes if one.charges]


@pytest.mark.parametrize("blind", [2.0, 9.0, 11.0, 30.0])
def test_two_do_not_lead_when_the_lease_is_deleted_and_its_holder_does_not_see_it(blind: float) -> None:
    moves = [Move("delete_lease", {"blind": blind}, 0.0)]
    moves += [Move("delete", {"node": f"node-{second % 4}"}, 1.0) for second in range(40)]
    outcome = told(replace(drawn(0), processes=2, elects=True, count=4, wish=Wish(), moves=tuple(moves)))
    assert outcome.charges == ""
    assert outcome.fired["lease: deleted"] == 1
    assert outcome.fired["the Lease changes hands"] == (blind > 5.0)


def test_a_seed_tells_the_same_history_in_every_process(outcomes: list[Outcome]) -> None:
    """Whatever the order of sets is there."""
    seed = outcomes[-1].seed
    command = [sys.executable, "-m", "tests.simulation", "replay", str(seed)]
    environ = {**os.environ, "PYTHONHASHSEED": "1"}
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environ).stdout
    assert said.splitlines()[:-1] == outcomes[-1].lines
    assert outcomes[-1].digest in said.splitlines()[-1]


def test_faults_of_all_kinds_have_happened(outcomes: list[Outcome]) -> None:
    fired = sum((one.fired for one in outcomes), Counter[str]())
    assert len(fired) > 50, fired
