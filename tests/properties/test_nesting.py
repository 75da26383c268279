"""A page with objects of any depth is split where a real parser would split it."""

from __future__ import annotations

import json

import hypothesis.strategies as st
from hypothesis import given

from controller.api.objects import JSON, Key
from controller.kube.decode import split_items

VALUES = st.recursive(
    st.none() | st.text(alphabet='a"\\\\{}[],:') | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='a"{]'), inner, max_size=3),
)


@given(
    value=VALUES,
    levels=st.lists(st.sampled_from([0, 1, 31, 700, 10_001]), min_size=1, max_size=3),
    width=st.sampled_from([1, 2, 3]),
)
def test_a_page_is_split_as_by_a_real_parser(value: JSON, levels: list[int], width: int) -> None:
    objects = []
    for number, depth in enumerate(levels):
        text = json.dumps(value)
        for level in range(depth):
            text = f"[{','.join([text, '0', '[]'][:width])}]" if level % 3 else f'{{"a": {text} , "b":"}}"}}'
        objects.append(f'{{"spec":{text},"metadata":{{"name":"{number}","namespace":"ns"}}, "more":[{text}]}}')
    body = f'{{"items":[{" ,".join(objects)}],"metadata":{{"continue":"next"}}}}'.encode()
    token, items = split_items(body)
    assert token == "next"
    assert [key for key, _ in items] == [Key("ns", str(number)) for number in range(len(levels))]
    for (_, found), depth, sent in zip(items, levels, objects, strict=True):
        assert found == (None if depth > 10_000 else sent.encode())
