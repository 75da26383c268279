"""`status` as text: how the rollout stands, why, what comes next, and which commands to type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import groupby
from typing import Final

from rich.text import Text

from controller.api.daemonset import Phase
from controller.api.formats import counted, listed
from controller.api.names import INVALID_SPEC, WRITES_FAIL
from controller.api.objects import Key, epoch
from controller.planner.blocker_texts import WaitReason
from controller.planner.checks import words_of_state
from controller.planner.conditions import some
from controller.planner.explanation import NodeState
from kubectl_plugin.render import tables
from kubectl_plugin.render.tables import LABEL_WIDTH, clean, cut, wrapped
from kubectl_plugin.rollout.diff import differences
from kubectl_plugin.rollout.document import FailureLine, RolloutDocument
from kubectl_plugin.rollout.history import summary
from kubectl_plugin.rollout.nodes import DONE, NodeRow
from kubectl_plugin.rollout.reasons import (
    new_pods_words,
    nodes_without_available_pod,
    partition_hold_words,
    waits_for_words,
)
from kubectl_plugin.rollout.snapshot import counts_of, failure_lines, images_of, short_beside, short_image
from kubectl_plugin.rollout.status import RolloutStatus
from kubectl_plugin.rollout.steps import step_words
from kubectl_plugin.rollout.survey import NodeSurvey
from kubectl_plugin.terminal import WIDEST, Terminal
from kubectl_plugin.wording import between, command, for_cluster, short_duration

INDENT: Final = LABEL_WIDTH + 2
MOST_LINES: Final = 4
BUSY: Final = (Phase.PROGRESSING, Phase.STALLED, Phase.DEGRADED, Phase.PENDING)
"""Phases in which pods are waited for."""
BAR: Final = 20
SHORTEST_BAR: Final = 6
MOST_FAILURES: Final = 3
_WHO_REFUSES: Final = r"^(server dry-run of the new pod|unusable spec):"
MOST_ICONS: Final = 60
"""Larger groups are drawn as bars."""
GRID_BAR: Final = 30
MOST_GROUPS: Final = 16
GAP: Final = "   "
LEGEND_GAP: Final = "     "


class Detail(IntEnum):
    """How much of the block is drawn on terminals with few lines."""

    HEADLINE = 0
    NO_GRID = 1
    ALL = 2


def status_lines(status: RolloutStatus, terminal: Terminal, *, wide: bool, detail: Detail = Detail.ALL) -> list[Text]:
    """Lines without control characters that fit the terminal; a single one if the nodes cannot be listed. `wide`:
    never cut, with full image names and hashes."""
    if isinstance(status.survey, NodeSurvey):
        return _Block(status, status.survey, terminal, wide=wide).lines(detail)
    nodes, only_ascii = status.counts, terminal.ascii
    text = _title(status.document, only_ascii)
    text.append(f"   {nodes.updated} of {nodes.target} updated, {nodes.available} of {nodes.desired} available")
    return [cut(clean(text, only_ascii), terminal.width, only_ascii)]


def _title(document: RolloutDocument, only_ascii: bool) -> Text:
    head = Text.assemble((document.name, "bold"), f" ({document.namespace})   ")
    return head.append_text(tables.phase(document.phase, only_ascii))


class _Block:
    def __init__(self, status: RolloutStatus, survey: NodeSurvey, terminal: Terminal, *, wide: bool) -> None:
        self.status, self.survey, self.document = status, survey, status.document
        self.width, self.only_ascii, self.wide = WIDEST if wide else terminal.width, terminal.ascii, wide
        self.cluster_flags = terminal.cluster_flags

    def lines(self, detail: Detail) -> list[Text]:
        lines = [*self._headline()]
        if detail is not Detail.HEADLINE:
            lines += [*self._steps(), *self._holds(), *self._facts()]
            known = self.survey.snapshot.nodes is not None  # else the grid would lack nodes without a sign
            rows = self.survey.rows if detail is Detail.ALL and known else ()
            lines += [*_apart(grid(rows, self.width, self.only_ascii)), *_apart(self._failures())]
        return [fitted for one in lines for fitted in self._fitted(one)]

    def _headline(self) -> Iterator[Text]:
        """Words that do not fit behind the phase get their own line."""
        head, words = _title(self.document, self.only_ascii), self._headline_words()
        if words and head.cell_len + 3 + len(words) > self.width:
            yield head
            yield line("So far", words)
        else:
            yield head.append(f"   {words}" if words else "")

    def _headline_words(self) -> str:
        """Such as `step 2 of 4   started 6m12s ago`."""
        survey, status = self.survey, self.document
        now, nodes, steps = survey.snapshot.now, status.nodes, status.steps
        on_it = f"{counted(nodes.updated, 'node', of=nodes.desired)} on revision {status.revision.shown}"
        step = f"step {steps.index} of {steps.count}" if steps and not steps.is_over else ""
        match survey.phase:
            case Phase.PROGRESSING:
                started = f"started {ago_in_words(status.started_at, now)}" if status.started_at else ""
                return "   ".join(filter(None, (step, started)))
            case Phase.STALLED if survey.standing.refused:
                what = "unusable spec" if status.reason == INVALID_SPEC else "template refused"
                return what + ("" if survey.standing.updated else ", no pod was touched")
            case Phase.STALLED:
                return "   ".join(filter(None, (step, f"no progress for {time_since(status.last_progress_at, now)}")))
            case Phase.SOAKING if steps is not None:
                return f"{step}, {short_duration(steps.soak_seconds_left)} left"
            case Phase.HELD:
                return on_it + (f" for {time_since(status.completed_at, now)}" if status.completed_at else "")
            case Phase.AWAITING_APPROVAL if steps is not None and steps.reached_at:
                return f"{step}, {on_it} for {time_since(steps.reached_at, now)}"
            case Phase.HEALTHY:
                return f"{on_it}{_completion_words(status, now)}"
            case Phase.DEGRADED:
                return f"{on_it}, {nodes.desired - nodes.available} not available"
            case Phase.TERMINATING:
                return f"{counted(len(survey.snapshot.pods), 'pod')} left"
            case Phase.PENDING:
                return ""
            case Phase.PAUSED | Phase.MANUAL | Phase.SOAKING | Phase.AWAITING_APPROVAL | Phase.ABORTED:
                return on_it

    def _holds(self) -> Iterator[Text]:
        """Phases that only a user can end; a pause is shown in any phase."""
        phase = self.survey.phase
        if self.document.strategy.paused:
            yield from self._paused_lines()
        elif phase is Phase.HELD:
            yield from self._held_lines()
        elif phase is Phase.AWAITING_APPROVAL:
            yield line("Next", self._command("promote"))
        elif phase is Phase.ABORTED:
            yield from self._quoted("Because", self.document.message)
            yield from labelled("Next", [self._command("rollback"), self._command("retry")])
        if phase is Phase.MANUAL:
            yield line("Waits for", waits_for_words(self.survey))
            pod = next((row.pod.pod.name for row in self.survey.rows_in(NodeState.NEXT) if row.pod), "POD")
            deletion = command("delete pod", Key(self.document.namespace, pod), program="kubectl")
            yield line("Next", self._typed(deletion))
        elif phase is Phase.PENDING:
            yield line("Waits for", self.document.message.removeprefix("waiting for "))
            yield from self._quoted("Problem", self.status.absence)
            yield line("Try", self._typed(command("doctor")))

    def _steps(self) -> Iterator[Text]:
        steps, standing = self.document.steps, self.survey.standing
        if steps is not None:
            yield line("Steps", step_words(steps, standing.done, standing.target, only_ascii=self.only_ascii))
        for check in self.document.checks:
            since = time_since(check.since, self.survey.snapshot.now)
            yield line("Check", f"{check.name} {words_of_state(check.state)} for {since}")
            yield from self._quoted("", check.message)

    def _held_lines(self) -> Iterator[Text]:
        if driver := self.status.driver:
            yield line("Next", f"by {driver}, which sets the partition")
            return
        release = self.status.release
        if release is None:
            yield line("Held by", self.status.held_by)
            if self.document.reason == WaitReason.STEP:
                yield line("Next", self._command("promote", "--full"))
            return
        command = self._command("set-partition", "0")
        more = counted(len(release.nodes), "more node")
        change = f"partition {release.before} → 0: {more}, {between(release.nodes)}"
        together = line("Next", f"{command}   {change}")
        yield from [together] if together.cell_len <= self.width else labelled("Next", [command, change])

    def _paused_lines(self) -> Iterator[Text]:
        pause = self.document.paused
        if pause is not None and pause.at:
            who = f" by {pause.by}" if pause.by else ""
            why = f': "{pause.reason}"' if pause.reason else ""
            yield line("Paused", f"{ago_in_words(pause.at, self.survey.snapshot.now)}{who}{why}")
        elif self.survey.phase is not Phase.PAUSED:
            yield line("Paused", "nothing more is rolled out before resume")
        if self.survey.phase is Phase.PAUSED:
            yield line("Still", new_pods_words(self.survey))
        steps = self.document.steps
        also = ["promote"] if steps is not None and steps.awaits_approval else []
        yield from labelled("Next", [self._command(verb) for verb in ("resume", *also)])

    def _facts(self) -> Iterator[Text]:
        phase = self.survey.phase
        yield line("Revision", self._revision())
        limited = phase in BUSY and bool(self.survey.counts.next or phase is Phase.STALLED)
        if phase in BUSY:
            yield line("Target", self._target())
            yield self._progress()
        if limited:
            yield line("Budget", self._budget())
        if pulls := self.survey.pulls:
            yield from labelled("Images", [counts_of(pulls.values()).words("nodes to go"), *failure_lines(pulls)])
        yield line("Fleet", self._fleet(named=not limited))
        yield from self._quoted("Domains", self._domains())

    def _revision(self) -> str:
        revision = self.document.revision
        moves = revision.previous is not None and self.survey.phase is not Phase.HEALTHY
        numbers = f"{revision.previous} → {revision.shown}" if moves else revision.shown
        if self.wide:
            numbers += f" ({revision.hash})"
        return f"{numbers:<15} {self._change() if moves else self._images()}"

    def _change(self) -> str:
        if changed := self.document.images.values():
            sides = [(self._image(one.before, one.after), self._image(one.after, one.before)) for one in changed]
            return ", ".join(f"{before} → {after}" for before, after in sides)
        previous = self.survey.previous_revision
        if previous is None:
            return self._images()
        return summary(differences(previous.revision.template, self.survey.template))

    def _images(self) -> str:
        images = images_of(self.survey.template).values()
        return ", ".join(image if self.wide else short_image(image) for image in images)

    def _image(self, image: str | None, other: str | None) -> str:
        if image is None:
            return "none"
        return image if self.wide else short_beside(image, other or image)

    def _target(self) -> str:
        counts, strategy = self.document.nodes, self.document.strategy
        parts = [counted(counts.target, "node", of=counts.desired)]
        if strategy.partition:
            parts.append(partition_hold_words(strategy.partition, min(strategy.partition, counts.desired)))
        if strategy.selector:
            parts.append("rollingUpdate.selector chooses them")
        return "   ".join(parts)

    def _progress(self) -> Text:
        """Shortens the bar if the words need the room."""
        counts, done = self.document.nodes, self.survey.derived_record.done
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
        rest, begun = f"] {', '.join(words)}", line("Progress", "[")
        room = self.width - begun.cell_len - len(rest)
        bar = tables.stacked(parts, max(min(BAR, room), SHORTEST_BAR), self.only_ascii)
        return begun.append_text(bar).append(rest)

    def _budget(self) -> str:
        budget = self.document.budget
        limit = f"{'maxSurge' if self.document.strategy.max_surge else 'maxUnavailable'} {budget.max}"
        if not budget.used:
            return f"{limit}: none in use"
        full = {1: "in use", 2: "both in use"}.get(budget.max, f"all {budget.max} in use")
        used = full if budget.used == budget.max else f"{budget.used} in use"
        return f"{limit}: {used} ({some(budget.by)})"

    def _domains(self) -> str:
        """Such as `zone-c 2 short (at most 2)`; empty without `topology`, or where no node is short."""
        words = []
        for row in sorted(self.status.domains, key=lambda row: -len(row.short)):
            most = "" if row.max_unavailable is None else f" (at most {row.max_unavailable})"
            words += [f"{row.name} {len(row.short)} short{most}"] if row.short else []
        return listed(words, separator=", ")

    def _fleet(self, *, named: bool) -> str:
        """`named`: lists unavailable nodes if no other line does."""
        counts = self.document.nodes
        words = [f"{counts.available} of {counts.desired} available"]
        if named and counts.available < counts.desired:
            words.append(f"not on {some(nodes_without_available_pod(self.survey))}")
        if counts.unplanned:
            words.append(f"{counts.unplanned} newer than planned")
        return ", ".join(words)

    def _failures(self) -> list[Text]:
        """Empty if all is well."""
        waiting = waits_for_words(self.survey) if self.survey.phase is Phase.PROGRESSING else ""
        return [
            *self._failure_lines(),
            *self._prepared_lines(),
            *self._quoted("Waits for", waiting),
            *labelled("Try", self._commands()),
        ]

    def _failure_lines(self) -> Iterator[Text]:
        refused = self.survey.phase is Phase.STALLED and bool(self.survey.standing.refused)
        if refused:
            yield from self._quoted("Problem", self.document.message, bad=_WHO_REFUSES)
        failures = self.document.problems
        for index, failure in enumerate(failures[:MOST_FAILURES]):
            yield line("" if index or refused else "Problem", Text(_described(failure), tables.BAD))
            yield from self._quoted("", _words(failure))
        if len(failures) > MOST_FAILURES:
            yield line("", f"and {len(failures) - MOST_FAILURES} more")

    def _prepared_lines(self) -> Iterator[Text]:
        """Pods held by the preDelete hook, whatever they are deleted for."""
        held = [one for row in self.survey.in_update_order for one in row.preparing]
        shown, words = held[:MOST_FAILURES], list[str]()
        for handlers in dict.fromkeys(one.held_by for one in shown):
            alike = [one for one in shown if one.held_by == handlers]
            words += [f"{one.node}  {one.pod}{one.age(self.survey.snapshot.now)}" for one in alike]
            words.append(f"held {alike[0].until}")
        if len(held) > MOST_FAILURES:
            words.append(f"and {len(held) - MOST_FAILURES} more: {self._command('nodes', '--only', 'preparing')}")
        yield from labelled("Preparing", words)

    def _commands(self) -> list[str]:
        """At most two commands: one to see why, one to go back."""
        status = self.document
        commands = [self._typed(one) for one in self._look_commands()]
        bad = self.survey.standing.refused or any(
            failure.revision == status.revision.current for failure in status.problems
        )
        if bad and status.phase in BUSY and (verb := self.status.way_back):
            commands.append(self._command(verb))
        return commands

    def _look_commands(self) -> Iterator[str]:
        """At most one, for the first problem."""
        namespace = self.document.namespace
        if self.document.problems and self.status.writes:
            yield f"kubectl describe ads -n {namespace} {self.document.name}"
            return
        for detail, failure in self.status.failing_pods[:1]:
            if not failure.restarts:
                yield f"kubectl describe pod -n {namespace} {failure.pod}"
                return
            several = len(detail.all_containers) > 1
            which = f" -c {failure.container}" if several and failure.container else ""  # else kubectl has to guess
            yield f"kubectl logs -n {namespace} {failure.pod}{which} --previous"

    def _quoted(self, label: str, words: str, bad: str = "") -> Iterator[Text]:
        """Foreign text on at most `MOST_LINES` lines. `bad`: pattern of what is coloured as an error."""
        room = max(self.width - INDENT, 20)
        parts = [Text(part) for part in wrapped(words, room, most=MOST_LINES)]
        if bad and parts:
            parts[0].highlight_regex(bad, tables.BAD)
        return labelled(label, parts)

    def _command(self, verb: str, *more: str) -> str:
        return self._typed(command(verb, self.survey.snapshot.key, *more))

    def _typed(self, command: str) -> str:
        return for_cluster(command, self.cluster_flags)

    def _fitted(self, text: Text) -> Iterator[Text]:
        """A command is broken so that it can be typed, other lines are cut."""
        text = clean(text, only_ascii=False)
        if self.only_ascii:
            text = _in_ascii(text)
        label, words = text[:INDENT], text.plain[INDENT:]
        if self.wide or text.cell_len <= self.width or not words.startswith("kubectl "):
            yield text if self.wide else cut(text, self.width, self.only_ascii)
            return
        *parts, last = wrapped(words, self.width - INDENT - 2, whole_words=True)
        for number, part in enumerate((*(f"{part} \\" for part in parts), last)):
            yield (Text(" " * INDENT) if number else label).append(part)


def grid(rows: Iterable[NodeRow], width: int, only_ascii: bool) -> list[Text]:
    """One line per group, and a legend beside the last one or below; without nodes that should not run the pod."""
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
    if not lines:
        return []
    legend = _legend(members, only_ascii, as_bar=not icons)
    if lines[-1].cell_len + len(LEGEND_GAP) + legend.cell_len > width:
        return [*lines, Text("  ").append_text(legend)]
    lines[-1].append(LEGEND_GAP).append_text(legend)
    return lines


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


def _most_telling(groups: dict[str, list[NodeRow]]) -> list[str]:
    """The groups with the most nodes that are neither updated nor simply old, by name."""
    plain = (*DONE, NodeState.OLD)
    ordered = sorted(groups, key=lambda key: (-sum(row.state not in plain for row in groups[key]), key))
    return sorted(ordered[:MOST_GROUPS])


def _words(failure: FailureLine) -> str:
    """Quotes a container's own message."""
    return failure.message if failure.reason == WRITES_FAIL or not failure.message else f'"{failure.message}"'


