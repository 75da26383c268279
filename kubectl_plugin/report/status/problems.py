"""What is wrong with a rollout, as `status` prints it for programs, completed with the last line of a container's
log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from msgspec.structs import asdict, replace

from controller.api.names import WRITES_FAIL
from controller.api.objects import Key, Value
from controller.planner.explanation import NodeState
from kubectl_plugin.report.status.reasons import refused_writes_words
from kubectl_plugin.report.survey import Survey

Run: TypeAlias = tuple[Key, str, int]
"""A pod, one of its containers, and how often that container was restarted."""

MOST: Final = 3
"""How many problems are completed from logs."""
_KUBELET: Final = "back-off "
"""How the kubelet's message for a waiting container begins; it does not say why the container ended."""


class Problem(Value, rename="camel", kw_only=True):
    """A pod that will not become ready by itself; without node and pod, an error that the server answers to the
    controller."""

    node: str = ""
    pod: str = ""
    container: str = ""
    reason: str
    restarts: int = 0
    exit_code: int | None = None
    message: str
    revision: int | None = None


def problems_of(survey: Survey) -> tuple[Problem, ...]:
    troubled = [(row, row.trouble) for row in survey.in_update_order if row.trouble is not None]
    troubled.sort(key=lambda one: one[0].state is not NodeState.FAILING)
    words = refused_writes_words(survey.daemonset)
    writes = (Problem(reason=WRITES_FAIL, message=words),) if words else ()
    pods = (
        Problem(node=row.node, pod=row.pod.pod.name if row.pod else "", revision=row.revision, **asdict(trouble))
        for row, trouble in troubled
    )
    return (*writes, *pods)


def runs_without_words(namespace: str, problems: Sequence[Problem]) -> list[Run]:
    return [_run(namespace, one) for one in problems[:MOST] if _lacks_words(one)]


def with_words(namespace: str, problems: Sequence[Problem], found: Mapping[Run, str]) -> tuple[Problem, ...]:
    """The problems with `found` in place of the kubelet's message, which gives no reason."""
    return tuple(
        replace(one, message=found.get(_run(namespace, one), "")) if _lacks_words(one) else one for one in problems
    )


def _lacks_words(problem: Problem) -> bool:
    ran = problem.exit_code is not None and problem.restarts > 0
    return ran and (not problem.message or problem.message.startswith(_KUBELET))


def _run(namespace: str, problem: Problem) -> Run:
    return Key(namespace, problem.pod), problem.container, problem.restarts
