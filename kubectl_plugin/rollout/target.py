"""Which revision a rollback goes to: the last one that was rolled out completely, as the controller recorded it."""

from __future__ import annotations

from controller.api.daemonset import Phase, rollout_of
from controller.api.objects import Value
from controller.api.template_identity import without_restart
from kubectl_plugin.errors import CommandError, Refused
from kubectl_plugin.rollout.history import kept_revisions
from kubectl_plugin.rollout.snapshot import RevisionDetail, Snapshot, images_of, short_beside
from kubectl_plugin.wording import command, short_duration


class NoTarget(Value):
    why: str
    may_choose: bool = False
    """Whether there are earlier revisions, of which only a person can choose one."""


def choose_target(snapshot: Snapshot) -> RevisionDetail | NoTarget:
    """The last revision that the controller recorded as rolled out completely, or its predecessor if that is live. It
    is never inferred from numbers or pods."""
    kept, others = kept_revisions(snapshot), different_revisions(snapshot)
    if not others:
        return NoTarget(why=_nothing_earlier(snapshot, kept))
    record = rollout_of(snapshot.daemonset.status)
    by_hash = {one.revision.hash: one for one in kept}
    stable, former = by_hash.get(record.stable_revision or ""), by_hash.get(record.previous_stable_revision or "")
    if record.stable_revision is None and former in others:
        return former
    if record.stable_revision is None:
        return _unknown(snapshot, "no revision is known to have been rolled out completely")
    if stable is None:
        return _unknown(snapshot, "the last revision that was rolled out completely is not kept")
    if former is not None and former not in others:
        return _unknown(snapshot, f"nodes are on their way back to revision {former.revision.number}")
    if stable in others:
        return stable
    if not _is_everywhere(snapshot, stable):
        return _unknown(snapshot, f"nodes are on their way back to revision {stable.revision.number}")
    if former is None:
        return _unknown(snapshot, f"none is known to have been rolled out before revision {stable.revision.number}")
    return former


def target_of(snapshot: Snapshot, to_revision: int | None) -> RevisionDetail:
    """Revision `to_revision`, else that of `choose_target`. Raises CommandError if the revision is not kept; Refused,
    listing the candidates, if only a person can choose it."""
    if to_revision is not None:
        kept = kept_revisions(snapshot)
        found = next((one for one in kept if one.revision.number == to_revision), None)
        if found is None:
            raise _not_kept(snapshot, to_revision, kept)
        return found
    match choose_target(snapshot):
        case NoTarget(why=why, may_choose=True):
            hints = tuple(_way_to(snapshot, other) for other in different_revisions(snapshot))
            raise Refused(why, *hints)
        case NoTarget(why=why):
            raise CommandError(why)
        case target:
            return target


def verb_to_go_back(snapshot: Snapshot) -> str:
    """`rollback`; `history` if only a person can choose the revision; empty if there is none to go back to."""
    match choose_target(snapshot):
        case NoTarget(may_choose=may_choose):
            return "history" if may_choose else ""
        case _:
            return "rollback"


def way_back(snapshot: Snapshot) -> tuple[str, ...]:
    """The hint with that verb, or none."""
    verb = verb_to_go_back(snapshot)
    return (command(verb, snapshot.key),) if verb else ()


def _is_everywhere(snapshot: Snapshot, stable: RevisionDetail) -> bool:
    """Whether every node has the stable revision, which is live: it was rolled out last, or only restarted since."""
    status, record = snapshot.daemonset.status, rollout_of(snapshot.daemonset.status)
    if stable.revision.identity != snapshot.daemonset.identity:
        return all(detail.revision.number < stable.revision.number for detail in different_revisions(snapshot))
    is_last = status is not None and status.update_revision == record.stable_revision
    is_over = record.completion_time is not None and record.phase not in (Phase.HELD, Phase.PENDING)
    return is_last and is_over


def other_revisions(snapshot: Snapshot) -> list[RevisionDetail]:
    """Kept revisions that differ from the live template, newest first."""
    return [detail for detail in kept_revisions(snapshot) if detail.revision.identity != snapshot.daemonset.identity]


def different_revisions(snapshot: Snapshot) -> list[RevisionDetail]:
    """`other_revisions` that differ in more than a restart."""
    live = without_restart(snapshot.daemonset.spec.template)
    return [detail for detail in other_revisions(snapshot) if without_restart(detail.revision.template) != live]


def age_and_images(snapshot: Snapshot, detail: RevisionDetail) -> str:
    """`12d ago, agent:1.8.4`, with the images that differ from the live ones."""
    live = images_of(snapshot.daemonset.spec.template)
    kept = images_of(detail.revision.template)
    images = [short_beside(image, live.get(name, "")) for name, image in kept.items() if live.get(name) != image]
    return ", ".join((f"{short_duration(snapshot.now - detail.created)} ago", *images))


def _unknown(snapshot: Snapshot, why: str) -> NoTarget:
    return NoTarget(why=f"it is unknown which revision {snapshot.key.name} is to go back to: {why}", may_choose=True)


def _way_to(snapshot: Snapshot, to: RevisionDetail) -> str:
    words = age_and_images(snapshot, to)
    return command("rollback", snapshot.key, "--to-revision", str(to.revision.number), to=words)


def _nothing_earlier(snapshot: Snapshot, kept: list[RevisionDetail]) -> str:
    name, limit = snapshot.key.name, snapshot.daemonset.spec.revision_history_limit
    because = f" (revisionHistoryLimit {limit})" if limit == 0 else ""
    if not kept:
        return f"{name} has no revision yet; there is no earlier one{because}"
    if len(kept) > 1:
        return f"the revisions of {name} differ only in restarts; there is no earlier one{because}"
    return f"{name} has only revision {kept[0].revision.number}; there is no earlier revision{because}"


def _not_kept(snapshot: Snapshot, number: int, kept: list[RevisionDetail]) -> CommandError:
    numbers = ", ".join(str(one) for one in sorted(one.revision.number for one in kept)) or "none"
    return CommandError(
        f"revision {number} of {snapshot.key.name} is not kept; kept: {numbers}"
        f" (revisionHistoryLimit {snapshot.daemonset.spec.history_limit})"
    )