def _described(failure: FailureLine) -> str:
    """Such as `c-04  node-agent-x7k2p  CrashLoopBackOff, 3 restarts, exit 1:`."""
    if failure.reason == WRITES_FAIL:
        return "the controller's writes fail:"
    facts = [failure.reason]
    if failure.restarts:
        facts.append(counted(failure.restarts, "restart"))
    if failure.exit_code is not None:
        facts.append(f"exit {failure.exit_code}")
    end = ":" if failure.message else ""
    return f"{failure.node}  {failure.pod}  {', '.join(facts)}{end}"


def line(label: str, words: str | Text) -> Text:
    """Such as `  Fleet      22 of 24 available`; an empty label continues the previous line."""
    return Text.assemble("  ", (label.ljust(LABEL_WIDTH), tables.LABEL if label else ""), words)


def labelled(label: str, parts: Sequence[str | Text]) -> Iterator[Text]:
    for index, part in enumerate(parts):
        yield line("" if index else label, part)


def _apart(lines: list[Text]) -> list[Text]:
    return [Text(""), *lines] if lines else []


def _in_ascii(text: Text) -> Text:
    """Replaces the plugin's own signs by ASCII ones, other characters by question marks."""
    for sign, plain in (("→", "->"), ("…", "...")):
        while sign in text.plain:
            at = text.plain.index(sign)
            text = Text.assemble(text[:at], plain, text[at + 1 :])
    return clean(text, only_ascii=True)


def time_since(stamp: str | None, now: float) -> str:
    """Such as `18m`; `long` if unknown. `stamp`: RFC 3339; `now`: seconds since 1970."""
    moment = epoch(stamp)
    return short_duration(now - moment) if moment is not None else "long"


def ago_in_words(stamp: str | None, now: float) -> str:
    """Such as `3h ago`; empty if unknown."""
    moment = epoch(stamp)
    return f"{short_duration(now - moment)} ago" if moment is not None else ""


def _completion_words(status: RolloutDocument, now: float) -> str:
    begun, ended = epoch(status.started_at), epoch(status.completed_at)
    if begun is None or ended is None:
        return ""
    return f", done {short_duration(now - ended)} ago in {short_duration(ended - begun)}"
