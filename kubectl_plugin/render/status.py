"""The input of a status block, and the shape of its lines: a label on the left, words behind it.

The lines of `status` about how far the rollout is: revision, target, progress, budget, fleet.

The lines of `status` about what is wrong, what the rollout waits for, and what to type.

Nodes in groups: one icon for each node, or a bar for a large group.

`status` for people: one line on how the rollout stands, then why, what comes next, and what to type.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import Final

from rich.text import Text

from controller.api.daemonset import Phase
from controller.api.formats import counted
from controller.api.names import WRITES_FAIL
from controller.api.objects import Key
from controller.planner.conditions import some
from controller.planner.explanation import NodeState
from kubectl_plugin.render import tables
from kubectl_plugin.render.tables import clean, cut
from kubectl_plugin.rollout.diff import differences
from kubectl_plugin.rollout.document import Problem, RolloutStatus, ago_in_words, headline_of
from kubectl_plugin.rollout.gate import release_of
from kubectl_plugin.rollout.history import summary
from kubectl_plugin.rollout.images import images_of, short_beside, short_image
from kubectl_plugin.rollout.nodes import NodeRow
from kubectl_plugin.rollout.reasons import (
    new_pods_words,
    nodes_without_available_pod,
    partition_hold_words,
    selector_hold_words,
    waits_for_words,
)
from kubectl_plugin.rollout.snapshot import counts_of, failure_lines
from kubectl_plugin.rollout.survey import Survey
from kubectl_plugin.wording import between, command, for_cluster

LABELS: Final = 11
"""Columns for the labels."""
MOST_LINES: Final = 4
BUSY: Final = (Phase.PROGRESSING, Phase.STALLED, Phase.DEGRADED, Phase.PENDING)
"""Phases in which somebody waits for pods."""


@dataclass(frozen=True)
class StatusView:
    """One rollout at one moment, and the room to show it."""

    survey: Survey
    status: RolloutStatus
    width: int
    only_ascii: bool
    wide: bool = False
    """Whole image names and hashes; lines are never cut."""
    absence: str = ""
    """Why no controller seems to be active; empty if one is."""
    cluster_flags: tuple[str, ...] = ()
    """Flags that commands need to reach the same cluster."""

    def typed(self, command: str) -> str:
        return for_cluster(command, self.cluster_flags)

    def command(self, verb: str, *more: str) -> str:
        """The command to type for `verb` on this object."""
        return self.typed(command(verb, self.survey.snapshot.key, *more))

    def quoted(self, label: str, words: str, bad: str = "") -> Iterator[Text]:
        """The words of others, on up to `MOST_LINES` lines. `bad`: a pattern of what is coloured as an error."""
        room = max(self.width - LABELS - 2, 20)
        wrapped = textwrap.wrap(words, room, max_lines=MOST_LINES, placeholder=" …", break_on_hyphens=False)
        parts = [Text(part) for part in wrapped]
        if bad and parts:
            parts[0].highlight_regex(bad, tables.BAD)
        return labelled(label, parts)


def line(label: str, words: str | Text) -> Text:
    """`  Fleet      22 of 24 available`; with an empty label it goes on with the line before."""
    return Text.assemble("  ", (label.ljust(LABELS), tables.LABEL if label else ""), words)


def labelled(label: str, parts: Sequence[str | Text]) -> Iterator[Text]:
    """One line for each part, the label before the first."""
    for index, part in enumerate(parts):
        yield line("" if index else label, part)


BAR: Final = 20
SHORTEST_BAR: Final = 6


def fact_lines(view: StatusView) -> Iterator[Text]:
    phase = view.survey.phase
    yield line("Revision", _revision(view))
    limited = phase in BUSY and bool(view.survey.counts.next or phase is Phase.STALLED)
    if phase in BUSY:
        yield line("Target", _target(view))
        yield _progress(view)
    if limited:
        yield line("Budget", _budget(view))
    if pulls := view.survey.pulls:
        yield from labelled("Images", [counts_of(pulls.values()).words("nodes to go"), *failure_lines(pulls)])
    yield line("Fleet", _fleet(view, named=not limited))


def _revision(view: StatusView) -> str:
    revision = view.status.revision
    moves = revision.previous is not None and view.survey.phase is not Phase.HEALTHY
    numbers = f"{revision.previous} → {revision.shown}" if moves else revision.shown
    if view.wide:
        numbers += f" ({revision.hash})"
    return f"{numbers:<15} {_change(view) if moves else _images(view)}"


def _change(view: StatusView) -> str:
    """The images that change; where none does, what else changes."""
    changed = view.status.images.values()
    if changed:
        return ", ".join(
            f"{_image(view, one.before, one.after)} → {_image(view, one.after, one.before)}" for one in changed
        )
    previous = view.survey.previous_revision
    if previous is None:
        return _images(view)
    return summary(differences(previous.revision.template, view.survey.daemonset.spec.template))


def _images(view: StatusView) -> str:
    images = images_of(view.survey.daemonset.spec.template).values()
    return ", ".join(one if view.wide else short_image(one) for one in images)


def _image(view: StatusView, image: str | None, other: str | None) -> str:
    if image is None:
        return "none"
    return image if view.wide else short_beside(image, other or image)


def _target(view: StatusView) -> str:
    counts, strategy = view.status.nodes, view.status.strategy
    parts = [counted(counts.target, "node", of=counts.desired)]
    if strategy.partition:
        parts.append(partition_hold_words(strategy.partition, min(strategy.partition, counts.desired)))
    if strategy.selector:
        parts.append("rollingUpdate.selector chooses them")
    return "   ".join(parts)


def _progress(view: StatusView) -> Text:
    """The bar gets shorter where the words need the room."""
    counts, done = view.status.nodes, view.survey.record.done
    parts = (
        (NodeState.UPDATED, done),
        (NodeState.UPDATING, counts.updating),
        (NodeState.FAILING, counts.failing),
        (NodeState.MISSING, counts.missing),
        (NodeState.NEXT, counts.next),
    )
    words = [f"{done} of {counts.target} done"]
    words += [f"{number} {state.value}" for state, number in parts[1:4] if number]
    words += [f"{counts.next} to go"] if counts.next else []
    told, begun = f"] {', '.join(words)}", line("Progress", "[")
    room = view.width - begun.cell_len - len(told)
    bar = tables.stacked(parts, max(min(BAR, room), SHORTEST_BAR), view.only_ascii)
    return begun.append_text(bar).append(told)


def _budget(view: StatusView) -> str:
    budget = view.status.budget
    limit = f"{'maxSurge' if view.status.strategy.max_surge else 'maxUnavailable'} {budget.max}"
    if not budget.used:
        return f"{limit}: none in use"
    full = {1: "in use", 2: "both in use"}.get(budget.max, f"all {budget.max} in use")
    used = full if budget.used == budget.max else f"{budget.used} in use"
    return f"{limit}: {used} ({some(budget.by)})"


def _fleet(view: StatusView, *, named: bool) -> str:
    """`named`: list the nodes that are not available, where no other line does."""
    counts = view.status.nodes
    words = [f"{counts.available} of {counts.desired} available"]
    if named and counts.available < counts.desired:
        words.append(f"not on {some(nodes_without_available_pod(view.survey))}")
    if counts.unplanned:
        words.append(f"{counts.unplanned} newer than planned")
    return ", ".join(words)


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
        yield line("" if index or refused else "Problem", Text(_described(problem), tables.BAD))
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


MOST_ICONS: Final = 60
"""A group with more nodes is drawn as a bar."""
GRID_BAR: Final = 30
MOST_GROUPS: Final = 16
GAP: Final = "   "
LEGEND_GAP: Final = "     "
DONE: Final = (NodeState.UPDATED, NodeState.UNPLANNED)


def grid(rows: Iterable[NodeRow], width: int, only_ascii: bool) -> list[Text]:
    """A line for each group and a legend of the icons in it; nodes that should not run the pod are left out."""
    groups: dict[str, list[NodeRow]] = {}
    for row in rows:
        if row.state is not NodeState.EXCLUDED:
            groups.setdefault(row.group, []).append(row)
    keys = sorted(groups)
    shown = keys if len(keys) <= MOST_GROUPS else _most_telling(groups)
    labels = max((len(key) for key in shown), default=0)
    room = width - 2 - labels - len(GAP) - len(GAP) - len("5000 of 5000")
    members = [groups[key] for key in shown]
    icons = all(len(group) <= min(MOST_ICONS, room) for group in members)
    widest = max((len(group) for group in members), default=0) if icons else max(min(GRID_BAR, room), 4)
    lines = []
    for key, group in zip(shown, members, strict=True):
        line = Text(f"  {key:<{labels}}{GAP}")
        tally = Counter(row.state for row in group)
        counts = [(state, tally[state]) for state in tables.STATES if tally[state]]
        drawn = _icons(group, only_ascii) if icons else tables.stacked(counts, widest, only_ascii)
        drawn.pad_right(widest - drawn.cell_len)
        done = sum(row.state in DONE for row in group)
        lines.append(line.append_text(drawn).append(f"{GAP}{done} of {len(group)}"))
    if len(shown) < len(keys):
        lines.append(Text(f"  and {len(keys) - len(shown)} more groups", tables.DIM))
    return _with_legend(lines, _legend(members, only_ascii, as_bar=not icons), width)


def _icons(group: list[NodeRow], only_ascii: bool) -> Text:
    text = Text()
    for state, alike in groupby(group, key=lambda row: row.state):
        icon = tables.state_icon(state, only_ascii)
        text.append(icon.plain * len(list(alike)), icon.style)
    return text


def _legend(groups: list[list[NodeRow]], only_ascii: bool, *, as_bar: bool) -> Text:
    present = {row.state for group in groups for row in group}
    text = Text()
    for state in tables.STATES:
        if state in present:
            icon = tables.bar_cell(state, only_ascii) if as_bar else tables.state_icon(state, only_ascii)
            text.append("  " if text else "").append_text(icon).append(f" {state.value}")
    return text


def _with_legend(lines: list[Text], legend: Text, width: int) -> list[Text]:
    """The legend goes beside the last group where there is room, else below."""
    if not lines:
        return lines
    last = lines[-1]
    if last.cell_len + len(LEGEND_GAP) + legend.cell_len <= width:
        return [*lines[:-1], last.append(LEGEND_GAP).append_text(legend)]
    return [*lines, Text("  ").append_text(legend)]


def _most_telling(groups: dict[str, list[NodeRow]]) -> list[str]:
    """The groups with the most nodes that are neither updated nor simply old, by name."""
    plain = (*DONE, NodeState.OLD)
    ordered = sorted(groups, key=lambda key: (-sum(row.state not in plain for row in groups[key]), key))
    return sorted(ordered[:MOST_GROUPS])


class Detail(IntEnum):
    """How much of the block is drawn, for terminals with few lines."""

    HEADLINE = 0
    NO_GRID = 1
    ALL = 2


def status_block(view: StatusView, detail: Detail = Detail.ALL) -> list[Text]:
    """The lines, none wider than the terminal, and without control characters."""
    lines = [*_headline(view)]
    if detail is not Detail.HEADLINE:
        lines += [*hold_lines(view), *fact_lines(view)]
        known = view.survey.snapshot.nodes is not None  # else the grid would lack nodes, and nobody would see it
        rows = view.survey.rows if detail is Detail.ALL and known else ()
        lines += [*_apart(grid(rows, view.width, view.only_ascii)), *_apart(trouble_lines(view))]
    return [_fitted(one, view) for one in lines]


def outline(status: RolloutStatus, *, width: int, only_ascii: bool) -> Text:
    """One line, from the controller's own counts."""
    text = Text.assemble((status.name, "bold"), f" ({status.namespace})   ")
    text.append_text(tables.phase(status.phase, only_ascii))
    nodes = status.nodes
    text.append(f"   {nodes.updated} of {nodes.target} updated, {nodes.available} of {nodes.desired} available")
    return cut(clean(text, only_ascii), width, only_ascii)


def _headline(view: StatusView) -> Iterator[Text]:
    """The words behind the phase get a line of their own where they do not fit."""
    status, survey = view.status, view.survey
    head = Text.assemble((status.name, "bold"), f" ({status.namespace})   ")
    head.append_text(tables.phase(survey.phase, view.only_ascii))
    headline = headline_of(survey, status)
    if headline and head.cell_len + 3 + len(headline) > view.width:
        yield head
        yield line("So far", headline)
    else:
        yield head.append(f"   {headline}" if headline else "")


def _apart(lines: list[Text]) -> list[Text]:
    return [Text(""), *lines] if lines else []


def _fitted(text: Text, view: StatusView) -> Text:
    text = clean(text, only_ascii=False)
    if view.only_ascii:
        text = _in_ascii(text)
    return text if view.wide else cut(text, view.width, view.only_ascii)


def _in_ascii(text: Text) -> Text:
    """Our own signs as ASCII ones, other characters as question marks."""
    for sign, plain in (("→", "->"), ("…", "...")):
        while sign in text.plain:
            at = text.plain.index(sign)
            text = Text.assemble(text[:at], plain, text[at + 1 :])
    return clean(text, only_ascii=True)
