"""The lines of `status` that say what is wrong, what it waits for, and what to type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.text import Text

from controller.api.daemonset import Phase
from controller.planner.states import NodeState
from kubectl_plugin.edits.outlook import named
from kubectl_plugin.paint import style
from kubectl_plugin.paint.sight import BUSY, Sight, labelled, line
from kubectl_plugin.report.status.document import Problem
from kubectl_plugin.report.status.reasons import WRITES_FAIL, left_out, newcomers, rows_in, waits
from kubectl_plugin.report.status.release import release_of
from kubectl_plugin.report.status.standing import ago
from kubectl_plugin.report.values import counted

MOST_PROBLEMS: Final = 3
_WHO_REFUSES: Final = r"^(server dry-run of the new pod|unusable spec):"


def rest(sight: Sight) -> Iterator[Text]:
    """For phases that end only when a person does something. A pause does in any."""
    if sight.status.strategy.paused:
        yield from _paused(sight)
    match sight.survey.phase:
        case Phase.HELD if not sight.status.strategy.paused:
            yield from _held(sight)
        case Phase.MANUAL:
            yield line("Waits for", waits(sight.survey))
            pod = next((row.pod.pod.name for row in rows_in(sight.survey, NodeState.NEXT) if row.pod), "POD")
            yield line("Next", f"kubectl delete pod -n {sight.status.namespace} {pod}")
        case Phase.PENDING:
            yield line("Waits for", sight.status.message.removeprefix("waiting for "))
            yield from sight.quoted("Problem", sight.absence)
            yield line("Try", "kubectl kruise-ds doctor")


def troubles(sight: Sight) -> list[Text]:
    """Nothing at all where all is well."""
    return [*_problems(sight), *_prepared(sight), *_waits(sight), *labelled("Try", _commands(sight))]


def _prepared(sight: Sight) -> Iterator[Text]:
    """Pods that the preDelete hook holds, whatever they go for."""
    held = [one for row in sight.survey.in_update_order for one in row.preparing]
    shown, words = held[:MOST_PROBLEMS], list[str]()
    for handlers in dict.fromkeys(one.held_by for one in shown):
        alike = [one for one in shown if one.held_by == handlers]
        words += [f"{one.node}  {one.pod} {one.age(sight.survey.snapshot.now)}" for one in alike]
        words.append(f"{'each' if len(alike) > 1 else 'it'} goes when {alike[0].handlers} is taken away")
    if len(held) > MOST_PROBLEMS:
        words.append(f"and {len(held) - MOST_PROBLEMS} more: {sight.command('nodes')} --only preparing")
    yield from labelled("Preparing", words)


def _held(sight: Sight) -> Iterator[Text]:
    """By whom, and which nodes come with the next step."""
    release = release_of(sight.survey, sight.status.steps)
    if release is None:
        yield line("Held by", left_out(sight.survey))
        return
    command = sight.command("promote") if release.is_step else sight.command("set-partition", str(release.after))
    after = f"{release.keeps} ({release.after})" if isinstance(release.after, str) else f"{release.keeps}"
    more = counted(len(release.nodes), "more node")
    change = f"partition {release.before} → {after}: {more}, {named(release.nodes)}"
    together = line("Next", f"{command}   {change}")
    if together.cell_len <= sight.width:
        yield together
    else:
        yield line("Next", command)
        yield line("", change)


def _paused(sight: Sight) -> Iterator[Text]:
    pause = sight.status.paused
    if pause is not None and pause.at:
        who = f" by {pause.by}" if pause.by else ""
        why = f': "{pause.reason}"' if pause.reason else ""
        yield line("Paused", f"{ago(pause.at, sight.survey.snapshot.now)}{who}{why}")
    elif sight.survey.phase is not Phase.PAUSED:
        yield line("Paused", "nothing more is rolled out before resume")
    if sight.survey.phase is Phase.PAUSED:
        yield line("Still", newcomers(sight.survey))
    yield line("Next", sight.command("resume"))


def _problems(sight: Sight) -> Iterator[Text]:
    refused = sight.survey.phase is Phase.STALLED and bool(sight.survey.standing.refused)
    if refused:
        yield from sight.quoted("Problem", sight.status.message, bad=_WHO_REFUSES)
    problems = sight.status.problems
    for index, problem in enumerate(problems[:MOST_PROBLEMS]):
        yield line("" if index or refused else "Problem", Text(_described(problem), style.BAD))
        yield from sight.quoted("", _words(problem))
    if len(problems) > MOST_PROBLEMS:
        yield line("", f"and {len(problems) - MOST_PROBLEMS} more")


def _words(problem: Problem) -> str:
    """A container's in quotation marks: nobody knows how they are meant."""
    return problem.message if problem.reason == WRITES_FAIL or not problem.message else f'"{problem.message}"'


def _described(problem: Problem) -> str:
    """`c-04  node-agent-x7k2p  CrashLoopBackOff, 3 restarts, exit 1:`."""
    if problem.reason == WRITES_FAIL:
        return "the controller's writes fail:"
    facts = [problem.reason]
    if problem.restarts:
        facts.append(f"{problem.restarts} restart{'s' if problem.restarts > 1 else ''}")
    if problem.exit_code is not None:
        facts.append(f"exit {problem.exit_code}")
    end = ":" if problem.message else ""
    return f"{problem.node}  {problem.pod}  {', '.join(facts)}{end}"


def _waits(sight: Sight) -> Iterator[Text]:
    words = waits(sight.survey) if sight.survey.phase is Phase.PROGRESSING else ""
    if words:
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
    if problem.reason == WRITES_FAIL:
        return f"kubectl describe ads -n {namespace} {sight.status.name}"
    if not problem.restarts:
        return f"kubectl describe pod -n {namespace} {problem.pod}"
    return f"kubectl logs -n {namespace} {problem.pod}{_container(sight, problem)} --previous"


def _container(sight: Sight, problem: Problem) -> str:
    """Which one, where kubectl would have to guess."""
    detail = next((row.pod for row in sight.survey.rows if row.pod and row.pod.pod.name == problem.pod), None)
    several = detail is not None and len((*detail.containers, *detail.init_containers)) > 1
    return f" -c {problem.container}" if several and problem.container else ""
