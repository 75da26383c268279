"""Finds the current revision: the one that means the same as the template."""

from __future__ import annotations

from controller.api.revision import Revision, new_hash
from controller.planner.world import World


def current_revision(world: World) -> tuple[Revision, tuple[Revision, ...]]:
    """The current revision, which means the same as the template, and all others, newest first.

    Of several with the same meaning, the one with the highest number is current. If none is stored, it is the one
    that will be.
    """
    daemonset = world.daemonset
    stored = sorted(world.revisions, key=lambda one: (one.number, one.name), reverse=True)
    for candidate in stored:
        if candidate.identity == daemonset.identity and not candidate.dying:
            return candidate, tuple(one for one in stored if one is not candidate)
    hash_ = new_hash(daemonset.identity, world.collisions)
    future = Revision(
        namespace=daemonset.namespace,
        name=f"{daemonset.name}-{hash_}",
        uid="",
        version="",
        owner_uid=daemonset.uid,
        owner_index=0,
        labels={"controller-revision-hash": hash_},
        number=stored[0].number + 1 if stored else 1,
        template=daemonset.spec.template,
        identity=daemonset.identity,
    )
    return future, tuple(stored)
