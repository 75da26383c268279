"""The kept revisions of a DaemonSet: where they run, what each changed, and why."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from controller.api.objects import JSONObject, Value, rfc3339
from controller.api.revision import Revision
from controller.inplace.change import InPlaceChange, NotPossible
from kubectl_plugin.report.documents import document
from kubectl_plugin.report.in_place import way_between, way_in_words
from kubectl_plugin.report.revisions.differences import Difference, differences
from kubectl_plugin.report.revisions.hiding import without_secrets
from kubectl_plugin.report.revisions.images import images_of
from kubectl_plugin.report.revisions.phrases import summary
from kubectl_plugin.report.snapshot import CHANGE_CAUSE, RevisionDetail, Snapshot


class RevisionRow(Value):
    """One row of the history."""

    revision: Revision
    created: float
    """Seconds since 1970."""
    live: bool
    """Whether it is the template that the DaemonSet asks for now."""
    nodes: int | None
    """How many nodes have a pod of it that is not being deleted; None if pods could not be read."""
    images: dict[str, str]
    """The image of each container, by its name."""
    differing: tuple[str, ...]
    """Names of the containers whose image differs between kept revisions; all of them where none does."""
    changes: tuple[Difference, ...]
    """The differences from the next older revision; empty for the oldest."""
    way: InPlaceChange | NotPossible | None
    """How pods of the live template would get it; None for the live one, and where updates in place are not asked
    for."""
    oldest: bool
    limit: int
    """revisionHistoryLimit."""
    cause: str
    """The change-cause annotation; empty without one."""

    def change(self, *, only_ascii: bool = False) -> str:
        """What it changed, in a few words."""
        if self.oldest:
            return f"oldest kept (revisionHistoryLimit {self.limit})"
        return summary(self.changes, only_ascii=only_ascii) or "no difference"

    @property
    def document(self) -> JSONObject:
        return {
            "revision": self.revision.number,
            "controllerRevision": self.revision.name,
            "hash": self.revision.hash,
            "createdAt": rfc3339(self.created),
            "live": self.live,
            "nodes": self.nodes,
            "images": {**self.images},
            "change": self.change(),
            "changes": [one.document for one in self.changes],
            "inPlace": None if self.way is None else isinstance(self.way, InPlaceChange),
            "way": None if self.way is None else way_in_words(self.way),
            "oldest": self.oldest,
            "revisionHistoryLimit": self.limit,
            "cause": self.cause or None,
        }


def history_document(namespace: str, name: str, rows: Iterable[RevisionRow]) -> JSONObject:
    """What `history -o json` prints."""
    return document("RevisionList", namespace=namespace, name=name, items=[row.document for row in rows])


def revision_document(namespace: str, name: str, row: RevisionRow, *, show_values: bool) -> JSONObject:
    """What `history --revision N -o json` prints: the same, and the whole template."""
    template = row.revision.template if show_values else without_secrets(row.revision.template)[0]
    return document("Revision", namespace=namespace, name=name, **row.document, template=template)


def history(snapshot: Snapshot, *, show_values: bool = False) -> tuple[RevisionRow, ...]:
    """A row for each kept revision, the newest first. A revision that is being deleted is not kept."""
    kept = kept_revisions(snapshot)
    templates = [one.revision.template for one in kept]
    changes = [differences(old, new, show_values=show_values) for new, old in pairwise(templates)]
    images = [images_of(one) for one in templates]
    names = frozenset(name for one in images for name in one)
    differing = frozenset(name for name in names if len({one.get(name) for one in images}) > 1) or names
    current = live_revision(snapshot)
    daemonset = snapshot.daemonset
    own_cause = daemonset.annotations.get(CHANGE_CAUSE, "")  # perhaps written after the revision was stored
    return tuple(
        RevisionRow(
            revision=one.revision,
            created=one.created,
            live=one is current,
            nodes=nodes_with(snapshot, one.revision),
            images=its_images,
            differing=tuple(name for name in its_images if name in differing),
            changes=its_changes,
            way=None if one is current else way_between(daemonset, daemonset.spec.template, one.revision.template),
            oldest=one is kept[-1],
            limit=daemonset.spec.history_limit,
            cause=one.change_cause or (own_cause if one is current else ""),
        )
        for one, its_changes, its_images in zip(kept, [*changes, ()], images, strict=False)
    )


def kept_revisions(snapshot: Snapshot) -> list[RevisionDetail]:
    """The stored revisions that are not being deleted, the newest first."""
    return [one for one in snapshot.revisions if not one.revision.terminating]


def live_revision(snapshot: Snapshot) -> RevisionDetail | None:
    """The stored revision of the live template; None while the controller has not stored it yet."""
    identity = snapshot.daemonset.identity
    return next((one for one in kept_revisions(snapshot) if one.revision.identity == identity), None)


def nodes_with(snapshot: Snapshot, revision: Revision) -> int | None:
    """How many nodes have a pod of `revision` that stays; None if pods could not be read."""
    if not snapshot.pods_readable:
        return None
    staying = (one.pod for one in snapshot.pods if not one.pod.terminating and not one.pod.ended)
    return len({pod.node for pod in staying if pod.hash == revision.hash})
