"""Remembers the result of the dry run of each revision, and when the next dry run is due."""

from __future__ import annotations

from typing import assert_never

import msgspec

from controller.daemonset.answers import verdict_on_template
from controller.kube.errors import ApiError
from controller.kube.meaning import ForWrite, meaning_of
from controller.planner.world import Accepted, TemplateRefused, Unasked

ASK_AGAIN_SECONDS = 60.0
ASK_AGAIN_AT_MOST = 900.0
"""Seconds until a refused template is tried again, at first and at most. They double in between: policies change
without any event for us."""


class Verdicts(msgspec.Struct):
    """The verdicts on the revisions of one DaemonSet."""

    by_revision: dict[str, Accepted | TemplateRefused] = msgspec.field(default_factory=dict)
    """The verdicts by hash of the revision."""
    ask_at: float = 0.0
    """When a refused revision is tried again (`elapsed`)."""
    refusals: int = 0
    """How many dry runs in a row were refused. Each doubles the time until the next one."""
    asked: int = 0
    """How many dry runs in a row failed for any reason. Each next one tries the pod of another node."""

    def ask_anew(self) -> None:
        """Let a refused revision be tried at once, because the spec was edited, which may have removed the cause."""
        self.ask_at, self.refusals, self.asked = 0.0, 0, 0

    def learn(self, revision_hash: str, error: ApiError | None, moment: float) -> None:
        """Note the answer to a dry run: `error`, or None if it was accepted. The first denial is no verdict yet,
        because the cause may be the node of that pod."""
        verdict = verdict_on_template(error)
        self.asked += 1
        match verdict:
            case Accepted():
                self.by_revision[revision_hash] = verdict
                self.refusals = self.asked = 0
            case TemplateRefused():
                self.refusals += 1
                told = self.refusals - (error is not None and meaning_of(error).write is ForWrite.DENIED)
                if told > 0:
                    self.by_revision[revision_hash] = verdict
                    self.ask_at = moment + min(ASK_AGAIN_SECONDS * 2 ** min(told - 1, 9), ASK_AGAIN_AT_MOST)
            case Unasked():
                pass
            case _:
                assert_never(verdict)
