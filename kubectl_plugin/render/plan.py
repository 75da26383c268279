"""`plan` as text: one line per wave, then the final state, the effect and the warnings."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Group as Lines
from rich.text import Text

from controller.api.formats import counted
from kubectl_plugin.forecast.moves import Wave
from kubectl_plugin.forecast.report import Later, RolloutPlan
from kubectl_plugin.forecast.sentences import PlanWords
from kubectl_plugin.forecast.warnings import CheckResult, ForecastWarning
from kubectl_plugin.render.tables import BAD, DIM, LABEL, clean, cut
from kubectl_plugin.wording import between, for_cluster, new_nodes

LABELS: Final = 11
_MARKS: Final = {
    CheckResult.OK: ("ok", "green"),
    CheckResult.WARNING: ("!!", "yellow"),
    CheckResult.FAILED: ("XX", BAD),
    CheckResult.SKIPPED: ("--", DIM),
}


class PlanBlock:
    """`wide`: names all nodes of a wave and cuts no line. `flags`: those that chose the cluster."""

    def __init__(
        self, plan: RolloutPlan, *, width: int, only_ascii: bool, wide: bool = False, flags: tuple[str, ...] = ()
    ) -> None:
        self._flags = flags
        self._plan, self._found = plan, plan.forecast
        self._width, self._ascii, self._wide = width, only_ascii, wide
        self._words = PlanWords(plan, only_ascii=only_ascii)

    def drawn(self) -> Lines:
        """Lines have no control characters and, unless wide, fit the terminal."""
        found = [*self._headline(), *self._asked(), *self._waves(), *self._end(), *self._later(), *self._foot()]
        return Lines(*(self._fitted(line) for line in found))

    def _fitted(self, line: Text) -> Text:
        text = clean(line, self._ascii)
        return text if self._wide else cut(text, self._width, self._ascii)

    def _wrapped(self, line: Text, indent: int = LABELS) -> Iterator[Text]:
        """Wraps sentences; rows of tables are cut instead."""
        if self._wide or line.cell_len <= self._width:
            yield line
            return
        first, *rest = textwrap.wrap(line.plain[indent:], self._width - indent, break_on_hyphens=False)
        yield line[: indent + len(first)]
        yield from (Text(" " * indent + one) for one in rest)

    def _headline(self) -> Iterator[Text]:
        """Limits that do not fit behind the name get their own line."""
        name, colon, rest = self._words.headline().partition(":")
        line, limits = Text.assemble((name, LABEL), colon, rest), ", ".join(self._words.limiting_settings())
        if self._wide or line.cell_len + len(limits) + 2 <= self._width:
            yield line.append(f", {limits}")
            return
        yield line
        yield from self._wrapped(self._row("limits", limits))

    def _asked(self) -> Iterator[Text]:
        for line in self._words.tried_settings():
            yield from self._wrapped(self._row("what if", line))

    def _waves(self) -> Iterator[Text]:
        waves = self._found.waves
        rows = [(f"wave {number}", *self._moves(wave), wave) for number, wave in enumerate(waves, 1)]
        names = max((len(nodes) for _, nodes, _, _ in rows), default=0)
        verbs = max((len(how) for _, _, how, _ in rows), default=0)
        if now := self._words.budget_in_use():
            waits = bool(waves and waves[0].after)
            yield from self._wrapped(self._row("now", f"{'wait':<{names + 3}}{now}" if waits else now))
        for label, nodes, how, wave in rows:
            line = self._row(label, f"{nodes:<{names}}   ")
            yield line.append(f"{how:<{verbs}}   ").append(self._words.start_of(wave), style=DIM)
        if self._found.rest:
            yield from self._wrapped(self._row("then", self._words.nodes_of_later_waves()))
            yield self._row("", f"({counted(len(waves), 'wave')} worked out; --waves 0 works out all)")

    def _moves(self, wave: Wave) -> tuple[str, str]:
        nodes = self._listed([move.node for move in wave.moves], (self._width - LABELS) // 3)
        return nodes, ", ".join(dict.fromkeys(move.how.value for move in wave.moves))

    def _listed(self, names: Sequence[str], room: int) -> str:
        """As many names as fit into `room` columns, at least one, and how many more there are."""
        if self._wide or len(" ".join(names)) <= room:
            return " ".join(names)
        for count in range(len(names) - 1, 0, -1):
            text = f"{' '.join(names[:count])} {self._words.dots} +{len(names) - count}"
            if len(text) <= room or count == 1:
                return text
        return names[0]

    def _end(self) -> Iterator[Text]:
        label = "hold" if self._found.kept_nodes else "end"
        yield from self._wrapped(self._row(label, self._words.state_at_the_end()))
        for sentence in self._words.kept_nodes():
            yield from self._wrapped(self._row("", sentence))

    def _later(self) -> Iterator[Text]:
        for place, step in enumerate(self._plan.later):
            desired = self._found.start.budget.desired
            head = f"step {step.step}  partition {step.partition} ({new_nodes(step.partition, desired)})   "
            yield self._row("later" if place == 0 else "", head + self._grouped(step, LABELS + len(head)))

    def _grouped(self, step: Later, used: int) -> str:
        """Such as `b-08 b-07 | b-06 b-05`, with bars between waves; a step without waves keeps its line."""
        waves = [" ".join(wave) for wave in step.waves]
        if step.rest:
            waves.append(f"{counted(len(step.rest), 'node')}: {between(step.rest, self._words.dots)}")
        if not waves:
            return "no further node"
        room = self._width - used
        for count in range(len(waves), 0, -1):
            more = sum(len(wave) for wave in step.waves[count:]) + (len(step.rest) if count < len(waves) else 0)
            text = " | ".join(waves[:count]) + (f" {self._words.dots} +{more}" if more else "")
            if self._wide or len(text) <= room or count == 1:
                return text
        return ""

    def _foot(self) -> Iterator[Text]:
        yield from self._wrapped(self._bottom("Effect", self._words.effect()))
        if estimate := self._words.estimate():
            yield from self._wrapped(self._bottom("Estimate", estimate))
        for place, check in enumerate(self._plan.checks):
            yield from self._check("Checks" if place == 0 else "", check)

    def _check(self, label: str, check: ForecastWarning) -> Iterable[Text]:
        mark, colour = _MARKS[check.result]
        line = self._bottom(label, "").append(f"{mark:<4}", style=colour).append(check.text)
        yield from self._wrapped(line, LABELS + 4)
        for hint in check.hints:
            yield self._bottom("", f"    hint: {for_cluster(hint, self._flags)}")

    def _row(self, label: str, words: str) -> Text:
        return Text(f"  {label:<{LABELS - 2}}").append(words)

    def _bottom(self, label: str, words: str) -> Text:
        return Text.assemble((f"{label:<{LABELS}}", LABEL), words)
