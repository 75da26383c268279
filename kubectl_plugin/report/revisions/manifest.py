"""One DaemonSet's pod template among the objects of a manifest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from controller.api.base import JSONObject, fields_of
from controller.api.meta import Key
from controller.api.wellknown import GROUP, KIND
from kubectl_plugin.failures import CommandError

_GROUPS: Final = (GROUP, "apps")
"""A native DaemonSet of the same name counts: its template has the same form."""


def template_among(objects: Sequence[JSONObject], key: Key, source: str) -> JSONObject:
    """The pod template of the DaemonSet `key`; one that names no namespace is for any.

    `source`: where they stand, for errors. Raises CommandError where there is no such DaemonSet, or more than one.
    """
    wanted = f'DaemonSet "{key.name}" for namespace "{key.namespace}"'
    found = [one for one in objects if _is(one, key)]
    if not found:
        others = ", ".join(dict.fromkeys(map(_described, objects))) or "nothing"
        raise CommandError(f"{source} has no {wanted}; it has: {others}")
    if len(found) > 1:
        raise CommandError(f"{source} has {wanted} {len(found)} times")
    template = fields_of(found[0].get("spec")).get("template")
    if not isinstance(template, dict):
        raise CommandError(f"{wanted} in {source} has no spec.template")
    return template


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
