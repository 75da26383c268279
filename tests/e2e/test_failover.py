"""One round of every way in which a leader ends in mid-rollout; `make test-failover` plays fifty. And what the judge
of its rounds calls late."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.beds.control_plane import ControlPlane
from tests.tools.failover.evidence import Write, acquisition, first_work, late, writes_in
from tests.tools.failover.pair import played_nodes
from tests.tools.failover.rounds import play
from tests.tools.failover.ways import CLEAN, CRASH, WAYS

BUSY = {CLEAN: 10.0, CRASH: 60.0}
"""Instead of those seconds: a machine may be busy. A Lease that was not given back is not free before 13 seconds."""


@pytest.mark.real
async def test_a_leaders_successor_is_quick_and_the_former_one_writes_no_more(plane: ControlPlane) -> None:
    async with played_nodes(plane) as nodes, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(play(plane, nodes, way, f"failover-{number}", number / len(WAYS)))
            for number, way in enumerate(WAYS)
        ]
    for way, task in zip(WAYS, tasks, strict=True):
        outcome = task.result()
        assert not outcome.late, f"{way.name}: written by a leader that had been followed: {outcome.late}"
        assert outcome.lease < BUSY[way.limit], f"{way.name}: {outcome.lease:.1f} s until the next one leads"


TAKEN = Write(user="next", what="patch leases", code=200, received=20.0, done=20.01)


def write(received: float, done: float, what: str = "create pods", code: int = 201) -> Write:
    return Write(user="old", what=what, code=code, received=received, done=done)


@pytest.mark.parametrize(
    ("one", "is_late"),
    [
        (write(19.9, 19.95), False),
        (write(20.1, 20.2), True),
        (write(19.9, 20.5), True),  # it waited in the server and took effect after the successor had begun
        (write(20.1, 20.2, "patch leases", 409), True),
        (write(19.9, 20.5, "patch leases"), False),  # its release: the server was slow to say so to the old leader
        (write(20.1, 20.2, "create events"), True),
    ],
)
def test_a_write_is_late_that_took_effect_after_the_lease_was_taken(one: Write, is_late: bool) -> None:
    assert (late([one, TAKEN], "old", TAKEN) == [one]) is is_late


def test_the_lease_is_taken_by_the_first_write_that_is_accepted() -> None:
    refused = Write(user="next", what="patch leases", code=409, received=18.0, done=18.01)
    work = Write(user="next", what="delete pods", code=200, received=20.3, done=20.4)
    assert acquisition([refused, TAKEN, work], "next", 17.0) == TAKEN
    assert first_work([refused, TAKEN, work], "next", 17.0) == work
    assert acquisition([TAKEN], "next", 21.0) is None


def test_only_finished_lines_about_the_namespace_count_and_reads_do_not(tmp_path: Path) -> None:
    def line(verb: str, namespace: str) -> str:
        return json.dumps(
            {
                "user": {"username": "old"},
                "verb": verb,
                "objectRef": {"resource": "pods", "subresource": "status", "namespace": namespace},
                "responseStatus": {"code": 200},
                "requestReceivedTimestamp": "1970-01-01T00:00:20.100000Z",
                "stageTimestamp": "1970-01-01T00:00:20.200000Z",
            },
            separators=(",", ":"),
        )

    log = tmp_path / "audit.log"
    log.write_text("\n".join([line("patch", "a"), line("get", "a"), line("patch", "b"), line("create", "a")]))
    assert writes_in(log, "a") == [write(20.1, 20.2, "patch pods/status", 200)]
