"""Finds the current revision: the one that means the same as the template."""

from __future__ import annotations

from collections.abc import Iterable

from controller.api.daemonset import DaemonSet
from controller.api.revision import HIGHEST_NUMBER, Revision, new_hash
from controller.planner.world import World, hashes_of_pods


def of_template(daemonset: DaemonSet, revisions: Iterable[Revision]) -> list[Revision]:
    """Those of the revisions that mean the same as the template: the current one and its duplicates."""
    return [one for one in revisions if one.identity == daemonset.identity]


def stored_current(daemonset: DaemonSet, revisions: Iterable[Revision]) -> Revision | None:
    """The current revision if it is stored: the newest one `of_template` that is not being deleted."""
    lasting = [one for one in of_template(daemonset, revisions) if not one.dying]
    return max(lasting, key=_order, default=None)


def current_revision(world: World) -> tuple[Revision, tuple[Revision, ...]]:
    """The current revision, and all others, newest first. If it is not stored, it is the one that will be."""
    daemonset = world.daemonset
    stored = sorted(_originals(world.revisions), key=_order, reverse=True)
    current = stored_current(daemonset, stored)
    if current is not None:
        return current, tuple(one for one in stored if one is not current)
    hash_ = new_hash(daemonset.identity, world.collisions)
    future = Revision(
        namespace=daemonset.namespace,
        name=f"{daemonset.name}-{hash_}",
        uid="",
        version="",
        owner_uid=daemonset.uid,
        owner_index=0,
        labels={"controller-revision-hash": hash_},
        number=min(stored[0].number + 1, HIGHEST_NUMBER) if stored else 1,
        template=daemonset.spec.template,
        identity=daemonset.identity,
    )
    return future, tuple(stored)


def rolled_out(world: World, revisions: tuple[Revision, ...]) -> tuple[Revision, ...]:
    """Without those that were adopted as mere history and that no pod has had since."""
    if not any(one.never_ran for one in revisions):
        return revisions
    has_run = hashes_of_pods(world)
    return tuple(one for one in revisions if not one.never_ran or one.hash in has_run)


def _originals(revisions: Iterable[Revision]) -> Iterable[Revision]:
    """Without those whose hash stands for another content: pods with a hash have the content that had it first."""
    contents: dict[str, str] = {}
    for one in sorted(revisions, key=lambda one: (one.never_ran, one.created, one.number, one.name)):
        contents.setdefault(one.hash, one.identity)
    return (one for one in revisions if one.identity == contents[one.hash])


def _order(revision: Revision) -> tuple[int, str, str]:
    """Greater for a newer revision."""
    return revision.number, revision.created, revision.name
