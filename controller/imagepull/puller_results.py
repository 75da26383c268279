"""Reads the results off the pullers: who has the image now, where pulling failed, which pullers can go."""

from __future__ import annotations

from collections.abc import Mapping

from controller.api.puller import Puller, Pulling
from controller.imagepull.world import PULLED, EndPuller, JobWorld, Try, may_end
from controller.planner.step import Note

FIRST_WAIT = 1.0
LONGEST_WAIT = 30.0
"""Seconds between two attempts on one node, at first and at most. They double in between."""
DOUBLINGS = 5
"""Doublings until the longest wait; doubling further would overflow at some time."""
HOPELESS = "InvalidImageName"
"""The beginning of a failure that no node and no retry can avoid."""
LOST = "its pod was deleted, or sent to another node, by somebody else"
IMAGE_PULL_FAILED = "ImagePullFailed"


def failed(nodes: Mapping[str, str]) -> tuple[Note, ...]:
    """Notes about nodes where it will not be tried again."""
    said = (f"{node}: {why}" for node, why in nodes.items())
    return tuple(Note(warning=True, reason=IMAGE_PULL_FAILED, message=one) for one in said)


class PullerResults:
    """The results that the pullers show."""

    def __init__(self, world: JobWorld) -> None:
        self.settled: dict[str, str | None] = {}
        self.tries: dict[str, Try] = {}
        self.active: set[str] = set()
        """Nodes whose puller goes on."""
        self.ends: list[EndPuller] = []
        self.timeouts: list[float] = []
        self._world = world
        self._due = {node for node, due in world.retried.items() if due <= world.moment}
        for puller in world.pullers:
            if self._is_asked(puller.node) and puller.job_uid == world.job.uid and self._goes_on(puller):
                self.active.add(puller.node)
            elif may_end(world, puller):
                self.ends.append(EndPuller(pod=puller.ref))
        for node, uid in world.lost.items():
            if self._is_asked(node) and node not in world.silent:
                self._failed(node, uid, LOST)

    @property
    def notes(self) -> tuple[Note, ...]:
        return failed({node: why for node, why in self.settled.items() if why is not PULLED})

    def _is_asked(self, node: str) -> bool:
        return node in self._world.left or node in self._due

    def _goes_on(self, puller: Puller) -> bool:
        world, node = self._world, puller.node
        if puller.dying or puller.uid in world.awaited:
            return False
        if puller.state is Pulling.DONE:
            self.settled[node] = PULLED
            return False
        if puller.state is Pulling.FAILED:
            self._failed(node, puller.uid, puller.why)
            return False
        if node in world.silent:
            return False  # nobody waits for it; the node gets another one when it is back
        timeout = world.job.spec.timeout
        until = world.since.get(puller.uid, world.moment) + timeout
        if until > world.moment:
            self.timeouts.append(until)
            return True
        self._failed(node, puller.uid, f"not pulled within {timeout} s" + (f": {puller.why}" if puller.why else ""))
        return False

    def _failed(self, node: str, puller: str, why: str) -> None:
        known = self._world.tries.get(node)
        if known is not None and known.puller == puller:
            return  # known already; its puller could not be deleted yet
        failures = 1 + (known.failures if known is not None else 0)
        if node in self._due or failures > self._world.job.spec.retries or why.startswith(HOPELESS):
            self.settled[node] = why
            return
        wait = min(FIRST_WAIT * 2.0 ** min(failures - 1, DOUBLINGS), LONGEST_WAIT)
        self.tries[node] = Try(failures=failures, due=self._world.moment + wait, why=why, puller=puller)
