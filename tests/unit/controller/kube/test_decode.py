"""What a line or a page of the API server becomes: an object, a deletion, a bookmark or an error."""

from __future__ import annotations

import gc
import json

import msgspec
import pytest

from controller.api.base import JSON, JSONObject
from controller.api.meta import Key
from controller.kube.decode import Bookmark, Decoder, ErrorEvent, Malformed, Seen
from controller.kube.kinds import REVISIONS
from tests.beds.sample_kind import THINGS, Thing, bookmark, error_line, line, page, thing

decoder = Decoder(THINGS)
A = Key("default", "a")


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED"])
def test_an_object_of_ours_arrives_as_its_record(kind: str) -> None:
    seen = decoder.line(line(kind, thing("a", 7, color="red")))
    assert seen == Seen(key=A, version="7", obj=Thing(name="a", uid="uid-a", version="7", size=1, color="red"))


def test_a_foreign_object_is_dropped_and_its_version_still_told() -> None:
    assert decoder.line(line("MODIFIED", thing("a", 7, size=0))) == Seen(key=A, version="7", obj=None)


def test_a_deleted_object_is_gone_even_when_it_cannot_be_read() -> None:
    gone = Seen[Thing](key=A, version="8", obj=None)
    assert decoder.line(line("DELETED", thing("a", 8))) == gone
    assert decoder.line(line("DELETED", thing("a", 8, size="big"))) == gone


@pytest.mark.parametrize("size", ["big", -1], ids=["wrong type", "refused by the projection"])
def test_an_object_that_cannot_be_read_is_named_with_its_reason(size: JSON) -> None:
    event = decoder.line(line("MODIFIED", thing("a", 7, size=size)))
    assert isinstance(event, Malformed)
    assert (event.key, event.version) == (A, "7")
    assert "size" in event.reason


def test_an_object_without_readable_metadata_is_malformed_without_a_name() -> None:
    event = decoder.line(b'{"type":"ADDED","object":{"metadata":{"name":5}}}')
    assert isinstance(event, Malformed)
    assert event.key == Key("", "")


def test_a_bookmark_is_no_object_whatever_zero_values_come_with_it() -> None:
    assert decoder.line(bookmark(274)) == Bookmark(version="274")
    assert decoder.line(bookmark(274, end=True)) == Bookmark(version="274", initial_end=True)


def test_control_lines_are_known_in_any_order_of_fields_and_with_spaces() -> None:
    meta = b'{ "metadata": {"resourceVersion": "9", "name": "", "namespace": null}, "spec": {"size": "x"} }'
    assert decoder.line(b'{ "object": ' + meta + b', "type": "BOOKMARK" }') == Bookmark(version="9")


def test_an_error_line_keeps_the_code_and_the_status() -> None:
    event = decoder.line(error_line(410, "Expired"))
    assert isinstance(event, ErrorEvent)
    assert event.status == 410
    assert b'"Expired"' in event.body


def test_an_event_of_a_later_kubernetes_is_malformed_not_fatal() -> None:
    assert isinstance(decoder.line(line("TELEPORTED", thing("a", 7))), Malformed)


def test_half_a_line_raises() -> None:
    with pytest.raises(msgspec.DecodeError):
        decoder.line(line("ADDED", thing("a"))[:-9])


def test_a_page_has_items_version_and_token() -> None:
    got = decoder.page(page(thing("a", 3), thing("b", 4, size=0), version=9, token="next"))
    assert [(item.key.name, item.version) for item in got.items] == [("a", "3"), ("b", "4")]
    assert (got.version, got.token) == ("9", "next")


def test_one_bad_object_does_not_spoil_its_page() -> None:
    got = decoder.page(page(thing("a", 3), thing("b", 4, size="big"), thing("c", 5), version=9, token="t"))
    a, b, c = got.items
    assert isinstance(a, Seen)
    assert isinstance(b, Malformed)
    assert b.key.name == "b"
    assert isinstance(c, Seen)
    assert (got.version, got.token) == ("9", "t")


def test_a_page_may_have_null_for_items() -> None:
    assert decoder.page(b'{"metadata":{"resourceVersion":"9"},"items":null}').items == ()


def test_a_page_of_html_raises() -> None:
    with pytest.raises(msgspec.DecodeError):
        decoder.page(b"<html>502</html>")


def test_namespaces_are_stored_once() -> None:
    first, second = (decoder.line(line("ADDED", thing(name))) for name in "ab")
    assert isinstance(first, Seen)
    assert isinstance(second, Seen)
    assert first.key.namespace is second.key.namespace


def test_a_large_object_is_decoded_without_garbage_collections_in_between() -> None:
    """Each would go over all that is decoded already: a megabyte took longer than all else that the loop does."""
    template: JSONObject = {"annotations": {f"key-{number}": {} for number in range(50_000)}}
    data = {"spec": {"template": {"metadata": template}}}
    body = json.dumps({"metadata": {"name": "a"}, "revision": 1, "data": data}).encode()
    before = gc.get_stats()[0]["collections"]
    Decoder(REVISIONS).single(body)
    assert gc.get_stats()[0]["collections"] - before < 10
    assert gc.isenabled()
