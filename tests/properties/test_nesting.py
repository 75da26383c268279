"""A page with objects of any depth is split where a real parser would split it."""

from __future__ import annotations

import json

import hypothesis.strategies as st
import msgspec
from hypothesis import given

from controller.api.objects import JSON, Key, ObjectMeta, View
from controller.kube.decode import Decoder, Seen
from controller.kube.requests import Resource

VALUES = st.recursive(
    st.none() | st.text(alphabet='a"\\\\{}[],:') | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='a"{]'), inner, max_size=3),
)


class SpecView(View):
    metadata: ObjectMeta
    spec: msgspec.Raw


SPECS = Decoder(Resource(plural="things", wire=SpecView, project=lambda view: bytes(view.spec)))


@given(
    value=VALUES,
    levels=st.lists(st.sampled_from([0, 1, 31, 700, 10_001]), min_size=1, max_size=3),
    width=st.sampled_from([1, 2, 3]),
)
def test_a_page_is_split_as_by_a_real_parser(value: JSON, levels: list[int], width: int) -> None:
    objects, specs = [], list[str]()
    for number, depth in enumerate(levels):
        text = json.dumps(value)
        for level in range(depth):
            text = f"[{','.join([text, '0', '[]'][:width])}]" if level % 3 else f'{{"a": {text} , "b":"}}"}}'
        specs.append(text)
        objects.append(f'{{"spec":{text},"metadata":{{"name":"{number}","namespace":"ns"}}, "more":[{text}]}}')
    body = f'{{"items":[{" ,".join(objects)}],"metadata":{{"continue":"next"}}}}'.encode()
    page = SPECS.page(body)
    assert page.token == "next"
    assert [item.key for item in page.items] == [Key("ns", str(number)) for number in range(len(levels))]
    for item, depth, sent in zip(page.items, levels, specs, strict=True):
        assert (item.obj if isinstance(item, Seen) else None) == (None if depth > 10_000 else sent.encode())
