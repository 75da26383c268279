"""Objects that nest deeper than any recursive decoder can follow."""

from __future__ import annotations

import pytest

from controller.api.meta import Key
from controller.kube import nesting
from controller.kube.decode import Decoder, ErrorEvent, Malformed, Page, Seen
from controller.kube.raw_documents import UNREADABLE
from tests.beds.sample_kind import THINGS, Thing, line, thing

decoder = Decoder(THINGS)
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


def test_brackets_commas_and_quotes_in_strings_count_for_nothing() -> None:
    assert nesting.members(rb' { "a,\"}" : "]}{[,\\" , "b":{"c":[1,2]},"d" :null } ') == {
        'a,"}': rb'"]}{[,\\"',
        "b": b'{"c":[1,2]}',
        "d": b"null",
    }
    assert nesting.elements(b'[ {"a":[1,2]} ,"x,y",3]') == [b' {"a":[1,2]} ', b'"x,y"', b"3"]
    assert nesting.members(b"{}") == {}
    assert nesting.elements(b"[ ]") == []


@pytest.mark.parametrize("document", [b"", b"[]", b"null", b'{"a":1', b'{"a', b"{1}"])
def test_what_is_no_object_is_refused(document: bytes) -> None:
    with pytest.raises(ValueError, match=r"expected|cut off|no name"):
        nesting.members(document)


def test_one_member_is_found_without_a_look_at_what_stands_behind_it() -> None:
    assert nesting.member(b'{"a":1,"b":[2],"c":half', "b") == b"[2]"
    with pytest.raises(KeyError):
        nesting.member(b'{"a":1}', "b")
