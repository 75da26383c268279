"""Problems whose own words are missing, and the same with the words that were found elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from msgspec.structs import replace

from controller.api.meta import Key
from kubectl_plugin.report.status.document import Problem, RolloutStatus

Run: TypeAlias = tuple[Key, str, int]
"""A pod, one of its containers, and how often that was restarted."""

MOST: Final = 3
"""Problems that are looked into."""
_KUBELET: Final = "back-off "
"""How the kubelet's own words for a container that waits begin; they say nothing of why it ended."""


def runs_without_words(status: RolloutStatus) -> list[Run]:
    return [_run(status, one) for one in status.problems[:MOST] if _lacks_words(one)]


def with_words(status: RolloutStatus, found: Mapping[Run, str]) -> RolloutStatus:
    """The kubelet's words are never kept: they are no reason."""
    worded = (
        replace(one, message=found.get(_run(status, one), "")) if _lacks_words(one) else one
        for one in status.problems
    )
    return replace(status, problems=tuple(worded))


def _lacks_words(problem: Problem) -> bool:
    ran = problem.exit_code is not None and problem.restarts > 0
    return ran and (not problem.message or problem.message.startswith(_KUBELET))


def _run(status: RolloutStatus, problem: Problem) -> Run:
    return Key(status.namespace, problem.pod), problem.container, problem.restarts
