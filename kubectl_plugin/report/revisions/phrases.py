"""Differences in a few words, for one cell of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from controller.api.names import RESTARTED_AT
from controller.api.objects import JSON
from kubectl_plugin.characters import visible
from kubectl_plugin.report.revisions import images
from kubectl_plugin.report.revisions.differences import ChangeKind, Difference
from kubectl_plugin.report.revisions.hiding import is_hidden
from kubectl_plugin.report.revisions.template_path import CONTAINERS, Path, PathStep, PlaceKind

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
"""Characters: a longer value is not shown, only that it changed."""


def summary(found: Sequence[Difference], *, only_ascii: bool = False) -> str:
    """`image agent 1.8.2 → 1.8.4, + volume certs`: images first, the others in their order; empty for no difference.
    `found`: of two templates."""
    arrow = "->" if only_ascii else "→"
    told = [one for one in found if not _is_implied(one, found)]
    ordered = sorted(told, key=lambda one: one.path[-1].field != "image")
    return ", ".join(dict.fromkeys(_phrase(one, arrow) for one in ordered))


def _is_implied(one: Difference, found: Sequence[Difference]) -> bool:
    """Whether it is the mount of a volume that was added or removed with it."""
    mount = one.new if one.change is ChangeKind.ADDED else one.old
    if one.path[-1].field != "volumeMounts" or not isinstance(mount, dict):
        return False
    volume = PathStep(field="volumes", key=str(mount.get("name")), kind=PlaceKind.MEMBER)
    return any(other.change is one.change and other.path[-1] == volume for other in found)


def _phrase(one: Difference, arrow: str) -> str:
    container, rest = _split(one.path)
    if rest[-1].key == RESTARTED_AT and one.change is not ChangeKind.REMOVED:
        return "restart"
    if one.change is ChangeKind.ORDER:
        return f"{_joined(rest[-1].field, container)} reordered"
    held = next((index for index, step in enumerate(rest) if step.kind is PlaceKind.POSITION), None)
    if held is not None:
        return f"{_subject(container, (*rest[:held], PathStep(field=rest[held].field)))} changed"
    if rest[-1].field == "image" and one.change is ChangeKind.CHANGED:
        old, new = images.change(str(one.old), str(one.new))
        return f"image {container} {old} {arrow} {new}"
    if rest[0].field == "env" and len(rest) > 1:
        subject = _subject(container, rest[:1])
        literal = one.change is ChangeKind.CHANGED and rest[-1].field == "value"  # else it comes from elsewhere now
        return _told(one, subject, arrow) if literal else f"{subject} changed"
    return _told(one, _subject(container, rest), arrow)


def _told(one: Difference, subject: str, arrow: str) -> str:
    old, new = _word(one.old), _word(one.new)
    match one.change:
        case ChangeKind.ADDED:
            return f"+ {_joined(subject, new)}"
        case ChangeKind.REMOVED:
            return f"- {_joined(subject, old)}"
        case ChangeKind.CHANGED | ChangeKind.ORDER:
            return f"{subject} {old} {arrow} {new}" if old and new else f"{subject} changed"


def _split(path: Path) -> tuple[str, Path]:
    """The name of the container that the path goes through, and the rest of the path; the name is empty outside of
    containers."""
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
    """The value as text if it is short enough; else empty."""
    if value is None or isinstance(value, dict | list) or is_hidden(value):
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    fits = 0 < len(text) <= _LONGEST and text.isprintable() and visible(text) == text
    return text if fits else ""


def _joined(*words: str) -> str:
    return " ".join(word for word in words if word)
