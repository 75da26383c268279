"""The current revision of a DaemonSet, which has the content of its template (`DryRun` says whether the server
accepts its pods), and the older revision for empty nodes that may not get the current one yet (`Fallback`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from controller.api.daemonset import DaemonSet
from controller.api.formats import LONGEST_ITEM, joined, truncated
from controller.api.names import UNKNOWN_FIELDS_ANNOTATION
from controller.api.objects import Value
from controller.api.revision import HIGHEST_NUMBER, Revision, new_hash
from controller.planner.node_fit import Fit, Rules
from controller.planner.nodes import NodeInfo
from controller.planner.world import TemplateRefused, TemplateVerdict, Unasked, World, hashes_of_pods


def of_template(daemonset: DaemonSet, revisions: Iterable[Revision]) -> list[Revision]:
    """The revisions that mean the same as the template: the current one and its duplicates."""
    return [revision for revision in revisions if revision.identity == daemonset.identity]


def stored_current(daemonset: DaemonSet, revisions: Iterable[Revision]) -> Revision | None:
    """The newest revision `of_template` that is not being deleted."""
    lasting = [revision for revision in of_template(daemonset, revisions) if not revision.terminating]
    return max(lasting, key=_order, default=None)


def current_revision(world: World) -> tuple[Revision, tuple[Revision, ...]]:
    """The current revision, stored or as it will be, and all others, newest first."""
    daemonset = world.daemonset
    stored = sorted(_originals(world.revisions), key=_order, reverse=True)
    current = stored_current(daemonset, stored)
    if current is not None:
        return current, tuple(revision for revision in stored if revision is not current)
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
    """The revisions that some pod has had."""
    if not any(revision.never_ran for revision in revisions):
        return revisions
    has_run = hashes_of_pods(world)
    return tuple(revision for revision in revisions if not revision.never_ran or revision.hash in has_run)


def _originals(revisions: Iterable[Revision]) -> Iterable[Revision]:
    """Of revisions with one hash, those with the content of the first, which pods with the hash have."""
    contents: dict[str, str] = {}
    for revision in sorted(
        revisions, key=lambda revision: (revision.never_ran, revision.created, revision.number, revision.name)
    ):
        contents.setdefault(revision.hash, revision.identity)
    return (revision for revision in revisions if revision.identity == contents[revision.hash])


def _order(revision: Revision) -> tuple[int, str, str]:
    return revision.number, revision.created, revision.name


_UNASKED = Unasked()


class DryRun(Value, dict=True, gc=True):
    """Whether the server accepts pods of the current revision, and what must wait until that is known."""

    world: World
    revision: Revision
    """The current revision."""

    @property
    def verdict(self) -> TemplateVerdict:
        """The result of the last dry run. A refusal for unknown fields counts only while `strict`."""
        found = self.world.verdicts.get(self.revision.hash, _UNASKED)
        if not isinstance(found, TemplateRefused) or not found.unknown_fields:
            return found
        if not self.strict:
            return _UNASKED
        value = self.world.daemonset.annotations.get(UNKNOWN_FIELDS_ANNOTATION)
        if value is None:
            return found
        aside = f"annotation {UNKNOWN_FIELDS_ANNOTATION}: {truncated(value, LONGEST_ITEM)!r} is not allow"
        return msgspec.structs.replace(found, message=joined(found.message, aside))

    @cached_property
    def strict(self) -> bool:
        """Whether unknown fields of the current revision are refused: they are not allowed, and no pod has had it."""
        if (self.revision.uid and not self.revision.never_ran) or self.world.daemonset.allows_unknown_fields:
            return False
        return self.revision.hash not in hashes_of_pods(self.world)

    @cached_property
    def refused_for_unknown_fields(self) -> bool:
        """Whether unknown fields keep all pods of the current revision from being created now. After any other
        refusal each node is tried, because it may be for the node or the moment."""
        verdict = self.verdict
        if not isinstance(verdict, TemplateRefused) or not verdict.unknown_fields:
            return False
        return self.world.now < self.world.retry_dry_run_at

    @cached_property
    def must_dry_run(self) -> bool:
        """Whether a dry run must first show that the server knows all fields of the current revision."""
        verdict = self.verdict
        unknown = isinstance(verdict, TemplateRefused) and verdict.unknown_fields
        return self.strict and (unknown or isinstance(verdict, Unasked))

    @property
    def refused(self) -> bool:
        return isinstance(self.verdict, TemplateRefused)


class Fallback(Value, dict=True, gc=True):
    """The revision of empty nodes, computed on demand. No node gets the current one if it has unknown fields, or is
    unstored beside an older one, because its pods could not be created again after another edit."""

    world: World
    current: Revision
    defers_current: bool
    """Whether no node gets the current revision while an older one is stored."""
    older: tuple[Revision, ...]
    nodes: tuple[NodeInfo, ...]
    unpartitioned: int

    def revision(self, node: NodeInfo) -> Revision:
        """The revision for the node: that of its last pod, which may be the current one; `usual` if it is not known
        or not stored."""
        known = self._stored.get(node.last) if node.last is not None else None
        return self.usual if known is None else known

    def accepts(self, node: NodeInfo, revision: Revision) -> bool:
        """Whether the placement rules of this revision let its pods run on the node."""
        if revision is self.current:
            return True
        rules = self.world.placements.get(revision.uid)
        return rules is not None and node.object is not None and rules.fit(node.object) is Fit.RUN

    @cached_property
    def usual(self) -> Revision:
        """The revision for nodes whose last revision is not known: `most_run`, or the current one if there is none,
        or if more nodes have the current one than `unpartitioned`, as after a revert."""
        older = self.most_run
        if older is None:
            return self.current
        if self.replaces_current:
            return older
        holders = sum(1 for node in self.nodes if node.fit is Fit.RUN and node.current is not None)
        return self.current if holders > self.unpartitioned else older

    @property
    def replaces_current(self) -> bool:
        """Whether even nodes that may hold the current revision get an older one."""
        return self.defers_current and bool(self._others)

    @cached_property
    def most_run(self) -> Revision | None:
        """The older revision with the most live pods; the newest of several with as many."""
        if not self._others:
            return None
        live = Counter(pod.hash for node in self.nodes for pod in node.pods if not pod.terminating and not pod.ended)
        return max(self._others, key=lambda revision: live[revision.hash])

    @cached_property
    def _others(self) -> tuple[Revision, ...]:
        """Older revisions without duplicates of the current one, which are about to be deleted."""
        return tuple([revision for revision in self.older if revision.identity != self.current.identity])

    @cached_property
    def _stored(self) -> Mapping[str, Revision]:
        current = () if self.replaces_current else (self.current,)
        return {revision.hash: revision for revision in (*reversed(self._others), *current)}


def placements_of(revisions: Iterable[Revision], known: Mapping[str, Rules | None]) -> dict[str, Rules | None]:
    """The placement rules by uid of the revision; None: invalid. `known` ones are kept."""
    return {
        revision.uid: known[revision.uid] if revision.uid in known else _compiled(revision) for revision in revisions
    }


def _compiled(revision: Revision) -> Rules | None:
    try:
        return Rules(revision.template)
    except (ValueError, msgspec.ValidationError):
        return None
