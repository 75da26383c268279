"""Two pod templates side by side, and what each of them is."""

from __future__ import annotations

from pathlib import Path

from controller.api.base import JSONObject, Value
from controller.api.meta import rfc3339
from kubectl_plugin.report.documents import document
from kubectl_plugin.report.in_place import going, in_words
from kubectl_plugin.report.revisions.differences import Difference, differences, image_only, verdict
from kubectl_plugin.report.revisions.history import live_revision, nodes_with
from kubectl_plugin.report.snapshot import RevisionDetail, Snapshot


class ComparedSide(Value):
    """One of the two."""

    template: JSONObject
    live: bool = False
    revision: RevisionDetail | None = None
    nodes: int | None = None
    """With a pod of that revision; None where it is not known."""
    unstored: bool = False
    """The controller has not made a revision of it yet."""
    file: str = ""
    """Name of the file that it comes from; empty for one from the cluster."""

    @property
    def called(self) -> str:
        if self.file:
            return self.file
        return f"revision {self.revision.revision.number}" if self.revision else "the live template"

    @property
    def document(self) -> JSONObject:
        detail = self.revision
        return {
            "live": self.live,
            "file": self.file or None,
            "revision": detail.revision.number if detail else None,
            "hash": detail.revision.hash if detail else None,
            "createdAt": rfc3339(detail.created) if detail else None,
            "nodes": self.nodes,
        }


class Comparison(Value):
    name: str
    old: ComparedSide
    new: ComparedSide
    changes: tuple[Difference, ...]
    verdict: str
    """What the changes mean for running pods."""

    def document(self, namespace: str) -> JSONObject:
        """What `diff -o json` prints."""
        return document(
            "RevisionDifference",
            namespace=namespace,
            name=self.name,
            old=self.old.document,
            new=self.new.document,
            changes=[one.document for one in self.changes],
            imageOnly=image_only(self.changes),
            verdict=self.verdict,
        )


def compare(snapshot: Snapshot, old: ComparedSide, new: ComparedSide, *, show_values: bool) -> Comparison:
    found = differences(old.template, new.template, show_values=show_values)
    way = going(snapshot.daemonset, old.template, new.template)
    how = "pods are re-created" if way is None else in_words(way)
    return Comparison(
        name=snapshot.daemonset.name,
        old=old,
        new=new,
        changes=found,
        verdict=verdict(found, how=how, on_delete=snapshot.daemonset.rolling_update is None),
    )


def live_side(snapshot: Snapshot) -> ComparedSide:
    """What the DaemonSet asks for now, and the revision that it is stored as, if it is."""
    revision = live_revision(snapshot)
    if revision is None:
        return ComparedSide(
            template=snapshot.daemonset.spec.template, live=True, unstored=snapshot.revisions_readable
        )
    return revision_side(snapshot, revision)


def revision_side(snapshot: Snapshot, detail: RevisionDetail) -> ComparedSide:
    revision = detail.revision
    return ComparedSide(
        template=revision.template,
        live=revision.identity == snapshot.daemonset.identity,
        revision=detail,
        nodes=nodes_with(snapshot, revision),
    )


def called(file: Path) -> str:
    """What a file of the command line is called in sentences."""
    return "standard input" if str(file) == "-" else str(file)
