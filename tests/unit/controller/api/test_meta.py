"""Times, texts, patches and numbers."""

from __future__ import annotations

import pytest

from controller.api.formats import (
    LONGEST_ITEM,
    MOST_ITEMS,
    IntOrPercent,
    canonical_quantity,
    is_well_formed,
    joined,
    listed,
    scaled,
    truncated,
)
from controller.api.objects import Key, ObjectMeta, OwnerReference, Ownership, Ref, epoch, ownership_of, rfc3339
from controller.api.patch import add, encode, guarded_by_uid, guarded_by_version, merged, pointer, remove


@pytest.mark.parametrize(
    ("stamp", "moment"),
    [
        (None, None),
        ("", None),
        ("1970-01-01T00:00:00Z", 0.0),
        ("2026-11-21T10:12:13Z", 1795255933.0),
        ("2024-02-29T23:59:59Z", 1709251199.0),
        ("2026-11-21T10:12:13.250000Z", 1795255933.25),
        ("2026-11-21T12:12:13+02:00", 1795255933.0),
        *((one, None) for one in ("yesterday", "2026-11-21T10:12:1xZ", "2026-13-21", "2026-11-21", "9" * 5000)),
        ("2026-11-21T10:12:13", None),
    ],
)
def test_epoch(stamp: str | None, moment: float | None) -> None:
    assert epoch(stamp) == moment


@pytest.mark.parametrize("offset", ["Z", "+23:59", "-23:59"])
def test_every_time_that_can_be_read_can_be_written(offset: str) -> None:
    for first, written in (("0001-01-01T00:00:00", "1970-01-01T00:00:00Z"), ("9999-12-31T23:59:59", "9999-12-31T")):
        moment = epoch(first + offset)
        assert moment is None or rfc3339(moment).startswith(written)
        assert moment is None or rfc3339(moment + 2**31).startswith(written)


def test_times_are_written_as_metav1_time() -> None:
    assert rfc3339(1795255933.9) == "2026-11-21T10:12:13Z"
    assert epoch(rfc3339(1795255933.0)) == 1795255933.0


def test_a_key_reads_as_kubectl_writes_it() -> None:
    assert str(Key("default", "demo")) == "default/demo"
    assert str(Key("", "node-0")) == "node-0"
    assert str(Ref(namespace="default", name="demo", uid="u")) == "default/demo"
    assert str(Ref(namespace="", name="node-0", uid="u")) == "node-0"


def owner(api_version: str, kind: str, *, controller: bool = True) -> OwnerReference:
    return OwnerReference(api_version=api_version, kind=kind, name="agent", uid="uid-1", controller=controller)


OURS, PLAIN = owner("apps.kruise.io/v1beta1", "DaemonSet"), owner("v1", "Node", controller=False)


@pytest.mark.parametrize(
    ("owners", "ownership"),
    [
        ((OURS,), Ownership(uid="uid-1", index=0)),
        ((owner("apps.kruise.io/v9", "DaemonSet"),), Ownership(uid="uid-1", index=0)),
        ((PLAIN, OURS), Ownership(uid="uid-1", index=1)),
        ((PLAIN,), Ownership(uid="", index=1)),
        ((), Ownership(uid="", index=0)),
        *(((owner(version, "DaemonSet"),), None) for version in ("apps/v1", "v1", "kruise.io/v1")),
        ((owner("apps.kruise.io/v1beta1", "CloneSet"),), None),
    ],
)
def test_the_owner_is_the_controller_if_it_is_of_our_kind_in_any_version(
    owners: tuple[OwnerReference, ...], ownership: Ownership | None
) -> None:
    assert ownership_of(ObjectMeta(owner_references=owners)) == ownership


@pytest.mark.parametrize("length", [31, 1_000_000])
def test_what_does_not_fit_is_cut_off_and_its_length_given(length: int) -> None:
    assert truncated("a" * length, length) == "a" * length
    found = truncated("a" * length, 30)
    assert len(found) == 30
    assert found.startswith("aa")
    assert found.endswith(f"… ({length:,} characters)")
    assert len(truncated("a" * length, 3)) <= len(f"… ({length:,} characters)")


def test_of_many_the_first_few_are_listed_and_the_others_counted() -> None:
    assert listed(f"p{number}" for number in range(30_000)) == "p0; p1; p2; p3; p4; and 29,995 more"
    assert listed(["a", "b"], separator=", ") == "a, b"
    assert listed([]) == ""
    assert len(listed(["x" * 1_000_000] * 10)) <= MOST_ITEMS * (LONGEST_ITEM + 2) + len("and 5 more")


