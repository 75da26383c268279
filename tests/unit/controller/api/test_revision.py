"""Revisions and their hashes; selectors."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from controller.api import revision, template_identity
from controller.api.objects import Key, ObjectMeta
from controller.api.revision import Revision, RevisionView, encode, new_hash, payload, short_hash, template_of
from controller.api.selector import LabelSelector, Requirement, as_text, parse, requirement
from tests.beds.worlds import matching, where


def test_golden_bytes_of_a_payload() -> None:
    """A revision that was written otherwise can never be patched again; changing this restarts no pod."""
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
    assert found.terminating
    assert found.key == Key("default", "demo-abc")
    assert (found.ref.uid, found.ref.version) == ("u", "7")
    assert found.template == {"spec": {"hostNetwork": False}}
    assert found.identity == template_identity.identity({"spec": {}}), "identity is by meaning"


@pytest.mark.parametrize(
    ("stored", "counts"), [(2**63 - 1, 0), (2**62 + 1, 0), (2**62, 2**62), (1, 1), (0, 0), (-1, 0), (-(2**63), 0)]
)
def test_a_number_out_of_range_counts_as_0(stored: int, counts: int) -> None:
    meta = ObjectMeta(name="demo-abc")
    found = revision.project(RevisionView(metadata=meta, data=payload({"spec": {"containers": []}}), revision=stored))
    assert found is not None
    assert found.number == counts


def test_an_orphan_revision_is_kept_and_one_of_another_workload_dropped() -> None:
    orphan = projected()
    assert orphan is not None
    assert (orphan.owner_uid, orphan.owner_index, orphan.hash) == ("", 0, "demo-abc")
    native = {"apiVersion": "apps/v1", "kind": "StatefulSet", "uid": "s", "controller": True}
    assert projected(ownerReferences=[native]) is None
    assert projected(data={"spec": {"replicas": 3}}) is None


def test_hashes_are_the_same_in_every_process_and_in_kubernetes_alphabet() -> None:
    assert new_hash("identity", 0) == "swjm7czpm9"
    assert new_hash("identity", 1) != new_hash("identity", 0)
    assert set(short_hash("a", "b", length=200)) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert len(short_hash("a", length=8)) == 8
    assert short_hash("ab", "c", length=10) != short_hash("a", "bc", length=10)


def test_what_go_escapes_is_escaped_in_a_revision() -> None:
    script = "test a -lt 1 && echo <b> \u2028 \u2029"
    encoded = encode({"data": script})
    assert encoded == b'{"data":"test a -lt 1 \\u0026\\u0026 echo \\u003cb\\u003e \\u2028 \\u2029"}'
    assert msgspec.json.decode(encoded) == {"data": script}


BLUE = {"color": "blue"}


@pytest.mark.parametrize(
    ("selector", "matched", "unmatched"),
    [
        (LabelSelector(), {}, None),
        (matching(color="blue"), BLUE, {"color": "green"}),
        (matching(color=""), {"color": ""}, {}),
        (where("color", "In", "blue", "red"), BLUE, {}),
        (where("color", "NotIn", "blue"), {}, BLUE),
        (where("color", "Exists"), {"color": ""}, {"colour": "blue"}),
        (where("color", "DoesNotExist"), {}, BLUE),
        (where("demo.io/color", "Exists"), {"demo.io/color": "x"}, {}),
    ],
)
def test_operators(selector: LabelSelector, matched: dict[str, str], unmatched: dict[str, str] | None) -> None:
    matches = parse(selector)
    assert matches(matched)
    assert unmatched is None or not matches(unmatched)


def test_all_parts_must_match() -> None:
    both = LabelSelector(
        match_labels={"app": "demo"}, match_expressions=(Requirement(key="tier", operator="In", values=("a",)),)
    )
    matches = parse(both)
    assert matches({"app": "demo", "tier": "a", "more": "x"})
    assert not matches({"app": "demo"})
    assert not matches({"tier": "a"})


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        (where("cores", "Gt", "1"), "belongs to node affinity only"),
        (LabelSelector(match_labels={"no key": "x"}), "'no key' is not a label key"),
    ],
)
def test_what_no_label_selector_may_have_is_named(selector: LabelSelector, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse(selector)


@pytest.mark.parametrize(
    ("operator", "bound", "value", "expected"),
    [
        ("Gt", "8", "9", True),
        ("Gt", "8", "8", False),
        ("Gt", "-3", "-2", True),
        ("Lt", "8", "7", True),
        ("Lt", "8", "8", False),
        ("Lt", "8", "many", False),
        ("Gt", "8", "1_000", False),
        ("Gt", "8", "1.5e3", False),
    ],
)
def test_numbers_are_compared_as_numbers(operator: str, bound: str, value: str, expected: bool) -> None:
    test = requirement(Requirement(key="cores", operator=operator, values=(bound,)))
    assert test({"cores": value}) is expected
    assert not test({}), "a missing label is no number"


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Requirement(key="color", operator="In"), "operator In on 'color' needs at least one value"),
        (Requirement(key="color", operator="NotIn", values=()), "operator NotIn on 'color' needs at least one value"),
        (Requirement(key="color", operator="Exists", values=("x",)), "operator Exists on 'color' takes no values"),
        (Requirement(key="color", operator="DoesNotExist", values=("x",)), "takes no values"),
        (Requirement(key="color", operator="Near", values=("x",)), "operator 'Near' on 'color' is not one of"),
        (Requirement(key="color", operator=""), "operator '' on 'color' is not one of"),
        (Requirement(key="cores", operator="Gt", values=("many",)), "needs exactly one whole number"),
        (Requirement(key="cores", operator="Lt", values=("1", "2")), "needs exactly one whole number"),
        (Requirement(key="cores", operator="Gt"), "needs exactly one whole number"),
        (Requirement(key="", operator="Exists"), "'' is not a label key"),
        (Requirement(key="a b", operator="Exists"), "'a b' is not a label key"),
        (Requirement(key="/a", operator="Exists"), "'/a' is not a label key"),
        (Requirement(key="Demo.io/a", operator="Exists"), "is not a label key"),
        (Requirement(key="a" * 64, operator="Exists"), "is not a label key"),
    ],
)
def test_what_the_server_would_refuse_is_named(broken: Requirement, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        requirement(broken)


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (LabelSelector(), "<none>"),
        (matching(b="2", a="1"), "a=1,b=2"),
        (where("tier", "In", "b", "a"), "tier in (a,b)"),
        (where("tier", "NotIn", "a"), "tier notin (a)"),
        (where("tier", "Exists"), "tier"),
        (where("tier", "DoesNotExist"), "!tier"),
        (where("tier", "Near", "x"), "tier Near x"),
    ],
)
def test_text_is_what_kubectl_prints(selector: LabelSelector, text: str) -> None:
    assert as_text(selector) == text


def test_empty_means_that_it_would_select_everything() -> None:
    assert LabelSelector(match_labels={}, match_expressions=()).empty
    assert not matching(a="1").empty
    assert not where("a", "Exists").empty
