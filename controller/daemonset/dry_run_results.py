"""Remembers the result of the last dry run, and when the next one is due."""

from __future__ import annotations

from collections.abc import Mapping
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
TRUSTED_SECONDS = 60.0
"""Seconds for which the server's acceptance of a template is trusted, for the same reason."""


class Verdicts(msgspec.Struct):
    """The verdict on the newest revision of one DaemonSet."""

    hash: str = ""
    """The hash of the revision that was asked about last."""
    verdict: Accepted | TemplateRefused | None = None
    accepted_at: float = 0.0
    """When the server accepted a pod of it last (`elapsed`)."""
    ask_at: float = 0.0
    """When a refused revision is tried again (`elapsed`)."""
    refusals: int = 0
    """How many dry runs in a row were refused. Each doubles the time until the next one."""
    asked: int = 0
    """How many dry runs in a row failed for any reason. Each next one tries the pod of another node."""

    def known(self, moment: float) -> Mapping[str, Accepted | TemplateRefused]:
        """The verdict at `moment` by hash of the revision; empty without one, or when it is trusted no longer."""
        if self.verdict is None:
            return {}
        expired = isinstance(self.verdict, Accepted) and moment >= self.accepted_at + TRUSTED_SECONDS
        return {} if expired else {self.hash: self.verdict}

    def ask_anew(self) -> None:
        """Have the server asked again, because the spec was edited: that may have removed the cause of a refusal."""
        self.ask_at, self.refusals, self.asked = 0.0, 0, 0
        if isinstance(self.verdict, Accepted):
            self.verdict = None

    def created(self, revision_hash: str, moment: float) -> None:
        """Note that a pod was created, which says the same as another dry run of an accepted revision."""
        if revision_hash == self.hash and isinstance(self.verdict, Accepted):
            self.accepted_at = moment

    def learn(self, revision_hash: str, error: ApiError | None, moment: float) -> None:
        """Note the answer to a dry run: `error`, or None if it was accepted. The first denial is no verdict yet,
        because the cause may be the node of that pod."""
        verdict = verdict_on_template(error)
        if revision_hash != self.hash:
            self.hash, self.verdict = revision_hash, None
        self.asked += 1
        match verdict:
            case Accepted():
                self.verdict, self.accepted_at = verdict, moment
                self.refusals = self.asked = 0
            case TemplateRefused():
                if moment > self.ask_at - ASK_AGAIN_SECONDS / 2:  # else several creates were refused at once
                    self.refusals += 1
                told = self.refusals - (error is not None and meaning_of(error).write is ForWrite.DENIED)
                if told > 0:
                    self.verdict = verdict
                    self.ask_at = moment + min(ASK_AGAIN_SECONDS * 2 ** min(told - 1, 9), ASK_AGAIN_AT_MOST)
            case Unasked():
                pass
            case _:
                assert_never(verdict)
