"""The lines of `status` about how far the rollout is: revision, target, progress, budget, fleet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.text import Text

from controller.api.daemonset import Phase
from controller.api.formats import counted
from controller.planner.conditions import some
from controller.planner.explanation import NodeState
from kubectl_plugin.paint import style
from kubectl_plugin.paint.status_view import BUSY, StatusView, labelled, line
from kubectl_plugin.report.pulls import counts_of, failure_lines
from kubectl_plugin.report.revisions.differences import differences
from kubectl_plugin.report.revisions.images import images_of, short_beside, short_image
from kubectl_plugin.report.revisions.phrases import summary
from kubectl_plugin.report.status.reasons import nodes_without_available_pod, partition_hold_words

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
    bar = style.stacked(parts, max(min(BAR, room), SHORTEST_BAR), view.only_ascii)
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
