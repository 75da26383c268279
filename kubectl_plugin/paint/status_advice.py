"""The lines of `status` that say what is wrong, what it waits for, and what to type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rich.text import Text

from controller.api.daemonset import Phase
from controller.api.number import scaled
from controller.api.wellknown import TEMPLATE_REFUSED
from kubectl_plugin.paint import style
from kubectl_plugin.paint.sight import BUSY, Sight, labelled, line
from kubectl_plugin.report.node_row import NodeState
from kubectl_plugin.report.status.document import Problem
from kubectl_plugin.report.status.reasons import rows_in, some
from kubectl_plugin.report.status.standing import ago

MOST_PROBLEMS: Final = 3
MOST_NAMES: Final = 3
_REFUSED_POD: Final = re.compile(r'^(?:Pod|pods) "[^"]*" is (?:forbidden|invalid): ')
"""The dry run's own pod: nobody can look it up."""


def rest(sight: Sight) -> Iterator[Text]:
    """For phases that end only when a person does something."""
    match sight.survey.phase:
        case Phase.HELD:
            yield from _held(sight)
        case Phase.PAUSED:
            yield from _paused(sight)
        case Phase.MANUAL:
            nodes = rows_in(sight.survey, NodeState.NEXT)
            yield line("Waits for", f"the old pods of {some(row.node for row in nodes)} to be deleted")
            pod = next((row.pod.pod.name for row in nodes if row.pod), "POD")
            yield line("Next", f"kubectl delete pod -n {sight.status.namespace} {pod}")
        case Phase.PENDING:
            yield line("Waits for", sight.status.message.removeprefix("waiting for "))
            yield from sight.quoted("Problem", sight.absence)
            yield line("Try", "kubectl kruise-ds doctor")


def troubles(sight: Sight) -> list[Text]:
    """Nothing at all where all is well."""
    return [*_problems(sight), *_waits(sight), *labelled("Try", _commands(sight))]


def _held(sight: Sight) -> Iterator[Text]:
    """By whom, and which nodes come with the next step."""
    status = sight.status
    partition, steps = status.strategy.partition, status.steps
    if not partition:
        yield line("Held by", status.message)
        return
    after = steps.next if steps is not None and steps.next is not None else 0
    promotes = steps is not None and steps.next is not None
    yield line("Next", sight.command("promote") if promotes else sight.command("set-partition", "0"))
    freed = max(partition - scaled(after, status.nodes.desired, round_up=False), 0)
    names = [row.node for row in rows_in(sight.survey, NodeState.OLD)[:freed]]
    shown = ", ".join(names) if len(names) <= MOST_NAMES else f"{names[0]} … {names[-1]}"
    yield line("", f"partition {partition} → {after}" + (f": {shown}" if names else ""))


def _paused(sight: Sight) -> Iterator[Text]:
    pause, previous = sight.status.paused, sight.status.revision.previous
    if pause is not None and pause.at:
        who = f" by {pause.by}" if pause.by else ""
        why = f': "{pause.reason}"' if pause.reason else ""
        yield line("Paused", f"{ago(pause.at, sight.survey.snapshot.now)}{who}{why}")
    older = f"; new nodes get revision {previous}" if previous is not None else ""
    yield line("Still", f"lost pods come back as they were{older}")
    yield line("Next", sight.command("resume"))


def _problems(sight: Sight) -> Iterator[Text]:
    refused = sight.survey.standing.refused if sight.survey.phase is Phase.STALLED else ""
    if refused:
        what = "the server refuses the new pod:" if sight.status.reason == TEMPLATE_REFUSED else "unusable spec:"
        yield line("Problem", Text(what, style.BAD))
        yield from sight.quoted("", _REFUSED_POD.sub("", refused))
    problems = sight.status.problems
    for index, problem in enumerate(problems[:MOST_PROBLEMS]):
        yield line("" if index or refused else "Problem", Text(_described(problem), style.BAD))
        yield from sight.quoted("", f'"{problem.message}"' if problem.message else "")
    if len(problems) > MOST_PROBLEMS:
        yield line("", f"and {len(problems) - MOST_PROBLEMS} more")


def _described(problem: Problem) -> str:
    """`c-04  node-agent-x7k2p  CrashLoopBackOff, 3 restarts, exit 1:`."""
    facts = [problem.reason]
    if problem.restarts:
        facts.append(f"{problem.restarts} restart{'s' if problem.restarts > 1 else ''}")
    if problem.exit_code is not None:
        facts.append(f"exit {problem.exit_code}")
    end = ":" if problem.message else ""
    return f"{problem.node}  {problem.pod}  {', '.join(facts)}{end}"


def _waits(sight: Sight) -> Iterator[Text]:
    """Who may get well by itself, then who is next in turn."""
    if sight.survey.phase is not Phase.PROGRESSING:
        return
    starting = [row.node for row in rows_in(sight.survey, NodeState.UPDATING)]
    failing = [row.node for row in rows_in(sight.survey, NodeState.FAILING)]
    coming = [row.node for row in rows_in(sight.survey, NodeState.NEXT)]
    if not (starting or failing):
        return
    words = f"{some(starting or failing)} to become available"
    if coming:
        more = f" and {len(coming) - 2} more" if len(coming) > 2 else ""
        words += f"; {', '.join(f'then {name}' for name in coming[:2])}{more}"
    yield line("Waits for", words)


def _commands(sight: Sight) -> list[str]:
    """At most two: one to see why, one to go back."""
    status, commands = sight.status, []
    if status.problems:
        commands.append(_look_at(sight, status.problems[0]))
    new = [problem for problem in status.problems if problem.revision == status.revision.current]
    if (new or sight.survey.standing.refused) and status.revision.previous is not None and sight.survey.phase in BUSY:
        commands.append(sight.command("rollback"))
    return commands


def _look_at(sight: Sight, problem: Problem) -> str:
    namespace = sight.status.namespace
    if not problem.restarts:
        return f"kubectl describe pod -n {namespace} {problem.pod}"
    return f"kubectl logs -n {namespace} {problem.pod}{_container(sight, problem)} --previous"


def _container(sight: Sight, problem: Problem) -> str:
    """Which one, where kubectl would have to guess."""
    detail = next((row.pod for row in sight.survey.rows if row.pod and row.pod.pod.name == problem.pod), None)
    several = detail is not None and len((*detail.containers, *detail.init_containers)) > 1
    return f" -c {problem.container}" if several and problem.container else ""
