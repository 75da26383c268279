"""ControllerRevisions: payload, projection, hashes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from controller.api import canonical, revision
from controller.api.meta import Key
from controller.api.revision import Revision, RevisionView, encode, new_hash, payload, short_hash, template_of


def test_golden_bytes_of_a_payload() -> None:
    """A revision that was written otherwise can never be patched again; changing this restarts nobody, but beware."""
    template: Any = {
        "spec": {"containers": [{"name": "main", "image": "demo:1", "args": ["<a>", "ü"]}], "hostNetwork": True},
        "metadata": {"labels": {"b": "2", "a": "1"}, "creationTimestamp": None},
    }
    assert (
        encode(payload(template))
        == (
            '{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"a":"1","b":"2"}},'
            '"spec":{"containers":[{"args":["\\u003ca\\u003e","ü"],"image":"demo:1","name":"main"}],"hostNetwork":true}}}}'
        ).encode()
    )


def test_a_payload_is_compact_sorted_json_and_leads_back_to_its_template() -> None:
    template: Any = {"spec": {"z": 1, "a": [{"c": 1, "b": 2}]}, "metadata": {}}
    text = encode(payload(template))
    assert text == json.dumps(json.loads(text), separators=(",", ":"), sort_keys=True).encode()
    assert template_of(msgspec.json.decode(text)) == template
    assert "$patch" not in template


@pytest.mark.parametrize("data", [None, "x", [], {}, {"spec": None}, {"spec": {}}, {"spec": {"template": []}}])
def test_a_foreign_payload_has_no_template(data: Any) -> None:
    assert template_of(data) is None


def projected(data: Any = None, **metadata: Any) -> Revision | None:
    if data is None:
        data = payload({"spec": {"hostNetwork": False}})
    named = {"namespace": "default", "name": "demo-abc", "uid": "u", "resourceVersion": "7"}
    raw = {"metadata": {**named, **metadata}, "data": data, "revision": 3}
    return revision.project(msgspec.json.decode(msgspec.json.encode(raw), type=RevisionView))


def test_projection() -> None:
    found = projected(
        labels={"controller-revision-hash": "abc"},
        ownerReferences=[
            {"apiVersion": "v1", "kind": "Node", "uid": "n"},
            {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "DaemonSet", "uid": "uid-ads", "controller": True},
        ],
        deletionTimestamp="2026-11-21T10:00:00Z",
    )
    assert found is not None
    assert (found.hash, found.number, found.owner_uid, found.owner_index) == ("abc", 3, "uid-ads", 1)
    assert found.dying
    assert found.key == Key("default", "demo-abc")
    assert (found.ref.uid, found.ref.version) == ("u", "7")
    assert found.template == {"spec": {"hostNetwork": False}}
    assert found.identity == canonical.identity({"spec": {}}), "identity is by meaning"


def test_an_orphan_revision_is_kept_and_one_of_another_workload_dropped() -> None:
    orphan = projected()
    assert orphan is not None
    assert (orphan.owner_uid, orphan.owner_index, orphan.hash) == ("", 0, "demo-abc")
    native = {"apiVersion": "apps/v1", "kind": "StatefulSet", "uid": "s", "controller": True}
    assert projected(ownerReferences=[native]) is None


def test_a_revision_with_a_foreign_payload_is_dropped() -> None:
    assert projected(data={"spec": {"replicas": 3}}) is None


def test_hashes_are_the_same_in_every_process_and_in_kubernetes_alphabet() -> None:
    assert new_hash("identity", 0) == "swjm7czpm9"
    assert new_hash("identity", 1) != new_hash("identity", 0)
    assert set(short_hash("a", "b", length=200)) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert len(short_hash("a", length=8)) == 8


def test_the_parts_of_a_hash_do_not_run_into_each_other() -> None:
    assert short_hash("ab", "c", length=10) != short_hash("a", "bc", length=10)


def test_what_go_escapes_is_escaped_in_a_revision() -> None:
    script = "test a -lt 1 && echo <b> \u2028 \u2029"
    encoded = encode({"data": script})
    assert encoded == b'{"data":"test a -lt 1 \\u0026\\u0026 echo \\u003cb\\u003e \\u2028 \\u2029"}'
    assert msgspec.json.decode(encoded) == {"data": script}
