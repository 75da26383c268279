"""`status` as people read it: one line that says how it stands, then why, what comes next, and what to type."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final

from rich.console import Group as Lines
from rich.text import Text

from controller.api.daemonset import Phase
from controller.api.number import scaled
from controller.api.wellknown import TEMPLATE_REFUSED
from controller.planner.eligibility import Fit
from kubectl_plugin.paint import style
from kubectl_plugin.paint.grid import grid
from kubectl_plugin.paint.table import clean, cut
from kubectl_plugin.report.differences import differences
from kubectl_plugin.report.images import images_of
from kubectl_plugin.report.images import short as short_image
from kubectl_plugin.report.node_row import NodeState
from kubectl_plugin.report.phrases import summary
from kubectl_plugin.report.reasons import rows_in, some
from kubectl_plugin.report.rollout_status import Problem, RolloutStatus
from kubectl_plugin.report.standing_words import ago, standing_of
from kubectl_plugin.report.survey import Survey

LABELS: Final = 11
"""Columns of the words on the left."""
BAR: Final = 20
SHORTEST_BAR: Final = 6
MOST_PROBLEMS: Final = 3
MOST_LINES: Final = 4
BUSY: Final = (Phase.PROGRESSING, Phase.STALLED, Phase.DEGRADED, Phase.PENDING)
"""Phases in which somebody waits for pods."""
_REFUSED_POD: Final = re.compile(r'^(?:Pod|pods) "[^"]*" is (?:forbidden|invalid): ')
"""The dry run's own pod: nobody can look it up."""


class Detail(IntEnum):
    """How much of it, where there is little room."""

    HEADLINE = 0
    NO_GRID = 1
    ALL = 2


