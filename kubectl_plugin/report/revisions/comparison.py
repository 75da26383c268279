"""Two pod templates side by side: where each comes from, and how they differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from controller.api.formats import counted
from controller.api.names import GROUP, KIND
from controller.api.objects import JSONObject, Key, Value, fields_of, rfc3339, value_at
from kubectl_plugin.failures import CommandError
from kubectl_plugin.report.documents import document
from kubectl_plugin.report.in_place import way_between, way_in_words
from kubectl_plugin.report.revisions.differences import Difference, differences, image_only, verdict
from kubectl_plugin.report.revisions.history import live_revision, nodes_with
from kubectl_plugin.report.snapshot import RevisionDetail, Snapshot

_GROUPS: Final = (GROUP, "apps")
"""A native DaemonSet of the same name counts: its template has the same form."""


class ComparedSide(Value):
    """One of the two templates, and where it comes from."""

    template: JSONObject
    live: bool = False
    revision: RevisionDetail | None = None
    nodes: int | None = None
    """How many nodes have a pod of that revision; None if it is not known."""
    unstored: bool = False
    """The controller has not stored a revision for it yet."""
    file: str = ""
    """Name of the file that it was read from; empty for one from the cluster."""

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
    way = way_between(snapshot.daemonset, old.template, new.template)
    how = "pods are re-created" if way is None else way_in_words(way)
    return Comparison(
        name=snapshot.daemonset.name,
        old=old,
        new=new,
        changes=found,
        verdict=verdict(found, how=how, on_delete=snapshot.daemonset.rolling_update is None),
    )


def live_side(snapshot: Snapshot) -> ComparedSide:
    """The template that the DaemonSet asks for now, and its stored revision if there is one."""
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


def file_side(snapshot: Snapshot, file: str, objects: Sequence[JSONObject]) -> ComparedSide:
    """`objects`: those in `file`. Raises CommandError where none, or more than one, is this DaemonSet."""
    return ComparedSide(template=template_among(objects, snapshot.key, called(file)), file=called(file))


def called(file: str) -> str:
    """The name of a file in sentences."""
    return "standard input" if file == "-" else file


def template_among(objects: Sequence[JSONObject], key: Key, source: str) -> JSONObject:
    """The pod template of `daemonset_among`."""
    return fields_of(value_at(daemonset_among(objects, key, source), "spec", "template"))


def daemonset_among(objects: Sequence[JSONObject], key: Key, source: str) -> JSONObject:
    """The DaemonSet `key` among `objects`, which has a pod template; an object without a namespace matches any.

    `source`: where the objects were read, for errors. Raises CommandError where no object matches, or more than one.
    """
    wanted = f'DaemonSet "{key.name}" for namespace "{key.namespace}"'
    found = [one for one in objects if _is(one, key)]
    if not found:
        others = ", ".join(dict.fromkeys(map(_described, objects))) or "nothing"
        raise CommandError(f"{source} has no {wanted}; it has: {others}")
    if len(found) > 1:
        raise CommandError(f"{source} has {wanted} {counted(len(found), 'time')}")
    if not isinstance(value_at(found[0], "spec", "template"), dict):
        raise CommandError(f"{wanted} in {source} has no spec.template")
    return found[0]


def _is(one: JSONObject, key: Key) -> bool:
    group = str(one.get("apiVersion") or "").rpartition("/")[0]
    metadata = fields_of(one.get("metadata"))
    if one.get("kind") != KIND or group not in _GROUPS:
        return False
    return metadata.get("name") == key.name and metadata.get("namespace") in (None, "", key.namespace)


def _described(one: JSONObject) -> str:
    fields = fields_of(one.get("metadata"))
    name = "/".join(str(fields[part]) for part in ("namespace", "name") if fields.get(part))
    return f"{one.get('kind') or 'something without a kind'} {name}".strip()
