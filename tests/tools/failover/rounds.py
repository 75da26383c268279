"""One round: a rollout, a leader that ends in its middle, and what must hold at the API server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tests.beds.control_plane import ControlPlane
from tests.beds.installed.process import PATIENCE
from tests.beds.nodes import Nodes
from tests.tools.failover.evidence import Write, acquisition, first_work, late, writes_in
from tests.tools.failover.pair import LEADER, SIZE, STANDBY, Pair, pair_on
from tests.tools.failover.ways import Way

MASTER = 'leader_election_master_status{name="kruise-ds-controller"}'
QUICK = 0.6
"""Seconds for a node's new pod once the leader has changed."""


@dataclass(frozen=True)
class Outcome:
    """What a round measured, in seconds since the leader's end, by the API server's clock."""

    way: str
    lease: float
    """Until the successor had the Lease."""
    work: float
    """Until its first write beside the Lease."""
    late: tuple[Write, ...]
    """What the old leader wrote after that; must be empty."""


async def play(plane: ControlPlane, nodes: Nodes, way: Way, name: str, moment: float) -> Outcome:
    """Raises AssertionError for a rollout that went wrong; `late` and the times are for the caller to judge.

    `name` must be new on this control plane; `moment` (0 to 1) is where in the replacement of a pod the end falls.
    """
    async with pair_on(plane, nodes, name, proxies=way.proxies) as pair:
        pair.pace(way.pace)
        pair.witness.floor = SIZE - 1
        await _each_knows_its_part(pair)
        await pair.roll()
        await pair.witness.until(lambda: len(pair.witness.retired) >= 1, "the rollout has begun")
        await asyncio.sleep(moment * way.pace)  # so that it ends at another point of the work each time
        ended = await way.end(pair)
        assert len(pair.witness.retired) < SIZE, "in the middle of the rollout"
        await pair.standby.leads()
        pair.pace(QUICK)
        if way.afterwards is not None:
            await way.afterwards(pair)
        async with asyncio.timeout(PATIENCE):
            code = await pair.leader.process.ended()
        assert code == way.code, f"{way.name}: exit code {code}, not {way.code}{pair.leader.process.tail()}"
        assert await pair.standby.metric(MASTER) == 1
        await _ends_well(pair)
        return _measured(way, writes_in(plane.audit_path, name), ended)


async def _each_knows_its_part(pair: Pair) -> None:
    assert (await pair.standby.page("/readyz"))[0] == 200, "a standby is ready"
    assert await pair.leader.metric(MASTER) == 1
    assert await pair.standby.metric(MASTER) == 0


async def _ends_well(pair: Pair) -> None:
    """Every pod was replaced, and none twice; the witness has watched over the budget all the time."""
    pods = await pair.bed.serves(*pair.nodes, labels={"ver": "v2"})
    await pair.bed.settled(SIZE)
    new = {pod["metadata"]["uid"] for pod in pods.values()}
    await pair.witness.until(lambda: pair.witness.now.keys() == new, "all new pods are seen, and no old one")
    assert sorted(pair.witness.ever.values()) == sorted(pair.nodes * 2), "one old and one new pod for each node"
    assert sorted(pair.witness.retired.values()) == sorted(pair.nodes), "no new pod was told to go"


def _measured(way: Way, writes: list[Write], ended: float) -> Outcome:
    taken = acquisition(writes, STANDBY.name, ended)
    assert taken is not None, f"{way.name}: the standby never wrote the Lease"
    begun = first_work(writes, STANDBY.name, ended)
    assert begun is not None, f"{way.name}: the standby never wrote anything"
    assert not first_work(writes, STANDBY.name, 0.0) or begun.received >= taken.received, f"{way.name}: {begun}"
    return Outcome(
        way=way.name,
        lease=taken.received - ended,
        work=begun.received - ended,
        late=tuple(late(writes, LEADER.name, taken)),
    )