class StatusBlock:
    """One look at one rollout. `wide`: whole image names and hashes, and lines are as long as they are."""

    def __init__(
        self,
        survey: Survey,
        status: RolloutStatus,
        *,
        width: int,
        only_ascii: bool,
        wide: bool = False,
        absence: str = "",
    ) -> None:
        """`absence`: why no controller seems to be active."""
        self._survey, self._status, self._absence = survey, status, absence
        self._width, self._ascii, self._wide = width, only_ascii, wide

    def lines(self, detail: Detail = Detail.ALL) -> list[Text]:
        """Never longer than the width, and without anything that a terminal would obey."""
        found = [*self._headline()]
        if detail is not Detail.HEADLINE:
            found += [*self._told(), *(self._grid() if detail is Detail.ALL else ()), *self._troubles()]
        return [self._fitted(line) for line in found]

    def drawn(self) -> Lines:
        return Lines(*self.lines())

    def _fitted(self, line: Text) -> Text:
        text = clean(line, only_ascii=False)
        if self._ascii:
            text = _in_ascii(text)
        return text if self._wide else cut(text, self._width, self._ascii)

    def _headline(self) -> Iterator[Text]:
        """What it says after the phase gets a line of its own where it does not fit."""
        status = self._status
        line = Text.assemble((status.name, "bold"), f" ({status.namespace})   ")
        line.append_text(style.phase(self._survey.phase, self._ascii))
        standing = standing_of(self._survey, status)
        if standing and line.cell_len + 3 + len(standing) > self._width:
            yield line
            yield self._line("So far", standing)
        else:
            yield line.append(f"   {standing}" if standing else "")

    def _told(self) -> Iterator[Text]:
        phase = self._survey.phase
        yield from self._why_it_rests()
        yield self._revision()
        budget = phase in BUSY and bool(self._survey.counts.next or phase is Phase.STALLED)
        if phase in BUSY:
            yield self._line("Target", self._target())
            yield self._progress()
        if budget:
            yield self._line("Budget", self._budget())
        yield self._line("Fleet", self._fleet(named=not budget))

    def _why_it_rests(self) -> Iterator[Text]:
        """For phases that end only when a person does something."""
        status, survey = self._status, self._survey
        match survey.phase:
            case Phase.HELD:
                yield from self._next_step()
            case Phase.PAUSED:
                pause = status.paused
                if pause is not None:
                    who = f" by {pause.by}" if pause.by else ""
                    why = f': "{pause.reason}"' if pause.reason else ""
                    yield self._line("Paused", f"{ago(pause.at, survey.snapshot.now)}{who}{why}".strip())
                older = f"; new nodes get revision {status.revision.previous}" if status.revision.previous else ""
                yield self._line("Still", f"lost pods come back as they were{older}")
                yield self._line("Next", self._command("resume"))
            case Phase.MANUAL:
                nodes = rows_in(survey, NodeState.NEXT)
                yield self._line("Waits for", f"the old pods of {some(row.node for row in nodes)} to be deleted")
                pod = next((row.pod.pod.name for row in nodes if row.pod), "POD")
                yield self._line("Next", f"kubectl delete pod -n {status.namespace} {pod}")
            case Phase.PENDING:
                yield self._line("Waits for", status.message.removeprefix("waiting for "))
                yield from self._quoted("Problem", self._absence)
                yield self._line("Try", "kubectl kruise-ds doctor")

    def _next_step(self) -> Iterator[Text]:
        status, strategy = self._status, self._status.strategy
        if not strategy.partition:
            yield self._line("Held by", status.message)
            return
        steps = status.steps
        if steps is not None and steps.next is not None:
            yield self._line("Next", self._command("promote"))
            what = f"partition {strategy.partition} → {steps.next}"
        else:
            yield self._line("Next", self._command("set-partition", "0"))
            what = f"partition {strategy.partition} → 0"
        upcoming = rows_in(self._survey, NodeState.OLD)[: self._freed()]
        names = [row.node for row in upcoming]
        shown = ", ".join(names) if len(names) <= 3 else f"{names[0]} … {names[-1]}"
        yield self._line("", f"{what}: {shown}" if names else what)

    def _freed(self) -> int:
        """How many more nodes the next step lets go."""
        steps, desired = self._status.steps, self._status.nodes.desired
        after = scaled(steps.next, desired, round_up=False) if steps and steps.next is not None else 0
        return max(self._status.strategy.partition - after, 0)

    def _revision(self) -> Text:
        status = self._status
        previous, current = status.revision.previous, status.revision.current
        moves = previous is not None and self._survey.phase is not Phase.HEALTHY
        numbers = f"{previous} → {current}" if moves else f"{current}"
        if self._wide:
            numbers += f" ({status.revision.hash})"
        return self._line("Revision", f"{numbers:<15} {self._images(moves)}")

    def _images(self, moves: bool) -> str:
        def shown(image: str | None) -> str:
            return "none" if image is None else image if self._wide else short_image(image)

        changed = self._status.images
        if moves and changed:
            return ", ".join(f"{shown(one.before)} → {shown(one.after)}" for one in changed.values())
        template, former = self._survey.daemonset.spec.template, self._survey.former
        if moves and former is not None:
            return summary(differences(former.revision.template, template))
        return ", ".join(map(shown, images_of(template).values()))

    def _target(self) -> str:
        counts, strategy = self._status.nodes, self._status.strategy
        words = f"{counts.target} of {counts.desired} nodes"
        if strategy.partition:
            words += f"   partition {strategy.partition} keeps {min(strategy.partition, counts.desired)} old"
        if strategy.selector:
            words += "   rollingUpdate.selector chooses them"
        return words

    def _progress(self) -> Text:
        counts, rollout = self._status.nodes, self._survey.rollout
        parts = (
            (NodeState.UPDATED, rollout.done),
            (NodeState.UPDATING, counts.updating),
            (NodeState.FAILING, counts.failing),
            (NodeState.MISSING, counts.missing),
            (NodeState.NEXT, counts.next),
        )
        words = [f"{rollout.done} of {counts.target} done"]
        words += [f"{number} {state.value}" for state, number in parts[1:4] if number]
        words += [f"{counts.next} to go"] if counts.next else []
        told = f"] {', '.join(words)}"
        line = self._line("Progress", "[")
        room = self._width - line.cell_len - len(told)
        bar = style.stacked(parts, max(min(BAR, room), SHORTEST_BAR), self._ascii)
        return line.append_text(bar).append(told)

    def _budget(self) -> str:
        budget, strategy = self._status.budget, self._status.strategy
        name = "maxSurge" if strategy.max_surge else "maxUnavailable"
        if not budget.used:
            return f"{name} {budget.max}: none in use"
        full = {1: "in use", 2: "both in use"}.get(budget.max, f"all {budget.max} in use")
        used = full if budget.used == budget.max else f"{budget.used} in use"
        return f"{name} {budget.max}: {used} ({some(budget.by)})"

    def _fleet(self, *, named: bool) -> str:
        """`named`: which nodes are not available, where no other line tells."""
        counts = self._status.nodes
        words = [f"{counts.available} of {counts.desired} available"]
        if named and counts.available < counts.desired:
            lacking = (slot.node for slot in self._survey.board.slots if slot.fit is Fit.RUN and not slot.serves)
            words.append(f"not on {some(lacking)}")
        words += [f"{counts.unplanned} newer than planned"] if counts.unplanned else []
        return ", ".join(words)

    def _grid(self) -> Iterable[Text]:
        if self._survey.snapshot.nodes is None or not self._status.nodes.desired:
            return []
        return [Text(""), *grid(self._survey.rows, self._width, self._ascii)]

    def _troubles(self) -> Iterator[Text]:
        """What is wrong, what it waits for, what to do; nothing at all where all is well."""
        lines = [*self._problems(), *self._waits(), *self._advice()]
        if lines:
            yield Text("")
            yield from lines

    def _problems(self) -> Iterator[Text]:
        refused = self._survey.standing.refused
        if refused and self._survey.phase is Phase.STALLED:
            what = "the server refuses the new pod:" if self._status.reason == TEMPLATE_REFUSED else "unusable spec:"
            yield self._line("Problem", "").append(what, style.BAD)
            yield from self._quoted("", _REFUSED_POD.sub("", refused))
        problems = self._status.problems
        for index, problem in enumerate(problems[:MOST_PROBLEMS]):
            yield self._line("" if index or refused else "Problem", "").append(_described(problem), style.BAD)
            yield from self._quoted("", f'"{problem.message}"' if problem.message else "")
        if len(problems) > MOST_PROBLEMS:
            yield self._line("", f"and {len(problems) - MOST_PROBLEMS} more")

    def _quoted(self, label: str, words: str) -> Iterator[Text]:
        """Somebody else's words, on as many lines as they need, within reason."""
        room = max(self._width - LABELS - 2, 20)
        parts = textwrap.wrap(words, room, max_lines=MOST_LINES, placeholder=" …", break_on_hyphens=False)
        for index, part in enumerate(parts):
            yield self._line("" if index else label, part)

    def _waits(self) -> Iterator[Text]:
        if self._survey.phase is not Phase.PROGRESSING:
            return
        starting = [row.node for row in rows_in(self._survey, NodeState.UPDATING)]
        failed = [row.node for row in rows_in(self._survey, NodeState.FAILING)]
        coming = [row.node for row in rows_in(self._survey, NodeState.NEXT)]
        if not (starting or failed):
            return
        words = f"{some(starting or failed)} to become available"
        if coming:
            then = [f"then {name}" for name in coming[:2]]
            rest = f" and {len(coming) - 2} more" if len(coming) > 2 else ""
            words += f"; {', '.join(then)}{rest}"
        yield self._line("Waits for", words)

    def _advice(self) -> Iterator[Text]:
        """At most two commands: one to see why, one to go back."""
        namespace, problems = self._status.namespace, self._status.problems
        commands = []
        if problems:
            first = problems[0]
            logs = f"kubectl logs -n {namespace} {first.pod}{_container(first, self._survey)} --previous"
            looks = f"kubectl describe pod -n {namespace} {first.pod}"
            commands.append(logs if first.restarts else looks)
        new = self._status.revision.current
        broken = any(problem.revision == new for problem in problems) or self._survey.standing.refused
        if broken and self._status.revision.previous is not None and self._survey.phase in BUSY:
            commands.append(self._command("rollback"))
        for index, command in enumerate(commands):
            yield self._line("" if index else "Try", command)

    def _command(self, verb: str, *more: str) -> str:
        words = ["kubectl", "kruise-ds", verb, self._status.name, *more, "-n", self._status.namespace]
        return " ".join(words)

    def _line(self, label: str, text: str) -> Text:
        return Text.assemble("  ", (label.ljust(LABELS), style.LABEL if label else ""), text)


def _described(problem: Problem) -> str:
    """`c-04  node-agent-x7k2p  CrashLoopBackOff, 3 restarts, exit 1:`."""
    facts = [problem.reason]
    if problem.restarts:
        facts.append(f"{problem.restarts} restart{'s' if problem.restarts > 1 else ''}")
    if problem.exit_code is not None:
        facts.append(f"exit {problem.exit_code}")
    end = ":" if problem.message else ""
    return f"{problem.node}  {problem.pod}  {', '.join(facts)}{end}"


def _container(problem: Problem, survey: Survey) -> str:
    """Which one, where kubectl would have to guess."""
    row = next((row for row in survey.rows if row.pod and row.pod.pod.name == problem.pod), None)
    several = row is not None and row.pod is not None and len((*row.pod.containers, *row.pod.init_containers)) > 1
    return f" -c {problem.container}" if several and problem.container else ""


def _in_ascii(text: Text) -> Text:
    """Our own signs in ASCII, foreign ones as question marks. Colours are kept where no length changes."""
    for sign, plain in (("→", "->"), ("…", "...")):
        while sign in text.plain:
            at = text.plain.index(sign)
            text = Text.assemble(text[:at], plain, text[at + 1 :])
    return clean(text, only_ascii=True)
