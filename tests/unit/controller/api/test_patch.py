"""JSON Patch as it is sent."""

from __future__ import annotations

from controller.api.patch import add, encode, guarded_by_uid, guarded_by_version, pointer, remove


def test_slashes_and_tildes_inside_a_segment_are_escaped() -> None:
    assert pointer("metadata", "labels", "demo.io/a~b") == "/metadata/labels/demo.io~1a~0b"
    assert pointer() == ""


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
