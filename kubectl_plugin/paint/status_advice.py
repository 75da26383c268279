"""The lines of `status` about what is wrong, what the rollout waits for, and what to type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.text import Text

from controller.api.daemonset import Phase
from controller.api.formats import counted
from controller.api.names import WRITES_FAIL
from controller.api.objects import Key
from controller.planner.explanation import NodeState
from kubectl_plugin.commands import command
from kubectl_plugin.paint import style
from kubectl_plugin.paint.status_view import BUSY, StatusView, labelled, line
from kubectl_plugin.report.counts_in_words import between
from kubectl_plugin.report.status.headline import ago_in_words
from kubectl_plugin.report.status.problems import Problem
from kubectl_plugin.report.status.reasons import new_pods_words, selector_hold_words, waits_for_words
from kubectl_plugin.report.status.release import release_of

MOST_PROBLEMS: Final = 3
_WHO_REFUSES: Final = r"^(server dry-run of the new pod|unusable spec):"


def hold_lines(view: StatusView) -> Iterator[Text]:
    """Lines for phases that only a person can end. A pause is shown in any phase."""
    if view.status.strategy.paused:
        yield from _paused_lines(view)
    match view.survey.phase:
        case Phase.HELD if not view.status.strategy.paused:
            yield from _held_lines(view)
        case Phase.HELD | Phase.PAUSED | Phase.PROGRESSING | Phase.STALLED | Phase.DEGRADED:
            pass
        case Phase.HEALTHY | Phase.TERMINATING:
            pass
        case Phase.MANUAL:
            yield line("Waits for", waits_for_words(view.survey))
            pod = next((row.pod.pod.name for row in view.survey.rows_in(NodeState.NEXT) if row.pod), "POD")
            yield line("Next", view.typed(command("delete pod", Key(view.status.namespace, pod), program="kubectl")))
        case Phase.PENDING:
            yield line("Waits for", view.status.message.removeprefix("waiting for "))
            yield from view.quoted("Problem", view.absence)
            yield line("Try", view.typed(command("doctor")))


def trouble_lines(view: StatusView) -> list[Text]:
    """Empty if all is well."""
    waiting = waits_for_words(view.survey) if view.survey.phase is Phase.PROGRESSING else ""
    lines = [*_problem_lines(view), *_prepared_lines(view), *labelled("Waits for", [waiting] if waiting else [])]
    return [*lines, *labelled("Try", _commands(view))]


def _prepared_lines(view: StatusView) -> Iterator[Text]:
    """Pods that the preDelete hook holds, whatever they are deleted for."""
    held = [one for row in view.survey.in_update_order for one in row.preparing]
    shown, words = held[:MOST_PROBLEMS], list[str]()
    for handlers in dict.fromkeys(one.held_by for one in shown):
        alike = [one for one in shown if one.held_by == handlers]
        words += [f"{one.node}  {one.pod} {one.age(view.survey.snapshot.now)}" for one in alike]
        words.append(f"{'each' if len(alike) > 1 else 'it'} goes when {alike[0].handlers} is removed")
    if len(held) > MOST_PROBLEMS:
        words.append(f"and {len(held) - MOST_PROBLEMS} more: {view.command('nodes', '--only', 'preparing')}")
    yield from labelled("Preparing", words)


def _held_lines(view: StatusView) -> Iterator[Text]:
    """Why the rollout is held, and which nodes the next step updates."""
    release = release_of(view.survey, view.status.steps)
    if release is None:
        yield line("Held by", selector_hold_words(view.survey.standing.kept))
        return
    command = view.command("promote") if release.is_step else view.command("set-partition", str(release.after))
    after = f"{release.keeps} ({release.after})" if isinstance(release.after, str) else f"{release.keeps}"
    more = counted(len(release.nodes), "more node")
    change = f"partition {release.before} → {after}: {more}, {between(release.nodes)}"
    together = line("Next", f"{command}   {change}")
    if together.cell_len <= view.width:
        yield together
    else:
        yield line("Next", command)
        yield line("", change)


def _paused_lines(view: StatusView) -> Iterator[Text]:
    pause = view.status.paused
    if pause is not None and pause.at:
        who = f" by {pause.by}" if pause.by else ""
        why = f': "{pause.reason}"' if pause.reason else ""
        yield line("Paused", f"{ago_in_words(pause.at, view.survey.snapshot.now)}{who}{why}")
    elif view.survey.phase is not Phase.PAUSED:
        yield line("Paused", "nothing more is rolled out before resume")
    if view.survey.phase is Phase.PAUSED:
        yield line("Still", new_pods_words(view.survey))
    yield line("Next", view.command("resume"))


def _problem_lines(view: StatusView) -> Iterator[Text]:
    refused = view.survey.phase is Phase.STALLED and bool(view.survey.standing.refused)
    if refused:
        yield from view.quoted("Problem", view.status.message, bad=_WHO_REFUSES)
    problems = view.status.problems
    for index, problem in enumerate(problems[:MOST_PROBLEMS]):
        yield line("" if index or refused else "Problem", Text(_described(problem), style.BAD))
        yield from view.quoted("", _words(problem))
    if len(problems) > MOST_PROBLEMS:
        yield line("", f"and {len(problems) - MOST_PROBLEMS} more")


def _words(problem: Problem) -> str:
    """A container's own message is put in quotation marks, because it is not ours."""
    return problem.message if problem.reason == WRITES_FAIL or not problem.message else f'"{problem.message}"'


def _described(problem: Problem) -> str:
    """`c-04  node-agent-x7k2p  CrashLoopBackOff, 3 restarts, exit 1:`."""
    if problem.reason == WRITES_FAIL:
        return "the controller's writes fail:"
    facts = [problem.reason]
    if problem.restarts:
        facts.append(counted(problem.restarts, "restart"))
    if problem.exit_code is not None:
        facts.append(f"exit {problem.exit_code}")
    end = ":" if problem.message else ""
    return f"{problem.node}  {problem.pod}  {', '.join(facts)}{end}"


def _commands(view: StatusView) -> list[str]:
    """At most two commands: one to see why, one to go back."""
    status, commands = view.status, []
    if status.problems:
        commands.append(view.typed(_look_command(view, status.problems[0])))
    new = [problem for problem in status.problems if problem.revision == status.revision.current]
    if (new or view.survey.standing.refused) and status.revision.previous is not None and view.survey.phase in BUSY:
        commands.append(view.command("rollback"))
    return commands


def _look_command(view: StatusView, problem: Problem) -> str:
    namespace = view.status.namespace
    if problem.reason == WRITES_FAIL:
        return f"kubectl describe ads -n {namespace} {view.status.name}"
    if not problem.restarts:
        return f"kubectl describe pod -n {namespace} {problem.pod}"
    detail = next((row.pod for row in view.survey.rows if row.pod and row.pod.pod.name == problem.pod), None)
    several = detail is not None and len(detail.all_containers) > 1
    which = f" -c {problem.container}" if several and problem.container else ""  # else kubectl would have to guess
    return f"kubectl logs -n {namespace} {problem.pod}{which} --previous"
