"""The kept revisions of a DaemonSet, with a summary of each change; and the comparison of two templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller.api.daemonset import rollout_of
from controller.api.formats import counted
from controller.api.names import GROUP, KIND, RESTARTED_AT
from controller.api.objects import JSON, JSONObject, Key, Value, fields_of, rfc3339, value_at
from controller.api.revision import Revision
from controller.inplace.change import InPlaceChange, NotPossible
from kubectl_plugin.errors import CommandError
from kubectl_plugin.rollout.diff import (
    CONTAINERS,
    ChangeKind,
    Difference,
    Path,
    PathStep,
    PlaceKind,
    differences,
    image_only,
    verdict,
)
from kubectl_plugin.rollout.document import document
from kubectl_plugin.rollout.in_place import way_between, way_in_words
from kubectl_plugin.rollout.secrets import is_hidden, without_secrets
from kubectl_plugin.rollout.snapshot import CHANGE_CAUSE, RevisionDetail, Snapshot, image_change, images_of
from kubectl_plugin.wording import visible

_NOUNS: Final[Mapping[str, str]] = {
    "containers": "container",
    "initContainers": "init container",
    "volumes": "volume",
    "volumeMounts": "volume mount",
    "ports": "port",
    "labels": "label",
    "annotations": "annotation",
    "tolerations": "toleration",
    "nodeSelector": "node selector",
    "imagePullSecrets": "image pull secret",
    "hostAliases": "host alias",
    "envFrom": "env from",
}
_LONGEST: Final = 24
"""Maximum characters of a value that is shown."""


def summary(found: Sequence[Difference], *, only_ascii: bool = False) -> str:
    """`image agent 1.8.2 → 1.8.4, + volume certs`: template differences, images first; empty if there are none."""
    arrow = "->" if only_ascii else "→"
    named = [one for one in found if not _is_implied(one, found)]
    ordered = sorted(named, key=lambda one: one.path[-1].field != "image")
    return ", ".join(dict.fromkeys(_phrase(one, arrow) for one in ordered))


def _is_implied(difference: Difference, found: Sequence[Difference]) -> bool:
    """Whether it is the mount of a volume that was added or removed with it."""
    mount = difference.new if difference.change is ChangeKind.ADDED else difference.old
    if difference.path[-1].field != "volumeMounts" or not isinstance(mount, dict):
        return False
    volume = PathStep(field="volumes", key=str(mount.get("name")), kind=PlaceKind.MEMBER)
    return any(other.change is difference.change and other.path[-1] == volume for other in found)


def _phrase(difference: Difference, arrow: str) -> str:
    container, rest = _split(difference.path)
    if rest[-1].key == RESTARTED_AT and difference.change is not ChangeKind.REMOVED:
        return "restart"
    if difference.change is ChangeKind.ORDER:
        return f"{_joined(rest[-1].field, container)} reordered"
    held = next((index for index, step in enumerate(rest) if step.kind is PlaceKind.POSITION), None)
    if held is not None:
        return f"{_subject(container, (*rest[:held], PathStep(field=rest[held].field)))} changed"
    if rest[-1].field == "image" and difference.change is ChangeKind.CHANGED:
        old, new = image_change(str(difference.old), str(difference.new))
        return f"image {container} {old} {arrow} {new}"
    if rest[0].field == "env" and len(rest) > 1:
        subject = _subject(container, rest[:1])
        literal = (
            difference.change is ChangeKind.CHANGED and rest[-1].field == "value"
        )  # else it comes from elsewhere now
        return _phrase_of_value(difference, subject, arrow) if literal else f"{subject} changed"
    return _phrase_of_value(difference, _subject(container, rest), arrow)


def _phrase_of_value(difference: Difference, subject: str, arrow: str) -> str:
    old, new = _word(difference.old), _word(difference.new)
    match difference.change:
        case ChangeKind.ADDED:
            return f"+ {_joined(subject, new)}"
        case ChangeKind.REMOVED:
            return f"- {_joined(subject, old)}"
        case ChangeKind.CHANGED | ChangeKind.ORDER:
            return f"{subject} {old} {arrow} {new}" if old and new else f"{subject} changed"


def _split(path: Path) -> tuple[str, Path]:
    """The container on the path, empty if there is none, and the rest of the path."""
    inner = path[2:]  # of the template
    inner = inner[1:] if inner[0].field in ("spec", "metadata") and len(inner) > 1 else inner
    if len(inner) > 1 and inner[0].field in CONTAINERS and inner[0].kind is PlaceKind.MEMBER:
        return inner[0].key, inner[1:]
    return "", inner


def _subject(container: str, rest: Path) -> str:
    """`env agent LOG_LEVEL`, `volume certs`, `resources agent limits.cpu`."""
    first = rest[0]
    return _joined(_NOUNS.get(first.field, first.field), container, first.key, ".".join(one.text for one in rest[1:]))


def _word(value: JSON) -> str:
    """The value as text; empty if it is too long, structured or hidden."""
    if value is None or isinstance(value, dict | list) or is_hidden(value):
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    fits = 0 < len(text) <= _LONGEST and text.isprintable() and visible(text) == text
    return text if fits else ""


def _joined(*words: str) -> str:
    return " ".join(word for word in words if word)


class RevisionRow(Value):
    revision: Revision
    created: float
    """Seconds since 1970."""
    live: bool
    nodes: int | None
    """Nodes with a pod of it that is not being deleted; None if pods are unreadable."""
    images: dict[str, str]
    differing: tuple[str, ...]
    """Containers whose image differs between kept revisions; all if none does."""
    changes: tuple[Difference, ...]
    """The differences from the revision before it; empty for the oldest."""
    way: InPlaceChange | NotPossible | None
    """How pods of the live template would get it; None for the live revision and without in-place updates."""
    mark: str
    """After an abort `aborted` or `stable`, else empty."""
    oldest: bool
    limit: int
    cause: str

    def change(self, *, only_ascii: bool = False) -> str:
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
            "mark": self.mark or None,
            "nodes": self.nodes,
            "images": {**self.images},
            "change": self.change(),
            "changes": [change.document for change in self.changes],
            "inPlace": None if self.way is None else isinstance(self.way, InPlaceChange),
            "way": None if self.way is None else way_in_words(self.way),
            "oldest": self.oldest,
            "revisionHistoryLimit": self.limit,
            "cause": self.cause or None,
        }


def history_document(namespace: str, name: str, rows: Iterable[RevisionRow]) -> JSONObject:
    """The output of `history -o json`."""
    return document("RevisionList", namespace=namespace, name=name, items=[row.document for row in rows])


def revision_document(namespace: str, name: str, row: RevisionRow, *, show_values: bool) -> JSONObject:
    """The output of `history --revision N -o json`: the row and the whole template."""
    template = row.revision.template if show_values else without_secrets(row.revision.template)[0]
    return document("Revision", namespace=namespace, name=name, **row.document, template=template)


def history(snapshot: Snapshot, *, show_values: bool = False) -> tuple[RevisionRow, ...]:
    kept = kept_revisions(snapshot)
    before = [_before(one, kept[:place], kept[place + 1 :]) for place, one in enumerate(kept)]
    images = [images_of(one.revision.template) for one in kept]
    names = frozenset(name for image in images for name in image)
    differing = frozenset(name for name in names if len({image.get(name) for image in images}) > 1) or names
    current = live_revision(snapshot)
    daemonset, record = snapshot.daemonset, rollout_of(snapshot.daemonset.status)
    marks = {record.stable_revision: "stable", record.aborted_revision: "aborted"} if record.aborted_revision else {}
    own_cause = daemonset.annotations.get(CHANGE_CAUSE, "")  # perhaps written after the revision was stored
    return tuple(
        RevisionRow(
            revision=one.revision,
            created=one.created,
            live=one is current,
            nodes=nodes_with(snapshot, one.revision),
            images=its_images,
            differing=tuple(name for name in its_images if name in differing),
            changes=()
            if former is None
            else differences(former.revision.template, one.revision.template, show_values=show_values),
            way=None if one is current else way_between(daemonset, daemonset.spec.template, one.revision.template),
            mark=marks.get(one.revision.hash, ""),
            oldest=former is None,
            limit=daemonset.spec.history_limit,
            cause=one.change_cause or (own_cause if one is current else ""),
        )
        for one, former, its_images in zip(kept, before, images, strict=True)
    )


def _before(
    detail: RevisionDetail, newer: Sequence[RevisionDetail], older: Sequence[RevisionDetail]
) -> RevisionDetail | None:
    """The revision that `detail` followed; None if it is not kept. One that was gone back to since has a newer
    number and was made before it; of several it is not known which one it was, so the next older number counts."""
    lower = older[0] if older else None
    if lower is not None and lower.revision.number == detail.revision.number - 1:
        return lower
    gone_back_to = [other for other in newer if other.created < detail.created]
    return gone_back_to[0] if len(gone_back_to) == 1 else lower


def kept_revisions(snapshot: Snapshot) -> list[RevisionDetail]:
    """The stored revisions that are not being deleted, newest first."""
    return [detail for detail in snapshot.revisions if not detail.revision.terminating]


def live_revision(snapshot: Snapshot) -> RevisionDetail | None:
    """The stored revision of the live template; None until the controller has stored it."""
    identity = snapshot.daemonset.identity
    return next((detail for detail in kept_revisions(snapshot) if detail.revision.identity == identity), None)


def nodes_with(snapshot: Snapshot, revision: Revision) -> int | None:
    """How many nodes have a remaining pod of `revision`; None if pods are unreadable."""
    if not snapshot.pods_readable:
        return None
    staying = (detail.pod for detail in snapshot.pods if not detail.pod.terminating and not detail.pod.ended)
    return len({pod.node for pod in staying if pod.hash == revision.hash})


_GROUPS: Final = (GROUP, "apps")
"""A native DaemonSet of the same name is accepted: its template has the same form."""


class ComparedSide(Value):
    template: JSONObject
    live: bool = False
    revision: RevisionDetail | None = None
    nodes: int | None = None
    unstored: bool = False
    """Whether the controller has yet to store a revision for it."""
    file: str = ""
    """Name of the source file; empty for a template from the cluster."""

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

    def document(self, namespace: str) -> JSONObject:
        """The output of `diff -o json`."""
        return document(
            "RevisionDifference",
            namespace=namespace,
            name=self.name,
            old=self.old.document,
            new=self.new.document,
            changes=[change.document for change in self.changes],
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
    """`objects` are the contents of `file`. Raises CommandError unless exactly one is this DaemonSet."""
    found = daemonset_among(objects, snapshot.key, called(file))
    return ComparedSide(template=fields_of(value_at(found, "spec", "template")), file=called(file))


def called(file: str) -> str:
    return "standard input" if file == "-" else file


def daemonset_among(objects: Sequence[JSONObject], key: Key, source: str) -> JSONObject:
    """The object for DaemonSet `key`; one without a namespace matches any. `source` names their origin in errors.
    Raises CommandError unless exactly one matches and has a pod template."""
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


def need_revisions(snapshot: Snapshot) -> None:
    """Raises CommandError without the right to list them."""
    if not snapshot.revisions_readable:
        key = snapshot.key
        needed = f'needed: list controllerrevisions.apps in "{key.namespace}"; ask for ClusterRole kruise-ds-operator'
        raise CommandError(f"cannot read the revisions of {key.name}: forbidden", needed)
