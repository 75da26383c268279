"""Bytes of the server to objects: lines, nesting, one bad object, and paths of resources."""

from __future__ import annotations

import gc
import itertools
import json

import msgspec
import pytest

from controller.api.objects import JSON, JSONObject, Key, Ref
from controller.kube.decode import UNREADABLE, Bookmark, Decoder, ErrorEvent, Lines, Malformed, Page, Seen
from controller.kube.requests import NODES, REVISIONS
from tests.beds.sample_kind import THINGS, Thing, bookmark, error_line, line, page, thing

decoder = Decoder(THINGS)
A = Key("default", "a")


RED = Seen(key=A, version="7", obj=Thing(name="a", uid="uid-a", version="7", size=1, color="red"))
GONE = Seen[Thing](key=A, version="8", obj=None)
SPACED = b"""{ "object": { "metadata": {"resourceVersion": "9", "name": "", "namespace": null},
 "spec": {"size": "x"} }, "type": "BOOKMARK" }"""


@pytest.mark.parametrize(
    ("raw", "event"),
    [
        (line("ADDED", thing("a", 7, color="red")), RED),
        (line("MODIFIED", thing("a", 7, color="red")), RED),
        (line("MODIFIED", thing("a", 8, size=0)), GONE),
        (line("DELETED", thing("a", 8)), GONE),
        (line("DELETED", thing("a", 8, size="big")), GONE),
        (bookmark(274), Bookmark(version="274")),
        (bookmark(274, end=True), Bookmark(version="274", initial_end=True)),
        (SPACED, Bookmark(version="9")),
    ],
    ids=["new", "changed", "not ours", "gone", "gone, unreadable", "bookmark", "end", "other order and spaces"],
)
def test_a_line_is_one_event(raw: bytes, event: object) -> None:
    assert decoder.line(raw) == event


@pytest.mark.parametrize(
    ("size", "field"), [("big", "spec.size"), (-1, "")], ids=["wrong type", "refused by the projection"]
)
def test_an_object_that_cannot_be_read_is_named_with_its_reason(size: JSON, field: str) -> None:
    event = decoder.line(line("MODIFIED", thing("a", 7, size=size)))
    assert isinstance(event, Malformed)
    assert (event.key, event.version) == (A, "7")
    assert "size" in event.reason
    assert event.field == field


def test_an_object_without_readable_metadata_is_malformed_without_a_name() -> None:
    event = decoder.line(b'{"type":"ADDED","object":{"metadata":{"name":5}}}')
    assert isinstance(event, Malformed)
    assert event.key == Key("", "")


def test_an_error_line_keeps_the_code_and_the_status() -> None:
    event = decoder.line(error_line(410, "Expired"))
    assert isinstance(event, ErrorEvent)
    assert event.status == 410
    assert b'"Expired"' in event.body


def test_an_event_of_a_later_kubernetes_is_malformed_not_fatal() -> None:
    assert isinstance(decoder.line(line("TELEPORTED", thing("a", 7))), Malformed)


def test_what_is_no_document_raises_and_a_page_may_be_null() -> None:
    with pytest.raises(msgspec.DecodeError):
        decoder.line(line("ADDED", thing("a"))[:-9])
    with pytest.raises(msgspec.DecodeError):
        decoder.page(b"<html>502</html>")
    assert decoder.page(b'{"metadata":{"resourceVersion":"9"},"items":null}').items == ()


def test_one_bad_object_does_not_spoil_its_page() -> None:
    got = decoder.page(page(thing("a", 3), thing("b", 4, size="big"), thing("c", 5), version=9, token="t"))
    assert [type(one) for one in got.items] == [Seen, Malformed, Seen]
    assert [(one.key.name, one.version) for one in got.items] == [("a", "3"), ("b", "4"), ("c", "5")]
    assert (got.version, got.token) == ("9", "t")


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


def test_lines_come_out_whole_however_the_bytes_are_cut() -> None:
    lines = [b"a", b"b\r", b"\x85 c"]  # nothing but a line feed ends a line
    data = b"".join(line + b"\n" for line in lines)
    for count in range(len(data)):
        for cuts in itertools.combinations(range(1, len(data)), count):
            splitter = Lines()
            pieces = [data[begin:end] for begin, end in itertools.pairwise((0, *cuts, len(data)))]
            assert [line for piece in pieces for line in splitter.feed(piece)] == lines, pieces
    assert Lines().feed(b"\none\n\ntw") == [b"one"], "neither empty nor unfinished ones"


KEY = Key("default", "deep")
FAR = (1_500, 2_500, 10_000)


def nested(levels: int) -> bytes:
    return b'{"f:a":' * levels + b"[]" + b"}" * levels


