"""`plan` as text: one line per wave, then the final state, the effect and the warnings."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from rich.console import Group as Lines
from rich.text import Text

from controller.api.daemonset import Phase
from controller.api.formats import counted
from controller.planner.conditions import some
from controller.planner.explanation import NodeState
from controller.planner.nodes import NodeInfo
from kubectl_plugin.forecast.forecast import MOST_WAVES
from kubectl_plugin.forecast.report import Later, RolloutPlan
from kubectl_plugin.forecast.simulate import Wave
from kubectl_plugin.forecast.warnings import PreflightResult
from kubectl_plugin.render.tables import BAD, DIM, LABEL, LABEL_WIDTH, clean, cut
from kubectl_plugin.rollout.in_place import How
from kubectl_plugin.rollout.nodes import NodeRow
from kubectl_plugin.terminal import Terminal
from kubectl_plugin.wording import between, for_cluster, new_nodes, short_duration

BELOW: Final = LABEL_WIDTH + 2
"""Indent, in columns, of words that continue below the line they belong to."""
_MARKS: Final = {
    PreflightResult.OK: ("ok", "green"),
    PreflightResult.WARNING: ("!!", "yellow"),
    PreflightResult.FAILED: ("XX", BAD),
    PreflightResult.SKIPPED: ("--", DIM),
}


class PlanBlock:
    """`wide`: names all nodes of a wave and cuts no line."""

    def __init__(self, plan: RolloutPlan, terminal: Terminal, *, wide: bool) -> None:
        self._plan, self._found, self._daemonset = plan, plan.forecast, plan.survey.daemonset
        self._terminal, self._width, self._ascii = terminal, sys.maxsize if wide else terminal.width, terminal.ascii
        self._arrow, self._dots = ("->", "...") if self._ascii else ("→", "…")

    def drawn(self) -> Lines:
        """Lines have no control characters and, unless wide, fit the terminal."""
        found = [*self._headline(), *self._asked(), *self._waves(), *self._end(), *self._later(), *self._foot()]
        return Lines(*(cut(clean(line, self._ascii), self._width, self._ascii) for line in found))

    def _wrapped(self, line: Text, indent: int = LABEL_WIDTH) -> Iterator[Text]:
        head = line[:indent]
        for words in line[indent:].wrap(self._terminal.console, self._width - indent):
            words.rstrip()
            yield head.append_text(words)
            head = Text(" " * indent)

    def _beside(self, head: Text, words: Text) -> Iterator[Text]:
        """`words` behind `head`, or below it where there is little room."""
        longest = max(len(word) for word in words.plain.split())
        if words.cell_len <= self._room(head) or (self._has_room(head) and longest <= self._room(head)):
            yield from self._wrapped(head.copy().append_text(words), head.cell_len)
            return
        head.rstrip()
        yield from self._wrapped(head)
        yield from self._wrapped(Text(" " * BELOW).append_text(words), BELOW)

    def _room(self, head: Text) -> int:
        return self._width - head.cell_len

    def _has_room(self, head: Text) -> bool:
        return self._room(head) > self._width // 3

    def _headline(self) -> Iterator[Text]:
        """`node-agent: revision 6 → 7` and the limits, which get their own line if they do not fit behind it."""
        plan, limits = self._plan, ", ".join(self._limiting_settings())
        numbers = f"{plan.previous_number} {self._arrow} {plan.number}" if self._replaces else f"{plan.number}"
        first = "" if self._found.start.history else " (first deployment)"
        line = Text.assemble((self._daemonset.name, LABEL), f": revision {numbers}{first}")
        if line.cell_len + len(limits) + 2 <= self._width:
            yield line.append(f", {limits}")
            return
        yield line
        yield from self._wrapped(self._row("limits", limits))

    def _asked(self) -> Iterator[Text]:
        for words in self._plan.tried:
            yield from self._wrapped(self._row("what if", words.replace("->", self._arrow)))

    def _waves(self) -> Iterator[Text]:
        waves = self._found.waves
        rows = [(*self._moves(wave), wave) for wave in waves]
        names = max((len(nodes) for nodes, _, _ in rows), default=0)
        verbs = max((len(how) for _, how, _ in rows), default=0)
        if now := self._budget_in_use():
            waits = bool(waves and waves[0].after)
            yield from self._wrapped(self._row("now", f"{'wait':<{names + 3}}{now}" if waits else now))
        progress = self._found.start.step_progress
        step = progress.step if progress is not None else None
        for number, (nodes, how, wave) in enumerate(rows, 1):
            begins, step = self._step_begins(wave) if wave.step != step else "", wave.step
            head = self._row(f"wave {number}", f"{nodes:<{names}}   {how:<{verbs}}   ")
            yield from self._beside(head, Text(begins + self._start_of(wave), DIM))
        if rest := self._found.rest:
            words = f"{counted(len(rest), 'more node')} in this order, {self._found.width} at a time"
            yield from self._wrapped(self._row("then", f"{words}: {between(rest, self._dots)}"))
            more = f"; --waves 0 works out up to {MOST_WAVES}" if len(waves) < MOST_WAVES else ", and no more are"
            yield self._row("", f"({counted(len(waves), 'wave')} worked out{more})")

    def _moves(self, wave: Wave) -> tuple[str, str]:
        nodes = self._listed([move.node for move in wave.moves], (self._width - LABEL_WIDTH) // 3)
        return nodes, ", ".join(dict.fromkeys(move.how.value for move in wave.moves))

    def _listed(self, names: Sequence[str], room: int) -> str:
        """As many names as fit into `room` columns, at least one, and how many more there are."""
        if len(" ".join(names)) <= room:
            return " ".join(names)
        for count in range(len(names) - 1, 0, -1):
            text = f"{' '.join(names[:count])} {self._dots} +{len(names) - count}"
            if len(text) <= room or count == 1:
                return text
        return names[0]

    def _end(self) -> Iterator[Text]:
        kept, budget = self._found.kept_nodes, self._found.start.budget
        yield from self._wrapped(self._row("hold" if kept else "end", self._state_at_the_end()))
        for blocker, nodes in kept.items():
            who = f"{counted(len(nodes), 'node')}: {between(nodes, self._dots)}"
            are = "is" if len(nodes) == 1 else "are"
            words = blocker.text.of_planned.format(partition=budget.partition, limit=budget.limit, who=who, are=are)
            yield from self._wrapped(self._row("", words))

    def _later(self) -> Iterator[Text]:
        for place, step in enumerate(self._plan.later):
            after = f", after {waits}" if (waits := _waits(step.soak, step.approval)) else ""
            of = "nodes" if isinstance(step.nodes, int) else "of the nodes"
            head = self._row("" if place else "later", f"step {step.step}  {step.nodes} {of}{after}   ")
            room = self._room(head) if self._has_room(head) else self._width - BELOW
            yield from self._beside(head, Text(self._grouped(step, room)))

    def _grouped(self, step: Later, room: int) -> str:
        """Such as `b-08 b-07 | b-06 b-05`, with bars between waves; a step without waves keeps its line."""
        waves = [" ".join(wave) for wave in step.waves]
        if step.rest:
            waves.append(f"{counted(len(step.rest), 'node')}: {between(step.rest, self._dots)}")
        if not waves:
            return "no further node"
        for count in range(len(waves), 0, -1):
            more = sum(len(wave) for wave in step.waves[count:]) + (len(step.rest) if count < len(waves) else 0)
            text = " | ".join(waves[:count]) + (f" {self._dots} +{more}" if more else "")
            if len(text) <= room:
                return text
        return self._listed([*chain(*step.waves, step.rest)], room)

    def _foot(self) -> Iterator[Text]:
        yield from self._wrapped(self._bottom("Effect", effect_words(self._plan)))
        if estimate := self._estimate():
            yield from self._wrapped(self._bottom("Estimate", estimate))
        for place, check in enumerate(self._plan.checks):
            mark, colour = _MARKS[check.result]
            line = self._bottom("Checks" if place == 0 else "", "").append(f"{mark:<4}", style=colour)
            yield from self._wrapped(line.append(check.text), LABEL_WIDTH + 4)
            for hint in check.hints:
                hinted = self._bottom("", f"    hint: {for_cluster(hint, self._terminal.cluster_flags)}")
                yield from self._wrapped(hinted, LABEL_WIDTH + 10)

    def _row(self, label: str, words: str) -> Text:
        return Text(f"  {label:<{LABEL_WIDTH - 2}}").append(words)

    def _bottom(self, label: str, words: str) -> Text:
        return Text.assemble((f"{label:<{LABEL_WIDTH}}", LABEL), words)

    @property
    def _replaces(self) -> bool:
        """Whether an older revision is replaced. Otherwise the partition, a CRD default, means nothing."""
        return self._plan.previous_number is not None and self._plan.previous_number != self._plan.number

    def _limiting_settings(self) -> Iterator[str]:
        rolling, budget = self._daemonset.rolling_update, self._found.start.budget
        if rolling is None:
            yield "OnDelete"
            return
        if rolling.partition or (rolling.partition == 0 and self._replaces):
            new = f" ({new_nodes(rolling.partition, budget.desired)})" if self._found.start.older else ""
            yield f"partition {rolling.partition}{new}"
        asked = rolling.max_surge if budget.surging else rolling.max_unavailable
        most = f"{asked} (= {budget.most})" if isinstance(asked, str) else budget.most
        yield f"{budget.limit} {most}"
        if rolling.selector is not None:
            yield "rollingUpdate.selector"
        if rolling.rolling_update_type not in ("", "Standard"):
            yield rolling.rolling_update_type
        if rolling.paused:
            yield "paused"

    def _budget_in_use(self) -> str:
        """The nodes that use the budget now; empty if none does."""
        idle, rollout = self._plan.unavailable, self._found.start
        if not idle or not rollout.older:
            return ""
        first = sorted(idle, key=lambda pair: pair[0].node)[:4]
        states = [f"{row.node} {_state(row, node)}" for row, node in first]
        listed = ", ".join(states) + (f" and {len(idle) - 4} more" if len(idle) > 4 else "")
        if rollout.surging:
            return f"{rollout.in_use} of maxSurge {rollout.budget.most} used; not available: {listed}"
        return f"budget {len(idle)} of {rollout.budget.max_unavailable} used: {listed}"

    def _start_of(self, wave: Wave) -> str:
        """What a wave waits for, and what is special about its nodes."""
        words = [self._begins(wave)]
        for why in dict.fromkeys(move.why for move in wave.moves if move.why):
            nodes = [move.node for move in wave.moves if move.why == why]
            words.append(why if len(nodes) == len(wave.moves) else f"{some(nodes)}: {why}")
        return "; ".join(words)

    def _step_begins(self, wave: Wave) -> str:
        rolling = self._daemonset.rolling_update
        if rolling is None or wave.step is None or wave.step < 2:
            return ""
        soak = rolling.steps[wave.step - 2].soak
        return f"step {wave.step}, after {soak}: " if soak else f"step {wave.step}: "

    def _begins(self, wave: Wave) -> str:
        if not wave.after:
            return f"in {short_duration(wave.begins)}" if wave.begins >= 1.0 else "at once"
        ready = between(wave.after, self._dots)
        words = f"when {ready} is available" if len(wave.after) == 1 else f"as {ready} become available"
        if not wave.holding or self._found.start.surging:
            return words
        verb = "holds" if len(wave.holding) == 1 else "hold"
        return f"{words} ({between(wave.holding, self._dots)} still {verb} {counted(len(wave.holding), 'node')})"

    def _state_at_the_end(self) -> str:
        plan, found = self._plan, self._found
        desired = found.end.budget.desired
        words = [f"{counted(plan.updated_nodes, 'node', 'has', of=desired)} revision {plan.number}"]
        failing = {row.node for row, _ in plan.unavailable if row.failure is not None}
        still = [node.name for node in found.end.nodes if node.name in failing and not node.available]
        if still:
            words.append(f"{some(still)} {'fails' if len(still) == 1 else 'fail'}")
        elif plan.available_nodes < desired:
            words.append(f"{counted(desired - plan.available_nodes, 'node')} without an available pod")
        if found.phase is None:
            return ", ".join(words)
        deadline = self._daemonset.progress_deadline
        later = f" after {short_duration(deadline)} without progress" if found.phase is Phase.STALLED else ""
        verb = "stays" if plan.survey.phase is found.phase else "becomes"
        return f"{', '.join(words)}: phase {verb} {found.phase.value}{'' if verb == 'stays' else later}"

    def _estimate(self) -> str:
        """The estimated duration; empty if unknown."""
        plan = self._plan
        if plan.pace is None or plan.seconds is None or plan.seconds < 1.0:
            return ""
        taken = "last node" if plan.pace.nodes == 1 else f"last {counted(plan.pace.nodes, 'node')}"
        median = short_duration(plan.pace.seconds)
        return f"about {short_duration(plan.seconds)} {self._estimated()} (median {median} per node, {taken})"

    def _estimated(self) -> str:
        """What the estimate is for, and what comes after it."""
        begin, end, rolling = (
            self._found.start.step_progress,
            self._found.end.step_progress,
            self._daemonset.rolling_update,
        )
        if begin is None or rolling is None:
            return "in all"
        number = begin.count if end is None else end.step
        waits = _waits(rolling.steps[number - 1].soak, rolling.steps[number - 1].approval)
        if number == begin.count and not waits:
            return "in all"
        return f"until step {number} of {begin.count} is reached{f', then {waits}' if waits else ''}"


def _state(row: NodeRow, node: NodeInfo) -> str:
    if node.unreachable:
        return "unreachable"
    if row.failure is not None:
        return NodeState.FAILING.value
    if node.old is not None and node.old.draining:
        return "losing its traffic"
    return "not available" if row.state in (NodeState.NEXT, NodeState.OLD) else row.state.value


def _waits(soak: str, approval: str) -> str:
    """Such as `30m and an approval`."""
    return " and ".join(filter(None, (soak, "an approval" if approval else "")))


def effect_words(plan: RolloutPlan) -> str:
    effect = plan.effect
    effects = (
        (effect.in_place, "updated in place", plan.details(How.IN_PLACE)),
        (effect.recreated, "re-created", plan.details(How.RECREATE)),
        (effect.surged, "replaced with surge", ()),
        (effect.beside, "created beside an old one that stays", ()),
        (effect.created, "created", ()),
        (effect.finished, "of an old revision removed after a surge", ()),
        (effect.removed, "removed", ()),
    )
    parts = [
        f"{counted(count, 'pod')} {what}" + (f" ({'; '.join(details)})" if details else "")
        for count, what, details in effects
        if count
    ]
    if plan.refusal and not parts:
        return "nothing happens until the server accepts its pods"
    if plan.refusal:
        return f"{'; '.join(parts)}; no other pod comes until the server accepts it"
    if not parts:
        return "nothing changes"
    if not (effect.in_place or effect.recreated or effect.surged or effect.beside):
        return ", ".join(parts)
    most = effect.most_unavailable
    down = f"never more than {counted(most, 'node')} down" if most else "no node is down"
    return f"{', '.join(parts)}; {down}"
