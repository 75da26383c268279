"""How long pods last on a node, and until when it has to wait for the next one."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from tests.simulation.scene import Pod

LONG, LONGEST = 60.0, 900.0
"""Seconds: what lasts longer ends the back-off; and no node waits longer."""
BRIEF, QUIET = 30.0, 1800.0
"""Seconds: what ends earlier has not lasted, however late the news; and without a create all is forgotten."""


@dataclass
class Create:
    """The controller has created a pod."""

    version: int
    generation: int
    node_uid: str
    pod: str
    """uid"""
    at: float
    ended: float = float("inf")
    """When it failed, or was gone by the hand of another client."""


@dataclass
class Wear:
    creates: list[Create] = field(default_factory=list)

    def changed(self, before: Pod, after: Pod | None, now: float, *, ours: bool) -> None:
        """The controller hears of it at once. What it deletes itself is no failure."""
        for one in self.creates:
            if one.pod != before.uid:
                continue
            if ours and (after is None or after.terminating):
                one.pod = ""
            elif after is None or after.ended:
                one.ended = min(one.ended, now)

    def sent_away(self, node_uid: str) -> None:
        """A taint empties the node, which is no failure of it."""
        self.creates = [one for one in self.creates if one.node_uid != node_uid]

    def until(self, generation: int, node_uid: str, answered: Container[int]) -> float:
        """When the node may have its next pod, by what the controller surely knows of those before: the first
        replacement comes at once, then 1 s after the create before, doubling to a quarter of an hour, unless a pod
        may have lasted for a minute and for longer than the wait."""
        wait, last = 0.0, Create(0, generation, node_uid, "", float("-inf"))
        for one in self.creates:
            if (one.generation, one.node_uid) == (generation, node_uid) and one.version in answered:
                lasted = one.at - last.at
                if last.ended - last.at < BRIEF and lasted < QUIET:
                    lasted = 0.0
                wait, last = (min(max(wait * 2, 1.0), LONGEST) if lasted < max(wait, LONG) else 0.0), one
        return last.at + wait