def deep(levels: int) -> bytes:
    """As the server writes it: sorted metadata, traps before the name, managedFields as deep as the spec."""
    return (
        b'{"apiVersion":"example.com/v1","kind":"Thing","metadata":{'
        b'"annotations":{"last":"{\\"metadata\\":{\\"name\\":\\"wrong\\"}}","name":"wrong","b":"]}\\\\"},'
        b'"managedFields":[{"fieldsV1":' + nested(levels) + b',"name":"wrong"}],'
        b'"name":"deep","namespace":"default","resourceVersion":"7"},'
        b'"spec":{"size":1,"extra":' + nested(levels) + b',"color":"red"},"status":{"name":"wrong"}}'
    )


def event(kind: bytes, levels: int) -> bytes:
    return b'{"type":"' + kind + b'","object":' + deep(levels) + b"}\n"


def malformed(item: object) -> None:
    assert isinstance(item, Malformed)
    assert (item.key, item.version) == (KEY, "7")
    assert "recursion" in item.reason


@pytest.mark.parametrize("levels", FAR)
@pytest.mark.parametrize("kind", [b"ADDED", b"MODIFIED"])
def test_an_object_that_nests_too_deep_is_malformed_under_its_own_name(kind: bytes, levels: int) -> None:
    malformed(decoder.line(event(kind, levels)))


@pytest.mark.parametrize("levels", [900, *FAR])
def test_a_deep_object_can_go(levels: int) -> None:
    assert decoder.line(event(b"DELETED", levels)) == Seen[Thing](key=KEY, version="7", obj=None)


@pytest.mark.parametrize("levels", FAR)
def test_a_page_with_a_deep_object_keeps_the_others(levels: int) -> None:
    a, b = (line("ADDED", thing(name))[len(b'{"type":"ADDED","object":') : -2] for name in "ab")
    body = (
        b'{"kind":"ThingList","metadata":{"continue":"next","resourceVersion":"9"},"items":['
        + b" , ".join((a, deep(levels), b))
        + b"]}"
    )
    page: Page[Thing] = decoder.page(body)
    first, bad, last = page.items
    assert [(one.key.name, one.obj and one.obj.name) for one in (first, last) if isinstance(one, Seen)] == [
        ("a", "a"),
        ("b", "b"),
    ]
    malformed(bad)
    assert (page.version, page.token) == ("9", "next")


@pytest.mark.parametrize("levels", FAR)
def test_a_single_object_that_nests_too_deep_is_unreadable(levels: int) -> None:
    with pytest.raises(UNREADABLE):
        decoder.single(deep(levels))


def test_nine_hundred_levels_are_read() -> None:
    seen = decoder.line(event(b"ADDED", 900))
    assert isinstance(seen, Seen), seen
    assert seen.obj is not None
    assert seen.obj.color == "red"


def test_a_deep_object_without_a_readable_name_is_malformed_without_one() -> None:
    got = decoder.line(event(b"ADDED", 2_500).replace(b'"name":"deep"', b'"name":5'))
    assert isinstance(got, Malformed)
    assert got.key == Key("", "")


def test_a_deep_error_is_still_an_error() -> None:
    got = decoder.line(b'{"type":"ERROR","object":{"code":410,"details":' + nested(2_500) + b"}}")
    assert isinstance(got, ErrorEvent)


@pytest.mark.parametrize("cut", [2, 3, 50, 40_000])
def test_half_a_deep_line_is_unreadable(cut: int) -> None:
    with pytest.raises(UNREADABLE):
        decoder.line(event(b"ADDED", 2_500)[:-cut])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (THINGS.collection(), "/apis/example.com/v1/things"),
        (THINGS.collection("infra"), "/apis/example.com/v1/namespaces/infra/things"),
        (THINGS.path(Key("infra", "a")), "/apis/example.com/v1/namespaces/infra/things/a"),
        (THINGS.path(Key("infra", "a"), "status"), "/apis/example.com/v1/namespaces/infra/things/a/status"),
        (NODES.collection("ignored"), "/api/v1/nodes"),
        (NODES.path(Key("", "n1")), "/api/v1/nodes/n1"),
        (NODES.path(Ref(namespace="", name="../../x?y#z", uid="")), "/api/v1/nodes/..%2F..%2Fx%3Fy%23z"),
    ],
)
def test_paths_are_those_of_the_api_and_names_cannot_leave_them(path: str, expected: str) -> None:
    assert path == expected


def test_people_read_kubectls_words() -> None:
    assert THINGS.describe(Key("infra", "a"), "status") == "things.example.com/status infra/a"
    assert NODES.describe(Key("", "n1")) == "nodes n1"