def test_slashes_and_tildes_inside_a_segment_are_escaped() -> None:
    assert pointer("metadata", "labels", "demo.io/a~b") == "/metadata/labels/demo.io~1a~0b"
    assert pointer() == ""


def test_only_keys_that_are_there_are_removed() -> None:
    """The server refuses a patch that removes another one."""
    assert merged("labels", {"a": None, "b": None}, {"b": "1"}) == (remove("metadata", "labels", "b"),)
    assert merged("labels", {"a": None}, None) == ()


def test_a_part_of_a_message_is_said_once() -> None:
    assert joined("a; b", "", "b", "c") == "a; b; c"


def test_the_bytes_of_a_patch_guarded_by_version() -> None:
    patch = guarded_by_version("42", add("v2", "metadata", "labels", "demo.io/rev"), remove("spec", "paused"))
    assert encode(patch) == (
        b'[{"op":"replace","path":"/metadata/resourceVersion","value":"42"},'
        b'{"op":"add","path":"/metadata/labels/demo.io~1rev","value":"v2"},'
        b'{"op":"remove","path":"/spec/paused"}]'
    )


def test_the_bytes_of_a_patch_guarded_by_uid() -> None:
    assert encode(guarded_by_uid("u-1", add([{"a": None}], "metadata", "ownerReferences"))) == (
        b'[{"op":"replace","path":"/metadata/uid","value":"u-1"},'
        b'{"op":"add","path":"/metadata/ownerReferences","value":[{"a":null}]}]'
    )


def test_a_guard_is_never_a_test_operation() -> None:
    assert b'"test"' not in encode((*guarded_by_uid("u"), *guarded_by_version("1")))


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [
        (None, 10, 0, 0),
        (3, 10, 3, 3),
        (30, 10, 30, 30),
        ("0%", 10, 0, 0),
        ("1%", 10, 1, 0),
        ("35%", 10, 4, 3),
        ("50%", 3, 2, 1),
        ("50%", 2, 1, 1),
        ("100%", 7, 7, 7),
        ("150%", 2, 3, 3),
        ("99%", 0, 0, 0),
        ("33%", 100, 33, 33),
    ],
)
def test_scaling(value: IntOrPercent | None, total: int, up: int, down: int) -> None:
    assert value is None or is_well_formed(value)
    assert not is_well_formed(-1)
    assert scaled(value, total, round_up=True) == up
    assert scaled(value, total, round_up=False) == down


@pytest.mark.parametrize("value", ["", "3", "3 %", "%", "-3%", "3.5%", "three", "3%%", "٣%", "9999999999%"])
def test_any_other_string_is_malformed_and_refused_when_scaled(value: str) -> None:
    assert not is_well_formed(value)
    with pytest.raises(ValueError, match="neither a whole number nor a percentage"):
        scaled(value, 10, round_up=True)


@pytest.mark.parametrize(
    ("spellings", "canonical"),
    [
        (("1", "1.0", "1000m", "1e0", "1000000u", "+1", 1, 1.0), "1"),
        (("0.1", ".1", "100m"), "0.1"),
        (("0", "0m", "0Gi", 0), "0"),
        (("128Mi", "134217728", "131072Ki"), "134217728"),
        (("1k", "1e3", "1E3", "1000"), "1000"),
        (("1Gi", "1024Mi"), "1073741824"),
        (("1E",), "1000000000000000000"),
        (("1Ei",), "1152921504606846976"),
        (("5n",), "0.000000005"),
        (("-2", "-2000m"), "-2"),
        (("1" * 40 + "1Ki",), str(int("1" * 40 + "1") * 1024)),
        *(((text,), text) for text in ("", "one", "1 Gi", "1gi", "m", "1e", "1e999999999", "0x10")),
        *(((text,), text) for text in ("1" * 1_000_000, "1" * 1_000_000 + "x", "0." + "0" * 1_000_000 + "1Gi")),
    ],
    ids=lambda value: str(value)[:20],
)
def test_an_amount_has_one_spelling_and_other_text_stays(spellings: tuple[str | float, ...], canonical: str) -> None:
    assert {canonical_quantity(one) for one in spellings} == {canonical}
