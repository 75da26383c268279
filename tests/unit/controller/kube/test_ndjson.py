from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from controller.kube.ndjson import Lines


@given(
    lines=st.lists(st.binary(min_size=1, max_size=30).map(lambda b: b.replace(b"\n", b"x")), max_size=12),
    cuts=st.lists(st.integers(min_value=1, max_value=20)),
)
def test_lines_come_out_whole_however_the_bytes_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    splitter, out = Lines(), list[bytes]()
    for cut in [*cuts, len(data)]:
        if data:
            out += splitter.feed(data[:cut])
            data = data[cut:]
    assert out == lines


def test_a_line_that_was_cut_off_never_comes_out() -> None:
    assert Lines().feed(b"one\ntw") == [b"one"]


def test_empty_lines_between_documents_are_left_out() -> None:
    assert Lines().feed(b"\none\n\ntwo\n") == [b"one", b"two"]
