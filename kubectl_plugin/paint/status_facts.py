"""The lines of `status` that say how far it is: revision, target, progress, budget, fleet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.text import Text

from controller.api.daemonset import Phase
from controller.planner.states import NodeState
from kubectl_plugin.paint import style
from kubectl_plugin.paint.sight import BUSY, Sight, line
from kubectl_plugin.report.pulls import failures, tally
from kubectl_plugin.report.revisions.differences import differences
from kubectl_plugin.report.revisions.images import images_of, short
from kubectl_plugin.report.revisions.phrases import summary
from kubectl_plugin.report.status.reasons import some, unserved

BAR: Final = 20
SHORTEST_BAR: Final = 6


def facts(sight: Sight) -> Iterator[Text]:
    phase = sight.survey.phase
    yield line("Revision", _revision(sight))
    limited = phase in BUSY and bool(sight.survey.counts.next or phase is Phase.STALLED)
    if phase in BUSY:
        yield line("Target", _target(sight))
        yield _progress(sight)
    if limited:
        yield line("Budget", _budget(sight))
    if sight.survey.pulls:
        yield from _images_ahead(sight)
    yield line("Fleet", _fleet(sight, named=not limited))


def _revision(sight: Sight) -> str:
    revision = sight.status.revision
    moves = revision.previous is not None and sight.survey.phase is not Phase.HEALTHY
    numbers = f"{revision.previous} → {revision.shown}" if moves else revision.shown
    if sight.wide:
        numbers += f" ({revision.hash})"
    return f"{numbers:<15} {_change(sight) if moves else _images(sight)}"


def _change(sight: Sight) -> str:
    """The images that change, or where none does what else."""
    changed = sight.status.images.values()
    if changed:
        return ", ".join(f"{_image(sight, one.before)} → {_image(sight, one.after)}" for one in changed)
    former = sight.survey.former
    if former is None:
        return _images(sight)
    return summary(differences(former.revision.template, sight.survey.daemonset.spec.template))


def _images(sight: Sight) -> str:
    return ", ".join(_image(sight, one) for one in images_of(sight.survey.daemonset.spec.template).values())


def _image(sight: Sight, image: str | None) -> str:
    if image is None:
        return "none"
    return image if sight.wide else short(image)


def _images_ahead(sight: Sight) -> Iterator[Text]:
    pulls = sight.survey.pulls
    yield line("Images", tally(pulls.values(), "nodes to go"))
    yield from (line("", words) for words in failures(pulls))


def _target(sight: Sight) -> str:
    counts, strategy = sight.status.nodes, sight.status.strategy
    parts = [f"{counts.target} of {counts.desired} nodes"]
    if strategy.partition:
        parts.append(f"partition {strategy.partition} keeps {min(strategy.partition, counts.desired)} old")
    if strategy.selector:
        parts.append("rollingUpdate.selector chooses them")
    return "   ".join(parts)


def _progress(sight: Sight) -> Text:
    """The bar gives way where the words need the room."""
    counts, done = sight.status.nodes, sight.survey.rollout.done
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
    room = sight.width - begun.cell_len - len(told)
    bar = style.stacked(parts, max(min(BAR, room), SHORTEST_BAR), sight.only_ascii)
    return begun.append_text(bar).append(told)


def _budget(sight: Sight) -> str:
    budget = sight.status.budget
    limit = f"{'maxSurge' if sight.status.strategy.max_surge else 'maxUnavailable'} {budget.max}"
    if not budget.used:
        return f"{limit}: none in use"
    full = {1: "in use", 2: "both in use"}.get(budget.max, f"all {budget.max} in use")
    used = full if budget.used == budget.max else f"{budget.used} in use"
    return f"{limit}: {used} ({some(budget.by)})"


def _fleet(sight: Sight, *, named: bool) -> str:
    """`named`: which nodes are not available, where no other line tells."""
    counts = sight.status.nodes
    words = [f"{counts.available} of {counts.desired} available"]
    if named and counts.available < counts.desired:
        words.append(f"not on {some(unserved(sight.survey))}")
    if counts.unplanned:
        words.append(f"{counts.unplanned} newer than planned")
    return ", ".join(words)
