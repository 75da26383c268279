"""What the server's dry run of a pod said of each revision, and when it is asked again."""

from __future__ import annotations

from typing import assert_never

import msgspec

from controller.daemonset.answers import verdict_on_template
from controller.kube.errors import ApiError, Forbidden
from controller.planner.world import Accepted, TemplateRefused, Unasked

ASK_AGAIN_SECONDS = 60.0
ASK_AGAIN_AT_MOST = 900.0
"""A refused template is tried again after a minute, then ever later: policies change without a word to us."""


class Verdicts(msgspec.Struct):
    """Of one DaemonSet."""

    by_revision: dict[str, Accepted | TemplateRefused] = msgspec.field(default_factory=dict)
    """By its hash. After a while a "no" is asked again."""
    ask_at: float = 0.0
    """By `elapsed`: when a "no" is asked again."""
    refusals: int = 0
    """How often in a row the dry run was refused: each time the next question waits twice as long."""
    asked: int = 0
    """How often in a row it did not go well, for whatever reason: each time it is about the pod of another node."""

    def ask_anew(self) -> None:
        """An edit may be the cure."""
        self.ask_at, self.refusals, self.asked = 0.0, 0, 0

    def learn(self, revision_hash: str, error: ApiError | None, moment: float) -> None:
        """What the dry run said. Where a refusal may have been for the pod's node, another one is asked about."""
        verdict = verdict_on_template(error)
        self.asked += 1
        match verdict:
            case Accepted():
                self.by_revision[revision_hash] = verdict
                self.refusals = self.asked = 0
            case TemplateRefused():
                self.refusals += 1
                told = self.refusals - isinstance(error, Forbidden)
                if told > 0:
                    self.by_revision[revision_hash] = verdict
                    self.ask_at = moment + min(ASK_AGAIN_SECONDS * 2 ** min(told - 1, 9), ASK_AGAIN_AT_MOST)
            case Unasked():
                pass
            case _:
                assert_never(verdict)
