"""Law: `rollback` goes to no revision that has not proved itself, whatever happened before."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.names import RESTARTED_AT
from controller.api.template_identity import identity, without_restart
from controller.planner.validation import compiled
from kubectl_plugin.errors import CommandError
from kubectl_plugin.rollout.target import target_of
from tests.beds.snapshots import of_world
from tests.beds.toy_cluster import ToyCluster
from tests.beds.worlds import ds, node, numbered, taint, template, world
from tests.properties.size import every_day

NODES = 8
UNREACHABLE = taint("node.kubernetes.io/unreachable", "NoExecute")


def wish(tag: str, restart: int, partition: int) -> DaemonSet:
    made: Any = template(tag, tolerations=[{"operator": "Exists"}])
    if restart:
        made["metadata"]["annotations"] = {RESTARTED_AT: f"2027-01-15T08:00:0{restart}Z"}
    wanted = ds(tag, max_unavailable=3, partition=partition)
    return replace(wanted, spec=replace(wanted.spec, template=made), identity=identity(made))


def apply(cluster: ToyCluster, daemonset: DaemonSet) -> None:
    """The controller makes its revision by itself."""
    before = cluster.world.daemonset
    daemonset = replace(daemonset, generation=before.generation + 1, status=before.status)
    cluster.world = replace(cluster.world, daemonset=daemonset, rules=compiled(daemonset))


STEPS = st.tuples(
    st.sampled_from(("v1", "v2", "v3", "v4", "v5")),
    st.sampled_from((0, 0, 0, 1, 2)),  # restarts
    st.sampled_from((0, 0, 1, 2, 3, 6)),  # partition
    st.sampled_from((0, 0, 0, 0, 1, 2)),  # dead nodes
    st.sampled_from((1.0, 60.0, 60.0)),  # how long it is watched
)


class Watched:
    """Which contents have proved themselves, by what was available where and since when."""

    def __init__(self, cluster: ToyCluster) -> None:
        self.cluster = cluster
        self.stable: set[str] = set()
        self.first: set[str] = set()
        """The first that was available on every node; it counts while none is stable."""

    def step(self) -> None:
        world = self.cluster.world
        contents = {one.hash: without_restart(one.template) for one in world.revisions}
        reached = {one.name for one in world.nodes if not one.unreachable}
        ready = [one for one in world.pods if one.ready and not one.terminating and one.node in reached]
        long = Counter(contents[one.hash] for one in ready if world.now - (one.ready_since or 0.0) >= 30.0)
        self.stable |= {one for one, number in long.items() if number == len(reached)}
        if not self.first and len(ready) == len(reached) and len(found := {contents[one.hash] for one in ready}) == 1:
            self.first = found
        self.cluster.step()

    def judge(self) -> None:
        """Either it is refused, or goes to one that has proved itself and is not live."""
        world = self.cluster.world
        try:
            target = without_restart(target_of(of_world(world), None).revision.template)
        except CommandError as refused:
            event(refused.message.rpartition(":")[2].rstrip("0123456789"))
            return
        event("goes back")
        assert target != without_restart(world.daemonset.spec.template)
        assert target in (self.stable if self._known else self.first)

    @property
    def _known(self) -> bool:
        status = self.cluster.world.daemonset.status
        return status is not None and status.rollout is not None and status.rollout.stable_revision is not None


@every_day(150)
@given(st.lists(STEPS, min_size=2, max_size=8), st.data())
def test_it_is_one_that_proved_itself(story: list[tuple[str, int, int, int, float]], data: st.DataObject) -> None:
    cluster = ToyCluster(world(wish("v1", 0, 0), nodes=numbered(NODES), revisions=[]))
    watched = Watched(cluster)
    bad = set(data.draw(st.sets(st.sampled_from(("v2", "v3", "v4")))))
    for tag, restart, partition, dead, seconds in story:
        cluster.dead = {f"node-{number}" for number in range(dead)}
        cluster.set_nodes(
            *(node(f"node-{number}", *([UNREACHABLE] if number < dead else [])) for number in range(NODES))
        )
        apply(cluster, wish(tag, restart, partition))
        for _ in range(8):
            watched.step()
            if able := [name for name, found in cluster.revisions().items() if found not in bad]:
                cluster.ready(*able)
        cluster.settle()
        watched.judge()
        cluster.pass_time(seconds)
        watched.step()
        cluster.settle()
        watched.judge()
