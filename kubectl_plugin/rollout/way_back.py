"""Where a rollback goes: the last revision that was rolled out completely, as the controller recorded it."""

from __future__ import annotations

from controller.api.daemonset import DaemonSet, Phase, rollout_of
from controller.api.template_identity import without_restart
from kubectl_plugin.errors import CommandError, ExitCode
from kubectl_plugin.rollout.history import kept_revisions
from kubectl_plugin.rollout.images import images_of, short_beside
from kubectl_plugin.rollout.snapshot import RevisionDetail, Snapshot
from kubectl_plugin.units import short_duration
from kubectl_plugin.wording import command


def verb_to_go_back(snapshot: Snapshot) -> str:
    """`rollback`; `history` if only a person can choose the revision; empty if there is none to go back to."""
    try:
        target_of(snapshot, None)
    except CommandError as error:
        return "history" if error.exit_code is ExitCode.REFUSED else ""
    return "rollback"


def way_back(snapshot: Snapshot, to: str = "") -> tuple[str, ...]:
    """The hint with that verb, or none."""
    verb = verb_to_go_back(snapshot)
    return (command(verb, snapshot.key, to=to),) if verb else ()


def target_of(snapshot: Snapshot, to_revision: int | None) -> RevisionDetail:
    """Revision `to_revision`, else the last one the controller recorded as rolled out completely, or its predecessor
    if that is live. Raises CommandError if the revision is not kept; with exit code 6, listing the candidates, if the
    target is unknown: it is never inferred from numbers or pods."""
    daemonset, kept, others = snapshot.daemonset, kept_revisions(snapshot), different_revisions(snapshot)
    if to_revision is not None:
        found = next((one for one in kept if one.revision.number == to_revision), None)
        if found is None:
            raise _not_kept(daemonset, to_revision, kept)
        return found
    if not others:
        raise _nothing_earlier(daemonset, kept)
    record = rollout_of(snapshot.daemonset.status)
    by_hash = {one.revision.hash: one for one in kept}
    stable, former = by_hash.get(record.stable_revision or ""), by_hash.get(record.previous_stable_revision or "")
    if record.stable_revision is None and former in others:
        return former
    if record.stable_revision is None:
        raise _unknown(snapshot, "no revision is known to have been rolled out completely")
    if stable is None:
        raise _unknown(snapshot, "the last revision that was rolled out completely is not kept")
    if former is not None and former not in others:
        raise _unknown(snapshot, f"nodes are on their way back to revision {former.revision.number}")
    if stable in others:
        return stable
    if not _is_everywhere(snapshot, stable):
        raise _unknown(snapshot, f"nodes are on their way back to revision {stable.revision.number}")
    if former is None:
        raise _unknown(snapshot, f"none is known to have been rolled out before revision {stable.revision.number}")
    return former


def _is_everywhere(snapshot: Snapshot, stable: RevisionDetail) -> bool:
    """Whether every node has the stable revision, which is live: it was rolled out last, or only restarted since."""
    status, record = snapshot.daemonset.status, rollout_of(snapshot.daemonset.status)
    if stable.revision.identity != snapshot.daemonset.identity:
        return all(one.revision.number < stable.revision.number for one in different_revisions(snapshot))
    is_last = status is not None and status.update_revision == record.stable_revision
    is_over = record.completion_time is not None and record.phase not in (Phase.HELD, Phase.PENDING)
    return is_last and is_over


def other_revisions(snapshot: Snapshot) -> list[RevisionDetail]:
    """Kept revisions that differ from the live template, newest first."""
    return [one for one in kept_revisions(snapshot) if one.revision.identity != snapshot.daemonset.identity]


def different_revisions(snapshot: Snapshot) -> list[RevisionDetail]:
    """`other_revisions` that differ in more than a restart."""
    live = without_restart(snapshot.daemonset.spec.template)
    return [one for one in other_revisions(snapshot) if without_restart(one.revision.template) != live]


def age_and_images(snapshot: Snapshot, one: RevisionDetail) -> str:
    """`12d ago, agent:1.8.4`, with the images that differ from the live ones."""
    live = images_of(snapshot.daemonset.spec.template)
    kept = images_of(one.revision.template)
    images = [short_beside(image, live.get(name, "")) for name, image in kept.items() if live.get(name) != image]
    return ", ".join((f"{short_duration(snapshot.now - one.created)} ago", *images))


def _unknown(snapshot: Snapshot, why: str) -> CommandError:
    others = different_revisions(snapshot)
    return CommandError(
        f"it cannot be told which revision {snapshot.key.name} is to go back to: {why}",
        hints=tuple(_way_to(snapshot, one) for one in others),
        exit_code=ExitCode.REFUSED,
    )


def _way_to(snapshot: Snapshot, to: RevisionDetail) -> str:
    words = age_and_images(snapshot, to)
    return command("rollback", snapshot.key, "--to-revision", str(to.revision.number), to=words)


def _nothing_earlier(daemonset: DaemonSet, kept: list[RevisionDetail]) -> CommandError:
    name, limit = daemonset.name, daemonset.spec.revision_history_limit
    because = f" (revisionHistoryLimit {limit})" if limit == 0 else ""
    if not kept:
        return CommandError(f"{name} has no revision yet; there is no earlier one{because}")
    if len(kept) > 1:
        return CommandError(f"the revisions of {name} differ only in restarts; there is no earlier one{because}")
    number = kept[0].revision.number
    return CommandError(f"{name} has only revision {number}; there is no earlier revision{because}")


def _not_kept(daemonset: DaemonSet, number: int, kept: list[RevisionDetail]) -> CommandError:
    numbers = ", ".join(str(one) for one in sorted(one.revision.number for one in kept)) or "none"
    return CommandError(
        f"revision {number} of {daemonset.name} is not kept; kept: {numbers}"
        f" (revisionHistoryLimit {daemonset.spec.history_limit})"
    )
