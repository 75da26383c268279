"""A document is taken apart where a real parser would, without being read."""

from __future__ import annotations

import json

import hypothesis.strategies as st
from hypothesis import given

from controller.api.objects import JSON
from controller.kube import decode

VALUES = st.recursive(
    st.none() | st.text(alphabet='a"\\\\{}[],:') | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='a"{]'), inner, max_size=3),
)


@given(value=VALUES, levels=st.sampled_from([0, 1, 31, 32, 33, 100]), width=st.sampled_from([1, 2, 3]))
def test_members_and_elements_are_those_of_a_real_parser(value: JSON, levels: int, width: int) -> None:
    text = json.dumps(value)
    for level in range(levels):
        text = f"[{','.join([text, '0', '[]'][:width])}]" if level % 3 else f'{{"a": {text} , "b":"}}"}}'
    whole = f'{{"x":{text},"y,":[{text},{text}],"z":1}}'.encode()
    assert decode.members(whole) == {"x": text.encode(), "y,": f"[{text},{text}]".encode(), "z": b"1"}
    assert decode.elements(decode.members(whole)["y,"]) == [text.encode()] * 2
