"""A plan in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controller.api.daemonset import Phase
from controller.api.formats import counted
from controller.planner.conditions import some
from controller.planner.explanation import NodeState
from kubectl_plugin.forecast.moves import How, Wave
from kubectl_plugin.forecast.report import RolloutPlan
from kubectl_plugin.rollout.nodes import NodeRow
from kubectl_plugin.units import short_duration
from kubectl_plugin.wording import between, new_nodes

_UNTIL_MENDED: Final = "nothing happens until the server accepts its pods"


class PlanWords:
    def __init__(self, plan: RolloutPlan, *, only_ascii: bool) -> None:
        self._plan, self._found = plan, plan.forecast
        self._arrow, self.dots = ("->", "...") if only_ascii else ("→", "…")
        self._daemonset = plan.survey.daemonset

    @property
    def _moves(self) -> bool:
        """Whether an older revision is replaced. Otherwise the partition, a CRD default, means nothing."""
        return self._plan.previous_number is not None and self._plan.previous_number != self._plan.number

    def headline(self) -> str:
        """For example `node-agent: revision 6 → 7`."""
        plan = self._plan
        numbers = f"{plan.previous_number} {self._arrow} {plan.number}" if self._moves else f"{plan.number}"
        first = "" if self._found.start.history else " (first deployment)"
        return f"{self._daemonset.name}: revision {numbers}{first}"

    def limiting_settings(self) -> Iterator[str]:
        rolling, budget = self._daemonset.rolling_update, self._found.start.budget
        if rolling is None:
            yield "OnDelete"
            return
        if rolling.partition or (rolling.partition == 0 and self._moves):
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

    def tried_settings(self) -> tuple[str, ...]:
        return tuple(words.replace("->", self._arrow) for words in self._plan.tried)

    def budget_in_use(self) -> str:
        """The nodes that use the budget now; empty if none does."""
        rows, rollout = self._plan.unavailable_rows, self._found.start
        if not rows or not rollout.older:
            return ""
        states = [f"{row.node} {self._state(row)}" for row in sorted(rows, key=lambda row: row.node)[:4]]
        listed = ", ".join(states) + (f" and {len(rows) - 4} more" if len(rows) > 4 else "")
        if rollout.surging:
            return f"{rollout.in_use} of maxSurge {rollout.budget.most} used; not available: {listed}"
        return f"budget {len(rows)} of {rollout.budget.max_unavailable} used: {listed}"

    def _state(self, row: NodeRow) -> str:
        node = next((one for one in self._found.start.nodes if one.name == row.node), None)
        if node is not None and node.unreachable:
            return "unreachable"
        if row.failure is not None:
            return NodeState.FAILING.value
        if node is not None and node.old is not None and node.old.draining:
            return "losing its traffic"
        waits_for_nothing = row.state in (NodeState.NEXT, NodeState.OLD)
        return "not available" if waits_for_nothing else row.state.value

    def start_of(self, wave: Wave) -> str:
        """What a wave waits for, and what is special about its nodes."""
        reasons = dict.fromkeys(move.why for move in wave.moves if move.why)
        whys = [
            why if len(_nodes_with(wave, why)) == len(wave.moves) else f"{some(_nodes_with(wave, why))}: {why}"
            for why in reasons
        ]
        return "; ".join((self._begins(wave), *whys))

    def _begins(self, wave: Wave) -> str:
        if not wave.after:
            return f"in {short_duration(wave.begins)}" if wave.begins >= 1.0 else "at once"
        ready = between(wave.after, self.dots)
        words = f"when {ready} is available" if len(wave.after) == 1 else f"as {ready} become available"
        if not wave.holding or self._found.start.surging:
            return words
        verb = "holds" if len(wave.holding) == 1 else "hold"
        return f"{words} ({between(wave.holding, self.dots)} still {verb} {counted(len(wave.holding), 'node')})"

    def nodes_of_later_waves(self) -> str:
        nodes, width = self._found.rest, self._found.width
        return f"{counted(len(nodes), 'more node')} in this order, {width} at a time: {between(nodes, self.dots)}"

    def state_at_the_end(self) -> str:
        plan, found = self._plan, self._found
        desired = found.end.budget.desired
        words = [f"{counted(plan.updated_nodes, 'node', 'has', of=desired)} revision {plan.number}"]
        failing = {row.node for row in plan.unavailable_rows if row.failure is not None}
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

    def kept_nodes(self) -> Iterator[str]:
        budget = self._found.start.budget
        for blocker, nodes in self._found.kept_nodes.items():
            who = f"{counted(len(nodes), 'node')}: {between(nodes, self.dots)}"
            are = "is" if len(nodes) == 1 else "are"
            yield blocker.text.of_planned.format(partition=budget.partition, limit=budget.limit, who=who, are=are)

    def effect(self) -> str:
        effect = self._plan.effect
        parts = (
            (effect.in_place, "updated in place", How.IN_PLACE),
            (effect.recreated, "re-created", How.RECREATE),
            (effect.surged, "replaced with surge", None),
            (effect.beside, "created beside an old one that stays", None),
            (effect.created, "created", None),
            (effect.finished, "of an old revision removed after a surge", None),
            (effect.removed, "removed", None),
        )
        told = [f"{counted(count, 'pod')} {what}{self._details(how)}" for count, what, how in parts if count]
        if self._plan.refusal:
            return "; ".join((*told, "no other pod comes until the server accepts it" if told else _UNTIL_MENDED))
        if not told:
            return "nothing changes"
        if not (effect.in_place or effect.recreated or effect.surged or effect.beside):
            return ", ".join(told)
        most = effect.most_unavailable
        down = f"never more than {counted(most, 'node')} down" if most else "no node is down"
        return f"{', '.join(told)}; {down}"

    def _details(self, how: How | None) -> str:
        details = self._plan.details(how) if how is not None else ()
        return f" ({'; '.join(details)})" if details else ""

    def estimate(self) -> str:
        """The estimated duration; empty if unknown."""
        plan = self._plan
        if plan.pace is None or plan.seconds is None or plan.seconds < 1.0:
            return ""
        step = "for this step" if plan.later else "in all"
        taken = "last node" if plan.pace.nodes == 1 else f"last {counted(plan.pace.nodes, 'node')}"
        median = short_duration(plan.pace.seconds)
        return f"about {short_duration(plan.seconds)} {step} (median {median} per node, {taken})"


def _nodes_with(wave: Wave, why: str) -> list[str]:
    return [move.node for move in wave.moves if move.why == why]
