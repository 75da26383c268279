"""Lines of a stream out of the pieces in which they come."""

from __future__ import annotations

import itertools

from controller.kube.ndjson import Lines


def test_lines_come_out_whole_however_the_bytes_are_cut() -> None:
    lines = [b"a", b"b\r", b"\x85 c"]  # nothing but a line feed ends a line
    data = b"".join(line + b"\n" for line in lines)
    for count in range(len(data)):
        for cuts in itertools.combinations(range(1, len(data)), count):
            splitter = Lines()
            pieces = [data[begin:end] for begin, end in itertools.pairwise((0, *cuts, len(data)))]
            assert [line for piece in pieces for line in splitter.feed(piece)] == lines, pieces


def test_a_line_that_was_cut_off_never_comes_out() -> None:
    assert Lines().feed(b"one\ntw") == [b"one"]


def test_empty_lines_between_documents_are_left_out() -> None:
    assert Lines().feed(b"\none\n\ntwo\n") == [b"one", b"two"]
