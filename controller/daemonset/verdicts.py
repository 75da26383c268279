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
    """The verdicts on the revisions of one DaemonSet."""

    by_revision: dict[str, Accepted | TemplateRefused] = msgspec.field(default_factory=dict)
    """By hash of the revision. A refused one is tried again at `ask_at`."""
    ask_at: float = 0.0
    """By `elapsed`: when a refused revision is tried again."""
    refusals: int = 0
    """How many dry runs in a row were refused: each doubles the time until the next one."""
    asked: int = 0
    """How many dry runs in a row failed for whatever reason: each next one tries the pod of another node."""

    def ask_anew(self) -> None:
        """Try a refused revision at once: the spec was edited, which may have removed the cause."""
        self.ask_at, self.refusals, self.asked = 0.0, 0, 0

    def learn(self, revision_hash: str, error: ApiError | None, moment: float) -> None:
        """Note the answer to a dry run: `error`, or None for accepted. A first Forbidden is no verdict yet, because
        it may have been for the pod's node."""
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
